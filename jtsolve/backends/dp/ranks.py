"""How sets are represented in the dynamic programming: bit masks, ranks, and tables addressed by both.

The last of the n variables, the root, is in no U. A set over all variables is a pair (ρ, c): ρ is 1 if it
contains the root, else 0, and c is a bit mask over the other m = n − 1 variables. U is a bit mask over these.

*Ranks.* The sets c of at most w members are numbered by size, and within a size in increasing order of the
masks (colex). The colex rank of a set does not depend on the number of variables.

*g is stored by C* (see `kernels.partition`): g(C,U) is at offset[ρ, number of c] + LANES·U, where the
variables outside C are renamed 0, 1, 2, …. A layer of F is stored likewise, by the rank of the part of U
outside the block.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.dp.plan import LANES
from jtsolve.core.renaming import renaming_tables
from jtsolve.core.varset import count_bounded_subsets

if TYPE_CHECKING:
    from numpy.typing import NDArray


class RankTables(NamedTuple):
    """The rank tables of the K sets of at most w of m variables."""

    m: int
    """The number of variables without the root."""
    width: int
    """The size w."""
    block: int
    """The number of lowest variables, which form the cubes of `kernels.partition`."""
    sets: NDArray[np.int64]
    """Shape (2^m,): all sets in order."""
    masks: NDArray[np.int64]
    """Shape (K,): those of at most w members."""
    position: NDArray[np.int32]
    """Shape (2^m,): the position of a mask in `masks`; -1 above w members."""
    order: NDArray[np.int32]
    """Shape (2^m,): the rank of a mask among those of its size."""
    squeeze: NDArray[np.int32]
    """See `renaming_tables`."""
    ones: NDArray[np.int64]
    """See there."""


def rank_tables(m: int, width: int, block: int) -> RankTables:
    """Returns the rank tables of the sets of at most `width` of m variables.

    Args:
        m: the number of variables.
        width: the size of the largest set.
        block: the number of lowest variables that form the block.
    """
    everything = np.arange(1 << m, dtype=np.int64)
    sizes = np.bitwise_count(everything)
    sets = np.argsort(sizes, kind="stable")
    first = np.cumsum([0] + [comb(m, size) for size in range(m)])
    order = np.empty(1 << m, np.int32)
    order[sets] = everything - first[sizes[sets]]
    masks = sets[: count_bounded_subsets(m, width)]
    position = np.full(1 << m, -1, np.int32)
    position[masks] = np.arange(masks.size)
    squeeze, _, ones = renaming_tables()
    return RankTables(m, width, block, sets, masks, position, order, squeeze, ones)


def table_offsets(ranks: RankTables, classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the offset of the table of g(C,·), or of a layer of F(C,·), shape (2, K); -1 for no table.

    Args:
        ranks: see `RankTables`.
        classes: shape (count, 5): for each class the members in the block, the members outside it, the number
            of ρ, the numbers in a table, and the offset. Its tables are ordered by ρ, then by the positions
            of their sets.
    """
    offset = np.full((2, ranks.masks.size), -1, np.int64)
    inner = np.bitwise_count(ranks.masks & ((1 << ranks.block) - 1))
    outer = np.bitwise_count(ranks.masks >> ranks.block)
    for inner_size, outer_size, roots, rows, base in classes:
        own = np.flatnonzero((inner == inner_size) & (outer == outer_size))
        nth = np.arange(own.size)
        for root in range(roots):
            groups = nth // LANES - root * (-own.size // LANES)
            offset[root, own] = base + groups * LANES * rows + nth % LANES
    return offset
