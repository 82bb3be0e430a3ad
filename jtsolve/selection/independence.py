"""Tests of conditional independence: Fisher's z of numbers, the G test of states.

A test at level α decides whether X_i and X_j are independent given X_S. For states, over the strata s of S,
with o observed and e expected counts,

    G = 2 Σ o ln(o / e),   degrees of freedom Σ_s (rows_s − 1)(columns_s − 1),

where empty rows and columns of a stratum are left out.

References:
    R. A. Fisher, On the probable error of a coefficient of correlation, Metron 1, 1921.
    P. Spirtes, C. Glymour, R. Scheines, Causation, Prediction, and Search, 2nd edition, MIT 2000 (G²).
"""

from __future__ import annotations

from math import sqrt, tanh
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.selection.samples import DiscreteSample


def thresholds(level: float, rows: int, depth: int) -> NDArray[np.float64]:
    """Returns the critical values of |ρ_ij|S| for |S| = 0..depth: smaller ones count as independence.

    The result has shape (depth + 1,).

    Args:
        level: α.
        rows: N.
        depth: the largest |S|.
    """
    from scipy.special import ndtri

    quantile = -float(ndtri(level / 2))
    # Fisher's z needs more rows than |S| + 3; without them, no correlation is significant.
    return np.array(
        [tanh(quantile / sqrt(rows - size - 3)) if rows > size + 3 else 1.5 for size in range(depth + 1)]
    )


def are_independent(sample: DiscreteSample, i: int, j: int, given: Sequence[int], level: float) -> bool:
    """Returns whether the G test accepts the independence of X_i and X_j given X_S.

    Args:
        sample: the columns.
        i: first vertex.
        j: second vertex.
        given: S.
        level: α.
    """
    from scipy.special import chdtrc

    codes = sample.codes
    stratum = np.zeros(codes.shape[1], dtype=np.int64)
    for v in given:
        stratum = stratum * int(sample.arities[v]) + codes[v]
    if len(given):
        _, stratum = np.unique(stratum, return_inverse=True)
    a, b = int(sample.arities[i]), int(sample.arities[j])
    strata = int(stratum.max()) + 1
    cells = (stratum * a + codes[i]) * b + codes[j]
    observed = np.bincount(cells, sample.weights, minlength=strata * a * b).reshape(strata, a, b)
    of_i, of_j = observed.sum(axis=2), observed.sum(axis=1)
    freedom = int((((of_i > 0).sum(axis=1) - 1) * ((of_j > 0).sum(axis=1) - 1)).sum())
    if freedom == 0:
        return True
    expected = of_i[:, :, None] * of_j[:, None, :] / of_i.sum(axis=1)[:, None, None]
    inside = observed > 0
    statistic = float(2 * (observed[inside] * np.log(observed[inside] / expected[inside])).sum())
    return level <= float(chdtrc(freedom, statistic))
