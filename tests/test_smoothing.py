"""The smoothed bound of branch and cut, and rounds that lower it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from problems import Recording, from_network, gaussian, named, random_problem, repeatable
from scipy.optimize import check_grad
from verifiers import verify

from jtsolve.backends.clutter import branch_and_bound
from jtsolve.backends.clutter.ascent import ascend
from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.clutter.branch_and_bound import BranchAndBound
from jtsolve.backends.clutter.inequalities import RowVector, SetRow
from jtsolve.backends.clutter.potentials import Potentials
from jtsolve.backends.clutter.smoothing import SmoothedBound
from jtsolve.backends.clutter.volume import Volume
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.problem import ALL_FEATURES
from jtsolve.core.result import Status
from jtsolve.core.run import Limits, Run
from jtsolve.families.families import families_of
from jtsolve.io.certificate import read_certificate
from jtsolve.io.result import result_to_document
from jtsolve.solving import solve

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.core.problem import Problem

ALONE = ClutterCuts(start=None, simplex=0, ties=False)


@pytest.fixture
def after_any_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smoothing takes over even where the steps gain much."""
    monkeypatch.setattr(branch_and_bound, "BRANCHING", replace(branch_and_bound.BRANCHING, vain=0.0))
    monkeypatch.setattr(branch_and_bound, "Volume", _NoSteps)
    monkeypatch.setattr(Potentials, "suit", lambda _: False)


class _NoSteps(Volume):
    def run(self, *_: object) -> bool:
        return True


def smoothed(problem: Problem) -> tuple[BranchAndBound, SmoothedBound]:
    """Returns a search after its first ascent, and its smoothed bound over all families."""
    families = families_of(problem, 0)
    report = Recording()
    search = BranchAndBound.whole(problem, families, Limits(), report, keep_stages=False)
    subproblem = search.root.subproblem
    ascend(subproblem, subproblem.multipliers, lambda _: True)
    subproblem.add_rows([], [SetRow(((5, 1), (9, -1)), (), -2), SetRow((), ((0, 1, -1), (1, 2, 1)), 0)])
    return search, SmoothedBound(subproblem, subproblem.families.allowed, None)


@pytest.mark.parametrize("temperature", [0.1, 3.0])
def test_its_gradient_is_that_of_its_value(temperature: float) -> None:
    search, smooth = smoothed(named(gaussian(1, 6, 3)))
    generator = np.random.default_rng(0)
    start = np.concatenate(search.root.subproblem.multipliers)
    for _ in range(3):
        point = (start + generator.random(start.size)) / temperature
        error = check_grad(
            lambda at: smooth.value(at, temperature)[0], lambda at: smooth.value(at, temperature)[1], point
        )
        assert error < 1e-4


@pytest.mark.parametrize("temperature", [0.01, 1.0, 30.0])
def test_it_is_above_the_bound_by_the_logarithms_of_the_families_at_most(temperature: float) -> None:
    search, smooth = smoothed(named(gaussian(2, 6, 3)))
    subproblem = search.root.subproblem
    multipliers = RowVector(*(part + 0.5 for part in subproblem.multipliers))
    bound = search.scale.unit * (subproblem.evaluate(multipliers).units - subproblem.best.target)
    value, _ = smooth.value(np.concatenate(multipliers) / temperature, temperature)
    families = subproblem.families
    count = np.bincount(families.members[families.allowed], minlength=families.n)
    above = value * temperature - bound
    assert -1e-4 <= above <= temperature * np.log(count).sum() + 1e-4


def test_its_minimum_is_lower_and_stops_when_asked() -> None:
    search, smooth = smoothed(named(gaussian(3, 7, 4)))
    start = search.root.subproblem.multipliers

    def value(multipliers: RowVector) -> float:
        return smooth.value(np.concatenate(multipliers), 1.0)[0]

    once = smooth.minimum(start, 1.0, 30, lambda: False)
    least = smooth.minimum(start, 1.0, 30, lambda: True)
    assert value(least) < value(once) < value(start)
    assert min(part.min(initial=0.0) for part in least) == 0.0


@pytest.mark.usefixtures("after_any_steps")
@pytest.mark.parametrize("threads", [1, 2])
def test_trees_proved_by_rounds_are_the_best(threads: int) -> None:
    for seed in range(2):
        problem = named(from_network(seed, 12, 4, rows=200))
        result = solve(problem, ALONE, Run(Limits(threads=threads)))
        assert result.status is Status.OPTIMAL
        assert result.stats["steps"] > 0
        assert result.score == pytest.approx(solve(problem, REGISTRY["dp"]).score)


@pytest.mark.usefixtures("after_any_steps")
def test_rounds_prove_under_all_constraints(tmp_path: Path) -> None:
    """Three at a time: under all at once, one problem in forty has a tree."""
    rounds, features = 0, sorted(ALL_FEATURES, key=str)
    for seed in range(40):
        problem = random_problem(seed, 5, frozenset(repeatable(seed).sample(features, 3)))
        expected = solve(problem, REGISTRY["brute"])
        path = tmp_path / f"{seed}.json"
        result = solve(problem, replace(ALONE, certificate=str(path)))
        assert result.status is expected.status
        assert result.score == pytest.approx(expected.score)
        assert not verify(problem, result_to_document(result), read_certificate(path))
        rounds += result.stats["steps"]
    assert rounds > 0


def test_near_families_that_closure_would_take_from_a_vertex_give_way_to_all() -> None:
    search, _ = smoothed(named(gaussian(1, 6, 3)))
    subproblem = search.root.subproblem
    families = subproblem.families
    triples = families.allowed & (families.sizes == 3)[:, None]  # whose parents nothing makes
    near, position = subproblem.near(triples)
    assert int(near.allowed.sum()) == int(families.allowed.sum())
    assert position.tolist() == list(range(families.sizes.size))
