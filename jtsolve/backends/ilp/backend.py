"""Integer linear programming: the family formulation, solved by HiGHS or CBC through PuLP.

A tree is a choice of one family (v,P) a vertex, without v-structures, in an order (`encodings.family`); the
model is compact, as PuLP has no cuts on demand. The linear relaxation of it is weak: what helps most is what
comes before it (`support.prepare`), the families that the clutter LP leaves, and its cuts as rows.

The solver runs in a process of its own (`support.run`, `worker`), since it looks at no clock of ours. Whatever it
says is computed anew: scores of trees from the problem, and bounds carry its tolerances (`ilp_solver`).

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
from jtsolve.backends.support.prepare import prepare, require_relaxation
from jtsolve.backends.support.run import Method, estimated, hand_over
from jtsolve.core.backend import Backend, Capabilities, Estimate, Limits, Report, needs_table
from jtsolve.encodings.family import FEATURES

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Outcome


@dataclass(frozen=True, slots=True)
class IntegerProgramming:
    """Integer linear programming with HiGHS or CBC. Exact, for small or well-pruned problems.

    Args:
        solver: HiGHS or CBC.
        order: the vertices are ordered by pairs, which is tighter, or by positions, which is smaller.
        start: gives the first tree, or None.
        relaxation: gives a bound, cuts, and what to prune; None for none. Where its bound is the tree's
            score, optimality is proved by that bound.
        prune: whether to drop what the relaxation rules out, or, without one, the completion bound.
    """

    solver: Literal["highs", "cbc"] = "highs"
    order: Literal["transitive", "positions"] = "transitive"
    start: Backend | None = None
    relaxation: Backend | None = None
    prune: bool = True

    name: ClassVar[str] = "ilp"

    def __post_init__(self) -> None:
        require_relaxation(self.name, self.relaxation)

    @property
    def capabilities(self) -> Capabilities:
        """What the family formulation expresses; PuLP has to be installed."""
        return Capabilities(features=FEATURES, exact=True, rules=(needs("pulp", "PuLP"), needs_table))

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`."""
        return estimated(problem, self.start, self.relaxation, limits)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        self.estimate(problem, limits).require_memory(self.name, limits)
        prepared = prepare(
            problem, limits, report, start=self.start, relaxation=self.relaxation, prune=self.prune
        )
        model = "family" if self.order == "transitive" else "positions"
        with tempfile.TemporaryDirectory(prefix="jtsolve-") as folder:
            options = {"solver": self.solver, "folder": folder}
            method = Method("pulp", "jtsolve.backends.ilp.process:solve", model, options)
            return hand_over(method, prepared, limits, report)
