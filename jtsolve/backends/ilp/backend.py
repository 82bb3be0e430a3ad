"""Integer linear programming: the family formulation, solved through PuLP by HiGHS or another solver.

A tree is a choice of one family (v,P) per vertex, without v-structures, in an order (`encodings.family`). The
model is compact, as PuLP has no cut callbacks, and its linear relaxation is weak: most of the work is done by
the preparation (`support.prepare`), which leaves few families and adds the cuts of the clutter LP as rows.

The solver runs in its own process (`support.solver`, `support.worker`), since it ignores our clock. Scores of
its trees are recomputed, and its bounds are widened by its tolerances (`ilp.process`). HiGHS reports trees
and bounds while it runs; another solver its tree at the end, and a bound only with a proof of optimality.

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

from jtsolve.backends.support.packages import needs
from jtsolve.backends.support.solver import SolverCall, estimated_cost, require_relaxation, solve_prepared
from jtsolve.backends.support.worker import Call, in_worker
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.temporary import temporary_folder
from jtsolve.encodings.family import FEATURES
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits

_KIND = "pulp"
_PROCESS = "jtsolve.backends.ilp.process"
_HIGHS = "HiGHS"


@dataclass(frozen=True, slots=True)
class IntegerProgramming:
    """Integer linear programming with PuLP. Exact, for small or well-pruned problems.

    Args:
        solver: a solver that PuLP finds on this machine, by PuLP's name in upper or lower case: HiGHS,
            PULP_CBC_CMD, SCIP_PY, GUROBI, CPLEX_PY, COPT, XPRESS_PY and others.
        start: the backend that finds the first tree, or None.
        relaxation: a backend that relaxes the problem, for a bound, cuts and pruning, or None. Where its
            bound is the tree's score, that bound is the proof of optimality.
        prune: whether to drop the families that the relaxation, or without one the completion bound, rules
        out.

    Raises:
        ChoiceError: `relaxation` does not relax problems.
    """

    solver: str = _HIGHS
    start: Backend | None = None
    relaxation: Backend | None = None
    prune: bool = True

    name: ClassVar[str] = "ilp"

    def __post_init__(self) -> None:
        require_relaxation(self)

    @property
    def capabilities(self) -> Capabilities:
        """All constraints of the family formulation; PuLP has to be installed."""
        return Capabilities(
            features=FEATURES, exact=True, needs_table=True, predictable=False, rules=(needs("pulp", "pulp"),)
        )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`."""
        return estimated_cost(self, problem, limits)

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
            options = {"solver": solver, "folder": str(folder)}
            call = SolverCall(_KIND, f"{_PROCESS}:solve", "family", options)
            return solve_prepared(self, call, problem, limits, report)

    def _installed_solver(self, limits: Limits, report: Report) -> str | None:
        """Returns PuLP's name of the solver; None if the run was stopped before it was known.

        PuLP runs in the solver's process, since libraries of solvers cannot share one.
        """
        if self.solver.lower() == _HIGHS.lower():
            return _HIGHS
        names, _ = in_worker(Call(_KIND, f"{_PROCESS}:installed", ()), lambda _message: None, report, limits)
        if names is None:
            return None
        spelled = {name.lower(): name for name in names}
        if self.solver.lower() not in spelled:
            raise ChoiceError(
                f"the option 'solver' of backend 'ilp' cannot be '{self.solver}': PuLP finds no such solver "
                f"on this machine; it finds {', '.join(spelled.values())}"
            )
        return str(spelled[self.solver.lower()])
