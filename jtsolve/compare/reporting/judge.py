"""Verification of a comparison: every tree against its instance, and runs on the same instance pairwise.

A tree of treewidth at most a is feasible for every bound b ≥ a on the treewidth. Hence a score at a may not
exceed an upper bound at b ≥ a, and no run may solve at a an instance that another run proved infeasible at b.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, Literal

import msgspec

from jtsolve.compare.running.run import read_instance
from jtsolve.compare.spec import ANSWERED, RunStatus
from jtsolve.core.result import optimality_tolerance
from jtsolve.errors import JtsolveError
from jtsolve.io.constraints import ConstraintsDocument, constraints_to_document
from jtsolve.verify.result import check

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jtsolve.compare.spec import InstanceFile, Row

FaultKind = Literal[
    "wrong answer", "not verified", "score above bound", "infeasible but solved", "two optima"
]


@dataclass(frozen=True, slots=True)
class Fault:
    """A contradiction: its kind, one sentence, and the ids of the runs concerned."""

    kind: FaultKind
    message: str
    runs: tuple[str, ...]


def judge(rows: Sequence[Row]) -> tuple[Fault, ...]:
    """Returns all faults of the rows of finished runs."""
    faults = [
        Fault("wrong answer", f"{_run(row)}: {row.message}", (row.spec.id,))
        for row in rows
        if row.status is RunStatus.WRONG
    ]
    by_problem: dict[tuple[InstanceFile, int | None], list[Row]] = {}
    for row in rows:
        if row.result is not None:
            by_problem.setdefault((row.spec.instance, row.spec.treewidth), []).append(row)
    for group in by_problem.values():
        faults.extend(_checked(group))
    condemned = {run for fault in faults for run in fault.runs}
    return (*faults, *_contradictions([row for row in rows if row.spec.id not in condemned]))


def _run(row: Row) -> str:
    spec = row.spec
    width = "any treewidth" if spec.treewidth is None else f"treewidth {spec.treewidth}"
    return f"{spec.backend} on {spec.instance.label}, {width}, seed {spec.seed}"


def _checked(rows: Sequence[Row]) -> Iterator[Fault]:
    """Yields the faults of results on one problem, which are checked against the instance alone."""
    try:
        problem = read_instance(rows[0].spec)
    except JtsolveError as error:
        text = f"{len(rows)} results cannot be checked again: {error}"
        yield Fault("not verified", text, tuple(row.spec.id for row in rows))
        return
    names = problem.names
    constraints = constraints_to_document(problem.constraints, names)
    expected = msgspec.convert(constraints, ConstraintsDocument)
    for row in rows:
        assert row.result is not None
        faults = check(problem, row.result)
        if row.result.instance.constraints != expected:
            faults += ("The result is for other constraints than the run.",)
        if row.result.status.value != row.status.value:
            faults += (f"The row states {row.status.value}, its result {row.result.status.value}.",)
        for sentence in faults:
            yield Fault("wrong answer", f"{_run(row)}: {sentence}", (row.spec.id,))


def _limit(row: Row) -> float:
    return inf if row.spec.treewidth is None else row.spec.treewidth


def _contradictions(rows: Sequence[Row]) -> Iterator[Fault]:
    """Yields the contradictions between two results on one instance."""
    answered = [row for row in rows if row.status in ANSWERED and row.result is not None]
    by_instance: dict[str, list[Row]] = {}
    for row in answered:
        by_instance.setdefault(row.spec.instance.sha256, []).append(row)
    for group in by_instance.values():
        for first, second in combinations(group, 2):
            fault = _between(first, second) or _between(second, first)
            if fault is not None:
                yield fault


def _between(solved: Row, other: Row) -> Fault | None:
    """Returns the fault if `other` rules out the tree of `solved`."""
    assert solved.result is not None
    assert other.result is not None
    score = solved.result.score
    if score is None or _limit(solved) > _limit(other):
        return None
    runs = (solved.spec.id, other.spec.id)
    if other.status is RunStatus.INFEASIBLE:
        text = f"{_run(other)}, proved infeasible, but {_run(solved)}, has a tree of score {score:.9f}"
        return Fault("infeasible but solved", text, runs)
    bound = other.result.bound
    if bound is None or score <= bound + optimality_tolerance(score):
        return None
    if solved.status is other.status is RunStatus.OPTIMAL and _limit(solved) == _limit(other):
        optima = f"{score:.9f} and {other.result.score:.9f}"
        text = f"{_run(solved)}, and {_run(other)}, proved two optima: {optima}"
        return Fault("two optima", text, runs)
    text = f"{_run(solved)}, has the score {score:.9f}, above the bound {bound:.9f} of {_run(other)}"
    return Fault("score above bound", text, runs)
