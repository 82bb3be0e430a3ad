"""Weighted MaxSAT: the family formulation, solved by RC2 of python-sat with stratification.

The formulation is that of Berg, Järvisalo and Malone (`encodings.family`), with clutter cuts as clauses. The
other algorithms of python-sat are not offered: FM and RC2 without stratification keep splitting such fine
weights and take seconds to minutes for five variables, and LSU supports no weights.

The solver runs in its own process (`support.solver`, `support.worker`), since it ignores our clock. Weights
are whole multiples of a unit, and bounds carry the rounding (`encodings.rounding`); scores are recomputed.

Time is exponential in the number of variables in the worst case. Memory: the sets or families, and in the
solver's process their clauses, n³ clauses of the order, and learnt clauses.

References:
    Ignatiev, Morgado and Marques-Silva, RC2: an efficient MaxSAT solver, JSAT 2019. Berg, Järvisalo and
    Malone, Learning optimal bounded treewidth Bayesian networks via maximum satisfiability, AISTATS 2014.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from jtsolve.backends.support.packages import needs
from jtsolve.backends.support.solver import SolverCall, estimated_cost, require_relaxation, solve_prepared
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.encodings.family import FEATURES

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Outcome
    from jtsolve.core.run import Limits


@dataclass(frozen=True, slots=True)
class MaximumSatisfiability:
    """Weighted MaxSAT with python-sat. Exact, for small or well-pruned problems.

    Args:
        start: the backend that finds the first tree, or None.
        relaxation: a backend that relaxes the problem, for a bound, cuts and pruning, or None. Where its
            bound is the tree's score, that bound is the proof of optimality.
        prune: whether to drop the families that the relaxation, or without one the completion bound, rules
        out.
    """

    start: Backend | None = None
    relaxation: Backend | None = None
    prune: bool = True

    name: ClassVar[str] = "maxsat"

    def __post_init__(self) -> None:
        require_relaxation(self)

    @property
    def capabilities(self) -> Capabilities:
        """All constraints of the formulation; python-sat has to be installed."""
        return Capabilities(
            features=FEATURES,
            exact=True,
            needs_table=True,
            predictable=False,
            rules=(needs("pysat", "python-sat"),),
        )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`."""
        return estimated_cost(self, problem, limits)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        call = SolverCall("pysat", "jtsolve.backends.maxsat.process:solve", "family", {})
        return solve_prepared(self, call, problem, limits, report)
