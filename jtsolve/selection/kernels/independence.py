"""Tests of conditional independence: partial correlations along Algorithm 4, and held-out likelihoods."""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from jtsolve.core.compiling import kernel


@kernel(allocates=False)
def partial_correlation(correlation, i, j, given, size, factor):
    """Returns ρ_ij|S, or 2 if the matrix of S, i and j is singular.

    Args:
        correlation: shape (m, m).
        i: a vertex.
        j: another.
        given: int64; its first `size` entries are S.
        size: |S|.
        factor: room for a Cholesky factor, shape (size + 2, size + 2) or more.
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
    """Tells whether some S of this size among the first `count` of `around` has |ρ_ij|S| below the threshold.

    `given`, `places` and `factor` are room for S, its places and a Cholesky factor.
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
def prune(correlation, graph, candidates, thresholds, stable, both):
    """Algorithm 4 of Vats and Nowak: deletes candidates that a set of few neighbours separates.

    Args:
        correlation: shape (m, m).
        graph: bool, shape (m, m): H; changed.
        candidates: bool, shape (m, m), within H; changed.
        thresholds: for each size of S from 0: |ρ| below it is independence.
        stable: whether the neighbours are those at the beginning of each size.
        both: whether S is sought among the neighbours of either end, not of the one with fewer.
    """
    m = correlation.shape[0]
    deepest = len(thresholds)
    around = np.empty(m, np.int64)
    given = np.empty(deepest + 1, np.int64)
    places = np.empty(deepest + 1, np.int64)
    factor = np.empty((deepest + 2, deepest + 2))
    for size in range(deepest):
        seen = graph.copy() if stable else graph
        enough = False
        for i in range(m):
            for j in range(i + 1, m):
                if not candidates[i, j]:
                    continue
                at_i, at_j = 0, 0
                for k in range(m):
                    at_i += seen[i, k]
                    at_j += seen[j, k]
                first = i if at_i <= at_j else j
                for turn in range(2 if both else 1):
                    end = first if turn == 0 else i + j - first
                    count = 0
                    for k in range(m):
                        if seen[end, k] and k != i and k != j:  # noqa: PLR1714 - as numba has it fast
                            around[count] = k
                            count += 1
                    if count < size:
                        continue
                    enough = True
                    if separated(
                        correlation, i, j, around, count, size, thresholds[size], given, places, factor
                    ):
                        candidates[i, j] = candidates[j, i] = False
                        graph[i, j] = graph[j, i] = False
                        break
        if not enough:
            break


@kernel
def dependent_out_of_sample(values, columns, folds, count):
    """Tells whether correlating the first two columns given the others fits held-out rows better, each time.

    Repeated cross-validation of the Gaussian likelihood of (X_i, X_j | X_S) with and without a correlation.

    Args:
        values: shape (m, rows).
        columns: int64: i, j, then S.
        folds: int64, shape (times, rows): the fold of each row in each repetition.
        count: the number of folds.
    """
    d = len(columns)
    rows = values.shape[1]
    m = d - 2
    for time in range(folds.shape[0]):
        sizes = np.zeros(count)
        sums = np.zeros((count, d))
        squares = np.zeros((count, d, d))
        for r in range(rows):
            f = folds[time, r]
            sizes[f] += 1
            for a in range(d):
                x = values[columns[a], r]
                sums[f, a] += x
                for b in range(a + 1):
                    squares[f, a, b] += x * values[columns[b], r]
        gain = 0.0
        for f in range(count):
            train = np.empty((d, d))
            test = np.empty((d, d))
            for a in range(d):
                for b in range(a + 1):
                    inside, outside = sizes[f], 0.0
                    one, other, product = 0.0, 0.0, 0.0
                    for g in range(count):
                        if g != f:
                            outside += sizes[g]
                            one += sums[g, a]
                            other += sums[g, b]
                            product += squares[g, a, b]
                    train[a, b] = train[b, a] = product / outside - one * other / outside**2
                    held = squares[f, a, b] / inside - sums[f, a] * sums[f, b] / inside**2
                    test[a, b] = test[b, a] = held
            left, held = train[:2, :2].copy(), test[:2, :2].copy()
            if m:
                slope = np.linalg.solve(train[2:, 2:].copy(), train[2:, :2].copy())
                left -= train[:2, 2:].copy() @ slope
                cross = slope.T.copy() @ test[2:, :2].copy()
                held += slope.T.copy() @ test[2:, 2:].copy() @ slope - cross - cross.T
            determinant = left[0, 0] * left[1, 1] - left[0, 1] ** 2
            joint = left[1, 1] * held[0, 0] - 2 * left[0, 1] * held[0, 1] + left[0, 0] * held[1, 1]
            gain += sizes[f] * (
                log(left[0, 0] * left[1, 1] / determinant)
                + held[0, 0] / left[0, 0]
                + held[1, 1] / left[1, 1]
                - joint / determinant
            )
        if not gain > 0.0:
            return False
    return True
