"""Ties of score go to the sparser graph: edges that cost nothing are not in the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jtsolve.backends.brute import chordal_trees
from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.result import Status
from jtsolve.core.scores import DenseScores, SparseScores
from jtsolve.core.sparsity import size_of, sparser
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.scoring.problem import Tabulation, problem_from_table
from jtsolve.scoring.registry import DISCRETE
from jtsolve.solving import findings_of, solve
from jtsolve.tables.table import DataTable
from jtsolve.verify.result import check

if TYPE_CHECKING:
    from jtsolve.scoring.score import DiscreteScore


def table(seed: int = 0) -> DataTable:
    """Three dependent columns, and two that are constant."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, 60)
    b = np.where(rng.random(60) < 0.8, a, 1 - a)
    c = np.where(rng.random(60) < 0.8, b, 1 - b)
    none = np.zeros(60, dtype=np.int64)
    states = (("0", "1"), ("0", "1"), ("0", "1"), ("0",), ("0",))
    return DataTable(tuple("abcde"), states, np.array([a, b, c, none, none]))


@pytest.mark.parametrize("score", DISCRETE.values(), ids=lambda score: score.name)
@pytest.mark.parametrize("backend", ["brute", "dp", "forward", "search"])
def test_a_constant_column_gets_no_edge_by_any_score(score: DiscreteScore, backend: str) -> None:
    problem = problem_from_table(table(), score, treewidth=2)
    result = solve(problem, REGISTRY[backend])
    assert result.tree is not None
    assert {8, 16} <= set(result.tree.cliques)
    assert check(problem, result) == ()


def test_edges_to_constants_stay_where_constraints_ask_for_them() -> None:
    edge = frozenset({0b01001})
    problem = problem_from_table(
        table(), DISCRETE["bic"], treewidth=2, constraints=Constraints(required_edges=edge)
    )
    result = solve(problem, REGISTRY["dp"])
    assert result.tree is not None
    assert any(clique & 0b01001 == 0b01001 for clique in result.tree.cliques)
    assert 16 in result.tree.cliques


@given(st.integers(2, 6), st.integers(0, 10_000), st.booleans())
def test_no_edge_is_left_that_costs_nothing(n: int, seed: int, constant: bool) -> None:  # noqa: FBT001
    """Small integers as scores are exact and have many ties."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-1, 2, count_bounded_subsets(n, n)).astype(float)
    if constant:
        values[:] = 0
    values[0] = 0
    problem = Problem(
        tuple(Variable(str(v), int(rng.integers(1, 4))) for v in range(n)), DenseScores(n, n, values)
    )
    graph = nx.complete_to_chordal_graph(nx.gnp_random_graph(n, 0.6, seed=seed))[0]
    tree = JunctionTree.from_graph(graph)
    found = sparser(problem, tree)
    assert found.score(problem.scores) == tree.score(problem.scores)
    assert found.edge_sets <= tree.edge_sets
    if constant:
        assert not found.edge_sets
    for a, b in found.graph_edges:
        less = found.to_graph()
        less.remove_edge(a, b)
        if nx.is_chordal(less):
            assert JunctionTree.from_graph(less).score(problem.scores) != found.score(problem.scores)


def test_sets_without_a_score_are_not_looked_for() -> None:
    scores = SparseScores(3, {0b111: 1.0, 0b001: 0.0, 0b010: 0.0})
    problem = Problem(tuple(Variable(name) for name in "abc"), scores)
    tree = JunctionTree(3, (0b111,), ())
    assert sparser(problem, tree) == tree


def test_a_tree_that_breaks_a_constraint_is_returned_as_it_is() -> None:
    zeros = DenseScores(2, 2, np.zeros(4))
    problem = Problem((Variable("a"), Variable("b")), zeros, Constraints(max_treewidth=0))
    tree = JunctionTree(2, (0b11,), ())
    assert sparser(problem, tree) == tree


def test_scores_on_demand_are_thinned_too() -> None:
    slow = Tabulation(seconds=-1.0, share=0.5)
    problem = problem_from_table(table(), DISCRETE["ml"], treewidth=2, tabulation=slow)
    result = solve(problem, REGISTRY["forward"])
    assert result.tree is not None
    assert {8, 16} <= set(result.tree.cliques)


def test_cliques_with_more_cells_than_rows_are_named() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, (3, 20))
    states = (tuple("01234"),) * 3
    problem = problem_from_table(DataTable(tuple("abc"), states, codes), DISCRETE["ml"], treewidth=2)
    result = solve(problem, REGISTRY["brute"])
    (finding,) = result.stats["warnings"]
    assert finding["kind"] == "clique"
    assert finding["columns"] == ["a", "b", "c"]
    assert "{a, b, c} has 125 cells, but there are 20 rows to fill it" in finding["sentence"]
    assert findings_of(problem, None) == ()
    known = Problem(problem.variables, problem.scores)
    assert findings_of(known, result.tree) == ()


def tied(seed: int, kind: str) -> Problem:
    """Five variables with scores that have many ties: exact ones, and (scaled) such as rounding may hide."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-1, 2, 32).astype(float)
    if kind == "constants":  # as of data: the last two variables change nothing
        values = rng.normal(-1e4, 50, 32)
        values = np.array([values[mask & 0b111] if mask & 0b111 else 0.0 for mask in range(32)])
    elif kind == "large":
        values = values * 2.0**20 + 2.0**22 * np.array([mask.bit_count() for mask in range(32)])
    values[0] = 0
    limits = Constraints(max_treewidth=int(rng.integers(1, 5)), min_separator_size=int(rng.integers(3) == 2))
    states = [1 + int(r) for r in rng.integers(1, 4, 5)]
    return Problem(tuple(Variable(str(v), states[v]) for v in range(5)), DenseScores(5, 5, values), limits)


