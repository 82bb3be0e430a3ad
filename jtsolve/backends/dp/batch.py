"""Batches of small problems by dynamic programming (`kernels.small`), for large-neighbourhood search.

Unlike a run of the backend, a batch has no report, and its only constraints are those in the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.core.backend import SmallAnswer
from jtsolve.core.renaming import rename, renaming_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.backend import SmallTask


@dataclass(frozen=True, slots=True)
class SmallDynamicProgramming:
    """Solves batches of small problems with cliques of at most `width` members; see `SmallSolver`."""

    width: int

    most: ClassVar[int] = 12  # such problems take 1 ms each at treewidth 2
    group: ClassVar[int] = 8  # `kernels.lanes.LANES`; importing that would load the compiler

    def memory(self, variables: int) -> int:
        """See `SmallSolver`: the two lists of the schedule, and F and g of every pair for each problem."""
        free = variables - 1
        sizes = [(i, comb(free, i) << (free - i)) for i in range(min(free, self.width) + 1)]
        pairs = sum(number * (2 if i < self.width else 1) for i, number in sizes)
        return pairs * (16 * self.group + 4 * (free + self.width) + 60)

    def __call__(self, tasks: Sequence[SmallTask]) -> list[SmallAnswer]:
        """See `SmallSolver`."""
        from jtsolve.backends.dp.kernels.small import solve_lanes

        sizes = np.array([task.variables for task in tasks])
        most = int(sizes.max())
        sets = max(task.masks.size for task in tasks)
        orders = np.full((len(tasks), sets), -1, np.int64)
        values = np.empty((len(tasks), sets))
        covered = np.zeros((len(tasks), max(len(task.covered) for task in tasks)), np.int64)
        for i, task in enumerate(tasks):
            orders[i, : task.masks.size] = task.masks
            values[i, : task.masks.size] = task.scores
            covered[i, : len(task.covered)] = task.covered
        targets = np.array([task.target for task in tasks])
        optima = np.empty(len(tasks))
        cliques, parents = (np.empty((len(tasks), most), np.int64) for _ in range(2))
        counts = np.empty(len(tasks), np.int64)
        schedule = _schedule(most, min(most, self.width))
        solve_lanes(schedule, sizes, orders, values, covered, targets, optima, cliques, parents, counts)
        cliques >>= most - sizes[:, None]
        trees = zip(cliques.tolist(), parents.tolist(), counts.tolist(), strict=True)
        return [
            SmallAnswer(value, tuple(nodes[:used]), tuple(zip(above[1:used], range(1, used), strict=True)))
            for value, (nodes, above, used) in zip(optima.tolist(), trees, strict=True)
        ]


@lru_cache(maxsize=64)
def _schedule(m: int, width: int) -> Any:
    """Returns the `kernels.small.Schedule` for m ≥ 1 variables and cliques of at most `width`."""
    from jtsolve.backends.dp.kernels.small import Schedule

    everything = np.arange(1 << m)
    sets = everything[np.bitwise_count(everything) <= width]
    rank = np.full(1 << m, -1)
    rank[sets] = np.arange(sets.size)
    us = everything[: 1 << m - 1]  # the last variable is in no U
    disjoint = sets[:, None] & us == 0
    base = np.cumsum([0, *disjoint.sum(axis=1)])[:-1]
    node, u = np.nonzero(disjoint)
    order = np.argsort(np.bitwise_count(u), kind="stable")
    node, u = node[order], u[order]
    own = sets[node]
    cell = base[node] + rename(u, ~own & us[-1], renaming_tables())
    number = np.full(disjoint.shape, -1, np.int32)
    number[node, u] = np.arange(node.size)
    members = 1 << np.arange(m)
    has = own[:, None] & members > 0
    grows = (u[:, None] & members > 0) & (np.bitwise_count(own) < width)[:, None]
    pair, v = np.nonzero(grows)
    grown = number[rank[own[pair] | 1 << v], u[pair] ^ 1 << v]
    pair, v = np.nonzero(has)
    shrunk = cell[number[rank[own[pair] ^ 1 << v], u[pair]]].astype(np.int32)
    ends = (np.cumsum(one.sum(axis=1)) for one in (grows, has))
    last = number[rank[1 << m - 1], [us[-1] >> missing << missing for missing in range(m, -1, -1)]]
    return Schedule(m, sets, rank, base, node, cell, grown, next(ends), shrunk, next(ends), last)
