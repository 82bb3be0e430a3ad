"""Tests of conditional independence by partial correlations, along Algorithm 4."""

from __future__ import annotations

from math import sqrt

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty


@kernel(inline="always", allocates=False)
def partial_correlation(correlation, i, j, given, size, factor):
    """Returns ρ_ij|S, or 2 if the matrix of S, i and j is singular.

    Args:
        correlation: shape (m, m).
        i: first vertex.
        j: second vertex.
        given: int64; its first `size` entries are S.
        size: |S|.
        factor: workspace for a Cholesky factor, shape (size + 2, size + 2) or more.
    """
    for a in range(size + 2):
        u = given[a] if a < size else (i if a == size else j)
        pivot = correlation[u, u]
        for b in range(a):
            v = given[b] if b < size else i
            value = correlation[u, v]
            for c in range(b):
                value -= factor[a, c] * factor[b, c]
            factor[a, b] = value / factor[b, b]
            pivot -= factor[a, b] * factor[a, b]
        if not pivot > 1e-12 * correlation[u, u]:
            return 2.0
        factor[a, a] = sqrt(pivot)
    cross, rest = factor[size + 1, size], factor[size + 1, size + 1]
    return cross / sqrt(cross * cross + rest * rest)


@kernel(allocates=False)
def separated(correlation, i, j, around, count, size, threshold, given, places, factor):
    """Returns whether an S of this size among the first `count` of `around` has |ρ_ij|S| below the threshold.

    `given`, `places` and `factor` are workspaces for S, its positions and a Cholesky factor.
    """
    for a in range(size):
        places[a] = a
    while True:
        for a in range(size):
            given[a] = around[places[a]]
        if abs(partial_correlation(correlation, i, j, given, size, factor)) < threshold:
            return True
        last = size - 1
        while last >= 0 and places[last] == count - size + last:
            last -= 1
        if last < 0:
            return False
        places[last] += 1
        for a in range(last + 1, size):
            places[a] = places[a - 1] + 1


@kernel
def prune_candidates(correlation, graph, candidates, thresholds):
    """Algorithm 4 of Vats and Nowak: deletes candidates that a set of few neighbours separates.

    Args:
        correlation: shape (m, m).
        graph: bool, shape (m, m): H; changed.
        candidates: bool, shape (m, m), within H; changed.
        thresholds: for each size of S from 0: |ρ| below it is independence.
    """
    m = correlation.shape[0]
    deepest = len(thresholds)
    around = empty(m, np.int64)
    given = empty(deepest + 1, np.int64)
    places = empty(deepest + 1, np.int64)
    factor = empty((deepest + 2, deepest + 2), np.float64)
    for size in range(deepest):
        seen = graph.copy()  # PC-stable: the neighbours at the beginning of each size
        enough = False
        for i in range(m):
            for j in range(i + 1, m):
                if not candidates[i, j]:
                    continue
                at_i, at_j = 0, 0
                for k in range(m):
                    at_i += seen[i, k]
                    at_j += seen[j, k]
                end = i if at_i <= at_j else j
                count = 0
                for k in range(m):
                    if seen[end, k] and k != i and k != j:  # noqa: PLR1714 - faster in numba than a tuple
                        around[count] = k
                        count += 1
                if count < size:
                    continue
                enough = True
                if separated(correlation, i, j, around, count, size, thresholds[size], given, places, factor):
                    candidates[i, j] = candidates[j, i] = False
                    graph[i, j] = graph[j, i] = False
        if not enough:
            break
