"""The scores of a chain: all of them in a table, or those requested so far.

The graphs of a chain read few of all sets. Where these are too many for a table, a graph that meets a set of
unknown score waits (`kernels.edge_chain`) until the scores that its chain requests are computed together.
They are kept in a hash table, which is doubled as it fills, and emptied where it may not grow: what is still
needed is requested again.

All scores are rounded to multiples of a small unit, so that all sums are exact. Else the weight that a chain
has added up would depend, in its last digits, on its way to a graph, and R̂, which compares ranks, would take
chains that see the same few graphs for different ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite, log2
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.backend import lacks_table
from jtsolve.core.scores import colex_table
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.errors import RefusedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem
    from jtsolve.core.scores import LocalScores
    from jtsolve.core.varset import VarSet

_MISSING = "The score of every set is needed: graphs of a set without one would be left out."

MOST_SETS = 1 << 62
"""Maximum number of sets, each with a number."""

_COARSEST = 2.0**-16
"""Nats: of it, sums up to 10^11 nats are exact, and too small to change a probability."""

_SLOT_BYTES = 16


class ScoreTable(NamedTuple):
    """Scores as `kernels.edge_chain.score_of_set` reads them.

    Attributes:
        values: the scores, in nats: of all sets in colex order, or of the set in each slot; read-only.
        ranks: the place in colex order of the set in each slot, -1 in a free one; empty for a table;
            read-only.
        wanted: number of requested scores, and the ranks of their sets.
    """

    values: NDArray[np.float64]
    ranks: NDArray[np.int64]
    wanted: NDArray[np.int64]


def sets_before(n: int, largest: int) -> NDArray[np.int64]:
    """Returns the number of sets of at most k of v variables: shape (n, largest + 1)."""
    return np.array([[count_bounded_subsets(v, k) for k in range(largest + 1)] for v in range(n)], np.int64)


@dataclass(frozen=True, slots=True)
class RoundedScores:
    """Local scores as multiples of a unit.

    Attributes:
        scores: the scores themselves.
        unit: in nats, a power of 2.
    """

    scores: LocalScores
    unit: float

    @classmethod
    def of(cls, problem: Problem, log_odds: float) -> RoundedScores:
        """Returns the scores of a problem in the least unit in which sums over a graph, or two, are exact.

        The unit is at most `_COARSEST`: a set may score far below all graphs that chains see, and bounds of
        scores on demand are loose.
        """
        most = problem.n * (max(map(abs, problem.scores.extremes())) + problem.n * abs(log_odds))
        return cls(problem.scores, min(2.0 ** (ceil(log2(max(1.0, most))) - 50), _COARSEST))

    @property
    def n(self) -> int:
        """The number of variables."""
        return self.scores.n

    @property
    def max_size(self) -> int:
        """See `LocalScores`."""
        return self.scores.max_size

    def score(self, mask: VarSet) -> float:
        """Returns s(mask), rounded."""
        return self.multiple(self.scores.score(mask))

    def batch(self, sets: NDArray[np.intp]) -> NDArray[np.float64]:
        """See `LocalScores.batch`."""
        return self.multiples(self.scores.batch(sets))

    def extremes(self) -> tuple[float, float]:
        """See `LocalScores.extremes`."""
        low, high = self.scores.extremes()
        return low - self.unit, high + self.unit

    def multiple(self, value: float) -> float:
        """Returns the nearest multiple of the unit."""
        return round(value / self.unit) * self.unit if isfinite(value) else value

    def multiples(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the nearest multiples of the unit, of the shape of the values."""
        whole = values / self.unit
        np.rint(whole, out=whole)
        whole *= self.unit
        return whole

    def table(self, largest: int) -> ScoreTable:
        """Returns the scores of all sets of at most `largest` members."""
        values = self.multiples(colex_table(self.scores, largest))
        return ScoreTable(_frozen(values), _frozen(np.zeros(0, np.int64)), np.zeros(1, np.int64))


class ScoresOnDemand:
    """The scores that one chain has requested.

    Args:
        scores: computes them.
        before: see `sets_before`.
        room: bytes of the hash table at most, if that of `slots` is not larger.
        slots: of a new hash table, a power of 2.
        wanted: maximum number of sets per request; the rest is requested again.
    """

    def __init__(
        self, scores: LocalScores, before: NDArray[np.int64], room: int, slots: int, wanted: int
    ) -> None:
        self._scores, self._before = scores, before
        self._most = max(slots, 1 << (max(1, room // _SLOT_BYTES).bit_length() - 1))
        self._wanted = np.zeros(1 + wanted, np.int64)
        self._empty(slots)

    @property
    def table(self) -> ScoreTable:
        """The scores so far."""
        return ScoreTable(_frozen(self._values), _frozen(self._ranks), self._wanted)

    def answer(self) -> None:
        """Computes the requested scores.

        Raises:
            RefusedError: a set has none.
            InputError: see `LocalScores`.
        """
        ranks = np.unique(self._wanted[1 : 1 + self._wanted[0]])
        self._wanted[0] = 0
        values = self._scores_at(ranks)
        if 2 * (self._count + len(ranks)) > len(self._ranks):
            filled = self._ranks >= 0
            kept = self._ranks[filled], self._values[filled]
            self._empty(min(self._most, 2 * len(filled)))
            if len(self._ranks) > len(filled):
                self._insert(*kept)
        self._insert(ranks, values)

    def _empty(self, slots: int) -> None:
        self._ranks, self._values, self._count = np.full(slots, -1), np.zeros(slots), 0
        self._insert(np.zeros(1, np.int64), np.zeros(1))  # s(∅)

    def _insert(self, ranks: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        from jtsolve.averaging.kernels.score_table import insert

        insert(ranks, values, self._ranks, self._values)
        self._count += len(ranks)

    def _scores_at(self, ranks: NDArray[np.int64]) -> NDArray[np.float64]:
        sizes, sets = sets_at(ranks, self._before)
        values = np.zeros(len(ranks))
        for size in np.unique(sizes).tolist():
            at = np.flatnonzero(sizes == size)
            values[at] = self._scores.batch(sets[at, size - 1 :: -1])
        if not np.isfinite(values).all():
            raise RefusedError("chains", [_MISSING])
        return values


def has_every_score(problem: Problem) -> str | None:
    """Returns an objection if the table of a problem lacks the score of a set; None if it does not."""
    if lacks_table(problem):
        return None  # scores on demand are checked as they arrive
    lowest = float(colex_table(problem.scores, problem.max_clique_size).min())
    return None if lowest > -np.inf else _MISSING


def sets_at(
    ranks: NDArray[np.int64], before: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Returns sizes of sets, given their places in colex order, and their members from the highest down.

    `ranks` and sizes have shape (m,), members (m, largest), for `before` see `sets_before`.
    """
    left, largest = ranks.copy(), before.shape[1] - 1
    sizes, sets = np.zeros(len(ranks), np.int64), np.zeros((len(ranks), largest), np.intp)
    for i in range(largest):
        column = before[:, largest - i]
        at = np.flatnonzero(left)
        sets[at, i] = highest = np.searchsorted(column, left[at], side="right") - 1
        left[at] -= column[highest]
        sizes[at] += 1
    return sizes, sets


def _frozen(array: Any) -> Any:
    """Returns a read-only view: kernels are compiled once for all."""
    view = array.view()
    view.flags.writeable = False
    return view
