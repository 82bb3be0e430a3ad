"""Collections of sets with all their subsets, as arrays: rows of sorted members, positions of facets."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from jtsolve.core.varset import VarSet, key_of, members, subsets, varset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

_SETS_PER_POLL = 1000
"""A set takes some microseconds."""

_Item = TypeVar("_Item")


def watched(items: Iterable[_Item], check_stop: Callable[[], object]) -> Iterator[_Item]:
    """Yields the items; `check_stop` is called at every thousandth, and may raise."""
    for at, item in enumerate(items):
        if at % _SETS_PER_POLL == 0:
            check_stop()
        yield item


def masks_of(rows: NDArray[np.int32], sizes: NDArray[np.int32]) -> list[VarSet]:
    """Returns sets as bit masks.

    Args:
        rows: the members of each set, shape (K, width), padded.
        sizes: the number of members, shape (K,).
    """
    return [varset(row[:size]) for row, size in zip(rows.tolist(), sizes.tolist(), strict=True)]


def all_sets(
    n: int, width: int, keep: Callable[[NDArray[np.int32]], NDArray[np.bool_]] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Returns members, facets and sizes of all sets of at most `width` of n, by size, then by mask.

    The k-sets with largest member t are the (k-1)-sets below t, each with t added.

    Args:
        n: the number of variables.
        width: the largest size.
        keep: returns which of the sets of one size, shape (count, size), are listed; it has to keep all
            subsets of a set that it keeps. None lists every set.
    """
    rows, facets, sizes = [np.full((1, width), n, dtype=np.int32)], [np.zeros((1, width), np.int32)], [1]
    smaller, below, keys = np.zeros((1, 0), np.int32), np.zeros((1, 0), np.int64), np.zeros(1, np.int64)
    fewer = 1  # the number of sets with two members less
    for size in range(1, width + 1):
        # Sets are in increasing order of their masks, so that those below t come first.
        counts = np.searchsorted(smaller[:, -1], np.arange(n)) if size > 1 else np.ones(n, dtype=np.int64)
        first = np.concatenate([np.arange(count) for count in counts])
        sets = np.column_stack((smaller[first], np.repeat(np.arange(n, dtype=np.int32), counts)))
        if keep is not None:
            kept = keep(sets)
            first, sets = first[kept], sets[kept]
        # The facets are the set without t, which is `first`, and the facets of that set with t added.
        inner = np.searchsorted(keys, sets[:, -1:].astype(np.int64) * fewer + below[first])
        local = np.column_stack((inner, first))
        start = sum(sizes) - sizes[-1]
        padded = [np.full((len(sets), width), fill, dtype=np.int32) for fill in (n, 0)]
        padded[0][:, :size], padded[1][:, :size] = sets, start + local
        rows.append(padded[0])
        facets.append(padded[1])
        keys, fewer = sets[:, -1].astype(np.int64) * len(smaller) + first, len(smaller)
        smaller, below = sets, local
        sizes.append(len(sets))
    return (
        np.concatenate(rows),
        np.concatenate(facets),
        np.repeat(np.arange(width + 1, dtype=np.int32), sizes),
    )


def subsets_of(
    masks: Iterable[VarSet], n: int, width: int, check_stop: Callable[[], object]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Returns members, facets and sizes of all subsets of the given sets, by size, then by mask.

    The shapes are (K, width), (K, width) and (K,); members are padded with n.

    Args:
        masks: the sets.
        n: the number of variables.
        width: maximum size of the sets.
        check_stop: called at every thousandth set; raises to stop.
    """
    key = key_of(n)
    closed = {key(mask): mask for mask in (0, *(1 << v for v in range(n)))}
    for mask in watched(sorted(watched(masks, check_stop), key=int.bit_count, reverse=True), check_stop):
        if key(mask) not in closed:
            closed.update((key(part), part) for part in subsets(mask))
    ordered = sorted(closed.values(), key=lambda mask: (mask.bit_count(), mask))
    position = {key(mask): at for at, mask in enumerate(ordered)}
    rows = np.full((len(ordered), width), n, dtype=np.int32)
    facets = np.zeros((len(ordered), width), dtype=np.int32)
    for at, mask in enumerate(watched(ordered, check_stop)):
        for j, v in enumerate(members(mask)):
            rows[at, j] = v
            facets[at, j] = position[key(mask & ~(1 << v))]
    sizes = np.array([mask.bit_count() for mask in ordered], dtype=np.int32)
    return rows, facets, sizes


def groups(keys: NDArray[np.int32], count: int) -> Callable[[int], NDArray[np.int64]]:
    """Returns a function from a key to the positions that have it.

    `keys` has shape (m,), with values below `count`.
    """
    order = np.argsort(keys, kind="stable")
    start = np.searchsorted(keys[order], np.arange(count + 1))

    def group(key: int) -> NDArray[np.int64]:
        return order[start[key] : start[key + 1]]

    return group
