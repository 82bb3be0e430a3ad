"""Multipliers of the clutter LP by smoothing, with cuts separated on the way.

The bound D(λ) (`bound`) is a sum of maxima, and steps along subgradients zigzag between its kinks. With the
families' weights c = t(P∪v) − t(P) and a *temperature* τ > 0, in nats,

    D_τ(λ) = Σ_v τ ln Σ_P exp(c(v,P) / τ) − Σ λ·limit

is smooth, at least D(λ), and at most τ Σ_v ln |families of v| larger. Its gradient is minus the violations of
the rows at the point x(v,P) = exp(c(v,P)/τ) / Σ_P′ exp(c(v,P′)/τ), so that a quasi-Newton method (L-BFGS-B,
for λ ≥ 0) minimises it. Where it is least, x solves the LP over the present rows with τ times the entropy of
x added: it is far inside the face of solutions, and the cuts that it violates are deeper than a vertex's.

A round takes some iterations, evaluates D over all families in exact integers, which fixes families, and
separates cuts at x. Now and then, iterations at a lower temperature lead to a better bound, from which dual
ascent (`ascent`) begins anew. The temperature falls with the gap. A family whose reduced cost is many τ has
no weight in x, so that a round looks at the near families only.

It is for LPs on which the steps (`volume`) gain nothing: of dense data at treewidth 3, solutions spread over
hundreds of families for each vertex, and the simplex method takes a minute for a few rounds. Where the steps
gain, they are two to three times as fast.

Reference: Nesterov, Smooth minimization of non-smooth functions, Mathematical Programming 2005. Byrd, Lu,
Nocedal and Zhu, A limited memory algorithm for bound constrained optimization, SIAM J. Sci. Comput. 1995.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.clutter.ascent import ascend
from jtsolve.backends.clutter.bound import within_reduced_cost
from jtsolve.backends.clutter.inequalities import RowVector
from jtsolve.backends.clutter.separation import InOutPoint, Point, separate

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.backends.clutter.subproblem import Subproblem


@dataclass(frozen=True, slots=True)
class SmoothingConstants:
    """The constants of the method."""

    temperature: float = 0.5
    """τ for each vertex, as a share of the gap."""
    iterations: int = 15
    memory: int = 20
    """Of the quasi-Newton method, in a round; and the pairs that it remembers."""
    lower: float = 0.1
    polish: int = 4
    """Rounds between two polishings, and τ for each vertex there."""
    polishing: int = 25
    near: float = 0.3
    reach: float = 15.0
    """Rounds look at families with a reduced cost below this share of the gap, or below so many τ."""
    first_creep: float = 4e-3
    last_creep: float = 1e-5
    """Capacity of the nearest family in separation: large finds few cuts, but the strongest."""
    few_cuts: float = 0.5
    """Cuts found per sink below which the creep is halved."""
    support: float = 1e-3
    mix: float = 0.5
    tolerance: float = 0.01
    """In-out separation: half-way to the stability centre, and the least violation there."""
    patience: int = 6
    """Rounds after which a cut without a multiplier leaves."""
    check: int = 8
    poor_progress: float = 0.1
    """The rounds end where the gap falls by a smaller share in so many of them."""


SMOOTHING = SmoothingConstants()


class Smoothing:
    """The rounds on one subproblem, which keeps the best multipliers."""

    def __init__(self, subproblem: Subproblem, pool: ThreadPoolExecutor | None) -> None:
        self.subproblem, self.creep, self.pool = subproblem, SMOOTHING.first_creep, pool
        self.multipliers = subproblem.multipliers  # of the smoothed bound; the best are the subproblem's
        self.idle = np.zeros(subproblem.multipliers.cuts.size, dtype=np.int64)
        self.last = subproblem.evaluate(subproblem.multipliers)
        self.point = Point(
            self.last.union.astype(np.int64), self.last.slot.astype(np.int64), np.ones(self.last.union.size)
        )
        self.temperature = inf
        self.rounds = self.evaluations = 0

    def run(
        self,
        enough: int,
        on_point: Callable[[Point, Bound], bool],
        should_continue: Callable[[], bool],
    ) -> bool:
        """Runs rounds until the bound stalls or meets the best tree, or few families are left.

        Args:
            enough: how many families are few.
            on_point: is called with the point and a bound of each round; answers whether to continue.
            should_continue: is asked all the time.

        Returns:
            False if it was interrupted.
        """
        subproblem = self.subproblem
        self._take(self.last, self.multipliers)
        before = inf
        while not subproblem.closed:
            if int(subproblem.families.allowed.sum()) <= enough:
                return True
            if self.rounds % SMOOTHING.check == 0:
                if before - subproblem.gap < SMOOTHING.poor_progress * subproblem.gap:
                    return True
                before = subproblem.gap
            self._round(should_continue)
            if not should_continue():
                return subproblem.closed
            if not subproblem.closed:
                self._renew_rows(should_continue)
                if not on_point(self.point, self.last):
                    return False
        return True

    def _round(self, should_continue: Callable[[], bool]) -> None:
        """Moves to a lower smoothed bound, now and then at a lower temperature, too; offers the bounds."""
        subproblem = self.subproblem
        polish = self.rounds % SMOOTHING.polish == SMOOTHING.polish - 1
        self.rounds += 1
        per_vertex = subproblem.gap / subproblem.families.n
        self.temperature = min(self.temperature, SMOOTHING.temperature * per_vertex)
        most = max(SMOOTHING.near * subproblem.gap, SMOOTHING.reach * self.temperature)
        bound = subproblem.evaluate(self.multipliers, pool=self.pool)
        chosen = within_reduced_cost(subproblem.families, bound, int(most / subproblem.best.scale.unit))
        if subproblem.centre is not None:
            chosen[subproblem.centre] = True
        near = SmoothedBound(subproblem, chosen, self.pool)
        self.multipliers = near.minimum(
            self.multipliers, self.temperature, SMOOTHING.iterations, should_continue
        )
        self.point = near.point(self.multipliers, self.temperature)
        self.idle = np.where(self.multipliers.cuts > 0, 0, self.idle + 1)
        best, multipliers = subproblem.evaluate(self.multipliers, pool=self.pool), self.multipliers
        if polish:
            lower = near.minimum(
                multipliers, SMOOTHING.lower * per_vertex, SMOOTHING.polishing, should_continue
            )
            polished = subproblem.evaluate(lower, pool=self.pool)
            if polished.units < best.units:
                best, multipliers = polished, lower
        self.evaluations += near.evaluations
        self._take(best, multipliers)
        if polish and not subproblem.closed:
            self._follow(*ascend(subproblem, subproblem.multipliers, lambda _: should_continue()))
            self._pad()

    def _take(self, bound: Bound, multipliers: RowVector) -> None:
        """Offers multipliers to the subproblem."""
        self._follow(*self.subproblem.improve(bound, multipliers))

    def _follow(self, bound: Bound, position: NDArray[np.int64] | None) -> None:
        """Takes the last bound; the point follows where families have been dropped."""
        self.last = bound
        if position is not None and self.subproblem.feasible:
            self.point = self.point.among(self.subproblem.families, position)

    def _renew_rows(self, should_continue: Callable[[], bool]) -> None:
        """Drops cuts that have been slack for long, and adds rows that the point violates."""
        subproblem = self.subproblem
        old = (self.idle > SMOOTHING.patience) & (subproblem.multipliers.cuts <= 0)
        if 6 * int(old.sum()) > old.size:
            subproblem.drop_cuts(old)
            self.idle = self.idle[~old]
            self.multipliers = self.multipliers._replace(cuts=self.multipliers.cuts[~old])
        where = InOutPoint(SMOOTHING.mix, self.creep, SMOOTHING.tolerance)
        found = separate(
            subproblem, self.last, self.point, where, pool=self.pool, should_continue=should_continue
        )
        if len(found.clutters) < SMOOTHING.few_cuts * len(subproblem.sinks):
            self.creep = max(SMOOTHING.last_creep, self.creep / 2)
        subproblem.add_rows(found.clutters, found.set_rows)
        self._pad()

    def _pad(self) -> None:
        """Gives new rows the multiplier 0."""
        cuts, set_rows = self.multipliers
        fresh = self.subproblem.multipliers.cuts.size - cuts.size
        self.idle = np.append(self.idle, np.zeros(fresh, dtype=np.int64))
        others = self.subproblem.multipliers.set_rows.size - set_rows.size
        self.multipliers = RowVector(np.append(cuts, np.zeros(fresh)), np.append(set_rows, np.zeros(others)))


class SmoothedBound:
    """The smoothed bound over some families of a subproblem, less the best tree's score, in nats."""

    def __init__(
        self, subproblem: Subproblem, chosen: NDArray[np.bool_], pool: ThreadPoolExecutor | None
    ) -> None:
        unit = subproblem.best.scale.unit
        self.families, position = subproblem.near(chosen)
        self.kept = np.flatnonzero(position >= 0)
        self.rows = subproblem.rows.among(self.families, self.kept)
        self.scores = subproblem.scores[self.kept] * unit
        self.target = subproblem.best.target * unit
        self.pool, self.evaluations = pool, 0

    def value(self, scaled: NDArray[np.float64], temperature: float) -> tuple[float, NDArray[np.float64]]:
        """Returns D_τ(λ) / τ and its gradient at λ / τ, the multipliers of cuts and of set rows."""
        self.evaluations += 1
        maxima, price, share = self._maxima(self._multipliers(scaled * temperature), temperature)
        union, slot = np.nonzero(share)
        parents = self.families.facets[union, slot].astype(np.int64)
        violation = self.rows.violation(union, parents, share[union, slot])
        return (float(maxima.sum()) - self.target - price) / temperature, -np.concatenate(violation)

    def minimum(
        self,
        start: RowVector,
        temperature: float,
        iterations: int,
        should_continue: Callable[[], bool],
    ) -> RowVector:
        """Returns multipliers of a lower smoothed bound than that of `start`, in nats."""
        if not self.rows.clutters and not self.rows.set_rows:
            return start
        from scipy.optimize import minimize

        def go_on(_: NDArray[np.float64]) -> None:
            if not should_continue():
                raise StopIteration

        found = minimize(
            self.value,
            np.concatenate(start) / temperature,
            method="L-BFGS-B",
            jac=True,
            args=(temperature,),
            bounds=[(0.0, None)] * sum(part.size for part in start),
            callback=go_on,
            options={"maxiter": iterations, "maxcor": SMOOTHING.memory, "ftol": 0.0},
        )
        return self._multipliers(found.x * temperature)

    def point(self, multipliers: RowVector, temperature: float) -> Point:
        """Returns the families' shares there."""
        _, _, share = self._maxima(multipliers, temperature)
        union, slot = np.nonzero(share > SMOOTHING.support)
        return Point(self.kept[union], slot, share[union, slot])

    def _multipliers(self, flat: NDArray[np.float64]) -> RowVector:
        return RowVector(*np.split(flat, [len(self.rows.clutters)]))

    def _maxima(
        self, multipliers: RowVector, temperature: float
    ) -> tuple[NDArray[np.float64], float, NDArray[np.float64]]:
        """Returns the smoothed maxima of the vertices, Σ λ·limit, and the families' shares."""
        from jtsolve.backends.clutter.kernels.smoothing import smoothed_maxima

        near = self.families
        values, price = self.rows.weighted(self.scores, multipliers, self.pool)
        maxima, share = smoothed_maxima(
            values, near.members, near.facets, near.sizes, near.allowed, near.n, temperature
        )
        return maxima, price, share
