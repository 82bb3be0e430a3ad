"""Pairs of variables for forward selection: initial gains, candidates of the queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.backend import Report
    from jtsolve.core.scores import LocalScores
    from jtsolve.core.varset import VarSet

_BLOCK = 1 << 15
"""Pairs per batch: a few tenths of a second, so that an interruption acts at once."""


@dataclass(slots=True)
class SortedPairs:
    """Pairs in the order of choice: by loss, which is minus the gain in nats, then by ends.

    Args:
        u: shape (count,): the lower ends.
        v: shape (count,): the upper ends.
        loss: shape (count,), increasing.
    """

    u: NDArray[np.int32]
    v: NDArray[np.int32]
    loss: NDArray[np.float64]
    position: int = field(default=0)

    @classmethod
    def none(cls) -> SortedPairs:
        """Returns no pairs."""
        return cls(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))

    @property
    def exhausted(self) -> bool:
        """Whether no pair is left."""
        return self.position == self.loss.size

    def next(self) -> tuple[int, int, float]:
        """Returns the next pair and its loss."""
        return int(self.u[self.position]), int(self.v[self.position]), float(self.loss[self.position])

    def advance(self) -> None:
        """Moves on to the next pair."""
        self.position += 1


def gaining_pairs(scores: LocalScores, width: int, report: Report) -> SortedPairs:
    """Returns the pairs with s({u,v}) > s({u}) + s({v}); those scored so far if stopped.

    Args:
        scores: a variable without a score counts as 0; a pair without one is left out.
        width: below 2, there are no pairs.
        report: decides whether to continue.
    """
    n = scores.n
    own = scores.batch(np.arange(n)[:, None])
    own[own == -inf] = 0.0
    found = [SortedPairs.none()]
    v = 1
    while v < n and width > 1 and report.stop is None:
        last = min(n, v + max(1, _BLOCK // n))
        upper = np.repeat(np.arange(v, last), np.arange(v, last))
        lower = np.concatenate([np.arange(w) for w in range(v, last)])
        loss = own[upper] - (scores.batch(np.stack([lower, upper], axis=1)) - own[lower])
        gains = loss < 0
        found.append(SortedPairs(lower[gains].astype(np.int32), upper[gains].astype(np.int32), loss[gains]))
        report(done=v**2 / n**2, note="the gains of all pairs")
        v = last
    first, second = np.concatenate([one.u for one in found]), np.concatenate([one.v for one in found])
    loss = np.concatenate([one.loss for one in found])
    order = np.lexsort((second, first, loss))
    return SortedPairs(first[order], second[order], loss[order])


class CandidateEdge(NamedTuple):
    """A non-adjacent pair; sorted in the order of choice.

    Attributes:
        repairs: whether it can only serve to repair an infeasible graph: it adds a bad part, or gains
            nothing.
        cost: then, the bad parts (and cliques, if bounded) that it adds minus those that it removes.
        added: then, the bad parts that it adds.
        loss: minus the gain, in nats.
        u: the lower end.
        v: the upper end.
        shared: S = N(u) ∩ N(v) when the candidate was made.
        growth: the change in the number of maximal cliques.
    """

    repairs: bool
    cost: int
    added: int
    loss: float
    u: int
    v: int
    shared: VarSet
    growth: int


class Exchange(NamedTuple):
    """The maximal cliques and separators that a new edge adds and removes."""

    cliques_in: list[VarSet]
    separators_in: list[VarSet]
    cliques_out: list[VarSet]
    separators_out: list[VarSet]

    def reversed(self) -> Exchange:
        """Returns the exchange that undoes this one."""
        return Exchange(self.cliques_out, self.separators_out, self.cliques_in, self.separators_in)

    @property
    def growth(self) -> int:
        """The change in the number of maximal cliques."""
        return len(self.cliques_in) - len(self.cliques_out)
