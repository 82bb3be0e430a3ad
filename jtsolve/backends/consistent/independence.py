"""LTCI: which sets of variables are independent, given a separator, as far as tests of small sets tell.

Algorithm 2 of the paper for a separator S and a threshold δ: every variable outside S is a component of its
own; for each set A of at most q of them, by size, the components that A meets become one if

    strength_S(A) = min over ∅ ⊊ X ⊊ A of I(X; A∖X | S) > δ,
    I(X; Y | S) = [s(S∪X∪Y) + s(S) − s(S∪X) − s(S∪Y)] / N.

All pairs are tested first, for every S. A maximum spanning tree of the pairs gives their components at every
δ. A larger set that joins components is a path of edges of its strength, so that the tree of pairs and paths
again says all. Larger sets are tested only for separators that are asked about (`Independence.recheck`), and
only if they cross components: section 5 of the paper.

Strengths are in nats of all rows, N times those of the paper; thresholds likewise.

Time for one S with m others: O(m²) for pairs, C(m, a)·2^a looks at scores for sets of a. Memory: m edges for
each S; Σ_{a ≤ q} C(m, a) scores while one S is tested.

References:
    Chechetka and Guestrin, Efficient principled learning of thin junction trees, NIPS 2007.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.consistent.kernels.least_cuts import (
    find_hyperedges,
    rows_with,
    strongest_forests,
    strongest_tree,
)
from jtsolve.core.varset import VarSet, members, varset

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.scores import LocalScores

_ROWS = 1 << 12
"""Scores to a batch: a tenth of a second where they are counted from 10^4 rows."""
_TESTS = 1 << 16
"""Sets tested at a time: a tenth of a second."""
_FORESTS = 1 << 20
"""Pairs tested at a time: as long."""


class Stopped(Exception):  # noqa: N818 - no error: the report asked to end
    """The report said that the work has to end."""


def binomials(n: int, most: int) -> NDArray[np.int64]:
    """Returns C(v, j) at [v, j] for v ≤ n and j ≤ most."""
    return np.array([[comb(v, j) for j in range(most + 1)] for v in range(n + 1)], dtype=np.int64)


def sets_with(
    separator: NDArray[np.int64], others: NDArray[np.int64], size: int
) -> Iterator[NDArray[np.int64]]:
    """Yields S∪B for all sets B of `size` of the others, in colex order of B, some rows at a time."""
    count = comb(others.size, size)
    chosen = np.arange(size, dtype=np.int64)
    while count > 0:
        rows = np.empty((min(count, _ROWS), separator.size + size), dtype=np.int64)
        count -= rows_with(separator, others, chosen, size, rows)
        yield rows


def scores_with(
    scores: LocalScores,
    separator: NDArray[np.int64],
    others: NDArray[np.int64],
    size: int,
    report: Report | None,
) -> NDArray[np.float64]:
    """Returns s(S∪B) for all sets B of `size` of the others, in colex order of B.

    Raises:
        Stopped: the report said so.
    """
    values = np.empty(comb(others.size, size))
    at = 0
    for rows in sets_with(separator, others, size):
        if report is not None and report.stop is not None:
            raise Stopped
        values[at : at + len(rows)] = scores.batch(rows.astype(np.intp, copy=False))
        at += len(rows)
    return values


class HyperedgeTests:
    """Tests sets of several variables given a separator.

    Args:
        scores: local scores of sets of at most |S| + `largest`.
        largest: q.
        enumerate_cuts: all cuts of a set instead of Queyranne's algorithm.
        report: is asked whether to go on; None for always.

    Attributes:
        tests: how many sets were tested.
    """

    def __init__(
        self, scores: LocalScores, largest: int, *, enumerate_cuts: bool, report: Report | None = None
    ) -> None:
        self.scores, self.largest, self.enumerate_cuts, self.report = scores, largest, enumerate_cuts, report
        self.binomial = binomials(scores.n, max(largest, 2))
        self.tests = 0

    def join(
        self,
        separator: NDArray[np.int64],
        others: NDArray[np.int64],
        labels: NDArray[np.int64],
        smallest: int,
        threshold: float,
    ) -> list[tuple[NDArray[np.int64], float]]:
        """Joins components that strong sets of `smallest` to q of the others cross.

        Args:
            separator: the members of S, increasing.
            others: increasing, none of them in S.
            labels: the component of each of the others; changed.
            smallest: the least size of sets.
            threshold: δ·N.

        Returns:
            The sets that joined something, and their strengths.

        Raises:
            Stopped: the report said so; nothing is lost but the work.
        """
        hyperedges: list[tuple[NDArray[np.int64], float]] = []
        values = np.empty(0)
        offsets = np.zeros(self.largest + 1, dtype=np.int64)
        known = -1  # sets of up to so many have their scores in `values`
        for size in range(smallest, min(self.largest, others.size) + 1):
            if (labels == labels[0]).all():
                break
            while known < size:
                known += 1
                offsets[known] = values.size
                fresh = scores_with(self.scores, separator, others, known, self.report)
                values = np.concatenate((values, fresh))
            hyperedges += self._join_by(size, others, labels, (values, offsets), threshold)
        return hyperedges

    def _join_by(
        self,
        size: int,
        others: NDArray[np.int64],
        labels: NDArray[np.int64],
        scores: tuple[NDArray[np.float64], NDArray[np.int64]],
        threshold: float,
    ) -> list[tuple[NDArray[np.int64], float]]:
        """Joins components that strong sets of one size cross; see `join` and, of scores, the kernel."""
        hyperedges = []
        chosen = np.arange(size, dtype=np.int64)
        left = True
        while left:
            if self.report is not None and self.report.stop is not None:
                raise Stopped
            edges = np.empty((others.size, size), dtype=np.int64)
            strengths = np.empty(others.size)
            found, tested, left = find_hyperedges(
                chosen,
                size,
                others.size,
                *scores,
                self.binomial,
                labels,
                threshold,
                self.enumerate_cuts,
                _TESTS,
                edges,
                strengths,
            )
            self.tests += tested
            hyperedges += [(others[edges[i]], float(strengths[i])) for i in range(found)]
        return hyperedges


def ltci(
    scores: LocalScores, separator: VarSet, threshold: float, largest: int, *, enumerate_cuts: bool = False
) -> list[VarSet]:
    """Returns the components given a separator: Algorithm 2.

    Args:
        scores: local scores of sets of at most |S| + q.
        separator: S.
        threshold: δ times the number of rows, in nats.
        largest: q.
        enumerate_cuts: all cuts of a set instead of Queyranne's algorithm.

    >>> from jtsolve.core.scores import DenseScores
    >>> pairwise = DenseScores(3, 3, np.array([0, -1, -1, -1.5, -1, -2, -2, -2.5]))
    >>> [bin(part) for part in ltci(pairwise, 0, 0.1, 3)]
    ['0b11', '0b100']
    """
    others = np.array([v for v in range(scores.n) if not separator >> v & 1], dtype=np.int64)
    labels = np.arange(others.size)
    tester = HyperedgeTests(scores, largest, enumerate_cuts=enumerate_cuts)
    tester.join(np.array(list(members(separator)), dtype=np.int64), others, labels, 2, threshold)
    return sorted(varset(others[labels == label].tolist()) for label in set(labels.tolist()))


class Independence:
    """The strengths of pairs given every separator of k variables, and of larger sets where asked for.

    Args:
        problem: what is wanted; required edges are pairs of infinite strength.
        size: k.
        tester: tests larger sets.
        report: is asked whether to go on.

    Attributes:
        separators: shape (count, k), all sets of k variables in colex order.
        binomial: C(v, j) at [v, j].
        forest: shape (count, m - 1, 2), m = n − k: for each separator the edges of a maximum spanning tree.
        weights: shape (count, m - 1), their strengths in nats of all rows, increasing.
        levels: the scores of all sets of k, of k + 1 and of k + 2 variables in colex order, in nats.

    Raises:
        Stopped: the report said so.
    """

    def __init__(self, problem: Problem, size: int, tester: HyperedgeTests, report: Report) -> None:
        n = problem.n
        self.problem, self.tester = problem, tester
        none, everything = np.empty(0, dtype=np.int64), np.arange(n, dtype=np.int64)
        self.binomial = binomials(n, size + 3)
        self.separators = np.concatenate([*sets_with(none, everything, size)])
        self.levels = [scores_with(problem.scores, none, everything, size + i, report) for i in range(3)]
        starts = np.cumsum([0, self.levels[0].size, self.levels[1].size])
        required = np.zeros((n, n), dtype=np.bool_)
        for edge in problem.constraints.required_edges:
            u, v = members(edge)
            required[u, v] = required[v, u] = True
        count, edges = len(self.separators), max(n - size - 1, 0)
        self.forest = np.empty((count, edges, 2), dtype=np.int64)
        self.weights = np.empty((count, edges))
        self._checked: dict[int, NDArray[np.int64]] = {}
        step = max(1, _FORESTS // max(1, edges) ** 2)
        joined = np.concatenate(self.levels)
        for first in range(0, count, step):
            if report.stop is not None:
                raise Stopped
            last = min(count, first + step)
            strongest_forests(
                first,
                last,
                self.separators,
                joined,
                starts,
                self.binomial,
                required,
                self.forest,
                self.weights,
            )
            order = np.argsort(self.weights[first:last], axis=1, kind="stable")
            self.weights[first:last] = np.take_along_axis(self.weights[first:last], order, axis=1)
            self.forest[first:last] = np.take_along_axis(self.forest[first:last], order[:, :, None], axis=1)

    def recheck(self, index: int, labels: NDArray[np.int64], first: int, threshold: float) -> int | None:
        """Tests sets of 3 to q that cross components; puts those that are strong into the forest.

        A set that was tested before and joined nothing is weak at every higher threshold too. What was not
        tested before lay within a component then.

        Args:
            index: of the separator.
            labels: shape (n,), the component of each variable; -1 in the separator.
            first: the position of the first edge above the threshold.
            threshold: δ·N, no less than at the last time.

        Returns:
            The new position of the first edge above the threshold, or None if all is as before.
        """
        others = np.flatnonzero(labels >= 0)
        now = labels[others]
        before = self._checked.get(index, np.zeros_like(now))
        found: list[tuple[NDArray[np.int64], float]] = []
        for part in np.unique(before):
            inside = np.flatnonzero(before == part)
            within = now[inside]
            found += self.tester.join(self.separators[index], others[inside], within, 3, threshold)
            now[inside] = within
        self._checked[index] = now
        if not found:
            return None
        return self._replant(index, first, found)

    def _replant(self, index: int, first: int, found: Sequence[tuple[NDArray[np.int64], float]]) -> int:
        """Makes the forest of the edges above the threshold and of paths through the sets found."""
        paths = [np.column_stack((members_[:-1], members_[1:])) for members_, _ in found]
        ends = np.concatenate([self.forest[index, first:], *paths])
        strengths = np.concatenate(
            [
                self.weights[index, first:],
                *(np.full(len(path), strength) for path, (_, strength) in zip(paths, found, strict=True)),
            ]
        )
        kept = strongest_tree(ends, np.argsort(-strengths, kind="stable"), self.problem.n)
        start = self.weights.shape[1] - kept.size
        self.forest[index, start:] = ends[kept]
        self.weights[index, start:] = strengths[kept]
        return int(start)
