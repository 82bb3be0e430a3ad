"""Sums over all decomposable graphs, each exactly once.

For disjoint S, R let 𝒢(S,R) be the decomposable graphs on S ∪ R in which S is complete. A component K of
G − S is *full* if its neighbourhood N(K) is S. With the weight w(G) = Π c(C) / Π s(S),

    F(S,R) = Σ w(G) over the G ∈ 𝒢(S,R) with R connected and N(R) = S
    L(S,R) = Σ_{Q⊆S} F(Q,R)/s(Q)                        R connected, N(R) any Q ⊆ S
    P(S,R) = Σ_{K⊆R, K∋min R} L(S,K) P(S,R∖K)           every partition of R into such parts; P(S,∅) = 1
    B(S,R) = Σ_{∅≠D⊆R} X(S∪D, R∖D)                      = Σ_{𝒢(S,R)} w(G) · (number of full components of S)
    F(S,R) = B(S,R) − Σ_{∅≠K⊊R} F(S,K) P(S,R∖K)
    X(S,R) = Σ_{𝒢(S,R)} w(G) · (1 − number of full components of S)
           = c(S) P(S,R) − B(S,R),             X(S,∅) = c(S)
    Z = P(∅,V), the sum over all graphs.

First all R without the last variable, then those with it; each time by layers of |R|: B, F for all S, then L
by sums over subsets, then P and X.

*Why.* (i) A complete S splits G: w(G) is s(S) times the product of w(G[K∪N(K)])/s(N(K)) over the components K
of G − S if some K is full, and c(S) times it if none is: then S is a maximal clique. (ii) Fix a junction tree
and a full component K of S. The cliques within K ∪ S that contain S form a subtree whose edges are separators
Q ⊋ S: cliques minus separators is 1. A complete Q is a maximal clique if it has no full component, and occurs
max(full(Q) − 1, 0) times as a separator: together 1 − full(Q). So full(S) = Σ (1 − full(Q)) over the complete
Q ⊋ S; summed over graphs, this is B from X. (iii) B is also Σ_K F(S,K) P(S,R∖K), with one full component
marked; hence F.

If 1/s(S) = 0, then X = c P: two full components cannot be, and of one S is no clique. If R has a required
neighbour outside S ∪ R, then B(S,R) = F(S,R) = 0. Every set that may be a separator may be a clique.

All sums but those for F and X are of positive terms, and in these two the terms are at most a count of sets
times sums that the result is added to: errors stay relative. The range of numbers is met by `kernels.words`.

Time: Σ_{i≤w} C(n,i) 3^(n−i) products twice, 4^n without a bound w on the size of cliques. Memory: three
tables of Σ_{i≤w} C(n,i) 2^(n−i) words, 3^n without a bound, and X, two thirds of one (`kernels.sums`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import islice, pairwise
from math import comb, inf, log
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.averaging.plan import LANES, TableSizes
from jtsolve.core.threads import Pool, run_tasks
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.errors import LimitError
from jtsolve.options import MEMORY, METHOD, TREEWIDTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from jtsolve.averaging.weights import SetWeights
    from jtsolve.core.run import Limits, Run


def require_room(plan: TableSizes, limits: Limits, need: int | None = None) -> None:
    """Refuses sums whose tables exceed the memory limit.

    Args:
        plan: sizes of the tables.
        limits: the memory limit.
        need: predicted bytes of the process; None for tables in its memory.

    Raises:
        LimitError: with the need, the limit, and the ways out.
    """
    memory = plan.estimate(limits.workers).memory
    need = memory if need is None else need
    if need <= limits.memory_bytes:
        return
    room = limits.memory_bytes - (memory - plan.memory)
    narrower = (w for w in range(plan.width - 1, 0, -1) if replace(plan, width=w).memory <= room)
    ways = [TREEWIDTH(w - 1) for w in islice(narrower, 1)]
    ways += [f"{METHOD('chains')}, which needs no tables", f"a larger {MEMORY}, where the machine has it"]
    raise LimitError(
        f"the exact sums need {need / 1e9:.3g} GB for {plan.n} variables at treewidth {plan.width - 1}, but "
        f"the memory limit is {limits.memory_bytes / 1e9:.3g} GB. Ways out: {'; '.join(ways)}."
    )


@dataclass(frozen=True)
class Sums:
    """The finished tables.

    Attributes:
        weights: weights of the sets.
        layout: see `kernels.sums`.
        local: the weights in the form of the kernels.
        tables: F, L and P as words; X, no longer needed, is empty.
        seconds: parts of the time, in seconds of wall clock.
    """

    weights: SetWeights
    layout: Any
    local: Any
    tables: Any
    seconds: dict[str, float]

    @cached_property
    def connected_total(self) -> tuple[float, int]:
        """The sum over connected graphs as (number, exponent of 2); the star connects nothing."""
        return self._value(self.tables.f, 1 << (self.weights.n - 1) if self.weights.star else 0)

    @cached_property
    def total(self) -> tuple[float, int]:
        """The sum over all graphs as (number, exponent of 2); (0, 0) if there are none."""
        if self.local.inverse[0] == 0:
            return self._value(self.tables.f, 0)
        return self._value(self.tables.parts, 0)

    def _value(self, table: NDArray[np.uint64], s: int) -> tuple[float, int]:
        rest = (1 << (self.weights.n - s.bit_count())) - 1
        word = int(table[int(self.layout.offset[s]) + LANES * rest])
        return number_of(word, self.layout.bits, self.layout.base)

    @property
    def log_total(self) -> float:
        """Ln of the sum of the weights of all graphs, in nats; -inf if there are none."""
        return log_of(self.total, self.weights)

    @property
    def precision(self) -> float:
        """The relative rounding error of a number."""
        return float(2.0 ** (-self.layout.bits))


def number_of(word: int, bits: int, base: int) -> tuple[float, int]:
    """Returns the number of a word as (number, exponent of 2).

    Args:
        word: 0 for the number 0.
        bits: of the fraction.
        base: exponent of the smallest word.
    """
    return (1.0 + (word & (1 << bits) - 1) / (1 << bits), (word >> bits) + base) if word else (0.0, 0)


def log_of(total: tuple[float, int], weights: SetWeights) -> float:
    """Returns ln of a sum of weights of graphs, in nats; -inf for 0."""
    number, exponent = total
    return -inf if number == 0 else log(number) + exponent * log(2) + weights.offset


def compute(weights: SetWeights, run: Run, *, drawn: bool = False) -> Sums:
    """Runs the recurrence.

    Args:
        weights: of the sets.
        run: limits; ends the work.
        drawn: whether graphs are to be drawn, which needs further tables.

    Raises:
        LimitError: the tables exceed the memory limit; raised before any allocation.
        StoppedError: the run stops.
    """
    plan = TableSizes(weights.n, weights.width, drawn)
    require_room(plan, run.limits)
    recurrence = _Recurrence(weights, plan, run)
    began = time.perf_counter()
    recurrence.all_layers()
    seconds = {"sums": time.perf_counter() - began}
    tables = recurrence.tables._replace(x=np.zeros(0, np.uint64))
    return Sums(weights, recurrence.layout, recurrence.local, tables, seconds)


_TASK = 2.2e7
"""Products or terms of a task: a fiftieth of a second, so that Ctrl-C and limits act at once."""


class _Recurrence:
    """The tables and the layers."""

    def __init__(self, weights: SetWeights, plan: TableSizes, run: Run) -> None:
        self.plan, self.run = plan, run
        self.layout = kernel_layout(plan, weights)
        self.local = local_of(weights)
        self.tables = _tables(plan)

    def all_layers(self) -> None:
        """Runs all layers of |R|."""
        from jtsolve.averaging.kernels.sums import begin

        plan, n = self.plan, self.plan.n
        for k in range(plan.width + 1):
            begin(k, 0, plan.groups(k), self.layout, self.local, self.tables)
        # All R without the last variable first, each time by size: see the module.
        layers = [(phase, r) for phase in (0, 1) for r in range(1, n + phase)]
        work = [comb(n - 1, r - phase) * count_bounded_subsets(n - r, plan.width) << r for phase, r in layers]
        with Pool(self.run.threads) as pool:
            for nth, layer in enumerate(layers):
                done, note = sum(work[:nth]) / sum(work), f"layer {nth + 1} of {len(layers)}"
                for step in self._steps(*layer):
                    run_tasks(pool, list(step), lambda _i: self.run.progress(done=done, note=note))  # noqa: B023

    def _steps(self, phase: int, r: int) -> Iterator[Iterator[Callable[[], object]]]:
        """Yields the steps of a layer; the tasks of a step are independent.

        Args:
            phase: 0: the R without the last variable; 1: those with it.
            r: |R|.
        """
        yield self._counting(phase, r)  # B, from X of smaller R
        yield self._convolving(phase, r, "connect", self.plan.width - 1, 0)  # F, from B
        yield self._attaching(phase, r)  # L, from F of all Q ⊆ S
        yield self._convolving(phase, r, "divide", self.plan.width, 1)  # P from L, and X = c P − B

    def _counting(self, phase: int, r: int) -> Iterator[Callable[[], object]]:
        from jtsolve.averaging.kernels.sums import IN_R, IN_S, NOWHERE, count_full

        plan = self.plan
        # For each U = S ∪ R without the last variable, of m members: S has k of them.
        for m in range(r - phase, plan.n):
            k = m - (r - phase)
            for last in (IN_R,) if phase else (NOWHERE, IN_S):
                smaller = last == IN_S
                if k + smaller >= plan.width:
                    continue
                # The terms of a sum: the D with which S has at most w members.
                bigger = count_bounded_subsets(m - k, plan.width - k - smaller)
                if phase:
                    bigger += count_bounded_subsets(m - k, plan.width - k - 1)
                groups, sets = plan.groups_across(m), comb(m, k)
                each = 0.5 * LANES * bigger + 2.0 * LANES
                for begin, end in pieces_of(sets, groups * each):  # all groups share the work of a set
                    for first, past in pieces_of(groups, (end - begin) * each):
                        portion = (first, past, begin, end)
                        yield partial(count_full, m, k, last, *portion, self.layout, self.tables)

    def _convolving(
        self, phase: int, r: int, name: str, widest: int, saved: int
    ) -> Iterator[Callable[[], object]]:
        from jtsolve.averaging.kernels import sums

        kernel, plan = getattr(sums, name), self.plan
        for k in range(min(widest, plan.n - r) + 1):
            each = LANES * (2.0 ** (r - saved) + 20.0)
            for begins, ends, parts in self._renamed(phase, r, k):
                if begins == ends:
                    continue
                for first, last in pieces_of(ends - begins, parts.size * each):
                    for begin, end in pieces_of(parts.size, (last - first) * each):
                        portion = (begins + first, begins + last, parts[begin:end])
                        yield partial(kernel, k, phase, *portion, self.layout, self.local, self.tables)

    def _renamed(self, phase: int, r: int, k: int) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Yields ranges of groups of S of size k, and the R of size r renamed within V ∖ S.

        It is also the last of V ∖ S unless S holds it. A group may have S of both kinds; the kernels
        distinguish them.
        """
        # Sets are ordered by mask, so those without the last variable come first.
        without = comb(self.plan.n - 1, k)
        if phase:
            yield 0, -(-without // LANES), _with_last(self.plan.n - k, r)
        else:
            yield 0, without // LANES, _of_size(self.plan.n - k - 1, r)
            yield without // LANES, self.plan.groups(k), _of_size(self.plan.n - k, r)

    def _attaching(self, phase: int, r: int) -> Iterator[Callable[[], object]]:
        from jtsolve.averaging.kernels.sums import attach

        n = self.plan.n
        sets = _with_last(n, r) if phase else _of_size(n - 1, r)
        each = (20.0 + 3.0 * (n - r)) * 2.0 ** (n - r)
        for begin, end in pieces_of(sets.size, each):
            yield partial(attach, sets[begin:end], self.layout, self.local, self.tables)


def pieces_of(count: int, each: float) -> Iterator[tuple[int, int]]:
    """Yields ranges of `count` things that make tasks of `_TASK` units of work, `each` a thing."""
    pieces = max(1, min(count, round(count * each / _TASK)))
    yield from pairwise(np.linspace(0, count, pieces + 1).astype(int).tolist())


@cache
def _of_size(n: int, size: int) -> NDArray[np.int64]:
    """Returns the masks over n variables with `size` members, in increasing order."""
    masks = np.arange(1 << n, dtype=np.int64)
    chosen: NDArray[np.int64] = masks[np.bitwise_count(masks) == size]
    return chosen


def _with_last(n: int, size: int) -> NDArray[np.int64]:
    """Returns the members that contain the last variable."""
    return _of_size(n - 1, size - 1) | 1 << (n - 1)


def _tables(plan: TableSizes) -> Any:
    """Returns the `kernels.sums.Tables`, of zeros."""
    from jtsolve.averaging.kernels.sums import Tables

    pairs, smaller = plan.cells(plan.width), max(plan.cells(plan.width - 1), LANES)
    return Tables(*(np.zeros(size, np.uint64) for size in (smaller, pairs, pairs, plan.across[-1])))


def word_format(weights: SetWeights) -> tuple[int, int]:
    """Returns the bits of fractions, and the exponent of code 0."""
    # Codes of products with 0 have to lie below those of every product of two others (`kernels.words`).
    base = 2 * weights.lowest - weights.highest - 2048
    return min(52, 62 - (weights.highest - base + 2).bit_length()), base


def kernel_layout(plan: TableSizes, weights: SetWeights) -> Any:
    """Returns the `kernels.sums.Layout`."""
    from jtsolve.averaging.kernels.sums import Layout
    from jtsolve.core.renaming import renaming_tables

    n, width = plan.n, plan.width
    bits, base = word_format(weights)
    masks = np.concatenate([_of_size(n, size) for size in range(width + 1)])
    rank = np.empty(1 << n, np.int64)
    offset = np.full(1 << n, -1, np.int64)
    for size in range(n + 1):
        sets = _of_size(n, size)
        rank[sets] = np.arange(sets.size)
        if size <= width:
            nth = rank[sets]
            begins = plan.cells(size - 1)
            offset[sets] = begins + (nth // LANES) * (LANES << (n - size)) + nth % LANES
    first = np.array(
        [[count_bounded_subsets(m, k - 1) for k in range(width + 2)] for m in range(n + 1)], np.int64
    )
    across = np.array(plan.across, np.int64)
    return Layout(
        n, width, bits, base, weights.lowest, masks, first, rank, offset, across, *renaming_tables()
    )


def local_of(weights: SetWeights) -> Any:
    """Returns the `kernels.sums.Weights`."""
    from jtsolve.averaging.kernels.sums import Weights

    clique, clique_exponent = mantissas_and_exponents(weights.clique)
    inverse, inverse_exponent = mantissas_and_exponents(-weights.separator)
    required = np.array(weights.required, np.int64)
    return Weights(clique, clique_exponent, inverse, inverse_exponent, required)


def mantissas_and_exponents(logarithms: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Returns numbers from 1 to 2, or 0, and exponents of 2^logarithm, all of the shape of `logarithms`."""
    exponents = np.where(logarithms > -inf, np.floor(logarithms), 0.0)
    numbers = np.where(logarithms > -inf, np.exp2(logarithms - exponents), 0.0)
    return numbers, exponents.astype(np.int64)
