"""Subsets in arrays, and their renaming by table look-up, so that one loop serves all sets of a size.

A mask is cut into pieces of 9 bits. `tables` is any named tuple with the entries of `RenamingTables`
that a function reads. `kernels.renaming` has `rename` as a kernel.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PIECE = 9
"""Bits of one look-up: a table is 512 × 512, and one of its rows at a time is in use."""


def rename(mask: Any, among: Any, tables: Any) -> Any:
    """Returns `mask`, a subset of `among`, with the members of `among` renamed 0, 1, 2, …; up to 27 bits.

    Args:
        mask: a subset of `among`.
        among: the set whose members get the new numbers.
        tables: see `RenamingTables`.
    """
    low, middle = among & 511, (among >> PIECE) & 511
    below = tables.ones[low]
    return (
        tables.squeeze[mask & 511, low]
        | tables.squeeze[(mask >> PIECE) & 511, middle] << below
        | tables.squeeze[mask >> (2 * PIECE), among >> (2 * PIECE)] << (below + tables.ones[middle])
    )


class RenamingTables(NamedTuple):
    """The look-up tables of one piece."""

    squeeze: NDArray[np.int32]
    """Shape (512, 512): [x, y] is x ∩ y renamed within y."""
    spread: NDArray[np.int32]
    """Shape (512, 512): [x, y] is the subset of y that is renamed to x."""
    ones: NDArray[np.int64]
    """Shape (512,): the number of members."""


@cache
def renaming_tables() -> RenamingTables:
    """Returns the look-up tables of one piece."""
    names = np.arange(1 << PIECE, dtype=np.int32)
    squeeze = np.zeros((1 << PIECE, 1 << PIECE), np.int32)
    spread = np.zeros_like(squeeze)
    place = np.zeros(1 << PIECE, np.int32)  # for each y, the number of its members below v
    for v in range(PIECE):
        inside = names >> v & 1
        squeeze |= (inside[:, None] & inside[None, :]) << place[None, :]
        spread |= ((names[:, None] >> place[None, :] & 1) & inside[None, :]) << v
        place += inside
    return RenamingTables(squeeze, spread, place.astype(np.int64))


def subsets_of(masks: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Returns the subsets of the first members of sets, shape (2^size, …): ∅ first, and all of them last.

    Args:
        masks: the sets, of any shape.
        size: the number of their first members.
    """
    found, rest = np.zeros((1, *masks.shape), np.int64), masks
    for _ in range(size):
        found, rest = np.concatenate([found, found | rest & -rest]), rest & rest - 1
    return found


def sets_beside(sets: NDArray[np.int64], n: int, size: int) -> NDArray[np.int64]:
    """Returns the sets of one size outside each of N sets, shape (N, M).

    Args:
        sets: of equal size, shape (N,).
        n: the number of variables.
        size: of the sets returned.
    """
    within = n - int(sets[0]).bit_count()
    outside = np.argsort(sets[:, None] >> np.arange(n) & 1, axis=1, kind="stable")[:, :within]
    chosen = np.array(list(combinations(range(within), size)))
    found: NDArray[np.int64] = np.bitwise_or.reduce(1 << outside[:, chosen], axis=2)
    return found
