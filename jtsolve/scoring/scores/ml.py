"""Maximum log likelihood, without penalty: more edges never score less.

    s(A) = Σ_x m(x) ln (m(x) / N)   (nats)

over the occupied cells x of A: minus N times the entropy of the empirical distribution.

Reference:
    S. L. Lauritzen, Graphical Models, Oxford 1996, section 4.4: the maximum likelihood of a decomposable
    model is the product over its cliques divided by that over its separators.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, ClassVar

from jtsolve.scoring.score import Entropy

if TYPE_CHECKING:
    from jtsolve.scoring.score import Marginal


@dataclass(frozen=True, slots=True)
class MaximumLikelihood:
    """Maximum log likelihood, without a penalty."""

    name: ClassVar[str] = "ml"
    cell_terms: ClassVar[Entropy] = Entropy()

    def rest(self, marginal: Marginal) -> float:
        """See `DiscreteScore`."""
        return -marginal.rows * log(marginal.rows)
