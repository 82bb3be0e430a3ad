"""The lazy search of section 5 for the least threshold at which a consistent junction tree exists.

At a threshold δ, Algorithm 4 (`kernels/decompose`) decides whether the components form a junction tree. If
they do not, δ rises to the strength of the weakest remaining hyper-edge. If they do, larger sets are tested
given the separators of the tree (`ltci`). Where these merge components, the search continues with the merged
ones; otherwise the tree is consistent at δ.

References:
    Chechetka and Guestrin, Efficient principled learning of thin junction trees, NIPS 2007.
"""

from __future__ import annotations

from math import comb, inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.consistent.kernels import decompose as kernel
from jtsolve.backends.consistent.ltci import PIECES, HyperedgeGraphs, unrank
from jtsolve.core.permitted import MemberRows, permitted_cliques, permitted_separators
from jtsolve.core.scores import StoppedError
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import varset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jtsolve.backends.consistent.ltci import LTCI
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem


class ConsistentTrees:
    """Junction trees whose separators all have k variables, by rising threshold.

    Args:
        problem: the problem; n > k + 1.
        k: the size of the separators.
        ltci: tests larger sets.
        report: ends the search.

    Attributes:
        retested: the number of separators for which larger sets were tested.

    Raises:
        StoppedError: the report stopped it.
    """

    def __init__(self, problem: Problem, k: int, ltci: LTCI, report: Report) -> None:
        self.problem, self.k, self.report = problem, k, report
        self.graphs = HyperedgeGraphs(problem, k, ltci)
        self.permitted = np.flatnonzero(permitted_separators(problem, _all_of_size(problem.n, k)))
        self.state = _state(problem, self.graphs)
        self.retested = 0

    @property
    def threshold(self) -> float:
        """δ·N, in nats."""
        return float(self.state.progress["threshold"][0])

    @property
    def rises(self) -> int:
        """The number of times the threshold rose."""
        return int(self.state.progress["rises"][0])

    def rising(self) -> Iterator[tuple[JunctionTree, bool]]:
        """Yields the trees found and whether they are consistent; the first consistent one is the last.

        The threshold never falls.

        Raises:
            StoppedError: the report stopped it.
        """
        self._make_components(-inf)
        while True:
            self._order_edges()
            if not self._advance():
                return
            # Only for the separators in use: larger sets given all separators would need too many scores.
            tree, used = self._tree()
            yield tree, False
            if not self._retest(used):
                yield tree, True
                return

    def at(self, threshold: float) -> JunctionTree | None:
        """Returns a consistent tree at one threshold, or None: Algorithm 3.

        Raises:
            StoppedError: the report stopped it.
        """
        self._make_components(threshold)
        self._retest(self.permitted.tolist())
        return self._tree()[0] if self._advance() else None

    def _make_components(self, threshold: float) -> None:
        """Makes the components at a threshold from the pairs alone."""
        strengths = self.graphs.strengths
        # An infinite strength is that of a required edge, which no threshold removes.
        weak = (strengths <= threshold) & np.isfinite(strengths)
        self.state.first_edge[:] = weak.sum(axis=1)
        self.state.progress["threshold"] = threshold
        for i, s in enumerate(self.permitted.tolist()):
            if i % PIECES.components == 0:
                self._check()
            kernel.make_components(self.state, s)

    def _order_edges(self) -> None:
        """Sorts the remaining edges by strength."""
        strengths = self.graphs.strengths
        left = np.isfinite(strengths) & (np.arange(strengths.shape[1]) >= self.state.first_edge[:, None])
        # Separators that are not permitted have no components, so their edges are irrelevant.
        left[np.setdiff1d(np.arange(len(left)), self.permitted)] = False
        edges = np.flatnonzero(left)
        order = np.argsort(strengths.ravel()[edges], kind="stable")
        self.state = self.state._replace(weakest_first=edges[order])
        self.state.progress["edge"] = 0

    def _check(self) -> None:
        """Reports the threshold; raises StoppedError if the report ends the search."""
        if not self.report(note=f"treewidth {self.k}: δ·N = {self.threshold:.4g} nats"):
            raise StoppedError

    def _advance(self) -> bool:
        """Raises the threshold until there is a root, and returns whether there is one."""
        while not kernel.remove_weakest_edges(self.state, PIECES.covers):
            self._check()
        return bool(self.state.progress["roots"][0] > 0)

    def _retest(self, used: list[int]) -> bool:
        """Tests larger sets given the separators; returns whether components merged."""
        changed = False
        for s in used:
            self._check()
            self.retested += 1
            before = int(self.state.first_edge[s])
            first_edge = self.graphs.test(s, self.state.leader[s], before, self.threshold)
            if first_edge is not None:
                self.state.first_edge[s] = first_edge
                kernel.make_components(self.state, s)
                changed = True
        return changed

    def _tree(self) -> tuple[JunctionTree, list[int]]:
        """Returns the greedy decomposition of the highest score, and the ranks of its separators."""
        state, n = self.state, self.problem.n
        clique_scores = self.graphs.clique_scores
        decomposable = np.flatnonzero(state.components["decomposable"])
        decomposable = decomposable[np.argsort(state.components["size"].ravel()[decomposable], kind="stable")]
        values = np.full((len(self.graphs.sets), n), -inf)
        for first in range(0, decomposable.size, PIECES.components):
            self._check()
            kernel.best_decompositions(
                state,
                decomposable[first : first + PIECES.components],
                self.graphs.separator_scores,
                clique_scores,
                values,
            )

        def value(root: int) -> float:
            pieces = self._pieces(kernel.decompose_root(state, root))
            return float(clique_scores[root] + sum(values[piece] for piece in pieces))

        root = max(np.flatnonzero(state.cliques["root"]).tolist(), key=value)
        # Once more, since the kernel holds the pieces of the last root that `value` tried.
        left = self._pieces(kernel.decompose_root(state, root))
        clique = state.clique.tolist()
        # The root clique first, each vertex joined to those before it.
        families = [(v, varset(clique[:i])) for i, v in enumerate(clique)]
        used = set()
        while left:
            s, q = left.pop()
            used.add(s)
            x = int(state.components[s, q]["x"])
            families.append((x, varset(self.graphs.sets[s].tolist())))
            left += self._pieces(kernel.decompose(state, s, q, x))
        return JunctionTree.from_families(families), sorted(used)

    def _pieces(self, count: int) -> list[tuple[int, int]]:
        """Returns the components of the cover that the kernel has just found, as s and q."""
        return [(s, q) for s, q, *_ in self.state.pieces[:count].tolist()]


