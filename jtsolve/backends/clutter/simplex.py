"""The cutting-plane loop with the simplex method: the last digits, on the families that the steps left.

Solve over the rows at hand; evaluate the multipliers in exact numbers, which gives a bound and reduced
costs; drop the families that these rule out, and rows that have been slack for long; add rows that the point
violates. When no row is violated, the LP is solved, and its bound is the best that its rows give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.clutter.master import LPFailure, Master
from jtsolve.backends.clutter.rows import Rows
from jtsolve.backends.clutter.separation import Inwards, Point, separate

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.backends.clutter.rows import Clutter, Special
    from jtsolve.backends.clutter.subproblem import Incumbent, State

_PATIENCE = 6
"""Solves after which a slack row goes."""
_SUPPORT = 1e-9
_TOLERANCE = 1e-6
_INWARDS = (Inwards(0.5, 1e-3, 1e-4), Inwards(0.1, 1e-4, 1e-5), Inwards(0.0, 0.0, _TOLERANCE))
"""One after the other, until something is found: far inside, cuts are deeper."""
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
                master = Master(state.families, Rows(state.families, self.kept[0], self.kept[2]), _ESCAPE)
                master.age[:] = _PATIENCE  # of the many rows of the steps, those slack at first go at once
                ended = not self._rounds(master, tell, go_on)
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
            master.purge(_PATIENCE)
            if not self._cut(master, bound, go_on):
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

    def _cut(self, master: Master, bound: Bound, go_on: Callable[[], bool]) -> bool:
        """Adds rows that the point violates, found at or near it; tells whether there were any."""
        state, point = self.state, self.point
        assert point is not None, "set before"
        parents = state.families.facets[point.union, point.slot]
        for inwards in _INWARDS:
            found = separate(state, bound, point, inwards, pool=self.pool, go_on=go_on)
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
