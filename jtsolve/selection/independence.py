"""Tests of conditional independence: partial correlations of numbers; G, X² and BIC of states.

A test says whether X_i and X_j are taken for independent given X_S. For numbers: Fisher's z at a level α, a
threshold on |ρ|, or BIC. For states, over the strata s of S, with o observed and e expected counts,

    G = 2 Σ o ln(o / e),   X² = Σ (o − e)² / e,   degrees of freedom Σ_s (rows_s − 1)(columns_s − 1),

where rows and columns of a stratum without counts do not count; BIC takes them for independent iff
G ≤ ln(N) times the degrees of freedom.

References:
    R. A. Fisher, On the probable error of a coefficient of correlation, Metron 1, 1921.
    P. Spirtes, C. Glymour, R. Scheines, Causation, Prediction, and Search, 2nd edition, MIT 2000 (G² and X²).
"""

from __future__ import annotations

from math import log, sqrt, tanh
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.selection.samples import DiscreteSample

NUMBER_TESTS = ("fisher-z", "correlation", "bic")
STATE_TESTS = ("g", "chi2", "bic")
Test = Literal["fisher-z", "correlation", "bic", "g", "chi2"]
TESTS: tuple[str, ...] = get_args(Test)


def thresholds(test: str, level: float, rows: int, depth: int) -> NDArray[np.float64]:
    """Returns for |S| = 0..depth the |ρ_ij|S| below which numbers are taken for independent.

    The result has shape (depth + 1,).

    Args:
        test: of `NUMBER_TESTS`.
        level: α for fisher-z, the threshold for correlation; without meaning for bic.
        rows: N.
        depth: the largest |S|.
    """
    from scipy.special import ndtri

    if test == "correlation":
        return np.full(depth + 1, level)
    if test == "bic":
        return np.full(depth + 1, sqrt(-np.expm1(-log(rows) / rows)))
    quantile = -float(ndtri(level / 2))
    # With fewer rows than Fisher's z needs, nothing is known: no correlation is above the threshold.
    return np.array(
        [tanh(quantile / sqrt(rows - size - 3)) if rows > size + 3 else 1.5 for size in range(depth + 1)]
    )


def are_independent(  # noqa: PLR0917 - as it is written, X_i ⫫ X_j | X_S
    sample: DiscreteSample, i: int, j: int, given: Sequence[int], test: str, level: float
) -> bool:
    """Returns whether states X_i and X_j are taken for independent given X_S.

    Args:
        sample: the columns.
        i: one.
        j: another.
        given: S.
        test: of `STATE_TESTS`.
        level: α; without meaning for bic.
    """
    from scipy.special import chdtrc

    statistic, freedom = _statistic(sample, i, j, given, test)
    if freedom == 0:
        return True
    if test == "bic":
        return statistic <= log(sample.rows) * freedom
    return level <= float(chdtrc(freedom, statistic))


def _statistic(sample: DiscreteSample, i: int, j: int, given: Sequence[int], test: str) -> tuple[float, int]:
    """Returns G or X², and the degrees of freedom."""
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
    expected = of_i[:, :, None] * of_j[:, None, :] / of_i.sum(axis=1)[:, None, None]
    freedom = int((((of_i > 0).sum(axis=1) - 1) * ((of_j > 0).sum(axis=1) - 1)).sum())
    if test == "chi2":
        inside = expected > 0
        return float(((observed[inside] - expected[inside]) ** 2 / expected[inside]).sum()), freedom
    inside = observed > 0
    return float(2 * (observed[inside] * np.log(observed[inside] / expected[inside])).sum()), freedom
