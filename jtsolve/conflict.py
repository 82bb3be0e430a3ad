"""Which constraints exclude every junction tree, and the cost of each of them.

In an infeasible problem, deletion filtering finds a minimal conflict: constraints that together exclude every
tree, where any of them may be left out alone. A group of constraints is left out as long as there is still
no tree; groups halve, down to single constraints. Constraints are monotone: a tree that meets more meets
fewer. So one pass over single constraints is enough, and the tree found without one is a witness that it is
needed. At each moment the constraints that are left are a conflict, and the smallest found so far.

Every probe is a solve in which each set that has a score has the score 0: the first tree ends it, and only
"infeasible" needs a proof.

References:
    Chinneck and Dravnieks, Locating minimal infeasible constraint sets in linear programs, ORSA Journal on
    Computing 3, 1991 (deletion filtering). Zeller and Hildebrandt, Simplifying and isolating failure-inducing
    input, IEEE Trans. Software Eng. 28, 2002 (groups).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.problem import SET_LISTS, Constraints, Problem
from jtsolve.core.result import Result, Status, Stop
from jtsolve.core.run import Run
from jtsolve.core.scores import DenseScores, SparseScores
from jtsolve.errors import LimitError, RefusedError
from jtsolve.solving import solve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.backend import Backend
    from jtsolve.core.tree import JunctionTree


_LEAST_PATIENCE = 5.0
"""Seconds for a solve without a constraint, where nothing limits them."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Constraints that together exclude every tree.

    Attributes:
        parts: the constraints, each alone. None are left where the scores exclude every tree: a set without
            one is neither a clique nor a separator.
        witnesses: for each part, a tree that meets all others; None where the limits ended the search.
        stop: why the search ended; the parts are minimal if it finished.
    """

    parts: tuple[Constraints, ...]
    witnesses: tuple[JunctionTree | None, ...]
    stop: Stop

    @property
    def constraints(self) -> Constraints:
        """The parts together."""
        return joined(self.parts)

    @property
    def is_minimal(self) -> bool:
        """Whether every part is proved to be needed."""
        return all(tree is not None for tree in self.witnesses)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a constraint costs: the optimum without it minus the optimum, in nats.

    Attributes:
        part: the constraint.
        least: it costs at least this.
        most: it costs at most this; inf if the problem without it was not solved.
        remark: why it was not; empty otherwise.
    """

    part: Constraints
    least: float
    most: float
    remark: str = ""


def parts_of(constraints: Constraints) -> list[Constraints]:
    """Returns the single constraints: numbers and `allowed_separators` unchanged, each set alone.

    >>> len(parts_of(Constraints(max_treewidth=2, forbidden_edges=frozenset({0b011, 0b101}))))
    3
    """
    parts = []
    for feature in sorted(constraints.features, key=lambda feature: feature.value):
        value = getattr(constraints, feature.value)
        single = feature.value in SET_LISTS and feature.value != "allowed_separators"
        several = single or feature.value == "forbidden_graphs"
        entries: list[Any] = [frozenset({one}) for one in sorted(value, key=_order)] if several else [value]
        parts += [Constraints(**{feature.value: entry}) for entry in entries]
    return parts


def _order(entry: Any) -> Any:
    return sorted(entry) if isinstance(entry, frozenset) else entry


def joined(parts: Sequence[Constraints]) -> Constraints:
    """Returns constraints together."""
    return reduce(Constraints.joined, parts, Constraints())


def find_conflict(
    problem: Problem, run: Run | None = None, backend: Backend | None = None
) -> Conflict | None:
    """Returns a minimal conflict, or the smallest found within the limits; None if the problem has a tree.

    Args:
        problem: scores and constraints.
        run: limits, progress and interruption; None for the defaults.
        backend: an exact one, for every probe; None for the choice of `auto`.

    Raises:
        RefusedError: the backend does not support the constraints.
        LimitError: the limits ended even the proof of infeasibility.
    """
    run, flat = run or Run(), _flat(problem)

    def probe(parts: Sequence[Constraints]) -> Result:
        return solve(replace(flat, constraints=joined(parts)), backend, run.part())

    with run.interruptible():
        parts = parts_of(problem.constraints)
        result = probe(parts)
        if result.tree is not None:
            return None
        if result.status is not Status.INFEASIBLE:
            raise LimitError(
                "neither a tree nor a proof of infeasibility was found within the limits, so that no "
                "conflict can be named. Ways out: more time, an exact backend."
            )
        witnesses: dict[Constraints, JunctionTree] = {}
        stop, size = run.stop, max(1, len(parts) // 2)
        while stop is None:
            # Invariant: no tree meets `parts`, and each witness meets all of them but its own.
            left = [part for part in parts if part not in witnesses]
            for start in range(0, len(left), size):
                group = left[start : start + size]
                run.progress(note=f"{len(parts)} constraints in conflict", done=start / len(left))
                kept = [part for part in parts if part not in group]
                found = probe(kept)
                if found.status is Status.INFEASIBLE:
                    parts = kept
                elif found.tree is not None and size == 1:
                    witnesses[group[0]] = found.tree
                stop = run.stop or (None if found.stop is Stop.FINISHED else found.stop)
                if stop is not None:
                    break
            if size == 1:
                break
            size //= 2
    return Conflict(tuple(parts), tuple(witnesses.get(part) for part in parts), stop or Stop.FINISHED)


def costs(problem: Problem, result: Result, run: Run, backend: Backend | None = None) -> list[Cost]:
    """Returns the cost of each constraint, the most expensive first.

    Without a time limit each solve has three times the seconds of the first, and 5 at least.

    Args:
        problem: scores and constraints.
        result: of the problem, with a tree.
        run: limits, which the solves share evenly, progress and interruption.
        backend: for every solve; None for the choice of `auto`.
    """
    assert result.score is not None, "there is a tree"
    found = []
    patience = max(_LEAST_PATIENCE, 3 * result.seconds["total"]) if run.left == inf else inf
    with run.interruptible():
        parts = parts_of(problem.constraints)
        for at, part in enumerate(parts):
            run.progress(note=f"without constraint {at + 1} of {len(parts)}")
            rest = [other for other in parts if other is not part]
            if run.stop is not None:
                found.append(Cost(part, 0.0, inf, f"not solved ({run.stop.value})"))
                continue
            try:
                own = run.part(min(run.left / (len(parts) - at), patience))
                without = solve(replace(problem, constraints=joined(rest)), backend, own)
            except (LimitError, RefusedError) as refusal:
                found.append(Cost(part, 0.0, inf, str(refusal)))
                continue
            least = max(0.0, (without.score or -inf) - result.bound)
            found.append(Cost(part, least, max(least, without.bound - result.score)))
    return sorted(found, key=lambda cost: (-cost.least, -cost.most))


def _flat(problem: Problem) -> Problem:
    """Returns the problem with the score 0 for every set of a table that has one."""
    scores = problem.scores
    if isinstance(scores, DenseScores):
        flat: DenseScores | SparseScores = DenseScores(
            scores.n, scores.max_size, np.zeros_like(scores.values)
        )
    elif isinstance(scores, SparseScores):
        flat = SparseScores(scores.n, dict.fromkeys(scores.table, 0.0))
    else:
        return problem
    return Problem(problem.variables, flat, problem.constraints, problem.name)
