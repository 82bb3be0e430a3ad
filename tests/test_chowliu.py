from __future__ import annotations

from dataclasses import replace
from itertools import count, pairwise
from math import inf

import numpy as np
import pytest
from problems import Recording, dense, draw_constraints, gaussian, integers, named, repeatable, with_holes

from jtsolve.backends.brute import Brute
from jtsolve.backends.chowliu import ChowLiu
from jtsolve.core.problem import Constraints, Problem, ProblemFeature
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import SparseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.ml import MaximumLikelihood
from jtsolve.tables.table import DataTable

FOREST_FEATURES = sorted(ChowLiu().capabilities.features, key=lambda feature: feature.value)


def solved(problem: Problem) -> Outcome:
    return ChowLiu().solve(problem, Limits(), Recording())


def gains(n: int, edges: dict[int, float], rest: float = -1.0) -> Problem:
    """Returns a problem in which s({v}) = 0, so that the score of a pair is its gain."""
    table = {1 << v: 0.0 for v in range(n)}
    table |= {1 << u | 1 << v: rest for v in range(n) for u in range(v)}
    return named(SparseScores(n, table | edges))


@pytest.mark.parametrize("feature", [None, *FOREST_FEATURES])
def test_agrees_with_brute_force(feature: ProblemFeature | None) -> None:
    ran = infeasible = 0
    for seed in range(60):
        random = repeatable(seed)
        n = random.randint(1, 5)
        features = frozenset({feature} if feature else set()) | {random.choice(FOREST_FEATURES)}
        constraints = draw_constraints(random, n, features)
        table = integers(seed, n, min(n, 2), high=random.choice([1, 10**6]))
        scores = with_holes(seed, table, 0.4, singles=False) if seed % 3 == 0 else table
        problem = named(scores, constraints)
        if ChowLiu().capabilities.objections(problem):
            continue
        ran += 1
        expected = Brute().solve(problem, Limits(), Recording())
        found = solved(problem)
        assert found.bound == expected.bound
        assert (found.tree is None) == (expected.tree is None)
        infeasible += found.tree is None
        if found.tree is not None:
            assert found.tree.score(scores) == expected.bound
    assert ran >= 10


def test_drops_edges_of_no_gain_and_breaks_ties_by_number() -> None:
    outcome = solved(gains(4, {0b0011: 0.0, 0b0110: 2.0, 0b1010: 2.0, 0b1100: 2.0}))
    assert outcome.tree == JunctionTree(4, (0b0001, 0b0110, 0b1010), ((0, 1), (1, 2)))
    assert outcome.bound == 4.0


def test_demand_for_a_connected_graph_keeps_edges_that_lose() -> None:
    problem = gains(3, {0b011: -1.0, 0b101: -2.0, 0b110: -3.0})
    for constraints in (
        Constraints(min_separator_size=1),
        Constraints(forbidden_separators=frozenset({0})),
        Constraints(allowed_separators=frozenset({1, 2, 4})),
    ):
        outcome = solved(replace(problem, constraints=constraints))
        assert outcome.tree is not None
        assert outcome.tree.cliques == (0b011, 0b101)
        assert outcome.bound == -3.0
    unconnectable = replace(
        problem,
        constraints=Constraints(min_separator_size=1, forbidden_cliques=frozenset({0b011, 0b101})),
    )
    assert solved(unconnectable) == Outcome(None, bound=-inf)


def test_required_edges_come_first_and_forbidden_ones_never() -> None:
    problem = gains(3, {0b011: -9.0, 0b101: 5.0, 0b110: 4.0})
    required = solved(replace(problem, constraints=Constraints(required_edges=frozenset({0b011}))))
    assert required.tree is not None
    assert required.tree.cliques == (0b011, 0b101)
    forbidden = solved(replace(problem, constraints=Constraints(forbidden_edges=frozenset({0b101}))))
    assert forbidden.tree is not None
    assert forbidden.tree.cliques == (0b001, 0b110)


@pytest.mark.parametrize(
    "constraints",
    [
        Constraints(required_edges=frozenset({0b011, 0b101, 0b110})),
        Constraints(required_edges=frozenset({0b011}), forbidden_cliques=frozenset({0b011})),
        Constraints(required_edges=frozenset({0b011}), max_treewidth=0),
    ],
)
def test_proves_required_edges_infeasible(constraints: Constraints) -> None:
    assert solved(replace(gains(3, {}), constraints=constraints)) == Outcome(None, bound=-inf)


@pytest.mark.parametrize(
    ("constraints", "word"),
    [
        (Constraints(max_treewidth=2), "max_treewidth"),
        (Constraints(max_treewidth=1, min_separator_size=2), "min_separator_size"),
        (Constraints(max_treewidth=1, max_separator_size=0), "max_separator_size"),
        (Constraints(max_treewidth=1, forbidden_separators=frozenset({0b010})), "'B'"),
        (Constraints(max_treewidth=1, allowed_separators=frozenset({0, 1, 2, 8})), "'C'"),
        (Constraints(max_treewidth=1, forbidden_cliques=frozenset({0b100})), "forbidden_cliques"),
        (Constraints(max_treewidth=1, max_cliques=2), "max_cliques"),
    ],
)
def test_refuses_all_but_forest_problems(constraints: Constraints, word: str) -> None:
    (objection,) = ChowLiu().capabilities.objections(named(gaussian(0, 4), constraints))
    assert word in objection


