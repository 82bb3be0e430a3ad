"""How sets are represented in the dynamic programming: bit masks, ranks, and tables addressed by both.

The last of the n variables, the root, is in no U. A set over all variables is a pair (ρ, c): ρ is 1 if it
contains the root, else 0, and c is a bit mask over the other m = n − 1 variables. U is a bit mask over these.

*Ranks.* The sets c of at most w members are numbered by size, and within a size in increasing order of the
masks (colex). The colex rank of a set does not depend on the number of variables.

*g is stored by C* (see `kernels.partition`): g(C,U) is at offset[ρ, number of c] + LANES·U, where the
variables outside C are renamed 0, 1, 2, …. F is stored likewise where it has a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.dp.plan import LANES
from jtsolve.core.varset import count_bounded_subsets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.backends.dp.plan import TableClass, TablePlan


class RankTables(NamedTuple):
    """The rank tables of the K sets of at most w of m variables."""

    m: int
    """The number of variables without the root."""
    width: int
    """The size w."""
    sets: NDArray[np.int64]
    """Shape (2^m,): all sets in order."""
    masks: NDArray[np.int64]
    """Shape (K,): those of at most w members."""
    position: NDArray[np.int32]
    """Shape (2^m,): the position of a mask in `masks`; -1 above w members."""


def rank_tables(m: int, width: int) -> RankTables:
    """Returns the rank tables of the sets of at most `width` of m variables.

    Args:
        m: the number of variables.
        width: the size of the largest set.
    """
    sets = np.argsort(np.bitwise_count(np.arange(1 << m)), kind="stable")
    masks = sets[: count_bounded_subsets(m, width)]
    position = np.full(1 << m, -1, np.int32)
    position[masks] = np.arange(masks.size)
    return RankTables(m, width, sets, masks, position)


def positions_of(entry: TableClass, plan: TablePlan, ranks: RankTables) -> NDArray[np.int64]:
    """Returns the positions of the sets of a class, without the root, shape (tables,).

    Args:
        entry: the class.
        plan: its plan.
        ranks: of the sets.
    """
    block = (1 << plan.block) - 1
    inner, outer = (np.bitwise_count(part) for part in (ranks.masks & block, ranks.masks & ~block))
    return np.flatnonzero((inner == entry.inner) & (outer == entry.outer))


def table_offsets(plan: TablePlan, ranks: RankTables) -> NDArray[np.int64]:
    """Returns the offset of the table of g(C,·), shape (2, K); -1 for no table.

    The tables of a class are ordered by ρ, then by the positions of their sets.

    Args:
        plan: the classes.
        ranks: of the sets.
    """
    offset = np.full((2, ranks.masks.size), -1, np.int64)
    for entry in plan.classes:
        own = positions_of(entry, plan, ranks)
        nth = np.arange(own.size)
        for root in range(entry.roots):
            group = root * entry.groups + nth // LANES
            offset[root, own] = entry.base + (group * LANES << entry.elements) + nth % LANES
    return offset
