"""The gains of all pairs of variables, sorted: forward selection begins with them, and may have millions."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.backend import Report
    from jtsolve.scores import LocalScores

_BLOCK = 1 << 15
"""Pairs in a batch: some tenths of a second, so that an interruption acts at once."""


@dataclass(slots=True)
class Pairs:
    """Pairs in the order in which they are taken: by loss, which is minus the gain in nats, then by ends.

    Args:
        u: shape (count,): the lower ends.
        v: shape (count,): the upper ends.
        loss: shape (count,), increasing.
    """

    u: NDArray[np.int32]
    v: NDArray[np.int32]
    loss: NDArray[np.float64]
    taken: int = field(default=0)

    @classmethod
    def none(cls) -> Pairs:
        """Returns no pairs."""
        return cls(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))

    @property
    def exhausted(self) -> bool:
        """Whether all have been taken."""
        return self.taken == self.loss.size

    def next(self) -> tuple[int, int, float]:
        """Returns the pair whose turn is next, and its loss."""
        return int(self.u[self.taken]), int(self.v[self.taken]), float(self.loss[self.taken])

    def take(self) -> None:
        """Takes it."""
        self.taken += 1


def gaining_pairs(scores: LocalScores, width: int, report: Report) -> Pairs:
    """Returns the pairs with s({u,v}) > s({u}) + s({v}); those seen so far if it is stopped.

    Args:
        scores: a variable without a score counts as 0; a pair without one is no pair.
        width: cliques of fewer than two variables have no pairs.
        report: is asked whether to go on.
    """
    n = scores.n
    own = scores.batch(np.arange(n)[:, None])
    own[own == -inf] = 0.0
    found = [Pairs.none()]
    v = 1
    while v < n and width > 1 and report.stop is None:
        last = min(n, v + max(1, _BLOCK // n))
        upper = np.repeat(np.arange(v, last), np.arange(v, last))
        lower = np.concatenate([np.arange(w) for w in range(v, last)])
        loss = own[upper] - (scores.batch(np.stack([lower, upper], axis=1)) - own[lower])
        gains = loss < 0
        found.append(Pairs(lower[gains].astype(np.int32), upper[gains].astype(np.int32), loss[gains]))
        report(done=v**2 / n**2, note="the gains of all pairs")
        v = last
    first, second = np.concatenate([one.u for one in found]), np.concatenate([one.v for one in found])
    loss = np.concatenate([one.loss for one in found])
    order = np.lexsort((second, first, loss))
    return Pairs(first[order], second[order], loss[order])
