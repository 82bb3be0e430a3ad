"""The method `auto`: exact sums where the problem and the memory allow them, else chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from jtsolve.averaging.chains import MOVABLE, Chains
from jtsolve.averaging.exact import Exact
from jtsolve.averaging.weights import EXACT, GRAPHS
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from jtsolve.averaging.method import Draws, Query
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.core.run import Limits
    from jtsolve.scoring.problem import Tabulation


@dataclass(frozen=True, slots=True)
class Auto:
    """Exact sums where the problem and the memory allow them, else chains.

    Args:
        exact: how the sums are computed.
        chains: how chains run.

    Raises:
        ChoiceError: a field holds another method.
    """

    name: ClassVar[str] = "auto"

    exact: Exact = Exact()  # noqa: RUF009 - a frozen value
    chains: Chains = Chains()  # noqa: RUF009

    def __post_init__(self) -> None:
        if not (isinstance(self.exact, Exact) and isinstance(self.chains, Chains)):
            raise ChoiceError(
                "auto holds exact sums and chains; set options of these, such as exact.draws=100 or "
                "chains.rounds=400"
            )

    def average(self, query: Query) -> GraphPosterior | None:
        """See `AveragingMethod`."""
        return self._choice(query).average(query)

    def draw(self, query: Query, count: int) -> Draws | None:
        """See `AveragingMethod`."""
        return self._choice(query, drawn=True).draw(query, count)

    def tabulation(
        self, n: int, largest: int, limits: Limits, prior: str, *, drawn: bool = False
    ) -> Tabulation:
        """See `AveragingMethod`."""
        chains = prior == GRAPHS and not self.exact.fits(n, largest, limits, drawn=drawn)
        method = self.chains if chains else self.exact
        return method.tabulation(n, largest, limits, prior, drawn=drawn)

    def _choice(self, query: Query, *, drawn: bool = False) -> Exact | Chains:
        """Returns the method; where chains refuse the problem or the prior, exact sums have the last word."""
        problem = query.problem
        star = bool(problem.constraints.real_variables)  # one variable more
        if query.prior != GRAPHS or MOVABLE.objections(problem):
            return self.exact
        fits = self.exact.fits(problem.n + star, problem.max_clique_size + star, query.limits, drawn=drawn)
        return self.exact if fits and not EXACT.objections(problem.with_star()) else self.chains
