"""Every registered backend on every problem that it supports; and that it refuses the rest.

A backend that is added to the registry is tested here without another line. One that takes long for any
problem runs the share of the problems that `shares.COSTLY` states.
"""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import fields, replace
from itertools import combinations
from math import inf
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from problems import FEATURES, from_data, from_network, gaussian, named, random_problem, small_problems
from runs import ReportingRun
from shares import COSTLY, WHOLE, drawn, share_of

from jtsolve.backends.registry import REGISTRY
from jtsolve.backends.support.starts import problem_for
from jtsolve.core.problem import ALL_FEATURES, LOCAL_FEATURES, Constraints, Problem, ProblemFeature
from jtsolve.core.result import Result, Status, Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import LARGEST, DenseScores
from jtsolve.errors import LimitError, RefusedError
from jtsolve.io.instance import read_problem
from jtsolve.io.result import result_to_document
from jtsolve.solving import solve

if TYPE_CHECKING:
    from tally import Tally

    from jtsolve.core.backend import Backend

TOLERANCE = 1e-9
"""Nats by which two exact backends may differ on five variables: the order of summation, no more."""

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))

ONE_OF_EACH = {
    ProblemFeature.MAX_TREEWIDTH: Constraints(max_treewidth=1),
    ProblemFeature.MAX_SEPARATOR_SIZE: Constraints(max_separator_size=1),
    ProblemFeature.MIN_SEPARATOR_SIZE: Constraints(min_separator_size=1),
    ProblemFeature.FORBIDDEN_EDGES: Constraints(forbidden_edges=frozenset({0b011})),
    ProblemFeature.REQUIRED_EDGES: Constraints(required_edges=frozenset({0b011})),
    ProblemFeature.FORBIDDEN_CLIQUES: Constraints(forbidden_cliques=frozenset({0b110})),
    ProblemFeature.FORBIDDEN_SEPARATORS: Constraints(forbidden_separators=frozenset({0})),
    ProblemFeature.ALLOWED_SEPARATORS: Constraints(allowed_separators=frozenset({0, 1, 2, 4, 8})),
    ProblemFeature.MAX_CLIQUES: Constraints(max_cliques=2),
    ProblemFeature.FORBIDDEN_GRAPHS: Constraints(forbidden_graphs=frozenset({frozenset(), frozenset({3})})),
    ProblemFeature.MAX_CLIQUE_CELLS: Constraints(max_clique_cells=6),
}


def variants(backend: Any) -> list[Backend]:
    """Returns a backend as registered, then on its own, with each value of the options that have a list.

    On its own: an option that is another backend is None, if it may be.
    """
    entries = fields(backend)
    hints = get_type_hints(type(backend))
    helpers = [
        entry.name
        for entry in entries
        if hasattr(getattr(backend, entry.name), "capabilities") and NoneType in get_args(hints[entry.name])
    ]
    alone = replace(backend, **dict.fromkeys(helpers))
    choices = [
        replace(alone, **{entry.name: choice})
        for entry in entries
        if get_origin(hints[entry.name]) is Literal
        for choice in get_args(hints[entry.name])
    ]
    return [backend, *([alone] if helpers else []), *choices]


def taking(backend: Any, problem: Problem) -> list[Backend]:
    """Returns the variants that accept a problem: a device supports less than the processor, or is absent."""
    return [one for one in variants(backend) if not one.capabilities.objections(problem)]


class Case(NamedTuple):
    """A random problem of few variables: its constraints, its size, its seed."""

    features: frozenset[ProblemFeature]
    n: int
    seed: int

    @property
    def key(self) -> str:
        return f"{'+'.join(sorted(feature.value for feature in self.features))} {self.n} {self.seed}"

    def problem(self) -> Problem:
        return random_problem(100 * self.n + self.seed, self.n, self.features)


SEEDS = {0: (1, 3, 12, 12, 10), 1: (1, 3, 6, 5, 4), 2: (1, 2, 2, 1, 1)}
"""Problems of 1, 2, 3, 4, 5 variables, by the number of constraints."""


def cases(features: frozenset[ProblemFeature]) -> list[Case]:
    """Returns the problems with these constraints that all backends are tried on."""
    counts = SEEDS[len(features)]
    return [Case(features, n, seed) for n, count in enumerate(counts, 1) for seed in range(count)]


def runs(registered: Backend, problem: Problem, key: str, *, one: bool) -> list[Backend]:
    """Returns the variants to run of a backend: one or all, of a costly one at most one."""
    share = share_of(registered.name)
    if not share.has(problem.n, key):
        return []
    every = taking(registered, problem)
    return [drawn(every, key)] if one or share is not WHOLE else every


