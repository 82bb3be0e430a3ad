"""Local scores computed on demand and cached, for problems too large for a table."""

from __future__ import annotations

import threading
from itertools import islice
from math import comb, inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.scores import Stoppable, StoppedError
from jtsolve.core.varset import VarSet, members
from jtsolve.errors import ChoiceError, InputError
from jtsolve.scoring.mixed import MixedScorer
from jtsolve.scoring.scorer import GaussianScorer
from jtsolve.scoring.scorers import make_scorer
from jtsolve.scoring.tabulate import tabulate_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.scoring.scorer import Scorer
    from jtsolve.tables.table import Table

DEFAULT_CACHE = 1_000_000
"""Number of scores in the dictionary, at about 150 bytes each: 150 MB in all."""
_PAIR = 2
_PAIRS_PER_SCORE = 16
"""Maximum number of pairs in the array for each score in the dictionary, at equal memory: by default, the
pairs of 5,600 variables."""
_MANY = 4096
"""A larger batch of pairs is treated as part of a scan over all pairs."""
_PIECE_NANOSECONDS = 2e8
"""Predicted work between two polls of the run."""
_BITS = 61
"""Bits of an integer that is its own hash."""


class DataScores:
    """`LocalScores` computed from data on demand and cached; bit-identical to tabulated ones.

    Thread-safe. Pairs are cached in an array if it fits, other sets in a dictionary that evicts its oldest
    scores. If the pairs do not fit, large batches of them bypass the cache: a scan over all pairs would evict
    everything else.

    Args:
        table: the data.
        score: discrete for a `DataTable`, Gaussian for a `ContinuousTable`.
        max_size: size of the largest scored sets, from 1 to n.
        cache: number of cached scores besides the pairs, at least 1.

    Raises:
        ChoiceError: the score does not fit the kind of table, or a number is out of range.
        InputError: the table does not allow the score; see `scorers.make_scorer`.

    >>> from jtsolve.scoring.scores.ml import MaximumLikelihood
    >>> from jtsolve.tables.table import DataTable
    >>> table = DataTable(("a",), (("no", "yes"),), np.array([[0, 1]]))
    >>> round(DataScores(table, MaximumLikelihood(), 1).score(0b1), 6)
    -1.386294
    """

    __slots__ = ("_cache", "_room", "_stoppable", "max_size", "n", "scorer")

    def __init__(
        self,
        table: Table,
        score: ScoreFunction,
        max_size: int,
        *,
        cache: int = DEFAULT_CACHE,
    ) -> None:
        if cache < 1:
            raise ChoiceError(f"a cache of {cache} scores is too small; give a number of at least 1")
        self.__setstate__((max_size, make_scorer(table, score, max_size), cache))

    @classmethod
    def from_scorer(cls, scorer: Scorer, max_size: int) -> DataScores:
        """Returns the scores of a scorer made for the same `max_size`."""
        scores = cls.__new__(cls)
        scores.__setstate__((max_size, scorer, DEFAULT_CACHE))
        return scores

    def __repr__(self) -> str:
        scorer = self.scorer
        return f"DataScores({scorer.table.digest()}, {scorer.score!r}, {self.max_size})"

    def __getstate__(self) -> tuple[int, Scorer, int]:
        """Returns the state, without the cache, for another process."""
        return self.max_size, self.scorer, self._room

    def __setstate__(self, state: tuple[int, Scorer, int]) -> None:
        """Restores the state with an empty cache."""
        _, scorer, room = state
        self._set(state, _Cache(scorer.table.n, room), None)

    def _set(self, state: tuple[int, Scorer, int], cache: _Cache, stoppable: Stoppable | None) -> None:
        self.max_size, self.scorer, self._room = state
        self.n, self._cache, self._stoppable = self.scorer.table.n, cache, stoppable

    def guarded(self, stoppable: Stoppable) -> DataScores:
        """See `core.scores.Guarded`; the cache is shared."""
        scores = DataScores.__new__(DataScores)
        scores._set(self.__getstate__(), self._cache, stoppable)  # noqa: SLF001 - of the same class
        return scores

    @property
    def rows(self) -> int:
        """The total weight of the rows of the data, at least 1."""
        return max(1, round(self.scorer.table.total))

    @property
    def ceilings(self) -> tuple[float, ...]:
        """See `Problem.ceilings`."""
        return tuple(self.scorer.ceilings().tolist())

    @property
    def _gaussian(self) -> GaussianScorer | None:
        """The scorer of real columns; None if there are columns of states."""
        scorer = self.scorer
        if isinstance(scorer, MixedScorer) and scorer.discrete is None:
            scorer = scorer.gaussian
        return scorer if isinstance(scorer, GaussianScorer) else None

    def bounding_seconds(self, size: int, workers: int) -> float:
        """See `core.scores.Bounding`."""
        from jtsolve.scoring.priced import seconds_of_search

        return inf if self._gaussian is None else seconds_of_search(self.n, size, workers)

    def tree_bounds(
        self, size: int, target: float, workers: int, proceed: Callable[[], object]
    ) -> Iterator[float]:
        """See `core.scores.Bounding`."""
        from jtsolve.scoring.priced import priced_bounds

        if self._gaussian is None:
            return iter(())
        return priced_bounds(self._gaussian, size, target, workers, proceed)

    @property
    def stats(self) -> dict[str, int]:
        """Cache hits and misses, and the current number of cached scores."""
        return self._cache.stats

    def score(self, mask: VarSet) -> float:
        """Returns s(mask) in nats; -inf above `max_size` members."""
        if mask.bit_count() > self.max_size:
            return -inf
        row = list(members(mask))
        if row and row[-1] < self.n and (value := self._cache.get(row)) is not None:
            return value
        return float(self.batch(np.array([row], dtype=np.intp))[0])

    def tabulated(self, max_size: int, workers: int | None = None) -> NDArray[np.float64]:
        """See `core.scores.Tabulating`; bypasses the cache."""

        def proceed(done: float) -> None:
            if done < 1:
                self._check_stop()

        return tabulate_with(self.scorer, max_size, workers=workers, proceed=proceed).values

    def _check_stop(self) -> None:
        """Raises StoppedError if a stop is requested."""
        if self._stoppable is not None and self._stoppable.stop is not None:
            raise StoppedError

    def extremes(self) -> tuple[float, float]:
        """See `LocalScores.extremes`; loose, since they depend on dimensions and marginals only."""
        return self.scorer.extremes(self.max_size)

    def batch(self, sets: NDArray[np.intp]) -> NDArray[np.float64]:
        """See `LocalScores.batch`."""
        count, size = sets.shape
        if size > self.max_size:
            return np.full(count, -inf)
        if sets.size and not 0 <= int(sets.min()) <= int(sets.max()) < self.n:
            raise InputError("scores", "sets", f"a variable is not in 0 to {self.n - 1}", "correct the set")
        if not sets.size:
            return np.zeros(count)  # s(∅)
        if size == _PAIR and count > _MANY and self._cache.pairs is None:
            values, misses = self._computed(sets)
            self._cache.count(0, misses)
            return values
        return self._cache.batch(sets, self._computed)

    def _computed(self, sets: NDArray[np.intp]) -> tuple[NDArray[np.float64], int]:
        """Returns the scores of sets of one size, and the number of distinct ones.

        In colex order, consecutive sets share counts. The run is polled between two pieces, so that small
        batches always finish.
        """
        if _in_colex_order(sets):
            return self._counted(np.ascontiguousarray(sets[:, ::-1], dtype=np.int64)), len(sets)
        order = np.lexsort(sets.T)
        ordered = np.ascontiguousarray(sets[order, ::-1], dtype=np.int64)
        new = np.ones(len(sets), dtype=bool)
        new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        distinct = ordered[new]
        values = np.empty(len(sets))
        values[order] = self._counted(distinct)[np.cumsum(new) - 1]
        return values, len(distinct)

    def _counted(self, distinct: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the scores of distinct sets, whose members are in decreasing order."""
        piece = max(1, int(_PIECE_NANOSECONDS / self.scorer.nanoseconds))
        parts = []
        for start in range(0, len(distinct), piece):
            if start:
                self._check_stop()
            parts.append(self.scorer.values(distinct[start : start + piece]))
        return np.concatenate(parts)


def _in_colex_order(sets: NDArray[np.intp]) -> bool:
    """Returns whether the sets are strictly increasing, as in scans over all pairs."""
    after, same = np.zeros(len(sets) - 1, dtype=bool), np.ones(len(sets) - 1, dtype=bool)
    for column in sets.T[::-1]:
        after |= same & (column[1:] > column[:-1])
        same &= column[1:] == column[:-1]
    return bool(after.all())


class _Cache:
    """Scores by set; thread-safe.

    Args:
        n: the number of variables.
        room: maximum number of scores in the dictionary.

    Attributes:
        pairs: the scores of all pairs, that of u < v at v(v − 1)/2 + u, NaN if unknown; None if they do not
            fit.
    """

    def __init__(self, n: int, room: int) -> None:
        self._n, self._room = n, room
        count = comb(n, _PAIR)
        self.pairs = np.full(count, np.nan) if count <= _PAIRS_PER_SCORE * room else None
        self._known: dict[int | bytes, float] = {}
        self._lock = threading.Lock()
        self._hits = self._misses = 0

    @property
    def stats(self) -> dict[str, int]:
        """See `DataScores.stats`."""
        pairs = 0 if self.pairs is None else int(np.count_nonzero(~np.isnan(self.pairs)))
        with self._lock:
            cached = len(self._known) + pairs
            return {"hits": self._hits, "misses": self._misses, "cached": cached}

    def count(self, hits: int, misses: int) -> None:
        """Adds to the statistics."""
        with self._lock:
            self._hits += hits
            self._misses += misses

    def get(self, row: list[int]) -> float | None:
        """Returns the score of a set, given its members in increasing order, or None."""
        if len(row) == _PAIR and self.pairs is not None:
            value = float(self.pairs[row[1] * (row[1] - 1) // 2 + row[0]])
            if value != value:  # noqa: PLR0124 - NaN
                return None
        else:
            key = self._key(row)
            with self._lock:
                found = self._known.get(key)
            if found is None:
                return None
            value = found
        self.count(1, 0)
        return value

    def batch(
        self,
        sets: NDArray[np.intp],
        compute: Callable[[NDArray[np.intp]], tuple[NDArray[np.float64], int]],
    ) -> NDArray[np.float64]:
        """Returns the scores of sets of one size, and caches those that it computes.

        Scores are computed outside the lock: two threads may compute the same one, with the same result.
        """
        if sets.shape[1] == _PAIR and self.pairs is not None:
            at = sets[:, 1] * (sets[:, 1] - 1) // 2 + sets[:, 0]
            values: NDArray[np.float64] = self.pairs[at]
            missing = np.flatnonzero(np.isnan(values))
            if missing.size:
                values[missing], fresh = compute(sets[missing])
                self.pairs[at[missing]] = values[missing]
        else:
            keys = self._keys(sets)
            with self._lock:
                get = self._known.get
                values = np.array([get(key, np.nan) for key in keys])
            missing = np.flatnonzero(np.isnan(values))
            if missing.size:
                values[missing], fresh = compute(sets[missing])
                self._store([keys[i] for i in missing.tolist()], values[missing].tolist())
        if not missing.size:
            fresh = 0
        self.count(len(sets) - fresh, fresh)
        return values

    def _store(self, keys: list[int | bytes], values: list[float]) -> None:
        with self._lock:
            self._known.update(zip(keys, values, strict=True))
            for key in list(islice(self._known, max(0, len(self._known) - self._room))):
                del self._known[key]

    # A key is the integer with digits v + 1 in base n + 1, if that is its own hash. (Bit masks of more than
    # 61 variables are not, and many have the same hash; see `core.varset.key_of`.)

    def _is_number(self, size: int) -> bool:
        return bool((self._n + 1) ** size < 1 << _BITS)

    def _keys(self, sets: NDArray[np.intp]) -> list[int | bytes]:
        size = sets.shape[1]
        if self._is_number(size):
            powers = (self._n + 1) ** np.arange(size, dtype=np.int64)
            numbers: list[int | bytes] = ((sets + 1) @ powers).tolist()
            return numbers
        data = np.ascontiguousarray(sets, dtype=np.int32).tobytes()
        step = 4 * size
        return [data[at : at + step] for at in range(0, len(data), step)]

    def _key(self, row: list[int]) -> int | bytes:
        if not self._is_number(len(row)):
            return np.array(row, dtype=np.int32).tobytes()
        key = 0
        for v in reversed(row):
            key = key * (self._n + 1) + v + 1
        return key
