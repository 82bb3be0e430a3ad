"""Predicted costs of the exact sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb

from jtsolve.core.backend import Estimate
from jtsolve.core.machine import base_memory
from jtsolve.core.varset import count_bounded_subsets

LANES = 8
"""As in `kernels.words`, which is not loaded for a plan."""
_WORD_BYTES = 8
_FEW_CELLS = 1_300_000
"""Pairs (S, R) for which numpy suffices."""
_PRODUCT, _TERM, _CELL, _START = 1.4e-9, 0.8e-9, 150e-9, 0.3
"""Seconds of one core for a term of F or P, a term of B, the further work of a pair (S, R), and before the
first layer; measured by `benchmarks/averaging.py` on an Intel Xeon with AVX-512."""


@dataclass(frozen=True, slots=False)
class TableSizes:
    """The sizes of the tables of the sums.

    Args:
        n: the number of variables.
        width: the largest size of a clique, w.
        drawn: whether graphs are drawn afterwards; then P° replaces X.
    """

    n: int
    width: int
    drawn: bool = False

    def cells(self, most: int) -> int:
        """Returns the number of words of a table of the pairs (S, R), |S| ≤ most, S in groups of LANES."""
        return sum((self.groups(k) * LANES) << (self.n - k) for k in range(most + 1))

    def groups(self, size: int) -> int:
        """Returns the number of groups of LANES sets of one size."""
        return -(-comb(self.n, size) // LANES)

    def groups_across(self, m: int) -> int:
        """Returns the number of groups of LANES sets of m variables without the last variable."""
        return -(-comb(self.n - 1, m) // LANES)

    @cached_property
    def across(self) -> list[int]:
        """Offsets in X of the U of m = 0..n-1 members, without the last variable, and the size of X."""
        begins = [0]
        for m in range(self.n):
            row = count_bounded_subsets(m, self.width) + count_bounded_subsets(m, self.width - 1)
            begins.append(begins[-1] + self.groups_across(m) * LANES * row)
        return begins

    @property
    def words(self) -> int:
        """The number of words of F, L, P, and X or P°."""
        pairs = self.cells(self.width)
        last = max(self.across[-1], pairs) if self.drawn else self.across[-1]
        return self.cells(self.width - 1) + 2 * pairs + last

    @cached_property
    def products(self) -> int:
        """The number of products in the sums for F and P, with those in unused lanes."""
        f: int = sum(self.groups(k) * LANES * 3 ** (self.n - k) for k in range(self.width))
        p: int = sum(self.groups(k) * LANES * 3 ** (self.n - k) for k in range(self.width + 1)) // 2
        return f + p

    @cached_property
    def terms(self) -> int:
        """The number of terms in the sums for B, with those in unused lanes."""
        total: int = 0
        for m in range(self.n):
            for k in range(min(self.width, m + 1)):
                without = count_bounded_subsets(m - k, self.width - k) - 1
                having = count_bounded_subsets(m - k, self.width - k - 1)
                for_last_in_s = having - 1 if k + 1 < self.width else 0
                total += self.groups_across(m) * LANES * comb(m, k) * (2 * without + having + for_last_in_s)
        return total

    @property
    def is_small(self) -> bool:
        """Whether numpy may do the sums: see `plain`."""
        return not self.drawn and count_bounded_subsets(self.n, self.width) << self.n <= _FEW_CELLS

    @property
    def memory(self) -> int:
        """The bytes of tables and weights."""
        return _WORD_BYTES * self.words + (140 << self.n)

    def estimate(self, workers: int) -> Estimate:
        """Returns the predicted peak memory of the process and seconds of wall clock, with features."""
        lists = self.drawn * ((32 << self.n) + workers * (3_000_000 + (72 << self.n)))  # see `kernels.draws`
        features = self.products * _PRODUCT / 3
        work = self.products * _PRODUCT + self.terms * _TERM + self.cells(self.width) * _CELL + features
        held = base_memory(kernels=not self.is_small)
        return Estimate(held + self.memory + lists, _START + work / workers)
