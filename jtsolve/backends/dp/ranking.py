"""The trees of a problem of few variables in order: each graph once, by its components.

For a clique T, v ∈ T and a set R of others, the graphs on T ∪ R in which T is complete and the neighbourhood
Q ⊆ T of each component K of R holds v decompose into these components. Below a complete S, a connected K with
N(K) = S has a vertex v that is adjacent to all of S, and K∖v consists of such components below T = S ∪ v:

    F(S,K) = max over such v (the last of K, if S = ∅) of c(T) + P⁰(T,v,K∖v) and P¹(T,v,K∖v)
    P⁰(T,v,R) = max over K ∋ min R, v ∈ Q ⊊ T of F(Q,K) − s(Q) + P⁰(T,v,R∖K)
    P¹(T,v,R) = the same with P¹, or F(T,K) + P²(T,v,R∖K)
    P²(T,v,R) = the same with P², or F(T,K) − s(T) + P²(T,v,R∖K)

P⁰ is without a component K of N(K) = T, so that T is a clique; P¹ has one, and P² any number. The graphs of a
value are combined from those of its terms in decreasing order, each list as far as it is read (Huang and
Chiang, Better k-best parsing, IWPT 2005). Only the choice of v has a graph occur twice.

Time: n 4^(n-1) steps at most, Σ_{t≤w} t C(n,t) 3^(n-t) with a bound w on the size of cliques.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from itertools import combinations, count, tee
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.dp.ranks import rank_tables
from jtsolve.backends.dp.scores import local_scores
from jtsolve.core.backend import Estimate
from jtsolve.core.machine import base_memory
from jtsolve.core.renaming import sets_beside, subsets_of
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.scores import StoppedError
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, count_bounded_subsets, members, neighbours_of, varset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem

    Graphs = Iterator[tuple[float, frozenset[VarSet]]]  # values and cliques, by decreasing value

_MOST_CELLS = 4_000_000
"""Of a table."""
_SECONDS_PER_CELL, _BYTES_PER_CELL = 3e-7, 80
_RECENT: list[RankedGraphs] = []
"""The tables of the last solve: the k best trees are as many solves of one problem."""
_NONE, _ONE, _ANY = range(3)
"""How many components have T as their neighbourhood: P⁰, P¹ and P²."""


def few_variables(problem: Problem) -> str | None:
    """A rule: objects to graphs forbidden in problems for which the tables are too large."""
    if not problem.constraints.forbidden_graphs or _cells(problem) <= _MOST_CELLS:
        return None
    return f"It forbids graphs on about 12 variables at most, not on {problem.n}."


def _cells(problem: Problem) -> int:
    n = problem.n
    return 1 + n * count_bounded_subsets(n - 1, problem.max_clique_size - 1) << n


def _without_forbidden_graphs(problem: Problem) -> Problem:
    return replace(problem, constraints=replace(problem.constraints, forbidden_graphs=frozenset()))


def estimate(problem: Problem) -> Estimate:
    """Returns the predicted peak memory and seconds; tables of the last solve are in the memory already."""
    bare = _without_forbidden_graphs(problem)
    if any(kept.problem == bare for kept in _RECENT.copy()):
        return Estimate(base_memory(), 0.0)
    cells = _cells(problem)
    return Estimate(base_memory() + _BYTES_PER_CELL * cells, _SECONDS_PER_CELL * cells)


def best_permitted(problem: Problem, report: Report) -> Outcome:
    """Returns the best tree whose graph is not forbidden; a call uses the tables of the last one."""
    forbidden, bare = problem.constraints.forbidden_graphs, _without_forbidden_graphs(problem)
    try:
        kept: RankedGraphs | None = _RECENT.pop()  # in one step: other threads solve, too
    except IndexError:
        kept = None
    if kept is None or kept.problem != bare:
        try:
            kept = RankedGraphs(bare, report)
        except StoppedError:
            return Outcome(None, inf, report.stop or Stop.TIME)
    for value, cliques in kept.graphs:
        if value < kept.scale.least:
            break
        if report.stop is not None:
            return Outcome(None, inf, report.stop)
        edges = (pair for clique in cliques for pair in combinations(members(clique), 2))
        tree = JunctionTree.from_neighbours(neighbours_of(problem.n, edges))
        if tree.edge_sets not in forbidden:
            _RECENT[:] = [kept]
            return Outcome(tree, kept.scale.bound(value), stats={"ties": kept.scale.ties})
    return Outcome(None, -inf)


class RankedGraphs:
    """The tables of a problem, and its graphs as far as they were read.

    Args:
        problem: its scores, and its constraints on single sets.
        report: polled after each layer.

    Raises:
        StoppedError: the report stops it.
    """

    def __init__(self, problem: Problem, report: Report) -> None:
        self.problem, self.n, self.width = problem, problem.n, problem.max_clique_size
        n, ranks = self.n, rank_tables(self.n - 1, self.width)
        local, self.scale = local_scores(problem, ranks, "float64")
        sets = [varset(one) for k in range(self.width + 1) for one in combinations(range(n), k)]
        masks = np.array(sets)
        self.clique, self.separator = (np.full(1 << n, -inf) for _ in range(2))
        places = masks >> ranks.m, ranks.position[masks & (1 << ranks.m) - 1]
        self.clique[masks], self.separator[masks] = local.clique[places], local.separator[places]
        self.place = np.zeros(1 << n, np.int64)
        self.place[masks] = np.arange(masks.size) << n
        pairs = np.array([(0, 0), *((mask, 1 << v) for mask in sets for v in members(mask))])
        self.sets, self.vertices = pairs.T
        self.row = {tuple(pair): i << n for i, pair in enumerate(pairs.tolist())}
        self.f = np.full(masks.size << n, -inf)
        self.lists: dict[tuple[int, ...], Graphs] = {}
        self.proper, *self.parts = (np.full(len(pairs) << n, -inf) for _ in range(4))
        for mode in (_NONE, _ANY):
            self.parts[mode][:: 1 << n] = 0.0
        rows = np.zeros((n, 1 << n), np.int64)
        for (mask, vertex), row in self.row.items():
            rows[vertex.bit_length() - 1, mask] = row
        for r in range(1, n + 1):
            for k in range(min(self.width - 1, n - r) + 1):
                own = masks[np.bitwise_count(masks) == k]
                self._connect(own[:, None], sets_beside(own, n, r), rows, r)
            for k in range(min(self.width, n - r) + 1):
                chosen = np.flatnonzero(np.bitwise_count(self.sets) == k)
                self._divide(chosen, sets_beside(self.sets[chosen], n, r), k, r)
            if not report(done=r / n, note=f"layer {r} of {n}"):
                raise StoppedError

    def _connect(
        self, s: NDArray[np.int64], parts: NDArray[np.int64], rows: NDArray[np.int64], r: int
    ) -> None:
        """F of pairs (S,K)."""
        best, rest = np.full(parts.shape, -inf), parts
        for left in range(r, 0, -1):
            vertex = rest & -rest
            rest = rest ^ vertex
            if s[0, 0] == 0 and left > 1:
                continue
            whole = s | vertex
            at = rows[np.bitwise_count(vertex - 1), whole] + (parts ^ vertex)
            value = np.maximum(self.clique[whole] + self.parts[_NONE][at], self.parts[_ONE][at])
            np.maximum(best, value, out=best)
        self.f[self.place[s] + parts] = best

    def _divide(self, rows: NDArray[np.int64], rest: NDArray[np.int64], k: int, r: int) -> None:
        """The best graph of one component with N(K) ≠ T, and P⁰, P¹ and P², of (T,v,R)."""
        row, whole, vertex = rows[:, None] << self.n, self.sets[rows, None], self.vertices[rows, None]
        best = np.full(rest.shape, -inf)
        for q in (vertex | subsets_of(whole ^ vertex, k - 1)[:-1]) if k else ():
            np.maximum(best, self.f[self.place[q] + rest] - self.separator[q], out=best)
        self.proper[row + rest] = best
        first = rest & -rest
        parts = first | subsets_of(rest ^ first, r - 1)
        left = row + (rest ^ parts)
        proper, here = self.proper[row + parts], row + rest
        self.parts[_NONE][here] = (proper + self.parts[_NONE][left]).max(axis=0)
        if k == self.width:  # too large for a component beside it
            self.parts[_ANY][here] = self.parts[_NONE][here]
            return
        full, several = self.f[self.place[whole] + parts], self.parts[_ANY][left]
        self.parts[_ONE][here] = np.maximum(proper + self.parts[_ONE][left], full + several).max(axis=0)
        self.parts[_ANY][here] = (np.maximum(proper, full - self.separator[whole]) + several).max(axis=0)

    @property
    def graphs(self) -> Graphs:
        """All graphs, with their values."""
        return self._list(self._divided, _ONE, 0, 0, (1 << self.n) - 1)

    def _list(self, graphs_of: Callable[..., Graphs], *key: int) -> Graphs:
        """Returns the graphs of a key from the first; each is found once."""
        self.lists[key], found = tee(self.lists[key] if key in self.lists else graphs_of(*key))
        return found

    def _connected(self, s: VarSet, part: VarSet) -> Graphs:
        """Yields the graphs of F(S,K)."""
        sources, seen = [], set()
        for v in members(part) if s else (part.bit_length() - 1,):
            whole, rest = s | 1 << v, part ^ 1 << v
            at, clique = self.row[whole, 1 << v] + rest, float(self.clique[whole])
            none, one = (self._list(self._divided, mode, whole, 1 << v, rest) for mode in (_NONE, _ONE))
            sources.append((clique + self.parts[_NONE][at], _shifted(clique, frozenset((whole,)), none)))
            sources.append((self.parts[_ONE][at], one))
        ordered = sorted((one for one in sources if one[0] > -inf), key=lambda one: -one[0])
        for value, graph in _merged(iter(ordered)):
            if graph not in seen:
                seen.add(graph)
                yield value, graph

    def _divided(self, mode: int, whole: VarSet, vertex: VarSet, rest: VarSet) -> Graphs:
        """Yields the graphs of P(T,v,R)."""
        if rest:
            yield from _merged(self._divisions(mode, whole, vertex, rest))
        elif mode != _ONE:
            yield 0.0, frozenset()

    def _divisions(
        self, mode: int, whole: VarSet, vertex: VarSet, rest: VarSet
    ) -> Iterator[tuple[float, Graphs]]:
        """Yields Q and K, the component with the first of R, by decreasing value: that, and the graphs."""
        row, first = self.row[whole, vertex], rest & -rest
        parts = first | subsets_of(np.array(rest ^ first), rest.bit_count() - 1)
        around = vertex | subsets_of(np.array(whole ^ vertex), max(0, whole.bit_count() - 1))  # T is the last
        spent = self.separator[around]
        spent[-1] = (inf, 0.0, spent[-1])[mode]
        others = np.tile(self.parts[mode][row + (rest ^ parts)], (around.size, 1))
        others[-1] = self.parts[_ANY][row + (rest ^ parts)]
        values = self.f[self.place[around][:, None] + parts] - spent[:, None] + others
        for i in np.argsort(-values, axis=None, kind="stable").tolist():
            q, k = divmod(i, parts.size)
            if values[q, k] == -inf:
                return
            key = _ANY if q == around.size - 1 else mode, whole, vertex, rest ^ int(parts[k])
            component = self._list(self._connected, int(around[q]), int(parts[k]))
            yield (
                float(values[q, k]),
                _merged(self._joined(float(spent[q]), float(others[q, k]), component, key)),
            )

    def _joined(
        self, spent: float, best: float, component: Graphs, key: tuple[int, ...]
    ) -> Iterator[tuple[float, Graphs]]:
        """Yields each graph of a component with those of the others, whose greatest value is `best`."""
        for value, graph in component:
            yield value - spent + best, _shifted(value - spent, graph, self._list(self._divided, *key))


def _merged(sources: Iterator[tuple[float, Graphs]]) -> Graphs:
    """Yields the items of sources by decreasing value; each is opened once its bound is reached."""
    opened: list[tuple[float, int, frozenset[VarSet], Graphs]] = []
    bound, number = inf, count()

    def advance(source: Graphs) -> None:
        if (item := next(source, None)) is not None:
            heappush(opened, (-item[0], next(number), item[1], source))

    while True:
        while bound > -inf and (not opened or -opened[0][0] < bound):
            bound, source = next(sources, (-inf, iter(())))
            advance(source)
        if not opened:
            return
        value, _, graph, source = heappop(opened)
        yield -value, graph
        advance(source)


def _shifted(value: float, graph: frozenset[VarSet], others: Graphs) -> Graphs:
    for other, cliques in others:
        yield value + other, graph | cliques