def verify(problem: Problem, tally: Tally, key: str | None = None, *, one: bool = False) -> float:
    """Runs every backend on the problem, or checks its refusal; returns the optimum by brute force.

    Args:
        problem: what to solve, of at most five variables.
        tally: receives the counts.
        key: selects the variants of costly backends; None for all variants of all backends.
        one: whether to run one variant of each backend, by the key.
    """
    optimum = solve(problem, REGISTRY["brute"]).bound  # -inf if there is no tree
    tally.count("brute", "ran")
    for name, registered in REGISTRY.items():
        if name == "brute":
            continue
        objections = registered.capabilities.objections(problem)
        if objections:
            tally.count(name, "refused")
            with pytest.raises(RefusedError) as refusal:
                solve(problem, registered)
            assert refusal.value.reasons == objections
            continue
        for backend in (
            taking(registered, problem) if key is None else runs(registered, problem, key, one=one)
        ):
            tally.count(name, "ran")
            judge(solve(problem, backend), backend, optimum)
    return optimum


def judge(result: Result, backend: Backend, optimum: float) -> None:
    """Compares a result, which `solve` has checked, with the true optimum."""
    assert result.stop is Stop.FINISHED
    assert result.bound >= optimum - TOLERANCE
    if optimum == -inf:
        assert result.tree is None
        # A portfolio is no exact backend, but a member of it may prove this.
        proved = result.status is Status.INFEASIBLE
        assert proved or (result.status is Status.UNKNOWN and not backend.capabilities.exact)
        return
    assert result.status is not Status.INFEASIBLE
    if result.score is not None:
        assert result.score <= optimum + TOLERANCE
    if not backend.capabilities.exact:
        return
    assert result.score is not None
    if getattr(backend, "precision", None) == "int32":
        return  # the bound carries the rounding, and the score is within it
    assert result.status is Status.OPTIMAL  # which bounds the bound from above
    assert result.score == pytest.approx(optimum, abs=TOLERANCE)


FEATURE_SETS = [frozenset(chosen) for count in range(3) for chosen in combinations(FEATURES, count)]


@pytest.mark.parametrize(
    "features",
    FEATURE_SETS,
    ids=lambda features: "+".join(sorted(feature.value for feature in features)) or "free",
)
def test_all_agree_with_brute_force(features: frozenset[ProblemFeature], tally: Tally) -> None:
    for case in cases(features):
        verify(case.problem(), tally, case.key, one=True)


@pytest.mark.parametrize("name", COSTLY)
def test_the_share_of_a_costly_backend_has_every_constraint(name: str) -> None:
    share = share_of(name)
    run = [case for features in FEATURE_SETS for case in cases(features) if share.has(case.n, case.key)]
    assert all(sum(feature in case.features for case in run) >= 3 for feature in FEATURES)
    assert {case.n for case in run} >= {3, 4, 5}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problem=small_problems(allowed=FEATURES))
def test_all_agree_with_brute_force_on_ties_and_zeros(problem: Problem, tally: Tally) -> None:
    verify(problem, tally, f"{problem.digest()} {problem.constraints}")


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.value)
def test_exact_backends_agree_on_more_variables(feature: ProblemFeature, tally: Tally) -> None:
    outcomes = Counter[str]()
    for seed in (0, 2, 4):  # of 1 and 7, `clutter` bounds the number of cliques in 4 and 12 seconds
        problem = random_problem(seed, 6 + seed % 3, frozenset({feature}))
        key = f"{feature.value} {problem.n} {seed}"
        results = [
            (backend, solve(problem, backend))
            for registered in REGISTRY.values()
            if not registered.capabilities.objections(problem)
            for backend in runs(registered, problem, key, one=not registered.capabilities.exact)
        ]
        exact = [result for backend, result in results if backend.capabilities.exact]
        optimum = exact[0].score if exact and exact[0].score is not None else -inf
        for backend, result in results:
            tally.count(backend.name, "ran")
            if exact:
                judge(result, backend, optimum)
        outcomes["feasible" if optimum > -inf else "not"] += 1
    assert outcomes["feasible"] > 0 or feature in ALL_FEATURES - LOCAL_FEATURES


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.value)
@pytest.mark.parametrize("name", REGISTRY)
def test_unsupported_features_are_refused_by_name(name: str, feature: ProblemFeature, tally: Tally) -> None:
    backend = REGISTRY[name]
    problem = named(gaussian(0, 4, 2), ONE_OF_EACH[feature])
    assert problem.constraints.features == {feature}
    if feature in backend.capabilities.features:
        assert not any("does not support" in reason for reason in backend.capabilities.objections(problem))
        return
    tally.count(name, "refused")
    with pytest.raises(RefusedError, match=feature.value):
        solve(problem, backend)


def test_all_reasons_are_given_at_once() -> None:
    constraints = Constraints(max_cliques=3, max_separator_size=0, forbidden_cliques=frozenset({1}))
    reasons = " ".join(REGISTRY["chowliu"].capabilities.objections(named(gaussian(0, 4, 2), constraints)))
    assert all(word in reasons for word in ("max_cliques", "max_separator_size", "forbidden_cliques"))


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_traps_of_the_past(path: Path, tally: Tally) -> None:
    problem = read_problem(path)
    optimum = problem.provenance["optimum"]
    expected = -inf if optimum is None else optimum
    assert verify(problem, tally) == pytest.approx(expected, abs=TOLERANCE)


