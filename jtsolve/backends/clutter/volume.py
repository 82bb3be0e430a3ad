"""Multipliers of the clutter LP by the volume algorithm, with cuts that are separated on the way.

A step evaluates D(λ) (`bound`), which is exact and fast: one pass over the sets, no linear program.
Its best families, one a vertex, are a point x; the average x̄ ← (1−α)x̄ + αx goes to a solution of the LP,
and the rows' violations at x̄ are the direction of the next step from the best λ. Every few steps, cuts
that x̄ violates are added with multiplier 0, cuts that have been slack for long are dropped, and families
that the best bound rules out go. So the bound falls fast from the first second on, where a simplex method
has to solve LP after LP; the last digits are left to that (`master`).

Reference: Barahona and Anbil, The volume algorithm, Mathematical Programming 2000. Departures: rows come and
go between steps; the step is not made shorter than a share of its first length, since new rows make room;
when the steps stall, a new average begins, and cuts without a multiplier go.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.clutter.separation import Inwards, Point, separate

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.backends.clutter.subproblem import Incumbent, State

_FIRST_ALPHA, _LAST_ALPHA = 0.1, 0.005
"""Large is fast at first, small goes further: on alarm at treewidth 2, the steps stalled 221 nats from the
optimum with a last α of 0.01, and went on to families few enough for the simplex method with 0.005."""
_POOR = 0.2
"""Progress, as a share of the gap, below which α is halved."""
_FIRST_LENGTH, _LONGEST, _SHORTEST = 0.5, 2.0, 0.01
_LONGER, _SHORTER = 1.1, 0.66
_IN_VAIN = 15
"""Steps without a better bound before the step gets shorter."""
_BETWEEN_CUTS = 50
"""Steps. The average has to follow the cuts before it tells of more: on alarm at treewidth 3, a minute with
20 steps left a gap five times as large."""
FIRST_CREEP, _LAST_CREEP = 4e-3, 1e-5
_FEW_CUTS = 0.5
"""Cuts found, per sink, below which the creep is halved."""
_PATIENCE = 200
"""Steps after which a cut without a multiplier goes."""
_SUPPORT = 1e-3
_NOTHING = 1e-9
_HALF = 0.5
_INWARDS, _TOLERANCE = 0.5, 0.01
_CHECK = 4
"""Separations between two looks at how much the bound has moved."""
_LEAST_PROGRESS = 0.05
"""Of the gap, between two such looks: else the steps stall."""
_WORTH_RESTARTING = 0.97
"""Share of the gap at the last stall: with more left, the steps end, with less they begin anew."""


class Volume:
    """The steps on one subproblem; leaves the best multipliers in it."""

    def __init__(self, state: State, incumbent: Incumbent, pool: ThreadPoolExecutor | None) -> None:
        self.state, self.incumbent, self.pool = state, incumbent, pool
        self.scale = incumbent.scale
        self.x = np.zeros(state.families.allowed.shape)
        self.length, self.alpha = _FIRST_LENGTH, _FIRST_ALPHA
        self.last: Bound
        self.vain = 0
        self.idle = np.zeros(state.cuts.size, dtype=np.int64)
        self.steps = 0
        self.violation = self.special_violation = np.full(1, np.nan)  # made when the first step is taken
        self.stale = True

    def run(self, enough: int, tell: Callable[[Point, Bound], bool], go_on: Callable[[], bool]) -> bool:
        """Takes steps until the bound stalls or meets the incumbent, or few families are left.

        Args:
            enough: families that are few.
            tell: is told of the average point and the last bound now and then; answers whether to go on.
            go_on: is asked the same at every step, and while cuts are looked for.

        Returns:
            False if it was told to end.
        """
        state = self.state
        bound = state.evaluate(self.scale, state.cuts, state.specials)
        if bound is None:
            state.possible = False
            return True
        self.last = bound
        state.units = min(state.units, bound.units)
        self.x[bound.union, bound.slot] = 1.0
        self._shrink(bound)
        before: float = inf
        stalled: float = inf
        while state.possible and not self.closed:
            if self.steps % _BETWEEN_CUTS == 0:
                if not tell(self._renew_rows(go_on), self.last):
                    return False
                if int(state.families.allowed.sum()) <= enough:
                    return True
                if self.steps % (_BETWEEN_CUTS * _CHECK) == 0:
                    gap = self.gap
                    if before - gap < _LEAST_PROGRESS * gap and self.alpha <= _LAST_ALPHA:
                        if gap > _WORTH_RESTARTING * stalled:
                            if state.creep <= _LAST_CREEP:
                                return True
                            state.creep = max(_LAST_CREEP, state.creep / 4)
                        stalled = gap
                        self._restart()
                    elif before - gap < _POOR * gap:
                        self.alpha = max(_LAST_ALPHA, self.alpha / 2)
                    before = gap
            self._step()
            if not go_on():
                return False
        return True

    @property
    def gap(self) -> float:
        """Nats between the bound and the incumbent; without one, a guess that steps can begin with."""
        if self.incumbent.tree is None:
            return (1.0 + 0.05 * abs(self.state.units)) * self.scale.unit
        return (self.state.units - self.incumbent.target) * self.scale.unit

    @property
    def closed(self) -> bool:
        """Whether nothing better than the incumbent is left."""
        return self.state.units <= self.incumbent.close

    def _step(self) -> None:
        """Moves from the best multipliers along the average violation, and evaluates."""
        state = self.state
        self.steps += 1
        if self.stale:
            self._refresh()
        toward = np.where((state.cuts <= 0) & (self.violation < 0), 0.0, self.violation)
        special = np.where((state.specials <= 0) & (self.special_violation < 0), 0.0, self.special_violation)
        norm = float(toward @ toward + special @ special)
        if norm <= 0:
            return
        step = self.length * max(self.gap, self.scale.unit) / norm
        cuts = np.maximum(0.0, state.cuts + step * toward)
        specials = np.maximum(0.0, state.specials + step * special)
        bound = state.evaluate(self.scale, cuts, specials, self.pool)
        if bound is None:
            state.possible = False
            return
        self.last = bound
        parents = state.families.facets[bound.union, bound.slot].astype(np.int64)
        activity, special_activity = state.rows.activity(bound.union, parents)
        self.idle = np.where(cuts > 0, 0, self.idle + 1)
        self.violation += self.alpha * (1.0 - activity - self.violation)
        self.special_violation += self.alpha * (
            state.rows.limits() - special_activity - self.special_violation
        )
        self.x *= 1 - self.alpha
        self.x[bound.union, bound.slot] += self.alpha
        if bound.units >= state.units:
            self.vain += 1
            if self.vain >= _IN_VAIN:
                self.length, self.vain = max(_SHORTEST, _SHORTER * self.length), 0
            return
        ahead = float((1.0 - activity) @ toward) >= 0
        self.length = min(_LONGEST, self.length * (_LONGER if ahead else 1.0))
        state.units, state.cuts, state.specials = bound.units, cuts, specials
        self.vain = 0
        self._shrink(bound)

    def _restart(self) -> None:
        """Begins a new average at the best multipliers, with the rows that have one."""
        state = self.state
        used = state.cuts > 0
        state.rows.keep(used)
        state.cuts = state.cuts[used]
        self.idle = np.zeros(state.cuts.size, dtype=np.int64)
        again = state.evaluate(self.scale, state.cuts, state.specials)
        assert again is not None, "it had families before"
        self.last = again
        self.x[:] = 0.0
        self.x[again.union, again.slot] = 1.0
        self.length, self.alpha, self.vain = _FIRST_LENGTH, _FIRST_ALPHA, 0
        self.stale = True

    def _refresh(self) -> None:
        """Makes the violations at the average point anew, where rows or families have changed."""
        state = self.state
        union, slot = np.nonzero(self.x > _NOTHING)
        parents = state.families.facets[union, slot].astype(np.int64)
        cuts, specials = state.rows.weighted_activity(union, parents, self.x[union, slot])
        self.violation, self.special_violation = 1.0 - cuts, state.rows.limits() - specials
        self.stale = False

    def _shrink(self, bound: Bound) -> None:
        """Drops families, and follows with the average point."""
        position = self.state.shrink(bound, self.scale, self.incumbent.target)
        if position is None or not self.state.possible:
            return
        families = self.state.families
        x = self.x[position >= 0][:, : families.width] * families.allowed
        total = np.zeros(families.n + 1)
        np.add.at(total, families.members, x)
        # A vertex that lost all its families of the average begins again from its best one.
        for v in np.flatnonzero(total[:-1] < _HALF):
            x[families.members == v] = 0.0
            total[v] = 0.0
        self.x = x / np.where(total > 0, total, 1.0)[families.members]
        again = self.state.evaluate(self.scale, self.state.cuts, self.state.specials)
        if again is None:
            self.state.possible = False
            return
        self.last = again
        lost = np.flatnonzero(total[:-1] == 0)
        self.x[again.union[lost], again.slot[lost]] = 1.0
        self.state.units = min(self.state.units, again.units)
        self.stale = True

    def _renew_rows(self, go_on: Callable[[], bool]) -> Point:
        """Drops cuts that have been slack for long, adds rows that the average point violates; returns it."""
        state = self.state
        old = self.idle > _PATIENCE
        if 6 * int(old.sum()) > old.size:
            state.rows.keep(~old)
            state.cuts, self.idle = state.cuts[~old], self.idle[~old]
        union, slot = np.nonzero(self.x > _SUPPORT)
        point = Point(union, slot, self.x[union, slot])
        inwards = Inwards(_INWARDS, state.creep, _TOLERANCE)
        found = separate(state, self.last, point, inwards, pool=self.pool, go_on=go_on)
        if len(found.clutters) < _FEW_CUTS * len(state.sinks):
            state.creep = max(_LAST_CREEP, state.creep / 2)
        state.rows.add_clutters(found.clutters)
        state.rows.add_specials(found.specials)
        state.cuts = np.concatenate((state.cuts, np.zeros(len(found.clutters))))
        self.idle = np.concatenate((self.idle, np.zeros(len(found.clutters), dtype=np.int64)))
        state.specials = np.concatenate((state.specials, np.zeros(len(found.specials))))
        self.stale = True
        return point
