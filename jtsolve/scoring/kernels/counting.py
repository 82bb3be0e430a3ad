"""Counts the cells of many marginal tables, and sums a function of the counts over the occupied cells.

A set A of columns divides the rows into cells: the rows of a cell agree on A. Rows are known by the number of
their cell, dense from 0 in order of first occurrence; the cells of A ∪ {v} refine those of A,

    cell(A ∪ v) = renumbered(cell(A) · arity(v) + value(v)),

so that no number exceeds rows · arity. Sets are given with their members in decreasing order. Where a set
begins as the one before it does, the cells of the common part are kept: in colex order, which changes the
smallest member fastest, most sets cost one pass over the rows.

A pass counts into one bin for each possible number while there are not many more bins than rows, and by
hashing beyond that. The sum over the cells runs over the *different* counts in increasing order, with
compensation (Neumaier 1974): it depends on the multiset of counts alone, to the bit, not on the order of
rows, columns or states, nor on how the counting was done.
"""

from __future__ import annotations

from collections import namedtuple
from math import lgamma, log

import numpy as np
from numba import uint64

from jtsolve.core.compiling import kernel

SMALL = 64
"""Counts below it are tallied in an array; the others, at most rows / SMALL without weights, are sorted."""

BINS_PER_ROW = 4
LEAST_BINS = 4096
"""Bins up to max(LEAST_BINS, BINS_PER_ROW · rows): to clear and scan more would cost more than to hash."""

_GOLDEN = uint64(0x9E3779B97F4A7C15)
"""2^64 / golden ratio: multiplicative hashing (Knuth, The Art of Computer Programming 3, section 6.4)."""


Space = namedtuple(
    "Space",
    [
        "bins",  # shape (max(LEAST_BINS, BINS_PER_ROW · rows),), int64: all zero between two passes
        "keys",  # shape (2^bits,), int64: the hash table, at most half full
        "owner",  # the same shape, int64: a slot is in use if it holds the number, from 1, of the pass
        "place",  # the same shape, int64: the number of the cell with this key
        "shift",  # 64 - bits
        "found",  # shape (rows,), int64: the counts of the occupied cells
        "tally",  # shape (SMALL,), int64: how often each small count occurs; zero between two sets
    ],
)
"""Room to count in; one for each thread."""


@kernel
def make_space(rows):
    """Returns room to count so many rows."""
    bits = 1
    while 1 << bits < 2 * rows:
        bits += 1
    return Space(
        np.zeros(max(LEAST_BINS, BINS_PER_ROW * rows), np.int64),
        np.empty(1 << bits, np.int64),
        np.zeros(1 << bits, np.int64),
        np.empty(1 << bits, np.int64),
        64 - bits,
        np.empty(rows, np.int64),
        np.zeros(SMALL, np.int64),
    )


@kernel(inline="always")
def _slot(key, space, turn):
    """Returns where a key is in the hash table, or the free slot where it belongs."""
    mask = uint64(space.keys.size - 1)
    slot = (uint64(key) * _GOLDEN) >> uint64(space.shift)
    while space.owner[slot] == turn and space.keys[slot] != key:
        slot = (slot + uint64(1)) & mask
    return slot


