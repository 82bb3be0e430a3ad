"""The cutting-plane loop with the simplex method, on the remaining families.

A round solves the LP over the current rows (`master`); evaluates its multipliers in exact arithmetic, which
gives a bound and fixes families; drops rows that have been slack for long; and adds rows that the solution
violates. The LP is solved when no row is violated.

With many families, the LP starts with those of least reduced cost (sifting; Bixby, Gregory, Lustig, Marsten
and Shanno, Operations Research 1992). Exact evaluation covers all families, and those that gain more than the
best column of their vertex are added. If the bound is not the best so far, the LP is solved again before
separation.

The volume algorithm leaves thousands of rows, but only hundreds have a multiplier in a solution. The LP
starts with the rows of largest multiplier; the others are added when a solution violates them, before
separation.

After potentials (`potentials`), the rows are their level sets. Sweeps then continue from the multipliers of
each solution, for bounds only: the LP keeps its multipliers, but loses families that these bounds rule out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.clutter.bound import NO_FAMILY
from jtsolve.backends.clutter.inequalities import CutRows, RowVector
from jtsolve.backends.clutter.master import LPFailure, Master
from jtsolve.backends.clutter.potentials import Potentials
from jtsolve.backends.clutter.separation import InOutPoint, Point, separate

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.backends.clutter.subproblem import Subproblem
    from jtsolve.core.scores import Stoppable
    from jtsolve.core.threads import Pool
    from jtsolve.families.families import Families


@dataclass(frozen=True, slots=True)
class SimplexConstants:
    """The constants of the loop."""

    patience: int = 6
    """Rounds with separation after which a slack row is dropped."""
    support: float = 1e-9
    """Values of a solution up to this count as 0."""
    tolerance: float = 1e-6
    """Tolerance of violations: a thousand times that of the solver."""
    points: tuple[InOutPoint, ...] = (
        InOutPoint(0.5, 1e-3, 1e-4),
        InOutPoint(0.1, 1e-4, 1e-5),
        InOutPoint(0.0, 0.0, 1e-6),
    )
    """Points of separation, tried until one gives a cut: near the centre, cuts are deeper; at the solution,
    none is missed."""
    first_columns: int = 20_000
    """Number of first columns, those of least reduced cost. On accidents (111 variables), with 97,000
    families left, the LP took 82 s with all of them, and 36 s with these."""
    first_rows: int = 2000
    rows_per_round: int = 300
    """Number of first rows, and maximum number of the others added in a round. With all 8,226 rows of
    accidents and 77,000 families, the first solve did not end within 150 s."""
    check: int = 8
    least_progress: float = 0.05
    """The search branches if the gap falls by a smaller share in `check` rounds."""
    escape: float = 10.0
    """First price of the escape, as a multiple of the largest weight and the number of variables."""
    price_factor: float = 64.0
    """Factor of the price after a solution that pays it."""


SIMPLEX = SimplexConstants()


class CuttingPlanes:
    """The loop on one subproblem, which keeps the best multipliers.

    Args:
        subproblem: to bound.
        pool: threads for the separation, or None.
        how: constants of the method.
        polish: whether sweeps of potentials continue from the multipliers of each LP.
    """

    def __init__(
        self, subproblem: Subproblem, pool: Pool | None, how: SimplexConstants, *, polish: bool
    ) -> None:
        self.subproblem, self.pool, self.polish, self.how = subproblem, pool, polish, how
        self.rounds = self.failures = 0

    def run(self, on_point: Callable[[Point, Bound], bool], report: Stoppable) -> bool:
        """Runs rounds until the LP is solved, closed or stalled; returns False if it was interrupted.

        Args:
            on_point: called with every solution and its bound; returns whether to continue.
            report: polled by the LP solver and between rounds.
        """
        subproblem = self.subproblem
        rows, multipliers = _with_multiplier(subproblem.rows, subproblem.multipliers)
        bound, _ = subproblem.improve(subproblem.evaluate(subproblem.multipliers), multipliers, rows)
        if subproblem.closed:
            return True
        try:
            families, rows = subproblem.families, subproblem.rows
            order = np.argsort(-subproblem.multipliers.cuts, kind="stable").tolist()
            first, others = (
                [rows.clutters[k] for k in sorted(part)]
                for part in (order[: self.how.first_rows], order[self.how.first_rows :])
            )
            self.waiting = CutRows(families, others)
            columns = np.zeros_like(families.allowed)
            columns[_nearest(families, bound, families.allowed, self.how.first_columns)] = True
            columns[bound.union, bound.slot] = True  # every vertex has one
            if subproblem.centre is not None:  # the best tree satisfies all rows
                columns[subproblem.centre] = True
            master = Master(families, columns, CutRows(families, first, rows.set_rows), self.how.escape)
            master.age[:] = self.how.patience  # rows that are slack in the first solution are dropped
            return self._rounds(master, bound.units, on_point, report)
        except LPFailure:  # branching continues from the best multipliers
            self.failures += 1
            return True

    def _rounds(
        self,
        master: Master,
        least: int,
        on_point: Callable[[Point, Bound], bool],
        report: Stoppable,
    ) -> bool:
        """Runs rounds; returns False if it was interrupted. `least` is the initial bound, in units."""
        subproblem = self.subproblem
        gaps: list[float] = []
        while True:
            if not master.solve(report):
                return False
            self.rounds += 1
            bound = self._improve(master, report)
            if subproblem.closed:
                return True
            # Sifting: if the exact bound over all families is worse than the best so far, columns are
            # missing, and rows separated at this x would be useless.
            is_worse, least = bound.units > least, min(bound.units, least)
            union, slot = _improving(master, bound)
            # If no column is missing and x pays the escape, its price is too low or the LP is infeasible.
            dear = master.escaped > self.how.tolerance
            if not union.size and dear and master.raise_price(self.how.price_factor, self._most_price()):
                continue
            at = np.flatnonzero(master.x > self.how.support)
            point = Point(master.union[at], master.slot[at], master.x[at])
            if not on_point(point, bound):
                return False
            if union.size:
                master.add_columns(union, slot)
                if dear or is_worse:
                    continue
            master.purge(self.how.patience)
            if not self._cut(master, point, bound, report) and not union.size:
                return True
            # The least gap so far after each round: when it tails off, branching gains more than cuts.
            gaps.append(min([float(bound.units - subproblem.best.close), *gaps[-1:]]))
            if len(gaps) > self.how.check and not subproblem.best.flat:  # a flat bound falls at the end only
                before = gaps[-1 - self.how.check]
                if before - gaps[-1] < self.how.least_progress * gaps[-1]:
                    return True

    def _most_price(self) -> float:
        """Returns a sum of multipliers, in nats, that is safe from integer overflow."""
        scale = self.subproblem.best.scale
        return 0.8 * scale.room * scale.unit

    def _improve(self, master: Master, report: Stoppable) -> Bound:
        """Improves the subproblem by the LP's multipliers, and drops columns that it rules out.

        Sweeps of potentials from there halve the gap that the LP leaves, in a tenth of its time.
        """
        subproblem = self.subproblem
        bound = subproblem.evaluate(master.multipliers, master.rows)
        rows, multipliers = _with_multiplier(master.rows, master.multipliers)
        bound, position = subproblem.improve(bound, multipliers, rows)
        if position is not None and subproblem.feasible:
            self._follow(master, position)
        if self.polish and not subproblem.closed:
            if position is None:  # `improve` may not have adopted them
                subproblem.set_multipliers(multipliers, rows)
            potentials = Potentials(subproblem, master.multipliers, master.rows)
            potentials.polish(report)
            if potentials.position is not None and subproblem.feasible:
                self._follow(master, potentials.position)
                bound = subproblem.evaluate(master.multipliers, master.rows)
        return bound

    def _follow(self, master: Master, position: NDArray[np.int64]) -> None:
        """Restricts the LP to the remaining families; `position` is -1 for dropped sets."""
        master.follow(self.subproblem.families, position)
        self.waiting = self.waiting.moved(self.subproblem.families, position)

    def _cut(self, master: Master, point: Point, bound: Bound, report: Stoppable) -> bool:
        """Adds rows that the point violates; returns whether there are any."""
        families = self.subproblem.families
        parents = families.facets[point.union, point.slot].astype(np.int64)
        violation = self.waiting.violation(point.union, parents, point.value).cuts
        # Waiting rows first: checking one takes a scalar product, and separation many flows.
        deepest = np.argsort(-violation, kind="stable")[: self.how.rows_per_round]
        joining = deepest[violation[deepest] > self.how.tolerance]
        if joining.size:
            master.add_cuts([self.waiting.clutters[k] for k in joining.tolist()])
            stays = np.ones(violation.size, dtype=np.bool_)
            stays[joining] = False
            self.waiting.keep_cuts(stays)
            return True
        for where in self.how.points:
            found = separate(
                self.subproblem,
                bound,
                point,
                where,
                known=master.rows.known,
                pool=self.pool,
                report=report,
            )
            # A cut violated nearer to the centre may hold at the solution.
            violation = CutRows(families, found.clutters).violation(point.union, parents, point.value).cuts
            deep = [found.clutters[k] for k in np.flatnonzero(violation > self.how.tolerance)]
            if deep or found.set_rows:
                master.add_cuts(deep)
                master.add_set_rows(found.set_rows)
                return True
        return False


def _nearest(
    families: Families, bound: Bound, among: NDArray[np.bool_], most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns up to `most` of some families, those of least reduced cost, as positions and slots."""
    union, slot = np.nonzero(among)
    order = np.argsort(bound.reduced_costs(families)[among], kind="stable")[:most]
    return union[order], slot[order]


