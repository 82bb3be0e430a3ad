from __future__ import annotations

from collections import Counter
from typing import Any

import networkx as nx
import numpy as np
import pytest
from problems import (
    WITHOUT_GRAPHS,
    Recorded,
    Recording,
    from_network,
    gaussian,
    integers,
    named,
    random_problem,
    repeatable,
)

from jtsolve.backends.brute import Brute, chordal_trees, meets_constraints
from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.forward.backend import Forward
from jtsolve.backends.search.backend import LocalSearch
from jtsolve.backends.search.moves import MOVES, MoveProposals, join, relocate, replace, split
from jtsolve.backends.search.scores import NoisyScores
from jtsolve.backends.support.mutable_tree import Change, MutableTree
from jtsolve.backends.support.starts import KnownTree
from jtsolve.core.problem import Constraints, Problem, ProblemFeature
from jtsolve.core.result import Status, Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import SparseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import varset
from jtsolve.solving import solve


def search(**options: Any) -> LocalSearch:
    return LocalSearch(**{"start": (Forward(),), **options})


def edgeless(n: int) -> JunctionTree:
    return JunctionTree(n, tuple(1 << v for v in range(n)), tuple((v, v + 1) for v in range(n - 1)))


def parts(tree: MutableTree) -> tuple[dict[int, int], dict[int, dict[int, int]]]:
    return dict(tree.cliques), {node: dict(adjacent) for node, adjacent in tree.adjacent.items()}


# Moves.


@pytest.mark.parametrize(("n", "width", "moves"), [(5, 5, 500), (10, 3, 700), (14, 4, 700), (9, 2, 300)])
def test_random_moves_keep_the_graph_chordal_and_narrow_and_their_gains_are_true(
    n: int, width: int, moves: int
) -> None:
    scores, random = gaussian(n, n, width), repeatable(n)
    known = NoisyScores(scores, random)
    by = MoveProposals(random, width, known.partners(3) if n != 9 else [])
    tree = MutableTree(edgeless(n))
    before, made = tree.frozen(), Counter[str]()
    while made.total() < moves:
        tree.move_tree_edge(random)
        assert tree.frozen() == before
        kind = random.choice(MOVES)
        move = kind(tree, by)
        if move is None:
            continue
        made[kind.__name__] += 1
        known.fetch([*move.plus, *move.minus])
        tree.apply(move.change)
        after = tree.frozen()
        graph = after.to_graph()
        assert nx.is_chordal(graph)
        assert {varset(clique) for clique in nx.chordal_graph_cliques(graph)} == set(after.cliques)
        assert after.treewidth < width
        gain = after.score(scores) - before.score(scores)
        assert known.gain(move.plus, move.minus) == pytest.approx(gain, abs=1e-9)
        assert all(
            separator == tree.cliques[node] & tree.cliques[other]
            for node, adjacent in tree.adjacent.items()
            for other, separator in adjacent.items()
        )
        if random.randrange(4):
            before = after
        else:
            tree.undo()
            assert tree.frozen() == before
    assert set(made) == {kind.__name__ for kind in MOVES}


def test_every_chordal_graph_is_reached() -> None:
    random = repeatable(1)
    by = MoveProposals(random, 4, [])
    tree = MutableTree(edgeless(4))
    seen = {tree.frozen()}
    for _ in range(6000):
        tree.move_tree_edge(random)
        move = random.choice(MOVES)(tree, by)
        if move is not None:
            tree.apply(move.change)
            seen.add(tree.frozen())
    assert len(seen) == len(list(chordal_trees(4))) == 61


def test_an_undone_move_leaves_all_as_it_was() -> None:
    tree = MutableTree(JunctionTree(5, (0b00011, 0b00110, 0b01100, 0b10100), ((0, 1), (1, 2), (1, 3))))
    before = parts(tree)
    tree.apply(Change({0: 0b00010}))  # merged into its neighbour
    assert len(tree.cliques) == 3
    tree.undo()
    assert parts(tree) == before
    tree.apply(Change(fresh=0b01110, cut=((1, 2),), links=(1, 2)))  # swallows both
    assert sorted(tree.cliques.values()) == [0b00011, 0b01110, 0b10100]
    tree.undo()
    assert parts(tree) == before


