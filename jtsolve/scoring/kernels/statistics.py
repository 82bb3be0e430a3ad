"""Cell counts of many sets: the additive sufficient statistics of partitions.

The key of a cell has the values of the set's members as digits, the largest member first, in the mixed base
of their arities. It identifies a cell in every partition, unlike the dense numbers of `kernels.counting`. The
cells of each set are in increasing order of keys, so that statistics are added by merging. As in
`kernels.counting`, the keys of a prefix shared with the previous set are reused.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import copy_onto, empty, filled, zeros
from jtsolve.scoring.kernels.counting import (
    BINS_PER_ROW,
    LEAST_BINS,
    SMALL,
    fill_bins,
    sum_terms,
)


@kernel
def _grown(array, size):
    """Returns a copy of an array, extended to at least this size."""
    grown = empty(max(size, 2 * array.size), np.int64)
    copy_onto(grown, array)
    return grown


@kernel
def count_occupied(sets, codes, arities, weights, prefixes):
    """Returns the occupied cells of each set, and their numbers of rows.

    Args:
        sets: shape (count, width), int64: the members of each set in decreasing order, then -1.
        codes: shape (n, rows): the values of each column.
        arities: shape (n,), int64; products over sets are below 2^63.
        weights: shape (rows,), int64: multiplicities; empty for 1.
        prefixes: work space, zero, shape (width, rows), of a type for the keys of sets without their last
            member: int32 is faster.

    Returns:
        Three int64 arrays: the start of each set's cells, shape (count + 1,); their keys; their counts.
    """
    count, width = sets.shape
    rows = codes.shape[1]
    starts = zeros(count + 1, np.int64)
    keys = empty(max(16, 16 * count), np.int64)
    counts = empty(keys.size, np.int64)
    bins = zeros(max(LEAST_BINS, BINS_PER_ROW * rows), np.int64)
    found = empty(rows, np.int64)
    possible = filled(width + 1, np.int64, 1)  # by length of the prefix
    kept = filled(width + 1, np.int64, -1)
    valid = used = 0
    for i in range(count):
        size = 0
        while size < width and sets[i, size] >= 0:
            size += 1
        if size == 0:
            starts[i + 1] = used
            continue
        same = 0
        while same < min(valid, size - 1) and kept[same] == sets[i, same]:
            same += 1
        for level in range(same, size - 1):
            v = sets[i, level]
            for row in range(rows):
                prefixes[level + 1, row] = prefixes[level, row] * arities[v] + codes[v, row]
            possible[level + 1] = possible[level] * arities[v]
            kept[level] = v
        valid = size - 1
        v = sets[i, size - 1]
        cells = possible[size - 1] * arities[v]
        need = used + min(cells, rows)
        if need > keys.size:
            keys, counts = _grown(keys, need), _grown(counts, need)
        if cells <= bins.size:
            fill_bins(prefixes[size - 1], cells, codes[v], uint64(arities[v]), weights, bins)
            for cell in range(cells):
                if bins[cell]:
                    keys[used] = cell
                    counts[used] = bins[cell]
                    bins[cell] = 0
                    used += 1
        else:
            for row in range(rows):
                found[row] = np.int64(prefixes[size - 1, row]) * arities[v] + codes[v, row]
            order = np.argsort(found)
            for place in range(rows):
                row = order[place]
                if place == 0 or found[row] != keys[used - 1]:
                    keys[used] = found[row]
                    counts[used] = 0
                    used += 1
                counts[used - 1] += weights[row] if weights.size else 1
        starts[i + 1] = used
    return starts, keys[:used].copy(), counts[:used].copy()


@kernel
def added_cells(starts, keys, counts, more_starts, more_keys, more_counts):
    """Returns the sum of two statistics of the same sets; see `count_occupied`."""
    found_starts = zeros(starts.size, np.int64)
    found_keys = empty(keys.size + more_keys.size, np.int64)
    found_counts = empty(found_keys.size, np.int64)
    used = 0
    for i in range(starts.size - 1):
        at, end = starts[i], starts[i + 1]
        other, last = more_starts[i], more_starts[i + 1]
        while at < end or other < last:
            first = at < end and (other >= last or keys[at] <= more_keys[other])
            both = first and other < last and keys[at] == more_keys[other]
            found_keys[used] = keys[at] if first else more_keys[other]
            found_counts[used] = 0
            if first:
                found_counts[used] += counts[at]
                at += 1
            if both or not first:
                found_counts[used] += more_counts[other]
                other += 1
            used += 1
        found_starts[i + 1] = used
    return found_starts, found_keys[:used].copy(), found_counts[:used].copy()


@kernel
def sums_over_statistics(starts, counts, possible, shared, each):
    """Returns the sums of `counting.sums_over_cells`, bit for bit.

    Args:
        starts, counts: see `count_occupied`.
        possible: shape (count,), float64: the products of the arities.
        shared, each: see `counting.sums_over_cells`.
    """
    sums = zeros(possible.size, np.float64)
    tally = zeros(SMALL, np.int64)
    for i in range(possible.size):
        found = counts[starts[i] : starts[i + 1]].copy()
        if found.size:
            sums[i] = sum_terms(found, found.size, shared / possible[i] + each, tally)
    return sums
