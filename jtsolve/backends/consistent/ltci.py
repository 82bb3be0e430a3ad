"""Algorithm 2, LTCI: the components of V∖S that are independent given S, by tests of small sets.

For a separator S and a threshold δ, every variable outside S starts as a component. For each set A of at most
q of them, by increasing size, the components that A meets are merged if

    strength_S(A) = min over ∅ ⊊ X ⊊ A of I(X; A∖X | S) > δ,
    I(X; Y | S) = [s(S∪X∪Y) + s(S) − s(S∪X) − s(S∪Y)] / N.

`LTCI` is the algorithm for one separator. `HyperedgeGraphs` holds the graphs Q_S of section 5: their
hyper-edges are the sets A, and their components at δ are those of LTCI. A graph is kept as a forest: a
maximum spanning tree of the pairs has the components of all pairs at every δ, and a larger set that merges
components is a path of edges of its strength. Pairs are tested for every S, larger sets only for the S that
the search chooses, and only if they cross components.

Strengths and thresholds are in nats of all rows, N times those of the paper.

Time for one S with m others: O(m²) for pairs, C(m, a)·2^a scores for sets of a. Memory: m edges for each S;
Σ_{a ≤ q} C(m, a) scores while one S is tested.

References:
    Chechetka and Guestrin, Efficient principled learning of thin junction trees, NIPS 2007.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.consistent.kernels.least_cuts import merge
from jtsolve.core.scores import StoppedError
from jtsolve.core.varset import members

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.scores import LocalScores


@dataclass(frozen=True, slots=True)
class PieceSizes:
    """The work between two polls of the report: a tenth of a second at most."""

    scores: int = 1 << 12  # in a batch, where they are counted from 10^4 rows
    tests: int = 1 << 16  # of sets
    pairs: int = 1 << 20  # tested
    components: int = 1 << 12  # made, or decomposed


PIECES = PieceSizes()


def binomials(n: int, most: int) -> NDArray[np.int64]:
    """Returns C(v, j) at [v, j] for v ≤ n and j ≤ most."""
    return np.array([[comb(v, j) for j in range(most + 1)] for v in range(n + 1)], dtype=np.int64)


def unrank(ranks: NDArray[np.int64], n: int, size: int) -> NDArray[np.int64]:
    """Returns the subsets of {0..n-1} with these colex ranks as increasing rows, shape (m, size).

    >>> unrank(np.arange(4), 4, 2).tolist()
    [[0, 1], [0, 2], [1, 2], [0, 3]]

    Args:
        ranks: shape (m,).
        n: the number of elements.
        size: of the subsets.
    """
    sets = np.empty((ranks.size, size), dtype=np.int64)
    for j in range(size, 0, -1):
        below = np.array([comb(v, j) for v in range(n)])
        sets[:, j - 1] = np.searchsorted(below, ranks, side="right") - 1
        ranks = ranks - below[sets[:, j - 1]]
    return sets


class LTCI:
    """Algorithm 2 for one separator at a time.

    Args:
        scores: local scores of sets of at most |S| + q variables.
        q: the size of the largest sets to test.
        report: ends the tests.

    Attributes:
        tests: the number of sets tested so far.
    """

    def __init__(self, scores: LocalScores, q: int, report: Report) -> None:
        self.scores, self.q, self.report = scores, q, report
        self.binomial = binomials(scores.n, q)
        self.tests = 0

    def merge(
        self,
        separator: NDArray[np.int64],
        others: NDArray[np.int64],
        labels: NDArray[np.int64],
        smallest: int,
        threshold: float,
    ) -> list[tuple[list[int], float]]:
        """Merges the components that strong sets meet, by increasing size of the sets.

        Args:
            separator: the members of S, increasing, shape (|S|,).
            others: variables outside S, increasing.
            labels: the component of each of the others; changed.
            smallest: the size of the smallest sets to test.
            threshold: δ·N.

        Returns:
            The sets that merged components, and their strengths.

        Raises:
            StoppedError: the report stopped it.
        """
        merged: list[tuple[list[int], float]] = []
        values = np.empty(0)
        offsets = np.zeros(self.q + 1, dtype=np.int64)
        scored = -1  # `values` has the scores of S and up to this many others
        for size in range(smallest, min(self.q, others.size) + 1):
            # No set crosses a single component.
            if (labels == labels[0]).all():
                break
            while scored < size:
                scored += 1
                offsets[scored] = values.size
                values = np.concatenate((values, self.scores_with(separator, others, scored)))
            A = np.arange(size, dtype=np.int64)  # as positions among the others; the kernel steps it
            left = True
            while left:
                self.check()
                sets = np.empty((others.size, size), dtype=np.int64)
                strengths = np.empty(others.size)
                found, tested, left = merge(
                    A,
                    values,
                    offsets,
                    self.binomial,
                    labels,
                    threshold,
                    PIECES.tests,
                    sets,
                    strengths,
                )
                self.tests += tested
                merged += [(others[sets[i]].tolist(), float(strengths[i])) for i in range(found)]
        return merged

    def scores_with(
        self, separator: NDArray[np.int64], others: NDArray[np.int64], size: int
    ) -> NDArray[np.float64]:
        """Returns s(S∪B) for all sets B of `size` of the others, in colex order of B.

        Args:
            separator: the members of S, increasing, shape (|S|,).
            others: variables outside S, increasing, shape (m,).
            size: of B.

        Raises:
            StoppedError: the report stopped it.
        """
        values = np.empty(comb(others.size, size))
        for first in range(0, values.size, PIECES.scores):
            self.check()
            ranks = np.arange(first, min(first + PIECES.scores, values.size))
            sets = np.empty((ranks.size, separator.size + size), dtype=np.intp)
            sets[:, : separator.size] = separator
            sets[:, separator.size :] = others[unrank(ranks, others.size, size)]
            sets.sort(axis=1)
            values[first : first + PIECES.scores] = self.scores.batch(sets)
        return values

    def check(self) -> None:
        """Polls the report.

        Raises:
            StoppedError: the report ends the tests.
        """
        if self.report.stop is not None:
            raise StoppedError


class HyperedgeGraphs:
    """The graphs Q_S of section 5 as forests, for every separator S of k variables.

    Args:
        problem: a required edge is a pair of infinite strength.
        k: the size of the separators.
        ltci: tests the larger sets.

    Attributes:
        sets: shape (count, k), all separators in colex order.
        binomial: C(v, j) at [v, j].
        forest: shape (count, m - 1, 2), m = n − k: for each separator the edges of a maximum spanning tree.
        strengths: shape (count, m - 1), of the edges, in nats of all rows, increasing.
        separator_scores: s(S), in colex order, in nats.
        clique_scores: s(C) for all sets C of k + 1, in colex order, in nats.

    Raises:
        StoppedError: the report stopped it.
    """

    def __init__(self, problem: Problem, k: int, ltci: LTCI) -> None:
        n = problem.n
        self.ltci = ltci
        nothing, everything = np.empty(0, dtype=np.int64), np.arange(n, dtype=np.int64)
        self.sets = unrank(np.arange(comb(n, k)), n, k)
        self.binomial = binomials(n, k + 2)
        self.separator_scores, self.clique_scores, pair_scores = (
            ltci.scores_with(nothing, everything, size) for size in (k, k + 1, k + 2)
        )
        required = np.zeros((n, n), dtype=np.bool_)
        for edge in problem.constraints.required_edges:
            u, v = members(edge)
            required[u, v] = required[v, u] = True
        count, edges = len(self.sets), n - k - 1
        self.forest = np.empty((count, edges, 2), dtype=np.int64)
        self.strengths = np.empty((count, edges))
        self._tested: dict[int, NDArray[np.int64]] = {}
        step = max(1, PIECES.pairs // n**2)
        for first in range(0, count, step):
            ltci.check()
            some = slice(first, first + step)
            pairs = self._pair_strengths(self.sets[some], self.separator_scores[some], pair_scores)
            pairs[:, required] = np.inf
            self.forest[some], self.strengths[some] = _strongest_trees(pairs, self.sets[some])
        order = np.argsort(self.strengths, axis=1, kind="stable")
        self.strengths = np.take_along_axis(self.strengths, order, axis=1)
        self.forest = np.take_along_axis(self.forest, order[:, :, None], axis=1)

    def _pair_strengths(
        self, sets: NDArray[np.int64], scores: NDArray[np.float64], pair_scores: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Returns s(S∪uv) + s(S) − s(S∪u) − s(S∪v) for separators S, shape (K, n, n); of no meaning in S.

        Args:
            sets: the separators, shape (K, k).
            scores: theirs, shape (K,).
            pair_scores: of all sets of k + 2.
        """
        (count, k), n = sets.shape, len(self.binomial) - 1
        # Colex ranks add up: the i members of S below v keep their places, v has the next, those above it go
        # up by one, or by two with another member below. So the rank of S∪uv has a term of each end.
        moved = np.zeros((3, count, k + 1), dtype=np.int64)
        for shift in range(3):
            ranks = self.binomial[sets, np.arange(k) + 1 + shift]
            np.cumsum(ranks, axis=1, out=moved[shift, :, 1:])
        below = (sets[:, None, :] < np.arange(n)[:, None]).sum(axis=2)  # (K, n)
        first, second, third = (np.take_along_axis(one, below, axis=1) for one in moved)
        alone, above = (self.binomial[np.arange(n), below + shift] for shift in (1, 2))
        low, high = first + alone - second, second + above - third + moved[2, :, -1:]
        # A vertex in S gets any number that exists.
        single = self.clique_scores.take(low + moved[1, :, -1:], mode="clip")
        u, v = np.triu_indices(n, 1)
        joint = pair_scores.take(low[:, u] + high[:, v], mode="clip") + scores[:, None]
        strengths = np.zeros((count, n, n))
        strengths[:, u, v] = joint - single[:, u] - single[:, v]
        return strengths + strengths.transpose(0, 2, 1)

    def first_edges(self, threshold: float) -> NDArray[np.int64]:
        """Returns the position of the first edge above δ for each separator, shape (count,).

        An infinite strength is that of a required edge, which no threshold removes.
        """
        found: NDArray[np.int64] = (self.strengths <= min(threshold, np.finfo(float).max)).sum(axis=1)
        return found

    def test(self, s: int, labels: NDArray[np.int64], threshold: float) -> bool:
        """Tests the sets of 3 to q that cross components given S, and adds the strong ones as hyper-edges.

        A set that was tested and merged nothing stays weak as δ rises; one that was not tested lay within a
        component of the last call, so that only these components are searched.

        Args:
            s: the rank of S.
            labels: shape (n,), the component of each variable; -1 in S.
            threshold: δ·N, no less than in the last call.

        Returns:
            Whether any was added.
        """
        others = np.flatnonzero(labels >= 0)
        now = labels[others]
        # In the first call, all variables outside S are one part.
        before = self._tested.get(s, np.zeros_like(now))
        found: list[tuple[list[int], float]] = []
        for part in np.unique(before):
            inside = np.flatnonzero(before == part)
            within = now[inside]
            found += self.ltci.merge(self.sets[s], others[inside], within, 3, threshold)
            now[inside] = within
        self._tested[s] = now
        if found:
            self._add(s, found)
        return bool(found)

    def _add(self, s: int, found: list[tuple[list[int], float]]) -> None:
        """Makes the maximum spanning tree of the edges and of a path through each set (Kruskal)."""
        edges = list(zip(self.strengths[s].tolist(), self.forest[s].tolist(), strict=True))
        # A path through A joins the same components as the hyper-edge A.
        edges += [(strength, list(pair)) for A, strength in found for pair in pairwise(A)]
        leader, weak = np.arange(len(self.binomial) - 1), self.strengths.shape[1]
        for strength, (u, v) in sorted(edges, key=lambda edge: -edge[0]):
            if leader[u] != leader[v]:
                leader[leader == leader[u]] = leader[v]
                # From the end, where the strongest edges belong.
                weak -= 1
                self.strengths[s, weak], self.forest[s, weak] = strength, (u, v)


