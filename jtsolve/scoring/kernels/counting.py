"""Counts of the cells of marginal tables, and sums of a function of these counts.

A set A of columns partitions the rows into cells with equal values on A. Cells are numbered densely from 0 in
order of first occurrence, and those of A ∪ {v} refine those of A,

    cell(A ∪ v) = renumber(cell(A) · arity(v) + value(v)),

so that keys stay below rows · arity. Members of a set are in decreasing order, and the cells of a prefix
shared with the previous set are reused: in colex order, where the smallest member changes fastest, most sets
need one pass over the rows.

A pass counts into an array of bins, one for each possible key, unless these far outnumber the rows; then it
hashes. The sum runs over the *distinct* counts in increasing order, with compensation (Neumaier 1974): bit
for bit, it depends on the multiset of counts only, not on the order of rows, columns or states, nor on the
method of counting.
"""

from __future__ import annotations

from collections import namedtuple
from math import lgamma, log

import numpy as np
from numba import uint64

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, filled, zeros

SMALL = 64
"""Smaller counts are tallied in an array; the others, at most rows / SMALL without weights, are sorted."""

BINS_PER_ROW = 4
LEAST_BINS = 4096
"""There are max(LEAST_BINS, BINS_PER_ROW · rows) bins: clearing and scanning more is slower than hashing."""

_GOLDEN = uint64(0x9E3779B97F4A7C15)
"""2^64 / golden ratio: multiplicative hashing (Knuth, The Art of Computer Programming 3, section 6.4)."""


Space = namedtuple(
    "Space",
    [
        "bins",  # shape (max(LEAST_BINS, BINS_PER_ROW · rows),), int64: zero between passes
        "keys",  # shape (2^bits,), int64: hash table, at most half full
        "owner",  # the same shape, int64: the pass, from 1, that uses the slot
        "place",  # the same shape, int64: the cell with this key
        "shift",  # 64 - bits
        "found",  # shape (rows,), int64: counts of the occupied cells
        "tally",  # shape (SMALL,), int64: frequencies of the small counts; zero between sets
    ],
)
"""Work space of one thread."""


@kernel
def make_space(rows):
    """Returns work space for this many rows."""
    bits = 1
    while 1 << bits < 2 * rows:
        bits += 1
    return Space(
        zeros(max(LEAST_BINS, BINS_PER_ROW * rows), np.int64),
        empty(1 << bits, np.int64),
        zeros(1 << bits, np.int64),
        empty(1 << bits, np.int64),
        64 - bits,
        empty(rows, np.int64),
        zeros(SMALL, np.int64),
    )


@kernel(inline="always")
def _slot(key, space, turn):
    """Returns the slot of a key in the hash table, or the free slot for it."""
    mask = uint64(space.keys.size - 1)
    slot = (uint64(key) * _GOLDEN) >> uint64(space.shift)
    while space.owner[slot] == turn and space.keys[slot] != key:
        slot = (slot + uint64(1)) & mask
    return slot


@kernel
def refine(cells, groups, column, arity, refined, space, turn):
    """Writes the cells of A ∪ {v} to `refined`, and returns their number.

    Args:
        cells: shape (rows,), int32: the cells of A.
        groups: number of cells of A.
        column: shape (rows,): the values of v.
        arity: number of states of v.
        refined: shape (rows,), int32; may alias `cells`.
        space: see `Space`.
        turn: number of the pass, above 0 and unique among the calls with this space.
    """
    used = 0
    width = uint64(arity)
    if groups * arity <= space.bins.size:
        bins = space.bins
        for row in range(cells.size):
            key = uint64(cells[row]) * width + uint64(column[row])
            if bins[key] == 0:
                used += 1
                bins[key] = used
            refined[row] = bins[key] - 1
        bins[: groups * arity] = 0
        return used
    for row in range(cells.size):
        key = np.int64(cells[row]) * arity + np.int64(column[row])
        slot = _slot(key, space, turn)
        if space.owner[slot] != turn:
            space.owner[slot] = turn
            space.keys[slot] = key
            space.place[slot] = used
            used += 1
        refined[row] = space.place[slot]
    return used


