from __future__ import annotations

from math import inf

import numpy as np
import pytest
from problems import Recording, dense, gaussian, named

from jtsolve.backends.brute import Brute, chordal_trees, meets_constraints
from jtsolve.core.problem import Constraints
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import SparseScores
from jtsolve.core.tree import JunctionTree

PATH = JunctionTree(3, (0b011, 0b110), ((0, 1),))
APART = JunctionTree(3, (0b011, 0b100), ((0, 1),))


@pytest.mark.parametrize(("n", "count"), [(1, 1), (2, 2), (3, 8), (4, 61), (5, 822)])
def test_counts_all_labelled_chordal_graphs(n: int, count: int) -> None:
    trees = chordal_trees(n)
    assert len(trees) == count
    assert len({tree.graph_edges for tree in trees}) == count


def test_finds_the_planted_tree() -> None:
    # s is 0 except for {A,B} and {B,C}, 5 each, and {A,B,C}, 7: the path scores 10.
    values = np.zeros(8)
    values[[0b011, 0b110, 0b111]] = [5.0, 5.0, 7.0]
    outcome = Brute().solve(named(dense(3, 3, values)), Limits(), Recording())
    assert outcome.tree == PATH
    assert outcome.bound == 10.0
    assert outcome.stop is Stop.FINISHED


@pytest.mark.parametrize(
    ("constraints", "path", "apart"),
    [
        (Constraints(), True, True),
        (Constraints(max_treewidth=0), False, False),
        (Constraints(max_treewidth=1), True, True),
        (Constraints(max_separator_size=0), False, True),
        (Constraints(min_separator_size=1), True, False),
        (Constraints(forbidden_edges=frozenset({0b110})), False, True),
        (Constraints(required_edges=frozenset({0b110})), True, False),
        (Constraints(forbidden_cliques=frozenset({0b100})), True, False),
        (Constraints(forbidden_cliques=frozenset({0b010})), True, True),
        (Constraints(forbidden_separators=frozenset({0b010})), False, True),
        (Constraints(forbidden_separators=frozenset({0})), True, False),
        (Constraints(allowed_separators=frozenset({0})), False, True),
        (Constraints(allowed_separators=frozenset()), False, False),
        (Constraints(max_cliques=2), True, True),
        (Constraints(max_cliques=1), False, False),
    ],
)
def test_each_constraint_has_its_documented_meaning(
    constraints: Constraints,
    path: bool,  # noqa: FBT001 - expected
    apart: bool,  # noqa: FBT001 - expected
) -> None:
    problem = named(gaussian(0, 3), constraints)
    assert meets_constraints(problem, PATH) is path
    assert meets_constraints(problem, APART) is apart


def test_a_set_without_a_score_is_neither_clique_nor_separator() -> None:
    table = {0b001: 0.0, 0b011: 1.0, 0b110: 1.0, 0b100: 0.0}  # {B} has none
    assert not meets_constraints(named(SparseScores(3, table)), PATH)
    assert meets_constraints(named(SparseScores(3, table)), APART)
    del table[0b100]
    assert not meets_constraints(named(SparseScores(3, table)), APART)


def test_proves_infeasibility() -> None:
    problem = named(gaussian(0, 3), Constraints(max_treewidth=0, min_separator_size=1))
    outcome = Brute().solve(problem, Limits(), Recording())
    assert outcome.tree is None
    assert outcome.bound == -inf


@pytest.mark.parametrize("patience", [0, 1, 30])
def test_stops_on_request_with_the_best_so_far(patience: int) -> None:
    report = Recording(patience, Stop.INTERRUPTED)
    outcome = Brute().solve(named(gaussian(0, 4)), Limits(), report)
    assert outcome.stop is Stop.INTERRUPTED
    assert outcome.bound == inf
    assert (outcome.tree is None) == (patience == 0)
    assert report.trees[-1:] == [outcome.tree] * (patience > 0)


def test_estimates_and_refuses_by_size() -> None:
    assert 0 < Brute().estimate(named(gaussian(0, 5)), Limits()).seconds < 1
    assert Brute().capabilities.objections(named(gaussian(0, 6))) == (
        "It supports at most 5 variables, not 6.",
    )
