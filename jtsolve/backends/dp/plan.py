"""The plan of a run: the layout and sizes of its tables, and its predicted time.

Everything follows from n and w by counting; nothing is allocated here, and the compiler is not loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Literal

from jtsolve.core.varset import count_bounded_subsets

LANES = 16
"""Tables side by side: two AVX-512 registers of float64, or one cache line of int32."""

Precision = Literal["float64", "int64", "int48", "int32"]
BYTES: dict[Precision, int] = {"float64": 8, "int64": 8, "int48": 6, "int32": 4}


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of a run on one core of an AMD EPYC (Zen 4), by `benchmarks/dp_speed.py`.

    They feed predictions, progress and the size of the chunks; no result depends on them. A chunk is one call
    of a thread: a few hundredths of a second, so that Ctrl-C and limits act at once.
    """

    float64: float = 2.2e-10  # seconds of one addition in `kernels.partition`; int64 is assumed as fast
    int32: float = 1.2e-10  # the same: twice the lanes in a register
    neighbour: float = 6e-9  # seconds to read one number in `kernels.recurrence.finish_g`; on an Intel Xeon
    start: float = 0.3  # seconds before the first layer
    compiler: int = 130_000_000  # bytes of numba and the kernels in the process
    chunk_additions: float = 1e8
    chunk_neighbours: float = 4e6

    def addition(self, precision: Precision) -> float:
        """Returns the seconds of one addition in `kernels.partition`."""
        return self.int32 if precision == "int32" else self.float64


COSTS = Costs()


@dataclass(frozen=True, slots=True)
class TableClass:
    """Tables g(C,·) of equal shape: the C with equally many members in the block and outside it.

    Attributes:
        inner: |C ∩ block|.
        outer: |C ∖ block|, the root not counted.
        roots: 2 if C may contain the root as well, else 1.
        tables: the number of such C, the root not counted.
        elements: k, the number of variables outside C ∪ {root}.
        bits: q ≤ 3, the number of those in the block.
        base: the offset of the tables.
    """

    inner: int
    outer: int
    roots: int
    tables: int
    elements: int
    bits: int
    base: int

    @property
    def groups(self) -> int:
        """The number of groups of LANES tables, those with the root not counted."""
        return -(-self.tables // LANES)

    @property
    def split_groups(self) -> range:
        """The groups of the C with two members or more; those with the root come last."""
        return range(
            min(2 - min(self.inner + self.outer, 2), self.roots) * self.groups, self.roots * self.groups
        )

    @property
    def cells(self) -> int:
        """The numbers stored, lanes without a table included."""
        return self.roots * self.groups * LANES << self.elements

    def rows(self, high: int) -> int:
        """Returns the number of U with `high` members outside the block."""
        return comb(self.elements - self.bits, high) << self.bits


@dataclass(frozen=True)
class TablePlan:
    """The tables of a run and its predicted cost, from n and w.

    Args:
        n: the number of variables.
        width: w, the size of the largest cliques.
        layered: whether F has tables, two layers at a time; see `kernels.recurrence`.
    """

    n: int
    width: int
    layered: bool = False

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
        for inner in range(min(self.block, self.width) + 1):
            for outer in range(min(rest, self.width - inner) + 1):
                size = inner + outer
                tables = comb(self.block, inner) * comb(rest, outer)
                roots = 2 if size < self.width else 1
                entry = TableClass(inner, outer, roots, tables, self.m - size, self.block - inner, base)
                base += entry.cells
                found.append(entry)
        return tuple(found)

    @property
    def cells(self) -> int:
        """The numbers stored in all tables of g."""
        last = self.classes[-1]
        return last.base + last.cells

    @property
    def layers(self) -> range:
        """The values of |U ∖ block|."""
        return range(self.m - self.block + 1)

    def layer_cells(self, high: int) -> int:
        """Returns the number of F(S,U) for the U with `high` members outside the block, with empty lanes."""
        return sum((entry.cells >> entry.elements) * entry.rows(high) for entry in self.classes)

    @cached_property
    def peak_layer_cells(self) -> int:
        """Maximum number of F(S,U) held at once: a layer needs the one before it."""
        return max(
            self.layer_cells(high) + (self.layer_cells(high - 1) if high else 0) for high in self.layers
        )

    def split_additions(self, entry: TableClass, high: int) -> int:
        """Returns the additions of a class in one layer of `kernels.partition`."""
        sets = comb(entry.elements - entry.bits, high)
        return int(len(entry.split_groups) * LANES * sets * (2 ** max(high - 1, 0) - 1) * 3**entry.bits)

    @cached_property
    def additions(self) -> int:
        """The additions over all classes and layers."""
        return sum(self.split_additions(entry, high) for entry in self.classes for high in self.layers)

    @cached_property
    def neighbours(self) -> int:
        """Numbers read by `kernels.recurrence.finish_g`: about one for each member of U and C."""
        return sum(
            (entry.cells >> entry.elements) * ((k << k) // 2 + ((1 << k) - 1) * (self.m - k))
            for entry in self.classes
            for k in [entry.elements]
        )

    def memory(self, precision: Precision) -> int:
        """Returns the bytes that the run allocates at its peak: g, two layers of F, ranks, local scores."""
        sets = count_bounded_subsets(self.m, self.width)
        ranks = (24 << self.m) + sets * 48
        local = 16 * count_bounded_subsets(self.n, self.width)
        layers = self.peak_layer_cells if self.layered else 0
        return (self.cells + layers + 4 * sets) * BYTES[precision] + ranks + local

    def core_seconds(self, precision: Precision) -> float:
        """Returns the predicted seconds of one core for all layers."""
        return self.additions * COSTS.addition(precision) + self.neighbours * COSTS.neighbour

    def seconds(self, precision: Precision, workers: int) -> float:
        """Returns the predicted seconds of wall clock."""
        return COSTS.start + self.core_seconds(precision) / workers
