"""The colex order of small sets, by rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.scores import sets_before
from jtsolve.core.varset import count_bounded_subsets

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ColexOrder:
    """The sets of at most `max_size` of n variables in colex order; arrays of sets have decreasing members.

    Attributes:
        max_size: the size of the largest sets.
        before: shape (n, max_size + 1): the number of sets of at most k of the first v variables.
        count: the number of sets.
    """

    def __init__(self, n: int, max_size: int) -> None:
        self.max_size = max_size
        self._before = np.zeros((n + 1, max_size + 1), np.int64)  # zeros at -1, which is no member
        for size in range(max_size + 1):
            self._before[:n, size] = sets_before(n, size)
        self.before = self._before[:n]
        self.count = count_bounded_subsets(n, max_size)

    def sets(self, start: int, count: int) -> NDArray[np.int64]:
        """Returns consecutive sets, shape (count, max_size); see `at`."""
        return self.at(np.arange(start, start + count))

    def at(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the sets at some ranks, shape (count, max_size): members in decreasing order, then -1."""
        found, left = np.empty((len(ranks), self.max_size), np.int64), ranks
        for above in range(self.max_size):
            # The sets with next member v follow ∅ and the sets whose remaining members are all below v.
            before = np.append(0, self.before[:, self.max_size - above])
            at = np.searchsorted(before, left, side="right") - 1  # v + 1; 0 for ∅
            found[:, above] = at - 1
            left = left - before[at]
        return found

    def ranks(self, sets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the ranks of sets, shape (count,): the inverse of `at`, of any width up to `max_size`."""
        places = self.max_size - np.arange(sets.shape[1])
        ranks: NDArray[np.int64] = self._before[sets, places].sum(axis=1)
        return ranks
