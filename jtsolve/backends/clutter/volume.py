"""Multipliers of the clutter LP by the volume algorithm, with cuts separated on the way.

A step evaluates the bound D(λ) of trial multipliers (`bound`): one pass over the sets, no linear program. The
families that attain the maxima, one for each vertex, are a point x of the relaxation. The exponential average
x̄ ← (1−α)x̄ + αx tends to a solution of the LP (at first α is 1/k in step k: the mean of all points), and the
violations of the rows at x̄ are the subgradient along which the next trial leaves the best λ. Every few steps,
cuts that x̄ violates enter with multiplier 0 and cuts that have been slack for long leave, and dual ascent
(`ascent`) raises the best λ. Whenever the bound or the best tree improves, reduced costs fix families. So the
bound falls from the first second on, where a simplex method solves LP after LP; it takes over
when the steps gain little (`simplex`).

A family of large reduced cost does not attain a maximum soon. So the steps between two separations visit
those of small reduced cost only, and D over all families decides at their end whether their λ is better. If
it is not, the next steps begin at the old λ and visit more families.

Reference: Barahona and Anbil, The volume algorithm, Mathematical Programming 2000. Departures: rows come and
go between steps; steps visit the near families; the step length has a lower limit, since new rows make room
for progress; when the steps stall, a new average begins, and cuts without a multiplier leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.clutter.ascent import ascend
from jtsolve.backends.clutter.bound import bound_of, within_reduced_cost
from jtsolve.backends.clutter.inequalities import RowVector
from jtsolve.backends.clutter.separation import InOutPoint, Point, separate

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.backends.clutter.subproblem import Subproblem
    from jtsolve.core.scores import Stoppable


@dataclass(frozen=True, slots=True)
class VolumeConstants:
    """The constants of the volume algorithm."""

    first_alpha: float = 0.008
    last_alpha: float = 0.005
    """Large is fast at first, small goes further: on alarm at treewidth 2, the steps stalled 221 nats from
    the optimum with a last α of 0.01, and left few enough families for the simplex method with 0.005."""
    poor_progress: float = 0.2
    """α is halved when the gap falls by a smaller share between two checks."""
    first_length: float = 0.04
    longest: float = 2.0
    shortest: float = 0.01
    longer: float = 1.1
    shorter: float = 0.66
    """Step lengths, in Polyak's formula, and the factors after a better bound and after fruitless steps. The
    first is short, as is the first α: after an ascent, plants gained nothing in 500 steps with 0.5 and 0.1,
    and in 200 with 0.02 and 0.03."""
    null_steps: int = 15
    """Null steps, without a better bound, in a row before the length falls."""
    between_cuts: int = 50
    """Steps between separations. The average has to follow the last cuts before it shows new ones: on alarm
    at treewidth 3, a minute with 20 steps left a gap five times as large."""
    first_creep: float = 4e-3
    last_creep: float = 1e-5
    """Capacity of the nearest family in separation: large finds few cuts, but the strongest."""
    few_cuts: float = 0.5
    """Cuts found per sink below which the creep is halved."""
    patience: int = 200
    """Steps after which a cut without a multiplier leaves."""
    support: float = 1e-3
    """Values of the average below it are left out in separation."""
    mix: float = 0.5
    tolerance: float = 0.01
    """In-out separation: half-way to the stability centre, and the least violation there."""
    check: int = 4
    """Separations between checks of the progress."""
    near: float = 0.25
    fewer: float = 0.8
    more: float = 2.0
    """The steps visit families with a reduced cost below this share of the gap; the factors of the share
    after a bound that holds over all families, and after one that does not. On accidents, where a twentieth
    of the families was enough, 296 nats were left after 67 s, and 374 by steps over all families."""
    least_progress: float = 0.05
    """The steps stall if the gap falls by a smaller share between two checks."""
    restart_threshold: float = 0.97
    """Share of the gap at the last stall above which a restart did not help: the creep falls, or the steps
    end."""


VOLUME = VolumeConstants()
_NOTHING = 1e-9
_HALF = 0.5


class Volume:
    """The steps on one subproblem, which keeps the best multipliers."""

    def __init__(self, subproblem: Subproblem, creep: float, pool: ThreadPoolExecutor | None) -> None:
        self.subproblem, self.creep, self.pool = subproblem, creep, pool
        self.length, self.alpha, self.share = VOLUME.first_length, VOLUME.first_alpha, VOLUME.near
        self.last = subproblem.evaluate(subproblem.multipliers)
        self.point = _point_of(self.last)
        self.null_steps = 0
        self.age = 0  # steps of the average
        self.idle = np.zeros(subproblem.multipliers.cuts.size, dtype=np.int64)
        self.steps = 0
        self.rounds = 0  # of steps whose bound held over all families
        self.ascent_rate = inf  # units per second that the last ascent gained
        self.since, self.units_then = perf_counter(), subproblem.units  # at the end of the last ascent

    def run(
        self,
        enough: int,
        many: int,
        on_point: Callable[[Point, Bound], bool],
        report: Stoppable,
    ) -> bool:
        """Takes steps until the bound stalls or meets the best tree, or few families are left.

        Args:
            enough: how many families are few.
            many: how many are not too many for another method, once the steps gain little.
            on_point: is called with the average point and the last bound after each separation; answers
                whether to continue.
            report: polled at every step, and during separation.

        Returns:
            False if it was interrupted.
        """
        subproblem = self.subproblem
        # The first bound fixes families too.
        self._follow(*subproblem.improve(self.last, subproblem.multipliers))
        before = stalled = inf
        check = 0
        while not subproblem.closed:
            target = subproblem.best.target
            if not on_point(self._renew_rows(report), self.last):
                return False
            if subproblem.best.target > target:  # a better tree fixes families at the current bound
                multipliers = subproblem.multipliers
                self._follow(*subproblem.improve(subproblem.evaluate(multipliers), multipliers))
            self._ascend(report)
            if subproblem.closed:
                return True
            # Progress is judged by rounds whose bound holds over all families, not by those that were taken
            # back.
            if self.rounds == check:
                check += VOLUME.check
                gap = subproblem.gap
                if before - gap < VOLUME.poor_progress * gap:
                    # Little is gained: end as soon as the simplex method can take over.
                    enough = many
                if before - gap < VOLUME.least_progress * gap and self.alpha <= VOLUME.last_alpha:
                    # Stalled twice at about the same gap: weaker cuts are let in, or nothing is left to try.
                    if gap > VOLUME.restart_threshold * stalled:
                        if self.creep <= VOLUME.last_creep:
                            return True
                        self.creep = max(VOLUME.last_creep, self.creep / 4)
                    stalled = gap
                    self._restart()
                # Barahona and Anbil halve α when the bound improves slowly: the average then follows recent
                # points less.
                elif before - gap < VOLUME.poor_progress * gap:
                    self.alpha = max(VOLUME.last_alpha, self.alpha / 2)
                before = gap
            if int(subproblem.families.allowed.sum()) <= enough:
                return True
            # Between separations the problem is a small one: the near families and the rows over their sets.
            self._choose_near()
            for _ in range(VOLUME.between_cuts):
                self._step()
                if report.stop is not None:
                    self._confirm()
                    return False
            self._confirm()
        return True

    def _choose_near(self) -> None:
        """Chooses the families that the next steps visit: the nearest, and those of the average."""
        subproblem, point = self.subproblem, self.point
        families, centre = subproblem.families, subproblem.centre
        # The families of the average stay, or the violation kept below would not be that of `x`; so do those
        # of the centre, the best tree.
        most = int(self.share * subproblem.gap / subproblem.best.scale.unit)
        chosen = within_reduced_cost(families, self.last, most)
        chosen[point.union, point.slot] = True
        if centre is not None:
            chosen[centre] = True
        self.near, position = subproblem.near(chosen)
        self.kept = np.flatnonzero(position >= 0)
        self.scores = subproblem.scores[self.kept]
        self.rows = subproblem.rows.restricted_to(self.near, self.kept)
        self.multipliers, self.units = subproblem.multipliers, subproblem.units
        union, slot, value = point.restricted_to(self.near, position)
        self.x = np.zeros(self.near.allowed.shape)
        self.x[union, slot] = value
        # The violation at x̄, once in full; each step then updates it as the same average as x̄ itself.
        parents = self.near.facets[union, slot].astype(np.int64)
        self.violation = self.rows.violation(union, parents, value)

    def _step(self) -> None:
        """Moves from the best multipliers along the average violation, and evaluates the bound there."""
        best, scale = self.multipliers, self.subproblem.best.scale
        self.steps += 1
        # A multiplier at 0 cannot fall: its violation is projected out, or the step length would count it.
        direction = RowVector(
            *(np.where((m <= 0) & (v < 0), 0.0, v) for m, v in zip(best, self.violation, strict=True))
        )
        norm = sum(float(part @ part) for part in direction)
        if norm <= 0:
            return
        # Polyak's step length towards the best tree's score, which estimates the least D from below.
        step = self.length * max(self.subproblem.gap_of(self.units), scale.unit) / norm
        trial = RowVector(*(np.maximum(0.0, m + step * d) for m, d in zip(best, direction, strict=True)))
        units = RowVector(*map(scale.units_of, trial))
        bound = bound_of(self.near, self.scores, self.rows, units, pool=self.pool)
        parents = self.near.facets[bound.union, bound.slot].astype(np.int64)
        now = self.rows.violation(bound.union, parents, np.ones(bound.union.size))
        self.idle = np.where(trial.cuts > 0, 0, self.idle + 1)
        self.age += 1
        # At first α = 1/k, the plain mean: a fixed α would give the first point too much weight for long.
        alpha = max(self.alpha, 1 / (self.age + 1))
        self.violation = RowVector(*(v + alpha * (n - v) for v, n in zip(self.violation, now, strict=True)))
        self.x *= 1 - alpha
        self.x[bound.union, bound.slot] += alpha
        # A null step: only the average moves. After enough of them the steps are too long.
        if bound.units >= self.units:
            self.null_steps += 1
            if self.null_steps >= VOLUME.null_steps:
                self.length, self.null_steps = max(VOLUME.shortest, VOLUME.shorter * self.length), 0
            return
        # A serious step. If the new subgradient still points the same way, the step could have been longer.
        ahead = float(now.cuts @ direction.cuts) >= 0
        self.length = min(VOLUME.longest, self.length * (VOLUME.longer if ahead else 1.0))
        self.null_steps = 0
        self.multipliers, self.units = trial, bound.units

    def _confirm(self) -> None:
        """Hands the steps' best multipliers to the subproblem, if they are as good over all families."""
        subproblem = self.subproblem
        union, slot = np.nonzero(self.x > _NOTHING)
        self.point = Point(self.kept[union], slot, self.x[union, slot])
        if self.multipliers is subproblem.multipliers:  # no step was better
            self.rounds += 1
            return
        bound = subproblem.evaluate(self.multipliers, pool=self.pool)
        if bound.units <= subproblem.units:
            self._follow(*subproblem.improve(bound, self.multipliers))
            # The near families were enough for a valid bound: visit fewer. Otherwise the steps are undone,
            # and more families are looked at, since some far one attained a maximum.
            self.share *= VOLUME.fewer
            self.rounds += 1
        else:
            self.share *= VOLUME.more

    def _ascend(self, report: Stoppable) -> None:
        """Ascends from the best multipliers, unless the last ascent gained less than steps do in its time."""
        subproblem = self.subproblem
        began, units = perf_counter(), subproblem.units
        gained = self.units_then - units
        # Both are in units per second, so that the cheaper of the two methods has the time.
        if gained <= 0 or self.ascent_rate * (began - self.since) < gained:
            return  # without a gain since, the last ascent ended at these multipliers
        bound, position = ascend(subproblem, subproblem.multipliers, lambda _: report.stop is None)
        self.idle = np.append(
            self.idle, np.zeros(subproblem.multipliers.cuts.size - self.idle.size, dtype=np.int64)
        )
        self._follow(bound, position)
        self.since, self.units_then = perf_counter(), subproblem.units
        self.ascent_rate = (units - subproblem.units) / (self.since - began)

    def _follow(self, bound: Bound, position: NDArray[np.int64] | None) -> None:
        """Moves to the last bound; the average follows where families have been dropped."""
        subproblem = self.subproblem
        self.last = bound
        if position is None or not subproblem.feasible:
            return
        families = subproblem.families
        union, slot, value = self.point.restricted_to(families, position)
        vertex = families.members[union, slot]
        # Rescales so that Σ_P x̄(v,P) = 1 holds again for every vertex.
        total = np.bincount(vertex, value, families.n)
        # The average of a vertex that lost most of its weight restarts at the vertex's best family.
        lost = total < _HALF
        stays = ~lost[vertex]
        self.point = Point(
            np.append(union[stays], bound.union[lost]),
            np.append(slot[stays], bound.slot[lost]),
            np.append((value / np.where(lost, 1.0, total)[vertex])[stays], np.ones(int(lost.sum()))),
        )

    def _restart(self) -> None:
        """Begins a new average at the best multipliers, without the cuts that have none."""
        subproblem = self.subproblem
        subproblem.drop_cuts(subproblem.multipliers.cuts <= 0)
        self.idle = np.zeros(subproblem.multipliers.cuts.size, dtype=np.int64)
        self.last = subproblem.evaluate(subproblem.multipliers)
        self.point = _point_of(self.last)
        self.length, self.alpha, self.null_steps = VOLUME.first_length, VOLUME.first_alpha, 0
        self.age = 0

    def _renew_rows(self, report: Stoppable) -> Point:
        """Drops cuts that have been slack for long, adds rows that the average point violates; returns it."""
        subproblem = self.subproblem
        # Dropping rebuilds the words of all cuts, so that it waits until a sixth of them is slack.
        old = (self.idle > VOLUME.patience) & (subproblem.multipliers.cuts <= 0)
        if 6 * int(old.sum()) > old.size:
            subproblem.drop_cuts(old)
            self.idle = self.idle[~old]
        # Small values lengthen every maximum flow, and hardly change a minimum cut.
        large = self.point.value > VOLUME.support
        point = Point(self.point.union[large], self.point.slot[large], self.point.value[large])
        where = InOutPoint(VOLUME.mix, self.creep, VOLUME.tolerance)
        found = separate(subproblem, self.last, point, where, pool=self.pool, report=report)
        # Fewer cuts than half of the sinks: the strongest are used up, and the creep falls to let weaker ones
        # in.
        if len(found.clutters) < VOLUME.few_cuts * len(subproblem.sinks):
            self.creep = max(VOLUME.last_creep, self.creep / 2)
        subproblem.add_rows(found.clutters, found.set_rows)
        self.idle = np.append(self.idle, np.zeros(len(found.clutters), dtype=np.int64))
        return point


def _point_of(bound: Bound) -> Point:
    """Returns the families that attain a bound's maxima, as a point."""
    return Point(bound.union.astype(np.int64), bound.slot.astype(np.int64), np.ones(bound.union.size))
