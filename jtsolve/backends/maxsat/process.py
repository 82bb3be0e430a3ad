"""MaxSAT by python-sat: what runs in the solver's process.

RC2 looks for a set of costs of which one at least has to be paid (a core), again and again: what it has shown
to be unavoidable is a lower bound of the cost, and so bounds every tree's score from above. Stratified, it
begins with the largest costs alone: each stage ends with a model of all hard clauses, which is a tree.

A known tree gives an upper bound of the cost: what alone would make a solution dearer than that is not paid,
and becomes a hard clause. Solutions as cheap as the tree stay.

Linear search asks for cheaper and cheaper models: it has trees early, and a bound only at the end.

References:
    Ignatiev, Morgado and Marques-Silva, RC2: an efficient MaxSAT solver, JSAT 2019. Ansótegui, Bonet, Gabàs
    and Levy, Improving SAT-based weighted MaxSAT solvers, CP 2012 (stratification, hardening). Le Berre and
    Parrain, The Sat4j library, JSAT 2010 (linear search). Biere et al., CaDiCaL 2.0, CAV 2024.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from pysat.examples.rc2 import RC2Stratified
from pysat.formula import WCNF
from pysat.solvers import Solver

from jtsolve.backends.support.run import News, encoded
from jtsolve.encodings.wcnf import to_maxsat

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.backends.support.run import Work
    from jtsolve.encodings.formula import Encoding
    from jtsolve.encodings.rounding import Unit
    from jtsolve.encodings.wcnf import MaxSat


class Teller:
    """Turns costs into bounds and models into trees, and sends them."""

    def __init__(
        self, say: Callable[[News], None], encoding: Encoding, unit: Unit, task: MaxSat, limit: int | None
    ) -> None:
        self.say, self.encoding, self.unit, self.task = say, encoding, unit, task
        self.limit = limit
        self.told = -1

    def bound(self, cost: int) -> float:
        """Returns what no tree scores more than, if every solution costs so much; in nats."""
        constant = self.encoding.formula.constant
        return constant + self.unit.nats(self.task.best - cost) + self.unit.slack

    def lower(self, cost: int) -> None:
        """Sends the bound of a cost that is unavoidable, if it is news."""
        if cost > self.told:
            self.told = cost
            self.say(News(bound=self.bound(cost)))

    def model(self, literals: list[int]) -> int:
        """Sends the tree of a model, and returns its cost.

        Raises:
            ValueError: the model breaks the formula.
        """
        values = [int(literal > 0) for literal in literals[: len(self.encoding.formula.names)]]
        broken = self.encoding.formula.broken(values)
        if broken is not None:
            raise ValueError(f"the solver's model is none: {broken}")
        cost = self.task.cost(values)
        if self.limit is None or cost < self.limit:
            self.limit = cost
            self.say(News(tree=self.encoding.tree_of(values)))
        return cost


class _TellingRC2(RC2Stratified):  # type: ignore[misc]  # pysat has no types
    """RC2 that tells of its bounds and models, and hardens by the best one."""

    def __init__(self, formula: WCNF, teller: Teller, **options: Any) -> None:
        self.teller = teller
        self.adapting = False
        super().__init__(formula, **options)

    def adapt_am1(self) -> None:
        self.adapting = True
        super().adapt_am1()
        self.adapting = False
        self.teller.lower(self.cost)

    def process_core(self) -> None:
        super().process_core()
        self.teller.lower(self.cost)
        if not self.adapting:  # which goes through a list of what there was at its start
            self.harden()

    def finish_level(self) -> None:
        self.teller.model(self.oracle.get_model())
        super().finish_level()
        self.harden()

    def harden(self) -> None:
        """Makes hard what costs more than is left to the best solution known."""
        if self.teller.limit is None:
            return
        left = self.teller.limit - self.cost
        self.garbage = {s for s in (*self.sels, *self.sums) if self.wght[s] > left}
        for selector in self.garbage:
            self.oracle.add_clause([selector])
        self.filter_assumps()


def _by_linear_search(teller: Teller, formula: WCNF) -> list[int] | None:
    """Asks for a cheaper model until there is none; returns the last, None if there was none at all.

    A bound on the cost is one weighted constraint, which CaDiCaL propagates as it is.
    """
    paid = [-soft[0] for soft in formula.soft]
    best = None
    with Solver(name="cadical195", bootstrap_with=formula.hard) as solver:
        if paid:
            solver.activate_atmost()
        if paid and teller.limit is not None:
            solver.add_atmost(paid, teller.limit, weights=formula.wght)
        while solver.solve():
            best = solver.get_model()
            cost = teller.model(best)
            if cost == 0:
                break
            solver.add_atmost(paid, cost - 1, weights=formula.wght)
    return best


def solve(say: Callable[[News], None], work: Work) -> float:
    """Solves what it is given, and tells of it; returns the bound in nats, -inf if there is no tree."""
    encoding, unit = encoded(work)
    task = to_maxsat(encoding.formula, unit)
    formula = WCNF()
    formula.extend([list(clause) for clause in task.hard])
    for literal, cost in task.costs.items():
        formula.append([literal], weight=cost)
    formula.nv = task.variables
    known = None if work.tree is None else encoding.values_of(work.tree)
    limit = None if known is None else task.cost(known.tolist())
    teller = Teller(say, encoding, unit, task, limit)
    teller.lower(0)
    if work.options["solver"] == "lsu" or not task.costs:  # of nothing to pay, RC2 makes no model
        model = _by_linear_search(teller, formula)
    else:
        options = {"solver": work.options["sat"], "adapt": True, "exhaust": True, "minz": True}
        with _TellingRC2(formula, teller, **options) as solver:
            model = solver.compute()
    return -inf if model is None else teller.bound(teller.model(model))
