"""Searches of families with two parents among all sets of three binary columns."""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, zeros
from jtsolve.scoring.kernels.bitcounting import common, ones

_WORDS_PER_STEP = 4.0
"""Number of words that are counted in the time of one column of a row."""


@kernel
def best_thirds(
    columns,
    counts,
    terms,
    rest,
    varies,
    single,
    pairs,
    near,
    apart,
    across,
    linked,
    floor,
    listed,
    c,
    best,
    third,
    found,
    starts,
    ones_of_row,
):
    """Finds families (v, {a,b}) with values above floor[v] in the sets whose greatest member is c.

    The value is s(vab) − s(ab) − s(v) + min(apart[v,a], apart[v,b]) + linked[v,a] + linked[v,b].

    Args:
        columns: shape (n, words), uint64: the rows with value 1.
        counts: shape (n, n), int64: numbers of rows with both values 1.
        terms: shape (rows + 1,): m ln m.
        rest: of the score of three columns.
        varies: shape (n,), bool: whether a column has two values; sets with constant columns are left out.
        single: shape (n,): s(v).
        pairs: shape (n, n): s(ab) − s(a) − s(b).
        near: shape (n, n), bool: sets without a near pair are left out.
        apart: shape (n, n).
        across: shape (n, n): `apart` transposed.
        linked: shape (n, n), symmetric.
        floor: shape (n,).
        listed: shape (C(n, 3) / 8 bytes,), uint8: a bit for each set in colex order; 1 leaves it out.
        c: a column.
        best: shape (n, n), on entry at least `floor`: receives the best values for v and a beyond `found`.
        third: shape (n, n), int32: receives b of these.
        found: shape (room, 2), int32: receives a and b of the first sets with a family above `floor`.
        starts: shape (rows + 1,): the first of the columns with value 1 of each row.
        ones_of_row: these columns, increasing.

    Returns:
        The number of sets in `found`.
    """
    filled = 0
    rows, words = terms.size - 1, columns.shape[1]
    both, threes = empty(words, np.uint64), zeros(c, np.int64)
    in_row = ones_of_row.size / rows
    n_c = counts[c, c]
    for b in range(1, c):
        if not (varies[b] and varies[c]):
            continue
        n_b, n_bc = counts[b, b], counts[b, c]
        for word in range(words):
            both[word] = columns[b, word] & columns[c, word]
        # If few rows have b and c, and few columns, these rows are visited one by one.
        by_row = n_bc * in_row + words < b * words / _WORDS_PER_STEP
        if by_row and n_bc:
            threes[:b] = 0
            for word in range(words):
                left = both[word]
                while left:
                    row = 64 * word + np.int64(ones(~left & (left - np.uint64(1))))
                    left &= left - np.uint64(1)
                    for at in range(starts[row], starts[row + 1]):
                        if ones_of_row[at] >= b:
                            break
                        threes[ones_of_row[at]] += 1
        base = n_b + n_c - n_bc
        own = single[b] + single[c]
        rank = c * (c - 1) * (c - 2) // 6 + b * (b - 1) // 2
        for a in range(b):
            if not (varies[a] and (near[b, c] or near[b, a] or near[c, a])):
                continue
            n_a, n_ab, n_ac = counts[a, a], counts[b, a], counts[c, a]
            m = np.int64(0)
            if n_bc and n_ab and n_ac:
                m = threes[a] if by_row else common(both, columns[a])
            outside = n_a - n_ab - n_ac + m
            total = (
                terms[m] + terms[n_ab - m] + terms[n_ac - m] + terms[n_bc - m]
                + terms[outside] + terms[n_b - n_ab - n_bc + m] + terms[n_c - n_ac - n_bc + m]
                + terms[rows - base - outside]
                + rest - own - single[a]
            )  # fmt: skip
            of_a = total - pairs[b, c] + min(across[b, a], across[c, a]) + linked[b, a] + linked[c, a]
            of_b = total - pairs[c, a] + min(apart[b, a], apart[b, c]) + linked[b, a] + linked[b, c]
            of_c = total - pairs[b, a] + min(apart[c, a], apart[c, b]) + linked[c, a] + linked[c, b]
            if of_a <= floor[a] and of_b <= floor[b] and of_c <= floor[c]:
                continue
            if listed[(rank + a) >> 3] >> ((rank + a) & 7) & 1:
                continue
            if filled < len(found):
                found[filled, 0], found[filled, 1] = a, b
                filled += 1
                continue
            for v, u, w, value in ((a, b, c, of_a), (b, a, c, of_b), (c, a, b, of_c)):
                if value > best[v, u]:
                    best[v, u] = value
                    third[v, u] = w
                if value > best[v, w]:
                    best[v, w] = value
                    third[v, w] = u
    return filled


@kernel
def common_counts(columns):
    """Returns the number of rows in which both of two columns are 1, shape (n, n), int64."""
    n = columns.shape[0]
    counts = zeros((n, n), np.int64)
    for a in range(n):
        for b in range(a + 1):
            counts[a, b] = counts[b, a] = common(columns[a], columns[b])
    return counts
