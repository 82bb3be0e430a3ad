"""The constraints that exclude every junction tree, and the cost of each constraint.

In an infeasible problem, deletion filtering finds a minimal conflict: its constraints together exclude every
tree, and without any one of them there is a tree. A group of constraints is dropped if the others exclude
every tree, too; groups halve, down to single constraints. Feasibility is monotone: a tree that meets a set of
constraints meets every subset. So one pass over single constraints suffices, and the tree found without a
constraint proves that it is needed. The constraints left at any moment are the smallest conflict so far.

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
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.notebook import as_html
from jtsolve.core.problem import SET_LISTS, Constraints, Problem
from jtsolve.core.result import Result, Status, Stop
from jtsolve.core.run import Run
from jtsolve.core.scores import DenseScores, SparseScores
from jtsolve.errors import LimitError, RefusedError
from jtsolve.io.constraints import constraints_to_document
from jtsolve.listing import table
from jtsolve.options import TIME
from jtsolve.solving import solve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.backend import Backend
    from jtsolve.core.tree import JunctionTree


_LEAST_PATIENCE = 5.0
"""Seconds for a solve without a constraint, where nothing limits them."""
_EXACT = 1e-5
"""Nats; bounds that are closer are shown as one number."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Constraints that together exclude every tree.

    Attributes:
        parts: the constraints, each alone; none if the scores alone exclude every tree, since a set without a
            score is neither a clique nor a separator.
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
    """The cost of a constraint: the optimum without it minus the optimum, in nats.

    Attributes:
        part: the constraint.
        least: lower bound of the cost.
        most: upper bound of the cost; inf if the problem without the constraint was not solved.
        remark: why it was not solved; empty otherwise.
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
                f"conflict can be named. Ways out: a larger {TIME}, an exact backend."
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
            least = 0.0 if without.score is None else max(0.0, without.score - result.bound)
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


@dataclass(frozen=True, slots=True, repr=False)
class ConstraintReport:
    """The constraints that exclude every tree, or the cost of each constraint.

    Attributes:
        problem: of an infeasible problem, the same under the conflict alone; otherwise as given.
        found: the conflict; None if there is a tree.
        result: the best tree; None of an infeasible problem, or if the limits ended the search for it.
        costs: of each constraint, the most expensive first; of an infeasible problem none.
    """

    problem: Problem
    found: Conflict | None
    result: Result | None
    costs: tuple[Cost, ...] = ()

    @property
    def is_feasible(self) -> bool:
        """Whether there is a tree."""
        return self.found is None

    @property
    def is_minimal(self) -> bool:
        """Whether each constraint of the conflict is proved to be needed for it."""
        return self.found is not None and self.found.is_minimal

    @property
    def conflict(self) -> list[str]:
        """The constraints in conflict, each as KEY=VALUE with the keys of the instance format."""
        parts = () if self.found is None else self.found.parts
        return [self._text(part) for part in parts]

    def to_document(self) -> dict[str, Any]:
        """Returns the explanation as JSON values."""
        if self.found is not None:
            return {"feasible": False, "conflict": self.conflict, "minimal": self.is_minimal}
        listed = [
            {
                "constraint": self._text(cost.part),
                "least": cost.least,
                "most": cost.most if isfinite(cost.most) else None,
                "remark": cost.remark,
            }
            for cost in self.costs
        ]
        return {
            "feasible": True,
            "score": None if self.result is None else self.result.score,
            "costs": listed,
        }

    def _text(self, part: Constraints) -> str:
        """Returns one constraint as KEY=VALUE, of edges and single sets as `--constraint` reads it."""
        ((key, value),) = constraints_to_document(part, self.problem.names).items()
        if key == "forbidden_graphs":
            return f"{key}={'; '.join(map(','.join, value[0])) or 'without edges'}"
        if isinstance(value, list) and key not in ("allowed_separators", "real_variables"):
            value = value[0]
        if key == "allowed_separators":
            return f"{key}={'; '.join('{' + ','.join(names) + '}' for names in value)}"
        return f"{key}={','.join(value) if isinstance(value, list) else value}"

    def __str__(self) -> str:
        if self.found is not None:
            if not self.found.parts:
                return (
                    "No tree exists under any constraints: the sets that have a score form none. Add scores."
                )
            claim = (
                "leave out any one of them, and there is a tree"
                if self.is_minimal
                else f"the search ended early ({self.found.stop.value}): fewer may exclude every tree too"
            )
            lines = [f"  {text}" for text in self.conflict]
            return "\n".join([f"These constraints together exclude every tree; {claim}:", *lines])
        if self.result is None:
            return "There is a tree; the limits ended the search for the best one, so no cost is known."
        if not self.costs:
            return "There is a tree, and no constraint."
        rows = [[self._text(cost.part), _in_words(cost)] for cost in self.costs]
        return table(["constraint", "costs, nats"], rows)

    def __repr__(self) -> str:
        return f"ConstraintReport({'costs' if self.is_feasible else ', '.join(self.conflict)})"

    def _repr_html_(self) -> str | None:
        return as_html(str(self).splitlines())


def explained(problem: Problem, run: Run, backend: Backend | None = None) -> ConstraintReport:
    """Returns a minimal conflict of an infeasible problem, or the cost of each constraint of another.

    Args:
        problem: scores and constraints.
        run: limits, progress and interruption.
        backend: for every solve; None for the choice of `auto`.

    Raises:
        RefusedError: the backend does not support the constraints.
        LimitError: the limits ended the search for a tree.
    """
    with run.phase("a conflict of the constraints"):
        found = find_conflict(problem, run, backend)
        if found is not None:
            return ConstraintReport(replace(problem, constraints=found.constraints), found, None)
        result = solve(problem, backend, run.part(run.left / 2))
        if result.tree is None:
            return ConstraintReport(problem, None, None)
        return ConstraintReport(problem, None, result, tuple(costs(problem, result, run, backend)))


def _in_words(cost: Cost) -> str:
    """Returns a cost, or its bounds."""
    if cost.remark:
        return cost.remark
    if cost.most - cost.least <= _EXACT:
        return f"{cost.least:.6g}"
    return f"{cost.least:.6g} to {cost.most:.6g}" if cost.most < inf else f"{cost.least:.6g} or more"
