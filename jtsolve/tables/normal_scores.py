"""Normal scores: columns of numbers by their ranks alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def normal_scores(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns Φ⁻¹(rank / (N + 1)) of each value within its column; ties share their mean rank.

    Args:
        values: shape (columns, rows).
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    scores: NDArray[np.float64] = ndtri(rankdata(values, axis=1) / (values.shape[1] + 1))
    return scores
