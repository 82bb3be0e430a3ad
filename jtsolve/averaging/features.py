"""What the finished tables say of edges, cliques and separators."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.averaging.plan import Plan
from jtsolve.core.threads import run_tasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.averaging.sums import Sums
    from jtsolve.core.backend import Limits, Report
    from jtsolve.core.varset import VarSet

NEGLIGIBLE = 1e-12
"""Sets of which none of a group of eight is complete with this probability are not looked at further."""


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Probabilities of the sets of at most w variables.

    Attributes:
        masks: shape (K,): the sets by size, then by mask.
        complete: shape (K,): the probability that all pairs in the set are edges; 1 for ∅.
        clique: shape (K,): that it is a maximal clique.
        separator: shape (K,): the expected number of times that it is a separator.
        connected: the probability that the graph is connected.
    """

    masks: NDArray[np.int64]
    complete: NDArray[np.float64]
    clique: NDArray[np.float64]
    separator: NDArray[np.float64]
    connected: float

    def edges(self, n: int) -> NDArray[np.float64]:
        """Returns the probabilities of the edges, shape (n, n)."""
        matrix = np.zeros((n, n))
        for mask, p in zip(self.masks.tolist(), self.complete.tolist(), strict=True):
            if mask.bit_count() == 2:  # noqa: PLR2004 - an edge joins two
                u, v = (mask & -mask).bit_length() - 1, mask.bit_length() - 1
                matrix[u, v] = matrix[v, u] = min(1.0, p)
        return matrix

    def listed(self, values: NDArray[np.float64], threshold: float) -> tuple[tuple[VarSet, float], ...]:
        """Returns the sets whose value is at least the threshold and above 0, in decreasing order."""
        chosen = np.flatnonzero((values >= threshold) & (values > 0))
        pairs = [(int(self.masks[i]), float(values[i])) for i in chosen]
        return tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))


def features_of(sums: Sums, limits: Limits, report: Report) -> Features:
    """Returns the probabilities, from tables whose total is not 0.

    Raises:
        StoppedError: the report asked to end.
    """
    from jtsolve.averaging.kernels.features import describe_sets, expected_components

    n, width = sums.weights.n, sums.weights.width
    plan = Plan(n, width)
    masks = sums.layout.masks
    out = np.zeros((3, masks.size))
    number, exponent = sums.total
    rest = (sums.excluded, sums.layout, sums.local, sums.tables, out)
    tasks = []
    for size in range(1, width + 1):
        pieces = max(1, min(plan.groups(size), 4 * limits.workers))
        bounds = np.linspace(0, plan.groups(size), pieces + 1).astype(int).tolist()
        tasks += [
            partial(describe_sets, size, first, last, NEGLIGIBLE, (number, exponent), *rest)
            for first, last in pairwise(bounds)
        ]
    pool = ThreadPoolExecutor(limits.workers)
    try:
        run_tasks(pool, tasks, lambda _i: report(note="features"))
    finally:
        pool.shutdown(cancel_futures=True)
    complete, clique, separator = out
    connected = _ratio(sums.connected_total, sums.total)
    complete[0] = 1.0
    separator[0] = max(0.0, expected_components((number, exponent), sums.layout, sums.tables) - 1.0)
    return Features(masks, complete, np.minimum(clique, 1.0), separator, min(1.0, connected))


def _ratio(one: tuple[float, int], other: tuple[float, int]) -> float:
    """Returns one / other, each a number times a power of 2."""
    from math import ldexp

    return ldexp(one[0] / other[0], max(-2000, one[1] - other[1]))
