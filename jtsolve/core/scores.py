"""Local scores s(A) = ln p(A), in nats, for subsets A of the variables.

`LocalScores` is the interface. A set without a score has -inf: it may be neither a clique nor a separator.
`DenseScores` and `SparseScores` are tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from math import inf, isfinite
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from jtsolve.core.varset import (
    ByteTable,
    VarSet,
    bounded_subsets,
    colex_rank,
    count_bounded_subsets,
    members,
    set_table,
)
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray


LARGEST = 1e100
"""Nats; larger than any log probability of data. Sums of scores within ± this do not overflow."""


class LocalScores(Protocol):
    """Scores of subsets of {0..n-1} of at most `max_size` members; immutable and thread-safe."""

    @property
    def n(self) -> int:
        """The number of variables."""
        ...

    @property
    def max_size(self) -> int:
        """The size of the largest sets that may have a score."""
        ...

    def score(self, mask: VarSet) -> float:
        """Returns s(mask) in nats; -inf if the set has no score."""
        ...

    def batch(self, sets: NDArray[np.intp]) -> NDArray[np.float64]:
        """Returns the scores of many sets of one size.

        Args:
            sets: shape (count, size); each row holds the distinct variables of a set, in increasing order.

        Returns:
            Shape (count,), in nats; -inf where a set has no score.
        """
        ...

    def extremes(self) -> tuple[float, float]:
        """Returns a lower and an upper bound of all existing scores, in nats."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class DenseScores:
    """A score for every subset of at most `max_size` variables, as an array in colex order.

    Args:
        n: the number of variables.
        max_size: the size of the largest sets; at most n.
        values: shape (number of sets,), in nats, in increasing order of the bit masks; copied unless it is
            already read-only. The first is s(∅) = 0; all are finite.

    Raises:
        InputError: the count is wrong, s(∅) is not 0, or a value is not finite or beyond ± `LARGEST`.

    >>> DenseScores(2, 2, np.array([0.0, -1.0, -2.0, -2.5])).score(0b11)
    -2.5
    """

    n: int
    max_size: int
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.n < 1:
            raise malformed("n", f"{self.n} variables", "give at least one variable")
        if not 1 <= self.max_size <= self.n:
            reason = f"{self.max_size} is not between 1 and the number of variables, {self.n}"
            raise malformed("max_size", reason, "give the size of the largest scored sets")
        values = np.asarray(self.values, dtype=np.float64)
        if values.flags.writeable:
            values = values.copy()
            values.setflags(write=False)
        object.__setattr__(self, "values", values)
        expected = count_bounded_subsets(self.n, self.max_size)
        if values.shape != (expected,):
            sets = f"{self.n} variables have {expected} sets of size at most {self.max_size}"
            remedy = "give one value per set in colex order, the empty set first"
            raise malformed("values", f"{values.size} values, but {sets}", remedy)
        # NaN fails both comparisons. No copy is made, since tables are large.
        within = (values >= -LARGEST) & (values <= LARGEST)
        if not within.all():
            first = int(np.argmin(within))
            remedy = "give a finite score in nats, or use the sparse layout and leave the set out"
            raise malformed(f"values[{first}]", _fault(float(values[first])), remedy)
        if values[0] != 0:
            raise malformed("values[0]", f"s(∅) is {values[0]}", "s(∅) must be 0")

    def score(self, mask: VarSet) -> float:
        """Returns s(mask) in nats; -inf if it has more than `max_size` members."""
        if mask.bit_count() > self.max_size:
            return -inf
        if self.max_size == self.n:
            return float(self.values[mask])
        return float(self.values[colex_rank(mask, self.max_size)])

    def batch(self, sets: NDArray[np.intp]) -> NDArray[np.float64]:
        """See `LocalScores.batch`."""
        count, size = sets.shape
        if size > self.max_size:
            return np.full(count, -inf)
        return self.values[sum(self._ranks(sets, 0), np.zeros(count, dtype=np.int64))]

    def _ranks(self, sets: NDArray[np.intp], above: int) -> list[NDArray[np.int64]]:
        """Returns the contribution of each member to a set's rank, if `above` more members follow."""
        least = self.max_size - above - sets.shape[1] + 1
        return [sets_before(self.n, least + i)[column] for i, column in enumerate(sets.T)]

    def gains(self, sets: NDArray[np.intp]) -> Iterator[NDArray[np.float64]]:
        """Yields, for each position, s(A) − s(A∖v) of the sets, v being their member there.

        Args:
            sets: shape (K, k), k ≤ `max_size`; see `batch`.
        """
        # Without v, the members below it have one fewer above them.
        whole, lower = self._ranks(sets, 0), self._ranks(sets, -1)
        rank = sum(whole, np.zeros(len(sets), dtype=np.int64))
        values = self.values[rank]
        for position, own in enumerate(whole):
            rank -= own
            yield values - self.values[rank]
            rank += lower[position]

    def extremes(self) -> tuple[float, float]:
        """See `LocalScores.extremes`."""
        return float(self.values.min()), float(self.values.max())


