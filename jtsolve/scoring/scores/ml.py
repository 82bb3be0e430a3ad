"""Maximum likelihood: no penalty, so that more edges never score less. A baseline, a part of other scores.

    s(A) = Σ_x m(x) ln (m(x) / N)   (nats)

over the occupied cells x of A: minus N times the entropy of the empirical distribution.

Reference:
    S. L. Lauritzen, Graphical Models, Oxford 1996, section 4.4: the maximum of the likelihood of a
    decomposable model is the quotient of these over cliques and separators.
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
    """The largest log likelihood, without a penalty for parameters."""

    name: ClassVar[str] = "ml"

    @property
    def cell_terms(self) -> Entropy:
        """See `DiscreteScore`."""
        return Entropy()

    def rest(self, marginal: Marginal) -> float:
        """See `DiscreteScore`."""
        return -marginal.rows * log(marginal.rows)
