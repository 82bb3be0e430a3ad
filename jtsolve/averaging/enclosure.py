"""The interval of ln Z and of every edge, and the rounds that narrow it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import exp, expm1, inf, log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.averaging.items import frame_of, sum_exactly
from jtsolve.averaging.relaxed import UNIT, Forest, alone
from jtsolve.core.machine import resident_memory
from jtsolve.core.scores import StoppedError
from jtsolve.core.threads import Pool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.averaging.items import Items
    from jtsolve.averaging.multipliers import Start
    from jtsolve.averaging.relaxed import Bounds, Lattice
    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.families.families import Listing

_BUDGET = 0.02
"""Share of the tolerance that a round may lose."""
_STATES = 300_000
_ALONE, _TREES, _STATES_OF_TREES = (3e6, 10, 100), (1.5e5, 4, 30), (1.5e5, 1, 30)
"""Families, or slots of trees, times evaluations of a round of L-BFGS; and from and to how many these are.
The first round over trees has one evaluation: it drops most families. With thresholds, multipliers are good
already, and the trees many."""
_ENOUGH = 0.95
"""Share of the nats above the best tree that a round over vertices alone leaves, or it is the last."""
_ROUNDS = 16
"""Maximum number of rounds over trees."""
_LEAST_GAIN = 0.01
"""Nats that better multipliers gain for each evaluation of a round, or it is the last one."""
_BYTES_PER_ITEM = 160
"""With copies while arrays grow."""
_FIRST, _STEEPEST, _STEP = 1e-2, 3e-5, 0.3
"""The first threshold of items, as a share of the bound of Z; the next is between these shares of one."""
_SHARE, _POWER = 0.7, 1.35
"""The next threshold aims at this share of the mass that may be lost, and is less by this power of its ratio
to the mass that was."""
_LEAST_STATE = 0.1
"""States with less mass than this share of the threshold are left out."""
_SLACK = 2.0**-30
"""Relative error of sums of shares."""
_TOO_FAR = 200.0
"""Nats of the bound above the best tree beyond which no exact sum begins: weights may be beyond floats."""


@dataclass(slots=True)
class Enclosure:
    """What is proved so far, as multiples of e^(score of the best tree).

    Attributes:
        tree: the best one known.
        tolerance: the width of the widest edge at which to end.
        low: ln of a lower bound of Z.
        high: ln of an upper bound.
        pairs: shape (n, n): upper bounds of the mass of the graphs with each edge.
        items: the graphs that stay; None before the exact stage: then the best tree alone stays.
        forest: behind the items.
    """

    tree: JunctionTree
    tolerance: float
    low: float
    high: float = inf
    pairs: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    items: Items | None = None
    forest: Forest | None = None

    @property
    def budget(self) -> float:
        """The mass that a round may lose."""
        return _BUDGET * self.tolerance * exp(self.low)

    def bound(self, lattice: Lattice, bounds: Bounds) -> Lattice:
        """Records the bounds of a relaxed sum; returns the lattice without families of little mass."""
        n, listed = lattice.families.n, lattice.families.listing()
        self.high = min(self.high, _log_sum(bounds.log_total, lattice.lost))
        mass = _by_pair(lattice, listed, bounds.families)
        mass = (mass + mass.T)[:n, :n] * (1 + 2 * listed.vertex.size * UNIT) + lattice.lost
        self.pairs = np.minimum(self.pairs, mass) if self.pairs.size else mass
        return lattice.without(listed, bounds, self.budget)

    def sum(self, forest: Forest, items: Items, lost: float) -> None:
        """Records the sums over the graphs that stay, if they leave less than those before.

        Args:
            forest: of the sums.
            items: the sums over the graphs that stay.
            lost: mass of the states left out.
        """
        error = items.error
        self.high = min(self.high, _log_sum(items.log_sum + error, items.lost + lost))
        if items.log_sum - error > self.low:
            self.items, self.forest, self.low = items, forest, items.log_sum - error

    @property
    def kept(self) -> NDArray[np.float64]:
        """The shares of the graphs that stay with each edge, shape (n, n)."""
        n = self.tree.n
        padded = np.zeros((n + 1, n + 1))
        if self.items is None or self.forest is None:
            for u, v in self.tree.graph_edges:
                padded[u, v] = 1.0
        else:
            padded = _by_pair(self.forest.lattice, self.forest.listed, self.items.uses)
        kept = (padded + padded.T)[:n, :n]
        np.fill_diagonal(kept, 0.0)
        return kept

    def over_all_graphs(
        self, shares: NDArray[np.float64], most: float, rounded: float | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns bounds of means over all graphs from those over the graphs that stay.

        With the mass Z* of these, M of the averaged quantity and ℓ of the others, at most `most` per graph:
        M/(Z* + ℓ) and (M + ℓ·most)/(Z* + ℓ). Of differences of shares, `rounded` is the sum of these at most.

        Args:
            shares: means over the graphs that stay, of any shape.
            most: largest value for a graph.
            rounded: sum of the shares whose difference is bounded; None for the share itself.
        """
        kept = exp(min(0.0, self.low - self.high))
        slack = _SLACK + (0.0 if self.items is None else 4 * self.items.error)
        off = slack * (shares if rounded is None else np.full(shares.shape, rounded))
        return np.maximum(0.0, shares * kept - off), shares * kept + off + (1 - kept) * most

    def edges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the least and the largest probability of every edge, shape (n, n)."""
        low, high = self.over_all_graphs(self.kept, 1.0)
        if self.pairs.size:
            high = np.minimum(high, self.pairs * exp(-self.low) * (1 + _SLACK))
        np.fill_diagonal(high, 0.0)
        low = np.clip(low, 0.0, 1.0)
        return low, np.clip(np.maximum(low, high), 0.0, 1.0)

    @property
    def width(self) -> float:
        """The width of the widest interval of an edge."""
        low, high = self.edges()
        return float((high - low).max(initial=0.0))


def _log_sum(log_mass: float, lost: float) -> float:
    """Returns ln(e^log_mass + lost)."""
    return float(np.logaddexp(log_mass, log(lost))) if lost else log_mass


def _by_pair(lattice: Lattice, listed: Listing, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns for each vertex and member of its families the sum of their values; once for both orders."""
    order = lattice.families.n + 1
    sums = np.zeros(order**2)
    for column in lattice.families.members[listed.union].T:
        sums += np.bincount(listed.vertex.astype(np.int64) * order + column, values, order**2)
    return sums.reshape(order, order)