def _state(problem: Problem, graphs: HyperedgeGraphs) -> kernel.State:
    """Returns the state of a search before any component is made."""
    count, k = graphs.sets.shape
    n = problem.n
    words = n // 64 + 1
    components = np.zeros((count, n), dtype=kernel.COMPONENT)
    components["next"] = kernel.OUT
    cliques = np.zeros(comb(n, k + 1), dtype=kernel.CLIQUE)
    cliques["permitted"] = permitted_cliques(problem, _all_of_size(problem.n, k + 1))
    cliques["next"] = kernel.OUT
    return kernel.State(
        sets=graphs.sets,
        forest=graphs.forest,
        strengths=graphs.strengths,
        first_edge=np.zeros(count, dtype=np.int64),
        weakest_first=np.empty(0, dtype=np.int64),
        leader=np.full((count, n), -1, dtype=np.int64),
        components=components,
        members=np.zeros((count, n, words), dtype=np.int64),
        stale=np.zeros((count, n, words), dtype=np.int64),
        cliques=cliques,
        agenda=np.full(n + 1, kernel.END, dtype=np.int64),
        progress=np.zeros(1, dtype=kernel.PROGRESS),
        binomial=graphs.binomial,
        clique=np.zeros(k + 1, dtype=np.int64),
        around=np.zeros(k + 1, dtype=np.int64),
        uncovered=np.zeros(words, dtype=np.int64),
        pieces=np.zeros(n * (k + 1), dtype=kernel.PIECE),
    )


def _all_of_size(n: int, size: int) -> MemberRows:
    """Returns the sets of a size in colex order."""
    rows = unrank(np.arange(comb(n, size)), n, size)
    return MemberRows(rows, np.full(len(rows), size))
