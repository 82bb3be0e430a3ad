"""Multipliers of the clutter LP by the volume algorithm, with cuts separated on the way.

A step evaluates the bound D(λ) of trial multipliers (`bound`): one pass over the sets, no linear program. The
families that attain the maxima, one for each vertex, are a point x of the relaxation. The exponential average
x̄ ← (1−α)x̄ + αx tends to a solution of the LP (at first α is 1/k in step k: the mean of all points), and the
violations of the rows at x̄ are the subgradient along which the next trial leaves the best λ. Every few steps,
cuts that x̄ violates enter with multiplier 0 and cuts that have been slack for long leave, and dual ascent
(`ascent`) raises the best λ. Whenever the bound or the best tree improves, reduced costs fix families. So the
bound falls from the first second on, where a simplex method solves LP after LP; the last digits are left to
that (`simplex`).

Reference: Barahona and Anbil, The volume algorithm, Mathematical Programming 2000. Departures: rows come and
go between steps; the step length has a lower limit, since new rows make room for progress; when the steps
stall, a new average begins, and cuts without a multiplier leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.clutter.ascent import ascend
from jtsolve.backends.clutter.inequalities import RowVector
from jtsolve.backends.clutter.separation import InOutPoint, Point, separate

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.backends.clutter.subproblem import Subproblem


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
    vain_steps: int = 15
    """Steps without a better bound before the length falls."""
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
        self.x = np.zeros(subproblem.families.allowed.shape)
        self.length, self.alpha = VOLUME.first_length, VOLUME.first_alpha
        self.last = subproblem.evaluate(subproblem.multipliers)
        self.vain = 0
        self.age = 0  # steps of the average
        self.idle = np.zeros(subproblem.multipliers.cuts.size, dtype=np.int64)
        self.steps = 0
        self.violation: RowVector | None = None  # None where rows or families have changed
        self.ascent_rate = inf  # units per second that the last ascent gained
        self.since, self.units_then = perf_counter(), subproblem.units  # at the end of the last ascent

    def run(
        self, enough: int, on_point: Callable[[Point, Bound], bool], should_continue: Callable[[], bool]
    ) -> bool:
        """Takes steps until the bound stalls or meets the best tree, or few families are left.

        Args:
            enough: how many families are few.
            on_point: is called with the average point and the last bound after each separation; answers
                whether to continue.
            should_continue: is asked at every step, and during separation.

        Returns:
            False if it was interrupted.
        """
        subproblem = self.subproblem
        self.x[self.last.union, self.last.slot] = 1.0
        self._follow(*subproblem.improve(self.last, subproblem.multipliers))
        before = stalled = inf
        while not subproblem.closed:
            if self.steps % VOLUME.between_cuts == 0:
                target = subproblem.best.target
                if not on_point(self._renew_rows(should_continue), self.last):
                    return False
                if subproblem.best.target > target:  # a better tree fixes families at the bound at hand
                    multipliers = subproblem.multipliers
                    self._follow(*subproblem.improve(subproblem.evaluate(multipliers), multipliers))
                self._ascend(should_continue)
                if subproblem.closed:
                    return True
                if int(subproblem.families.allowed.sum()) <= enough:
                    return True
                if self.steps % (VOLUME.between_cuts * VOLUME.check) == 0:
                    gap = subproblem.gap
                    if before - gap < VOLUME.least_progress * gap and self.alpha <= VOLUME.last_alpha:
                        if gap > VOLUME.restart_threshold * stalled:
                            if self.creep <= VOLUME.last_creep:
                                return True
                            self.creep = max(VOLUME.last_creep, self.creep / 4)
                        stalled = gap
                        self._restart()
                    elif before - gap < VOLUME.poor_progress * gap:
                        self.alpha = max(VOLUME.last_alpha, self.alpha / 2)
                    before = gap
            self._step()
            if not should_continue():
                return False
        return True

    def _step(self) -> None:
        """Moves from the best multipliers along the average violation, and evaluates the bound there."""
        subproblem = self.subproblem
        best = subproblem.multipliers
        self.steps += 1
        violation = self._average_violation() if self.violation is None else self.violation
        direction = RowVector(
            *(np.where((m <= 0) & (v < 0), 0.0, v) for m, v in zip(best, violation, strict=True))
        )
        norm = sum(float(part @ part) for part in direction)
        if norm <= 0:
            return
        step = self.length * max(subproblem.gap, subproblem.best.scale.unit) / norm
        trial = RowVector(*(np.maximum(0.0, m + step * d) for m, d in zip(best, direction, strict=True)))
        self.last = bound = subproblem.evaluate(trial, pool=self.pool)
        parents = subproblem.families.facets[bound.union, bound.slot].astype(np.int64)
        now = subproblem.rows.violation(bound.union, parents, np.ones(bound.union.size))
        self.idle = np.where(trial.cuts > 0, 0, self.idle + 1)
        self.age += 1
        alpha = max(self.alpha, 1 / (self.age + 1))
        self.violation = RowVector(*(v + alpha * (n - v) for v, n in zip(violation, now, strict=True)))
        self.x *= 1 - alpha
        self.x[bound.union, bound.slot] += alpha
        if bound.units >= subproblem.units:
            self.vain += 1
            if self.vain >= VOLUME.vain_steps:
                self.length, self.vain = max(VOLUME.shortest, VOLUME.shorter * self.length), 0
            return
        ahead = float(now.cuts @ direction.cuts) >= 0
        self.length = min(VOLUME.longest, self.length * (VOLUME.longer if ahead else 1.0))
        self.vain = 0
        self._follow(*subproblem.improve(bound, trial))

    def _ascend(self, should_continue: Callable[[], bool]) -> None:
        """Ascends from the best multipliers, unless the last ascent gained less than steps do in its time."""
        subproblem = self.subproblem
        began, units = perf_counter(), subproblem.units
        gained = self.units_then - units
        if gained <= 0 or self.ascent_rate * (began - self.since) < gained:
            return  # without a gain since, the last ascent ended at these multipliers
        bound, position = ascend(subproblem, subproblem.multipliers, lambda _: should_continue())
        self.idle = np.append(
            self.idle, np.zeros(subproblem.multipliers.cuts.size - self.idle.size, dtype=np.int64)
        )
        self.violation = None
        self._follow(bound, position)
        self.since, self.units_then = perf_counter(), subproblem.units
        self.ascent_rate = (units - subproblem.units) / (self.since - began)

    def _follow(self, bound: Bound, position: NDArray[np.int64] | None) -> None:
        """Takes the last bound; the average follows where families have been dropped."""
        subproblem = self.subproblem
        self.last = bound
        if position is None or not subproblem.feasible:
            return
        families = subproblem.families
        x = self.x[position >= 0][:, : families.width] * families.allowed
        total = np.zeros(families.n + 1)
        np.add.at(total, families.members, x)
        # The average of a vertex that lost most of its weight restarts at the vertex's best family.
        lost = total < _HALF  # so is the padding, whose x is 0
        x[lost[families.members]] = 0.0
        self.x = x / np.where(lost, 1.0, total)[families.members]
        self.x[self.last.union[lost[:-1]], self.last.slot[lost[:-1]]] = 1.0
        self.violation = None

    def _restart(self) -> None:
        """Begins a new average at the best multipliers, without the cuts that have none."""
        subproblem = self.subproblem
        subproblem.drop_cuts(subproblem.multipliers.cuts <= 0)
        self.idle = np.zeros(subproblem.multipliers.cuts.size, dtype=np.int64)
        self.last = subproblem.evaluate(subproblem.multipliers)
        self.x[:] = 0.0
        self.x[self.last.union, self.last.slot] = 1.0
        self.length, self.alpha, self.vain = VOLUME.first_length, VOLUME.first_alpha, 0
        self.age, self.violation = 0, None

    def _average_violation(self) -> RowVector:
        """Returns the violations of all rows at the average point."""
        union, slot = np.nonzero(self.x > _NOTHING)
        parents = self.subproblem.families.facets[union, slot].astype(np.int64)
        return self.subproblem.rows.violation(union, parents, self.x[union, slot])

    def _renew_rows(self, should_continue: Callable[[], bool]) -> Point:
        """Drops cuts that have been slack for long, adds rows that the average point violates; returns it."""
        subproblem = self.subproblem
        old = (self.idle > VOLUME.patience) & (subproblem.multipliers.cuts <= 0)
        if 6 * int(old.sum()) > old.size:
            subproblem.drop_cuts(old)
            self.idle = self.idle[~old]
        union, slot = np.nonzero(self.x > VOLUME.support)
        point = Point(union, slot, self.x[union, slot])
        where = InOutPoint(VOLUME.mix, self.creep, VOLUME.tolerance)
        found = separate(subproblem, self.last, point, where, pool=self.pool, should_continue=should_continue)
        if len(found.clutters) < VOLUME.few_cuts * len(subproblem.sinks):
            self.creep = max(VOLUME.last_creep, self.creep / 2)
        subproblem.add_rows(found.clutters, found.set_rows)
        self.idle = np.append(self.idle, np.zeros(len(found.clutters), dtype=np.int64))
        self.violation = None
        return point