def enclose(start: Start, known: Enclosure, run: Run) -> None:
    """Narrows the enclosure until every edge is known to the tolerance, the limits end, or nothing helps.

    Args:
        start: the families and multipliers.
        known: the best tree alone; written.
        run: limits and progress.
    """
    with Pool(run.threads) as pool, suppress(StoppedError):
        _narrow(start, known, run, pool)


def _narrow(start: Start, known: Enclosure, run: Run, pool: Pool) -> None:
    lattice, last = start.lattice, inf
    for cuts in start.stages:  # a stage is for the families that those before it leave
        trial, bounds = alone(replace(lattice, cuts=cuts), run, 1, pool)
        if bounds.log_total > last:
            break
        lattice, last = known.bound(trial, bounds), bounds.log_total
        _proceed(run, known, lattice)
    while True:
        evaluations = _evaluations(_ALONE, int(lattice.families.allowed.sum()))
        lattice, bounds = alone(lattice, run, evaluations, pool)
        if not bounds.log_total < _ENOUGH * last - _LEAST_GAIN:
            break
        lattice, last = known.bound(lattice, bounds), bounds.log_total
        _proceed(run, known, lattice)
    lattice = known.bound(replace(lattice, rank=_rank(lattice, bounds)), bounds)
    for thresholds in (False, True):
        for turn in range(_ROUNDS):
            _proceed(run, known, lattice)
            forest = Forest(lattice, thresholds=thresholds, most=_STATES, room=run.memory - resident_memory())
            if forest.states.family.size == 0:
                return
            first = turn == 0 and not thresholds
            limits = _STATES_OF_TREES if thresholds else _TREES
            evaluations = 1 if first else _evaluations(limits, forest.states.first_child.size)
            lattice, bounds = forest.improve(run, evaluations, pool)
            lattice = known.bound(lattice, bounds)
            if not first and bounds.gain < _LEAST_GAIN * evaluations:
                break
    _proceed(run, known, lattice)
    forest = Forest(lattice, thresholds=True, most=_STATES, room=run.memory - resident_memory())
    if forest.states.family.size:
        _sum(forest, known, run, pool)


def _evaluations(limits: tuple[float, int, int], size: int) -> int:
    """Returns how many evaluations a round has: fewer while there is much to sum."""
    work, fewest, most = limits
    return int(min(max(work / size, fewest), most))


def _sum(forest: Forest, known: Enclosure, run: Run, pool: Pool) -> None:
    """Sums exactly, with lower and lower thresholds."""
    room = run.memory - resident_memory()
    most = int(room / 2 / _BYTES_PER_ITEM)
    marked = np.arange(forest.lattice.families.n)
    whole = forest.sums(forest.lattice.cuts, forest.lattice.heights, pool)
    if known.high > _TOO_FAR or whole is None:
        return
    threshold, last = _FIRST * exp(known.high), inf
    while known.width > known.tolerance:
        frame = frame_of(forest, whole, run, _LEAST_STATE * threshold, marked, room=room / 4, pool=pool)
        if frame is None:
            return
        marked = np.array(list(dict.fromkeys([*frame.best, *marked])))
        lost = forest.lattice.lost + frame.lost
        known.high = min(known.high, _log_sum(frame.log_total, lost))
        _proceed(run, known, forest.lattice)
        items = sum_exactly(forest, frame, run, threshold, most, pool=pool)
        if items is None:  # too many: next, between this threshold and the last one
            if last == inf or threshold > last / 4:
                return
            threshold = sqrt(threshold * last)
            continue
        known.sum(forest, items, lost)
        if items.lost + frame.lost < _BUDGET * known.budget:  # the width is of families, or of rounding
            return
        last = threshold
        wanted = _SHARE * known.tolerance * exp(known.low - known.high) / -expm1(known.low - known.high)
        threshold *= max(_STEEPEST, min(_STEP, wanted**_POWER))


def _rank(lattice: Lattice, bounds: Bounds) -> NDArray[np.int64]:
    """Returns ranks by which vertices that are often alone head few components.

    A component without the root is headed by its least vertex, and its states are copies of others.
    """
    families = lattice.families
    listed = families.listing()
    single = families.sizes[listed.union] == 1
    apart = np.bincount(listed.vertex, np.where(single, bounds.families, 0.0), families.n)
    apart[families.root] = -1.0
    rank = np.empty(families.n, np.int64)
    rank[np.argsort(apart, kind="stable")] = np.arange(families.n)
    rank[families.root] = -1
    return rank


def _proceed(run: Run, known: Enclosure, lattice: Lattice) -> None:
    """Shows the interval; ends the work at the limits."""
    count = int(lattice.families.allowed.sum())
    if not run.progress(note=f"ln Z within {known.high - known.low:.3g} nats, {count} families"):
        raise StoppedError
