"""Exact, independent draws of graphs from the posterior.

The recursion of `sums` is followed from the top; each choice is drawn in proportion to its term. V is
partitioned with L(∅,K) P(∅,R∖K) for the K ∋ min R, and each part K is connected(∅,K):

    connected(Q,K): a graph on Q ∪ K with Q complete, K connected and N(K) = Q:
        a clique C, Q ⊊ C ⊆ Q ∪ K (C ∋ min K if Q = ∅), with c(C) P°(C,K∖C);
        below it, of R = K ∖ C, a part K' ∋ min R with L°(C,K') P°(C,R∖K') / P°(C,R), its neighbourhood Q' ⊊ C
        with F(Q',K')/s(Q') / L°(C,K'), and connected(Q',K'); then R ∖ K'
    until
        K is connected, and accepted with probability 1 / (number of cliques that contain Q, or min K), since
        each of them may propose it.

L° = L − F/s, and P° sums the partitions without a full part: then C is a maximal clique. Draws need no
burn-in and no weights. Time: at most 4^n / 2 products for P°, and 2^|R| for the choices of a pair (S, R),
which are listed once: in a posterior of few likely graphs, nearly all choices are known.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.averaging.plan import LANES, TableSizes
from jtsolve.averaging.sums import Sums, pieces_of
from jtsolve.core.renaming import subsets_of
from jtsolve.core.scores import StoppedError
from jtsolve.core.threads import run_tasks
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from jtsolve.averaging.plain import PlainSums
    from jtsolve.core.run import Run
    from jtsolve.core.varset import VarSet

_PART, _NEIGHBOURHOOD, _CLIQUE = range(3)
"""Kinds of choices for a pair (S, R): the part with min R, the neighbourhood of R within S, a clique."""
_MOST = 1 << 20
"""Maximum number of listed choices, 16 bytes each."""
_NEGLIGIBLE = 2.0**-60
"""Choices of a smaller share of the largest one are left out of lists."""


def draw_graphs(sums: Sums | PlainSums, count: int, run: Run) -> NDArray[np.int64]:
    """Draws graphs; the same seed draws the same graphs.

    Args:
        sums: of a total above 0; of `Sums`, L and P are replaced by L° and P°.
        count: number of graphs, at least 1.
        run: threads, seed and progress.

    Returns:
        Shape (count, n): the neighbours of each vertex as bit masks.

    Raises:
        StoppedError: the run stops.
    """
    if isinstance(sums, Sums):
        _divide_properly(sums, run)
    draws = _Draws(sums, run.seed)
    graphs = np.zeros((count, sums.weights.n), np.int64)
    for i in range(count):
        if not run.progress(note=f"{count} draws", done=i / count):
            raise StoppedError
        for clique in draws.cliques():
            for v in members(clique):
                graphs[i, v] |= clique ^ (1 << v)
    return graphs


def _divide_properly(sums: Sums, run: Run) -> None:
    """Puts L° and P° in the place of L and P, S = ∅ excepted."""
    from jtsolve.averaging.kernels.features import keep_proper

    n, plan = sums.weights.n, TableSizes(sums.weights.n, sums.weights.width)
    tasks = [
        partial(keep_proper, size, first, last, sums.total, sums.layout, sums.local, sums.tables)
        for size in range(1, plan.width + 1)
        for first, last in pieces_of(plan.groups(size), 0.5 * LANES * 3.0 ** (n - size))
    ]
    pool = ThreadPoolExecutor(run.threads)
    try:
        run_tasks(pool, tasks, lambda _i: run.progress(note="preparing the draws"))
    finally:
        pool.shutdown(cancel_futures=True)


class _Draws:
    """Draws from finished tables, and the choices listed so far."""

    def __init__(self, sums: Sums | PlainSums, seed: int) -> None:
        self.sums, self.random = sums, np.random.default_rng(seed)
        self.lists: dict[tuple[int, VarSet, VarSet], tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        self.listed = 0

    def cliques(self) -> list[VarSet]:
        """Returns the cliques of one graph."""
        everything = (1 << self.sums.weights.n) - 1
        if self.sums.weights.separator[0] == inf:
            return self._connected(0, everything)
        found, rest = [], everything
        while rest:
            part = self._choose(_PART, 0, rest)
            found += self._connected(0, part)
            rest ^= part
        return found

    def _connected(self, q: VarSet, k: VarSet) -> list[VarSet]:
        """Returns the cliques of a graph of connected(Q,K)."""
        if k & (k - 1) == 0:
            return [q | k]
        mark = q or k & -k
        while True:
            clique, luck = self._choose(_CLIQUE, q, k), self.random.random()
            parts = self._parts(clique, k & ~clique, q)
            if parts is None:
                continue
            # Parts below a clique that holds the mark have one themselves, and come first: once more cliques
            # hold it than 1 / luck, the proposal is rejected.
            parts.sort(key=lambda part: part[1] & mark != mark)
            waiting = sum(separator & mark == mark for _, separator in parts)
            found, held = [clique], 1
            for part, separator in parts:
                if luck * (held + waiting) >= 1:
                    break
                more = self._connected(separator, part)
                found += more
                held += sum(one & mark == mark for one in more)
                waiting -= separator & mark == mark
            if luck * (held + waiting) < 1:
                return found

    def _parts(self, clique: VarSet, rest: VarSet, q: VarSet) -> list[tuple[VarSet, VarSet]] | None:
        """Returns the parts of R below a clique, with their neighbourhoods; None if one is within Q."""
        parts = []
        while rest:
            part = self._choose(_PART, clique, rest)
            separator = self._choose(_NEIGHBOURHOOD, clique, part)
            if separator & ~q == 0:
                return None
            parts.append((part, separator))
            rest ^= part
        return parts

    def _choose(self, kind: int, s: VarSet, r: VarSet) -> VarSet:
        """Returns a choice for a pair, drawn in proportion to its term."""
        if kind == _PART and r & (r - 1) == 0:
            return r
        known = self.lists.get((kind, s, r))
        if known is None:
            choices, logs = self._terms(kind, s, r)
            terms = np.exp(logs - logs.max())
            kept = terms >= _NEGLIGIBLE
            known = choices[kept], np.cumsum(terms[kept])
            self.listed += known[0].size
            if self.listed > _MOST:
                self.lists.clear()
                self.listed = known[0].size
            self.lists[kind, s, r] = known
        choices, cumulative = known
        at = cumulative.searchsorted(self.random.random() * cumulative[-1], "right")
        return int(choices[min(int(at), choices.size - 1)])

    def _terms(self, kind: int, s: VarSet, r: VarSet) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the choices for a pair, and the logarithms of their terms."""
        logs, weights = self.sums.logs, self.sums.weights
        if kind == _NEIGHBOURHOOD:
            choices = _subsets(s)[:-1]
            return choices, logs("joint", choices, r)
        if kind == _PART:
            choices = r & -r | _subsets(r & (r - 1))
            first = logs("proper" if s else "joint", s, choices)
            return choices, first + logs("none" if s else "parts", s, r ^ choices)
        choices = s | _subsets(r)[1:] if s else r & -r | _subsets(r & (r - 1))
        choices = choices[np.bitwise_count(choices) <= weights.width]
        return choices, np.log(2) * weights.clique[choices] + logs("none", choices, (s | r) ^ choices)


def _subsets(mask: VarSet) -> NDArray[np.int64]:
    """Returns the subsets of a set, ∅ first, and itself last."""
    return subsets_of(np.array(mask, np.int64), mask.bit_count())


def trees_of(graphs: Iterable[tuple[VarSet, ...]]) -> list[JunctionTree]:
    """Returns the canonical junction trees of graphs, given by neighbours; equal graphs share a tree."""
    found: dict[tuple[VarSet, ...], JunctionTree] = {}
    trees = []
    for graph in graphs:
        if graph not in found:
            found[graph] = JunctionTree.from_neighbours(graph)
        trees.append(found[graph])
    return trees
