"""The exact stage of the certified sums."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf, log
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.averaging.relaxed import UNIT, Sweep, rounding
from jtsolve.core.scores import StoppedError
from jtsolve.core.varset import members

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.averaging.relaxed import Forest, TreeSums
    from jtsolve.core.run import Run
    from jtsolve.core.threads import Pool

_LOOSE = 1e-3
_WORK, _FEWEST = 1e9, 4
"""Slots times n² times pairs of marked vertices, some seconds, and pairs that are marked in any case."""
_SUMMED = 2.0**-20
"""Relative error of a sum of fewer than 2^32 numbers."""
_PARTS = 16
"""Of the states, for threads."""
_LEAST = 2.0**-250
"""What products that underflow lose of all masses at most, with the range of `relaxed`."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """States at fixed multipliers, those of little mass left out.

    Attributes:
        states: `kernels.states.States`.
        weights: shape (m,): under the multipliers.
        log_total: ln of the bound of all graphs that are left.
        lost: the mass of those dropped with states.
        outsides: `kernels.items.Outsides`, in multiples of the reference.
        best: shape (m,): the marked vertices, by decreasing use.
        error: relative, of the weights and all sums.
    """

    states: Any
    weights: NDArray[np.float64]
    log_total: float
    lost: float
    outsides: Any
    best: NDArray[np.int64]
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Sums over the graphs that stay, as multiples of e^reference.

    Attributes:
        states: `kernels.states.States`.
        log_sum: ln of the exact sum.
        lost: the other graphs weigh at most this.
        count: the number of items.
        uses: shape (families,): the share of the graphs whose tree has the family.
        bare: shape (families,): and whose S∪u is a maximal clique then.
        connected: the share of connected ones.
        error: relative, of the sum and of the shares.
        items, blocks, ends: for draws.
    """

    states: Any
    log_sum: float
    lost: float
    count: int
    uses: NDArray[np.float64]
    bare: NDArray[np.float64]
    connected: float
    error: float
    items: Any
    blocks: Any
    ends: Any


def frame_of(
    forest: Forest,
    whole: TreeSums,
    run: Run,
    least: float,
    marked: NDArray[np.int64],
    *,
    room: float = inf,
    pool: Pool | None = None,
) -> Frame | None:
    """Returns the states whose trees may have at least `least` mass, and the outsides of all.

    None if the sums are beyond the range of floats.

    Args:
        forest: with thresholds, its lattice with the multipliers.
        whole: its sums with these.
        run: ends it early.
        least: in multiples of the reference.
        marked: shape (n,): the outsides are of sums in which both vertices of a pair are introduced exactly
            once; of as many pairs as there is time for, from the first on.
        room: bytes for these; with less, the outsides are of sums without that condition.
        pool: threads that share the work.

    Raises:
        StoppedError: the run has to stop.
    """
    from jtsolve.averaging.kernels.items import Outsides

    lattice = forest.lattice
    n, lost = lattice.families.n, 0.0
    found: TreeSums | None = whole
    for _ in range(2):
        if found is None:
            return None
        mass = found.mass * exp(found.offset + found.error) + _LEAST
        kept = mass >= least
        kept[0] = True
        if kept.all():
            break
        lost += float(mass[~kept].sum()) * (1 + mass.size * UNIT)
        forest = forest.restricted_to(kept)
        found = forest.sums(lattice.cuts, lattice.heights, pool)
    if found is None:
        return None
    scale = exp(found.offset + found.error)
    states, weights, total = forest.states, found.weights, found.total
    slots = states.first_child.size - 1
    # Of a single vertex, the pair is the vertex; the last pair of an odd number overlaps the one before it.
    pairs = np.array([marked[max(0, min(at, n - 2)) :][:2] for at in range(0, n, 2)])
    pairs = pairs[: max(_FEWEST, int(_WORK / (slots * n * n + 1)))]
    if 32 * (len(pairs) + 4 * run.threads) * (n + 1) * (states.family.size + slots) > room:
        pairs = np.zeros((1, 0), np.int64)
    marks = 1 << pairs.shape[1]
    tops = np.empty((len(pairs), marks, n + 1, states.family.size))
    products = np.zeros((len(pairs), slots, marks, n + 1))

    def sweep(place: int) -> float:
        _require_time(run)
        once = Sweep(n, states, weights, pairs[place])
        np.multiply(once.adjoints(products[place]), scale, out=tops[place])
        products[place] *= scale
        return once.total

    once = np.array(list((pool.map if pool else map)(sweep, range(len(pairs)))))
    log_total = log(min(total, once.min()) * exp(found.offset) + lost) + found.error
    outsides = Outsides(pairs, tops, products)
    return Frame(states, weights, log_total, lost, outsides, pairs[np.argsort(once)].ravel(), found.error)


