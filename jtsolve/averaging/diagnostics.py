"""Diagnostics of samples: rank-normalised split R̂, effective sample sizes, and shares with standard errors.

References:
    Vehtari, Gelman, Simpson, Carpenter and Bürkner, Rank-normalization, folding, and localization: an
    improved R̂ for assessing convergence of MCMC, Bayesian Analysis 16, 2021. Geyer, Practical Markov chain
    Monte Carlo, Statistical Science 7, 1992 (initial monotone sequence).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def split_chains(traces: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the halves of chains as separate chains: shape (m, k) becomes (2m, k // 2)."""
    half = traces.shape[1] // 2
    return np.concatenate([traces[:, :half], traces[:, -half:]])


def split_r_hat(traces: NDArray[np.float64]) -> float:
    """Returns the rank-normalised split R̂ of chains, shape (m, k); 1 if nothing ever varies.

    Values are replaced by the normal scores of their ranks; R̂² is the ratio of the variance of all halves to
    the variance within them; inf if the halves differ and none varies.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    halves = split_chains(traces)
    if not np.ptp(halves, axis=1).any():
        return 1.0 if not np.ptp(halves) else inf
    ranks = rankdata(halves, axis=None).reshape(halves.shape)
    scores = ndtri((ranks - 0.375) / (halves.size + 0.25))
    length = halves.shape[1]
    within = float(scores.var(axis=1, ddof=1).mean())
    between = float(scores.mean(axis=1).var(ddof=1))
    return float(np.sqrt((length - 1) / length + between / within))


def effective_size(traces: NDArray[np.float64]) -> float:
    """Returns the effective sample size of chains, shape (m, k), from their halves.

    It is the size divided by 1 + 2 Σ ρ; the sums of two neighbouring autocorrelations are made monotone, and
    end before the first negative one. It is the size if nothing varies.
    """
    halves = split_chains(traces)
    count, length = halves.shape
    centred = halves - halves.mean(axis=1, keepdims=True)
    transformed = np.fft.rfft(centred, 2 * length, axis=1)
    covariance = np.fft.irfft(np.abs(transformed) ** 2, axis=1)[:, :length].mean(axis=0) / length
    within = covariance[0] * length / (length - 1)
    total = covariance[0] + float(halves.mean(axis=1).var(ddof=1))
    if total == 0:
        return float(halves.size)
    correlation = 1.0 - (within - covariance * length / (length - 1)) / total
    pairs = correlation[: length // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    kept = np.minimum.accumulate(pairs[: negative[0] if negative.size else pairs.size])
    time = max(2.0 * float(kept.sum()) - 1.0, 1.0 / np.log10(halves.size))
    return float(count * length / time)


def standard_error(traces: NDArray[np.float64]) -> float:
    """Returns the Monte Carlo standard error of the mean over all chains, shape (m, k)."""
    return float(traces.std() / np.sqrt(effective_size(traces)))


def distribution(name: str, values: NDArray[np.int64], independent: float) -> dict[str, Any]:
    """Returns the shares of the values 0, 1, …, and their errors for a number of independent draws.

    Args:
        name: name of the quantity; its errors have the key NAME_errors.
        values: shape (chains, draws), not negative.
        independent: the effective number of draws.
    """
    shares = np.bincount(values.ravel()) / values.size
    errors = np.sqrt(shares * (1 - shares) / independent)
    return {name: shares.tolist(), f"{name}_errors": errors.tolist()}
