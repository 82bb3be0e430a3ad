"""MaxSAT by python-sat: what runs in the solver's process.

RC2 looks for a set of costs of which one at least has to be paid (a core), again and again: what it has shown
to be unavoidable is a lower bound of the cost, and so bounds every tree's score from above. It has no
solution before the end, but for stratified RC2, which begins with the largest costs alone: each of its stages
ends with a model of all hard clauses, which is a tree.

A known tree gives an upper bound of the cost: what would alone make a solution dearer than that need not be
paid, and becomes a hard clause. Solutions as cheap as the tree stay.

References: Ignatiev, Morgado and Marques-Silva, RC2: an efficient MaxSAT solver, JSAT 2019. Fu and Malik, On
solving the partial MAX-SAT problem, SAT 2006. Ansótegui, Bonet, Gabàs and Levy, Improving SAT-based weighted
MaxSAT solvers, CP 2012 (stratification, hardening).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from pysat.examples.fm import FM
from pysat.examples.rc2 import RC2, RC2Stratified
from pysat.formula import WCNF

from jtsolve.backends.solving import News, encoded
from jtsolve.encodings.maxsat import to_maxsat

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.backends.solving import Work
    from jtsolve.encodings.formula import Encoding
    from jtsolve.encodings.maxsat import MaxSat
    from jtsolve.encodings.rounding import Unit


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


def _telling(kind: type[RC2]) -> type[RC2]:
    """Returns RC2, stratified or not, that tells of its bounds and models and hardens by the best one."""

    class Telling(kind):  # type: ignore[misc]  # pysat has no types
        def __init__(self, formula: WCNF, teller: Teller, **options: Any) -> None:
            self.teller = teller
            super().__init__(formula, **options)

        def process_core(self) -> None:
            super().process_core()
            self.teller.lower(self.cost)
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

    return Telling


class _TellingFM(FM):  # type: ignore[misc]  # pysat has no types
    """FM that tells of its bounds."""

    def __init__(self, formula: WCNF, teller: Teller, **options: Any) -> None:
        self.teller = teller
        super().__init__(formula, verbose=0, **options)

    def treat_core(self) -> None:
        super().treat_core()
        self.teller.lower(self.cost)


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
    if work.options["solver"] == "fm":
        with _TellingFM(formula, teller, solver=work.options["sat"]) as solver:
            model = solver.model if solver.compute() else None
    else:
        kind = _telling(RC2Stratified if work.options["solver"] == "stratified" else RC2)
        with kind(formula, teller, solver=work.options["sat"], adapt=True, exhaust=True, minz=True) as solver:
            model = solver.compute()
    return -inf if model is None else teller.bound(teller.model(model))
