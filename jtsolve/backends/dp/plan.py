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


# Costs of a run on one core of an AMD EPYC (Zen 4), by `benchmarks/dp_speed.py`. They feed predictions and
# progress; no result depends on them.
ADDITION: dict[Precision, float] = {"float64": 2.2e-10, "int64": 2.2e-10, "int32": 1.2e-10}
"""Seconds of one addition in `kernels.partition`; a register has twice as many int32."""
NEIGHBOUR = 6e-9
"""Seconds to read one number in `kernels.recurrence.finish_g`; on an Intel Xeon."""
_START = 0.3
"""Seconds before the first layer."""


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


@dataclass(frozen=True)
class TablePlan:
    """The tables of a run and its predicted cost, from n and w.

    Args:
        n: the number of variables.
        width: w, the size of the largest cliques.
        two_tables: whether F has a table of its own, of the size of g; see `kernels.recurrence`.
    """

    n: int
    width: int
    two_tables: bool = False

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
        """Returns the bytes that the run allocates at its peak: g and F, ranks, local scores."""
        sets = count_bounded_subsets(self.m, self.width)
        ranks = (24 << self.m) + sets * 48
        local = 16 * count_bounded_subsets(self.n, self.width)
        tables = 2 if self.two_tables else 1
        return (tables * self.cells + 4 * sets) * BYTES[precision] + ranks + local

    def core_seconds(self, precision: Precision) -> float:
        """Returns the predicted seconds of one core for all layers."""
        return self.additions * ADDITION[precision] + self.neighbours * NEIGHBOUR

    def seconds(self, precision: Precision, workers: int) -> float:
        """Returns the predicted seconds of wall clock."""
        return _START + self.core_seconds(precision) / workers
