"""The graphical lasso and covariance selection, component by component.

    minimise  tr(S Θ) − ln det Θ + Σ_{i≠j} λ_ij |Θ_ij|,   λ_ij = 0: free, ∞: Θ_ij = 0

The diagonal is not penalised. With penalties 0 and ∞ only, this is covariance selection: the maximum
likelihood under a graph. The connected components of the pairs with |S_ij| > λ_ij have
independent solutions.

References:
    A. P. Dempster, Covariance selection, Biometrics 28, 1972.
    D. Witten, J. Friedman, N. Simon, New insights and faster computations for the graphical lasso, Journal of
    Computational and Graphical Statistics 20, 2011 (components).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT = 1e-9
"""Tolerance on W at which the optimality conditions hold to 1e-6."""
ON_A_PATH = 1e-5
"""Tolerance on W, in units of correlation, where only the support and the likelihood count."""
SWEEPS = 10_000
"""Maximum number of sweeps of the block descent; only nearly dependent columns need as many."""


@dataclass(frozen=True, slots=True, eq=False)
class CovarianceEstimate:
    """A solution of the graphical lasso.

    Attributes:
        covariance: W = Θ⁻¹, shape (m, m).
        slopes: row j holds the coefficients of the regression of j on the others: Θ_jk = −Θ_jj b_jk.
    """

    covariance: NDArray[np.float64]
    slopes: NDArray[np.float64]

    @property
    def precision(self) -> NDArray[np.float64]:
        """Θ, symmetric, with exact zeros, shape (n, n)."""
        left = self.covariance.diagonal() - np.einsum("jk,jk->j", self.covariance, self.slopes)
        matrix = -self.slopes / left[:, None]
        matrix = np.where(self.support, (matrix + matrix.T) / 2, 0.0)
        np.fill_diagonal(matrix, 1 / left)
        return matrix

    @property
    def support(self) -> NDArray[np.bool_]:
        """Where Θ is not 0, without the diagonal, shape (n, n)."""
        joined: NDArray[np.bool_] = self.slopes != 0
        return joined & joined.T

    @property
    def log_determinant(self) -> float:
        """The logarithm of det W."""
        return float(np.linalg.slogdet(self.covariance)[1])


def graphical_lasso(
    covariance: NDArray[np.float64],
    penalty: NDArray[np.float64],
    start: CovarianceEstimate | None = None,
    tolerance: float = EXACT,
    sweeps: int = SWEEPS,
) -> CovarianceEstimate:
    """Returns the minimiser.

    Args:
        covariance: S, shape (m, m), positive definite; or semidefinite, if all penalties are above 0.
        penalty: λ, shape (m, m), symmetric, not negative; the diagonal is not used.
        start: initial estimate, W positive definite and |W − S| ≤ λ off the diagonal; None for S.
        tolerance: on W, in units of the largest variance.
        sweeps: maximum number of sweeps.

    Raises:
        InputError: no unique minimum exists, or the descent does not converge.
    """
    from jtsolve.selection.kernels.lasso import linked_parts

    m = len(covariance)
    whole = CovarianceEstimate(np.diag(covariance.diagonal()), np.zeros((m, m)))
    order, begins = linked_parts(covariance, penalty)
    for begin, end in pairwise(begins):
        inside = order[begin:end]
        if len(inside) == 1:
            continue
        at = np.ix_(inside, inside)
        own, limit = np.ascontiguousarray(covariance[at]), np.ascontiguousarray(penalty[at])
        if start is None:
            part = CovarianceEstimate(_regular(own, limit), np.zeros_like(own))
        else:
            part = CovarianceEstimate(
                np.ascontiguousarray(start.covariance[at]), np.ascontiguousarray(start.slopes[at])
            )
        _descend(own, limit, part, tolerance * float(own.diagonal().max()), sweeps)
        whole.covariance[at] = part.covariance
        whole.slopes[at] = part.slopes
    return whole


def _descend(
    covariance: NDArray[np.float64],
    penalty: NDArray[np.float64],
    begin: CovarianceEstimate,
    tolerance: float,
    sweeps: int,
) -> None:
    from jtsolve.selection.kernels.lasso import block_descent

    if block_descent(covariance, penalty, begin.covariance, begin.slopes, tolerance, sweeps) < 0:
        raise InputError(
            "covariance",
            "",
            f"the graphical lasso does not converge in {sweeps} sweeps: columns are nearly dependent",
            "leave out one of each pair of equivalent columns, or raise the penalty",
        )


def _regular(covariance: NDArray[np.float64], penalty: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns a positive definite start within the penalties.

    That is the matrix itself if it is; otherwise its mixture with the diagonal that the least penalty allows.
    """
    try:
        np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        pass
    else:
        return covariance.copy()
    off = ~np.eye(len(covariance), dtype=np.bool_) & (covariance != 0)
    share = min(float((penalty[off] / np.abs(covariance[off])).min()), 1.0) if off.any() else 1.0
    mixed: NDArray[np.float64] = (1 - share) * covariance
    np.fill_diagonal(mixed, covariance.diagonal())
    try:
        np.linalg.cholesky(mixed)
    except np.linalg.LinAlgError:
        raise InputError(
            "covariance",
            "",
            "it is singular, and some pair has no penalty: there is no unique estimate",
            "give more rows than columns, penalise every pair, or leave out dependent columns",
        ) from None
    return mixed


def covariance_selection(
    covariance: NDArray[np.float64], graph: NDArray[np.bool_], tolerance: float = EXACT
) -> CovarianceEstimate:
    """Returns the maximum likelihood under a graph: W = S on its edges, Θ = 0 off them.

    Args:
        covariance: S, shape (n, n).
        graph: adjacency matrix, shape (n, n).
        tolerance: on W; see `graphical_lasso`.
    """
    return graphical_lasso(covariance, np.where(graph, 0.0, np.inf), None, tolerance)


def nearer(start: CovarianceEstimate, covariance: NDArray[np.float64], share: float) -> CovarianceEstimate:
    """Returns a start for penalties that are smaller by a factor: W moved towards S by it.

    A mixture of W, positive definite, and S, semidefinite, is positive definite, and within the penalties.

    Args:
        start: the estimate under larger penalties.
        covariance: S, shape (n, n).
        share: factor of the penalties, below 1.
    """
    return CovarianceEstimate(covariance + share * (start.covariance - covariance), start.slopes.copy())


def partial_correlations(estimate: CovarianceEstimate) -> NDArray[np.float64]:
    """Returns −Θ_ij / √(Θ_ii Θ_jj), with 1 on the diagonal, shape (n, n)."""
    precision = estimate.precision
    scale = np.sqrt(precision.diagonal())
    matrix: NDArray[np.float64] = np.clip(-precision / np.outer(scale, scale), -1.0, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return matrix
