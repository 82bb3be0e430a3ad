"""The plan of the sums on a device: sizes of the tables, the order of the work, seconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.averaging.device.source import TEAMS
from jtsolve.core.cuda import CONTEXT_SECONDS, LANES, Launch, cells_of_tables, groups_of
from jtsolve.core.varset import count_bounded_subsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

THREADS = LANES * TEAMS
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
    def rows(self) -> list[tuple[int, int]]:
        """Where the rows of the W of m = 0..n members begin in X, and their length."""
        found, begin = [], 0
        for m in range(self.n + 1):
            row = count_bounded_subsets(m, self.width)
            found.append((begin, row))
            begin += comb(self.n, m) * row
        return found

    @cached_property
    def words(self) -> tuple[int, int, int]:
        """The words of F, of L as of P, and of X, which P° replaces."""
        cells = [cells_of_tables(self.n, size) for size in range(self.width + 1)]
        begin, row = self.rows[-1]
        return sum(cells[:-1]), sum(cells), max(begin + row, sum(cells))

    @property
    def memory(self) -> int:
        """Bytes on the device: F, L, P, X or P°, and by set its position, order, weights and B."""
        smaller, cells, across = self.words
        return 8 * (smaller + 2 * cells + across) + (52 << self.n)

    @property
    def host_memory(self) -> int:
        """Bytes in the memory of the process: the weights by set."""
        return 250 << self.n

    def seconds(self, speed: float) -> float:
        """Returns the predicted seconds of wall clock, features included; see `DevicePlan`."""
        kernels = sum(launch.seconds for launch in [*self.sums(), *self.proper()])
        return CONTEXT_SECONDS + 1e-6 * 2.0**self.n + 0.02 + kernels / speed

    def sums(self) -> Iterator[Launch]:
        """Yields the launches of F, L, P and X."""
        yield from self._layer("connect", 0)
        yield from self._layer("divide", 0, np.int32(1))
        for r in range(1, self.n + 1):
            yield from self._counting(r)
            yield from self._layer("connect", r)
            for v in range(self.n):
                yield from self._layer("attach", r, np.int32(v))
            yield from self._layer("divide", r, np.int32(1))

    def proper(self) -> Iterator[Launch]:
        """Yields the launches of L° and P°."""
        for r in range(1, self.n + 1):
            yield from self._layer("leave_proper", r)
        for r in range(self.n + 1):
            yield from self._layer("divide", r, np.int32(0))

    def _counting(self, r: int) -> Iterator[Launch]:
        classes = [(m, r, comb(self.n, m), comb(m, r)) for m in range(r, min(self.n, r + self.width - 1) + 1)]
        blocks = [-(-sets * parts // THREADS) for _, _, sets, parts in classes]
        pairs = sum(sets * parts for _, _, sets, parts in classes)
        yield self._launch("count_full", classes, blocks, pairs * (_PAIR + _PRODUCT * 2.0**r))

    def _layer(self, kernel: str, r: int, *more: np.int32) -> Iterator[Launch]:
        sizes = range(min(self.width, self.n - r) + 1)
        classes = [(size, r, groups_of(self.n, size), comb(self.n - size, r)) for size in sizes]
        blocks = [groups * -(-parts // (TEAMS if size else THREADS)) for size, _, groups, parts in classes]
        pairs = sum(comb(self.n, size) * parts for size, _, _, parts in classes)
        each = {"connect": _PRODUCT * 2.0**r, "divide": _PRODUCT * 2.0 ** (r - 1)}.get(kernel, 0.0)
        each += _PAIR * (_ATTACHED if kernel == "attach" else 1.0)
        yield self._launch(kernel, classes, blocks, pairs * each, *more)

    @staticmethod
    def _launch(
        kernel: str,
        classes: Sequence[tuple[int, int, int, int]],
        blocks: Sequence[int],
        seconds: float,
        *more: np.int32,
    ) -> Launch:
        first = np.cumsum([0, *blocks])
        rows = [(c, u, first[i], groups, parts) for i, (c, u, groups, parts) in enumerate(classes)]
        return Launch(kernel, np.array(rows, np.int32), int(first[-1]), seconds, more=more)
