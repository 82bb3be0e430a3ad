"""Multipliers of the clutter LP by the volume algorithm, with separation of cuts.

A step evaluates the bound D(λ) of trial multipliers (`bound`): one pass over the sets, no linear program. The
families that attain the maxima, one for each vertex, are a point x of the relaxation. The exponential average
x̄ ← (1−α)x̄ + αx tends to a solution of the LP (at first α is 1/k in step k: the mean of all points), and the
violations of the rows at x̄ are the subgradient direction of the next trial from the best λ. Every few steps,
cuts that x̄ violates are added with multiplier 0, cuts that have been slack for long are removed, and dual
ascent (`ascent`) raises the best λ. Whenever the bound or the best tree improves, reduced costs fix families.
So the bound falls from the first second on, while a simplex method would solve LP after LP; that takes over
when the steps gain little (`simplex`).

A family of large reduced cost does not attain a maximum soon. So the steps between two separations visit only
families of small reduced cost, and D over all families then decides whether the new λ is better. If it is
not, the next steps start from the old λ and visit more families.

Reference: Barahona and Anbil, The volume algorithm, Mathematical Programming 2000. Departures: rows change
between steps; steps visit near families only; the step length has a lower limit, since new rows permit
progress; when the steps stall, the average restarts, and cuts without a multiplier are removed.
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

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.backends.clutter.subproblem import Subproblem
    from jtsolve.core.scores import Stoppable
    from jtsolve.core.threads import Pool


@dataclass(frozen=True, slots=True)
class VolumeConstants:
    """The constants of the volume algorithm."""

    first_alpha: float = 0.008
    last_alpha: float = 0.005
    """A large α is fast at first, a small one gets further: on alarm at treewidth 2, the steps stalled 221
    nats from the optimum with a last α of 0.01; with 0.005, few enough families were left for the simplex
    method."""
    poor_progress: float = 0.2
    """α is halved when the gap falls by a smaller share between two checks."""
    first_length: float = 0.04
    longest: float = 2.0
    shortest: float = 0.01
    longer: float = 1.1
    shorter: float = 0.66
    """Step lengths in Polyak's formula, and their factors after a better bound and after null steps. The
    first length and the first α are small: after an ascent, plants gained nothing in 500 steps with 0.5 and
    0.1, nor in 200 with 0.02 and 0.03."""
    null_steps: int = 15
    """Number of successive steps without a better bound after which the length falls."""
    between_cuts: int = 50
    """Steps between separations. The average must adapt to the last cuts before it violates useful new ones:
    on alarm at treewidth 3, a minute with 20 steps left a gap five times as large."""
    first_creep: float = 4e-3
    last_creep: float = 1e-5
    """Capacity of the nearest family in separation: a large one finds few cuts, but the strongest."""
    few_cuts: float = 0.5
    """The creep is halved when separation finds fewer cuts per sink."""
    patience: int = 200
    """Steps after which a cut without a multiplier is removed."""
    support: float = 1e-3
    """Separation ignores smaller values of the average."""
    mix: float = 0.5
    tolerance: float = 0.01
    """In-out separation: weight of the stability centre, and least violation."""
    check: int = 4
    """Separations between checks of the progress."""
    near: float = 0.25
    fewer: float = 0.8
    more: float = 2.0
    """The steps visit families with a reduced cost below this share of the gap, and the factors of the share
    after a bound that holds over all families and after one that does not. On accidents, where a twentieth of
    the families was enough, 296 nats were left after 67 s; steps over all families left 374."""
    least_progress: float = 0.05
    """The steps stall if the gap falls by a smaller share between two checks."""
    restart_threshold: float = 0.97
    """A restart has failed if more than this share of the gap at the last stall is left: the creep falls, or
    the steps end."""


VOLUME = VolumeConstants()
_NOTHING = 1e-9
_HALF = 0.5


class Volume:
    """The volume algorithm on one subproblem, which keeps the best multipliers."""

    def __init__(self, subproblem: Subproblem, creep: float, pool: Pool | None) -> None:
        self.subproblem, self.creep, self.pool = subproblem, creep, pool
        self.length, self.alpha, self.share = VOLUME.first_length, VOLUME.first_alpha, VOLUME.near
        self.last = subproblem.evaluate(subproblem.multipliers)
        self.point = Point.of(self.last)
        self.null_steps = 0
        self.age = 0  # steps of the average
        self.idle = np.zeros(subproblem.multipliers.cuts.size, dtype=np.int64)
        self.steps = 0
        self.rounds = 0  # runs of steps whose bound held over all families
        self.ascent_rate = inf  # gain of the last ascent, in units per second
        self.since, self.units_then = perf_counter(), subproblem.units  # at the end of the last ascent

    def run(
        self,
        enough: int,
        many: int,
        on_point: Callable[[Point, Bound], bool],
        report: Stoppable,
    ) -> bool:
        """Makes steps until the bound stalls or meets the best tree, or few families are left.

        Args:
            enough: number of families at which it ends.
            many: number of families at which it ends once the steps gain little.
            on_point: called with the average point and the last bound after each separation; returns whether
                to continue.
            report: polled at every step, and during separation.

        Returns:
            False if it was interrupted.
        """
        subproblem = self.subproblem
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
            # Only rounds whose bound holds over all families count.
            if self.rounds == check:
                check += VOLUME.check
                gap = subproblem.gap
                if before - gap < VOLUME.poor_progress * gap:
                    enough = many  # end as soon as the simplex method can take over
                if before - gap < VOLUME.least_progress * gap and self.alpha <= VOLUME.last_alpha:
                    # Stalled twice at about the same gap: admit weaker cuts, or give up.
                    if gap > VOLUME.restart_threshold * stalled:
                        if self.creep <= VOLUME.last_creep:
                            return True
                        self.creep = max(VOLUME.last_creep, self.creep / 4)
                    stalled = gap
                    self._restart()
                # Barahona and Anbil halve α when the bound improves slowly: recent points then weigh less.
                elif before - gap < VOLUME.poor_progress * gap:
                    self.alpha = max(VOLUME.last_alpha, self.alpha / 2)
                before = gap
            if int(subproblem.families.allowed.sum()) <= enough:
                return True
            self._choose_near()
            for _ in range(VOLUME.between_cuts):
                self._step()
                if report.stop is not None:
                    self._confirm()
                    return False
            self._confirm()
        return True

    def _choose_near(self) -> None:
        """Restricts the next steps to families of small reduced cost, of the average, and of the centre."""
        subproblem, point = self.subproblem, self.point
        families, centre = subproblem.families, subproblem.centre
        most = int(self.share * subproblem.gap / subproblem.best.scale.unit)
        chosen = within_reduced_cost(families, self.last, most)
        chosen[point.union, point.slot] = True
        if centre is not None:
            chosen[centre] = True
        self.near, position = subproblem.restricted_to(chosen)
        self.kept = np.flatnonzero(position >= 0)
        self.scores = subproblem.scores[self.kept]
        self.rows = subproblem.rows.restricted_to(self.near, self.kept)
        self.multipliers, self.units = subproblem.multipliers, subproblem.units
        union, slot, value = point.restricted_to(self.near, position)
        self.x = np.zeros(self.near.allowed.shape)
        self.x[union, slot] = value
        # The violation at x̄, which each step averages as it averages x̄.
        parents = self.near.facets[union, slot].astype(np.int64)
        self.violation = self.rows.violation(union, parents, value)

    def _step(self) -> None:
        """Moves from the best multipliers along the average violation, and evaluates the bound."""
        best, scale = self.multipliers, self.subproblem.best.scale
        self.steps += 1
        # A multiplier at 0 cannot fall: its violation is projected out, lest it shorten the step.
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
        # At first α = 1/k, the plain mean: with a fixed α, the first point would dominate for long.
        alpha = max(self.alpha, 1 / (self.age + 1))
        self.violation = RowVector(*(v + alpha * (n - v) for v, n in zip(self.violation, now, strict=True)))
        self.x *= 1 - alpha
        self.x[bound.union, bound.slot] += alpha
        # A null step: only the average moves. After many in a row, steps are too long.
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
        """Passes the best multipliers of the steps to the subproblem, if they improve D over all families."""
        subproblem = self.subproblem
        union, slot = np.nonzero(self.x > _NOTHING)
        self.point = Point(self.kept[union], slot, self.x[union, slot])
        if self.multipliers is subproblem.multipliers:  # no step was better
            self.rounds += 1
            return
        bound = subproblem.evaluate(self.multipliers, pool=self.pool)
        if bound.units <= subproblem.units:
            self._follow(*subproblem.improve(bound, self.multipliers))
            self.share *= VOLUME.fewer
            self.rounds += 1
        else:  # a family outside those visited attains a maximum: the steps are undone
            self.share *= VOLUME.more

    def _ascend(self, report: Stoppable) -> None:
        """Ascends from the best multipliers, unless steps gain more per second than the last ascent."""
        subproblem = self.subproblem
        began, units = perf_counter(), subproblem.units
        gained = self.units_then - units
        if gained <= 0 or self.ascent_rate * (began - self.since) < gained:
            return  # without a gain, the last ascent ended at these multipliers
        bound, position = ascend(subproblem, subproblem.multipliers, lambda _: report.stop is None)
        self.idle = np.append(
            self.idle, np.zeros(subproblem.multipliers.cuts.size - self.idle.size, dtype=np.int64)
        )
        self._follow(bound, position)
        self.since, self.units_then = perf_counter(), subproblem.units
        self.ascent_rate = (units - subproblem.units) / (self.since - began)

    def _follow(self, bound: Bound, position: NDArray[np.int64] | None) -> None:
        """Adopts a bound; the average loses the dropped families."""
        subproblem = self.subproblem
        self.last = bound
        if position is None or not subproblem.feasible:
            return
        families = subproblem.families
        union, slot, value = self.point.restricted_to(families, position)
        vertex = families.members[union, slot]
        # Rescaled to Σ_P x̄(v,P) = 1; a vertex that has lost most of it restarts at its best family.
        total = np.bincount(vertex, value, families.n)
        lost = total < _HALF
        stays = ~lost[vertex]
        self.point = Point(
            np.append(union[stays], bound.union[lost]),
            np.append(slot[stays], bound.slot[lost]),
            np.append((value / np.where(lost, 1.0, total)[vertex])[stays], np.ones(int(lost.sum()))),
        )

    def _restart(self) -> None:
        """Restarts the average at the best multipliers, and drops the cuts without a multiplier."""
        subproblem = self.subproblem
        subproblem.drop_cuts(subproblem.multipliers.cuts <= 0)
        self.idle = np.zeros(subproblem.multipliers.cuts.size, dtype=np.int64)
        self.last = subproblem.evaluate(subproblem.multipliers)
        self.point = Point.of(self.last)
        self.length, self.alpha, self.null_steps = VOLUME.first_length, VOLUME.first_alpha, 0
        self.age = 0

    def _renew_rows(self, report: Stoppable) -> Point:
        """Drops cuts that are slack for long, adds rows that the average violates; returns the average."""
        subproblem = self.subproblem
        # Dropping rebuilds the words of all cuts, and waits until a sixth of them is slack.
        old = (self.idle > VOLUME.patience) & (subproblem.multipliers.cuts <= 0)
        if 6 * int(old.sum()) > old.size:
            subproblem.drop_cuts(old)
            self.idle = self.idle[~old]
        # Small values slow down the maximum flows, and hardly change the minimum cuts.
        large = self.point.value > VOLUME.support
        point = Point(self.point.union[large], self.point.slot[large], self.point.value[large])
        where = InOutPoint(VOLUME.mix, self.creep, VOLUME.tolerance)
        found = separate(subproblem, self.last, point, where, pool=self.pool, report=report)
        # Few cuts: the strongest are used up, and a smaller creep admits weaker ones.
        if len(found.clutters) < VOLUME.few_cuts * len(subproblem.sinks):
            self.creep = max(VOLUME.last_creep, self.creep / 2)
        subproblem.add_rows(found.clutters, found.set_rows)
        self.idle = np.append(self.idle, np.zeros(len(found.clutters), dtype=np.int64))
        return point