@kernel
def fill_bins(cells, possible, column, width, weights, bins):
    """Writes the counts of the cells of A ∪ {v} to bins, at their keys cell(A) · arity(v) + value(v).

    Args:
        cells: shape (rows,): the cells of A.
        possible: number of keys; those bins are zero on entry.
        column: shape (rows,): the values of v.
        width: number of states of v, uint64.
        weights: shape (rows,), int64: multiplicities; empty for 1.
        bins: shape (at least possible,), int64.
    """
    rows = cells.size
    whole = 0
    if 4 * possible <= bins.size:
        # Four interleaved histograms, so that runs of equal keys do not stall on the same bin.
        one, two, three = uint64(possible), uint64(2 * possible), uint64(3 * possible)
        whole = rows - rows % 4
        if weights.size:
            for row in range(0, whole, 4):
                bins[uint64(cells[row]) * width + uint64(column[row])] += weights[row]
                bins[one + uint64(cells[row + 1]) * width + uint64(column[row + 1])] += weights[row + 1]
                bins[two + uint64(cells[row + 2]) * width + uint64(column[row + 2])] += weights[row + 2]
                bins[three + uint64(cells[row + 3]) * width + uint64(column[row + 3])] += weights[row + 3]
        else:
            for row in range(0, whole, 4):
                bins[uint64(cells[row]) * width + uint64(column[row])] += 1
                bins[one + uint64(cells[row + 1]) * width + uint64(column[row + 1])] += 1
                bins[two + uint64(cells[row + 2]) * width + uint64(column[row + 2])] += 1
                bins[three + uint64(cells[row + 3]) * width + uint64(column[row + 3])] += 1
        for cell in range(possible):
            bins[cell] += bins[cell + possible] + bins[cell + 2 * possible] + bins[cell + 3 * possible]
        bins[possible : 4 * possible] = 0
    for row in range(whole, rows):
        bins[uint64(cells[row]) * width + uint64(column[row])] += weights[row] if weights.size else 1


@kernel
def count_cells(cells, groups, column, arity, weights, space, turn):
    """Writes the counts of the occupied cells of A ∪ {v} to `found`, and returns their number.

    Args:
        cells, groups, column, arity, space, turn: see `refine`.
        weights: shape (rows,), int64: multiplicities; empty for 1.
    """
    rows = cells.size
    width = uint64(arity)
    possible = groups * arity
    bins, found = space.bins, space.found
    used = 0
    if possible <= bins.size:
        fill_bins(cells, possible, column, width, weights, bins)
        for cell in range(possible):
            if bins[cell]:
                found[used] = bins[cell]
                used += 1
        bins[:possible] = 0
        return used
    for row in range(rows):
        key = np.int64(cells[row]) * arity + np.int64(column[row])
        slot = _slot(key, space, turn)
        if space.owner[slot] != turn:
            space.owner[slot] = turn
            space.keys[slot] = key
            space.place[slot] = used
            found[used] = 0
            used += 1
        found[space.place[slot]] += weights[row] if weights.size else 1
    return used


@kernel
def added_exactly(total, lost, term):
    """Adds a term to a compensated sum (Neumaier 1974); returns the sum and its rounding error."""
    grown = total + term
    if abs(total) >= abs(term):
        lost += (total - grown) + term
    else:
        lost += (term - grown) + total
    return grown, lost


@kernel
def _term(count, times, pseudo, base):
    """Returns `times` the term of a cell with `count` rows; see `sums_over_cells`."""
    if pseudo > 0:
        return times * (lgamma(count + pseudo) - base)
    return times * (count * log(count))