def lasting(result: Result) -> bytes:
    """Returns the result as bytes, without times, which may differ from run to run."""
    document: dict[str, Any] = msgspec.to_builtins(result_to_document(result))
    del document["seconds"]
    document["trace"] = [step[1:] for step in document["trace"]]
    return msgspec.json.encode(document)


@pytest.mark.parametrize("name", REGISTRY)
def test_the_largest_scores_do_not_overflow(name: str, tally: Tally) -> None:
    for size in (2, 4):
        signs = np.sign(gaussian(3, 4, size).values)
        problem = named(DenseScores(4, size, LARGEST * signs))
        best = solve(problem, REGISTRY["brute"]).score
        assert best is not None
        if REGISTRY[name].capabilities.objections(problem):
            tally.count(name, "refused")
            continue
        tally.count(name, "ran")
        result = solve(problem, REGISTRY[name])
        assert result.score is not None
        assert result.score <= best * (1 + 1e-12)
        assert best * (1 - 1e-12) <= result.bound < inf


@pytest.mark.parametrize("name", REGISTRY)
def test_same_input_same_output(name: str, tally: Tally) -> None:
    for seed in range(6):
        problem = random_problem(seed, 5, frozenset({FEATURES[seed]}))
        if REGISTRY[name].capabilities.objections(problem):
            tally.count(name, "refused")
            continue
        tally.count(name, "ran")
        first, second = (solve(problem, REGISTRY[name]) for _ in range(2))
        assert lasting(first) == lasting(second)


def stoppable(backend: Backend) -> list[Problem]:
    """Returns some problems that the backend supports, as large as possible; of a costly one, few."""
    largest = min(12, backend.capabilities.max_variables or 12)
    constraints = [
        Constraints(),
        Constraints(min_separator_size=1),
        Constraints(forbidden_edges=frozenset({3})),
    ]
    problems = [
        named(scores, chosen)
        for size in (2, 4)
        for scores in (gaussian(0, largest, size), from_data(0, largest, size))
        for chosen in constraints
    ]
    problems.append(named(from_network(0, largest, 3)))
    problems.append(named(from_network(0, largest, 4), Constraints(max_treewidth=1)))
    taken = [problem for problem in problems if not backend.capabilities.objections(problem)]
    return taken[:: share_of(backend.name).limits]


@pytest.mark.parametrize("name", REGISTRY)
def test_a_time_limit_that_is_over_leaves_a_tree(name: str, tally: Tally) -> None:
    taken = stoppable(REGISTRY[name])
    assert taken
    for problem in taken:
        tally.count(name, "ran")
        result = solve(problem, REGISTRY[name], Run(Limits(time=1e-9)))
        # A forest is whole however late it is, and where it is the answer there is nothing left to do.
        assert result.stop is Stop.TIME or result.status is Status.OPTIMAL
        if problem_for(REGISTRY["chowliu"], problem) is None:
            assert result.status in {Status.FEASIBLE, Status.UNKNOWN, Status.OPTIMAL}
        else:
            assert result.tree is not None


@pytest.mark.parametrize("name", REGISTRY)
def test_a_memory_limit_that_is_too_small_is_refused(name: str, tally: Tally) -> None:
    for problem in stoppable(REGISTRY[name]):
        tally.count(name, "ran")
        with pytest.raises(LimitError, match=r"but the memory limit is 1e-06 GB\. Ways out: "):
            solve(problem, REGISTRY[name], Run(Limits(memory=1000)))


@pytest.mark.parametrize("name", REGISTRY)
def test_an_interrupt_leaves_a_valid_answer(name: str, tally: Tally) -> None:
    handler = signal.getsignal(signal.SIGINT)
    stops = Counter[Stop]()
    for problem in stoppable(REGISTRY[name]):
        tally.count(name, "ran")
        reported = 0

        def interrupt(**_: object) -> None:
            nonlocal reported
            reported += 1
            if reported == 1:
                signal.raise_signal(signal.SIGINT)

        result = solve(problem, REGISTRY[name], ReportingRun(interrupt))
        stops[result.stop] += 1
        assert result.stop in {Stop.INTERRUPTED, Stop.FINISHED}
        assert signal.getsignal(signal.SIGINT) is handler
    if name != "chowliu":  # it is done with twelve variables before it first reports
        assert stops[Stop.INTERRUPTED] > 0


def test_no_backend_ran_nothing(tally: Tally) -> None:
    """Judged at the end of the run: each of several test processes has its own runs only."""
    assert set(tally.counts) <= set(REGISTRY)
    tally.required.update(REGISTRY)