def sum_exactly(
    forest: Forest,
    frame: Frame,
    run: Run,
    threshold: float,
    most: int,
    *,
    pool: Pool | None = None,
) -> Items | None:
    """Returns the sums over sets, without items of less mass; None if they are more than `most`.

    Args:
        forest: of the sums.
        frame: its states and outsides.
        run: ends the work.
        threshold: mass below which an item is left out.
        most: largest number of items.
        pool: threads that share the states.

    Raises:
        StoppedError: the run has to stop.
    """
    from jtsolve.averaging.kernels.items import Blocks, extend, spread_shares, start

    lattice, states = forest.lattice, frame.states
    families, listed = lattice.families, forest.listed
    n, m, slots = families.n, states.family.size, states.first_child.size - 1
    masks = np.array(families.masks(), dtype=np.int64)
    within = masks[listed.parents][states.family]
    logs = listed.weight[states.family]
    required = np.zeros(n, np.int64)
    for edge in families.constraints.required_edges:
        for v in members(edge):
            required[v] |= edge ^ 1 << v
    empty = [np.zeros((size, n + 1, 2), np.int64) for size in (m, slots, slots)]
    blocks = Blocks(empty[0], empty[1], empty[2], np.zeros(slots, np.bool_), np.zeros((slots, n + 1)))
    items, used, lost, longest = start(1 << 12), 1, 0.0, 0
    # The states of one k are independent; parts of them are fixed, so that sums do not depend on the threads.
    each: Callable[..., Any] = pool.map if pool else map
    ranges: list[list[tuple[int, int]]] = []
    begins: list[int] = []

    def extended(number: int) -> Any:
        _require_time(run)
        return extend(
            k, *ranges[k][number], states, frame.weights, logs, within, required, frame.outsides, threshold,
            _LOOSE, most - used, counts, number, items, blocks,
        )  # fmt: skip

    def spread_of(of: tuple[int, int]) -> Any:
        _require_time(run)
        given = np.zeros(begins[k] - begins[k - 1])
        spread_shares(k, *of, states, items, blocks, share, begins[k - 1], given)
        return given

    for k in range(n):
        begins.append(used)
        work = np.append(0, np.cumsum(blocks.P[:, k - 1, 1] - blocks.P[:, k - 1, 0] + 1))[states.first_slot]
        cuts = np.searchsorted(work, work[-1] * np.arange(1, _PARTS) / _PARTS)
        ranges.append(list(pairwise([0, *cuts.tolist(), m + 1])))
        counts = np.zeros(_PARTS, np.int64)
        for (low, high), (own, count, more, terms) in zip(
            ranges[k], list(each(extended, range(_PARTS))), strict=True
        ):
            if more == inf or used + count > most:
                return None
            items = _appended(items, used, own, count)
            blocks.T[low:high, k + 1] += used
            for of_slots in (blocks.H, blocks.P) if k > 0 else ():
                of_slots[states.first_slot[low] : states.first_slot[high], k] += used
            used += count
            lost += more
            longest = max(longest, terms)
    # Logarithms are at most n weights, and each introduction rounds them at every slot.
    steps = n * (int(np.diff(states.first_slot).max()) + 4)
    error = frame.error + rounding(states, n, longest)
    error += 2 * steps * n * float(np.abs(logs).max()) * UNIT
    lost = lost * (1 + _SUMMED + error) + _LEAST
    found = _ends(n, states, items, blocks)
    if (top := float(found[2].max(initial=-inf))) == -inf:
        nothing = np.zeros(listed.vertex.size)
        return Items(states, -inf, lost, used, nothing, nothing, 0.0, 0.0, items, blocks, found)
    parts = np.exp(found[2] - top)
    log_sum = top + log(parts.sum())
    error += (parts.size + abs(top)) * UNIT
    share = np.zeros(used)
    np.add.at(share, found[0], np.exp(found[2] - log_sum))
    np.add.at(share, found[1], np.exp(found[2] - log_sum) * (found[1] > 0))
    connected = float(np.exp(found[2][found[1] == 0] - log_sum).sum())
    for k in range(n - 1, 0, -1):
        share[begins[k - 1] : begins[k]] += np.sum(list(each(spread_of, ranges[k])), axis=0)
    uses, bare = (
        _by_family(values, states.family, blocks.T, listed.vertex.size)
        for values in (share, share * items.bare[:used])
    )
    return Items(
        states, log_sum + lattice.offset, lost, used, uses, bare, connected, error, items, blocks, found
    )


