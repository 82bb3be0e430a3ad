"""The plan of a run on a device: the layout of its tables, the order of the work, memory and seconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.cuda import CONTEXT_SECONDS, Launch, cells_of_tables, groups_of
from jtsolve.core.varset import count_bounded_subsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from jtsolve.backends.dp.plan import Precision

TEAMS, CHUNK = 8, 128
"""Warps of a block of `finish`, and the sets U of one block."""

MOST = 25
"""Variables of the largest problems, for which the kernels have room."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of an H100 (132 multiprocessors), for predictions, progress and the size of launches.

    Attributes:
        bytes: of a number.
        additions: with maximum, a second.
        bandwidth: bytes of neighbours read a second.
    """

    bytes: int
    additions: float
    bandwidth: float


RATES: dict[Precision, Rates] = {
    "float64": Rates(8, 1.6e12, 3.05e12),
    "int64": Rates(8, 1.0e12, 3.05e12),
    "int48": Rates(6, 1.0e12, 2.4e12),
    "int32": Rates(4, 4.3e12, 2.9e12),
}


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile of U whose splits one block of `splits` forms at once.

    Attributes:
        low: number of low variables, whose subsets a thread holds in registers.
        middle: number of variables above them, whose subsets are divided among the warps.
        serial: number of splits of a middle part that one warp processes, one after the other.
        blocks: number of blocks per multiprocessor.
    """

    low: int
    middle: int
    serial: int
    blocks: int


@dataclass(frozen=True)
class DevicePlan:
    """The tables g(C,·), the C of one size in groups of LANES; C = ∅, the largest table, is separate.

    Args:
        n: the number of variables.
        width: w, the size of the largest cliques.
        precision: of the numbers.
        tile: overrides the tile, for tests.
    """

    n: int
    width: int
    precision: Precision
    tile: Tile | None = None

    @property
    def m(self) -> int:
        """The number of variables without the root."""
        return self.n - 1

    @property
    def shape(self) -> Tile:
        """The tile: as many registers as a number allows."""
        return self.tile or (Tile(6, 4, 4, 1) if self.precision == "int32" else Tile(5, 3, 4, 2))

    @property
    def tiled(self) -> int:
        """Variables outside C from which on `splits` forms the sums; below, `finish` does."""
        return self.shape.low + self.shape.middle

    @cached_property
    def base(self) -> NDArray[np.int64]:
        """The offset of the tables for ρ and c = |C|, shape (2, 32); -1 for none."""
        base = np.full((2, 32), -1, np.int64)
        cells = 0
        for root, size in self._classes:
            base[root, size] = cells
            cells += cells_of_tables(self.m, size)
        return base

    @property
    def _classes(self) -> Iterator[tuple[int, int]]:
        return ((root, size) for root in (0, 1) for size in range(min(self.width - root, self.m) + 1))

    @property
    def tables(self) -> Iterator[tuple[int, int, int]]:
        """Yields the first cell, the number of cells and |C| of each class of tables."""
        for root, size in self._classes:
            yield int(self.base[root, size]), cells_of_tables(self.m, size), size

    @cached_property
    def cells(self) -> int:
        """The numbers stored in all tables."""
        return sum(cells_of_tables(self.m, size) for _, size in self._classes)

    @property
    def memory(self) -> int:
        """Bytes on the device: g, the sets and their positions, the local scores."""
        numbers = 2 * count_bounded_subsets(self.m, self.width) * (4 if self.precision == "int32" else 8)
        return self.cells * RATES[self.precision].bytes + (8 << self.m) + numbers

    @property
    def host_memory(self) -> int:
        """Bytes in the memory of the process: the local scores, and those of the trace."""
        return 200 << self.m

    def launches(self) -> Iterator[Launch]:
        """Yields the launches in order: `splits`, then `finish`, for each level 2|U| + |C|.

        The work of `splits` is additions, that of `finish` the neighbours that it reads.
        A level needs earlier ones only: (C∪v, U∖v) and (C∖c, U) are one level below, parts of U at least two.
        """
        rates = RATES[self.precision]
        for level in range(2, 2 * self.m + 1):
            splits, finish = [], []
            sums = reads = split_blocks = finish_blocks = 0
            for c in range(level % 2, min(self.width, self.m, level - 2) + 1, 2):
                u, k = (level - c) // 2, self.m - c
                if u > k:
                    continue
                groups, sets = groups_of(self.m, c), comb(k, u)
                rooted = c < self.width
                if k >= self.tiled and c + rooted > 1:
                    highs = 1 << (k - self.tiled)
                    splits.append((c, u, split_blocks, groups, highs))
                    split_blocks += ((c > 1) + rooted) * groups * highs
                    sums += ((c > 1) + rooted) * comb(self.m, c) * sets * (2 ** (u - 1) - 1)
                finish.append((c, u, finish_blocks, groups, sets))
                finish_blocks += groups * -(-sets // CHUNK)
                grown = (c < self.width) + (c + 1 < self.width)
                reads += comb(self.m, c) * sets * (u * grown + c * (1 + rooted))
            if splits:
                seconds = sums / rates.additions
                yield Launch("splits", np.array(splits, np.int32), split_blocks, seconds, sums)
            if finish:
                seconds = reads * rates.bytes / rates.bandwidth
                yield Launch("finish", np.array(finish, np.int32), finish_blocks, seconds, reads)

    def work(self, kernel: str) -> int:
        """Returns the work of all launches of a kernel."""
        return sum(launch.work for launch in self.launches() if launch.kernel == kernel)

    @cached_property
    def kernel_seconds(self) -> float:
        """The predicted seconds of all kernels on an H100, their preparation included."""
        return sum((launch.seconds for launch in self.launches()), 0.01)

    def seconds(self, speed: float) -> float:
        """Returns the predicted seconds of wall clock on a device of a speed relative to an H100."""
        host = 0.4e-6 * 2.0**self.n  # scores and trace: 1.7 s at n = 22
        return CONTEXT_SECONDS + host + self.kernel_seconds / speed
