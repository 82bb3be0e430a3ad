"""Builds the rank tables of `layers.Ranks`: plain numpy, a few passes over the sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.kernels.layers import PIECE, Ranks
from jtsolve.kernels.partition import LANES

if TYPE_CHECKING:
    from numpy.typing import NDArray


def rank_tables(m: int, width: int, block: int) -> Ranks:
    """Returns the `Ranks` of the sets of at most `width` of m variables."""
    everything = np.arange(1 << m, dtype=np.int64)
    counts = np.bitwise_count(everything)
    masks = everything[counts <= width]
    size = counts[masks].astype(np.int8)
    rank = np.full(1 << m, -1, np.int32)
    rank[masks] = np.arange(masks.size)
    count = np.searchsorted(masks, 1 << np.arange(m + 1, dtype=np.int64))
    top = np.zeros(masks.size, np.int8)
    for v in range(m):
        top[count[v] : count[v + 1]] = v
    parent = np.zeros(masks.size, np.int32)
    parent[1:] = rank[masks[1:] ^ (np.int64(1) << top[1:].astype(np.int64))]

    narrower = masks[: count[m - 1]] if m else masks[:0]
    insert = np.full((m, narrower.size), -1, np.int32)
    room = size[: narrower.size] < width
    for position in range(m):
        below = narrower & ((1 << position) - 1)
        wider = below | 1 << position | (narrower ^ below) << 1
        insert[position, room] = rank[wider[room]]

    remove = np.zeros((masks.size, max(1, min(width, m))), np.int32)
    for v in range(m):
        holds = np.flatnonzero(masks >> v & 1)
        nth = np.bitwise_count(masks[holds] & ((1 << v) - 1))
        remove[holds, nth] = rank[masks[holds] ^ (1 << v)]

    return Ranks(width, block, count, masks, rank, parent, top, size, insert, remove, *_squeeze())


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
        classes: shape (count, 5): root, members in the block, members outside it, number of elements, base;
            the tables of a class are in the order of their ranks.
    """
    offset = np.full((2, ranks.masks.size), -1, np.int64)
    inner = np.bitwise_count(ranks.masks & ((1 << ranks.block) - 1))
    outer = np.bitwise_count(ranks.masks >> ranks.block)
    for root, inner_size, outer_size, elements, base in classes:
        own = np.flatnonzero((inner == inner_size) & (outer == outer_size))
        nth = np.arange(own.size)
        offset[root, own] = base + (nth // LANES) * (LANES << elements) + nth % LANES
    return offset
