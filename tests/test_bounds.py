from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtsolve.core.bounds import family_bound, problem_bound, range_bound
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.scores import DenseScores, SparseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import bounded_subsets, count_bounded_subsets, members
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.tables.table import DataTable


def trees(n: int) -> list[JunctionTree]:
    """The junction trees of all chordal graphs on n nodes."""
    pairs = list(combinations(range(n), 2))
    found = []
    for bits in range(1 << len(pairs)):
        graph = nx.empty_graph(n)
        graph.add_edges_from(pair for i, pair in enumerate(pairs) if bits >> i & 1)
        if nx.is_chordal(graph):
            found.append(JunctionTree.from_graph(graph))
    return found


TREES = {n: trees(n) for n in range(1, 5)}


def problem(n: int, max_size: int, seed: int) -> Problem:
    values = np.random.default_rng(seed).normal(scale=10, size=count_bounded_subsets(n, max_size))
    values[0] = 0
    return Problem(tuple(Variable(f"V{v}") for v in range(n)), DenseScores(n, max_size, values))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 10_000))
def test_no_tree_scores_more_than_the_bound(n: int, max_size: int, seed: int) -> None:
    dense = problem(n, min(n, max_size), seed)
    for bound in (family_bound(dense), range_bound(dense)):
        assert all(tree.score(dense.scores) <= bound + 1e-9 for tree in TREES[n])


@given(st.integers(1, 4), st.floats(0, 1), st.integers(0, 10_000))
def test_the_bound_holds_for_sparse_scores(n: int, density: float, seed: int) -> None:
    dense = problem(n, n, seed)
    rng = np.random.default_rng(seed)
    table = {mask: dense.scores.score(mask) for mask in bounded_subsets(n, n) if rng.random() < density}
    table[0] = 0.0
    sparse = replace(dense, scores=SparseScores(n, table))
    for bound in (family_bound(sparse), range_bound(sparse)):
        assert all(tree.score(sparse.scores) <= bound + 1e-9 for tree in TREES[n])


@given(st.integers(1, 5), st.integers(0, 4), st.floats(0, 1), st.integers(0, 10_000))
def test_the_bound_of_a_sparse_table_is_that_of_the_definition(
    n: int, treewidth: int, density: float, seed: int
) -> None:
    dense = problem(n, n, seed)
    rng = np.random.default_rng(seed)
    table = {mask: dense.scores.score(mask) for mask in bounded_subsets(n, n) if rng.random() < density}
    table[0] = 0.0
    sparse = replace(dense, scores=SparseScores(n, table), constraints=Constraints(max_treewidth=treewidth))

    def filled(mask: int) -> float:
        return table.get(mask, sum(table.get(1 << v, 0.0) for v in members(mask)))

    best = [
        max(
            filled(parents | 1 << v) - filled(parents)
            for parents in bounded_subsets(n, sparse.max_clique_size - 1)
            if not parents >> v & 1
        )
        for v in range(n)
    ]
    expected = sum(best) - min(best[v] - filled(1 << v) for v in range(n))  # one of them has no parents
    assert family_bound(sparse) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_rounding_of_large_scores_does_not_bring_the_bound_below_a_tree(seed: int) -> None:
    own = -1e12 * np.random.default_rng(seed).random(8)
    values = [own[list(members(mask))].sum() - 1e10 * mask.bit_count() ** 2 for mask in range(256)]
    large = Problem(
        tuple(Variable(f"V{v}") for v in range(8)), DenseScores(8, 8, np.array([0.0, *values[1:]]))
    )
    best = JunctionTree.from_neighbours([0] * 8)
    assert problem_bound(large) >= best.score(large.scores)


def test_a_sparse_table_over_many_variables_has_the_family_bound() -> None:
    chain = {1 << v: -1.0 for v in range(400)} | {7 << v: -2.0 for v in range(398)}
    sparse = Problem(tuple(Variable(f"V{v}") for v in range(400)), SparseScores(400, chain))
    assert problem_bound(sparse) == pytest.approx(family_bound(sparse), abs=1e-9)
    assert problem_bound(sparse) < range_bound(sparse)


def test_the_bound_is_the_sum_of_the_best_families() -> None:
    values = np.array([0.0, -1.0, -2.0, -2.5])
    base = Problem((Variable("A"), Variable("B")), DenseScores(2, 2, values))
    assert family_bound(base) == pytest.approx(-0.5 + -2.0)  # one of the two has no parents
    assert family_bound(replace(base, constraints=Constraints(max_treewidth=0))) == -3.0


def test_the_family_bound_is_taken_where_it_is_cheap() -> None:
    small = problem(4, 4, 0)
    assert problem_bound(small) == pytest.approx(family_bound(small), abs=1e-9)
    pairs = problem(3000, 2, 0)
    assert problem_bound(pairs) == pytest.approx(range_bound(pairs), rel=1e-9)


def test_scores_on_demand_get_the_range_bound() -> None:
    codes = np.array([[0, 0, 1, 1], [0, 1, 1, 1]])
    table = DataTable(("a", "b"), (("no", "yes"),) * 2, codes)
    lazy = Problem((Variable("a"), Variable("b")), DataScores(table, Bdeu(), max_size=2))
    assert problem_bound(lazy) == pytest.approx(range_bound(lazy), rel=1e-9)
    assert problem_bound(lazy) >= lazy.scores.score(0b11)
