"""Counts of the cells of marginal tables of binary columns, 64 rows at a time.

A column is a bit set, the rows with value 1. A cell of A is a bit set of rows too, and v divides it into its
intersection with the column of v and the rest:

    m(cell, v = 1) = |cell ∧ v|,      m(cell, v = 0) = m(cell) − m(cell, v = 1).

For the last member of a set, a population count for each cell of the others suffices. Those cells are bit
sets, reused if the next set has the same prefix, as in `kernels.counting`. Sums depend on the multiset of
counts only, and are bit-identical to those of `counting.sums_over_cells`.
"""

from __future__ import annotations

from math import log

import numpy as np
from numba import types
from numba.extending import intrinsic

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, filled, zeros
from jtsolve.scoring.kernels.counting import SMALL, added_exactly, sum_terms


@intrinsic
def ones(typing, word):  # noqa: ARG001 - numba's signature
    """Returns the population count of a uint64, an intrinsic that LLVM vectorises."""

    def generate(_context, builder, _signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@kernel
def entropy_terms(rows):
    """Returns m ln m for m = 0 to `rows`, rounded as in `counting.sum_terms`."""
    terms = zeros(rows + 1, np.float64)
    for count in range(1, rows + 1):
        terms[count] = float(count) * log(float(count))
    return terms


@kernel(inline="always")
def _entropy(found, used, terms):
    """Returns Σ m ln m as in `counting.sum_terms`: over distinct counts in increasing order, compensated."""
    for end in range(1, used):
        count = found[end]
        at = end
        while at > 0 and found[at - 1] > count:
            found[at] = found[at - 1]
            at -= 1
        found[at] = count
    total = lost = 0.0
    at = 0
    while at < used:
        end = at + 1
        while end < used and found[end] == found[at]:
            end += 1
        total, lost = added_exactly(total, lost, float(end - at) * terms[found[at]])
        at = end
    return total + lost


@kernel(inline="always")
def common(one, other):
    """Returns the size of the intersection of two bit sets."""
    inside = np.uint64(0)
    for word in range(one.size):
        inside += ones(one[word] & other[word])
    return np.int64(inside)


@kernel
def sums_over_binary_cells(sets, bits, rows, arities, terms, shared, each):
    """Returns the results of `counting.sums_over_cells` for binary columns without weights.

    Args:
        sets: shape (count, width), int64: the members of each set in decreasing order, then -1.
        bits: shape (n, words), uint64: the rows with value 1 of each column.
        rows: number of rows.
        arities: shape (n,), int64: 1 or 2.
        terms: see `entropy_terms`; empty for Dirichlet terms.
        shared: pseudo-count divided evenly among all cells.
        each: pseudo-count of every cell.
    """
    count, width = sets.shape
    words = bits.shape[1]
    sums = zeros(count, np.float64)
    possible = filled(count, np.float64, 1)
    # The 2^j cells of the first j members start at 2^j - 1; the only cell of level 0 is the set of all rows.
    cells = zeros((1 << max(0, width - 1) << 1, words), np.uint64)
    held = zeros(1 << max(0, width - 1) << 1, np.int64)
    cells[0] = ~np.uint64(0)
    if rows & 63:
        cells[0, words - 1] = (np.uint64(1) << np.uint64(rows & 63)) - np.uint64(1)
    held[0] = rows
    kept = filled(max(1, width), np.int64, -1)  # the prefix with known cells
    valid = 0
    found = empty(1 << width, np.int64)
    tally = zeros(SMALL, np.int64)
    for i in range(count):
        size = 0
        while size < width and sets[i, size] >= 0:
            possible[i] *= arities[sets[i, size]]
            size += 1
        if size == 0:
            continue
        same = 0
        while same < min(valid, size - 1) and kept[same] == sets[i, same]:
            same += 1
        for level in range(same, size - 1):
            v = sets[i, level]
            first, there = (1 << level) - 1, (2 << level) - 1
            for cell in range(1 << level):
                one, other = there + 2 * cell, there + 2 * cell + 1
                inside = np.uint64(0)
                for word in range(words):
                    with_v = cells[first + cell, word] & bits[v, word]
                    cells[one, word] = with_v
                    cells[other, word] = cells[first + cell, word] ^ with_v
                    inside += ones(with_v)
                held[one] = np.int64(inside)
                held[other] = held[first + cell] - np.int64(inside)
            kept[level] = v
        valid = size - 1
        v = sets[i, size - 1]
        first = (1 << valid) - 1
        used = 0
        for cell in range(1 << valid):
            if held[first + cell] == 0:
                continue
            within = common(cells[first + cell], bits[v])
            if within:
                found[used] = within
                used += 1
            if within < held[first + cell]:
                found[used] = held[first + cell] - within
                used += 1
        if terms.size:
            sums[i] = _entropy(found, used, terms)
        else:
            sums[i] = sum_terms(found, used, shared / possible[i] + each, tally)
    return sums, possible