def test_moves_that_do_not_exist_are_not_made() -> None:
    random = repeatable(0)
    by = MoveProposals(random, 2, [])
    alone = MutableTree(JunctionTree(1, (1,), ()))
    assert all(kind(alone, by) is None for kind in MOVES)
    alone.move_tree_edge(random)
    full = MutableTree(JunctionTree(3, (0b011, 0b110), ((0, 1),)))
    assert join(full, by) is None
    star = MutableTree(
        JunctionTree(16, tuple(1 | 1 << v for v in range(1, 16)), tuple((0, v) for v in range(1, 15)))
    )
    for _ in range(40):
        for kind in (relocate, replace):
            move = kind(star, by)
            assert move is None or len(move.change.masks) <= 12
    triangles = MutableTree(JunctionTree(4, (0b0111, 0b1110), ((0, 1),)))
    found = [split(triangles, by) for _ in range(40)]
    assert any(move is None for move in found)  # the edge that both hold may not go
    assert any(move is not None for move in found)


def test_a_holder_is_found_after_the_known_one_is_removed() -> None:
    tree = MutableTree(JunctionTree(3, (0b011, 0b110), ((0, 1),)))
    assert tree.holder(0) == 0
    tree.apply(Change({0: 0b010}, 0b101, (), (1,)))
    assert tree.cliques[tree.holder(0)] & 1


# Scores.


def test_scores_that_are_forgotten_are_looked_up_again() -> None:
    scores = gaussian(0, 6, 3)
    known = NoisyScores(scores, repeatable(0), most=3)
    for masks in ([0b11, 0b101, 0b111], [0b1011, 0b110], [0b11]):
        known.fetch(masks)
        assert known.gain(masks, []) == pytest.approx(sum(scores.score(mask) for mask in masks))


def test_noise_is_the_same_for_a_set_until_it_is_drawn_again() -> None:
    known = NoisyScores(gaussian(0, 4, 3), repeatable(0))
    assert known.noise([0b11], []) == 0
    known.perturb(2.0)
    first = known.noise([0b11], [])
    assert first != 0
    assert known.noise([0b11], [0b110]) + known.noise([0b110], []) == pytest.approx(first)
    assert known.noise([0b1], [0]) == 0
    known.perturb(2.0)
    assert known.noise([0b11], []) != first


def test_partners_are_ranked_by_the_gain_of_their_edge() -> None:
    table = dict.fromkeys((1, 2, 4), 0.0) | {0b011: 1.0, 0b101: 2.0, 0b110: -1.0}
    assert NoisyScores(SparseScores(3, table), repeatable(0)).partners(5) == [[2, 1], [0, 2], [0, 1]]
    without = NoisyScores(SparseScores(3, {0b001: 0.0, 0b011: 1.0}), repeatable(0))
    assert without.partners(1) == [[1], [0], [0]]


# The backend.

METHODS: list[dict[str, Any]] = [{}, {"method": "tabu"}]


@pytest.mark.parametrize("options", METHODS, ids=str)
def test_finds_the_optimum_of_small_networks(options: dict[str, Any]) -> None:
    found = 0
    for seed in range(4):
        problem = named(from_network(seed, 8, 3))
        optimum = solve(problem, DynamicProgramming()).score
        result = solve(problem, search(patience=20.0, **options))
        assert optimum is not None
        assert result.score is not None
        assert result.stop is Stop.FINISHED
        found += result.score == pytest.approx(optimum)
    assert found >= 2


@pytest.mark.parametrize("feature", WITHOUT_GRAPHS, ids=lambda feature: feature.value)
def test_keeps_every_constraint_and_comes_near_the_optimum(feature: ProblemFeature) -> None:
    found = feasible = 0
    for seed in range(12):
        problem = random_problem(seed, 5, frozenset({feature}))
        optimum = solve(problem, Brute()).bound
        outcome = search(steps=5000).solve(problem, Limits(seed=seed), recording := Recording())
        assert all(meets_constraints(problem, tree) for tree in recording.trees)
        if outcome.tree is None:
            continue
        feasible += 1
        score = outcome.tree.score(problem.scores)
        assert score <= optimum + 1e-9
        found += score == pytest.approx(optimum)
    assert feasible >= 3
    assert found >= feasible // 2


