"""Weighted MaxSAT: the family or the imset formulation, solved by python-sat.

The default is RC2 with stratification on the form of Berg, Järvisalo and Malone (`encodings.family`), with
clutter cuts as clauses; `model=imset` is the form by complete sets (`encodings.imset`), which has no such
clauses, and took RC2 one to two minutes where families took seconds (docs/benchmarks.md). `solver=lsu` is
linear search with weighted constraints, which CaDiCaL propagates, since the LSU of python-sat takes no
weights. FM and RC2 without stratification are not offered: they split weights as fine as these over and over,
and take seconds to minutes for five variables.

The solver runs in a process of its own (`support.run`, `worker`), since it looks at no clock of ours. Weights are
whole multiples of a unit, and bounds carry the rounding (`encodings.rounding`); scores are computed anew.

Time is exponential in the number of variables in the worst case. Memory: the sets or families, and in the
solver's process their clauses, n³ clauses of the order, and what it learns.

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
from jtsolve.backends.support.prepare import prepare, require_relaxation
from jtsolve.backends.support.run import Method, estimated, hand_over
from jtsolve.core.backend import Backend, Capabilities, Estimate, Limits, Report, needs_table
from jtsolve.encodings import family

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Outcome


@dataclass(frozen=True, slots=True)
class MaximumSatisfiability:
    """Weighted MaxSAT with python-sat. Exact, for small or well-pruned problems.

    Args:
        model: the formulation.
        solver: RC2, by cores, or linear search for cheaper models (LSU).
        sat: the SAT solver beneath RC2.
        start: gives the first tree, or None.
        relaxation: gives a bound, cuts, and what to prune; None for none. Where its bound is the tree's
            score, optimality is proved by that bound.
        prune: whether to drop what the relaxation rules out, or, without one, the completion bound.
    """

    model: Literal["family", "imset"] = "family"
    solver: Literal["rc2", "lsu"] = "rc2"
    sat: Literal["glucose3", "glucose4", "cadical153", "minisat22"] = "glucose3"
    start: Backend | None = None
    relaxation: Backend | None = None
    prune: bool = True

    name: ClassVar[str] = "maxsat"

    def __post_init__(self) -> None:
        require_relaxation(self.name, self.relaxation)

    @property
    def capabilities(self) -> Capabilities:
        """What the formulation expresses; python-sat has to be installed."""
        return Capabilities(
            features=family.FEATURES, exact=True, rules=(needs("pysat", "python-sat"), needs_table)
        )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`."""
        return estimated(problem, self.start, self.relaxation, limits)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        self.estimate(problem, limits).require_memory(self.name, limits)
        prepared = prepare(
            problem, limits, report, start=self.start, relaxation=self.relaxation, prune=self.prune
        )
        options = {"solver": self.solver, "sat": self.sat}
        method = Method("pysat", "jtsolve.backends.maxsat.process:solve", self.model, options)
        return hand_over(method, prepared, limits, report)
