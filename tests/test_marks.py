"""Marks: strongly decomposable graphs by enumeration, and the star in solves, files, checks and proofs."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from reference_averaging import enumerated
from test_averaging_chains import SHORT
from verifiers import verify

import jtsolve as jt
from jtsolve.averaging.average import average, draw_trees
from jtsolve.backends.brute import chordal_trees
from jtsolve.backends.registry import REGISTRY
from jtsolve.cli import run
from jtsolve.core.marks import is_strongly_decomposable, strongly_rooted, with_star, without_star
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.result import Status
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import DenseScores, SparseScores
from jtsolve.core.varset import VarSet, bounded_subsets, members
from jtsolve.errors import ChoiceError, InputError
from jtsolve.families.families import choose_root, families_of
from jtsolve.io.instance import read_problem, write_problem
from jtsolve.io.result import result_to_document
from jtsolve.kbest import k_best
from jtsolve.proving import prove
from jtsolve.solving import solve
from jtsolve.verify.result import check

if TYPE_CHECKING:
    from jtsolve.core.tree import JunctionTree

MARKS = [(n, real) for n in range(1, 5) for real in range(1 << n)] + [(5, (1 << k) - 1) for k in range(6)]
"""All marks of at most four variables; of five, one for each number of real ones: graphs are labelled."""
BACKENDS = ("brute", "dp", "clutter", "lns", "forward", "search", "merging", "portfolio")


def by_definition(tree: JunctionTree, real: VarSet) -> bool:
    """Returns whether no path of real vertices joins two discrete ones that are not adjacent."""
    edges = set(tree.graph_edges)
    around = [{u for u in range(tree.n) if (min(u, v), max(u, v)) in edges} for v in range(tree.n)]
    for start, end in combinations([v for v in range(tree.n) if not real >> v & 1], 2):
        reached, waiting = {start}, [start]
        while waiting:
            v = waiting.pop()
            fresh = around[v] - reached if v == start or real >> v & 1 else set()
            reached |= fresh
            waiting += fresh
        if end in reached and (start, end) not in edges and any(real >> v & 1 for v in reached):
            inner = {v for v in reached if real >> v & 1}
            if around[end] & inner:
                return False
    return True


def marked(n: int, real: VarSet, width: int, seed: int) -> Problem:
    """Returns a problem with random scores of all sets of at most `width` variables."""
    values = np.random.default_rng(seed).normal(size=sum(1 for _ in bounded_subsets(n, width))) * 3
    values[0] = 0.0
    names = tuple(Variable(f"x{v}") for v in range(n))
    return Problem(names, DenseScores(n, width, values), Constraints(real_variables=real), "marked")


def ranked(problem: Problem) -> list[float]:
    """Returns the scores of all permitted graphs in decreasing order, by enumeration."""
    plain = replace(problem, constraints=replace(problem.constraints, real_variables=0))
    real = problem.constraints.real_variables
    trees = [tree for tree in chordal_trees(problem.n) if plain.permits(tree) and by_definition(tree, real)]
    return sorted((tree.score(problem.scores) for tree in trees), reverse=True)


@pytest.mark.parametrize(("n", "real"), MARKS)
def test_the_star_shows_which_graphs_are_strongly_decomposable(n: int, real: VarSet) -> None:
    for tree in chordal_trees(n):
        strong = by_definition(tree, real)
        assert is_strongly_decomposable(tree, real) == strong
        if not strong:
            with pytest.raises(ValueError, match="chordal"):
                strongly_rooted(tree, real)
            continue
        assert without_star(with_star(tree, real)) == tree
        nodes = strongly_rooted(tree, real)
        assert sorted(node.clique for node in nodes) == sorted(tree.cliques)
        assert sorted(node.separator for node in nodes[1:]) == sorted(tree.separators)
        for i, (clique, separator, parent) in enumerate(nodes):
            assert parent < max(i, 1)
            assert separator == (clique & nodes[parent].clique if i else 0)
            assert not (clique & ~separator & ~real) or not separator & real


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_find_the_best_strongly_decomposable_graph(backend: str) -> None:
    for seed in range(4 if backend == "search" else 12):
        n = 3 + seed % 3 if backend != "brute" else 3 + seed % 2
        problem = marked(n, 1 + seed * 5 % ((1 << n) - 1), 2 + seed % (n - 1), seed)
        result = solve(problem, REGISTRY[backend], Run(Limits(time=5)))
        assert result.tree is not None
        assert result.names == problem.names
        assert result.score is not None
        best = ranked(problem)[0]
        assert result.score <= best + 1e-9
        if REGISTRY[backend].capabilities.exact:
            assert result.score == pytest.approx(best, abs=1e-9)


def test_scores_on_demand_and_sparse_ones_give_the_same_answer() -> None:
    problem = marked(5, 0b01101, 3, 1)
    assert isinstance(problem.scores, DenseScores)
    table = {mask: problem.scores.score(mask) for mask in bounded_subsets(5, 3)}

    class OnDemand:
        n, max_size = 5, 3
        score, batch, extremes = problem.scores.score, problem.scores.batch, problem.scores.extremes

    expected = solve(problem)
    for scores in (SparseScores(5, table), OnDemand()):
        found = solve(replace(problem, scores=scores), REGISTRY["dp"])
        assert (found.tree, found.score) == (expected.tree, expected.score)


def test_the_k_best_trees_are_the_best_strongly_decomposable_graphs() -> None:
    problem = marked(4, 0b0110, 3, 7)
    ranking = k_best(problem, k=5)
    assert [result.score for result in ranking.results] == pytest.approx(ranked(problem)[:5])


@pytest.mark.parametrize(
    "more",
    [
        Constraints(min_separator_size=1),
        Constraints(forbidden_separators=frozenset({0})),
        Constraints(required_edges=frozenset({0b0011}), forbidden_edges=frozenset({0b1100})),
        Constraints(max_treewidth=1, forbidden_graphs=frozenset({frozenset()})),
    ],
)
def test_constraints_hold_beside_marks(more: Constraints) -> None:
    for seed in range(6):
        problem = marked(4, (0b0101, 0b0111, 0b1111)[seed % 3], 4, seed)
        problem = replace(problem, constraints=problem.constraints.joined(more))
        result = solve(problem, REGISTRY["clutter"])
        assert result.score == pytest.approx(ranked(problem)[0])


def test_constraints_that_the_star_would_change_are_refused() -> None:
    for more in (Constraints(max_cliques=2), Constraints(max_separator_size=1)):
        problem = marked(3, 0b001, 3, 0)
        with pytest.raises(ChoiceError, match="not supported with real_variables"):
            solve(replace(problem, constraints=problem.constraints.joined(more)))
    with pytest.raises(InputError, match="two different sets"):
        Constraints(real_variables=1).joined(Constraints(real_variables=2))


def test_the_check_finds_a_graph_that_is_not_strongly_decomposable() -> None:
    """x0 – x1 – x2 with x1 real."""
    values = np.array([0.0, -1, -1, 0, -1, -5, 0, -9])
    names = tuple(map(Variable, "abc"))
    problem = Problem(names, DenseScores(3, 3, values), Constraints(max_treewidth=1))
    weak = solve(problem)
    assert weak.tree is not None
    assert len(weak.tree.graph_edges) == 2
    limits = replace(problem.constraints, real_variables=0b010)
    forged = replace(weak, constraints=limits)
    faults = check(replace(problem, constraints=limits), forged)
    assert any("'a' and 'c', which are discrete and not adjacent" in fault for fault in faults)
    assert any("other real_variables" in fault for fault in check(problem, forged))


def test_both_verifiers_prove_bounds_under_marks() -> None:
    for seed in range(4):
        problem = marked(5, 0b10011, 3, seed)
        result, certificate = prove(problem, solve(problem, REGISTRY["dp"]), Run())
        assert certificate.variables == list(problem.names)
        document = result_to_document(result)
        assert verify(problem, document, certificate) == ()
        assert result.score is not None
        low = result.score - 0.1
        lower = replace(result, score=low, bound=low, trace=())
        assert verify(problem, result_to_document(lower), certificate)
        unmarked = replace(problem, constraints=Constraints())
        assert verify(unmarked, document, certificate)


def test_with_the_star_as_the_root_discrete_variables_have_discrete_parents_only() -> None:
    problem = marked(5, 0b10011, 3, 0).with_star()
    families = families_of(problem, choose_root(problem, None))
    listed = families.listing()
    assert families.root == 5
    for v, at in zip(listed.vertex.tolist(), listed.parents.tolist(), strict=True):
        parents = set(families.members_of(at))
        assert parents <= {2, 3, 5} if v in {2, 3} else 5 not in parents
        assert v in {0, 1, 4, 5} or 5 in parents


def test_files_keep_marks(tmp_path: Path) -> None:
    problem = marked(4, 0b0011, 3, 5)
    instance, answer, proof = (str(tmp_path / name) for name in ("i.json", "r.json", "c.json"))
    write_problem(problem, instance)
    assert read_problem(instance).constraints == problem.constraints
    words = ["solve", instance, "--backend", "clutter", "--certificate", proof, "--output", answer]
    assert run(words, 0.0) == 0
    assert run(["check", instance, answer, "--certificate", proof], 0.0) == 0
    plain = json.loads(Path(answer).read_text(encoding="utf-8"))
    assert plain["instance"]["constraints"]["real_variables"] == ["x0", "x1"]
    assert {name for clique in plain["cliques"] for name in clique} == set(problem.names)


def test_marks_may_be_given_with_the_constraints(tmp_path: Path) -> None:
    problem = replace(marked(4, 0, 3, 5), constraints=Constraints())
    instance, answer = (str(tmp_path / name) for name in ("i.json", "r.json"))
    write_problem(problem, instance)
    marks = ["--constraint", "real_variables=x0,x1"]
    assert run(["solve", instance, *marks, "--output", answer], 0.0) == 0
    assert run(["check", instance, answer, *marks], 0.0) == 0
    score = json.loads(Path(answer).read_text(encoding="utf-8"))["score"]
    assert score == pytest.approx(ranked(marked(4, 0b0011, 3, 5))[0])


def test_an_infeasible_problem_with_marks_is_proved_so() -> None:
    edges = frozenset({0b011, 0b110})
    limits = Constraints(real_variables=0b010, required_edges=edges, forbidden_edges=frozenset({0b101}))
    problem = replace(marked(3, 0, 3, 0), constraints=limits)
    for name in ("brute", "dp", "clutter"):
        assert solve(problem, REGISTRY[name]).status is Status.INFEASIBLE
    assert list(members(problem.with_star().constraints.mentioned())) == [0, 1, 2, 3]


def test_draws_are_strongly_decomposable_and_as_likely_as_they_score() -> None:
    problem = marked(3, 0b010, 3, 2)
    problem = replace(problem, scores=DenseScores(3, 3, problem.scores.values / 3))  # type: ignore[attr-defined]
    drawn = draw_trees(problem, 4000, method="exact")
    assert drawn is not None
    trees = [tree for tree in chordal_trees(3) if by_definition(tree, 0b010)]
    weights = np.exp([tree.score(problem.scores) for tree in trees])
    shares = [drawn.trees.count(tree) / 4000 for tree in trees]
    assert sum(shares) == pytest.approx(1.0)
    assert shares == pytest.approx(weights / weights.sum(), abs=0.04)


@pytest.mark.parametrize(("n", "real"), MARKS)
def test_averages_are_over_the_strongly_decomposable_graphs(n: int, real: VarSet) -> None:
    asked = [Constraints(), Constraints(min_separator_size=1), Constraints(max_treewidth=1)]
    if n > 2:
        asked.append(Constraints(required_edges=frozenset({0b011}), forbidden_edges=frozenset({0b110})))
    for seed, more in enumerate(asked):
        problem = marked(n, real, min(n, 2 + seed % 3), seed)
        problem = replace(problem, constraints=problem.constraints.joined(more))
        odds = (1.0, 0.4)[seed % 2]
        expected = enumerated(problem, odds)
        found = average(problem, method="exact:treewidths=true", edge_odds=odds, threshold=1e-12)
        if expected is None:
            assert found is None
            continue
        assert found is not None
        assert found.names == problem.names
        assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-9)
        assert found.connected == pytest.approx(expected.connected, abs=1e-9)
        for u, v in combinations(range(n), 2):
            assert found.edges[u, v] == pytest.approx(expected.complete[1 << u | 1 << v], abs=1e-9)
        for listed, known in ((found.cliques, expected.clique), (found.separators, expected.separator)):
            for mask in {mask for mask, _ in listed} | set(known):
                assert dict(listed).get(mask, 0.0) == pytest.approx(known[mask], abs=1e-9)
        widths = found.diagnostics["treewidth"]
        assert widths == pytest.approx([expected.treewidth[k] for k in range(len(widths))], abs=1e-9)


@pytest.mark.parametrize(("real", "width"), [(0b01101, 4), (0b10010, 2)])
def test_chains_over_strongly_decomposable_graphs_converge_to_the_exact_average(
    real: VarSet, width: int
) -> None:
    problem = marked(5, real, width + 1, 3)
    problem = replace(problem, scores=DenseScores(5, width + 1, problem.scores.values / 3))  # type: ignore[attr-defined]
    problem = problem.with_treewidth(width)
    exact, chains = (average(problem, method=name, edge_odds=0.7) for name in ("exact", SHORT))
    assert exact is not None
    assert chains is not None
    assert chains.edges == pytest.approx(exact.edges, abs=0.04)
    assert chains.connected == pytest.approx(exact.connected, abs=0.05)
    known = dict(exact.cliques)
    assert all(p == pytest.approx(known.get(mask, 0.0), abs=0.05) for mask, p in chains.cliques)
    trees = draw_trees(problem, 50, method=SHORT)
    assert trees is not None
    assert all(is_strongly_decomposable(tree, real) for tree in trees.trees)


def test_the_shell_and_python_average_a_mixed_table_alike(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    state = random.integers(2, size=200)
    table = {
        "kind": np.where(state, "a", "b"),
        "size": random.normal(size=200) + 3 * state,
        "coin": random.integers(2, size=200),
    }
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    data, output = tmp_path / "mixed.csv", tmp_path / "posterior.json"
    data.write_text("\n".join(lines), encoding="utf-8")
    assert run(["average", str(data), "--quiet", "--output", str(output)], 0.0) == 0
    document = json.loads(output.read_text(encoding="utf-8"))
    posterior = jt.average(jt.learn(table, treewidth=None, score="niw"), method="bootstrap:2")
    assert document["log_evidence"] == pytest.approx(posterior.log_evidence)
    assert posterior.names == ("kind", "size", "coin")
    assert posterior.edges[0, 1] > 0.99
    assert posterior.bootstrap is not None
    assert posterior.bootstrap.edges[0, 1] == 1.0
