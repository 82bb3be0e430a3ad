"""The colex order of small sets, by rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.varset import count_bounded_subsets

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ColexOrder:
    """The sets of at most `max_size` of n variables in colex order."""

    def __init__(self, n: int, max_size: int) -> None:
        # The sets with next member v follow ∅ and the sets whose remaining members are all below v.
        self._before = [
            np.array([0, *(count_bounded_subsets(v, max_size - above) for v in range(n))])
            for above in range(max_size)
        ]
        self.count = count_bounded_subsets(n, max_size)

    def sets(self, start: int, count: int) -> NDArray[np.int64]:
        """Returns consecutive sets, shape (count, max_size): members in decreasing order, then -1."""
        found = np.empty((count, len(self._before)), np.int64)
        ranks = np.arange(start, start + count)
        for above, before in enumerate(self._before):
            at = np.searchsorted(before, ranks, side="right") - 1  # v + 1; 0 for ∅
            found[:, above] = at - 1
            ranks -= before[at]
        return found
