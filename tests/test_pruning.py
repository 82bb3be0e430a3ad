"""Pruning keeps every tree as good as the incumbent, and drops many sets of structured scores."""

from __future__ import annotations

from itertools import permutations
from math import inf, isinf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from problems import (
    FEATURES,
    Recorded,
    dense,
    from_data,
    from_network,
    gaussian,
    named,
    random_problem,
    repeatable,
    small_problems,
)

from jtsolve.backends.brute import chordal_trees, meets_constraints
from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.core import pruning
from jtsolve.core.problem import Constraints, Problem, ProblemFeature
from jtsolve.core.pruning import best_completions, prune
from jtsolve.core.scores import DenseScores, SparseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, members, subsets
from jtsolve.errors import InputError, LimitError
from jtsolve.io.instance import read_problem
from jtsolve.solving import solve

REGRESSIONS = Path(__file__).parent / "regressions"


def scores_of_trees(problem: Problem) -> dict[JunctionTree, float]:
    """The score of every tree; -inf if it breaks a constraint or lacks a score."""
    return {
        tree: tree.score(problem.scores) if meets_constraints(problem, tree) else -inf
        for tree in chordal_trees(problem.n)
    }


def require_valid(problem: Problem, incumbent: float) -> Problem:
    """Prunes, and requires that trees as good as the incumbent stay as they are, and that no tree is new."""
    pruned = prune(problem, incumbent).problem
    before, after = scores_of_trees(problem), scores_of_trees(pruned)
    for tree, score in before.items():
        assert after[tree] == score or (after[tree] == -inf and score < incumbent)
    assert isinstance(pruned.scores, SparseScores)
    assert pruned.constraints == problem.constraints
    assert pruned.names == problem.names
    for mask, score in pruned.scores.table.items():
        assert problem.scores.score(mask) == score
        for subset in subsets(mask):  # subsets of kept sets keep their scores
            assert pruned.scores.score(subset) == problem.scores.score(subset)
    return pruned


def require_valid_below(problem: Problem) -> bool:
    """Prunes at the optimum, at other trees' scores, and below; returns whether there is a tree at all."""
    found = sorted({score for score in scores_of_trees(problem).values() if not isinf(score)})
    for incumbent in {*found[-3:], *found[:1]}:
        require_valid(problem, incumbent)
        require_valid(problem, incumbent - 1.0)
    return bool(found)


@pytest.mark.parametrize("seed", range(120))
def test_all_optimal_trees_stay_without_constraints(seed: int) -> None:
    require_valid_below(random_problem(seed, 1 + seed % 4 if seed % 8 else 5))


@pytest.mark.parametrize("feature", FEATURES)
def test_all_optimal_trees_stay_under_every_constraint(feature: ProblemFeature) -> None:
    assert sum(
        require_valid_below(random_problem(seed, 2 + seed % 3, frozenset({feature}))) for seed in range(30)
    )


def test_all_optimal_trees_stay_under_several_constraints() -> None:
    features = FEATURES
    found = 0
    for seed in range(100):
        chosen = frozenset(repeatable(seed).sample(features, 3))
        found += require_valid_below(random_problem(seed, 2 + seed % 3, chosen))
    assert found > 20


@settings(max_examples=150, deadline=None)
@given(small_problems())
def test_all_optimal_trees_stay_with_ties(problem: Problem) -> None:
    require_valid_below(problem)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_rounding_drops_no_optimal_tree(seed: int, scale: float) -> None:
    own = 1e3 * scale * gaussian(seed, 4).values[[1, 2, 4, 8]]
    table = [
        scale * score - own[list(members(mask))].sum() for mask, score in enumerate(gaussian(seed, 4).values)
    ]
    require_valid_below(named(dense(4, 4, np.array(table))))


