"""The best trees of a problem in order, as `k_best` returns them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING

from jtsolve.core.notebook import as_html
from jtsolve.core.result import Status

if TYPE_CHECKING:
    from jtsolve.core.problem import Constraints
    from jtsolve.core.result import Result, Stop


@dataclass(frozen=True, slots=True, repr=False)
class Ranking:
    """The best trees of a problem in order.

    Args:
        results: one per tree, in the order found. Each solves the problem in which the graphs of the earlier
            trees are forbidden; its seconds count from the start of the first.
        last: the result of the last solve: the last of `results`, or one without a tree within the gap.
        constraints: of the problem.
        stop: why the work ended.
        k: the number of trees requested; None for no limit.
        within: the gap to the best score requested, in nats; None for no limit.
    """

    results: tuple[Result, ...]
    last: Result
    constraints: Constraints
    stop: Stop
    k: int | None = None
    within: float | None = None

    def __repr__(self) -> str:
        scores = ", ".join(f"{score_of(result):.10g}" for result in self.results[:5])
        more = ", …" if len(self.results) > 5 else ""  # noqa: PLR2004 - a line of text
        count = f"{len(self.results)} tree{'s' * (len(self.results) != 1)}, {self.proved} proved"
        return f"Ranking({count}; scores {scores or 'none'}{more})"

    def _repr_html_(self) -> str | None:
        return as_html([repr(self)], self.best.tree, self.best.names)

    @property
    def best(self) -> Result:
        """The best result; without a tree, the last."""
        return self.results[0] if self.results else self.last

    @property
    def bound(self) -> float:
        """No other tree scores more, in nats; -inf if there is no other."""
        return min(result.bound for result in (*self.results, self.last))

    @property
    def proved(self) -> int:
        """The number of leading trees proved to be the best, in order, to 10^-6 nats each."""
        return sum(1 for _ in takewhile(lambda result: result.status is Status.OPTIMAL, self.results))

    @property
    def exhausted(self) -> bool:
        """Whether no other tree exists, or none within the gap, and this is proved."""
        if self.within is None or not self.results:
            return self.bound == -inf
        return self.bound < score_of(self.results[0]) - self.within

    @property
    def complete(self) -> bool:
        """Whether these are proved to be the trees requested."""
        return self.proved == len(self.results) and (len(self.results) == self.k or self.exhausted)


def score_of(result: Result) -> float:
    """Returns the score, in nats, of a result that has a tree."""
    assert result.score is not None, "results of a ranking have a tree"
    return result.score
