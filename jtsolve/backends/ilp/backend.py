"""Integer linear programming: the family formulation, solved through PuLP by HiGHS or another solver.

A tree is a choice of one family (v,P) per vertex, without v-structures, in an order (`encodings.family`). The
model is compact, as PuLP has no cut callbacks, and its linear relaxation is weak: most of the work is done by
the preparation (`support.prepare`), which leaves few families and adds the cuts of the clutter LP as rows.

The solver runs in its own process (`support.solver`, `support.worker`), since PuLP cannot interrupt it.
Scores of its trees are recomputed, and its bounds are widened by its tolerances (`ilp.process`). HiGHS
reports trees and bounds while it runs; another solver reports its tree at the end, and a bound only with a
proof of optimality.

Time is exponential in the number of variables in the worst case. Memory: the families, and in the solver's
process their rows and n³/3 rows of the transitive order.

References:
    Cussens, Bayesian network learning with cutting planes, UAI 2011. Huangfu and Hall, Parallelizing the dual
    revised simplex method, Mathematical Programming Computation 2018 (HiGHS). Mitchell, O'Sullivan and
    Dunning, PuLP: a linear programming toolkit for Python, 2011.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from jtsolve.backends.support.solver import SolverBackend
from jtsolve.backends.support.worker import Call, in_worker
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.temporary import temporary_folder
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits

_HIGHS = "HiGHS"
_INSTALLED = "jtsolve.backends.ilp.process:installed"


@dataclass(frozen=True, slots=True)
class IntegerProgramming(SolverBackend):
    """Integer linear programming with PuLP. Exact, for small or well-pruned problems.

    Args:
        solver: a solver that PuLP finds on this machine, by PuLP's name in upper or lower case: HiGHS,
            PULP_CBC_CMD, SCIP_PY, GUROBI, CPLEX_PY, COPT, XPRESS_PY and others.
        start: the backend that finds the first tree, or None: then nothing is pruned.
        relaxation: a backend that relaxes the problem, for a bound, cuts and pruning, or None. Where its
            bound is the tree's score, that bound is the proof of optimality.

    Raises:
        ChoiceError: `relaxation` does not relax problems.
    """

    solver: str = _HIGHS

    name: ClassVar[str] = "ilp"
    module: ClassVar[str] = "pulp"
    package: ClassVar[str] = "pulp"
    process: ClassVar[str] = "jtsolve.backends.ilp.process:solve"

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`.

        Raises:
            ChoiceError: PuLP finds no such solver.
        """
        self.estimate(problem, limits).require_memory(self.name, limits)
        solver = self._installed_solver(limits, report)
        if solver is None:
            return Outcome(None, stop=report.stop or Stop.TIME)
        with temporary_folder() as folder:
            return self.solve_with({"solver": solver, "folder": str(folder)}, problem, limits, report)

    def _installed_solver(self, limits: Limits, report: Report) -> str | None:
        """Returns PuLP's name of the solver; None if the run was stopped before it was known.

        PuLP runs in the solver's process, since libraries of solvers cannot share one.
        """
        if self.solver.lower() == _HIGHS.lower():
            return _HIGHS
        names, _ = in_worker(Call(self.module, _INSTALLED, ()), lambda _message: None, report, limits)
        if names is None:
            return None
        spelled = {name.lower(): name for name in names}
        if self.solver.lower() not in spelled:
            raise ChoiceError(
                f"the option 'solver' of backend 'ilp' cannot be '{self.solver}': PuLP finds no such solver "
                f"on this machine; it finds {', '.join(spelled.values())}"
            )
        return str(spelled[self.solver.lower()])
