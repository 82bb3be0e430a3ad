"""Integer linear programming: the family formulation, solved by HiGHS or CBC through PuLP.

A tree is a choice of one family (v,P) per vertex, without v-structures, in an order (`encodings.family`). The
model is compact, as PuLP has no cut callbacks, and its linear relaxation is weak: most of the work is done by
the preparation (`support.prepare`), which leaves few families and adds the cuts of the clutter LP as rows.

The solver runs in its own process (`support.solver`, `support.worker`), since it ignores our clock. Scores of
its trees are recomputed, and its bounds are widened by its tolerances (`ilp.process`).

Time is exponential in the number of variables in the worst case. Memory: the families, and in the solver's
process their rows and n³/3 rows of the transitive order.

References:
    Cussens, Bayesian network learning with cutting planes, UAI 2011. Huangfu and Hall, Parallelizing the dual
    revised simplex method, Mathematical Programming Computation 2018 (HiGHS). Forrest and Lougee-Heimer, CBC
    user guide, INFORMS Tutorials 2005.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jtsolve.backends.support.packages import needs
from jtsolve.backends.support.solver import SolverCall, estimated, require_relaxation, solve_prepared
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.encodings.family import FEATURES

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Outcome
    from jtsolve.core.run import Limits


@dataclass(frozen=True, slots=True)
class IntegerProgramming:
    """Integer linear programming with HiGHS or CBC. Exact, for small or well-pruned problems.

    Args:
        solver: HiGHS or CBC.
        start: the backend that finds the first tree, or None.
        relaxation: a backend that relaxes the problem, for a bound, cuts and pruning, or None. Where its
            bound is the tree's score, that bound is the proof of optimality.
        prune: whether to drop what the relaxation, or without one the completion bound, rules out.
    """

    solver: Literal["highs", "cbc"] = "highs"
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
        return estimated(self, problem, limits)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        with tempfile.TemporaryDirectory(prefix="jtsolve-") as folder:
            options = {"solver": self.solver, "folder": folder}
            call = SolverCall("pulp", "jtsolve.backends.ilp.process:solve", "family", options)
            return solve_prepared(self, call, problem, limits, report)
