"""MaxSAT by python-sat, in the solver's process.

RC2 repeatedly finds a core, a set of costs at least one of which must be paid. The cost shown to be
unavoidable is a lower bound, and so bounds every tree's score from above. Stratified, it starts with the
largest costs alone; each stage ends with a model of all hard clauses, which is a tree.

A known tree gives an upper bound on the cost: a cost that alone would exceed it is never paid and becomes a
hard clause. Solutions as cheap as the tree stay.

References:
    Ignatiev, Morgado and Marques-Silva, RC2: an efficient MaxSAT solver, JSAT 2019. Ansótegui, Bonet, Gabàs
    and Levy, Improving SAT-based weighted MaxSAT solvers, CP 2012 (stratification, hardening).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from pysat.examples.rc2 import RC2Stratified
from pysat.formula import WCNF
from pysat.solvers import Solver

from jtsolve.backends.support.solver import SolverMessage, encoded
from jtsolve.encodings.cnf import to_wcnf

if TYPE_CHECKING:
    from jtsolve.backends.support.solver import Send, SolverInput
    from jtsolve.encodings.cnf import Wcnf
    from jtsolve.encodings.formula import Encoding
    from jtsolve.encodings.rounding import Unit

_SAT = "glucose3"
"""The SAT solver beneath RC2."""


class Reporter:
    """Converts costs to bounds and models to trees, and sends them."""

    def __init__(
        self,
        send: Send,
        encoding: Encoding,
        unit: Unit,
        task: Wcnf,
        limit: int | None,
    ) -> None:
        self.send, self.encoding, self.unit, self.task = send, encoding, unit, task
        self.limit = limit
        self.sent = -1

    def bound(self, cost: int) -> float:
        """Returns the bound on all trees, in nats, if every solution has at least this cost."""
        constant = self.encoding.formula.constant
        return constant + self.unit.nats(self.task.best - cost) + self.unit.slack

    def lower(self, cost: int) -> None:
        """Sends the bound of an unavoidable cost if it is better than before."""
        if cost > self.sent:
            self.sent = cost
            self.send(SolverMessage(bound=self.bound(cost)))

    def model(self, literals: list[int]) -> int:
        """Sends the tree of a model if it is better than before; returns its cost.

        Raises:
            ValueError: the model violates the formula.
        """
        values = [int(literal > 0) for literal in literals[: len(self.encoding.formula.names)]]
        broken = self.encoding.formula.broken(values)
        if broken is not None:
            raise ValueError(f"the solver's model violates the formula: {broken}")
        cost = self.task.cost(values)
        if self.limit is None or cost < self.limit:
            self.limit = cost
            self.send(SolverMessage(tree=self.encoding.tree_of(values)))
        return cost


class _ReportingRC2(RC2Stratified):  # type: ignore[misc]  # pysat has no types
    """RC2 that sends its bounds and models, and hardens by the known tree too."""

    def __init__(self, formula: WCNF, reporter: Reporter, **options: Any) -> None:
        self.reporter = reporter
        super().__init__(formula, **options)
        if reporter.limit is not None:
            self.ubnd = reporter.limit

    def adapt_am1(self) -> None:
        super().adapt_am1()
        self.reporter.lower(self.cost)

    def process_core(self) -> None:
        super().process_core()
        self.reporter.lower(self.cost)

    def finish_level(self) -> None:
        self.reporter.model(self.oracle.get_model())
        super().finish_level()


def solve(send: Send, work: SolverInput) -> float:
    """Solves a problem and sends trees and bounds; returns the bound in nats, -inf if there is no tree."""
    encoding, unit = encoded(work)
    task = to_wcnf(encoding.formula, unit)
    formula = WCNF()
    formula.extend([list(clause) for clause in task.hard])
    for literal, cost in task.costs.items():
        formula.append([literal], weight=cost)
    formula.nv = task.variables
    known = None if work.tree is None else encoding.values_of(work.tree)
    limit = None if known is None else task.cost(known.tolist())
    reporter = Reporter(send, encoding, unit, task, limit)
    reporter.lower(0)
    if not task.costs:  # RC2 makes no model without costs
        with Solver(name=_SAT, bootstrap_with=task.hard) as plain:
            model = plain.get_model() if plain.solve() else None
    else:
        with _ReportingRC2(formula, reporter, solver=_SAT, adapt=True, exhaust=True, minz=True) as solver:
            model = solver.compute()
    return -inf if model is None else reporter.bound(reporter.model(model))
