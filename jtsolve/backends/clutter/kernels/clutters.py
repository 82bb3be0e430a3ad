"""Up-sets over a collection of sets, set functions with multipliers, and best families.

Sets are positions; `facets[A, j]` is the position of A without its j-th member, and precedes A.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, filled, zeros


@kernel
def spread_up(words, facets, sizes):
    """words(A) |= words(A∖v) for all v ∈ A, in place: 64 up-sets at once, one in each bit.

    Args:
        words: shape (count,), uint64; on entry, the generators of an up-set have its bit.
        facets: shape (count, width), int32.
        sizes: shape (count,), int32.
    """
    # Facets precede their supersets, so that their words are complete.
    for at in range(words.size):
        word = words[at]
        for j in range(sizes[at]):
            word |= words[facets[at, j]]
        words[at] = word


@kernel
def add_pairs(total, members, sizes, weights):
    """total(A) += Σ over the pairs u < v of A of weights(u,v).

    Args:
        total: shape (count,), int64.
        members: shape (count, width), int32.
        sizes: shape (count,), int32.
        weights: shape (n, n), int64.
    """
    for at in range(total.size):
        for i in range(sizes[at]):
            for j in range(i + 1, sizes[at]):
                total[at] += weights[members[at, i], members[at, j]]


@kernel
def within_reduced_cost(allowed, values, members, facets, sizes, best, most):
    """Returns which allowed families (v,P) have reduced cost best(v) − (values(P∪v) − values(P)) ≤ most."""
    kept = np.zeros_like(allowed)
    for at in range(values.size):
        for j in range(sizes[at]):
            if allowed[at, j]:
                kept[at, j] = values[at] - values[facets[at, j]] >= best[members[at, j]] - most
    return kept


@kernel
def best_families(values, members, facets, sizes, allowed, n, least):
    """Returns for each vertex v the maximum of values(P∪v) − values(P) over its allowed families.

    The maximum is `least` without a family; the family that attains it is the position of P∪v and the slot of
    v, returned as two more arrays of shape (n,).
    """
    best = filled(n, np.int64, least)
    union = zeros(n, np.int64)
    slot = zeros(n, np.int64)
    for at in range(values.size):
        for j in range(sizes[at]):
            if allowed[at, j]:
                value = values[at] - values[facets[at, j]]
                v = members[at, j]
                if value > best[v]:
                    best[v] = value
                    union[v] = at
                    slot[v] = j
    return best, union, slot


@kernel
def _weight_tables(weights, words):
    """Returns the weights of all bit patterns of each byte of each word, shape (words, 8, 256)."""
    tables = zeros((words, 8, 256), weights.dtype)
    for word in range(words):
        for byte in range(8):
            for pattern in range(1, 256):
                # The sum of the pattern without its lowest bit, plus the weight of that bit.
                low = pattern & -pattern
                bit = 0
                while low >> bit != 1:
                    bit += 1
                c = 64 * word + 8 * byte + bit
                gain = weights[c] if c < weights.size else 0
                tables[word, byte, pattern] = tables[word, byte, pattern ^ low] + gain
    return tables


@kernel
def add_multipliers(total, words, weights, first, last):
    """total(A) += Σ of the weights of the up-sets that contain A, for the sets from `first` to `last` - 1.

    Args:
        total: shape (count,), int64 or float64.
        words: shape (at least weights/64, count), uint64: up-set c is bit c % 64 of word c // 64.
        weights: shape (up-sets,), of the same type.
    """
    tables = _weight_tables(weights, (weights.size + 63) // 64)
    for number in range(tables.shape[0]):
        table, row = tables[number], words[number]
        if not table.any():
            continue
        for at in range(first, last):
            word = row[at]
            gain = table[0, 0]  # 0 of the table's type
            for byte in range(8):
                gain += table[byte, word & np.uint64(255)]
                word >>= np.uint64(8)
            total[at] += gain


@kernel
def crossings(words, count, union, parents, x):
    """Returns for each of the first `count` up-sets the total x of the families that enter it."""
    found = zeros(count, np.float64)
    for word in range((count + 63) // 64):
        row = words[word]
        for k in range(union.size):
            # Bits of the up-sets with P∪v but not P, which the family enters.
            left = row[union[k]] & ~row[parents[k]]
            c = 64 * word
            while left:
                # Few bits are set: empty bytes are skipped.
                if left & np.uint64(255) == 0:
                    left >>= np.uint64(8)
                    c += 8
                else:
                    if left & np.uint64(1):
                        found[c] += x[k]
                    left >>= np.uint64(1)
                    c += 1
    return found


@kernel
def grow(members, facets, sizes, allowed, priority, root, n):
    """Builds a perfect order from the root greedily, by the family of highest priority.

    Args:
        members: shape (count, width), int32.
        facets: shape (count, width), int32.
        sizes: shape (count,), int32.
        allowed: shape (count, width), bool.
        priority: shape (count, width), float64.
        root: the first vertex.
        n: the number of variables.

    Returns:
        The positions of P∪v and the slots of v, in order; fewer than n if no family fits any more.
    """
    placed = zeros(n, np.bool_)
    complete = zeros(sizes.size, np.bool_)
    # Invariant: `complete` marks the sets that are complete in the graph so far. The order stays perfect with
    # a family whose P is complete and whose v is not placed.
    complete[0] = True
    union = zeros(n, np.int64)
    slot = zeros(n, np.int64)
    stack = empty(sizes.size, np.int64)
    for step in range(n):
        best = -np.inf
        for at in range(1, sizes.size):
            for j in range(sizes[at]):
                v = members[at, j]
                if (
                    allowed[at, j]
                    and not placed[v]
                    and complete[facets[at, j]]
                    and priority[at, j] > best
                    and (step > 0 or v == root)
                ):
                    best = priority[at, j]
                    union[step] = at
                    slot[step] = j
        if best == -np.inf:
            return union[:step], slot[:step]
        at = union[step]
        placed[members[at, slot[step]]] = True
        complete[at] = True
        stack[0] = at
        # All subsets of P∪v are complete now.
        top = 1
        while top > 0:
            top -= 1
            at = stack[top]
            for j in range(sizes[at]):
                facet = facets[at, j]
                if not complete[facet]:
                    complete[facet] = True
                    stack[top] = facet
                    top += 1
    return union, slot
