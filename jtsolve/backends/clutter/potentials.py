"""Bounds of the clutter LP by the potentials of its sinks: block-coordinate ascent without a list of cuts.

A sink a is a set that is complete in every tree (`ascent`). Its cuts with their multipliers add up to a
*potential* π_a(A) = Σ λ_F [A ∈ F], which never falls from a set to a larger one, with π_a(∅) = 0. Any such
function is a sum of cuts of a: the multipliers of all possible cuts reduce to one number for each
sink and set, and

    D(π) = Σ_v max_P [t(P∪v) − t(P)] − Σ_a π_a(a),      t = s + Σ_a π_a.

Given the others, the best potential of one sink is known: let r(v,P) be the reduced costs that are left when
π_a is removed. Then π_a may grow along the arc from P to P∪v by r(v,P), and not along the free arcs to
subsets, so that π_a(a) is at most the length of the shortest path from ∅ to a. It is as long, with

    π_a(A) = min(d, distance from ∅ to A)   or   π_a(A) = d − min(d, distance from A to a),   d = π_a(a),

where the first has its cuts near ∅, the second near the sink. Of the first, what no shortest path needs is
given back. In turns, all sinks, in random order, move their cuts to the one end and to the other: what an end
has to spare is found there by others. In a fixed order, or with the ends mixed, hardly anything is gained.

Where that gains little, all potentials are stretched at once, π_a ← φ_a(π_a) with piecewise linear φ_a: the
slopes on some thousand intervals minimise the smoothed bound, in which each maximum is replaced by

    τ ln Σ_P exp((t(P∪v) − t(P)) / τ),      at least the maximum, and at most τ ln |families of v| above it.

The bound itself is worse afterwards, but better after some rounds; where it is not, the temperature τ > 0 was
too high, and falls.

On dense data at treewidth 3, neither steps nor the simplex method gain after dual ascent. By potentials, of
69 variables of plants they close more than half of the gap in two minutes (docs/benchmarks.md).
At treewidth 2, the steps (`volume`) are better. Potentials are no list of cuts: they fix families and give
bounds, but no certificate. In the end, levels of theirs, which are cuts, become the rows of the subproblem,
for the simplex method to begin with; and turns go on from the multipliers of each of its solutions.

References: Werner, Průša and Dlask, Relative interior rule in block-coordinate descent, CVPR 2020 (why a
minimum inside the face of minima is the best one). Kolmogorov, Convergent tree-reweighted message passing
for energy minimization, IEEE TPAMI 2006 (turns in two directions). Nesterov, Smooth minimization of
non-smooth functions, Mathematical Programming 2005 (stretching). Ours: the blocks are the sinks of a directed
cut relaxation over a lattice of sets; the turns between the two ends; the stretching; the levels as rows. All
bounds are in exact integers.

Time: 10 to 20 passes over the families per sink. Memory: 4 bytes for each sink and set, and
as much again while families are dropped.
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
    """Members of the largest sets, and share of the possible gain of cuts left by the ascent, from which on
    potentials replace steps. On plants at treewidth 3 it leaves 7 %, on 25 of its variables 2.8 %, and at
    treewidth 2 0.5 %. On insurance at treewidth 4, where nothing is left but a better tree to be found, steps
    with their rounding ended in 2 s, and turns in 7 s."""
    most_sinks: int = 250
    """The memory of more sinks is not in the prediction of `clutter`."""
    little: float = 0.02
    """Share of the gap that a round of turns has to gain, or potentials are stretched."""
    levels: int = 1000
    """Cuts that potentials are handed over as to the simplex method."""
    rounds: int = 2
    """After each stretching, at least."""
    slopes: int = 5000
    iterations: int = 30
    memory: int = 20
    """Iterations of the quasi-Newton method, and the pairs in its memory."""
    temperature: float = 0.3
    """For each vertex at first, as a share of the gap."""
    cooling: float = 0.7
    coldest: float = 0.1
    """Its factor where the gap has hardly fallen from one stretching to the next, and the least."""
    fruitless: int = 16
    least_progress: float = 0.02
    """It ends when the gap has fallen by a smaller share from one stretching to the next so many times in a
    row. With eight, it ended at 82 nats on 34 variables of plants, where the LP was still 1,004 behind."""


POTENTIALS = PotentialsConstants()
_BITS = 26
"""Resolution of potentials: bits of the distance between the bound without cuts and the best tree."""
_ROUND = (True, False, False)
"""Whether a turn moves cuts towards ∅. The second of those towards the sinks gains most: of three seeds on 34
variables of plants at treewidth 3, rounds with two of them had 383 nats left after 4 s, and with one 428."""
_SEED = 1


class Potentials:
    """The potentials of one subproblem, from multipliers of cuts; the best bound is the subproblem's.

    Attributes:
        turns: number done.
        gap: of the present potentials, in nats.
        temperature: of the next stretching, as in `POTENTIALS`.
        position: positions of the initial sets, -1 for dropped ones; None if none is dropped.
    """

    def __init__(
        self, subproblem: Subproblem, multipliers: RowVector | None = None, rows: CutRows | None = None
    ) -> None:
        self.subproblem = subproblem
        self.random = np.random.default_rng(_SEED)
        self.turns = self.stretched = 0
        self.temperature = POTENTIALS.temperature
        rows, multipliers = rows or subproblem.rows, multipliers or subproblem.multipliers
        units = RowVector(*map(subproblem.best.scale.units_of, multipliers))
        self.base, self.price = rows.weighted(
            subproblem.scores, units._replace(cuts=np.zeros_like(units.cuts))
        )
        self.start = subproblem.units
        # `base` is s and the set rows with their multipliers, which stay; the bound without any cut sets the
        # scale of a step: potentials are int32 of at most 2^28 steps.
        self.top = best_bound(subproblem.families, self.base, self.price).units
        self.shift = max(0, (self.top - subproblem.best.target).bit_length() - _BITS)
        self.potentials = self._from_cuts(rows, units.cuts)
        self._arrange()
        self.position: NDArray[np.int64] | None = None
        self._evaluate_and_fix()

    @staticmethod
    def may_pay_off(subproblem: Subproblem) -> bool:
        """Returns whether to use them if the ascent leaves a large gap: no certificate, and large cliques."""
        return (
            subproblem.stages is None
            and subproblem.best.tree is not None
            and subproblem.families.width >= POTENTIALS.least_width
            and len(subproblem.sinks) <= POTENTIALS.most_sinks
        )

    @staticmethod
    def pay_off(subproblem: Subproblem) -> bool:
        """Returns whether to use them, after the ascent."""
        return Potentials.may_pay_off(subproblem) and _leaves_much(
            subproblem, subproblem.units, _without_cuts(subproblem)
        )

    @property
    def still_pay_off(self) -> bool:
        """Whether they would still be used if the best tree had been known after the ascent."""
        return _leaves_much(self.subproblem, self.start, self.top)

    def run(
        self,
        enough: int,
        on_point: Callable[[Point, Bound], bool],
        report: Stoppable,
    ) -> bool:
        """Takes turns until the bound stalls or meets the best tree, or few families are left.

        Args:
            enough: how many families are few.
            on_point: is called with the families of the maxima and the bound after each round of turns;
                answers whether to continue.
            report: polled all the time.

        Returns:
            False if it was interrupted; a later call resumes.
        """
        subproblem = self.subproblem
        before, fruitless, since = subproblem.gap, 0, POTENTIALS.rounds
        while not subproblem.closed and int(subproblem.families.allowed.sum()) > enough:
            if not self.still_pay_off:  # a better tree has come, which was all that was missing
                return True
            gap = self.gap
            if not self._do_round(report):
                return subproblem.closed
            if not on_point(self.point, self.bound):
                return False
            # Turns go on while they gain; a stretching costs as much as several rounds, and comes when they
            # stall.
            since += 1
            if subproblem.closed or since < POTENTIALS.rounds or self.gap < (1 - POTENTIALS.little) * gap:
                continue
            fell = before - subproblem.gap >= POTENTIALS.least_progress * before
            before = subproblem.gap
            # A stretching that did not pay lowers the temperature; so many of them in a row end the turns.
            if fell or self.stretched == 0:
                fruitless = 0
            else:
                fruitless += 1
                self.temperature = max(POTENTIALS.coldest, POTENTIALS.cooling * self.temperature)
            if fruitless == POTENTIALS.fruitless:
                return True
            self._stretch(report)
            since = 0
            if report.stop is not None:
                return subproblem.closed
        return True

    def polish(self, report: Stoppable) -> None:
        """Takes turns while rounds of them gain."""
        gap = inf
        while not self.subproblem.closed and self.gap < (1 - POTENTIALS.little) * gap:
            gap = self.gap
            if not self._do_round(report):
                return

    def hand_over(self) -> None:
        """Makes cuts of the potentials, at even distances, the rows of the subproblem."""
        subproblem, cuts = self.subproblem, self._cuts(POTENTIALS.levels)
        multipliers = subproblem.multipliers._replace(cuts=np.array(list(cuts.values())))
        subproblem.set_multipliers(
            multipliers, CutRows(subproblem.families, list(cuts), subproblem.rows.set_rows)
        )

    def _do_round(self, report: Stoppable) -> bool:
        """Does a round of turns; returns False if it was interrupted."""
        finished = all(self._turn(report, from_empty=kind) for kind in _ROUND)
        self._evaluate_and_fix()
        return finished

    def _cuts(self, most: int) -> dict[Clutter, float]:
        """Returns cuts whose sum is near the potentials, some `most` in number, and their multipliers."""
        families, step_unit = self.subproblem.families, self.subproblem.best.scale.unit * (1 << self.shift)
        # Each sink has levels in proportion to its potential at the sink, some `most` in all.
        tops = self.tops
        counts = -(-tops * most // max(1, tops.sum()))
        inside = np.arange(families.width) < families.sizes[:, None]
        found: dict[Clutter, float] = {}
        for potential, top, count in zip(self.potentials, tops.tolist(), counts.tolist(), strict=True):
            # π(A) > level ≥ max π(facets): A is a minimal set of the up-set {π > level}.
            below = np.where(inside, potential[families.facets], 0).max(axis=1)
            levels = -(-top * np.arange(1, count + 1) // max(1, count))
            # A set generates the up-sets of the levels between the potentials of its facets and its own.
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
    def point(self) -> Point:
        """The families that attain the maxima of the present bound."""
        return Point(
            self.bound.union.astype(np.int64),
            self.bound.slot.astype(np.int64),
            np.ones(self.bound.union.size),
        )

    @property
    def _sinks(self) -> list[int]:
        """The positions of the sinks; not the root, whose family costs nothing."""
        families = self.subproblem.families
        return [
            at
            for at in self.subproblem.sinks
            if not (families.sizes[at] == 1 and families.members[at, 0] == families.root)
        ]

    def _from_cuts(self, rows: CutRows, units: NDArray[np.int64]) -> NDArray[np.int32]:
        """Returns the potentials that cuts and their multipliers add up to, shape (sinks, sets)."""
        from jtsolve.backends.clutter.kernels.potentials import LARGEST, add_cuts

        sinks, amounts = self._sinks, units >> self.shift
        number = {at: k for k, at in enumerate(sinks)}
        of_sink = np.array(
            [next((number[at] for at in clutter if at in number), -1) for clutter in rows.clutters],
            dtype=np.int64,
        )
        total = int(np.bincount(of_sink + 1, amounts, len(sinks) + 1).max())
        # Multipliers scaled down are still ≥ 0, and give a bound; turns soon make up for the loss.
        if total > LARGEST:  # any multipliers are valid
            amounts = np.floor(amounts * (LARGEST / total)).astype(np.int64)
        potentials = np.zeros((len(sinks), self.base.size), dtype=np.int32)
        if rows.clutters:
            for k, words in enumerate(rows.words):
                add_cuts(words, 64 * k, amounts, of_sink, potentials)
        return potentials

    def _arrange(self) -> None:
        """Sets the runs of the lattice and, for each sink, the sets that contain it, itself first."""
        from jtsolve.backends.clutter.kernels.potentials import runs_of

        families = self.subproblem.families
        self.runs = runs_of(families.facets, families.sizes)
        # The sets of each vertex, in increasing order, by one stable sort of all members.
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
        """Sets the bound of the potentials, and the arrays of the families.

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
                raise InternalError("a potential falls from a set to a larger one: its bound would not hold")
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

    def _turn(self, report: Stoppable, *, from_empty: bool) -> bool:
        """Renews all potentials in random order; returns False if it was interrupted."""
        from jtsolve.backends.clutter.kernels.potentials import exchange, renew

        families = self.subproblem.families
        runs = self.runs
        room = (np.empty_like(self.reduced), np.empty(families.sizes.size, dtype=np.int32))
        # Invariant: `reduced` has the reduced costs after all potentials except that of the current sink.
        # Taking the last one's share and giving back the next one's is one pass.
        last = nothing = np.zeros_like(self.potentials[0])
        goes_on = True
        for k in self.random.permutation(len(self.inside)):
            goes_on = report.stop is None
            if not goes_on:
                break
            exchange(self.reduced, last, self.potentials[k], runs)
            renew(self.reduced, self.potentials[k], self.inside[k], from_empty, runs, room)
            last = self.potentials[k]
        exchange(self.reduced, last, nothing, runs)
        self.turns += 1
        return goes_on

    def _stretch(self, report: Stoppable) -> None:
        """Stretches the potentials to a lower smoothed bound, for the next turns to begin there."""
        from jtsolve.backends.clutter.kernels.potentials import stretch

        stretching = Stretching(self)
        slopes = stretching.minimum(report)
        self.stretched += 1
        for k, potential in enumerate(self.potentials):
            stretch(potential, stretching.bits, slopes[stretching.ends[k] : stretching.ends[k + 1]])
        self._evaluate_and_fix()


