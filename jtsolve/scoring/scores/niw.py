"""NIW: log marginal likelihood of conditional Gaussian models: Dirichlet times normal-inverse-Wishart priors.

For A = (d, c) the score is that of BDeu on d, plus for every cell i with n_i > 0 rows that of BGe on the
standardised columns c of these rows, with the prior mean 0 (see `bdeu` and `bge`):

    R_i = t I + S_i + α_μ n_i / (n_i + α_μ) m_i m_iᵀ,

where m_i and S_i are the mean and scatter of cell i. The priors for one d are consistent on the subsets of c,
and those for different d are independent: on strongly decomposable graphs, the score of a tree is the log
marginal likelihood of one prior.

References:
    A. P. Dawid, S. L. Lauritzen, Hyper Markov laws in the statistical analysis of decomposable graphical
    models, Annals of Statistics 21, 1993.
    D. Geiger, D. Heckerman, Parameter priors for directed acyclic graphical models, Annals of Statistics 30,
    2002.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.scoring.scores.bge import Bge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.scoring.score import CellMoments, DiscreteScore


@dataclass(frozen=True, slots=True)
class NormalInverseWishart:
    """Log marginal likelihood of conditional Gaussian models, for columns of states and of real numbers.

    Args:
        ess: equivalent sample size of the Dirichlet prior; see bdeu.
        mean_weight: weight of the prior mean of each cell in rows; see bge.
        freedom: degrees of freedom beyond the number of real columns; see bge.
        columns: "normal-scores": real columns by their ranks; "raw": standardised.

    Raises:
        ChoiceError: a number is out of range.
    """

    ess: float = 1.0
    mean_weight: float = 1.0
    freedom: float | None = None
    columns: Literal["normal-scores", "raw"] = "normal-scores"

    name: ClassVar[str] = "niw"
    standardised: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Bdeu(self.ess)
        Bge(self.mean_weight, self.freedom)

    @property
    def discrete(self) -> DiscreteScore:
        """See `MixedScore`."""
        return Bdeu(self.ess)

    @property
    def gaussian(self) -> Bge:
        """See `MixedScore`."""
        return Bge(self.mean_weight, self.freedom)

    def matrices(self, cells: CellMoments) -> NDArray[np.float64]:
        """See `MixedScore`."""
        shift = self.mean_weight * cells.counts / (self.mean_weight + cells.counts)
        return cells.scatter + self.gaussian.scale * cells.identity + cells.per_cell(shift) * cells.squares

    def weights(self, counts: NDArray[np.int64], size: int) -> NDArray[np.float64]:
        """See `MixedScore`."""
        return -(counts + self.gaussian.freedom_beyond + size) / 2

    def constant(self, counts: NDArray[np.int64], size: int, q: float) -> float:
        """See `MixedScore`."""
        from scipy.special import gammaln

        del q
        weight, scale = self.gaussian.freedom_beyond + size, self.gaussian.scale
        found = size / 2 * (np.log(self.mean_weight / (counts + self.mean_weight)) - counts * log(pi))
        for j in range(size):
            found += gammaln((counts + weight - j) / 2) - gammaln((weight - j) / 2)
        return float(found.sum() + counts.size * weight / 2 * size * log(scale))
