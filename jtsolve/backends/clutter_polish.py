"""The cutting-plane loop with the simplex method: the last digits, on the families that the steps left.

Solve over some columns and rows; evaluate the multipliers over all families, which gives a bound (not the
LP's value: columns may be missing) and reduced costs; add the families that would enter, and rows that the
point violates; drop what the bound rules out. When no row is violated and no family would enter, the LP is
solved, and its bound is the best that its rows give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.clutter_cuts import Point, separate
from jtsolve.backends.clutter_lp import LPFailure, Master
from jtsolve.backends.clutter_rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from jtsolve.backends.clutter_bound import Bound
    from jtsolve.backends.clutter_rows import Clutter, Special
    from jtsolve.backends.clutter_state import Incumbent, State
    from jtsolve.encodings.families import Families

_FIRST_COLUMNS = 1000
_COLUMNS_A_VERTEX = 10
"""That enter after a solve, at most."""
_PATIENCE = 6
"""Solves after which a slack row goes."""
_ENTERS = 1e-8
"""Of the largest score: what a family has to beat those at hand by."""
_SUPPORT = 1e-9
_TOLERANCE = 1e-6
_MIXES = (0.5, 0.25, 0.0)
_CHECK = 8
_LEAST_PROGRESS = 0.05
"""Of the gap, in `_CHECK` rounds: else branching does more."""
_ESCAPE = 10.0
"""The price of the escape, as a multiple of what all weights together can be."""


class Polish:
    """The loop on one subproblem; leaves the best multipliers in it, and the last point."""

    def __init__(self, state: State, incumbent: Incumbent, pool: ThreadPoolExecutor | None) -> None:
        self.state, self.incumbent, self.pool = state, incumbent, pool
        self.scale = incumbent.scale
        self.rounds = self.failures = 0
        self.point: Point | None = None
        self.kept = self._snapshot()

    def run(self, tell: Callable[[Point, Bound], bool], go_on: Callable[[], bool]) -> bool:
        """Runs rounds; returns False if it was told to end, else True: solved, closed or stalled."""
        state = self.state
        bound = state.evaluate(self.scale, state.cuts, state.specials)
        if bound is None:
            state.possible = False
            return True
        if self._better(bound) is not None and state.possible:
            bound = state.evaluate(self.scale, state.cuts, state.specials)
            assert bound is not None, "found possible"
        ended = False
        if state.possible and not self.closed:
            try:
                ended = not self._rounds(self._master(bound), tell, go_on)
            except LPFailure:  # the best multipliers stay, and branching goes on from them
                self.failures += 1
        clutters, cuts, rows, specials = self.kept
        state.rows, state.cuts, state.specials = Rows(state.families, clutters, rows), cuts, specials
        return not ended

    @property
    def closed(self) -> bool:
        """Whether nothing better than the incumbent is left."""
        return self.state.units <= self.incumbent.close

    def _rounds(
        self, master: Master, tell: Callable[[Point, Bound], bool], go_on: Callable[[], bool]
    ) -> bool:
        """Solves and adds until there is nothing to add; returns False if told to end."""
        state = self.state
        gaps: list[float] = []
        while True:
            if not master.solve(go_on):
                return False
            self.rounds += 1
            bound = self._evaluate(master)
            if bound is None or not state.possible or self.closed:
                return True
            at = np.flatnonzero(master.x > _SUPPORT)
            self.point = Point(master.union[at], master.slot[at], master.x[at])
            if not tell(self.point, bound):
                return False
            entered = self._enter(bound, master)
            master.purge(_PATIENCE)
            if not self._cut(master) and not entered:
                return True
            gaps.append(float(state.units - self.incumbent.target))
            if len(gaps) > _CHECK and gaps[-1 - _CHECK] - gaps[-1] < _LEAST_PROGRESS * gaps[-1]:
                return True

    def _snapshot(
        self,
    ) -> tuple[list[Clutter], NDArray[np.float64], list[Special], NDArray[np.float64]]:
        """Returns the rows that have a multiplier, and the multipliers."""
        state = self.state
        used = np.flatnonzero(state.cuts > 0)
        some = np.flatnonzero(state.specials > 0)
        return (
            [state.rows.clutters[k] for k in used],
            state.cuts[used],
            [state.rows.specials[k] for k in some],
            state.specials[some],
        )

    def _better(self, bound: Bound) -> NDArray[np.int64] | None:
        """Takes a bound that is no worse, with what it rules out; returns where the sets went, or None."""
        state = self.state
        if bound.units > state.units:
            return None
        state.units = bound.units
        position = state.shrink(bound, self.scale, self.incumbent.target)
        if position is not None and state.possible:
            again = state.evaluate(self.scale, state.cuts, state.specials)
            if again is None:
                state.possible = False
            else:
                state.units = min(state.units, again.units)
        self.kept = self._snapshot()
        return position

    def _master(self, bound: Bound) -> Master:
        """Returns the program with the rows at hand, and the columns that lack least."""
        state = self.state
        families = state.families
        clutters, _, specials, _ = self.kept  # those with multipliers: others come back if they are violated
        master = Master(families, Rows(families, clutters, specials), _ESCAPE)
        lack = np.where(families.allowed, self._lacks(families, bound), np.inf)
        most = min(_FIRST_COLUMNS, int(families.allowed.sum()))
        chosen = np.argpartition(lack.ravel(), most - 1)[:most]
        master.add_columns(*np.divmod(np.sort(chosen), families.width))
        master.add_columns(bound.union, bound.slot)
        if state.centre is not None:
            master.add_columns(*state.centre)
        return master

    def _evaluate(self, master: Master) -> Bound | None:
        """Returns the bound of the program's multipliers, and drops families; None if there is no tree."""
        state = self.state
        state.rows, state.cuts, state.specials = master.rows, master.cuts, master.specials
        bound = state.evaluate(self.scale, state.cuts, state.specials)
        if bound is None:
            state.possible = False
            return None
        position = self._better(bound)
        if position is not None and state.possible:
            master.follow(state.families, state.rows, position)
            bound = state.evaluate(self.scale, state.cuts, state.specials)
        return bound

    def _lacks(self, families: Families, bound: Bound) -> NDArray[np.float64]:
        """Returns what every family lacks to its vertex's best, in units."""
        best = np.append(bound.best, 0)
        gains = bound.values[:, None] - bound.values[families.facets]
        lacks: NDArray[np.float64] = (best[families.members] - gains).astype(np.float64)
        return lacks

    def _enter(self, bound: Bound, master: Master) -> bool:
        """Adds the best of the families that beat those at hand; tells whether there were any."""
        families = self.state.families
        lack = self._lacks(families, bound)
        least = np.full(families.n + 1, np.inf)
        np.minimum.at(least, master.vertex, lack[master.union, master.slot])
        margin = _ENTERS * max(1.0, float(np.abs(families.values).max())) / self.scale.unit
        better = families.allowed & ~master.present & (lack < least[families.members] - margin)
        union, slot = np.nonzero(better)
        if union.size == 0:
            return False
        vertex = families.members[union, slot]
        order = np.lexsort((lack[union, slot], vertex))
        union, slot, vertex = union[order], slot[order], vertex[order]
        rank = np.arange(union.size) - np.searchsorted(vertex, vertex)
        first = rank < _COLUMNS_A_VERTEX
        master.add_columns(union[first], slot[first])
        return True

    def _cut(self, master: Master) -> bool:
        """Adds rows that the point violates, found at or near it; tells whether there were any."""
        state, point = self.state, self.point
        assert point is not None, "set before"
        parents = state.families.facets[point.union, point.slot]
        for mix in _MIXES if state.centre is not None else (0.0,):
            tolerance = max(_TOLERANCE, 1e-4 * mix)
            found = separate(state, point, mix, tolerance, self.pool)
            trial = Rows(state.families, found.clutters)
            left, _ = trial.weighted_activity(point.union, parents.astype(np.int64), point.value)
            deep = [
                row
                for row, value in zip(found.clutters, left.tolist(), strict=True)
                if value < 1 - _TOLERANCE
            ]
            if deep or found.specials:
                master.add_cuts(deep)
                master.add_specials(found.specials)
                return True
        return False
