"""The method `auto`: exact sums where problem and memory allow them, else certified ones, else chains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from jtsolve.averaging.certified import CERTIFIABLE, Certified
from jtsolve.averaging.chains import MOVABLE, Chains
from jtsolve.averaging.exact import Exact
from jtsolve.averaging.weights import EXACT, ON_DEVICE
from jtsolve.core.scores import DenseScores
from jtsolve.errors import ChoiceError, LimitError, NotConvergedError
from jtsolve.families.families import predicted_sets

if TYPE_CHECKING:
    from jtsolve.averaging.method import Draws, Query
    from jtsolve.averaging.posterior import GraphPosterior
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits
    from jtsolve.scoring.problem import Tabulation

_SECONDS, _MOST_SETS, _LEAST_VARIABLES = 60.0, 600_000, 12
"""Certified sums are tried before chains for at most 60 seconds, up to 600,000 sets, and from 12 variables
on: for fewer, chains visit all graphs of relevant weight."""


@dataclass(frozen=True, slots=True)
class Auto:
    """Exact sums where the problem and the memory allow them, else certified ones, else chains.

    Certified sums whose intervals stay wider than their tolerance hand over to chains.

    Args:
        exact: options of exact sums.
        certified: options of certified sums, which have half of the time.
        chains: options of chains.

    Raises:
        ChoiceError: a field holds another method.
    """

    name: ClassVar[str] = "auto"

    exact: Exact = Exact()  # noqa: RUF009 - a frozen value
    certified: Certified = Certified()  # noqa: RUF009
    chains: Chains = Chains()  # noqa: RUF009

    def __post_init__(self) -> None:
        kinds = ((self.exact, Exact), (self.certified, Certified), (self.chains, Chains))
        if not all(isinstance(value, kind) for value, kind in kinds):
            raise ChoiceError(
                "auto holds exact sums, certified sums and chains; set options of these, such as "
                "exact.draws=100, certified.tolerance=0.001 or chains.rounds=400"
            )

    def average(self, query: Query) -> GraphPosterior | None:
        """See `AveragingMethod`."""
        method = self._choice(query)
        if not isinstance(method, Chains) or not self._is_certifiable(query.problem):
            return method.average(query)
        try:
            found = self.certified.average(self._first_part(query))
        except LimitError as error:
            wide = {"handed_over": str(error)}
        else:
            if found is None or found.converged or query.run.stop is not None:
                return found
            width = found.diagnostics["width"]
            wide = {"handed_over": f"certified sums left an edge {width:.2g} wide"}
        sample = method.average(query)
        return replace(sample, diagnostics={**sample.diagnostics, **wide})

    def draw(self, query: Query, count: int) -> Draws | None:
        """See `AveragingMethod`."""
        method = self._choice(query, drawn=True)
        if isinstance(method, Chains) and self._is_certifiable(query.problem):
            try:
                return self.certified.draw(self._first_part(query), count)
            except (NotConvergedError, LimitError) as error:
                query.run.say(f"no certified draws, so chains follow: {error}")
        return method.draw(query, count)

    def tabulation(self, n: int, largest: int, limits: Limits, *, drawn: bool = False) -> Tabulation:
        """See `AveragingMethod`."""
        method = self.exact if self.exact.fits(n, largest, limits, drawn=drawn) else self.chains
        return method.rule

    @staticmethod
    def _is_certifiable(problem: Problem) -> bool:
        """Returns whether certified sums are worth trying: for a table of moderate size."""
        return (
            problem.n >= _LEAST_VARIABLES
            and not CERTIFIABLE.objections(problem)
            and isinstance(problem.scores, DenseScores)
            and predicted_sets(problem) <= _MOST_SETS
        )

    @staticmethod
    def _first_part(query: Query) -> Query:
        """Returns the query with the time limit of certified sums."""
        run = query.run
        return replace(query, run=run.part(min(_SECONDS, run.left / 2)))

    def _choice(self, query: Query, *, drawn: bool = False) -> Exact | Chains:
        """Returns the method; exact sums where chains do not support the problem."""
        problem = query.problem
        star = bool(problem.constraints.real_variables)  # one variable more
        if MOVABLE.objections(problem):
            return self.exact
        plain = not ON_DEVICE.objections(problem.with_star())
        sizes = (problem.n + star, problem.max_clique_size + star)
        fits = self.exact.fits(*sizes, query.run.limits, drawn=drawn, plain=plain)
        return self.exact if fits and not EXACT.objections(problem.with_star()) else self.chains