@pytest.mark.parametrize("seed", [2, 7, 8])
def test_few_variables_and_cliques_get_enough_moves_to_find_the_optimum(seed: int) -> None:
    problem = Problem(named(gaussian(seed, 8)).variables, gaussian(seed, 8), Constraints(max_cliques=2))
    score, every = problem.scores.score, (1 << 8) - 1
    pairs = ((a, b) for a in range(every) for b in range(a) if a | b == every)
    best = max(score(every), *(score(a) + score(b) - score(a & b) for a, b in pairs))
    result = solve(problem, search(method="tabu"), Run(Limits(threads=1)))
    assert result.score == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("options", METHODS, ids=str)
def test_is_never_worse_than_its_start_and_reports_its_result(options: dict[str, Any]) -> None:
    problem = named(from_network(5, 16, 3))
    start = Forward().solve(problem, Limits(), Recording()).tree
    recording = Recording()
    outcome = search(start=(Forward(),), steps=6000, **options).solve(problem, Limits(), recording)
    assert start is not None
    assert outcome.stop is Stop.STEPS
    assert outcome.stats["proposed"] == 6000
    scores = [tree.score(problem.scores) for tree in recording.trees]
    assert outcome.tree in recording.trees
    assert outcome.tree.score(problem.scores) == max(scores) >= start.score(problem.scores)


def test_a_seed_and_a_step_limit_fix_the_answer() -> None:
    problem = named(integers(3, 14, 3))
    first, again, other = (
        search(steps=3000, start=(KnownTree(edgeless(14)),)).solve(problem, Limits(seed=seed), Recording())
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first.stats != other.stats


def test_a_stop_ends_it_soon() -> None:
    problem = named(from_network(0, 16, 3))
    recording = Recording(patience=40, reason=Stop.INTERRUPTED)
    outcome = search().solve(problem, Limits(), recording)
    assert outcome.stop is Stop.INTERRUPTED
    assert outcome.tree is not None
    assert recording.asked < 60


def test_only_scores_of_permitted_sizes_are_read() -> None:
    lazy = Recorded(gaussian(0, 12, 5))
    problem = named(lazy, Constraints(max_treewidth=2))
    assert search(steps=2000).solve(problem, Limits(), Recording()).tree is not None
    assert lazy.largest == 3


def test_hundreds_of_variables_without_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Chain:
        """Scores under which the best tree is a path."""

        n, max_size = 600, 3

        def score(self, mask: int) -> float:
            return float((mask & mask >> 1).bit_count()) - 0.25 * max(0, mask.bit_count() - 2)

        def batch(self, sets: Any) -> Any:
            return np.array([self.score(varset(row)) for row in sets.tolist()])

        def extremes(self) -> tuple[float, float]:
            return -1.0, 2.0

    class Nothing:
        """A start without edges."""

        name, capabilities = "nothing", Forward().capabilities

        def estimate(self, problem: Problem, limits: Limits) -> Any:
            return Forward().estimate(problem, limits)

        def solve(self, problem: Problem, limits: Limits, report: Any) -> Any:  # noqa: ARG002
            from jtsolve.core.result import Outcome

            return Outcome(edgeless(problem.n))

    def refuse(*_: object) -> None:
        pytest.fail("the pairs were scored")

    monkeypatch.setattr(NoisyScores, "partners", refuse)
    problem = named(Chain())
    outcome = search(start=(Nothing(),), steps=20000).solve(problem, Limits(), Recording())
    assert outcome.tree is not None
    assert outcome.tree.score(problem.scores) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": ()}, "no backend to start from"),
        ({"patience": 0.0}, "patience"),
        ({"steps": 0}, "steps"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        search(**options)


def test_a_missing_first_tree_is_noted() -> None:
    # On four variables, a cycle of required edges and both chords forbidden: no chordal graph.
    cycle = frozenset({0b0011, 0b0110, 0b1100, 0b1001})
    problem = named(
        gaussian(0, 4), Constraints(required_edges=cycle, forbidden_edges=frozenset({0b0101, 0b1010}))
    )
    result = solve(problem, search())
    assert result.status is Status.UNKNOWN
    assert result.stats["note"] == "no start gave a tree"
