"""Counts the cells of sets of binary columns by bit sets, and sums a function of the counts.

The rows in which a column is 1 are a bit set, 64 rows to a word; so are the rows of a cell. The cells of the
set A ∪ {v} are the intersections of those of A with the bit set of v, and what is left of them: one needs
counting, the other is the difference. Where a set begins as the one before it does, the bit sets of the
common part are kept: in colex order, most sets cost a conjunction and a count of ones for each cell of the
set without its smallest member, 2^(|A| − 1) · rows / 64 words. Rows with weights cannot be counted so.

The sums are those of `counting`, to the bit, since the counts are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit, types, uint64
from numba.extending import intrinsic

from jtsolve.kernels.counting import SMALL, sum_terms

if TYPE_CHECKING:
    from numpy.typing import NDArray


@intrinsic
def _ones(_context, word):
    """Returns the number of ones in a word: one instruction of the processor, or of its vector lanes."""

    def code(_context, builder, _signature, arguments):
        return builder.ctpop(arguments[0])

    assert isinstance(word, types.Integer)
    return types.uint64(types.uint64), code


def bit_sets(codes: NDArray[Any]) -> NDArray[np.uint64]:
    """Returns the rows in which each column is 1, and those that there are, as bit sets.

    Args:
        codes: shape (n, rows), 0 or 1.

    Returns:
        Shape (n + 1, words), uint64: bit r % 64 of word r // 64 is row r; the last bit set holds every row.
    """
    n, rows = codes.shape
    padded = np.zeros((n + 1, -(-rows // 64) * 64), np.uint8)
    padded[:n, :rows] = codes
    padded[n, :rows] = 1
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


@njit(nogil=True, cache=True)
def _split(cells, counts, column, parts, part_counts, groups):
    """Writes the cells of A ∪ {v} and their counts: of cell c, its ones at 2c, and the rest at 2c + 1."""
    for cell in range(groups):
        part_counts[2 * cell] = part_counts[2 * cell + 1] = 0
        if counts[cell] == 0:  # its bit set may be an old one, and is not looked at
            continue
        ones = uint64(0)
        for word in range(column.size):
            both = cells[cell, word] & column[word]
            parts[2 * cell, word] = both
            parts[2 * cell + 1, word] = cells[cell, word] & ~column[word]
            ones += _ones(both)
        part_counts[2 * cell] = np.int64(ones)
        part_counts[2 * cell + 1] = counts[cell] - np.int64(ones)


@njit(nogil=True, cache=True)
def _count(cells, counts, column, found, groups):
    """Writes the counts of the occupied cells of A ∪ {v} to `found`, and returns how many there are."""
    used = 0
    for cell in range(groups):
        if counts[cell] == 0:
            continue
        ones = uint64(0)
        for word in range(column.size):
            ones += _ones(cells[cell, word] & column[word])
        one = np.int64(ones)
        if one:
            found[used] = one
            used += 1
        if one < counts[cell]:
            found[used] = counts[cell] - one
            used += 1
    return used


@njit(nogil=True, cache=True)
def sums_over_bits(sets, bits, rows, arities, shared, each):
    """Returns what `counting.sums_over_cells` does, of columns with at most two states.

    Args:
        sets: see there.
        bits: shape (n + 1, words), uint64: see `bit_sets`.
        rows: how many rows there are.
        arities: shape (n,), int64: 1 or 2.
        shared: see there.
        each: see there.
    """
    count, width = sets.shape
    words = bits.shape[1]
    sums = np.zeros(count, np.float64)
    possible = np.ones(count, np.float64)
    most = 1 << max(0, width - 1)
    cells = np.empty((max(1, width), most, words), np.uint64)  # by the number of members: 0 has one cell
    counts = np.zeros((max(1, width), most), np.int64)
    cells[0, 0] = bits[-1]
    counts[0, 0] = rows
    found = np.empty(2 * most, np.int64)
    tally = np.zeros(SMALL, np.int64)
    kept = np.full(max(1, width), -1, np.int64)  # the members whose cells are held
    valid = 0
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
            _split(cells[level], counts[level], bits[v], cells[level + 1], counts[level + 1], 1 << level)
            kept[level] = v
        valid = size - 1
        column = bits[sets[i, size - 1]]
        used = _count(cells[size - 1], counts[size - 1], column, found, 1 << (size - 1))
        sums[i] = sum_terms(found, used, shared / possible[i] + each, tally)
    return sums, possible
