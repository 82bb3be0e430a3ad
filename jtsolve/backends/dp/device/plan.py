"""The plan of a run on a device: the layout of its tables, the order of the work, memory and seconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING, NamedTuple

from jtsolve.backends.dp.plan import BYTES
from jtsolve.core.cuda import Launch, groups_of, table_begins
from jtsolve.core.varset import count_bounded_subsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from jtsolve.backends.dp.plan import Precision

CHUNK = 128
"""The sets U of one block of `finish`."""

MOST = 25
"""Variables of the largest problems, for which the kernels have room."""

_RATES: dict[Precision, tuple[float, float]] = {
    "float64": (1.6e12, 3.05e12),
    "int64": (1.0e12, 3.05e12),
    "int48": (1.0e12, 2.4e12),
    "int32": (4.3e12, 2.9e12),
}
"""See `DevicePlan.rates`."""


class Tile(NamedTuple):
    """The tile of U whose splits one block of `splits` forms at once.

    Attributes:
        low: number of low variables, whose subsets a thread holds in registers.
        middle: number of variables above them, whose subsets are divided among the warps.
        serial: number of splits of a middle part that one warp processes, one after the other; a power of 2.
        blocks: number of blocks per multiprocessor.
    """

    low: int
    middle: int
    serial: int
    blocks: int

    @property
    def warps(self) -> int:
        """The number of warps of a block."""
        return sum(max(1, (1 << part.bit_count()) // self.serial) for part in range(1 << self.middle))


@dataclass(frozen=True)
class DevicePlan:
    """The tables g(C,·) on a device; see `core.cuda`.

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
    def rates(self) -> tuple[float, float]:
        """Additions with maximum, and bytes of neighbours read, a second on an H100."""
        return _RATES[self.precision]

    @cached_property
    def begins(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the tables of the C of each size begin, and their end, without the root and with it.

        Each has shape (sizes + 1,).
        """
        first, second = (table_begins(self.m, min(self.width - root, self.m)) for root in (0, 1))
        return first, second + first[-1]

    @property
    def cells(self) -> int:
        """The numbers stored in all tables."""
        return int(self.begins[1][-1])

    @property
    def memory(self) -> int:
        """Bytes on the device: g, the sets and their positions, the local scores."""
        numbers = 2 * count_bounded_subsets(self.m, self.width) * (4 if self.precision == "int32" else 8)
        return self.cells * BYTES[self.precision] + (8 << self.m) + numbers

    @property
    def host_memory(self) -> int:
        """Bytes in the memory of the process: the local scores, and those of the trace."""
        return 200 << self.m

    @property
    def host_seconds(self) -> float:
        """Predicted seconds of the scores and the trace: 1.7 s at n = 22."""
        return 0.4e-6 * 2.0**self.n

    @cached_property
    def kernel_seconds(self) -> float:
        """The predicted seconds of all kernels on an H100, their preparation included."""
        return sum((launch.seconds for launch in self.launches()), 0.01)

    def launches(self) -> Iterator[Launch]:
        """Yields the launches in order: `splits`, then `finish`, for each level 2|U| + |C|.

        A level needs earlier ones only: (C∪v, U∖v) and (C∖c, U) are one level below, parts of U at least two.
        """
        m, tile, (additions, bandwidth) = self.m, self.shape, self.rates
        tiled = tile.low + tile.middle
        for level in range(2 * m + 1):
            splits, finish = [], []
            sums = reads = 0
            for c in range(level % 2, min(self.width, m, level) + 1, 2):
                u, k = (level - c) // 2, m - c
                if u > k:
                    continue
                groups, sets = groups_of(m, c), comb(k, u)
                rooted = c < self.width
                if u and k >= tiled and c + rooted > 1:
                    highs, roots = 1 << (k - tiled), (c > 1) + rooted
                    splits.append((c, u, groups, highs, roots * groups * highs))
                    sums += roots * comb(m, c) * sets * (2 ** (u - 1) - 1)
                finish.append((c, u, groups, sets, groups * -(-sets // CHUNK)))
                grown = (c < self.width) + (c + 1 < self.width)
                reads += comb(m, c) * sets * (u * grown + c * (1 + rooted))
            if splits:
                yield Launch("splits", splits, sums / additions, tile.warps)
            yield Launch("finish", finish, reads * BYTES[self.precision] / bandwidth)
