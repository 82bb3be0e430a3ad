"""Ties of score go to the sparser graph: edges that cost nothing are not in the answer."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import many_ties

from jtsolve.backends.brute import chordal_trees
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.clutter.sparsest import sparsest
from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.result import Status
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import DenseScores, SparseScores
from jtsolve.core.sparsity import sparser, tree_size
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.families.families import families_of
from jtsolve.io.certificate import read_certificate
from jtsolve.io.result import result_to_document
from jtsolve.scoring.problem import Tabulation, problem_from_table
from jtsolve.scoring.registry import REGISTRY as SCORES
from jtsolve.scoring.score import is_discrete
from jtsolve.solving import Recorder, findings_of, solve
from jtsolve.tables.table import DataTable
from jtsolve.verify.certificate import verify
from jtsolve.verify.result import check

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize("score", [*filter(is_discrete, SCORES.values())], ids=lambda score: score.name)
@pytest.mark.parametrize("backend", ["dp", "forward"])
def test_a_constant_column_gets_no_edge_by_any_score(score: DiscreteScore, backend: str) -> None:
    problem = problem_from_table(table(), score, treewidth=2)
    result = solve(problem, REGISTRY[backend])
    assert result.tree is not None
    assert {8, 16} <= set(result.tree.cliques)
    assert check(problem, result) == ()


@pytest.mark.parametrize("score", [SCORES[name] for name in ("bdeu", "ml", "mdl")], ids=lambda one: one.name)
@pytest.mark.parametrize("backend", list(REGISTRY))
def test_a_constant_column_gets_no_edge_by_any_backend(score: DiscreteScore, backend: str) -> None:
    every = problem_from_table(table(), score, treewidth=4)
    result = solve(every.with_treewidth(1 if backend == "chowliu" else 2), REGISTRY[backend])
    assert result.tree is not None
    assert {8, 16} <= set(result.tree.cliques)


def test_edges_to_constants_stay_where_constraints_ask_for_them() -> None:
    edge = frozenset({0b01001})
    problem = problem_from_table(
        table(), SCORES["bic"], treewidth=2, constraints=Constraints(required_edges=edge)
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
        tuple(Variable(str(v), int(rng.integers(2, 5))) for v in range(n)), DenseScores(n, n, values)
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


def test_sets_without_a_score_are_not_searched() -> None:
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
    problem = problem_from_table(table(), SCORES["ml"], treewidth=2, tabulation=slow)
    result = solve(problem, REGISTRY["forward"])
    assert result.tree is not None
    assert {8, 16} <= set(result.tree.cliques)


def test_cliques_with_more_cells_than_rows_are_named() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, (3, 20))
    states = (tuple("01234"),) * 3
    problem = problem_from_table(DataTable(tuple("abc"), states, codes), SCORES["ml"], treewidth=2)
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


@cache
def sparsest_of_all(seed: int, kind: str) -> tuple[float, int, int]:
    """Returns the best score of all trees, and the least size of those that have it, negated."""
    problem = tied(seed, kind)
    trees = filter(problem.permits, chordal_trees(5))
    return max((tree.score(problem.scores), *minus_size(problem, tree)) for tree in trees)


def minus_size(problem: Problem, tree: JunctionTree) -> tuple[int, int]:
    edges, parameters = tree_size(problem, tree)
    return -edges, -parameters


@pytest.mark.parametrize("kind", ["small", "constants", "large"])
@pytest.mark.parametrize("backend", ["brute", "dp", "dp-int64", "clutter", "ilp", "cpsat", "maxsat"])
def test_no_optimal_tree_has_fewer_edges_or_as_many_and_fewer_parameters(backend: str, kind: str) -> None:
    solver = REGISTRY[backend.partition("-")[0]]
    if backend == "dp-int64":
        solver = DynamicProgramming("int64")
    for seed in range(5 if backend in {"ilp", "cpsat", "maxsat"} else 15):
        problem = tied(seed, kind)
        result = solve(problem, solver)
        assert result.tree is not None
        found = (result.score, *minus_size(problem, result.tree))
        ties = result.stats["ties"]
        # With large scores, `dp` has no bits left for parameters.
        assert ties == "edges, parameters" or (kind == "large" and "dp" in backend)
        decided = 3 if "parameters" in ties else 2
        assert found[:decided] == sparsest_of_all(seed, kind)[:decided]
        assert result.status is Status.OPTIMAL
        assert check(problem, result) == ()


@pytest.mark.parametrize(("backend", "n", "seeds"), [("clutter", 8, range(8)), ("cpsat", 7, range(4))])
def test_branch_and_bound_agrees_with_the_dynamic_programming(
    backend: str, n: int, seeds: range, tmp_path: Path
) -> None:
    for seed in seeds:
        problem = many_ties(n, seed)
        solver = REGISTRY[backend]
        if isinstance(solver, ClutterCuts):
            solver = replace(solver, certificate=str(tmp_path / "proof.json"))
        one, other = (solve(problem, each) for each in (DynamicProgramming("int64"), solver))
        assert one.tree is not None
        assert other.tree is not None
        assert one.stats["ties"] == other.stats["ties"] == "edges, parameters"
        assert (one.score, tree_size(problem, one.tree)) == (other.score, tree_size(problem, other.tree))
        if isinstance(solver, ClutterCuts):  # the certificate proves the bound, whichever tree is returned
            certificate = read_certificate(tmp_path / "proof.json")
            assert verify(problem, result_to_document(other), certificate) == ()


def test_gains_far_below_a_nat_count_more_than_edges() -> None:
    """The worth of a nat rises until the edge of a gain of a thousandth stays."""
    values = np.zeros(count_bounded_subsets(4, 2))
    values[0b11] = 1e-3
    problem = Problem(tuple(Variable(name, 3) for name in "abcd"), DenseScores(4, 2, values))
    result = solve(problem, REGISTRY["clutter"])
    assert result.tree is not None
    assert result.tree.graph_edges == ((0, 1),)
    assert result.stats["ties"] == "edges, parameters"


def test_where_scores_leave_no_room_nothing_is_promised() -> None:
    values = np.zeros(count_bounded_subsets(4, 2))
    values[1] = -1e16
    values[0b11] = values[1] + 8
    problem = Problem(tuple(Variable(name, 3) for name in "abcd"), DenseScores(4, 2, values))
    result = solve(problem, REGISTRY["clutter"])
    assert result.status is Status.OPTIMAL
    assert result.stats["ties"] == ""


def test_a_search_for_the_sparsest_that_has_to_stop_keeps_the_tree() -> None:
    problem = many_ties(6, 1)
    found = solve(problem, ClutterCuts(ties=False))
    assert found.tree is not None
    assert "ties" not in found.stats
    run = Run()
    run.interrupt()
    recorder = Recorder(problem, run)
    families = families_of(problem)
    assert sparsest(problem, families, found.tree, Limits(), recorder) == (found.tree, "")


def test_a_tree_below_another_by_rounding_is_chosen_if_it_is_sparser() -> None:
    values = np.zeros(count_bounded_subsets(3, 2))
    values[0b11] = 1e-10
    problem = Problem(tuple(Variable(name) for name in "abc"), DenseScores(3, 2, values))
    recorder = Recorder(problem, Run())
    edge, nothing = JunctionTree(3, (0b011, 0b100), ((0, 1),)), JunctionTree(3, (1, 2, 4), ((0, 1), (1, 2)))
    recorder(tree=edge, bound=1e-10)
    recorder.prefer_tie_breaking_tree(nothing)
    assert recorder.tree == nothing
    assert [step.score for step in recorder.trace] == [recorder.score] == [0.0]
    recorder = Recorder(problem, Run())
    recorder(tree=edge, bound=1e-3)  # nothing is proved
    recorder.prefer_tie_breaking_tree(nothing)
    assert recorder.tree == edge


def test_the_edges_of_a_tree_are_counted_by_its_parts() -> None:
    assert all(tree.edge_count == len(tree.graph_edges) for tree in chordal_trees(4))


def test_parameters_are_counted_by_parts() -> None:
    variables = tuple(Variable(name, states) for name, states in (("a", 2), ("b", 3), ("c", 4)))
    problem = Problem(variables, DenseScores(3, 3, np.zeros(8)))
    assert tree_size(problem, JunctionTree(3, (0b011, 0b110), ((0, 1),))) == (2, 5 + 11 - 2)
    assert tree_size(problem, JunctionTree(3, (0b111,), ())) == (3, 23)
    unknown = Problem((*variables[:2], Variable("c")), problem.scores)
    assert tree_size(unknown, JunctionTree(3, (0b111,), ())) == (3, 0)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 2, 0), (2, 3, 0, 1)])
def test_a_chain_of_functions_is_joined_where_it_costs_least(order: tuple[int, ...]) -> None:
    """Ages, their group, its half: by likelihood the half is as well off with the ages as with the group."""
    rng = np.random.default_rng(0)
    ages = rng.integers(0, 12, 500)
    columns = np.array([ages, ages // 3, ages // 6, rng.integers(0, 2, 500)])[list(order)]
    states = tuple(tuple(map(str, range(n))) for n in np.array([12, 4, 2, 2])[list(order)])
    data = DataTable(tuple(np.array(list("agho"))[list(order)]), states, columns)
    for backend in ("brute", "chowliu"):
        problem = problem_from_table(data, SCORES["ml"], treewidth=1)
        tree = solve(problem, REGISTRY[backend]).tree
        assert tree is not None
        edges = {frozenset((data.names[a], data.names[b])) for a, b in tree.graph_edges}
        assert {frozenset("ag"), frozenset("gh")} <= edges


def test_dp_reports_what_decides_between_equal_scores() -> None:
    zeros = DenseScores(6, 3, np.zeros(count_bounded_subsets(6, 3)))
    for states, ties in ((3, "edges, parameters"), (None, "edges"), (10**6, "edges")):
        problem = Problem(tuple(Variable(name, states) for name in "abcdef"), zeros)
        assert solve(problem, DynamicProgramming("int64")).stats["ties"] == ties
