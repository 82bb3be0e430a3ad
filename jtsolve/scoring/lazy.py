"""Local scores computed on demand and cached: problems too large for a table."""

from __future__ import annotations

import threading
from itertools import islice
from math import comb, inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.varset import VarSet, members
from jtsolve.errors import ChoiceError, InputError
from jtsolve.scoring.scorer import make_scorer
from jtsolve.scoring.tabulate import tabulate_with

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.scoring.prior import StructurePrior
    from jtsolve.scoring.score import LocalScore
    from jtsolve.scoring.scorer import Scorer
    from jtsolve.tables.table import Table

DEFAULT_CACHE = 1_000_000
"""Cached scores: about 150 bytes each in the dictionary, 150 MB in all."""
_PAIR = 2
_MANY = 4096
"""A larger batch of pairs is taken for part of a scan over all pairs."""


class DataScores:
    """`LocalScores` computed from data on demand and cached; bit-identical to tabulated ones.

    Thread-safe. A full cache evicts the oldest scores. Large batches of pairs bypass a cache that cannot hold
    all pairs: a scan over them would evict everything else.

    Args:
        table: the data.
        score: discrete for a `DataTable`, Gaussian for a `ContinuousTable`.
        max_size: size of the largest scored sets, from 1 to n.
        prior: on structures; None for none.
        cache: number of scores to keep, at least 1.

    Raises:
        ChoiceError: the score does not fit the kind of table, or a number is out of range.
        InputError: the table does not allow the score; see `scorer.make_scorer`.

    >>> from jtsolve.scoring.scores.ml import MaximumLikelihood
    >>> from jtsolve.tables.table import DataTable
    >>> table = DataTable(("a",), (("no", "yes"),), np.array([[0, 1]]))
    >>> round(DataScores(table, MaximumLikelihood(), 1).score(0b1), 6)
    -1.386294
    """

    __slots__ = ("_cache", "_hits", "_lock", "_misses", "_room", "_scorer", "max_size", "n")

    def __init__(
        self,
        table: Table,
        score: LocalScore,
        max_size: int,
        *,
        prior: StructurePrior | None = None,
        cache: int = DEFAULT_CACHE,
    ) -> None:
        if cache < 1:
            raise ChoiceError(f"a cache of {cache} scores holds none; give a number of 1 or more")
        self.__setstate__((max_size, make_scorer(table, score, max_size, prior), cache))

    @classmethod
    def from_scorer(cls, scorer: Scorer, max_size: int) -> DataScores:
        """Returns the scores that a scorer computes; its `make_scorer` had the same `max_size`."""
        scores = cls.__new__(cls)
        scores.__setstate__((max_size, scorer, DEFAULT_CACHE))
        return scores

    def __repr__(self) -> str:
        scorer = self._scorer
        return (
            f"DataScores({scorer.table.digest()}, {scorer.score!r}, {self.max_size}, prior={scorer.prior!r})"
        )

    def __getstate__(self) -> tuple[int, Scorer, int]:
        """Returns the state for another process, without the cache."""
        return self.max_size, self._scorer, self._room

    def __setstate__(self, state: tuple[int, Scorer, int]) -> None:
        """Restores the state of `__getstate__`; the cache is empty."""
        self.max_size, self._scorer, self._room = state
        self.n = self._scorer.table.n
        self._cache: dict[VarSet, float] = {}
        self._lock = threading.Lock()
        self._hits = self._misses = 0

    @property
    def rows(self) -> int:
        """The number of rows of the data, counting weights."""
        return self._scorer.table.total

    @property
    def stats(self) -> dict[str, int]:
        """Cache hits and misses, and the number of scores cached now."""
        with self._lock:
            return {"hits": self._hits, "misses": self._misses, "cached": len(self._cache)}

    def score(self, mask: VarSet) -> float:
        """Returns s(mask) in nats; -inf above `max_size` members."""
        if mask.bit_count() > self.max_size:
            return -inf
        with self._lock:
            value = self._cache.get(mask)
            if value is not None:
                self._hits += 1
                return value
        row = np.array([list(members(mask))], dtype=np.intp)
        return float(self.batch(row)[0])

    def tabulated(self, max_size: int) -> NDArray[np.float64]:
        """Returns the scores of all sets of at most `max_size` in colex order, bypassing the cache."""
        return tabulate_with(self._scorer, max_size).values

    def extremes(self) -> tuple[float, float]:
        """See `LocalScores.extremes`; computed from sizes and numbers of states only, so loose."""
        return self._scorer.extremes(self.max_size)

    def batch(self, sets: NDArray[np.intp]) -> NDArray[np.float64]:
        """See `LocalScores.batch`."""
        count, size = sets.shape
        if size > self.max_size:
            return np.full(count, -inf)
        if sets.size and not 0 <= int(sets.min()) <= int(sets.max()) < self.n:
            raise InputError("scores", "sets", f"a variable is not in 0 to {self.n - 1}", "correct the set")
        if size == _PAIR and count > _MANY and comb(self.n, _PAIR) > self._room:
            return self._uncached(sets)
        masks = [sum(1 << v for v in row) for row in sets.tolist()]
        values = np.empty(count)
        with self._lock:
            missing = {}
            for i, mask in enumerate(masks):
                value = self._cache.get(mask)
                if value is None:
                    missing[mask] = i
                else:
                    values[i] = value
            self._hits += count - len(missing)
            self._misses += len(missing)
        if not missing:
            return values
        # In colex order, consecutive sets share counts. Outside the lock, two threads may compute the same
        # score, with the same result.
        ordered = sorted(missing)
        rows = np.ascontiguousarray(sets[[missing[mask] for mask in ordered]][:, ::-1], dtype=np.int64)
        computed = dict(zip(ordered, self._scorer.values(rows).tolist(), strict=True))
        for i, mask in enumerate(masks):
            if mask in computed:
                values[i] = computed[mask]
        self._keep(computed)
        return values

    def _uncached(self, sets: NDArray[np.intp]) -> NDArray[np.float64]:
        """Returns the scores of sets, bypassing the cache."""
        order = np.lexsort(sets.T)  # colex, as above
        values = np.empty(len(sets))
        values[order] = self._scorer.values(np.ascontiguousarray(sets[order, ::-1], dtype=np.int64))
        with self._lock:
            self._misses += len(sets)
        return values

    def _keep(self, computed: dict[VarSet, float]) -> None:
        with self._lock:
            for mask, value in computed.items():
                self._cache[mask] = value
            for mask in list(islice(self._cache, max(0, len(self._cache) - self._room))):
                del self._cache[mask]