def _appended(items: Any, used: int, own: Any, count: int) -> Any:
    """Returns the `kernels.items.Items` with the first `count` items of `own` behind those used."""
    if used + count > items.mask.size:
        items = items._make(np.resize(values, 2 * (used + count)) for values in items)
    for values, more in zip(items, own, strict=True):
        values[used : used + count] = more[:count]
    return items


def _ends(
    n: int, states: Any, items: Any, blocks: Any
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float64]]:
    """Returns the pairs of items, of the root's component and the rest, that make graphs; and ln of each."""
    ends = [np.zeros((2, 0), np.int64)]
    past, alone = states.first_slot[-1], states.first_slot[-1] == states.first_slot[-2]
    for k in range(1, n + 1):
        heads = np.arange(*blocks.T[0, k])
        a, b = (0, 1) if k == n else (0, 0) if alone else blocks.P[past - 1, n - k]
        # The sets of the two items partition the vertices, and each occurs once.
        rest = ((1 << n) - 1) ^ items.mask[heads]
        _, first, second = np.intersect1d(rest, items.mask[a:b], assume_unique=True, return_indices=True)
        order = np.argsort(first)
        ends.append(np.stack([heads[first], a + second])[:, order])
    root, others = np.concatenate(ends, axis=1)
    return root, others, items.log[root] + items.log[others]


def draw_neighbours(forest: Forest, items: Items, count: int, seed: int) -> list[tuple[int, ...]]:
    """Returns the neighbours, as masks, of graphs drawn from those that stay, in proportion to e^score.

    Args:
        forest: of the sums.
        items: the graphs that stay.
        count: number of graphs.
        seed: of the draws.
    """
    from jtsolve.averaging.kernels.items import draw_labelled

    n, states = forest.lattice.families.n, items.states
    masks = np.array(forest.lattice.families.masks(), dtype=np.int64)
    cumulative = np.cumsum(np.exp(items.ends[2] - items.ends[2].max()))
    state = np.random.default_rng(seed).integers(1, 1 << 63, 1, dtype=np.uint64)
    within = masks[forest.listed.parents][states.family]
    found = draw_labelled(
        count, state, n, states, within, items.items, items.blocks, items.ends[:2], cumulative
    )
    graphs = []
    for parents in found.tolist():
        neighbours = list(parents)
        for u, mask in enumerate(parents):
            for v in members(mask):
                neighbours[v] |= 1 << u
        graphs.append(tuple(neighbours))
    return graphs


def _by_family(
    values: NDArray[np.float64], family: NDArray[np.integer], blocks: NDArray[np.int64], families: int
) -> NDArray[np.float64]:
    """Returns for each family the sum of the values of its items, in blocks of shape (states, n + 1, 2)."""
    kept = blocks[..., 0] < blocks[..., 1]
    order = np.argsort(blocks[kept][:, 0])  # so that `reduceat` reads each item once
    family = family[np.nonzero(kept)[0][order]]
    sums = np.add.reduceat(np.append(values, 0.0), blocks[kept][order].ravel())[::2]
    return np.bincount(family, sums, families).astype(float)


def _require_time(run: Run) -> None:
    if run.stop is not None:
        raise StoppedError
