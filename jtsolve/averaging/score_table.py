"""The scores of a chain: all in a table, or those requested so far.

The graphs of a chain use few of all sets. Where a table would be too large, a graph that needs a missing
score waits (`kernels.edge_chain`) until all scores requested by its chain are computed together. They are
kept in a hash table, which doubles as it fills, and is emptied when it may not grow: scores that are still
needed are requested again.

All scores are rounded to multiples of a small unit, so that all sums are exact. Otherwise the last digits of
a weight would depend on the path of a chain to its graph, and R̂, which compares ranks, would distinguish
chains that visit the same few graphs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite, log2
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.backend import lacks_table
from jtsolve.core.scores import colex_table
from jtsolve.errors import RefusedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem
    from jtsolve.core.scores import LocalScores
    from jtsolve.core.varset import VarSet
    from jtsolve.scoring.colex import ColexOrder

_MISSING = "The score of every set is needed: graphs with other sets would be left out."

MOST_SETS = 1 << 62
"""Maximum number of sets, so that their ranks are 64-bit integers."""

_COARSEST = 2.0**-16
"""Largest unit, in nats: sums up to 10^11 nats are exact, and no probability changes noticeably."""

_SLOT_BYTES = 16


class ScoreTable(NamedTuple):
    """Scores as `kernels.edge_chain.score_of_set` reads them.

    Attributes:
        values: the scores, in nats: of all sets in colex order, or of the set in each slot; read-only.
        ranks: the colex rank of the set in each slot, -1 in a free one; empty for a table; read-only.
        wanted: number of requested scores, then the ranks of their sets.
    """

    values: NDArray[np.float64]
    ranks: NDArray[np.int64]
    wanted: NDArray[np.int64]


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
        """Returns the scores of a problem in the smallest unit in which sums over two graphs are exact.

        The unit is at most `_COARSEST`: some sets score far below all graphs that chains visit, and bounds on
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
    """The scores requested by a chain.

    Args:
        scores: computes them.
        order: the order of the ranks.
        room: maximum bytes of the hash table, unless `slots` need more.
        slots: number of slots of a new hash table, a power of 2.
        wanted: maximum number of sets per request; the remainder is requested again.
    """

    def __init__(self, scores: LocalScores, order: ColexOrder, room: int, slots: int, wanted: int) -> None:
        self._scores, self._order = scores, order
        self._most = max(slots, 1 << (max(1, room // _SLOT_BYTES).bit_length() - 1))
        self._wanted = np.zeros(1 + wanted, np.int64)
        self._empty(slots)

    @property
    def table(self) -> ScoreTable:
        """The scores computed so far."""
        return ScoreTable(_frozen(self._values), _frozen(self._ranks), self._wanted)

    def answer(self) -> None:
        """Computes the requested scores.

        Raises:
            RefusedError: a set has no score.
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
        sets = self._order.at(ranks)
        sizes = (sets >= 0).sum(axis=1)
        values = np.zeros(len(ranks))
        for size in np.unique(sizes).tolist():
            at = np.flatnonzero(sizes == size)
            values[at] = self._scores.batch(sets[at, size - 1 :: -1])
        if not np.isfinite(values).all():
            raise RefusedError("chains", [_MISSING])
        return values


def has_every_score(problem: Problem) -> str | None:
    """Returns an objection if the table of a problem lacks a score, or None."""
    if lacks_table(problem):
        return None  # scores on demand are checked as they arrive
    lowest = float(colex_table(problem.scores, problem.max_clique_size).min())
    return None if lowest > -np.inf else _MISSING


def _frozen(array: Any) -> Any:
    """Returns a read-only view, so that kernels have one specialisation."""
    view = array.view()
    view.flags.writeable = False
    return view
