"""The exact stage of the certified sums."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import exp, inf, log
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.averaging.relaxed import UNIT, rounding
from jtsolve.core.scores import StoppedError
from jtsolve.core.varset import members

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.averaging.relaxed import Forest
    from jtsolve.core.run import Run

_LOOSE = 1e-3
_WORK, _FEWEST = 2e9, 8
"""Slots times n² times marked vertices, some seconds, and vertices that are marked in any case."""
_SUMMED = 2.0**-20
"""Relative error of a sum of fewer than 2^32 numbers."""
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
        best: the marked vertices, by decreasing use.
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
    forest: Forest, run: Run, least: float, marked: NDArray[np.int64], room: float = inf
) -> Frame | None:
    """Returns the states whose trees may have at least `least` mass, and the outsides of all.

    None if the sums are beyond the range of floats.

    Args:
        forest: with thresholds, its lattice with the multipliers.
        run: ends it early.
        least: in multiples of the reference.
        marked: shape (m,), the outsides are of sums in which one of these vertices is introduced exactly
            once; of as many as there is time for, from the first on.
        room: bytes for these; with less, the outsides are of sums without that condition.

    Raises:
        StoppedError: the run has to stop.
    """
    from jtsolve.averaging.kernels.items import Outsides
    from jtsolve.averaging.kernels.relaxed import inside, outside

    lattice = forest.lattice
    n, lost = lattice.families.n, 0.0
    found = forest.sums(lattice.cuts, lattice.heights)
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
        found = forest.sums(lattice.cuts, lattice.heights)
    if found is None:
        return None
    scale = exp(found.offset + found.error)
    states, weights, total = forest.states, found.weights, found.total
    slots = states.first_child.size - 1
    marked = marked[: max(_FEWEST, int(_WORK / (slots * n * n + 1)))]
    if 16 * (marked.size + 4 * run.threads) * (n + 1) * (states.family.size + slots) > room:
        marked = np.array([-1])
    marks = 1 + (marked[0] >= 0)
    tops = np.empty((marked.size, marks, n + 1, states.family.size))
    products = np.empty((marked.size, slots, marks, n + 1))

    def sweep(place: int) -> float:
        if run.stop is not None:
            raise StoppedError
        x = int(marked[place])
        whole, sums, rest = inside(n, states, weights, x)
        adjoints = outside(n, states, weights, x, sums, rest)
        for target, adjoint in zip((tops, products), adjoints, strict=True):
            np.multiply(adjoint, scale, out=target[place])
        return float(whole)

    with ThreadPoolExecutor(run.threads) as pool:
        once = np.array(list(pool.map(sweep, range(marked.size))))
    log_total = log(min(total, once.min()) * exp(found.offset) + lost) + found.error
    outsides = Outsides(marked, tops, products)
    return Frame(states, weights, log_total, lost, outsides, marked[np.argsort(once)], found.error)


def sum_exactly(forest: Forest, frame: Frame, run: Run, threshold: float, most: int) -> Items | None:
    """Returns the sums over sets, without items of less mass; None if they are more than `most`.

    Args:
        forest: of the sums.
        frame: its states and outsides.
        run: ends the work.
        threshold: mass below which an item is left out.
        most: largest number of items.

    Raises:
        StoppedError: the run has to stop.
    """
    from jtsolve.averaging.kernels.items import Blocks, ends, extend, spread_shares, start

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
    for k in range(n):
        if run.stop is not None:
            raise StoppedError
        items, used, more, terms = extend(
            k, states, frame.weights, logs, within, required, frame.outsides, threshold, _LOOSE, most,
            items, used, blocks,
        )  # fmt: skip
        if more == inf:
            return None
        lost += more
        longest = max(longest, terms)
    # Logarithms are at most n weights, and each introduction rounds them at every slot.
    steps = n * (int(np.diff(states.first_slot).max()) + 4)
    error = frame.error + rounding(states, n, longest)
    error += 2 * steps * n * float(np.abs(logs).max()) * UNIT
    lost = lost * (1 + _SUMMED + error) + _LEAST
    found = ends(n, states, items, blocks)
    top = float(found[2].max(initial=-inf))
    if top == -inf:
        nothing = np.zeros(listed.vertex.size)
        return Items(states, -inf, lost, used, nothing, nothing, 0.0, 0.0, items, blocks, found)
    parts = np.exp(found[2] - top)
    log_sum = top + log(parts.sum())
    error += (parts.size + abs(top)) * UNIT
    share = np.zeros(used)
    np.add.at(share, found[0], np.exp(found[2] - log_sum))
    np.add.at(share, found[1], np.exp(found[2] - log_sum) * (found[1] > 0))
    connected = float(np.exp(found[2][found[1] == 0] - log_sum).sum())
    spread_shares(n, states, items, blocks, share)
    uses, bare = np.zeros((2, m))
    for i in range(m):
        for first, past in blocks.T[i]:
            uses[i] += share[first:past].sum()
            bare[i] += share[first:past] @ items.bare[first:past]
    uses = np.bincount(states.family, uses, listed.vertex.size).astype(np.float64)
    bare = np.bincount(states.family, bare, listed.vertex.size).astype(np.float64)
    return Items(
        states, log_sum + lattice.offset, lost, used, uses, bare, connected, error, items, blocks, found
    )


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