def malformed(place: str, reason: str, remedy: str) -> InputError:
    """Returns the error of scores that are not as described.

    Args:
        place: of the fault.
        reason: for the refusal.
        remedy: in the imperative.
    """
    return InputError("scores", place, reason, remedy)


def _fault(value: float) -> str:
    """Returns the fault of a score that is not within ± LARGEST."""
    if isfinite(value):
        return f"{value} is beyond ±{LARGEST:g} nats"
    return f"{value} is not a finite number"


@lru_cache(maxsize=256)
def sets_before(n: int, max_size: int) -> NDArray[np.int64]:
    """Returns the number of subsets of {0..v-1} with at most `max_size` members, for each v: shape (n,)."""
    return np.array([count_bounded_subsets(v, max_size) for v in range(n)], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class SparseScores:
    """Scores of some sets only; every other set except ∅ has none.

    Args:
        n: the number of variables.
        table: from set to finite score in nats; copied. ∅ may be omitted; it scores 0.

    Attributes:
        max_size: the size of the largest set that has a score; at least 1.

    Raises:
        InputError: a set holds a variable that does not exist, a score is not finite or beyond ± `LARGEST`,
            or s(∅) is not 0.

    >>> SparseScores(2, {0b01: -1.0}).score(0b11)
    -inf
    """

    n: int
    table: Mapping[VarSet, float]
    max_size: int = field(init=False)
    _closure: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.n < 1:
            raise malformed("n", f"{self.n} variables", "give at least one variable")
        for mask, value in self.table.items():
            if mask >> self.n:  # also true of negative masks
                reason = f"there are only {self.n} variables"
                raise malformed(f"set {mask:#b}", reason, "use the variables 0 to n - 1")
            if not -LARGEST <= value <= LARGEST:
                remedy = "give a finite score in nats, or leave the set out"
                raise malformed(f"set {list(members(mask))}", _fault(value), remedy)
        if self.table.get(0, 0.0) != 0:
            raise malformed("the empty set", f"s(∅) is {self.table[0]}", "s(∅) must be 0")
        # Sorted, with plain floats: equal scores have equal digests.
        pairs = [(0, 0.0), *((mask, float(value)) for mask, value in sorted(self.table.items()) if mask)]
        object.__setattr__(self, "table", set_table(self.n, pairs))
        object.__setattr__(self, "max_size", max(1, *(mask.bit_count() for mask, _ in pairs)))

    def score(self, mask: VarSet) -> float:
        """Returns s(mask) in nats; -inf if the set has no score."""
        return self.table.get(mask, -inf)

    def extremes(self) -> tuple[float, float]:
        """See `LocalScores.extremes`."""
        return min(self.table.values()), max(self.table.values())

    @property
    def closure(self) -> int:
        """An upper bound on the number of subsets of sets with a score; computed once.

        Each set represents itself if all its facets have a score, else all its subsets.
        """
        if self._closure is None:  # takes some 0.3 s for 250,000 sets
            count = 0
            for mask in self.table:
                rest = mask
                while rest and mask ^ (rest & -rest) in self.table:
                    rest &= rest - 1
                count += 1 << min(60, mask.bit_count()) if rest else 1
            object.__setattr__(self, "_closure", count)
        assert self._closure is not None, "just computed"
        return self._closure

    def batch(self, sets: NDArray[np.intp]) -> NDArray[np.float64]:
        """See `LocalScores.batch`."""
        if not isinstance(self.table, ByteTable):
            masks = np.bitwise_or.reduce(1 << sets, axis=1).tolist()
            return np.fromiter(map(self.table.get, masks, repeat(-inf)), np.float64, len(sets))
        bits, rows = np.zeros((len(sets), self.table.size), dtype=np.uint8), np.arange(len(sets))
        for column in sets.T:
            bits[rows, column >> 3] |= (1 << (column & 7)).astype(np.uint8)
        keys = bits.view(f"V{self.table.size}").ravel().tolist()
        return np.fromiter(map(self.table.values_by_key.get, keys, repeat(-inf)), np.float64, len(sets))


class StoppedError(Exception):
    """Ends work that has to stop before it has a result, such as a long batch of scores."""


class Stoppable(Protocol):
    """Work that may have to stop: a run, or the report of a backend."""

    @property
    def stop(self) -> object:
        """Why the work has to stop now, or None to continue."""
        ...


@dataclass(frozen=True, slots=True)
class _Unstoppable:
    """Work that never has to stop."""

    stop: None = None


UNSTOPPABLE = _Unstoppable()


@runtime_checkable
class Guarded(Protocol):
    """Scores computed on demand that can stop within long batches."""

    def guarded(self, stoppable: Stoppable) -> LocalScores:
        """Returns the same scores, whose long batches raise a StoppedError once the work has to stop.

        Batches of a fraction of a second are always finished, so that trees can be scored.
        """
        ...


@runtime_checkable
class Tabulating(Protocol):
    """Scores computed on demand that can be tabulated faster than set by set."""

    @property
    def max_size(self) -> int:
        """See `LocalScores`."""
        ...

    def tabulated(self, max_size: int, workers: int | None = None) -> NDArray[np.float64]:
        """Returns the scores of all sets of at most `max_size` members in colex order, in nats, shape (K,).

        `workers` is the number of threads; None for all cores.
        """
        ...


@runtime_checkable
class Bounding(Protocol):
    """Scores computed on demand that bound the scores of trees by their parts."""

    def bounding_seconds(self, size: int, workers: int) -> float:
        """Returns the predicted time of the first of `tree_bounds`; inf if there is none."""
        ...

    def tree_bounds(
        self, size: int, target: float, workers: int, proceed: Callable[[], object]
    ) -> Iterator[float]:
        """Yields upper bounds of the score of a tree, each at most the one before, in nats.

        Args:
            size: of the largest cliques, at least 2.
            target: the score of a good tree, in nats.
            workers: threads.
            proceed: called several times a second; may raise.
        """
        ...


def own_scores(scores: LocalScores) -> NDArray[np.float64]:
    """Returns the score of every single variable, shape (n,), in nats; 0 for one that has none."""
    singles = scores.batch(np.arange(scores.n)[:, None])
    return np.where(singles > -inf, singles, 0.0)


def colex_table(scores: LocalScores, max_size: int) -> NDArray[np.float64]:
    """Returns the scores of all sets of at most `max_size` members in colex order; -inf for none.

    Args:
        scores: any local scores.
        max_size: at most n; it may exceed `scores.max_size`.

    Returns:
        Shape (number of sets,), in nats, read-only or fresh.
    """
    if isinstance(scores, DenseScores) and scores.max_size == max_size:
        return scores.values
    if isinstance(scores, Tabulating) and scores.max_size >= max_size:
        return scores.tabulated(max_size)
    masks = list(bounded_subsets(scores.n, max_size))
    if isinstance(scores, SparseScores):
        return np.array([scores.score(mask) for mask in masks])
    table = np.empty(len(masks))
    sizes = np.array([mask.bit_count() for mask in masks])
    for size in range(max_size + 1):
        at = np.flatnonzero(sizes == size)
        rows = np.array([list(members(masks[i])) for i in at], dtype=np.intp).reshape(at.size, size)
        table[at] = scores.batch(rows)
    return table