def _strongest_trees(
    strengths: NDArray[np.float64], sets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns maximum spanning trees of the variables outside each separator, by Prim's algorithm.

    Args:
        strengths: of pairs, shape (K, n, n).
        sets: the separators, shape (K, k).

    Returns:
        The edges, shape (K, m - 1, 2), in no order, and their strengths, shape (K, m - 1).
    """
    (count, k), n = sets.shape, strengths.shape[1]
    every = np.arange(count)
    left = np.ones((count, n), dtype=np.bool_)  # neither in S nor in the tree
    np.put_along_axis(left, sets, values=False, axis=1)
    nearest = left.argmax(axis=1)
    best, parent = np.full((count, n), -np.inf), np.full((count, n), -1)
    edges, found = np.empty((count, n - k - 1, 2), dtype=np.int64), np.empty((count, n - k - 1))
    for i in range(n - k - 1):
        left[every, nearest] = False
        closer = strengths[every, nearest] > best
        best = np.where(closer, strengths[every, nearest], best)
        parent = np.where(closer, nearest[:, None], parent)
        nearest = np.where(left, best, -np.inf).argmax(axis=1)
        edges[:, i, 0], edges[:, i, 1], found[:, i] = nearest, parent[every, nearest], best[every, nearest]
    return edges, found
