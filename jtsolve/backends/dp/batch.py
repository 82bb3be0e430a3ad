"""Batches of small problems by dynamic programming (`kernels.small`), for large-neighbourhood search.

Unlike a run of the backend, a batch has no report, and its only constraints are those in the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from math import comb
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.core.backend import SmallAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.backend import SmallTask


@dataclass(frozen=True, slots=True)
class SmallDynamicProgramming:
    """Solves batches of small problems with cliques of at most `width` members; see `SmallSolver`."""

    width: int

    most: ClassVar[int] = 12  # such problems take 3 ms each at treewidth 2
    group: ClassVar[int] = 8  # `kernels.lanes.LANES`; importing that would load the compiler

    def memory(self, variables: int) -> int:
        """See `SmallSolver`: the two lists of the schedule, and F, H and g of every pair for each problem."""
        free = variables - 1
        sizes = [(i, comb(free, i) << (free - i)) for i in range(min(free, self.width) + 1)]
        pairs = sum(number * (2 if i < self.width else 1) for i, number in sizes)
        return pairs * (24 * self.group + 4 * (free + self.width) + 60)

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
        trees = zip(cliques.tolist(), parents.tolist(), counts.tolist(), strict=True)
        return [
            SmallAnswer(value, *_tree(nodes[:used], above[:used], most - task.variables))
            for task, value, (nodes, above, used) in zip(tasks, optima.tolist(), trees, strict=True)
        ]


@lru_cache(maxsize=64)
def _schedule(m: int, width: int) -> Any:
    from jtsolve.backends.dp.kernels.small import schedule

    return schedule(m, width)


def _tree(
    nodes: list[int], parents: list[int], filled: int
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Returns the cliques and edges without the padding, the lowest variables.

    Each of these is a clique by itself with a parent, as the first clique contains the last variable; its
    separators are empty, so its children may be attached to its parent.
    """
    place: list[int] = []  # of each node, or of its parent if it is padding
    cliques: list[int] = []
    edges: list[tuple[int, int]] = []
    number = count()
    for node, parent in zip(nodes, parents, strict=True):
        if node >> filled == 0:
            place.append(place[parent])
            continue
        place.append(next(number))
        cliques.append(node >> filled)
        if parent >= 0:
            edges.append((place[parent], place[-1]))
    return tuple(cliques), tuple(edges)