@pytest.mark.parametrize("seed", range(40))
def test_the_completions_are_those_of_the_recurrence(seed: int) -> None:
    problem = random_problem(seed, 4)
    n, filled = 4, pruning._filled(pruning._score_table(problem), 4)
    kept = np.random.default_rng(seed).random(1 << n) < 0.3
    pruning._close_downwards(kept, n)

    def best(placed: VarSet) -> float:
        if placed == (1 << n) - 1:
            return 0.0
        return max(
            best(placed | 1 << v)
            + max(
                (filled[p | 1 << v] - filled[p] for p in subsets(placed) if kept[p | 1 << v] and kept[p]),
                default=-inf,
            )
            for v in range(n)
            if not placed >> v & 1
        )

    expected = [best(placed) for placed in range(1 << n)]
    assert best_completions(filled, kept, n) == pytest.approx(np.array(expected), abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_structured_scores_lose_most_sets_and_keep_the_optimum(seed: int) -> None:
    problem = named(from_network(seed, 10, 4))
    best = solve(problem, DynamicProgramming())
    assert best.score is not None
    pruned = prune(problem, best.score).problem
    assert isinstance(pruned.scores, SparseScores)
    assert isinstance(problem.scores, DenseScores)
    assert len(pruned.scores.table) < problem.scores.values.size / 2
    again = solve(pruned, DynamicProgramming())
    assert again.score == pytest.approx(best.score, abs=1e-6)
    looser = prune(problem, best.score - 1e5).problem.scores
    assert isinstance(looser, SparseScores)
    assert set(looser.table) >= set(pruned.scores.table)


def test_rounds_after_the_first_drop_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0

    def counted(*arguments: object) -> object:
        nonlocal rounds
        rounds += 1
        return best_completions(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(pruning, "best_completions", counted)
    problem = named(from_data(0, 6))
    best = solve(problem, DynamicProgramming())
    assert best.score is not None
    pruned = prune(problem, best.score).problem
    assert rounds > 1
    at_the_end = rounds
    prune(pruned, best.score)
    assert rounds == at_the_end + 1  # nothing is left to drop


def test_a_set_without_a_score_may_lie_within_a_clique() -> None:
    table = {mask: -1.0 * mask.bit_count() for mask in (1, 2, 4, 8)} | {0b111: 5.0, 0b1001: 0.0}
    problem = named(SparseScores(4, table))
    pruned = require_valid(problem, 5.0 - (-1.0) + 0.0)
    assert isinstance(pruned.scores, SparseScores)
    assert {0b111, 0b1001, 0b1} <= set(pruned.scores.table)
    assert pruned.scores.score(0b11) == -inf


def test_sets_that_constraints_forbid_are_dropped() -> None:
    constraints = Constraints(
        forbidden_edges=frozenset({0b011}), forbidden_cliques=frozenset({0b110, 0b100}), max_treewidth=1
    )
    pruned = require_valid(named(gaussian(0, 3), constraints), -100.0)
    assert isinstance(pruned.scores, SparseScores)
    assert set(pruned.scores.table) == {0, 0b001, 0b010, 0b100, 0b101}


def test_the_incumbent_is_recorded() -> None:
    pruned = prune(named(gaussian(0, 3)), -100.0).problem
    assert pruned.provenance["pruned_below"] == -100.0


@pytest.mark.parametrize("score", [nan, inf, -inf])
def test_a_score_that_is_not_finite_is_refused(score: float) -> None:
    with pytest.raises(InputError, match="not a finite number"):
        prune(named(gaussian(0, 3)), score)


def test_a_score_beyond_every_tree_is_refused() -> None:
    with pytest.raises(InputError, match="no tree of the problem scores 1000"):
        prune(named(gaussian(0, 3)), 1000.0)


def test_a_problem_without_a_tree_is_refused() -> None:
    with pytest.raises(InputError, match="no tree of the problem"):
        prune(named(SparseScores(3, {1: 0.0, 2: 0.0})), -5.0)


def test_too_many_variables_are_refused() -> None:
    many = named(SparseScores(27, {1 << v: 0.0 for v in range(27)}))
    with pytest.raises(LimitError, match="at most 26 variables"):
        prune(many, 0.0)


def test_too_little_memory_is_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unread(Recorded):
        def batch(self, sets: object) -> Any:
            pytest.fail(f"the work has begun: {sets}")

    problem = named(Unread(gaussian(0, 5)))
    monkeypatch.setattr(pruning, "free_memory", lambda: pruning.predicted_memory(problem))
    with pytest.raises(LimitError, match="pruning 5 variables needs"):
        prune(problem, 0.0)


def test_pruning_as_for_bayesian_networks_loses_the_optimum() -> None:
    problem = read_problem(REGRESSIONS / "exclusive-or.json")
    scores, n = problem.scores, problem.n

    def gain(v: int, parents: VarSet) -> float:
        return scores.score(parents | 1 << v) - scores.score(parents)

    def kept(v: int, parents: VarSet) -> bool:
        return all(gain(v, fewer) < gain(v, parents) for fewer in subsets(parents) if fewer != parents)

    def expressible(tree: JunctionTree) -> bool:
        """Whether the families of the tree along some perfect order are all kept."""
        neighbours = [0] * n
        for u, v in tree.graph_edges:
            neighbours[u] |= 1 << v
            neighbours[v] |= 1 << u
        for order in permutations(range(n)):
            placed = [sum(1 << u for u in order[:position]) for position in range(n)]
            families = [(v, neighbours[v] & before) for v, before in zip(order, placed, strict=True)]
            if all(kept(v, p) for v, p in families) and _is_tree(families, tree):
                return True
        return False

    scored = scores_of_trees(problem)
    optimum = max(scored.values())
    assert optimum == problem.provenance["optimum"] == -1.0
    assert max(score for tree, score in scored.items() if expressible(tree)) == -3.0
    assert max(scores_of_trees(prune(problem, optimum).problem).values()) == optimum


def _is_tree(families: list[tuple[int, VarSet]], tree: JunctionTree) -> bool:
    try:
        return JunctionTree.from_families(families) == tree
    except ValueError:
        return False  # the order is not perfect
