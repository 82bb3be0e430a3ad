"""Moments of real columns within the cells of discrete ones."""

from __future__ import annotations

from math import log, nan, sqrt

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, filled, zeros
from jtsolve.scoring.kernels.cholesky import log_determinants


@kernel
def variances(cell, counts, values):
    """Returns the means and sums of squared deviations of columns within cells, each (cells, columns).

    Values are relative to the first row of each cell, since rows far from 0 may be close to each other.

    Args:
        cell: shape (rows,), int64: the cell of each row.
        counts: shape (cells,): the numbers of rows, above 0.
        values: shape (rows, columns), contiguous.
    """
    rows, m = values.shape
    cells = counts.size
    first = filled(cells, np.int64, -1)
    sums = zeros((cells, m), np.float64)
    squares = zeros((cells, m), np.float64)
    for r in range(rows):
        i = cell[r]
        if first[i] < 0:
            first[i] = r
        origin = first[i]
        for j in range(m):
            x = values[r, j] - values[origin, j]
            sums[i, j] += x
            squares[i, j] += x * x
    for i in range(cells):
        for j in range(m):
            squares[i, j] -= sums[i, j] * sums[i, j] / counts[i]
            sums[i, j] = sums[i, j] / counts[i] + values[first[i], j]
    return sums, squares


@kernel
def scatters(cell, counts, values):
    """Returns the means of columns within cells, shape (cells, columns), and their scatter matrices.

    These have shape (cells, columns, columns). See `variances`.
    """
    rows, m = values.shape
    cells = counts.size
    first = filled(cells, np.int64, -1)
    sums = zeros((cells, m), np.float64)
    products = zeros((cells, m, m), np.float64)
    x = empty(m, np.float64)
    for r in range(rows):
        i = cell[r]
        if first[i] < 0:
            first[i] = r
        origin = first[i]
        for j in range(m):
            x[j] = values[r, j] - values[origin, j]
            sums[i, j] += x[j]
        for j in range(m):
            for k in range(j + 1):
                products[i, j, k] += x[j] * x[k]
    for i in range(cells):
        for j in range(m):
            for k in range(j + 1):
                products[i, j, k] -= sums[i, j] * sums[i, k] / counts[i]
                products[i, k, j] = products[i, j, k]
        for j in range(m):
            sums[i, j] = sums[i, j] / counts[i] + values[first[i], j]
    return sums, products


@kernel
def weighted_log_determinants(sets, matrices, weights, least):
    """Returns Σ_i w_i ln det of the submatrix of M_i of each set; NaN if one is singular.

    Args:
        sets: shape (count, width); see `log_determinants`.
        matrices: shape (cells, n, n).
        weights: shape (cells, width + 1): w_i of sets of each size.
        least: see `log_determinants`.
    """
    count, width = sets.shape
    found = zeros(count, np.float64)
    sizes = zeros(count, np.int64)
    for i in range(count):
        for j in range(width):
            sizes[i] += sets[i, j] >= 0
    for cell in range(matrices.shape[0]):
        logs = log_determinants(sets, matrices[cell], least)
        for i in range(count):
            found[i] += weights[cell, sizes[i]] * logs[i]
    return found


@kernel
def weighted_logs(diagonals, weights):
    """Returns Σ_i w_i ln x_i of each column, rounded as `weighted_log_determinants`; NaN unless all x_i > 0.

    Args:
        diagonals: shape (cells, columns).
        weights: shape (cells,).
    """
    cells, m = diagonals.shape
    found = zeros(m, np.float64)
    for i in range(cells):
        for j in range(m):
            root = sqrt(diagonals[i, j]) if diagonals[i, j] > 0 else nan
            found[j] += weights[i] * (2.0 * log(root))
    return found
