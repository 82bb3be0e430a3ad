"""Constraint programming with CP-SAT (OR-Tools): exact, in two formulations.

The problem is prepared (`support.prepare`: a first tree, a root, pruning and cuts by a relaxation), written
as a formula, and solved by CP-SAT in its own process (`cpsat.process`), with the first tree as a hint. Trees
and bounds come back as they are found.

- `family`: the parents of each vertex (`encodings.family`), with the cuts of the relaxation.
- `balancing`: the cliques and the edges of the tree (`encodings.balancing`), with the same cuts.

Scores are rounded to a fine unit, and `bound` carries the rounding; the scores of trees are recomputed.

Time: exponential in the worst case; it depends on the scores more than on the sizes. Memory: linear in the
families; for `balancing` quadratic in the cliques that are left.

References:
    Corander, Janhunen, Rintanen, Nyman and Pensar, Learning chordal Markov networks by constraint
    satisfaction, NIPS 2013. Ohrimenko, Stuckey and Codish, Propagation via lazy clause generation,
    Constraints 2009 (how CP-SAT works).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from jtsolve.backends.support.solver import SolverBackend
from jtsolve.encodings.balancing import predicted_memory

if TYPE_CHECKING:
    from jtsolve.core.backend import Estimate, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Outcome
    from jtsolve.core.run import Limits


@dataclass(frozen=True, slots=True)
class ConstraintProgramming(SolverBackend):
    """Constraint programming with CP-SAT. Exact, for a few dozen variables.

    Args:
        start: the backend that finds the first tree, or None: then nothing is pruned.
        relaxation: a backend that relaxes the problem, for a bound, cuts and pruning, or None. Its pruning
            rests on its own proof, not on CP-SAT's: see `support.prepare`.
        model: the formulation.

    Raises:
        ChoiceError: `relaxation` does not relax problems.
    """

    model: Literal["family", "balancing"] = "family"

    name: ClassVar[str] = "cpsat"
    module: ClassVar[str] = "ortools"
    package: ClassVar[str] = "ortools"
    process: ClassVar[str] = "jtsolve.backends.cpsat.process:solve"

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`.

        The number of pairs of cliques that pruning leaves is unknown beforehand, so they count only if
        nothing prunes.
        """
        estimate = SolverBackend.estimate(self, problem, limits)
        if self.model != "balancing" or self.start is not None:
            return estimate
        return replace(estimate, memory=estimate.memory + predicted_memory(problem))

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        return self.solve_with({"model": self.model}, problem, limits, report)
