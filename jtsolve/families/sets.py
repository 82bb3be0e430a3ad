"""Collections of sets, closed downwards, as arrays: rows of sorted members, positions of facets."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from jtsolve.core.varset import VarSet, key_of, members, subsets, varset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

_BETWEEN_LOOKS = 1000
"""Sets, of some microseconds each."""

_Item = TypeVar("_Item")


def _unlooked() -> None:
    """Sees nothing."""


def watched(items: Iterable[_Item], look: Callable[[], object]) -> Iterator[_Item]:
    """Yields the items; `look` is called at every thousandth, and may raise."""
    for at, item in enumerate(items):
        if at % _BETWEEN_LOOKS == 0:
            look()
        yield item


def masks_of(rows: NDArray[np.int32], sizes: NDArray[np.int32]) -> list[VarSet]:
    """Returns sets as bit masks."""
    return [varset(row[:size]) for row, size in zip(rows.tolist(), sizes.tolist(), strict=True)]


def all_sets(n: int, width: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Returns members, facets and sizes of all sets of at most `width` of n, by size, then by mask.

    The k-sets with largest member t are the first C(t, k-1) of the (k-1)-sets, each with t added. The set
    c_0 < … < c_{k-1} has rank Σ C(c_i, i+1) among those of its size.
    """
    before = np.cumsum([0, *(comb(n, size) for size in range(width + 1))])
    table = np.array([[comb(c, i) for i in range(width + 1)] for c in range(n + 1)], dtype=np.int64)
    rows = np.full((before[-1], width), n, dtype=np.int32)
    facets = np.zeros((before[-1], width), dtype=np.int32)
    smaller = np.zeros((1, 0), dtype=np.int32)
    for size in range(1, width + 1):
        counts = [comb(top, size - 1) for top in range(n)]
        last = np.repeat(np.arange(n, dtype=np.int32), counts)
        first = np.concatenate([np.arange(count) for count in counts])
        sets = np.column_stack((smaller[first], last)).astype(np.int32)
        at = slice(before[size], before[size + 1])
        rows[at, :size] = sets
        for j in range(size):
            rank = np.zeros(len(sets), dtype=np.int64)
            for i in range(size):
                if i != j:
                    rank += table[sets[:, i], i + 1 - (i > j)]
            facets[at, j] = before[size - 1] + rank
        smaller = sets
    sizes = np.repeat(np.arange(width + 1, dtype=np.int32), np.diff(before))
    return rows, facets, sizes


def subsets_of(
    masks: Iterable[VarSet], n: int, width: int, look: Callable[[], object] = _unlooked
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Returns members, facets and sizes of all subsets of the given sets, by size, then by mask.

    `look` is called again and again, and may raise.
    """
    key = key_of(n)
    closed = {key(mask): mask for mask in (0, *(1 << v for v in range(n)))}
    for mask in watched(sorted(watched(masks, look), key=int.bit_count, reverse=True), look):
        if key(mask) not in closed:
            closed.update((key(part), part) for part in subsets(mask))
    ordered = sorted(closed.values(), key=lambda mask: (mask.bit_count(), mask))
    position = {key(mask): at for at, mask in enumerate(ordered)}
    rows = np.full((len(ordered), width), n, dtype=np.int32)
    facets = np.zeros((len(ordered), width), dtype=np.int32)
    for at, mask in enumerate(watched(ordered, look)):
        for j, v in enumerate(members(mask)):
            rows[at, j] = v
            facets[at, j] = position[key(mask & ~(1 << v))]
    sizes = np.array([mask.bit_count() for mask in ordered], dtype=np.int32)
    return rows, facets, sizes


def positions_of(
    rows: NDArray[np.int32], sizes: NDArray[np.int32], wanted: frozenset[VarSet]
) -> NDArray[np.int64]:
    """Returns the positions of the wanted sets that occur."""
    if not wanted:
        return np.zeros(0, dtype=np.int64)
    found = (at for at, row in enumerate(rows.tolist()) if varset(row[: sizes[at]]) in wanted)
    return np.fromiter(found, dtype=np.int64)


def groups(keys: NDArray[np.int32], count: int) -> Callable[[int], NDArray[np.int64]]:
    """Returns a function from a key to the indices that have it."""
    order = np.argsort(keys, kind="stable")
    start = np.searchsorted(keys[order], np.arange(count + 1))

    def group(key: int) -> NDArray[np.int64]:
        return order[start[key] : start[key + 1]]

    return group
