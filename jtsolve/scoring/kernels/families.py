"""Least variances of columns given sets of others, by successive conditioning."""

from __future__ import annotations

from math import inf

import numpy as np

from jtsolve.core.compiling import kernel


@kernel
def least_priced(correlation, prices, place, pair_prices, size, first, least, chosen):
    """Minimises σ²(v | P) Π_{u ∈ P} prices(u, v) Π_{a, b ∈ P} pair_prices(ab, v) for each v.

    P has `size` columns, with `first` as the least.

    Args:
        correlation: shape (n, n), float64, with unit diagonal.
        prices: shape (n, n), float64: symmetric, above 0; large on the diagonal.
        place: shape (n, n), int64: symmetric, the row of each pair in `pair_prices`; 0 for none.
        pair_prices: shape (rows, n), float64, above 0; row 0 is not used.
        size: at least 1.
        first: a column.
        least: shape (n,), float64, inf on entry: receives the minima, less a bound of the rounding error.
        chosen: shape (n, size), int64: receives the sets that attain them.
    """
    n = correlation.shape[0]
    levels = max(1, size - 1)
    # At level l: covariances given the first l members, products of their prices, determinant of their
    # correlations.
    conditioned = np.empty((levels, n, n))
    conditioned[0] = correlation
    factors = np.ones((levels + 1, n))
    shares = np.ones(levels + 1)
    members = np.full(size, -1, np.int64)
    row, base, value, joint = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    members[0] = first
    level = 0
    while level >= 0:
        b = members[level]
        if b > n - size + level:
            level -= 1
            if level < 1:
                break
            members[level] += 1
            continue
        pivot = conditioned[level, b, b]
        share = shares[level] * pivot
        if share > 1e-10:
            inner = conditioned[level]
            if size == 1:
                error = 1e-13 / share
                for v in range(n):
                    r = (1.0 - inner[b, v] * inner[b, v] - error) * prices[b, v]
                    if v != b and r < least[v]:
                        least[v] = r
                        chosen[v, 0] = b
                break
            factors[level + 1] = factors[level] * prices[b]
            for at in range(level):
                if place[members[at], b]:
                    factors[level + 1] *= pair_prices[place[members[at], b]]
            if level < size - 2:
                for i in range(n):
                    x = inner[i, b] / pivot
                    for j in range(n):
                        conditioned[level + 1, i, j] = inner[i, j] - x * inner[b, j]
                shares[level + 1] = share
                level += 1
                members[level] = b + 1
                continue
            error = 1e-13 / share
            product = factors[level + 1]
            for v in range(n):
                row[v] = inner[b, v]
                base[v] = inner[v, v] - row[v] * row[v] / pivot
            for at in range(size - 1):
                base[members[at]] = 1.0
            for c in range(b + 1, n):
                x = inner[b, c] / pivot
                rest = inner[c, c] - x * inner[b, c]
                if share * rest <= 1e-10:
                    continue
                inverse = 1.0 / rest
                other, price = inner[c], prices[c]
                for at in range(size - 1):
                    if place[members[at], c]:
                        joint[:] = price * pair_prices[place[members[at], c]]
                        price = joint
                better = 0
                for v in range(n):
                    t = other[v] - x * row[v]
                    r = (base[v] - (t * t + error) * inverse) * product[v] * price[v]
                    value[v] = r
                    better += r < least[v]
                value[c] = inf
                if better:
                    for v in range(n):
                        if value[v] < least[v]:
                            least[v] = value[v]
                            for at in range(size - 1):
                                chosen[v, at] = members[at]
                            chosen[v, size - 1] = c
        if level == 0:
            break
        members[level] += 1
