"""Conflicts and costs of constraints, against brute force."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
from problems import draw_constraints, gaussian, named, random_problem, repeatable

import jtsolve as jt
from jtsolve.backends.brute import chordal_trees, meets_constraints
from jtsolve.backends.registry import REGISTRY
from jtsolve.cli import run
from jtsolve.conflict import find_conflict, joined, parts_of
from jtsolve.core.problem import Constraints, Problem, ProblemFeature
from jtsolve.core.run import Run
from jtsolve.core.scores import SparseScores
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.io.instance import write_problem

if TYPE_CHECKING:
    from pathlib import Path

CONSTRAINTS = frozenset(ProblemFeature) - {ProblemFeature.REAL_VARIABLES}


def command(*words: object) -> int:
    return run([str(word) for word in words], monotonic())


def has_tree(problem: Problem) -> bool:
    return any(meets_constraints(problem, tree) for tree in chordal_trees(problem.n))


def under(problem: Problem, parts: tuple[Constraints, ...]) -> Problem:
    return replace(problem, constraints=joined(parts))


@pytest.mark.parametrize("seed", range(8))
def test_a_conflict_excludes_every_tree_and_no_smaller_part_of_it_does(seed: int) -> None:
    random = repeatable(seed)
    found = 0
    while found < 3:
        features = frozenset(random.sample(sorted(CONSTRAINTS, key=lambda one: one.value), 4))
        problem = random_problem(random.randrange(10**6), 4, features)
        conflict = find_conflict(problem)
        assert (conflict is None) == has_tree(problem)
        if conflict is None:
            continue
        found += 1
        assert conflict.is_minimal
        assert set(conflict.parts) <= set(parts_of(problem.constraints))
        assert not has_tree(under(problem, conflict.parts))
        for part, tree in zip(conflict.parts, conflict.witnesses, strict=True):
            rest = under(problem, tuple(other for other in conflict.parts if other != part))
            assert has_tree(rest)
            assert tree is not None
            assert meets_constraints(rest, tree)


def test_the_parts_of_constraints_are_all_of_them() -> None:
    for seed in range(50):
        features = frozenset(repeatable(seed).sample(sorted(CONSTRAINTS, key=lambda one: one.value), 5))
        constraints = draw_constraints(repeatable(seed), 5, features)
        parts = parts_of(constraints)
        assert joined(parts) == constraints
        assert all(len(part.features) == 1 for part in parts)


def test_of_many_constraints_few_are_in_conflict() -> None:
    apart = frozenset(1 << u | 1 << v for u, v in combinations(range(3, 12), 2))
    cycle = frozenset({0b0011, 0b0101, 0b0110})
    limits = Constraints(max_treewidth=1, required_edges=cycle, forbidden_edges=apart)
    problem = named(gaussian(0, 12, 3), limits)
    conflict = find_conflict(problem)
    assert conflict is not None
    assert conflict.constraints == Constraints(max_treewidth=1, required_edges=cycle)


def test_scores_alone_may_exclude_every_tree() -> None:
    problem = named(SparseScores(2, {0b01: -1.0}), Constraints(max_treewidth=1))
    conflict = find_conflict(problem)
    assert conflict is not None
    assert conflict.parts == ()
    assert "the sets that have a score" in str(jt.solve(problem).explain())


def test_without_a_proof_no_conflict_is_named() -> None:
    problem = named(gaussian(0, 9, 3), Constraints(max_treewidth=1, required_edges=frozenset({3, 5, 6})))
    with pytest.raises(LimitError, match="no conflict can be named"):
        find_conflict(problem, backend=REGISTRY["forward"])


def test_an_interrupted_search_keeps_the_smallest_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Constraints(max_treewidth=1, required_edges=frozenset({3, 5, 6}), forbidden_edges=frozenset({9}))
    own, probes = Run(), 0

    def counted(*_: Any, **__: Any) -> bool:
        nonlocal probes
        probes += 1
        if probes == 2:
            own.interrupt()
        return own.stop is None

    monkeypatch.setattr(Run, "progress", counted)
    conflict = find_conflict(named(gaussian(0, 4), limits), own)
    assert conflict is not None
    assert not conflict.is_minimal
    assert not has_tree(under(named(gaussian(0, 4), limits), conflict.parts))


def test_a_cost_has_a_lower_bound_where_the_optimum_without_the_constraint_is_zero() -> None:
    scores = SparseScores(2, {0b01: 0.0, 0b10: 0.0, 0b11: -1.0})
    problem = named(scores, Constraints(required_edges=frozenset({0b11})))
    (cost,) = jt.solve(problem).explain().costs
    assert (cost.least, cost.most) == pytest.approx((1.0, 1.0))


@pytest.mark.parametrize("seed", range(5))
def test_a_constraint_costs_the_optimum_without_it_minus_the_optimum(seed: int) -> None:
    constraints = Constraints(max_treewidth=2, max_cliques=2, forbidden_edges=frozenset({0b011}))
    problem = named(gaussian(seed, 4), constraints)

    def optimum(given: Problem) -> float:
        score = jt.solve(given, backend="brute").score
        assert score is not None
        return score

    explanation = jt.solve(problem).explain()
    assert explanation.is_feasible
    assert len(explanation.costs) == 3
    for cost in explanation.costs:
        rest = [part for part in parts_of(constraints) if part != cost.part]
        truth = optimum(under(problem, tuple(rest))) - optimum(problem)
        assert cost.least - 1e-6 <= truth <= cost.most + 1e-6
        assert cost.most - cost.least < 1e-6
    assert [cost.least for cost in explanation.costs] == sorted(
        (c.least for c in explanation.costs), reverse=True
    )


def test_shell_and_python_name_the_same_conflict(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, alone, proof = tmp_path / "i.json", tmp_path / "alone.json", tmp_path / "proof.json"
    limits = Constraints(max_treewidth=1, required_edges=frozenset({3, 5, 6}), forbidden_edges=frozenset({9}))
    write_problem(named(gaussian(0, 4), limits), path)
    assert command("explain", path, "--json", "--output", alone) == 3
    document = json.loads(capsys.readouterr().out)
    explanation = jt.solve(path).explain()
    assert document == explanation.to_document()
    assert document["conflict"] == explanation.conflict
    assert explanation.conflict == [
        "max_treewidth=1",
        "required_edges=A,B",
        "required_edges=A,C",
        "required_edges=B,C",
    ]
    # The conflict alone is an instance, whose proof is checked like any other.
    result = tmp_path / "result.json"
    assert command("solve", alone, "--backend", "clutter", "--certificate", proof, "--output", result) == 3
    assert command("check", alone, result, "--certificate", proof) == 0
    assert command("solve", path, "--treewidth", "1") == 3
    assert "'jtsolve explain' names the constraints in conflict" in capsys.readouterr().out
    with pytest.raises(ChoiceError, match=r"Solution\.explain\(\) name those in conflict"):
        _ = jt.solve(path).named
    assert command("explain", path, "--treewidth", "2") == 3
