"""Pairs of variables for forward selection: initial gains, and the candidates of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.core.scores import own_scores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jtsolve.core.backend import Report
    from jtsolve.core.scores import LocalScores
    from jtsolve.core.varset import VarSet

_BLOCK = 1 << 15
"""Pairs per batch: a few tenths of a second, so that an interruption acts at once."""


def gaining_pairs(scores: LocalScores, width: int, report: Report) -> Iterator[tuple[int, int, float]]:
    """Returns u, v and the loss of the pairs u < v with s({u,v}) > s({u}) + s({v}); by loss, then by ends.

    The loss is minus the gain in nats. Stopped, it returns the pairs scored so far.

    Args:
        scores: a variable without a score counts as 0; a pair without one is left out.
        width: below 2, there are no pairs.
        report: receives the progress; ends the scoring.
    """
    n = scores.n
    own = own_scores(scores)
    found = [(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))]
    v = 1
    while v < n and width > 1 and report.stop is None:
        last = min(n, v + max(1, _BLOCK // n))
        upper = np.repeat(np.arange(v, last), np.arange(v, last))
        lower = np.concatenate([np.arange(w) for w in range(v, last)])
        loss = own[upper] - (scores.batch(np.stack([lower, upper], axis=1)) - own[lower])
        gains = loss < 0
        found.append((lower[gains].astype(np.int32), upper[gains].astype(np.int32), loss[gains]))
        report(done=v**2 / n**2, note="the gains of all pairs")
        v = last
    lower, upper, loss = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((upper, lower, loss))
    return ((int(lower[i]), int(upper[i]), float(loss[i])) for i in order)


class CandidateEdge(NamedTuple):
    """A non-adjacent pair; sorted in the order of choice.

    Attributes:
        repairs: whether it serves only to repair an infeasible graph: it adds a bad part, or has no gain.
        cost: if so, the bad parts (and cliques, if bounded) that it adds minus those that it removes.
        added: if so, the bad parts that it adds.
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
