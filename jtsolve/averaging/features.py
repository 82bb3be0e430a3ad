"""Probabilities of edges, cliques and separators from the finished tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.averaging.plan import TableSizes
from jtsolve.core.threads import Pool, run_tasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.averaging.sums import Sums
    from jtsolve.core.run import Run
    from jtsolve.core.varset import VarSet

NEGLIGIBLE = 1e-12
"""Groups of eight sets are skipped if each is complete with a smaller probability."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphFeatures:
    """Probabilities of the sets of at most w variables.

    Attributes:
        masks: shape (K,): the sets by size, then by mask.
        complete: shape (K,): the probability that all pairs in the set are edges; 1 for ∅.
        clique: shape (K,): the probability that it is a maximal clique.
        separator: shape (K,): its expected multiplicity as a separator.
        connected: the probability that the graph is connected.
    """

    masks: NDArray[np.int64]
    complete: NDArray[np.float64]
    clique: NDArray[np.float64]
    separator: NDArray[np.float64]
    connected: float

    @classmethod
    def of(
        cls,
        masks: NDArray[np.int64],
        shares: tuple[NDArray[np.float64], ...],
        bounded: NDArray[np.bool_],
        connected: float,
    ) -> GraphFeatures:
        """Returns the probabilities from shares of the sum over all graphs.

        Args:
            masks: the sets, shape (K,).
            shares: of each set, c P, c P° and B at R = V∖S, each of shape (K,); see `averaging.plain`.
            bounded: shape (K,): whether a set is no separator; c P then lacks graphs with a full component.
            connected: share of the connected graphs.
        """
        complete, clique, full = shares
        clique = np.minimum(np.where(bounded, complete, np.minimum(clique, complete)), 1.0)
        separator = np.where(bounded, 0.0, np.maximum(full - (complete - clique), 0.0))
        return cls(masks, complete + bounded * full, clique, separator, min(1.0, connected))

    def edges(self, n: int) -> NDArray[np.float64]:
        """Returns the probabilities of the edges, shape (n, n)."""
        matrix = np.zeros((n, n))
        for mask, p in zip(self.masks.tolist(), self.complete.tolist(), strict=True):
            if mask.bit_count() == 2:  # noqa: PLR2004 - an edge joins two
                u, v = (mask & -mask).bit_length() - 1, mask.bit_length() - 1
                matrix[u, v] = matrix[v, u] = min(1.0, p)
        return matrix

    def listed(self, values: NDArray[np.float64], threshold: float) -> tuple[tuple[VarSet, float], ...]:
        """Returns the sets whose value is at least the threshold and above 0, in decreasing order.

        `values` has shape (K,), as the masks.
        """
        chosen = np.flatnonzero((values >= threshold) & (values > 0))
        pairs = [(int(self.masks[i]), float(values[i])) for i in chosen]
        return tuple(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))


def features_of(sums: Sums, run: Run) -> GraphFeatures:
    """Returns the probabilities from tables of a total above 0; the star of marks is left out.

    Raises:
        StoppedError: the run stops.
    """
    from jtsolve.averaging.kernels.features import describe_sets, expected_components

    n, width = sums.weights.n, sums.weights.width
    plan = TableSizes(n, width)
    masks = sums.layout.masks
    out = np.zeros((3, masks.size))
    number, exponent = sums.total
    rest = (sums.weights.star, (number, exponent), sums.layout, sums.local, sums.tables, out)
    tasks = []
    for size in range(1, width + 1):
        pieces = max(1, min(plan.groups(size), 4 * run.threads))
        bounds = np.linspace(0, plan.groups(size), pieces + 1).astype(int).tolist()
        tasks += [
            partial(describe_sets, size, first, last, NEGLIGIBLE, *rest) for first, last in pairwise(bounds)
        ]
    with Pool(run.threads) as pool:
        run_tasks(pool, tasks, lambda _i: run.progress(note="features"))
    complete, clique, separator = out
    connected = ratio(sums.connected_total, sums.total)
    complete[0] = 1.0
    separator[0] = max(0.0, expected_components((number, exponent), sums.layout, sums.tables) - 1.0)
    if sums.weights.star:  # see `describe_sets`: the figures of A are those of A and of A ∪ star
        kept = masks < 1 << (n - 1)
        whole = np.zeros((2, 2, 1 << (n - 1)))
        whole[:, (~kept).astype(int), masks & ~(1 << (n - 1))] = clique, separator
        masks, complete = masks[kept], complete[kept]
        clique, separator = np.maximum(whole.sum(axis=1), 0.0)[:, masks]
    return GraphFeatures(masks, complete, np.minimum(clique, 1.0), separator, min(1.0, connected))


def shares_of_total(
    words: NDArray[np.uint64], word_format: tuple[int, int], total: tuple[float, int], exponents: Any = 0
) -> NDArray[np.float64]:
    """Returns the numbers of words times 2^exponents, divided by the total; see `sums.word_format`.

    Args:
        words: of any shape.
        word_format: bits of the fraction, and the exponent of the smallest word.
        total: its number and exponent of 2.
        exponents: broadcast to the shape of the words.
    """
    bits, base = word_format
    number, exponent = total
    fractions = (words & np.uint64((1 << bits) - 2)).astype(np.float64) * 2.0**-bits
    shifts = (words >> np.uint64(bits)).astype(np.int64) + (base - exponent) + exponents
    found: NDArray[np.float64] = np.where(
        words > 0, np.ldexp((1.0 + fractions) / number, np.maximum(shifts, -2000)), 0.0
    )
    return found


def ratio(one: tuple[float, int], other: tuple[float, int]) -> float:
    """Returns one / other, each a number times a power of 2."""
    from math import ldexp

    return ldexp(one[0] / other[0], max(-2000, one[1] - other[1]))
