"""BDeu: the log marginal likelihood of a multinomial under a uniform Dirichlet prior.

    s(A) = ln Γ(ess) − ln Γ(ess + N) + Σ_x [ ln Γ(m(x) + a) − ln Γ(a) ],   a = ess / q   (nats)

over the occupied cells x of A, with m(x) rows in x, N rows and q cells in all. The priors of different sets
are consistent (hyper-Dirichlet), so that the score of a junction tree is the log marginal likelihood of its
model.

References:
    D. Heckerman, D. Geiger, D. M. Chickering, Learning Bayesian networks, Machine Learning 20, 1995.
    A. P. Dawid, S. L. Lauritzen, Hyper Markov laws in the statistical analysis of decomposable graphical
    models, Annals of Statistics 21, 1993.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma
from typing import TYPE_CHECKING, ClassVar

from jtsolve.errors import ChoiceError
from jtsolve.scoring.score import Dirichlet

if TYPE_CHECKING:
    from jtsolve.scoring.score import Marginal

_LEAST, _MOST = 1e-100, 1e6


@dataclass(frozen=True, slots=True)
class Bdeu:
    """Bayesian Dirichlet equivalent uniform: log marginal likelihood under a uniform Dirichlet prior.

    Args:
        ess: equivalent sample size, from 10^-100 to 10^6; beyond, sums of ln Γ lose 10^-6 nats to rounding.

    Raises:
        ChoiceError: the sample size is out of range.
    """

    ess: float = 1.0

    name: ClassVar[str] = "bdeu"

    def __post_init__(self) -> None:
        if not _LEAST <= self.ess <= _MOST:
            raise ChoiceError(
                f"the equivalent sample size is {self.ess}; give a number from {_LEAST} to {_MOST}"
            )

    @property
    def cell_terms(self) -> Dirichlet:
        """See `DiscreteScore`."""
        return Dirichlet(shared=self.ess)

    def rest(self, marginal: Marginal) -> float:
        """See `DiscreteScore`."""
        return lgamma(self.ess) - lgamma(self.ess + marginal.rows)
