"""Why a problem has no tree, or the costs of its constraints, by names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from jtsolve.conflict import Conflict, Cost, costs, find_conflict
from jtsolve.core.notebook import as_html
from jtsolve.io.constraints import constraints_to_document
from jtsolve.listing import table
from jtsolve.solving import solve

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Constraints, Problem
    from jtsolve.core.result import Result
    from jtsolve.core.run import Run

_EXACT = 1e-5
"""Nats; bounds that are closer are shown as one number."""


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
                    "No tree exists under any constraints: the sets that have a score make none. Add scores."
                )
            known = (
                "leave out any one of them, and there is a tree"
                if self.is_minimal
                else f"the search ended early ({self.found.stop.value}): fewer may exclude every tree too"
            )
            lines = [f"  {text}" for text in self.conflict]
            return "\n".join([f"These constraints together exclude every tree; {known}:", *lines])
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
    """Returns a cost, or the bounds of it."""
    if cost.remark:
        return cost.remark
    if cost.most - cost.least <= _EXACT:
        return f"{cost.least:.6g}"
    return f"{cost.least:.6g} to {cost.most:.6g}" if cost.most < inf else f"{cost.least:.6g} or more"
