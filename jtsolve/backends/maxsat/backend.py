"""Weighted MaxSAT: the family or the imset formulation, solved by python-sat.

The default is RC2 with stratification on the formulation of Berg, Järvisalo and Malone (`encodings.family`),
with clutter cuts as clauses. `model=imset` is the formulation by complete sets (`encodings.imset`), for which
RC2 took one to two minutes where families took seconds (docs/benchmarks.md). `solver=lsu` is linear search
with weighted constraints, which CaDiCaL propagates, since the LSU of python-sat takes no weights. FM and RC2
without stratification are not offered: they keep splitting such fine weights and take seconds to minutes for
five variables.

The solver runs in its own process (`support.solver`, `support.worker`), since it ignores our clock. Weights
are whole multiples of a unit, and bounds carry the rounding (`encodings.rounding`); scores are recomputed.

Time is exponential in the number of variables in the worst case. Memory: the sets or families, and in the
solver's process their clauses, n³ clauses of the order, and learnt clauses.

References:
    Ignatiev, Morgado and Marques-Silva, RC2: an efficient MaxSAT solver, JSAT 2019. Berg, Järvisalo and
    Malone, Learning optimal bounded treewidth Bayesian networks via maximum satisfiability, AISTATS 2014.
    Studený and Cussens, Towards using the chordal graph polytope in learning decomposable models, IJAR 2017
    (imsets).
"""

from __future__ import annotations

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
class MaximumSatisfiability:
    """Weighted MaxSAT with python-sat. Exact, for small or well-pruned problems.

    Args:
        model: the formulation.
        solver: RC2, core-guided, or LSU, linear search for cheaper models.
        sat: the SAT solver beneath RC2.
        start: the backend that finds the first tree, or None.
        relaxation: a backend that relaxes the problem, for a bound, cuts and pruning, or None. Where its
            bound is the tree's score, that bound is the proof of optimality.
        prune: whether to drop what the relaxation, or without one the completion bound, rules out.
    """

    model: Literal["family", "imset"] = "family"
    solver: Literal["rc2", "lsu"] = "rc2"
    sat: Literal["glucose3", "glucose4", "cadical153", "minisat22"] = "glucose3"
    start: Backend | None = None
    relaxation: Backend | None = None
    prune: bool = True

    name: ClassVar[str] = "maxsat"

    def __post_init__(self) -> None:
        require_relaxation(self)

    @property
    def capabilities(self) -> Capabilities:
        """All constraints of the formulations; python-sat has to be installed."""
        return Capabilities(
            features=FEATURES,
            exact=True,
            needs_table=True,
            predictable=False,
            rules=(needs("pysat", "python-sat"),),
        )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`."""
        return estimated(self, problem, limits)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        options = {"solver": self.solver, "sat": self.sat}
        call = SolverCall("pysat", "jtsolve.backends.maxsat.process:solve", self.model, options)
        return solve_prepared(self, call, problem, limits, report)
