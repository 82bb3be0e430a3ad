"""Gaussian AIC: maximum log likelihood of a normal distribution minus the number of free parameters, in nats.

    s(A) = −(N/2) ( k ln 2π + ln det Σ_A + k ) − ( k + k (k + 1) / 2 ),   k = |A|

See `gaussian_bic` for the terms, and `aic` for the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, ClassVar

from jtsolve.scoring.scores.gaussian_bic import GaussianBic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class GaussianAic:
    """Akaike information criterion of normal distributions, for continuous columns."""

    name: ClassVar[str] = "gaussian-aic"

    def least_rows(self, size: int) -> int:
        """See `GaussianScore`."""
        return GaussianBic().least_rows(size)

    def matrix(self, scatter: NDArray[np.float64], rows: float) -> NDArray[np.float64]:
        """See `GaussianScore`."""
        return GaussianBic().matrix(scatter, rows)

    def value(
        self, log_determinant: NDArray[np.float64], size: int, rows: float, n: int
    ) -> NDArray[np.float64]:
        """See `GaussianScore`."""
        parameters = size + size * (size + 1) // 2
        return GaussianBic().value(log_determinant, size, rows, n) + (log(rows) / 2 - 1) * parameters
