"""BIC: maximum log likelihood minus (ln N)/2 for each free parameter.

    s(A) = Σ_x m(x) ln (m(x) / N) − (ln N / 2) (q − 1)   (nats)

It is −1/2 of the BIC of statistics, and equals the BIC of bnlearn and GOBNILP.

Reference:
    G. Schwarz, Estimating the dimension of a model, Annals of Statistics 6, 1978.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, ClassVar

from jtsolve.scoring.score import Entropy
from jtsolve.scoring.scores.ml import MaximumLikelihood

if TYPE_CHECKING:
    from jtsolve.scoring.score import Marginal


@dataclass(frozen=True, slots=True)
class Bic:
    """Bayesian information criterion: maximum log likelihood minus (ln N)/2 for each free parameter."""

    name: ClassVar[str] = "bic"
    cell_terms: ClassVar[Entropy] = Entropy()

    def rest(self, marginal: Marginal) -> float:
        """See `DiscreteScore`."""
        return MaximumLikelihood().rest(marginal) - log(marginal.rows) / 2 * marginal.parameters
