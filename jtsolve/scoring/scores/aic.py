"""AIC: maximum log likelihood minus the number of free parameters, in nats (−1/2 of the usual AIC).

    s(A) = Σ_x m(x) ln (m(x) / N) − (q − 1)   (nats)

Summed over cliques minus separators, q − 1 is the number of free parameters of the decomposable model.

Reference:
    H. Akaike, A new look at the statistical model identification, IEEE Transactions on Automatic Control 19,
    1974.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from jtsolve.scoring.score import Entropy
from jtsolve.scoring.scores.ml import MaximumLikelihood

if TYPE_CHECKING:
    from jtsolve.scoring.score import Marginal


@dataclass(frozen=True, slots=True)
class Aic:
    """Akaike information criterion: maximum log likelihood minus the number of free parameters."""

    name: ClassVar[str] = "aic"
    cell_terms: ClassVar[Entropy] = Entropy()

    def rest(self, marginal: Marginal) -> float:
        """See `DiscreteScore`."""
        return MaximumLikelihood().rest(marginal) - marginal.parameters
