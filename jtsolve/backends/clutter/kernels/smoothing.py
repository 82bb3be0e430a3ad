"""The smoothed bound and its gradient, over a collection of sets; see `smoothing`.

Sets are positions, as in `kernels.clutters`.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel

_NOTHING = -14.0
"""Exponents below it are left out, shares of 10^-6: with all of them, gradients took four times as long."""


@kernel
def add_prices(total, words, weights, first, last):
    """total(A) += Σ of the weights of the up-sets that contain A, for the sets from `first` to `last` - 1.

    Args:
        total: shape (count,), float64.
        words: shape (at least weights/64, count), uint64: up-set c is bit c % 64 of word c // 64.
        weights: shape (up-sets,), float64.
        first: see above.
        last: see above.
    """
    table = np.zeros((8, 256), np.float64)
    for word in range((weights.size + 63) // 64):
        for byte in range(8):
            for bit in range(8):
                c = 64 * word + 8 * byte + bit
                weight = weights[c] if c < weights.size else 0.0
                for pattern in range(1 << bit):
                    table[byte, pattern | 1 << bit] = table[byte, pattern] + weight
        if table[:, 255].any():
            row = words[word]
            for at in range(first, last):
                left = row[at]
                gain = 0.0
                for byte in range(8):
                    gain += table[byte, left & np.uint64(255)]
                    left >>= np.uint64(8)
                total[at] += gain


@kernel
def smoothed_maxima(values, members, facets, sizes, allowed, n, temperature):
    """Returns τ ln Σ_P exp((values(P∪v) − values(P)) / τ) for every vertex v, and the families' shares x.

    Args:
        values: shape (count,), float64.
        members: shape (count, width), int32.
        facets: shape (count, width), int32.
        sizes: shape (count,), int32.
        allowed: shape (count, width), bool.
        n: the number of vertices; one without a family has -inf.
        temperature: τ > 0.

    Returns:
        Shape (n,), and shape (count, width) with sum 1 for each vertex that has a family.
    """
    most = np.full(n, -np.inf)
    share = np.zeros(allowed.shape, np.float64)
    for at in range(values.size):
        for j in range(sizes[at]):
            if allowed[at, j]:
                v = members[at, j]
                most[v] = max(most[v], values[at] - values[facets[at, j]])
    total = np.zeros(n)
    for at in range(values.size):
        for j in range(sizes[at]):
            if allowed[at, j]:
                v = members[at, j]
                exponent = (values[at] - values[facets[at, j]] - most[v]) / temperature
                if exponent > _NOTHING:
                    share[at, j] = np.exp(exponent)
                    total[v] += share[at, j]
    for at in range(values.size):
        for j in range(sizes[at]):
            if share[at, j] > 0:
                share[at, j] /= total[members[at, j]]
    return most + temperature * np.log(np.maximum(total, 1.0)), share


@kernel
def crossings_of_shares(words, count, share, facets, first, last):
    """Returns for each of the first `count` up-sets the total share of the families that enter it.

    Args:
        words: shape (at least count/64, sets), uint64.
        count: the number of up-sets.
        share: shape (sets, width), float64.
        facets: shape (sets, width), int32.
        first: of the words to look at; the others' up-sets get 0.
        last: one more than the last of them.
    """
    union, slot = np.nonzero(share)
    found = np.zeros(count, np.float64)
    for word in range(first, last):
        row = words[word]
        for k in range(union.size):
            at, j = union[k], slot[k]
            left = row[at] & ~row[facets[at, j]]
            c = 64 * word
            while left != 0:
                if left & np.uint64(255) == 0:
                    left >>= np.uint64(8)
                    c += 8
                else:
                    if left & np.uint64(1) != 0:
                        found[c] += share[at, j]
                    left >>= np.uint64(1)
                    c += 1
    return found
