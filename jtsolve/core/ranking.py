"""The best trees of a problem in order: what `k_best` returns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING

from jtsolve.core.result import Status

if TYPE_CHECKING:
    from jtsolve.core.problem import Constraints
    from jtsolve.core.result import Result, Stop


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best trees of a problem, found one after the other.

    Args:
        results: one a tree, in the order found. Each is for the problem in which the graphs of the trees
            before it are forbidden, and its seconds are counted from the start of the first.
        last: of the last solve: the last of `results`, or one without a tree or with one beyond the gap.
        constraints: of the problem.
        stop: why the work ended.
        k: no more than so many trees were asked for; None for no limit.
        within: no trees were asked for that score lower than the best by more than this, in nats; or None.
    """

    results: tuple[Result, ...]
    last: Result
    constraints: Constraints
    stop: Stop
    k: int | None = None
    within: float | None = None

    @property
    def bound(self) -> float:
        """No other tree scores more, in nats; -inf if there is no other."""
        return min(result.bound for result in (*self.results, self.last))

    @property
    def proved(self) -> int:
        """How many of the first trees are proved to be the best ones, in order, to 10^-6 nats each."""
        return sum(1 for _ in takewhile(lambda result: result.status is Status.OPTIMAL, self.results))

    @property
    def exhausted(self) -> bool:
        """Whether it is proved that no other tree is left, or none within the gap."""
        if self.within is None or not self.results:
            return self.bound == -inf
        return self.bound < score_of(self.results[0]) - self.within

    @property
    def complete(self) -> bool:
        """Whether it is proved that these are the trees that were asked for."""
        return self.proved == len(self.results) and (len(self.results) == self.k or self.exhausted)


def score_of(result: Result) -> float:
    """Returns the score, in nats, of a result that has a tree."""
    assert result.score is not None, "asked of results with a tree only"
    return result.score