@kernel
def refine(cells, groups, column, arity, refined, space, turn):
    """Writes the cells of A ∪ {v} to `refined`, and returns how many there are.

    Args:
        cells: shape (rows,), int32: the cells of A.
        groups: how many cells A has.
        column: shape (rows,): the values of v.
        arity: the number of states of v.
        refined: shape (rows,), int32; it may be `cells`.
        space: see `Space`.
        turn: the number of the pass, above 0, another one at every call with this space.
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
def count_cells(cells, groups, column, arity, weights, space, turn):
    """Writes the number of rows of every occupied cell of A ∪ {v} to `found`, and returns how many there are.

    Args:
        cells: see `refine`, here and for the others.
        groups: see there.
        column: see there.
        arity: see there.
        space: see there.
        turn: see there.
        weights: shape (rows,), int64: how often each row counts; or empty: once.
    """
    rows = cells.size
    width = uint64(arity)
    possible = groups * arity
    bins, found = space.bins, space.found
    used = 0
    if possible <= bins.size:
        whole = 0
        if 4 * possible <= bins.size:
            # Four histograms side by side: equal neighbours do not wait for one another's addition.
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
def added(total, lost, term):
    """Returns a sum and what rounding took from it, after one more term (Neumaier 1974)."""
    grown = total + term
    if abs(total) >= abs(term):
        lost += (total - grown) + term
    else:
        lost += (term - grown) + total
    return grown, lost


@kernel
def _term(count, times, pseudo, base):
    """Returns `times` the term of a cell with `count` rows: see `sums_over_cells`."""
    if pseudo > 0:
        return times * (lgamma(count + pseudo) - base)
    return times * (count * log(count))


@kernel
def sum_terms(found, used, pseudo, tally):
    """Returns the sum of the cells' terms; see `sums_over_cells`.

    Args:
        found: shape (at least used,), int64: the counts; their order is changed.
        used: how many there are.
        pseudo: a above 0 for Dirichlet terms, 0 for entropy terms.
        tally: shape (SMALL,), int64, all zero, and left so.
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
            total, lost = added(total, lost, _term(float(count), float(tally[count]), pseudo, base))
            tally[count] = 0
    if large <= SMALL:
        for end in range(1, large):  # by insertion: a few counts are sorted before a sort has begun
            count = found[end]
            at = end
            while at > 0 and found[at - 1] > count:
                found[at] = found[at - 1]
                at -= 1
            found[at] = count
    else:
        found[:large].sort()
    at = 0
    while at < large:
        end = at + 1
        while end < large and found[end] == found[at]:
            end += 1
        total, lost = added(total, lost, _term(float(found[at]), float(end - at), pseudo, base))
        at = end
    return total + lost


@kernel
def sums_over_cells(sets, codes, arities, weights, shared, each):
    """Returns Σ over the occupied cells of a term of their counts m, and the number of all cells, per set.

        Dirichlet (a > 0):  Σ [ ln Γ(m + a) − ln Γ(a) ],  a = shared / cells + each
        entropy (shared = each = 0):  Σ m ln m

    Args:
        sets: shape (count, width), int64: the members of each set in decreasing order, then -1.
        codes: shape (n, rows): the values of each column.
        arities: shape (n,), int64.
        weights: shape (rows,), int64: how often each row counts; or empty: once.
        shared: a pseudo-count that all cells share evenly.
        each: a pseudo-count of every cell.

    Returns:
        Two arrays of shape (count,), float64: the sums, 0 for ∅; and the products of the arities.
    """
    count, width = sets.shape
    rows = codes.shape[1]
    sums = np.zeros(count, np.float64)
    possible = np.ones(count, np.float64)
    space = make_space(rows)
    turn = 0
    cells = np.zeros((max(1, width), rows), np.int32)  # by the number of members: 0 has one cell
    groups = np.ones(max(1, width), np.int64)
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


@kernel
def colex_sets(first, count, n):
    """Returns sets of at most `width` of n variables, one after another in colex order.

    Args:
        first: shape (width,), int64: the first set, its members in decreasing order, then -1.
        count: how many sets; there must be so many.
        n: the number of variables.

    Returns:
        Shape (count, width), int64.
    """
    width = first.size
    sets = np.empty((count, width), np.int64)
    if count == 0:
        return sets
    sets[0] = first
    size = 0
    while size < width and first[size] >= 0:
        size += 1
    for i in range(1, count):
        sets[i] = sets[i - 1]
        row = sets[i]
        if size < width and (size == 0 or row[size - 1] > 0):
            row[size] = 0
            size += 1
            continue
        # The smallest member moves up by one; where it would meet the next, it goes and that one moves.
        while True:
            above = n if size == 1 else row[size - 2]
            if row[size - 1] + 1 < above:
                row[size - 1] += 1
                break
            size -= 1
            row[size] = -1
    return sets
