"""Information criteria of conditional Gaussian (CG) models, for discrete and real columns together.

For A = (d, c), with discrete d of q cells, real c, k = |c|, and n_i of N rows in cell i:

    own:      s(A) = s(d) − Σ_i (n_i/2) ( k ln 2π + ln det M_i[c] + k ) − w q ( k + k (k + 1)/2 )
    common:   s(A) = s(d) − (N/2) ( k ln 2π + ln det M[c] + k ) − w ( q k + k (k + 1)/2 )

in nats, with w = (ln N)/2 for bic and 1 for aic; s(d) is the discrete score, and for d = ∅ this is the
Gaussian one. M_i = (S_i + 2W)/(n_i + 2) + H and M = W + H, where S_i is the scatter of cell i, W = Σ S_i / N,
and H the diagonal of h²/12, the variance of rounding to multiples of h, the least gap between two values of a
column. So the density exists in cells with few or equal rows, too. M_i depends on d only, and on strongly
decomposable graphs Σ s(C) − Σ s(S) is the maximum of the regularised log likelihood minus the penalty for its
dimension.

By default, real columns are replaced by their normal scores. The variances of heavy-tailed columns differ
between cells by chance: for independent columns, one lognormal and one of four states, raw columns give an
edge in 58 of 100 tables of 3,000 rows, normal scores in none.

References:
    S. L. Lauritzen, Graphical Models, Oxford 1996, chapter 6. D. Edwards, G. C. G. de Abreu, R. Labouriau,
    Selecting high-dimensional mixed graphical models using minimal AIC or BIC forests, BMC Bioinformatics 11,
    2010.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, log, pi
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from jtsolve.scoring.scores.aic import Aic
from jtsolve.scoring.scores.bic import Bic
from jtsolve.scoring.scores.gaussian_aic import GaussianAic
from jtsolve.scoring.scores.gaussian_bic import GaussianBic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.scoring.score import CellMoments, DiscreteScore, GaussianScore

_POOLED = 2.0
"""Number of rows with the pooled covariance that are added to each cell."""


@dataclass(frozen=True, slots=True)
class ConditionalGaussian:
    """Information criterion of conditional Gaussian models, for columns of states and of real numbers.

    Args:
        penalty: "bic": (ln N)/2 for each free parameter; "aic": 1.
        covariance: "own": every cell of the discrete columns has a covariance matrix; "common": all share it.
        columns: "normal-scores": real columns by their ranks; "raw": as they are.
    """

    penalty: Literal["bic", "aic"] = "bic"
    covariance: Literal["own", "common"] = "own"
    columns: Literal["normal-scores", "raw"] = "normal-scores"

    name: ClassVar[str] = "cg"
    standardised: ClassVar[bool] = False

    @property
    def discrete(self) -> DiscreteScore:
        """See `MixedScore`."""
        return Bic() if self.penalty == "bic" else Aic()

    @property
    def gaussian(self) -> GaussianScore:
        """See `MixedScore`."""
        return GaussianBic() if self.penalty == "bic" else GaussianAic()

    def matrices(self, cells: CellMoments) -> NDArray[np.float64]:
        """See `MixedScore`."""
        # Unlike `sum`, `cumsum` adds in the same order for one column and for several.
        pooled: NDArray[np.float64] = cells.scatter.cumsum(axis=0)[-1] / cells.rows
        if self.covariance == "common":
            return np.asarray(pooled + cells.rounding)[None]
        return np.asarray(
            (cells.scatter + _POOLED * pooled) / cells.per_cell(cells.counts + _POOLED) + cells.rounding
        )

    def weights(self, counts: NDArray[np.int64], size: int) -> NDArray[np.float64]:
        """See `MixedScore`."""
        del size
        return -(counts if self.covariance == "own" else counts.sum(keepdims=True)) / 2

    def constant(self, counts: NDArray[np.int64], size: int, q: float) -> float:
        """See `MixedScore`."""
        rows = int(counts.sum())
        weight = log(rows) / 2 if self.penalty == "bic" else 1.0
        parameters = q * size + (q if self.covariance == "own" else 1) * (size * (size + 1) // 2)
        return -rows / 2 * size * log(2 * pi * e) - weight * parameters
