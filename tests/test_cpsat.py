"""CP-SAT: models of formulas, agreement in both formulations, options, limits, and reported bounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
from enumeration import in_solver, model_text, solutions
from problems import Recording, from_network, gaussian, named, random_problem

from jtsolve.backends.brute import Brute
from jtsolve.backends.cpsat.backend import ConstraintProgramming
from jtsolve.backends.forward.backend import Forward
from jtsolve.backends.registry import REGISTRY
from jtsolve.backends.support.solver import SolverInput
from jtsolve.core.problem import ProblemFeature
from jtsolve.core.result import Status, Stop
from jtsolve.core.run import Limits, Run
from jtsolve.encodings.formula import Formula, LinearRow
from jtsolve.errors import InternalError, LimitError
from jtsolve.families.families import families_of
from jtsolve.solving import solve

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem

ALONE = ConstraintProgramming()
"""Without a first tree, and so without pruning: all proofs are CP-SAT's."""
MODELS: list[Any] = ["family", "balancing"]


# Models of formulas


def formula(
    largest: tuple[int, ...],
    rows: tuple[LinearRow, ...] = (),
    clauses: tuple[tuple[int, ...], ...] = (),
    exactly_one: tuple[tuple[int, ...], ...] = (),
) -> Formula:
    names = tuple(f"v{i}" for i in range(len(largest)))
    return Formula(names, largest, clauses, exactly_one, rows, np.zeros(len(largest)))


def meant(one: Formula) -> set[tuple[int, ...]]:
    """Returns the values that break no condition."""
    every = product(*(range(most + 1) for most in one.largest))
    return {values for values in every if one.broken(values) is None}


def random_formula(seed: int) -> Formula:
    generator = np.random.default_rng(seed)
    largest = (1, 1, 1, 1, *([3, 2] if seed % 2 else []))

    def row() -> LinearRow:
        used = generator.permutation(len(largest))[: int(generator.integers(1, 5))]
        few = [-1, 1] if generator.random() < 0.7 else [-3, -2, -1, 1, 2, 3]
        coefficients = generator.choice(few, used.size)
        lower, upper = sorted(generator.integers(-2, 4, 2).tolist())
        open_end = generator.random()
        return LinearRow(
            tuple((used + 1).tolist()),
            tuple(coefficients.tolist()),
            None if open_end < 0.3 else lower,
            None if open_end > 0.7 else upper,
        )

    signs = generator.choice([-1, 1], 3)
    clause = tuple((signs * (generator.permutation(4)[:3] + 1)).tolist())
    group = tuple((generator.permutation(4)[:2] + 1).tolist())
    return formula(largest, (row(), row()), (clause,), (group,) if seed % 3 else ())


def test_a_model_has_the_solutions_of_its_formula() -> None:
    sizes = set()
    for seed in range(150):
        one = random_formula(seed)
        expected = meant(one)
        assert solutions(one) == expected
        sizes.add(len(expected))
    assert 0 in sizes
    assert len(sizes) > 5


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (LinearRow((1, 2, 3), (1, 1, 1), 1, 1), "exactly_one"),
        (LinearRow((1, 2, 3), (1, 1, -1), 0, 0), "exactly_one"),
        (LinearRow((1, 2, 3), (1, 1, -1), None, 0), "at_most_one"),
        (LinearRow((1, 2, 3), (1, 1, 1), 0, 1), "at_most_one"),
        (LinearRow((1, 2, 3), (1, -1, -1), -1, None), "bool_or"),
        (LinearRow((1, 2, 3), (1, 1, 1), 1, 3), "bool_or"),
        (LinearRow((1, 2, 3), (1, 1, 1), 2, 2), "linear"),
        (LinearRow((1, 2, 3), (1, 2, 1), 1, 1), "linear"),
        (LinearRow((1, 4), (1, -1), 0, 0), "linear"),
    ],
)
def test_rows_become_the_native_constraints_of_the_solver(row: LinearRow, kind: str) -> None:
    one = formula((1, 1, 1, 5), (row,))
    text = model_text(one)
    kinds = [name for name in ("exactly_one", "at_most_one", "bool_or", "linear") if f"{name} {{" in text]
    assert kinds == [kind]
    assert solutions(one) == meant(one)


def test_contradictions_have_no_solution() -> None:
    assert solutions(formula((1,), clauses=((),))) == set()
    assert solutions(formula((1,), (LinearRow((), (), 1, 1),))) == set()


# Agreement


@pytest.mark.parametrize("model", MODELS)
def test_every_formulation_agrees_with_brute_force(model: Any) -> None:
    found = set()
    for seed, feature in enumerate([None, *ProblemFeature], start=110):
        problem = random_problem(seed, 3 + seed % 2, frozenset([feature] if feature else []))
        for backend in (replace(ALONE, model=model), replace(REGISTRY["cpsat"], model=model)):  # type: ignore[type-var]
            agrees(problem, backend, solve(problem, Brute()).bound)
        found.add(solve(problem, Brute()).status)
    assert found == {Status.OPTIMAL, Status.INFEASIBLE}


