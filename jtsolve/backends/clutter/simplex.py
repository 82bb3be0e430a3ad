"""The cutting-plane loop with the simplex method, on the families that the steps left.

Solve the LP over the current rows (`master`); evaluate its multipliers in exact arithmetic, which gives a
bound and fixes families; drop rows that have been slack for long; add rows that the solution violates. When
none is violated, the LP is solved, and its bound is the best that its rows give.

With many families, the LP begins with those of least reduced cost (sifting; Bixby, Gregory, Lustig, Marsten
and Shanno, Operations Research 1992). Exact evaluation covers all, and those that gain more than the best
column of their vertex join. As long as the bound is not the best yet, the LP is then solved again before rows
are sought.

The steps leave thousands of rows, but only hundreds have a multiplier in a solution. The LP begins with
the heaviest; the others wait, and join it when a solution violates them, before new rows are sought.

After turns of potentials (`potentials`), the rows are cuts of theirs. Turns then go on from the multipliers
of each solution, for bounds only: the LP keeps its own, but loses the families that these bounds rule out.
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
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.backends.clutter.subproblem import Subproblem
    from jtsolve.core.scores import Stoppable
    from jtsolve.families.families import Families


@dataclass(frozen=True, slots=True)
class SimplexConstants:
    """The constants of the loop."""

    patience: int = 6
    """Rounds, in which rows are sought, after which a slack row leaves."""
    support: float = 1e-9
    tolerance: float = 1e-6
    """Tolerance of violations: a thousand times that of the solver."""
    points: tuple[InOutPoint, ...] = (
        InOutPoint(0.5, 1e-3, 1e-4),
        InOutPoint(0.1, 1e-4, 1e-5),
        InOutPoint(0.0, 0.0, 1e-6),
    )
    """Tried in turn until one gives a cut: far inside, cuts are deeper; at the solution, none is missed."""
    columns: int = 20_000
    """Families to begin with, those of least reduced cost. On accidents (111 variables), with 97,000 families
    left, the LP took 82 s with all of them, and 36 s with these."""
    first: int = 2000
    fresh: int = 300
    """Rows to begin with, and the most that join in a round. With all 8,226 rows of accidents (111
    variables) and 77,000 families, the first solve did not end within 150 s."""
    check: int = 8
    least_progress: float = 0.05
    """If the gap falls by a smaller share in `check` rounds, branching does more."""
    escape: float = 10.0
    """First price of the escape column, as a multiple of the largest weight and the number of variables."""
    dearer: float = 64.0
    """Factor of the price when a solution pays it: a better tree may be far below the bound, or not exist."""


SIMPLEX = SimplexConstants()


class CuttingPlanes:
    """The loop on one subproblem, which keeps the best multipliers.

    Args:
        subproblem: see above.
        pool: to share the separation among its threads, or None.
        polishes: whether turns of potentials continue from the multipliers of each LP.
    """

    def __init__(
        self, subproblem: Subproblem, pool: ThreadPoolExecutor | None, *, polishes: bool = False
    ) -> None:
        self.subproblem, self.pool, self.polishes = subproblem, pool, polishes
        self.rounds = self.failures = 0

    def run(self, on_point: Callable[[Point, Bound], bool], report: Stoppable) -> bool:
        """Runs rounds until the LP is solved, closed or stalled; returns False if it was interrupted.

        Args:
            on_point: is called with every solution and its bound; answers whether to continue.
            report: polled all the time.
        """
        subproblem = self.subproblem
        rows, multipliers = _with_multiplier(subproblem.rows, subproblem.multipliers)
        bound, _ = subproblem.improve(subproblem.evaluate(subproblem.multipliers), multipliers, rows)
        if subproblem.closed:
            return True
        try:
            families, rows = subproblem.families, subproblem.rows
            # Heaviest rows first: most rows of the steps have no multiplier in a basic solution.
            order = np.argsort(-subproblem.multipliers.cuts, kind="stable").tolist()
            first, others = (
                [rows.clutters[k] for k in sorted(part)]
                for part in (order[: SIMPLEX.first], order[SIMPLEX.first :])
            )
            self.waiting = CutRows(families, others)
            columns = np.zeros_like(families.allowed)
            columns[_nearest(families, bound, families.allowed, SIMPLEX.columns)] = True
            columns[bound.union, bound.slot] = True  # every vertex has one
            if subproblem.centre is not None:  # the best tree: the rows have a solution
                columns[subproblem.centre] = True
            master = Master(families, columns, CutRows(families, first, rows.set_rows), SIMPLEX.escape)
            master.age[:] = SIMPLEX.patience  # of the many rows of the steps, those slack at first go at once
            return self._rounds(master, bound.units, on_point, report)
        except LPFailure:  # the best multipliers stay, and branching continues from them
            self.failures += 1
            return True

    def _rounds(
        self,
        master: Master,
        least: int,
        on_point: Callable[[Point, Bound], bool],
        report: Stoppable,
    ) -> bool:
        """Solves and adds rows until none is violated; returns False if it was interrupted.

        `least` is the bound, in units, of the initial multipliers.
        """
        subproblem = self.subproblem
        gaps: list[float] = []
        while True:
            if not master.solve(report):
                return False
            self.rounds += 1
            bound = self._improve(master, report)
            if subproblem.closed:
                return True
            # Sifting: the LP over some columns bounds the rest only by exact evaluation. If that is worse
            # than a bound known, columns are missing, and rows sought at this x would be of no use.
            is_worse, least = bound.units > least, min(bound.units, least)
            union, slot = _improving(master, bound)
            # The escape is paid although no column is missing: its price is too low, or there is no solution.
            dear = master.escaped > SIMPLEX.tolerance
            if not union.size and dear and master.raise_price(SIMPLEX.dearer, self._most_price()):
                continue
            # The basic solution: at most as many families as the LP has rows.
            at = np.flatnonzero(master.x > SIMPLEX.support)
            point = Point(master.union[at], master.slot[at], master.x[at])
            if not on_point(point, bound):
                return False
            if union.size:
                master.add_columns(union, slot)
                if dear or is_worse:
                    continue
            master.purge(SIMPLEX.patience)
            if not self._cut(master, point, bound, report) and not union.size:
                return True
            # The least gap so far after each round; tailing off, branching gains more than further cuts.
            gaps.append(min([float(bound.units - subproblem.best.target), *gaps[-1:]]))
            if len(gaps) > SIMPLEX.check and not subproblem.best.flat:  # whose bound falls at the end only
                before = gaps[-1 - SIMPLEX.check]
                if before - gaps[-1] < SIMPLEX.least_progress * gaps[-1]:
                    return True

    def _most_price(self) -> float:
        """Returns the largest sum of multipliers, in nats, that leaves room in sums of integers."""
        scale = self.subproblem.best.scale
        return 0.8 * scale.room * scale.unit

    def _improve(self, master: Master, report: Stoppable) -> Bound:
        """Hands the LP's multipliers to the subproblem; the LP follows where families are dropped.

        Turns of potentials from there halve the gap that the LP leaves, in a tenth of its time.
        """
        subproblem = self.subproblem
        bound = subproblem.evaluate(master.multipliers, master.rows)
        rows, multipliers = _with_multiplier(master.rows, master.multipliers)
        bound, position = subproblem.improve(bound, multipliers, rows)
        if position is not None and subproblem.feasible:
            self._follow(master, position)
        if self.polishes and not subproblem.closed:
            if position is None:  # or improve has taken them
                subproblem.set_multipliers(multipliers, rows)
            potentials = Potentials(subproblem, master.multipliers, master.rows)
            potentials.polish(report)
            if potentials.position is not None and subproblem.feasible:
                self._follow(master, potentials.position)
                bound = subproblem.evaluate(master.multipliers, master.rows)
        return bound

    def _follow(self, master: Master, position: NDArray[np.int64]) -> None:
        """Switches to fewer families; `position` has the new positions of the sets, -1 for dropped ones."""
        master.follow(self.subproblem.families, position)
        self.waiting = self.waiting.moved(self.subproblem.families, position)

    def _cut(self, master: Master, point: Point, bound: Bound, report: Stoppable) -> bool:
        """Adds rows that the point violates, found at or near it; returns whether there were any."""
        families = self.subproblem.families
        parents = families.facets[point.union, point.slot].astype(np.int64)
        violation = self.waiting.violation(point.union, parents, point.value).cuts
        # Rows that wait are checked before any flow is computed: a scalar product each.
        deepest = np.argsort(-violation, kind="stable")[: SIMPLEX.fresh]
        joining = deepest[violation[deepest] > SIMPLEX.tolerance]
        if joining.size:
            master.add_cuts([self.waiting.clutters[k] for k in joining.tolist()])
            stays = np.ones(violation.size, dtype=np.bool_)
            stays[joining] = False
            self.waiting.keep_cuts(stays)
            return True
        for where in SIMPLEX.points:
            found = separate(
                self.subproblem,
                bound,
                point,
                where,
                known=master.rows.known,
                pool=self.pool,
                report=report,
            )
            # A cut that is deep inside may hold at the solution.
            violation = CutRows(families, found.clutters).violation(point.union, parents, point.value).cuts
            deep = [found.clutters[k] for k in np.flatnonzero(violation > SIMPLEX.tolerance)]
            if deep or found.set_rows:
                master.add_cuts(deep)
                master.add_set_rows(found.set_rows)
                return True
        return False


def _nearest(
    families: Families, bound: Bound, among: NDArray[np.bool_], most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns those of least reduced cost among some families, `most` of them at most: positions, slots."""
    union, slot = np.nonzero(among)
    gains = bound.values[union] - bound.values[families.facets[union, slot]]
    reduced_cost = bound.best[families.members[union, slot]] - gains
    order = np.argsort(reduced_cost, kind="stable")[:most]
    return union[order], slot[order]


def _improving(master: Master, bound: Bound) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns families that are not columns, and gain more than the best column of their vertex.

    They are the nearest, at most as many as there are columns: first those that attain the maxima of the
    bound, so that no vertex stays without a column.
    """
    families, values = master.families, bound.values
    # The best column of each vertex at these multipliers; columns with a larger gain have a positive reduced
    # profit.
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
