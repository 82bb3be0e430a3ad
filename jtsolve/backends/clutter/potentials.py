"""Bounds of the clutter LP by potentials of its sinks: block-coordinate ascent without a list of cuts.

A sink a is a set that is complete in every tree (`ascent`). Its cuts with their multipliers add up to a
*potential* π_a(A) = Σ λ_F [A ∈ F], a monotone set function with π_a(∅) = 0. Conversely, every such function
is a sum of cuts of a. So the multipliers of all possible cuts reduce to one number for each sink and set, and

    D(π) = Σ_v max_P [t(P∪v) − t(P)] − Σ_a π_a(a),      t = s + Σ_a π_a.

The best potential of one sink, given the others, has a closed form. Let r(v,P) be the reduced costs without
π_a. Then π_a may grow along the arc from P to P∪v by at most r(v,P), and not along the free arcs to subsets,
so that π_a(a) is at most the length of the shortest path from ∅ to a. Two potentials attain this length:

    π_a(A) = min(d, distance from ∅ to A)   or   π_a(A) = d − min(d, distance from A to a),   d = π_a(a),

The cuts of the first are near ∅, those of the second near the sink. The first also gives back all that no
shortest path needs. A *sweep* updates all sinks in random order, with the cuts at one end; sweeps with the
cuts near ∅ and near the sinks alternate, so that each sink uses the slack that others leave at either end.
In a fixed order, or with both ends in one sweep, hardly anything is gained.

Where sweeps gain little, all potentials are stretched at once, π_a ← φ_a(π_a) with piecewise linear φ_a.
The slopes on some thousand intervals minimise the smoothed bound, in which each maximum is replaced by

    τ ln Σ_P exp((t(P∪v) − t(P)) / τ),      at least the maximum, and at most τ ln |families of v| above it.

The bound rises at first, and falls below its old value after some sweeps; otherwise the temperature τ > 0 was
too high, and is lowered. On 34 variables of plants at treewidth 3, 150 nats are left after 45 s, and 390
without stretching.

On dense data at treewidth 3, neither the volume algorithm nor the simplex method gains after dual ascent,
while potentials close more than half of the gap of plants (69 variables) in two minutes (docs/benchmarks.md).
At treewidth 2, the volume algorithm (`volume`) is better. Potentials are no list of cuts: they fix families
and give bounds, but no certificate. In the end, some of their level sets, which are cuts, become the rows
with which the simplex method starts; sweeps then continue from the multipliers of each of its solutions.

References: Werner, Průša and Dlask, Relative interior rule in block-coordinate descent, CVPR 2020 (why a
minimum inside the face of minima is the best one). Kolmogorov, Convergent tree-reweighted message passing
for energy minimization, IEEE TPAMI 2006 (sweeps in two directions). Nesterov, Smooth minimization of
non-smooth functions, Mathematical Programming 2005 (stretching). Ours: the blocks are the sinks of a directed
cut relaxation over a lattice of sets; the sweeps towards the two ends; the stretching; the level sets as
rows. All bounds are in exact integers.

Time: 10 to 20 passes over the families per sink. Memory: 4 bytes for each sink and set, and as much again
while families are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.clutter.bound import Bound, best_bound
from jtsolve.backends.clutter.inequalities import CutRows, RowVector
from jtsolve.backends.clutter.separation import Point
from jtsolve.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.inequalities import Clutter
    from jtsolve.backends.clutter.subproblem import Subproblem
    from jtsolve.core.scores import Stoppable


@dataclass(frozen=True, slots=True)
class PotentialsConstants:
    """The constants of the method."""

    least_width: int = 4
    least_gap: float = 0.01
    """Potentials replace the volume algorithm if the largest sets have at least this many members, and the
    ascent leaves more than this share of the possible gain of cuts. It leaves 7 % on plants at treewidth 3,
    2.8 % on 25 of its variables, and 0.5 % at treewidth 2. On insurance at treewidth 4, where only a better
    tree is missing, the volume algorithm with its rounding ended in 2 s, and sweeps in 7 s."""
    most_sinks: int = 250
    """The prediction of memory by `clutter` does not cover more sinks."""
    little: float = 0.02
    """Potentials are stretched when a round of sweeps gains a smaller share of the gap."""
    levels: int = 1000
    """Number of cuts that replace the potentials in the simplex method."""
    rounds: int = 2
    """Minimum number of rounds after each stretching."""
    slopes: int = 5000
    iterations: int = 30
    memory: int = 20
    """Iterations of the quasi-Newton method, and the number of pairs in its memory."""
    temperature: float = 0.3
    """First temperature of each vertex, as a share of the gap."""
    cooling: float = 0.7
    coldest: float = 0.1
    """Factor of the temperature after a stretching that hardly lowered the gap, and the least temperature."""
    fruitless: int = 16
    least_progress: float = 0.02
    """Sweeps end after so many stretchings in a row that lower the gap by a smaller share each. With eight,
    34 variables of plants ended at 82 nats, where the LP was still 1,004 behind."""


POTENTIALS = PotentialsConstants()
_BITS = 26
"""Resolution of potentials: bits of the distance between the bound without cuts and the best tree."""
_ROUND = (True, False, False)
"""For each sweep of a round, whether it moves cuts towards ∅. The second of those towards the sinks gains
most: over three seeds on 34 variables of plants at treewidth 3, 383 nats were left after 4 s with it, and 428
without."""
_SEED = 1


class Potentials:
    """The potentials of one subproblem, initialised by multipliers of cuts; the subproblem keeps the bound.

    Attributes:
        sweeps: number of completed sweeps.
        gap: of the present potentials, in nats.
        temperature: of the next stretching, as in `how`.
        position: positions of the initial sets, -1 for dropped ones; None if none is dropped.
    """

    def __init__(
        self,
        subproblem: Subproblem,
        multipliers: RowVector | None = None,
        rows: CutRows | None = None,
        how: PotentialsConstants = POTENTIALS,
    ) -> None:
        self.subproblem, self.how = subproblem, how
        self.random = np.random.default_rng(_SEED)
        self.sweeps = self.stretched = 0
        self.temperature = self.how.temperature
        rows, multipliers = rows or subproblem.rows, multipliers or subproblem.multipliers
        units = RowVector(*map(subproblem.best.scale.units_of, multipliers))
        self.base, self.price = rows.weighted(
            subproblem.scores, units._replace(cuts=np.zeros_like(units.cuts))
        )
        self.start = subproblem.units
        # `base` is s plus the set rows with their multipliers, which stay fixed. The bound without any cut
        # sets the unit of potentials, a step: they are int32 of at most 2^28 steps.
        self.top = best_bound(subproblem.families, self.base, self.price).units
        self.shift = max(0, (self.top - subproblem.best.target).bit_length() - _BITS)
        self.potentials = self._from_cuts(rows, units.cuts)
        self._arrange()
        self.position: NDArray[np.int64] | None = None
        self._evaluate_and_fix()

    @staticmethod
    def applicable(subproblem: Subproblem, how: PotentialsConstants = POTENTIALS) -> bool:
        """Returns whether potentials apply: with large cliques, a known tree, and no certificate."""
        return (
            subproblem.stages is None
            and subproblem.best.tree is not None
            and subproblem.families.width >= how.least_width
            and len(subproblem.sinks) <= how.most_sinks
        )

    @staticmethod
    def promising(subproblem: Subproblem, how: PotentialsConstants = POTENTIALS) -> bool:
        """Returns whether potentials apply, and the ascent has left a large gap."""
        return Potentials.applicable(subproblem, how) and _leaves_much(
            subproblem, subproblem.units, _without_cuts(subproblem), how.least_gap
        )

    @property
    def still_promising(self) -> bool:
        """Whether the gap after the ascent is large with the present best tree, too."""
        return _leaves_much(self.subproblem, self.start, self.top, self.how.least_gap)

    def run(
        self,
        enough: int,
        on_point: Callable[[Point, Bound], bool],
        report: Stoppable,
    ) -> bool:
        """Sweeps until the bound stalls or meets the best tree, or few families are left.

        Args:
            enough: number of families at which it ends.
            on_point: called with the families of the maxima and the bound after each round of sweeps; returns
                whether to continue.
            report: polled before each update.

        Returns:
            False if it was interrupted; a later call resumes.
        """
        subproblem = self.subproblem
        before, fruitless, since = subproblem.gap, 0, self.how.rounds
        while not subproblem.closed and int(subproblem.families.allowed.sum()) > enough:
            if not self.still_promising:  # only a better tree was missing, and is known now
                return True
            gap = self.gap
            if not self._run_round(report):
                return subproblem.closed
            if not on_point(Point.of(self.bound), self.bound):
                return False
            # A stretching costs as much as several rounds, and waits until these stall.
            since += 1
            if subproblem.closed or since < self.how.rounds or self.gap < (1 - self.how.little) * gap:
                continue
            fell = before - subproblem.gap >= self.how.least_progress * before
            before = subproblem.gap

            if fell or self.stretched == 0:
                fruitless = 0
            else:
                fruitless += 1
                self.temperature = max(self.how.coldest, self.how.cooling * self.temperature)
            if fruitless == self.how.fruitless:
                return True
            self._stretch(report)
            since = 0
            if report.stop is not None:
                return subproblem.closed
        return True

    def polish(self, report: Stoppable) -> None:
        """Sweeps while rounds gain."""
        gap = inf
        while not self.subproblem.closed and self.gap < (1 - self.how.little) * gap:
            gap = self.gap
            if not self._run_round(report):
                return

    def hand_over(self) -> None:
        """Replaces the rows of the subproblem by level sets of the potentials, at even distances."""
        subproblem, cuts = self.subproblem, self._cuts(self.how.levels)
        multipliers = subproblem.multipliers._replace(cuts=np.array(list(cuts.values())))
        subproblem.set_multipliers(
            multipliers, CutRows(subproblem.families, list(cuts), subproblem.rows.set_rows)
        )

    def _run_round(self, report: Stoppable) -> bool:
        """Sweeps once in each direction of `_ROUND`; returns False if it was interrupted."""
        finished = all(self._sweep(report, from_empty=kind) for kind in _ROUND)
        self._evaluate_and_fix()
        return finished

    def _cuts(self, most: int) -> dict[Clutter, float]:
        """Returns about `most` cuts whose sum approximates the potentials, and their multipliers."""
        families, step_unit = self.subproblem.families, self.subproblem.best.scale.unit * (1 << self.shift)
        # The number of levels of a sink is proportional to its potential at the sink.
        tops = self.tops
        counts = -(-tops * most // max(1, tops.sum()))
        inside = np.arange(families.width) < families.sizes[:, None]
        found: dict[Clutter, float] = {}
        for potential, top, count in zip(self.potentials, tops.tolist(), counts.tolist(), strict=True):
            # π(A) > level ≥ max π(facets): A is a minimal set of the up-set {π > level}.
            below = np.where(inside, potential[families.facets], 0).max(axis=1)
            levels = -(-top * np.arange(1, count + 1) // max(1, count))
            # So a set generates the up-sets of the levels between the potentials of its facets and its own.
            first, last = (np.searchsorted(levels, some, "right") for some in (below, potential))
            times = last - first
            sets = np.repeat(np.arange(times.size), times)
            level = np.repeat(last - np.cumsum(times), times) + np.arange(sets.size)
            for k in range(count):
                clutter = tuple(sets[level == k].tolist())
                found[clutter] = found.get(clutter, 0.0) + top / count * step_unit
        return found

    @property
    def tops(self) -> NDArray[np.int64]:
        """The potentials of the sinks at the sinks, shape (sinks,)."""
        tops = [p[at[0]] for p, at in zip(self.potentials, self.inside, strict=True)]
        return np.array(tops, dtype=np.int64)

    @property
    def _sinks(self) -> list[int]:
        """The positions of the sinks, except the root, whose only family has reduced cost 0."""
        families = self.subproblem.families
        return [
            at
            for at in self.subproblem.sinks
            if not (families.sizes[at] == 1 and families.members[at, 0] == families.root)
        ]

    def _from_cuts(self, rows: CutRows, units: NDArray[np.int64]) -> NDArray[np.int32]:
        """Returns the sums of the cuts of each sink with their multipliers, shape (sinks, sets)."""
        from jtsolve.backends.clutter.kernels.potentials import LARGEST, add_cuts

        sinks, amounts = self._sinks, units >> self.shift
        number = {at: k for k, at in enumerate(sinks)}
        of_sink = np.array(
            [next((number[at] for at in clutter if at in number), -1) for clutter in rows.clutters],
            dtype=np.int64,
        )
        total = int(np.bincount(of_sink + 1, amounts, len(sinks) + 1).max())
        if total > LARGEST:  # any multipliers ≥ 0 give a bound, and sweeps soon make up for the loss
            amounts = np.floor(amounts * (LARGEST / total)).astype(np.int64)
        potentials = np.zeros((len(sinks), self.base.size), dtype=np.int32)
        if rows.clutters:
            for k, words in enumerate(rows.words):
                add_cuts(words, 64 * k, amounts, of_sink, potentials)
        return potentials

    def _arrange(self) -> None:
        """Finds the runs of the lattice and, for each sink, the sets that contain it, the sink first."""
        from jtsolve.backends.clutter.kernels.potentials import runs_of

        families = self.subproblem.families
        self.runs = runs_of(families.facets, families.sizes)
        # One stable sort of all members lists the sets of each vertex in increasing order.
        members = families.members.ravel().astype(np.min_scalar_type(families.n))
        order = (np.argsort(members, kind="stable") // families.width).astype(np.int32)
        holding = np.split(order, np.cumsum(np.bincount(members, minlength=families.n))[: families.n])
        self.inside: list[NDArray[np.int32]] = [
            reduce(np.intersect1d, (holding[v] for v in families.members_of(at))) for at in self._sinks
        ]

    def _evaluate_and_fix(self) -> None:
        """Evaluates the bound in exact integers, and drops the families that it rules out."""
        subproblem = self.subproblem
        self._evaluate()
        _, position = subproblem.improve(self.bound, subproblem.multipliers)
        if position is not None and subproblem.feasible:
            self.base = self.base[position >= 0]
            before = self.position
            self.position = position if before is None else np.where(before < 0, -1, position[before])
            self.potentials = np.ascontiguousarray(self.potentials[:, position >= 0])
            self._arrange()
            self._evaluate()
            subproblem.units = min(subproblem.units, self.bound.units)

    def _evaluate(self) -> None:
        """Sets the bound of the potentials, and the reduced costs.

        Raises:
            InternalError: a potential falls somewhere, so that it is no sum of cuts.
        """
        from jtsolve.backends.clutter.kernels.potentials import add_potential, reduced_costs_in_steps

        subproblem = self.subproblem
        families = subproblem.families
        values = self.base.copy()
        for potential in self.potentials:
            # D(π) is valid only for sums of cuts: monotone potentials with π(∅) = 0, checked every time.
            if not add_potential(values, potential, families.facets, families.sizes, self.shift):
                raise InternalError("a potential falls from a set to a larger one: the bound would not hold")
        # Σ_a π_a(a), the price of the cuts: each has the limit 1.
        held = int(self.tops.sum()) << self.shift
        self.bound = best_bound(families, values, self.price + held)
        self.gap = subproblem.gap_of(self.bound.units)
        self.reduced = reduced_costs_in_steps(
            values,
            families.members,
            families.facets,
            families.sizes,
            families.allowed,
            self.bound.best,
            self.shift,
        )

    def _sweep(self, report: Stoppable, *, from_empty: bool) -> bool:
        """Updates all potentials in random order; returns False if it was interrupted."""
        from jtsolve.backends.clutter.kernels.potentials import exchange, update_potential

        families = self.subproblem.families
        runs = self.runs
        room = (np.empty_like(self.reduced), np.empty(families.sizes.size, dtype=np.int32))
        # Invariant: `reduced` has the reduced costs after all potentials except that of the current sink. One
        # pass charges the last potential and refunds the next.
        last = nothing = np.zeros_like(self.potentials[0])
        goes_on = True
        for k in self.random.permutation(len(self.inside)):
            goes_on = report.stop is None
            if not goes_on:
                break
            exchange(self.reduced, last, self.potentials[k], runs)
            update_potential(self.reduced, self.potentials[k], self.inside[k], from_empty, runs, room)
            last = self.potentials[k]
        exchange(self.reduced, last, nothing, runs)
        self.sweeps += 1
        return goes_on

    def _stretch(self, report: Stoppable) -> None:
        """Stretches the potentials to a lower smoothed bound."""
        from jtsolve.backends.clutter.kernels.potentials import stretch

        stretching = Stretching(self)
        slopes = stretching.minimum(report)
        self.stretched += 1
        for k, potential in enumerate(self.potentials):
            stretch(potential, stretching.bits, slopes[stretching.ends[k] : stretching.ends[k + 1]])
        self._evaluate_and_fix()


class Stretching:
    """The smoothed bound less the best tree's score, in nats, as a function of the slopes of all φ_a.

    Attributes:
        bits: the length of the intervals is 2^bits steps.
        ends: shape (sinks + 1,): slopes ends[k] to ends[k + 1] belong to the k-th sink.
        lengths: shape (ends[-1],): lengths of the intervals up to π_a(a), in nats.
    """

    def __init__(self, potentials: Potentials) -> None:
        subproblem = potentials.subproblem
        self.families, self.potentials = subproblem.families, potentials.potentials
        self.how = potentials.how
        unit = subproblem.best.scale.unit
        self.step_unit = unit * (1 << potentials.shift)
        self.temperature = potentials.temperature * subproblem.gap / self.families.n
        self.base = potentials.base * unit
        self.target = (subproblem.best.target + potentials.price) * unit
        tops = potentials.tops
        # All intervals have the same length, a power of two, so that a shift finds the interval of a value.
        self.bits = max(0, int(np.ceil(np.log2(max(1, tops.sum() / potentials.how.slopes)))))
        counts = (tops >> self.bits) + 1
        self.ends = np.concatenate(([0], np.cumsum(counts)))
        starts = np.arange(self.ends[-1]) - np.repeat(self.ends[:-1], counts) << self.bits
        self.lengths = np.minimum(np.repeat(tops, counts) - starts, 1 << self.bits) * self.step_unit

    def value(self, slopes: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Returns the smoothed bound and its gradient; slopes and gradient have shape (potentials,)."""
        from jtsolve.backends.clutter.kernels.log_sum_exp import smoothed_maxima
        from jtsolve.backends.clutter.kernels.potentials import add_stretched, covered, gathered

        families = self.families
        stretched = np.zeros(self.base.size)
        add_stretched(self.potentials, self.bits, self.ends, slopes, stretched)
        maxima, share = smoothed_maxima(
            self.base + stretched * self.step_unit,
            families.members,
            families.facets,
            families.sizes,
            families.allowed,
            families.n,
            self.temperature,
        )
        # ∂/∂slope_k of Σ_v smoothed maximum is Σ_A (inflow of A − outflow) · |[0, π(A)] ∩ interval k|; the
        # price Σ π_a(a) has the derivative `lengths`.
        cover = covered(self.potentials, self.bits, self.ends, gathered(share, families.facets))
        gradient = cover * self.step_unit - self.lengths
        return float(maxima.sum() - self.lengths @ slopes - self.target), gradient

    def minimum(self, report: Stoppable) -> NDArray[np.float64]:
        """Returns slopes of a low smoothed bound, shape (ends[-1],)."""
        from scipy.optimize import minimize

        def stop_early(_: NDArray[np.float64]) -> None:
            if report.stop is not None:
                raise StopIteration

        found = minimize(
            self.value,
            # Slope 1 everywhere is φ(z) = z: the search begins at the present potentials.
            np.ones(self.ends[-1]),
            method="L-BFGS-B",
            jac=True,
            bounds=[(0.0, inf)] * int(self.ends[-1]),
            callback=stop_early,
            options={"maxiter": self.how.iterations, "maxcor": self.how.memory, "ftol": 0.0},
        )
        slopes: NDArray[np.float64] = found.x
        return slopes


def _without_cuts(subproblem: Subproblem) -> int:
    """Returns the bound without cuts, in units."""
    cuts = np.zeros_like(subproblem.multipliers.cuts)
    return subproblem.evaluate(subproblem.multipliers._replace(cuts=cuts)).units


def _leaves_much(subproblem: Subproblem, units: int, top: int, share: float) -> bool:
    """Returns whether a bound leaves more than a share of the possible gain over the bound without cuts."""
    target = subproblem.best.target
    return units - target > share * (top - target)