@kernel
def _sort(values, count):
    """Sorts the first values in place: quicksort down to short parts, then insertion (Sedgewick 1978).

    The sort of numba takes a second to compile.
    """
    waiting = empty(128, np.int64)
    depth, low, high = 0, 0, count - 1
    while True:
        while high - low > SMALL:
            one, two, three = values[low], values[(low + high) >> 1], values[high]
            pivot = max(min(one, two), min(max(one, two), three))
            i, j = low, high
            while i <= j:
                while values[i] < pivot:
                    i += 1
                while values[j] > pivot:
                    j -= 1
                if i <= j:
                    values[i], values[j] = values[j], values[i]
                    i += 1
                    j -= 1
            # The larger part is stacked, so that the stack stays logarithmic.
            if j - low > high - i:
                waiting[depth], waiting[depth + 1], low = low, j, i
            else:
                waiting[depth], waiting[depth + 1], high = i, high, j
            depth += 2
        if depth == 0:
            break
        depth -= 2
        low, high = waiting[depth], waiting[depth + 1]
    for end in range(1, count):
        value = values[end]
        at = end
        while at > 0 and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value


@kernel
def sum_terms(found, used, pseudo, tally):
    """Returns the sum of the cells' terms; see `sums_over_cells`.

    Args:
        found: shape (at least used,), int64: the counts, reordered in place.
        used: number of counts.
        pseudo: a > 0 for Dirichlet terms, 0 for entropy terms.
        tally: shape (SMALL,), int64, zero on entry and exit.
    """
    large = 0
    for cell in range(used):
        count = found[cell]
        if count < SMALL:
            tally[count] += 1
        else:
            found[large] = count
            large += 1
    base = lgamma(pseudo) if pseudo > 0 else 0.0
    total = lost = 0.0
    for count in range(1, SMALL):
        if tally[count]:
            total, lost = added_exactly(total, lost, _term(float(count), float(tally[count]), pseudo, base))
            tally[count] = 0
    _sort(found, large)
    at = 0
    while at < large:
        end = at + 1
        while end < large and found[end] == found[at]:
            end += 1
        total, lost = added_exactly(total, lost, _term(float(found[at]), float(end - at), pseudo, base))
        at = end
    return total + lost


@kernel
def sums_over_cells(sets, codes, arities, weights, shared, each):
    """Returns, for each set, the sum of a term of the counts m over occupied cells, and the number of cells.

        Dirichlet (a > 0):  Σ [ ln Γ(m + a) − ln Γ(a) ],  a = shared / cells + each
        entropy (shared = each = 0):  Σ m ln m

    Args:
        sets: shape (count, width), int64: the members of each set in decreasing order, then -1.
        codes: shape (n, rows): the values of each column.
        arities: shape (n,), int64.
        weights: shape (rows,), int64: multiplicities; empty for 1.
        shared: pseudo-count divided evenly among all cells.
        each: pseudo-count of every cell.

    Returns:
        Two arrays of shape (count,), float64: the sums, 0 for ∅; and the products of the arities.
    """
    count, width = sets.shape
    rows = codes.shape[1]
    sums = zeros(count, np.float64)
    possible = filled(count, np.float64, 1)
    space = make_space(rows)
    turn = 0
    cells = zeros((max(1, width), rows), np.int32)  # by length of the prefix; ∅ has one cell
    groups = filled(max(1, width), np.int64, 1)
    kept = filled(max(1, width), np.int64, -1)  # the prefix with known cells
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
            turn += 1
            groups[level + 1] = refine(
                cells[level], groups[level], codes[v], arities[v], cells[level + 1], space, turn
            )
            kept[level] = v
        valid = size - 1
        v = sets[i, size - 1]
        turn += 1
        used = count_cells(cells[size - 1], groups[size - 1], codes[v], arities[v], weights, space, turn)
        pseudo = shared / possible[i] + each
        sums[i] = sum_terms(space.found, used, pseudo, space.tally)
    return sums, possible
