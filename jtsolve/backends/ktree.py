"""Greedy growth of a clique forest, vertex by vertex, from several first vertices. A heuristic.

Prim's algorithm with cliques: of all remaining vertices v and all sets S, |S| < w, within a clique, it takes
the pair with the largest gain s(S∪v) − s(S) − s(v) and joins v to S. If S is a maximal clique, S∪v replaces
it; otherwise S∪v is a new clique and S a separator. S = ∅ gains 0; for treewidth 1 this is Prim's algorithm.
The tree depends on the first vertex: each is tried, in an order drawn from the seed.

One heap holds the pairs. A pair enters only if it gains more than the best permanently feasible pair of its
vertex so far, so few enter. It is checked again when it reaches the top.

Constraints. A separator is final, so one that is not permitted is never made. A clique may still grow: one
that is not permitted is grown first, and made only as a last resort. Required edges are completed to a
chordal graph H (`support.required_edges`); the vertices of each component of H join by maximum cardinality
search, so their earlier neighbours in H lie within one clique, and S must contain them. A growth that gets
stuck gives no tree.

A set without a score counts as the sum of its variables' scores: it is in no final tree, so its terms cancel.

Time: per growth O(n²) gains for each of the 2^(w-1) sets S of a clique; memory O(n) for each set S that
improves on the best pair of a vertex.

References:
    Prim, Shortest connection networks and some generalizations, Bell System Technical Journal, 1957.
    Malvestuto, Approximating discrete probability distributions with decomposable models, IEEE Transactions
    on Systems, Man, and Cybernetics, 1991 (greedy growth with cliques of one size; here of any size up to w).
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations, groupby, islice
from math import inf
from random import Random
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jtsolve.backends.support.remembered import remembered
from jtsolve.backends.support.required_edges import triangulated
from jtsolve.backends.support.starts import best_start
from jtsolve.core.backend import Backend, Capabilities, Estimate
from jtsolve.core.machine import resident_memory
from jtsolve.core.problem import ALL_FEATURES, Feature
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.scores import own_scores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, is_subset, key_of, members, varset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits

_ROWS = 1 << 16
"""Gains per batch: a few hundredths of a second, so that an interruption acts at once."""

_Entry = tuple[bool, float, int, VarSet]
"""Whether S∪v is not permitted as a clique, minus the gain in nats, v, S: sorted in the order of choice."""


@dataclass(frozen=True, slots=True)
class KTree:
    """Greedy growth of a clique forest, vertex by vertex. Heuristic; all constraints but `forbidden_graphs`.

    It returns a tree that meets all constraints, or none; it never claims infeasibility. It ends when every
    vertex has been the first, or earlier by an option.

    Args:
        start: backends whose trees it reports first; it returns the best of these and its own.
        steps: the largest number of growths, at least 1; None for no limit.
        patience: the number of growths without a better tree after which it ends, at least 1.

    Raises:
        ValueError: a number is below 1.
    """

    start: tuple[Backend, ...] = ()
    steps: int | None = None
    patience: int = 20

    name: ClassVar[str] = "ktree"
    capabilities: ClassVar[Capabilities] = Capabilities(features=ALL_FEATURES - {Feature.FORBIDDEN_GRAPHS})

    def __post_init__(self) -> None:
        for key in ("steps", "patience"):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise ValueError(f"{key} is {value}; it must be at least 1")

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:  # noqa: ARG002 - the protocol's signature
        """See `Backend.estimate`: half a microsecond per gain, as measured; growths until patience ends."""
        n, width = problem.n, problem.max_clique_size
        gains = n**2 / 2 * 2 ** min(width - 1, n)
        growths = min(n, self.patience, self.steps or n)
        return Estimate(resident_memory() + 500 * n + 200 * _ROWS, 1e-3 + growths * (1e-4 * n + 5e-7 * gains))

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        self.estimate(problem, limits).require_memory(self.name, limits)
        required = triangulated(problem)
        if required is None:
            return Outcome(
                None, stats={"note": "the required edges could not be completed to a chordal graph"}
            )
        order = list(range(problem.n))
        Random(limits.seed).shuffle(order)  # noqa: S311 - nothing here is secret
        best = best_start(self.start, problem, limits, report)
        score = -inf if best is None else best.score(problem.scores)
        grown, failed, stale, stop = 0, 0, 0, None
        for first in order:
            if grown == self.steps or stale == self.patience:
                stop = Stop.STEPS if grown == self.steps else None
                break
            tree = _KTreeGrowth(problem, required, first, report, hurried=best is None).tree()
            grown += 1
            stale += 1
            failed += tree is None
            if tree is not None and (value := tree.score(problem.scores)) > score:
                best, score, stale = tree, value, 0
                report(tree=tree)
            stop = report.stop
            if stop is not None:
                break
        return Outcome(best, stop=stop or Stop.FINISHED, stats={"growths": grown, "without_tree": failed})


class _KTreeGrowth:
    """One growth: the families so far, the maximal cliques, and the heap of candidate pairs.

    Args:
        problem: to solve.
        required: the neighbours of each vertex in the chordal graph of the required edges.
        first: the first vertex.
        report: is asked whether to continue.
        hurried: whether a growth that is cut short should still give a tree, by joining the rest to ∅.
    """

    def __init__(
        self, problem: Problem, required: list[VarSet], first: int, report: Report, *, hurried: bool
    ) -> None:
        self.problem, self.required, self.first = problem, required, first
        self.report, self.hurried = report, hurried
        limits = problem.constraints
        self.width = problem.max_clique_size
        self.good_clique = remembered(problem.permits_clique, problem.n)
        self.good_separator = remembered(problem.permits_separator, problem.n)
        self.forbidden = [0] * problem.n
        for edge in limits.forbidden_edges:
            for v in members(edge):
                self.forbidden[v] |= edge & ~(1 << v)
        self.max_cliques = min(problem.n, limits.max_cliques or problem.n)
        # A pair of such a vertex may become infeasible later, so no pair makes its other pairs redundant.
        bounded = self.max_cliques < problem.n
        self.fickle = np.array([bounded or neighbours > 0 for neighbours in required])
        self.own = own_scores(problem.scores)
        self.floor = np.full(problem.n, -inf)  # the best gain of each vertex that stays feasible
        self.left = (1 << problem.n) - 1
        self.families: list[tuple[int, VarSet]] = []
        self.key = key_of(problem.n)
        self.cliques: dict[int | bytes, VarSet] = {}
        self.unfit: list[VarSet] = []  # cliques that are not permitted and have to grow
        self.heap: list[_Entry] = []
        self.early: list[_Entry] = []  # pairs of vertices that are not next in their component of H

    def tree(self) -> JunctionTree | None:
        """Returns the tree of the growth; None if it got stuck or was stopped without a tree."""
        self.join(self.first, 0)
        # S = ∅: every vertex may begin another component.
        self.offer([0])
        self.offer([1 << self.first])
        while self.left and self.report.stop is None:
            chosen = self.repair() or self.take()
            if chosen is None:
                return None
            v, separator = chosen
            self.join(v, separator)
            self.offer(_sets_with(v, separator, self.width - 1))
        if self.left and not self.hurried:
            return None
        # After an early stop the rest stay by themselves.
        tree = JunctionTree.from_families([*self.families, *((v, 0) for v in members(self.left))])
        return tree if self.problem.permits(tree) else None

    def join(self, v: int, separator: VarSet) -> None:
        """Joins v to S."""
        clique = separator | 1 << v
        self.cliques.pop(self.key(separator), None)
        self.cliques[self.key(clique)] = clique
        self.unfit = [other for other in self.unfit if other != separator]
        if not self.good_clique(clique):
            self.unfit.append(clique)
        self.families.append((v, separator))
        self.left ^= 1 << v
        # v may have made others next in its component of H.
        if self.required[v]:
            for entry in self.early:
                heappush(self.heap, entry)
            self.early = []

    def take(self) -> tuple[int, VarSet] | None:
        """Returns the best pair (v, S) that may be joined now, or None."""
        while self.heap:
            entry = heappop(self.heap)
            _, _, v, separator = entry
            if not self.left >> v & 1 or not self.may_join(v, separator):
                continue  # dropped: an infeasible pair never becomes feasible again
            if self.is_next(v):
                return v, separator
            self.early.append(entry)
        return None

    def repair(self) -> tuple[int, VarSet] | None:
        """Returns the best pair (v, C) by which a clique C that is not permitted grows to one that is."""
        pairs = [
            (v, clique)
            for clique in self.unfit
            for v in members(self.left)
            if self.good_clique(clique | 1 << v) and self.may_join(v, clique) and self.is_next(v)
        ]

        def gain(pair: tuple[int, VarSet]) -> float:
            v, clique = pair
            return float(self.problem.scores.score(clique | 1 << v) - self.value([clique])[0] - self.own[v])

        return max(pairs, key=gain, default=None)

    def may_join(self, v: int, separator: VarSet) -> bool:
        """Tells whether v may be joined to S now: S∪v may have to grow later, but a separator S is final."""
        if self.forbidden[v] & separator or not is_subset(self.required[v] & ~self.left, separator):
            return False
        if self.key(separator) in self.cliques:
            return separator.bit_count() < self.width
        return self.good_separator(separator) and self.has_room(separator)

    def has_room(self, separator: VarSet) -> bool:
        """Tells whether a new clique S∪v leaves room for the rest under `max_cliques`."""
        if self.max_cliques == self.problem.n:
            return True
        fresh = self.max_cliques - len(self.cliques) - 1
        if fresh < 0:
            return False
        # An upper bound: as if every clique, made or still to come, grew to the full width.
        smallest = self.problem.constraints.min_separator_size
        room = sum(self.width - clique.bit_count() for clique in self.cliques.values())
        room += self.width - separator.bit_count() - 1 + fresh * max(0, self.width - smallest)
        return self.left.bit_count() - 1 <= room

    def is_next(self, v: int) -> bool:
        """Tells whether v is next in its component of H by maximum cardinality search."""
        if not self.required[v]:
            return True
        component = 1 << v
        while (grown := component | self._neighbours(component)) != component:
            component = grown
        counts = {u: (self.required[u] & ~self.left).bit_count() for u in members(component & self.left)}
        return counts[v] == max(counts.values())

    def _neighbours(self, vertices: VarSet) -> VarSet:
        union = 0
        for u in members(vertices):
            union |= self.required[u]
        return union

    def offer(self, separators: Iterable[VarSet]) -> None:
        """Pushes the promising pairs of the remaining vertices with the separators."""
        left = np.array(list(members(self.left)), dtype=np.intp)
        for _, same in groupby(separators, int.bit_count):
            while some := list(islice(same, max(1, _ROWS // max(1, left.size)))):
                if self.report.stop is not None or left.size == 0:
                    return
                fitting = [
                    mask for mask in some if self.good_separator(mask) or self.key(mask) in self.cliques
                ]
                if fitting:
                    self.push(fitting, left)

    def push(self, separators: list[VarSet], left: NDArray[np.intp]) -> None:
        """Pushes the promising pairs of the vertices with separators of one size."""
        gains, scored = self.gains(separators, left)
        promising = gains > self.floor[left]
        for i in np.flatnonzero(promising.any(axis=1)).tolist():
            separator = separators[i]
            lasting = self.good_separator(separator)
            for j in np.flatnonzero(promising[i]).tolist():
                v = int(left[j])
                if self.forbidden[v] & separator:
                    continue
                gain = float(gains[i, j])
                unfit = not (scored[i, j] and self.good_clique(separator | 1 << v))
                heappush(self.heap, (unfit, -gain, v, separator))
                # The pair stays feasible: none of v that gains less will ever be chosen.
                if lasting and not unfit and not self.fickle[v]:
                    self.floor[v] = max(self.floor[v], gain)

    def gains(
        self, separators: list[VarSet], left: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Returns s(S∪v) − s(S) − s(v) in nats, a row for each S, and whether S∪v has a score."""
        size = separators[0].bit_count()
        rows = np.empty((len(separators), left.size, size + 1), dtype=np.intp)
        rows[:, :, :size] = np.array([list(members(mask)) for mask in separators], dtype=np.intp)[:, None, :]
        rows[:, :, size] = left
        rows = np.sort(rows.reshape(-1, size + 1), axis=1)
        scores = self.problem.scores.batch(rows)
        shape = len(separators), left.size
        values = _filled(scores, self.own[rows].sum(axis=1)).reshape(shape)
        return values - self.value(separators)[:, None] - self.own[left], (scores > -inf).reshape(shape)

    def value(self, masks: list[VarSet]) -> NDArray[np.float64]:
        """Returns the scores of sets of one size, or their stand-ins, in nats."""
        rows = np.array([list(members(mask)) for mask in masks], dtype=np.intp).reshape(len(masks), -1)
        return _filled(self.problem.scores.batch(rows), self.own[rows].sum(axis=1))


def _sets_with(v: int, separator: VarSet, most: int) -> Iterator[VarSet]:
    """Yields the subsets of S∪v that contain v and have at most `most` members, the largest first."""
    others = list(members(separator))
    for size in range(min(most - 1, len(others)), -1, -1):
        for chosen in combinations(others, size):
            yield varset(chosen) | 1 << v


def _filled(scores: NDArray[np.float64], instead: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the scores, with stand-ins for sets that have none."""
    return np.where(scores == -inf, instead, scores)
