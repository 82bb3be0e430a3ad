"""Gaussian BIC: maximum log likelihood of a normal distribution minus (ln N)/2 for each parameter.

    s(A) = −(N/2) ( k ln 2π + ln det Σ_A + k ) − (ln N / 2) ( k + k (k + 1) / 2 ),   k = |A|   (nats)

Σ_A is the maximum likelihood estimate of the covariance matrix (divided by N), with k means and k (k + 1) / 2
covariances. Summed over cliques minus separators, these are n means, n variances, and one for each edge.

Reference:
    S. L. Lauritzen, Graphical Models, Oxford 1996, section 5.3 (the likelihood of decomposable models).
    G. Schwarz, Estimating the dimension of a model, Annals of Statistics 6, 1978.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class GaussianBic:
    """Bayesian information criterion of normal distributions, for continuous columns."""

    name: ClassVar[str] = "gaussian-bic"

    def least_rows(self, size: int) -> int:
        """See `GaussianScore`; with fewer rows, the covariance matrix is singular."""
        return size + 1

    def matrix(self, scatter: NDArray[np.float64], rows: float) -> NDArray[np.float64]:
        """See `GaussianScore`."""
        return scatter / rows

    def value(
        self, log_determinant: NDArray[np.float64], size: int, rows: float, n: int
    ) -> NDArray[np.float64]:
        """See `GaussianScore`."""
        del n  # the score of a set does not depend on other variables
        parameters = size + size * (size + 1) // 2
        penalty = log(rows) / 2 * parameters
        return -rows / 2 * (size * log(2 * pi) + log_determinant + size) - penalty
