"""The plan of a run: where its tables lie, how large they are, and how long it should take.

Everything follows from n and w by counting; nothing is allocated here, and the compiler is not loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb
from typing import Literal

from jtsolve.core.varset import count_bounded_subsets

LANES = 16
"""As in `kernels.partition`, which is not imported: predicting a cost must not load the compiler."""

Precision = Literal["float64", "int64", "int32"]
_BYTES: dict[Precision, int] = {"float64": 8, "int64": 8, "int32": 4}


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of a run on one core of an AMD EPYC (Zen 4), by `benchmarks/dp_speed.py`.

    They feed predictions, progress and the size of the chunks; no result depends on them. A chunk is one call
    of a thread: a few hundredths of a second, so that Ctrl-C and limits act at once.
    """

    float64: float = 2.2e-10  # seconds of one addition in `kernels.partition`; int64 is taken for as fast
    int32: float = 1.2e-10  # the same: twice the lanes in a register
    cell: float = 6e-8  # seconds to finish one F(S,U) and g(S,U)
    start: float = 0.3  # seconds before the first layer
    compiler: int = 130_000_000  # bytes of numba and the kernels in the process
    chunk_additions: float = 1e8
    chunk_cells: float = 2e5

    def addition(self, precision: Precision) -> float:
        """Returns the seconds of one addition in `kernels.partition`."""
        return self.int32 if precision == "int32" else self.float64


COSTS = Costs()


@dataclass(frozen=True, slots=True)
class TableClass:
    """Tables g(C,·) of equal shape: the C with equally many members in the block and outside it.

    Attributes:
        roots: ρ, whether C holds the root variable as well: (0,), (1,) or (0, 1).
        inner: |C ∩ block|.
        outer: |C ∖ block|, the root not counted.
        tables: how many such C there are.
        elements: k, the number of variables outside C ∪ {root}.
        bits: q ≤ 3, how many of them are in the block.
        base: where the tables begin.
    """

    roots: tuple[int, ...]
    inner: int
    outer: int
    tables: int
    elements: int
    bits: int
    base: int

    @property
    def groups(self) -> int:
        """The number of groups of LANES tables."""
        return -(-self.tables // LANES)

    @property
    def cells(self) -> int:
        """The numbers stored, lanes without a table included."""
        return self.groups * LANES << self.elements


@dataclass(frozen=True)
class TablePlan:
    """The tables of a run and its predicted cost, from n and w alone.

    Args:
        n: the number of variables.
        width: w, the size of the largest cliques.
    """

    n: int
    width: int

    @property
    def m(self) -> int:
        """The number of variables without the root."""
        return self.n - 1

    @property
    def block(self) -> int:
        """The number of lowest variables that form the block."""
        return min(3, self.m)

    @cached_property
    def classes(self) -> tuple[TableClass, ...]:
        """All classes of tables, stored one behind the other."""
        found = []
        base = 0
        rest = self.m - self.block
        for inner in range(self.block + 1):
            for outer in range(min(rest, self.width - inner) + 1):
                size = inner + outer
                roots = tuple(root for root in (0, 1) if 1 <= size + root <= self.width)
                tables = len(roots) * comb(self.block, inner) * comb(rest, outer)
                entry = TableClass(roots, inner, outer, tables, self.m - size, self.block - inner, base)
                base += entry.cells
                found.append(entry)
        return tuple(found)

    @property
    def cells(self) -> int:
        """The numbers stored in all tables of g."""
        last = self.classes[-1]
        return last.base + last.cells

    def row_cells(self, members: int) -> int:
        """Returns how many F(S,U) there are for one U of this size."""
        k = self.m - members
        return count_bounded_subsets(k, self.width) + count_bounded_subsets(k, self.width - 1)

    def layer_cells(self, high: int, low: int) -> int:
        """Returns how many F(S,U) the U with `high` members outside the block and `low` in it have."""
        sets = comb(self.m - self.block, high) * comb(self.block, low)
        return sets * self.row_cells(high + low)

    @cached_property
    def peak_layer_cells(self) -> int:
        """The most F(S,U) held at once: computing (high, low) needs (high − 1, low and above)."""
        lows = range(self.block + 1)
        return max(
            sum(self.layer_cells(high, done) for done in lows if done <= low)
            + sum(self.layer_cells(high - 1, left) for left in lows if left >= low and high)
            for high in self.layers
            for low in lows
        )

    @cached_property
    def swept_cells(self) -> int:
        """How many F(S,U) are computed; F(S,∅) = s(S) is given."""
        cells = sum(self.layer_cells(high, low) for high in self.layers for low in range(self.block + 1))
        return cells - self.row_cells(0)

    @property
    def layers(self) -> range:
        """The values of |U ∖ block|."""
        return range(self.m - self.block + 1)

    def split_additions(self, entry: TableClass, high: int) -> int:
        """Returns the additions of a class in one layer of `kernels.partition`."""
        sets = comb(entry.elements - entry.bits, high)
        return int(entry.groups * LANES * sets * (2 ** max(high - 1, 0) - 1) * 3**entry.bits)

    @cached_property
    def additions(self) -> int:
        """The additions over all classes and layers."""
        return sum(self.split_additions(entry, high) for entry in self.classes for high in self.layers)

    def memory(self, precision: Precision) -> int:
        """Returns the bytes that the run allocates at its peak: g, two layers of F, ranks, local scores."""
        sets = count_bounded_subsets(self.m, self.width)
        ranks = (12 << self.m) + sets * (4 * min(self.width, self.m) + 4 * self.m + 48)
        local = 16 * count_bounded_subsets(self.n, self.width)
        return (self.cells + self.peak_layer_cells + 4 * sets) * _BYTES[precision] + ranks + local

    def core_seconds(self, precision: Precision) -> float:
        """Returns the predicted seconds of one core for all layers."""
        return self.additions * COSTS.addition(precision) + self.swept_cells * COSTS.cell

    def seconds(self, precision: Precision, workers: int) -> float:
        """Returns the predicted seconds of wall clock."""
        return COSTS.start + self.core_seconds(precision) / workers


@lru_cache(maxsize=64)
def plan_of(n: int, width: int) -> TablePlan:
    """Returns the plan, cached: large-neighbourhood search solves the same shape thousands of times."""
    return TablePlan(n, width)
