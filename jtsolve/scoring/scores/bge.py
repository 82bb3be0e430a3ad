"""BGe: log marginal likelihood of a normal distribution under a normal-Wishart prior.

With k = |A|, the scatter matrix S_N, R = t I + S_N and w = α_w − n + k,

    s(A) = −(k N / 2) ln π + (k/2) ln( α_μ / (N + α_μ) ) + ln Γ_k((N + w)/2) − ln Γ_k(w/2)
           + (w/2) k ln t − ((N + w)/2) ln det R_A   (nats),

where Γ_k is the multivariate gamma function without its power of π: ln Γ_k(x) = Σ_{j<k} ln Γ(x − j/2). The
prior mean is the mean of the rows, so that its term in R vanishes, and t = α_μ (α_w − n − 1) / (α_μ + 1). The
score depends on the scale of the columns: standardise them if their units are arbitrary.

References:
    D. Geiger, D. Heckerman, Parameter priors for directed acyclic graphical models, Annals of Statistics 30,
    2002; corrected by J. Kuipers, G. Moffa, D. Heckerman, Addendum on the scoring of Gaussian directed
    acyclic graphical models, Annals of Statistics 42, 2014, whose defaults are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, lgamma, log, pi
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Bge:
    """Bayesian Gaussian equivalent: log marginal likelihood under a normal-Wishart prior.

    Args:
        mean_weight: α_μ, above 0: weight of the prior mean in rows.
        freedom: α_w − n, above 1: degrees of freedom of the Wishart distribution beyond the number of
            variables; None for α_μ + 1.

    Raises:
        ChoiceError: a number is out of range.
    """

    mean_weight: float = 1.0
    freedom: float | None = None

    name: ClassVar[str] = "bge"

    def __post_init__(self) -> None:
        if not (isfinite(self.mean_weight) and self.mean_weight > 0):
            raise ChoiceError(f"the weight of the prior mean is {self.mean_weight}; give a number above 0")
        if not (isfinite(self.freedom_beyond) and self.freedom_beyond > 1):
            raise ChoiceError(f"the degrees of freedom beyond n are {self.freedom}; give a number above 1")

    @property
    def freedom_beyond(self) -> float:
        """The degrees of freedom beyond n."""
        return self.mean_weight + 1 if self.freedom is None else self.freedom

    @property
    def scale(self) -> float:
        """The scale t of the prior's precision matrix t I."""
        return self.mean_weight * (self.freedom_beyond - 1) / (self.mean_weight + 1)

    def least_rows(self, size: int) -> int:
        """See `GaussianScore`; the prior makes every matrix regular."""
        del size
        return 1

    def matrix(self, scatter: NDArray[np.float64], rows: float) -> NDArray[np.float64]:
        """See `GaussianScore`."""
        del rows
        return scatter + self.scale * np.eye(scatter.shape[0])

    def value(
        self, log_determinant: NDArray[np.float64], size: int, rows: float, n: int
    ) -> NDArray[np.float64]:
        """See `GaussianScore`."""
        del n  # α_w − n is fixed
        weight = self.freedom_beyond + size
        constant = size / 2 * (log(self.mean_weight / (rows + self.mean_weight)) - rows * log(pi))
        constant += _log_gamma((rows + weight) / 2, size) - _log_gamma(weight / 2, size)
        constant += weight / 2 * size * log(self.scale)
        return constant - (rows + weight) / 2 * log_determinant


def _log_gamma(x: float, size: int) -> float:
    """Returns Σ_{j<size} ln Γ(x − j/2)."""
    return sum(lgamma(x - j / 2) for j in range(size))
