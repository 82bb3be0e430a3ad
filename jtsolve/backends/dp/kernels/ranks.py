"""Builds the rank tables of `layers.Ranks`: plain numpy, a few passes over the sets."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.dp.kernels.layers import PIECE, Ranks
from jtsolve.backends.dp.kernels.partition import LANES
from jtsolve.core.varset import count_bounded_subsets

if TYPE_CHECKING:
    from numpy.typing import NDArray


def rank_tables(m: int, width: int, block: int) -> Ranks:
    """Returns the `Ranks` of the sets of at most `width` of m variables."""
    everything = np.arange(1 << m, dtype=np.int64)
    sizes = np.bitwise_count(everything)
    masks = np.concatenate([everything[sizes == size] for size in range(min(width, m) + 1)])
    first = np.array(
        [[count_bounded_subsets(k, s - 1) for s in range(width + 2)] for k in range(m + 1)], dtype=np.int64
    )
    position = np.full(1 << m, -1, np.int32)
    position[masks] = np.arange(masks.size)

    def rank(sets: NDArray[np.int64]) -> NDArray[np.int64]:
        ranks: NDArray[np.int64] = position[sets] - first[m, np.bitwise_count(sets)]
        return ranks

    top = np.zeros(masks.size, np.int8)
    for v in range(m):
        top[masks >> v > 0] = v
    parent = np.zeros(masks.size, np.int32)
    parent[1:] = rank(masks[1:] ^ np.int64(1) << top[1:].astype(np.int64))

    smaller = masks[: first[m, width]]
    roomy = smaller < 1 << max(m - 1, 0)  # the sets of m - 1 variables
    insert = np.zeros((m, smaller.size), np.int32)
    for place in range(m):
        below = smaller[roomy] & ((1 << place) - 1)
        insert[place, roomy] = rank(below | 1 << place | (smaller[roomy] ^ below) << 1)

    remove = np.zeros((masks.size, max(1, min(width, m))), np.int32)
    for v in range(m):
        holds = np.flatnonzero(masks >> v & 1)
        nth = np.bitwise_count(masks[holds] & ((1 << v) - 1))
        remove[holds, nth] = rank(masks[holds] ^ (1 << v))

    return Ranks(width, block, first, masks, position, parent, top, insert, remove, *_squeeze())


@cache
def _squeeze() -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Returns the look-ups of `layers.rename`."""
    names = np.arange(1 << PIECE)
    squeeze = np.zeros((1 << PIECE, 1 << PIECE), np.int32)
    place = np.zeros(1 << PIECE, np.int32)  # for each y: how many of its members came before
    for v in range(PIECE):
        inside = names >> v & 1
        squeeze |= (inside[:, None] & inside[None, :]) << place[None, :]
        place += inside
    return squeeze, place.astype(np.int64)


def table_offsets(ranks: Ranks, classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns where the table of g(C,·) begins, shape (2, K); -1 for a C that has none.

    Args:
        ranks: see `layers.Ranks`.
        classes: shape (count, 6): the first and the last ρ, members in the block, members outside it, number
            of elements, base; the tables of a class are in the order of ρ and of the positions of their sets.
    """
    offset = np.full((2, ranks.masks.size), -1, np.int64)
    inner = np.bitwise_count(ranks.masks & ((1 << ranks.block) - 1))
    outer = np.bitwise_count(ranks.masks >> ranks.block)
    for first_root, last_root, inner_size, outer_size, elements, base in classes:
        own = np.flatnonzero((inner == inner_size) & (outer == outer_size))
        for root in range(first_root, last_root + 1):
            nth = np.arange(own.size) + (root - first_root) * own.size
            offset[root, own] = base + (nth // LANES) * (LANES << elements) + nth % LANES
    return offset
