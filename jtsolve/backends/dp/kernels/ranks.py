"""How sets are represented in the dynamic programming: bit masks, ranks, and tables addressed by both.

The last of the n variables, the root, is in no U. A set over all variables is a pair (ρ, c): ρ tells whether
it holds the root, c is a bit mask over the other m = n − 1 variables. U is a bit mask over these m.

*Ranks.* The sets c of at most w members are numbered by size, and within a size in increasing order of the
masks (colex). The colex rank of a set of s members does not depend on how many variables there are: the
s-subsets of k variables have the ranks 0 to C(k,s) − 1, for every k. So the same rank tables serve every U
once the variables outside U are renamed 0, 1, 2, …; only the number of smaller sets, first[k,s], changes.

*F lies by U*: F(S,U) is at start[U] + ρ·first[k,w+1] + first[k,s] + rank of c, with k = m − |U|, s = |c|, and
c is renamed. Sets with the root have at most w − 1 members in c.

*g lies by C* (see `partition`): g(C,U) is at offset[ρ, first[m,s] + rank of c] + LANES·(U renamed).
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.dp.kernels.partition import LANES
from jtsolve.core.kernels.renaming import renaming_tables
from jtsolve.core.varset import count_bounded_subsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

RankTables = namedtuple(
    "RankTables",
    [
        "width",  # w
        "block",  # the number of lowest variables, which form the cubes of `partition`
        "first",  # shape (m + 1, w + 2): [k, s] is the number of sets of less than s of k variables
        "masks",  # shape (K,): the sets in order, K = first[m, w + 1]
        "position",  # shape (2^m,): where a mask is in `masks`; -1 above w members
        "parent",  # shape (K,): the rank without the largest member
        "top",  # shape (K,): the largest member
        "insert",  # shape (m, first[m, w]): the rank after inserting a member at a place, the rest moving up
        "remove",  # shape (K, w): the ranks without the first, second, … member
        "squeeze",  # see `renaming_tables`
        "ones",
    ],
)
"""The rank tables of the sets of at most w of m variables."""


def rank_tables(m: int, width: int, block: int) -> RankTables:
    """Returns the rank tables of the sets of at most `width` of m variables."""
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

    squeeze, _, ones = renaming_tables()
    return RankTables(width, block, first, masks, position, parent, top, insert, remove, squeeze, ones)


def table_offsets(ranks: RankTables, classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns where the table of g(C,·) begins, shape (2, K); -1 for a C without one.

    Args:
        ranks: see `RankTables`.
        classes: shape (count, 6): the first and the last ρ, members in the block, members outside it, number
            of elements, base; the tables of a class are ordered by ρ, then by the positions of their sets.
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
