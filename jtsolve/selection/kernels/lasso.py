"""The graphical lasso with a penalty for each pair, and lasso regressions of all vertices, by coordinates.

References:
    J. Friedman, T. Hastie, R. Tibshirani, Sparse inverse covariance estimation with the graphical lasso,
    Biostatistics 9, 2008.
    R. Mazumder, T. Hastie, The graphical lasso: new insights and alternatives, Electronic Journal of
    Statistics 6, 2012 (a start that is positive definite and within the penalties stays so).
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, zeros


@kernel
def linked_parts(covariance, penalty):
    """Returns the vertices by component of the graph of |S_ij| > λ_ij, and where each component begins.

    Args:
        covariance: S, shape (m, m).
        penalty: λ, shape (m, m).
    """
    m = covariance.shape[0]
    order = empty(m, np.int64)
    begins = [0]
    seen = zeros(m, np.bool_)
    count = 0
    for first in range(m):
        if seen[first]:
            continue
        at = count
        order[count] = first
        seen[first] = True
        count += 1
        while at < count:
            i = order[at]
            at += 1
            for j in range(m):
                if not seen[j] and abs(covariance[i, j]) > penalty[i, j]:
                    order[count] = j
                    seen[j] = True
                    count += 1
        order[begins[-1] : count].sort()
        begins.append(count)
    return order, begins


@kernel
def descend(gram, target, penalty, free, count, slopes, image, tolerance, rounds):
    """Minimises b' G b / 2 − c' b + Σ λ_k |b_k| over the free coordinates, from the slopes given.

    Rounds over the non-zero coordinates alternate with rounds over all.

    Args:
        gram: G, shape (m, m).
        target: c, shape (m,).
        penalty: λ, shape (m,).
        free: int64; its first `count` entries are the coordinates that may differ from 0.
        count: their number.
        slopes: b, shape (m,); changed.
        image: G b at the free coordinates, shape (m,); changed.
        tolerance: on the change of a slope.
        rounds: maximum number of rounds.
    """
    everything = True
    for _ in range(rounds):
        change = 0.0
        for a in range(count):
            k = free[a]
            old = slopes[k]
            if not everything and old == 0.0:
                continue
            rest = target[k] - image[k] + gram[k, k] * old
            if rest > penalty[k]:
                new = (rest - penalty[k]) / gram[k, k]
            elif rest < -penalty[k]:
                new = (rest + penalty[k]) / gram[k, k]
            else:
                new = 0.0
            step = new - old
            if step != 0.0:
                slopes[k] = new
                for b in range(count):
                    image[free[b]] += gram[free[b], k] * step
                change = max(change, abs(step))
        if change < tolerance:
            if everything:
                return
            everything = True
        else:
            everything = False


@kernel
def block_descent(covariance, penalty, estimate, slopes, tolerance, sweeps):
    """Minimises tr(S Θ) − ln det Θ + Σ_{i≠j} λ_ij |Θ_ij|; returns the number of sweeps, -1 if not converged.

    Column j of Θ is Θ_jj times (1, −b_j), where b_j is a lasso regression on the other columns of W = Θ⁻¹.

    Args:
        covariance: S, shape (m, m).
        penalty: λ, shape (m, m), symmetric: 0 for free, inf for Θ_ij = 0.
        estimate: W, positive definite with |W − S| ≤ λ and the diagonal of S; changed.
        slopes: b, row j that of column j; changed.
        tolerance: on the change of W in a sweep.
        sweeps: maximum number of sweeps.
    """
    m = covariance.shape[0]
    free = empty((m, m), np.int64)
    counts = zeros(m, np.int64)
    for j in range(m):
        for k in range(m):
            if k != j and penalty[k, j] < np.inf:
                free[j, counts[j]] = k
                counts[j] += 1
    image = empty(m, np.float64)
    for sweep in range(sweeps):
        change = 0.0
        for j in range(m):
            own = slopes[j]
            count = counts[j]
            for a in range(count):
                image[free[j, a]] = 0.0
            for a in range(count):
                k = free[j, a]
                if own[k] != 0.0:
                    for b in range(count):
                        image[free[j, b]] += estimate[free[j, b], k] * own[k]
            descend(estimate, covariance[j], penalty[j], free[j], count, own, image, 0.1 * tolerance, 10_000)
            for i in range(m):
                image[i] = 0.0
            for a in range(count):
                k = free[j, a]
                if own[k] != 0.0:
                    row = estimate[k]
                    for i in range(m):
                        image[i] += row[i] * own[k]
            for i in range(m):
                if i != j:
                    change = max(change, abs(estimate[i, j] - image[i]))
                    estimate[i, j] = image[i]
                    estimate[j, i] = image[i]
        if change < tolerance:
            return sweep + 1
    return -1


@kernel
def regressions(correlation, graph, penalty, regressed, slopes, tolerance):
    """Lasso regressions of vertices on their neighbours.

    Args:
        correlation: R, shape (m, m).
        graph: bool, shape (m, m): the permitted neighbours.
        penalty: λ, shape (m, m); row j is that of the regression of j.
        regressed: bool, shape (m,): the vertices to regress.
        slopes: shape (m, m), row j the initial slopes of j; changed.
        tolerance: on the change of a slope.
    """
    m = correlation.shape[0]
    free = empty(m, np.int64)
    image = empty(m, np.float64)
    for j in range(m):
        if not regressed[j]:
            continue
        count = 0
        for k in range(m):
            if graph[j, k]:
                free[count] = k
                image[k] = 0.0
                count += 1
        own = slopes[j]
        for a in range(count):
            k = free[a]
            if own[k] != 0.0:
                for b in range(count):
                    image[free[b]] += correlation[free[b], k] * own[k]
        descend(correlation, correlation[j], penalty[j], free, count, own, image, tolerance, 10_000)