def _improving(master: Master, bound: Bound) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns families without a column that gain more than the best column of their vertex.

    At most as many as there are columns, those of least reduced cost. First come those that attain the maxima
    of the bound, so that every vertex gets a column.
    """
    families, values = master.families, bound.values
    # Families that gain more than the best column of their vertex have a positive reduced profit.
    best = np.full(families.n, NO_FAMILY)
    np.maximum.at(best, master.vertex, values[master.union] - values[master.parents])
    absent = families.allowed.copy()
    absent[master.union, master.slot] = False
    union, slot = np.nonzero(absent)
    gains = values[union] - values[families.facets[union, slot]]
    absent[union, slot] = gains > best[families.members[union, slot]]
    return _nearest(families, bound, absent, master.union.size)


def _with_multiplier(rows: CutRows, multipliers: RowVector) -> tuple[CutRows, RowVector]:
    """Returns the rows that have a multiplier, and the multipliers."""
    cuts, set_rows = np.flatnonzero(multipliers.cuts > 0), np.flatnonzero(multipliers.set_rows > 0)
    return (
        CutRows(rows.families, [rows.clutters[k] for k in cuts], [rows.set_rows[k] for k in set_rows]),
        RowVector(multipliers.cuts[cuts], multipliers.set_rows[set_rows]),
    )
