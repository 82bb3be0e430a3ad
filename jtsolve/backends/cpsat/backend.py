"""Constraint programming with CP-SAT (OR-Tools): the family formulation. Exact.

The problem is prepared (`support.prepare`: a first tree, a root, pruning and cuts by a relaxation), written
as a formula (`encodings.family`), and given to CP-SAT in its own process (`cpsat.process`), with the first
tree as a hint. Trees and bounds come back as they are found.

Scores are rounded to a fine unit, and `bound` carries the rounding; the scores of trees are recomputed.

Time: exponential in the worst case; it depends on the scores more than on the sizes. Memory: linear in the
families.

References:
    Ohrimenko, Stuckey and Codish, Propagation via lazy clause generation, Constraints 2009 (CP-SAT).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from jtsolve.backends.support.packages import needs
from jtsolve.backends.support.solver import SolverCall, estimated, require_relaxation, solve_prepared
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.encodings.family import FEATURES

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Outcome
    from jtsolve.core.run import Limits


@dataclass(frozen=True, slots=True)
class ConstraintProgramming:
    """Constraint programming with CP-SAT. Exact, for a few dozen variables.

    Args:
        start: the backend that finds the first tree, or None: then nothing is pruned.
        relaxation: a backend that relaxes the problem, for a bound, cuts and pruning, or None. Its pruning
            rests on its own proof, not on CP-SAT's: see `support.prepare`.

    Raises:
        ChoiceError: `relaxation` does not relax problems.
    """

    start: Backend | None = None
    relaxation: Backend | None = None

    name: ClassVar[str] = "cpsat"

    def __post_init__(self) -> None:
        require_relaxation(self)

    @property
    def capabilities(self) -> Capabilities:
        """All constraints of the formulation; OR-Tools has to be installed."""
        return Capabilities(
            features=FEATURES,
            exact=True,
            needs_table=True,
            predictable=False,
            rules=(needs("ortools", "ortools"),),
        )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`."""
        return estimated(self, problem, limits)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        call = SolverCall("ortools", "jtsolve.backends.cpsat.process:solve")
        return solve_prepared(self, call, problem, limits, report)
