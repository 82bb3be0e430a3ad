from __future__ import annotations

from itertools import combinations
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from problems import (
    WITHOUT_GRAPHS,
    Recording,
    from_data,
    from_network,
    gaussian,
    integers,
    named,
    random_problem,
    repeatable,
    small_problems,
)

from jtsolve.backends.brute import Brute, meets_constraints
from jtsolve.backends.chowliu import ChowLiu
from jtsolve.backends.ktree import KTree
from jtsolve.core.problem import Constraints, Feature, Problem
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import SparseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, is_subset, members, subsets


def naive(problem: Problem, first: int) -> JunctionTree:
    """The oracle: one growth without constraints, every pair tried at every step."""
    scores = problem.scores
    families: list[tuple[int, VarSet]] = [(first, 0)]
    left = [v for v in range(problem.n) if v != first]

    def gain(v: int, separator: VarSet) -> float:
        return scores.score(separator | 1 << v) - scores.score(separator) - scores.score(1 << v)

    while left:
        within = {inner for v, parents in families for inner in subsets(parents | 1 << v)}
        small = sorted(inner for inner in within if inner.bit_count() < problem.max_clique_size)
        v, separator = min(((v, S) for v in left for S in small), key=lambda pair: (-gain(*pair), *pair))
        families.append((v, separator))
        left.remove(v)
    return JunctionTree.from_families(families)


def firsts(problem: Problem) -> list[int]:
    """Returns the first vertices in the order of seed 0."""
    order = list(range(problem.n))
    repeatable(0).shuffle(order)
    return order


def test_equals_the_naive_growth() -> None:
    for seed in range(60):
        n = 2 + seed % 6
        problem = named(integers(seed, n, 1 + seed % n))
        outcome = KTree(steps=1).solve(problem, Limits(), Recording())
        assert outcome.tree == naive(problem, firsts(problem)[0]), seed


def test_takes_the_best_of_all_growths() -> None:
    for seed in range(12):
        problem = named(integers(seed, 7, 3))
        best = max(naive(problem, first).score(problem.scores) for first in range(7))
        outcome = KTree().solve(problem, Limits(), Recording())
        assert outcome.tree is not None
        assert outcome.tree.score(problem.scores) == best
        assert outcome.stats["growths"] == 7


def test_is_optimal_at_treewidth_one() -> None:
    for seed in range(12):
        problem = named(gaussian(seed, 15, 2))
        best = ChowLiu().solve(problem, Limits(), Recording()).bound
        outcome = KTree(steps=1).solve(problem, Limits(), Recording())
        assert outcome.tree is not None
        assert outcome.tree.score(problem.scores) == pytest.approx(best, abs=1e-9)


@settings(max_examples=150, deadline=None)
@given(small_problems())
def test_returns_trees_that_meet_everything_or_none(problem: Problem) -> None:
    report = Recording()
    outcome = KTree().solve(problem, Limits(), report)
    assert outcome.bound == inf
    assert outcome.stop is Stop.FINISHED
    for tree in [*report.trees, *([outcome.tree] if outcome.tree else [])]:
        assert meets_constraints(problem, tree)
    if outcome.tree is not None:
        assert Brute().solve(problem, Limits(), Recording()).bound >= outcome.tree.score(problem.scores)


@pytest.mark.parametrize("feature", WITHOUT_GRAPHS, ids=lambda feature: feature.value)
def test_finds_trees_under_every_constraint(feature: Feature) -> None:
    feasible = missed = 0
    for seed in range(40):
        problem = random_problem(seed, 5, frozenset({feature}))
        outcome = KTree().solve(problem, Limits(), Recording())
        if Brute().solve(problem, Limits(), Recording()).bound > -inf:
            feasible += 1
            missed += outcome.tree is None
    assert feasible >= 10
    assert missed <= feasible // 10


@pytest.mark.parametrize("width", [1, 2, 3])
def test_reaches_maximal_junction_trees(width: int) -> None:
    constraints = Constraints(max_treewidth=width, max_separator_size=width, min_separator_size=width)
    problem = named(gaussian(width, 12, 4), constraints)
    outcome = KTree().solve(problem, Limits(), Recording())
    assert outcome.tree is not None
    assert {clique.bit_count() for clique in outcome.tree.cliques} == {width + 1}


def test_joins_the_ends_of_required_edges() -> None:
    found = 0
    for seed in range(30):
        random = repeatable(seed)
        pairs = [1 << u | 1 << v for u, v in combinations(range(9), 2)]
        edges = frozenset(random.sample(pairs, random.randint(1, 9)))
        problem = named(gaussian(seed, 9, 4), Constraints(required_edges=edges))
        outcome = KTree().solve(problem, Limits(), Recording())
        if outcome.tree is None:
            assert "required" in outcome.stats["note"]  # only filling them up can fail
            continue
        found += 1
        assert all(any(is_subset(edge, clique) for clique in outcome.tree.cliques) for edge in edges)
    assert found >= 20


