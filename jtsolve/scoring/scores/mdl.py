"""MDL: minus the description length of data, parameters and graph.

    s(A) = Σ_x m(x) ln (m(x) / N) − (ln N / 2) (q − 1) − ln n · |A| (|A| − 1) / 2   (nats)

This is BIC minus ln n for each edge: the code of the graph lists the parents of each variable, at ln n each,
and a parameter costs (ln N)/2. Some programs use MDL as a name of BIC.

Reference:
    W. Lam, F. Bacchus, Learning Bayesian belief networks: an approach based on the MDL principle,
    Computational Intelligence 10, 1994; with (log N)/2 for a parameter as in N. Friedman, M. Goldszmidt,
    Learning Bayesian networks with local structure, UAI 1996.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, ClassVar

from jtsolve.scoring.score import Entropy
from jtsolve.scoring.scores.bic import Bic

if TYPE_CHECKING:
    from jtsolve.scoring.score import Marginal


@dataclass(frozen=True, slots=True)
class Mdl:
    """Minimum description length: BIC minus ln n for each edge."""

    name: ClassVar[str] = "mdl"
    cell_terms: ClassVar[Entropy] = Entropy()

    def rest(self, marginal: Marginal) -> float:
        """See `DiscreteScore`."""
        return Bic().rest(marginal) - log(marginal.n) * marginal.edges