@pytest.mark.parametrize("kind", ["small", "constants", "large"])
@pytest.mark.parametrize("backend", ["brute", "dp", "dp-int64"])
def test_no_optimal_tree_has_fewer_edges_or_as_many_and_fewer_parameters(backend: str, kind: str) -> None:
    solver = REGISTRY[backend.partition("-")[0]]
    if backend == "dp-int64":
        solver = DynamicProgramming("int64")
    for seed in range(25):
        problem = tied(seed, kind)
        exact = [
            (tree.score(problem.scores), *(-size for size in size_of(problem, tree)))
            for tree in chordal_trees(5)
            if problem.permits(tree)
        ]
        result = solve(problem, solver)
        assert result.tree is not None
        found = (result.score, *(-size for size in size_of(problem, result.tree)))
        ties = result.stats.get("ties", "edges, parameters")
        assert ties == "edges, parameters" or kind == "large"  # which have no bits left for parameters
        decided = 3 if "parameters" in ties else 2
        assert found[:decided] == max(exact)[:decided]
        assert result.status is Status.OPTIMAL
        assert check(problem, result) == ()


def test_the_edges_of_a_tree_are_counted_by_its_parts() -> None:
    assert all(tree.edge_count == len(tree.graph_edges) for tree in chordal_trees(4))


def test_parameters_are_counted_by_parts() -> None:
    variables = tuple(Variable(name, states) for name, states in (("a", 2), ("b", 3), ("c", 4)))
    problem = Problem(variables, DenseScores(3, 3, np.zeros(8)))
    assert size_of(problem, JunctionTree(3, (0b011, 0b110), ((0, 1),))) == (2, 5 + 11 - 2)
    assert size_of(problem, JunctionTree(3, (0b111,), ())) == (3, 23)
    unknown = Problem((*variables[:2], Variable("c")), problem.scores)
    assert size_of(unknown, JunctionTree(3, (0b111,), ())) == (3, 0)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 2, 0), (2, 3, 0, 1)])
def test_a_chain_of_functions_is_joined_where_it_costs_least(order: tuple[int, ...]) -> None:
    """Ages, their group, its half: by likelihood the half is as well off with the ages as with the group."""
    rng = np.random.default_rng(0)
    ages = rng.integers(0, 12, 500)
    columns = np.array([ages, ages // 3, ages // 6, rng.integers(0, 2, 500)])[list(order)]
    states = tuple(tuple(map(str, range(n))) for n in np.array([12, 4, 2, 2])[list(order)])
    data = DataTable(tuple(np.array(list("agho"))[list(order)]), states, columns)
    for backend in ("brute", "chowliu"):
        problem = problem_from_table(data, DISCRETE["ml"], treewidth=1)
        tree = solve(problem, REGISTRY[backend]).tree
        assert tree is not None
        edges = {frozenset((data.names[a], data.names[b])) for a, b in tree.graph_edges}
        assert {frozenset("ag"), frozenset("gh")} <= edges


def test_dp_says_what_decides_between_equal_scores() -> None:
    zeros = DenseScores(6, 3, np.zeros(count_bounded_subsets(6, 3)))
    for states, ties in ((3, "edges, parameters"), (None, "edges"), (10**6, "edges")):
        problem = Problem(tuple(Variable(name, states) for name in "abcdef"), zeros)
        assert solve(problem, DynamicProgramming("int64")).stats["ties"] == ties