def agrees(problem: Problem, backend: Any, optimum: float) -> None:
    """Compares with the optimum in nats; -inf if there is no tree."""
    result = solve(problem, backend, Run(Limits(threads=2)))
    assert result.stop is Stop.FINISHED
    if optimum == -inf:
        assert result.status is Status.INFEASIBLE
        return
    assert result.status is Status.OPTIMAL
    assert result.score == pytest.approx(optimum, abs=1e-9)
    assert result.bound >= optimum - 1e-12


@pytest.mark.parametrize("model", MODELS)
def test_more_variables_with_pruning_alone_and_with_a_relaxation(model: Any) -> None:
    for seed in range(2):
        problem = named(gaussian(seed, 6))
        optimum = solve(problem, REGISTRY["dp"]).score
        assert optimum is not None
        registered: Any = replace(REGISTRY["cpsat"], model=model)  # type: ignore[type-var]
        agrees(problem, registered, optimum)
        agrees(problem, replace(registered, relaxation=None), optimum)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_bound_carries_the_rounding_of_scores_of_any_size(scale: float) -> None:
    problem = named(gaussian(3, 5, scale=scale))
    optimum = solve(problem, Brute()).score
    result = solve(problem, REGISTRY["cpsat"])
    assert result.score is not None
    assert optimum is not None
    assert result.score == pytest.approx(optimum, rel=1e-12)
    assert result.bound >= optimum
    assert result.bound - optimum < 1e-12 * abs(optimum) + 1e-9


# Messages


def test_trees_and_bounds_are_reported_during_the_run() -> None:
    report = Recording()
    problem = named(gaussian(0, 6))
    outcome = ALONE.solve(problem, Limits(threads=2), report)
    bounds = [call["bound"] for call in report.calls if call.get("bound") is not None]
    scores = [tree.score(problem.scores) for tree in report.trees]
    assert len(bounds) > 1
    assert bounds == sorted(bounds, reverse=True)
    assert len(scores) > 1
    assert scores == sorted(scores)
    assert outcome.tree is not None
    assert bounds[-1] >= outcome.bound >= outcome.tree.score(problem.scores)


@pytest.mark.parametrize("model", MODELS)
def test_the_best_tree_as_a_hint_is_the_only_one(model: Any) -> None:
    problem = named(gaussian(0, 5))
    exact = REGISTRY["dp"]
    first, report = Recording(), Recording()
    exact.solve(problem, Limits(), first)
    outcome = replace(ALONE, start=exact, model=model).solve(problem, Limits(), report)
    found = report.trees[len(first.trees) :]
    assert found == [outcome.tree] * len(found)
    assert outcome.tree == solve(problem, Brute()).tree


@pytest.mark.parametrize("model", MODELS)
def test_small_runs_are_the_same_each_time_with_any_number_of_threads(model: Any) -> None:
    problem = named(gaussian(1, 5))
    traces = []
    for threads in (1, 2, 3):
        result = solve(problem, replace(ALONE, model=model), Run(Limits(threads=threads)))
        traces.append([(step.score, step.bound) for step in result.trace])
    assert traces[0] == traces[1] == traces[2]


def test_many_families_are_for_all_threads() -> None:
    problem = named(gaussian(1, 15, 3))
    backend = ConstraintProgramming()
    report = Recording(patience=10, reason=Stop.TIME)
    outcome = backend.solve(problem, Limits(threads=2), report)
    assert outcome.stop is Stop.TIME
    assert outcome.stats["families"] > 1000


# Faults


def test_a_solution_that_means_no_tree_is_an_internal_error() -> None:
    work = SolverInput(families_of(named(gaussian(0, 4)), 0), (), None, {}, 1, 0, None)
    with pytest.raises(InternalError, match=r"no tree: ValueError\('nothing is meant'\)"):
        in_solver("solve_with_a_faulty_way_back", work)


def test_a_process_that_was_killed_while_it_waited_is_replaced() -> None:
    problem = named(gaussian(0, 4))
    backend = ConstraintProgramming()
    optimum = solve(problem, backend).score
    waiting = [one for one in psutil.Process().children() if "worker:answer_calls" in " ".join(one.cmdline())]
    assert waiting
    for child in waiting:
        child.kill()
        child.wait(10)
    assert solve(problem, backend).score == optimum


# Limits


@pytest.mark.parametrize("model", MODELS)
def test_stopped_it_returns_the_first_tree_and_a_bound(model: Any) -> None:
    problem = named(from_network(0, 12, 5))
    backend = ConstraintProgramming(start=Forward(), model=model)
    report = Recording(patience=60, reason=Stop.INTERRUPTED)
    outcome = backend.solve(problem, Limits(), report)
    assert outcome.stop is Stop.INTERRUPTED
    assert outcome.tree is not None
    assert outcome.bound >= outcome.tree.score(problem.scores)


def test_without_pruning_the_pairs_of_cliques_count_as_memory() -> None:
    problem = named(gaussian(0, 30, 4))
    pruned = replace(REGISTRY["cpsat"], model="balancing")  # type: ignore[type-var]
    with pytest.raises(LimitError, match="needs"):
        solve(problem, replace(pruned, start=None), Run(Limits(memory=10**10)))  # type: ignore[type-var]
    assert pruned.estimate(problem, Limits()).memory < 10**10