def test_never_claims_a_required_triangle_at_treewidth_one() -> None:
    constraints = Constraints(required_edges=frozenset({0b011, 0b101, 0b110}), max_treewidth=1)
    outcome = KTree().solve(named(gaussian(0, 4), constraints), Limits(), Recording())
    assert outcome.tree is None
    assert outcome.bound == inf


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_keeps_room_for_all_variables_under_max_cliques(most: int) -> None:
    problem = named(from_network(most, 9, 9), Constraints(max_cliques=most))
    outcome = KTree().solve(problem, Limits(), Recording())
    assert outcome.tree is not None
    assert len(outcome.tree.cliques) <= most


def test_grows_what_may_not_stay_as_it_is() -> None:
    # No single variable has a score: all must be joined, and {B} may not be a separator.
    table = {0b0011: 1.0, 0b1100: 1.0, 0b0110: 0.5}
    outcome = KTree().solve(named(SparseScores(4, table)), Limits(), Recording())
    assert outcome.tree == JunctionTree(4, (0b0011, 0b1100), ((0, 1),))


def test_gives_no_tree_where_every_growth_gets_stuck() -> None:
    outcome = KTree().solve(named(SparseScores(2, {0b01: 1.0})), Limits(), Recording())
    assert outcome.tree is None
    assert outcome.stats == {"growths": 2, "without_tree": 2}


def test_ends_by_steps_and_by_patience() -> None:
    problem = named(from_network(3, 30, 3))
    full = KTree(patience=30).solve(problem, Limits(), Recording())
    assert (full.stats["growths"], full.stop) == (30, Stop.FINISHED)
    few = KTree(steps=4).solve(problem, Limits(), Recording())
    assert (few.stats["growths"], few.stop) == (4, Stop.STEPS)
    patient = KTree(patience=3).solve(problem, Limits(), Recording())
    assert patient.stats["growths"] < 30
    assert patient.stop is Stop.FINISHED


@pytest.mark.parametrize("option", [{"steps": 0}, {"patience": 0}])
def test_numbers_below_one_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        KTree(**option)


@pytest.mark.parametrize("patience", [0, 1, 5, 9, 20, 40, 80, 160])
def test_stops_with_the_tree_at_hand(patience: int) -> None:
    problem = named(from_network(7, 8, 4))
    outcome = KTree().solve(problem, Limits(), Recording(patience, Stop.INTERRUPTED))
    assert outcome.tree is not None
    assert meets_constraints(problem, outcome.tree)
    assert outcome.stop is Stop.INTERRUPTED


def test_has_nothing_to_show_if_stopped_before_a_tree_is_whole() -> None:
    problem = named(gaussian(0, 8, 4), Constraints(min_separator_size=2))
    assert KTree().solve(problem, Limits(), Recording(0, Stop.TIME)).tree is None
    first = Recording()
    KTree(steps=1).solve(problem, Limits(), first)
    later = KTree().solve(problem, Limits(), Recording(first.asked + 5, Stop.TIME))
    assert later.tree == first.trees[0]  # the second growth is not shown half done


def test_asks_often_where_there_are_many_separators() -> None:
    problem = named(from_data(0, 12))
    for patience in range(3, 60, 7):
        report = Recording(patience, Stop.TIME)
        KTree().solve(problem, Limits(), report)
        assert report.asked <= patience + 20


def test_reports_better_and_better_trees() -> None:
    problem = named(from_data(1, 12, 4, rows=400))
    report = Recording()
    outcome = KTree().solve(problem, Limits(), report)
    scores = [tree.score(problem.scores) for tree in report.trees]
    assert scores == sorted(set(scores))
    assert outcome.tree == report.trees[-1]
    assert KTree().estimate(problem, Limits()).memory > 0


def test_is_repeatable_and_depends_on_the_seed() -> None:
    problem = named(from_network(5, 30, 3))
    outcomes = [KTree(steps=1).solve(problem, Limits(seed=seed), Recording()) for seed in (1, 1, 2, 3, 4)]
    assert outcomes[0] == outcomes[1]
    assert len({outcome.tree for outcome in outcomes}) > 1
    for seed in range(20):
        drawn = random_problem(seed, 6)
        first, second = (KTree().solve(drawn, Limits(), Recording()) for _ in range(2))
        assert first == second


def test_a_clique_larger_than_the_scores_is_never_asked_for() -> None:
    problem = named(gaussian(1, 6, 2), Constraints(max_treewidth=5))
    outcome = KTree().solve(problem, Limits(), Recording())
    assert outcome.tree is not None
    assert all(len(list(members(clique))) <= 2 for clique in outcome.tree.cliques)
