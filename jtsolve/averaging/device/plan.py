"""The plan of the sums on a device: sizes of the tables, the order of the work, seconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.cuda import LANES, TEAMS, Launch, groups_of, table_begins
from jtsolve.core.varset import count_bounded_subsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_PAIR, _PRODUCT = 0.58e-9, 0.26e-12
"""Seconds of an H100 for a pair (S, R) in one kernel, and for a term; fitted to all sums of 16, 18 and 20
variables: 0.13, 0.92 and 8.6 s."""
_ATTACHED = 0.05
"""Cost relative to a pair, for each variable of `attach`."""


@dataclass(frozen=True)
class SumsPlan:
    """The sizes of the tables on a device.

    Args:
        n: the number of variables.
        width: the largest size of a clique, w.
    """

    n: int
    width: int

    @cached_property
    def begins(self) -> NDArray[np.int64]:
        """Where the tables of the S of each size begin in F, L and P, and their end; shape (width + 2,)."""
        return table_begins(self.n, self.width)

    @cached_property
    def rows(self) -> list[tuple[int, int]]:
        """Where the rows of the W of m = 0..n members begin in X, and their length."""
        found, begin = [], 0
        for m in range(self.n + 1):
            row = count_bounded_subsets(m, self.width)
            found.append((begin, row))
            begin += comb(self.n, m) * row
        return found

    @property
    def words(self) -> dict[str, int]:
        """The words of F, L, P, and X, which P° replaces."""
        *_, smaller, cells = self.begins.tolist()
        return {"F": smaller, "L": cells, "P": cells, "X": max(sum(self.rows[-1]), cells)}

    @property
    def memory(self) -> int:
        """Bytes on the device: the tables, and by set its position, order, weights and B."""
        return 8 * sum(self.words.values()) + (52 << self.n)

    @property
    def host_memory(self) -> int:
        """Bytes in the memory of the process: the weights by set."""
        return 250 << self.n

    @property
    def host_seconds(self) -> float:
        """Predicted seconds of the weights and the features."""
        return 1e-6 * 2.0**self.n + 0.02

    @cached_property
    def kernel_seconds(self) -> float:
        """The predicted seconds of all kernels on an H100, for sums and features."""
        return sum(launch.seconds for launch in [*self.sums(), *self.proper()])

    def sums(self) -> Iterator[Launch]:
        """Yields the launches of F, L, P and X."""
        for r in range(self.n + 1):
            yield self._counting(r)
            yield self._layer("connect", r)
            yield from (self._layer("attach", r, v) for v in range(self.n))
            yield self._layer("divide", r, 1)

    def proper(self) -> Iterator[Launch]:
        """Yields the launches of L° and P°."""
        for r in range(self.n + 1):
            yield self._layer("leave_proper", r)
            yield self._layer("divide", r, 0)

    def _counting(self, r: int) -> Launch:
        classes = [
            (m, r, comb(self.n, m), comb(m, r), -(-comb(self.n, m) * comb(m, r) // (LANES * TEAMS)))
            for m in range(r, min(self.n, r + self.width - 1) + 1)
        ]
        pairs = sum(sets * parts for _, _, sets, parts, _ in classes)
        return Launch("count_full", classes, pairs * (_PAIR + _PRODUCT * 2.0**r))

    def _layer(self, kernel: str, r: int, *more: int) -> Launch:
        classes, pairs = [], 0
        for size in range(min(self.width, self.n - r) + 1):
            groups, parts = groups_of(self.n, size), comb(self.n - size, r)
            classes.append((size, r, groups, parts, groups * -(-parts // (TEAMS * (1 if size else LANES)))))
            pairs += comb(self.n, size) * parts
        each = {"connect": _PRODUCT * 2.0**r, "divide": _PRODUCT * 2.0 ** (r - 1)}.get(kernel, 0.0)
        each += _PAIR * (_ATTACHED if kernel == "attach" else 1.0)
        return Launch(kernel, classes, pairs * each, more=tuple(map(np.int32, more)))