def test_refuses_variables_without_a_score() -> None:
    problem = named(SparseScores(2, {0b01: 0.0, 0b11: 1.0}))
    (objection,) = ChowLiu().capabilities.objections(problem)
    assert "'B'" in objection


@pytest.mark.parametrize(
    ("n", "constraints"),
    [
        (2, Constraints(max_separator_size=0, forbidden_separators=frozenset({0b10}), min_separator_size=2)),
        (2, Constraints(allowed_separators=frozenset())),
        (4, Constraints(max_treewidth=0, max_separator_size=0, forbidden_separators=frozenset({0b10}))),
        (4, Constraints(max_treewidth=1, min_separator_size=1, forbidden_cliques=frozenset({0b10}))),
        (4, Constraints(max_treewidth=1, required_edges=frozenset({6}), forbidden_cliques=frozenset({4}))),
        (4, Constraints(max_treewidth=1, max_separator_size=1, forbidden_separators=frozenset({0b11}))),
    ],
)
def test_accepts_constraints_that_do_not_matter_to_a_forest(n: int, constraints: Constraints) -> None:
    problem = named(integers(1, n), constraints)
    assert ChowLiu().capabilities.objections(problem) == ()
    assert solved(problem).bound == Brute().solve(problem, Limits(), Recording()).bound


@pytest.mark.parametrize("patience", range(8))
def test_stops_with_a_forest_that_holds_the_required_edges(
    patience: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtsolve.backends.chowliu.thread_time", count().__next__)  # a second each time
    required = frozenset(0b11 << v for v in range(2, 7))
    problem = named(gaussian(3, 9, 2), Constraints(required_edges=required, forbidden_edges=frozenset({3})))
    report = Recording(patience, Stop.INTERRUPTED)
    outcome = ChowLiu().solve(problem, Limits(), report)
    assert outcome.stop is Stop.INTERRUPTED
    assert outcome.bound == inf
    assert outcome.tree is not None
    edges = set(outcome.tree.graph_edges)
    assert edges >= set(pairwise(range(2, 8)))
    assert (0, 1) not in edges
    best = solved(problem)
    assert outcome.tree.score(problem.scores) <= best.bound


def test_stops_without_a_tree_when_it_is_not_connected_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jtsolve.backends.chowliu.thread_time", count().__next__)  # a second each time
    problem = named(gaussian(3, 9, 2), Constraints(min_separator_size=1))
    ended = ChowLiu().solve(problem, Limits(), Recording(0, Stop.INTERRUPTED))
    assert ended == Outcome(None, stop=Stop.INTERRUPTED)
    # The first row of gains joins every variable to the first.
    assert ChowLiu().solve(problem, Limits(), Recording(1, Stop.INTERRUPTED)).tree is not None


def test_the_forest_is_whole_however_late_it_is() -> None:
    problem = named(gaussian(3, 9, 2), Constraints(min_separator_size=1))
    for stop in (Stop.TIME, Stop.INTERRUPTED):
        assert ChowLiu().solve(problem, Limits(), Recording(0, stop)) == solved(problem)


def test_accepts_many_variables_and_reports_progress() -> None:
    n = 600
    values = np.random.default_rng(1).standard_normal(count_bounded_subsets(n, 2))
    problem = named(dense(n, 2, values))
    report = Recording()
    outcome = ChowLiu().solve(problem, Limits(), report)
    assert outcome.tree is not None
    assert outcome.bound == outcome.tree.score(problem.scores)
    fractions = [call["done"] for call in report.calls if "done" in call]  # not the trees of a slow run
    assert fractions == sorted(fractions)
    assert len(fractions) == 2
    estimate = ChowLiu().estimate(problem, Limits())
    assert estimate.seconds < 1
    assert estimate.memory > 0


def test_agrees_with_kruskal_on_forty_variables() -> None:
    problem = named(integers(5, 40, 2))
    score = problem.scores.score
    ranked = sorted(
        ((score(1 << u | 1 << v) - score(1 << u) - score(1 << v), u, v) for v in range(40) for u in range(v)),
        reverse=True,
    )
    leader = list(range(40))
    best = sum(score(1 << v) for v in range(40))
    for gain, u, v in ranked:
        if gain > 0 and leader[u] != leader[v]:
            best += gain
            leader = [leader[u] if name == leader[v] else name for name in leader]
    assert solved(problem).bound == best


def test_accepts_scores_on_demand() -> None:
    codes = np.array([[0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    table = DataTable(("A", "B", "C"), (("0", "1"),) * 3, codes)
    problem = named(DataScores(table, MaximumLikelihood(), 2))
    outcome = ChowLiu().solve(problem, Limits(), Recording())
    assert outcome.tree is not None
    assert 0b011 in outcome.tree.cliques
