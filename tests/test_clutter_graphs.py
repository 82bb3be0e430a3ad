"""Forbidden graphs in branch and cut: the rows, the first tree, the next best trees, certificates."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from problems import WITHOUT_GRAPHS, gaussian, integers, named, random_problem, with_holes
from verifiers import verify

from jtsolve.backends.brute import chordal_trees, meets_constraints
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.clutter.first_tree import best_neighbour
from jtsolve.backends.clutter.inequalities import CutRows, no_good
from jtsolve.core.problem import Constraints, Problem, ProblemFeature
from jtsolve.core.result import Result, Status
from jtsolve.core.scores import LARGEST, DenseScores
from jtsolve.families.families import families_of, families_of_tree
from jtsolve.io.certificate import read_certificate
from jtsolve.io.result import result_to_document
from jtsolve.solving import solve

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.core.varset import VarSet


def without(problem: Problem, graphs: set[frozenset[VarSet]]) -> Problem:
    """Returns the problem with further graphs forbidden."""
    forbidden = problem.constraints.forbidden_graphs | graphs
    return replace(problem, constraints=replace(problem.constraints, forbidden_graphs=forbidden))


def ranked(problem: Problem) -> list[tuple[float, frozenset[VarSet]]]:
    """Returns the scores and graphs of all trees of a problem, the best first."""
    trees = [tree for tree in chordal_trees(problem.n) if meets_constraints(problem, tree)]
    return sorted(((tree.score(problem.scores), tree.edge_sets) for tree in trees), key=lambda pair: -pair[0])


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_row_of_a_graph_is_broken_by_that_graph_alone(n: int) -> None:
    trees = chordal_trees(n)
    families = families_of(named(gaussian(0, n)), n - 1)
    at = {mask: k for k, mask in enumerate(families.masks())}
    graphs = [tree.edge_sets for tree in trees]
    rows = CutRows(families, (), [no_good(graph, n) for graph in graphs])
    for number, tree in enumerate(trees):
        order = families_of_tree(tree, n - 1)
        union = np.array([at[parents | 1 << v] for v, parents in order])
        parents = np.array([at[parents] for _, parents in order])
        violation = rows.violation(union, parents, np.ones(n)).set_rows
        assert np.flatnonzero(violation > 0).tolist() == [number]
        assert violation[number] == 1


def next_best(problem: Problem, count: int) -> None:
    """Solves without the best graph, without the two best, and so on, and compares with the true order."""
    order = ranked(problem)
    forbidden: set[frozenset[VarSet]] = set()
    for rank in range(count):
        result = solve(without(problem, forbidden), ClutterCuts())
        if rank >= len(order):
            assert result.status is Status.INFEASIBLE
            return
        assert result.status is Status.OPTIMAL
        assert result.score == pytest.approx(order[rank][0], abs=1e-9)
        assert result.tree is not None
        assert result.tree.edge_sets not in forbidden
        forbidden.add(result.tree.edge_sets)


def test_the_next_best_trees_are_those_of_brute_force() -> None:
    next_best(named(gaussian(0, 4)), 12)
    next_best(named(integers(0, 4, high=2)), 12)
    next_best(named(gaussian(0, 5, 3), Constraints(max_treewidth=2)), 8)


@pytest.mark.parametrize("feature", WITHOUT_GRAPHS)
def test_the_same_under_every_other_constraint(feature: ProblemFeature) -> None:
    for seed in range(3):
        next_best(random_problem(3000 + seed, 3 + seed % 2, frozenset({feature})), 5)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_forbidding_all_graphs_is_proved_infeasible(n: int, tmp_path: Path) -> None:
    every = {tree.edge_sets for tree in chordal_trees(n)}
    problem = without(named(gaussian(1, n)), every)
    result, path = proof(problem, tmp_path)
    assert result.status is Status.INFEASIBLE
    assert verify(problem, result_to_document(result), read_certificate(path)) == ()


def test_the_largest_scores_do_not_overflow() -> None:
    problem = named(DenseScores(5, 5, LARGEST * np.sign(gaussian(3, 5).values)))
    order = ranked(problem)
    result = solve(without(problem, {graph for _, graph in order[:4]}), ClutterCuts())
    assert result.bound >= order[4][0] * (1 - 1e-12)
    assert result.score == pytest.approx(order[4][0])


# The first tree.


def test_the_first_tree_is_the_best_that_differs_by_one_edge() -> None:
    found = 0
    for seed in range(40):
        n = 2 + seed % 4
        scores = gaussian(seed, n)
        whole = named(scores if seed % 3 else with_holes(seed, scores, 0.1, singles=False))
        problem = random_problem(seed, n, frozenset({ProblemFeature.MAX_TREEWIDTH}))
        problem = replace(whole, constraints=problem.constraints)
        order = ranked(problem)
        forbidden = {graph for _, graph in order[:: max(1, len(order) // 3)]}
        tree = best_neighbour(without(problem, forbidden))
        near = [
            score
            for score, graph in order
            if graph not in forbidden and any(len(graph ^ other) == 1 for other in forbidden)
        ]
        if seed % 3:
            assert (tree is None) == (not near)
        if tree is not None:
            found += 1
            score = tree.score(problem.scores)
            assert score <= max(near)
            assert score == pytest.approx(max(near)) or not seed % 3  # without holes it misses none
    assert found > 20


def test_a_forbidden_graph_without_score_or_without_chords_has_no_neighbour() -> None:
    cycle = frozenset({0b0011, 0b0110, 0b1100, 0b1001})
    assert best_neighbour(without(named(gaussian(0, 4)), {cycle})) is None
    assert best_neighbour(without(named(gaussian(0, 3, 2)), {frozenset({0b011, 0b101, 0b110})})) is None


# Certificates.


def proof(problem: Problem, folder: Path) -> tuple[Result, Path]:
    path = folder / "proof.json"
    return solve(problem, ClutterCuts(certificate=str(path))), path


def used(path: Path) -> list[Any]:
    """Returns the rows of forbidden graphs in a certificate."""
    graphs: list[Any] = json.loads(path.read_text())["graphs"]
    return graphs


def test_certificates_of_next_best_trees_hold_and_rest_on_forbidden_graphs(tmp_path: Path) -> None:
    rows = 0
    for seed in range(4):
        problem = named(gaussian(seed, 4))
        order = ranked(problem)
        for count in (1, 4):
            chosen = without(problem, {graph for _, graph in order[:count]})
            result, path = proof(chosen, tmp_path)
            document = result_to_document(result)
            assert verify(chosen, document, read_certificate(path)) == ()
            rows += len(used(path))
            # With nothing forbidden, the same bound is wrong, and so is its proof.
            fewer = replace(result, constraints=problem.constraints)
            assert verify(problem, result_to_document(fewer), read_certificate(path))
    assert rows > 0


@pytest.mark.parametrize(
    ("weight", "edges", "word"),
    [
        (5, [[0, 1]], "not forbidden"),
        (5, [[1, 2], [1, 2]], "not forbidden"),
        (-5, [[1, 2]], "out of range"),
        (1 << 60, [[1, 2]], "too large"),
        (5, [[1, 7]], "out of range"),
        (5, [[2, 1]], "increasing"),
    ],
)
def test_rows_of_graphs_that_do_not_follow_are_rejected(
    weight: int, edges: list[list[int]], word: str, tmp_path: Path
) -> None:
    problem = without(named(gaussian(1, 3)), {frozenset({0b110})})
    result, path = proof(problem, tmp_path)
    plain = json.loads(path.read_text())
    plain["graphs"] = [edges]
    plain["nodes"] = [{"last": {"graphs": [[0, weight]]}}]
    path.write_text(json.dumps(plain))
    faults = verify(problem, result_to_document(result), read_certificate(path))
    assert len(faults) == 1
    assert word in faults[0]


def test_the_one_graph_left_may_be_a_forbidden_one(tmp_path: Path) -> None:
    problem = named(gaussian(4, 2))
    best, second = ranked(problem)
    chosen = without(problem, {best[1]})
    result, path = proof(chosen, tmp_path)
    plain = json.loads(path.read_text())
    end = {"graph": True}
    plain["nodes"] = [{"edge": [0, 1], "absent": 1, "present": 2}, end, end]
    path.write_text(json.dumps(plain))
    assert result.score == pytest.approx(second[0])
    assert verify(chosen, result_to_document(result), read_certificate(path)) == ()
    wrong = replace(result, constraints=Constraints())
    assert "scores more" in verify(problem, result_to_document(wrong), read_certificate(path))[0]
