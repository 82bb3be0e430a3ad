"""Log determinants of principal submatrices, by Cholesky factors that share their first rows."""

from __future__ import annotations

from math import log, nan, sqrt

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, filled, zeros


@kernel
def log_determinants(sets, matrix, least):
    """Returns ln det of the submatrix of each set; 0 for ∅, NaN for a singular matrix.

    Row j of the factor depends on the first j + 1 members only: the rows of a prefix shared with the previous
    set are reused.

    Args:
        sets: shape (count, width), int64: the members of each set in decreasing order, then -1.
        matrix: shape (n, n), float64: symmetric.
        least: least pivot of a regular submatrix, relative to its diagonal element.
    """
    count, width = sets.shape
    factor = zeros((max(1, width), max(1, width)), np.float64)
    partial = zeros(width + 1, np.float64)
    kept = filled(max(1, width), np.int64, -1)
    valid = 0
    logs = empty(count, np.float64)
    for i in range(count):
        size = 0
        while size < width and sets[i, size] >= 0:
            size += 1
        same = 0
        while same < min(valid, size) and kept[same] == sets[i, same]:
            same += 1
        for j in range(same, size):
            v = sets[i, j]
            pivot = matrix[v, v]
            for k in range(j):
                value = matrix[v, sets[i, k]]
                for other in range(k):
                    value -= factor[j, other] * factor[k, other]
                factor[j, k] = value / factor[k, k]
                pivot -= factor[j, k] * factor[j, k]
            # NaN propagates to all sets with this prefix, whose matrices are singular too.
            factor[j, j] = sqrt(pivot) if pivot > least * matrix[v, v] else nan
            partial[j + 1] = partial[j] + (2.0 * log(factor[j, j]) if factor[j, j] > 0 else nan)
            kept[j] = v
        valid = size
        logs[i] = partial[size]
    return logs