class Stretching:
    """The smoothed bound as a function of the slopes of all φ_a, less the best tree's score, in nats.

    Attributes:
        bits: intervals are 2^bits steps long.
        ends: shape (sinks + 1,): slopes ends[k] to ends[k + 1] are those of the k-th sink.
        lengths: shape (ends[-1],): of the intervals up to π_a(a), in nats.
    """

    def __init__(self, potentials: Potentials) -> None:
        subproblem = potentials.subproblem
        self.families, self.potentials = subproblem.families, potentials.potentials
        unit = subproblem.best.scale.unit
        self.step_unit = unit * (1 << potentials.shift)
        self.temperature = potentials.temperature * subproblem.gap / self.families.n
        self.base = potentials.base * unit
        self.target = (subproblem.best.target + potentials.price) * unit
        tops = potentials.tops
        # Intervals of equal length for all sinks, a power of two so that a shift finds the interval of a
        # value.
        self.bits = max(0, int(np.ceil(np.log2(max(1, tops.sum() / POTENTIALS.slopes)))))
        counts = (tops >> self.bits) + 1
        self.ends = np.concatenate(([0], np.cumsum(counts)))
        starts = np.arange(self.ends[-1]) - np.repeat(self.ends[:-1], counts) << self.bits
        self.lengths = np.minimum(np.repeat(tops, counts) - starts, 1 << self.bits) * self.step_unit

    def value(self, slopes: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Returns the smoothed bound and its gradient; slopes and gradient have shape (potentials,)."""
        from jtsolve.backends.clutter.kernels.potentials import add_stretched, covered, gathered
        from jtsolve.backends.clutter.kernels.smoothing import smoothed_maxima

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
        # ∂/∂slope_k of Σ_v smoothed maximum is Σ_A (inflow of A − outflow) · |[0, π(A)] ∩
        # interval k|; the price Σ π_a(a) has the derivative `lengths`.
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
            options={"maxiter": POTENTIALS.iterations, "maxcor": POTENTIALS.memory, "ftol": 0.0},
        )
        slopes: NDArray[np.float64] = found.x
        return slopes


def _without_cuts(subproblem: Subproblem) -> int:
    """Returns the bound without cuts, in units."""
    cuts = np.zeros_like(subproblem.multipliers.cuts)
    return subproblem.evaluate(subproblem.multipliers._replace(cuts=cuts)).units


def _leaves_much(subproblem: Subproblem, units: int, top: int) -> bool:
    """Returns whether a bound leaves much of the largest possible gain over the bound without cuts."""
    target = subproblem.best.target
    return units - target > POTENTIALS.least_gap * (top - target)
