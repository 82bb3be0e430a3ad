"""BDJ: the log marginal likelihood of a multinomial under Jeffreys' prior, set by set.

    s(A) = ln Γ(q/2) − ln Γ(q/2 + N) + Σ_x [ ln Γ(m(x) + 1/2) − ln Γ(1/2) ]   (nats)

over the occupied cells x of A. The weight of a family is s(P ∪ v) − s(P), the quotient form, which is score
equivalent. Jeffreys' priors of different sets are inconsistent (on a subset S, the prior of A implies a
Dirichlet with 1/2 for each cell of A, not of S), so that the score of a tree is not the marginal likelihood
of one prior. It also differs from the family form of BDJ, which is not score equivalent.

References:
    H. Jeffreys, An invariant form for the prior probability in estimation problems, Proceedings of the Royal
    Society A 186, 1946.
    J. Suzuki, A theoretical analysis of the BDeu scores in Bayesian network structure learning,
    Behaviormetrika 44, 2017 (the quotient form).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma
from typing import TYPE_CHECKING, ClassVar

from jtsolve.scoring.score import Dirichlet

if TYPE_CHECKING:
    from jtsolve.scoring.score import Marginal


@dataclass(frozen=True, slots=True)
class Bdj:
    """Bayesian Dirichlet under Jeffreys' prior, set by set (quotient form)."""

    name: ClassVar[str] = "bdj"
    cell_terms: ClassVar[Dirichlet] = Dirichlet(each=0.5)

    def rest(self, marginal: Marginal) -> float:
        """See `DiscreteScore`."""
        half = marginal.cells / 2
        return lgamma(half) - lgamma(half + marginal.rows)
