"""The lazy search of section 5 for the least threshold at which a consistent junction tree exists.

At a threshold δ, Algorithm 4 (`kernels/decompose`) decides whether the components form a junction tree.
Bisection finds a strength at which they do, while they do not at the next weaker one. Then larger sets are
tested given the separators of the tree (`ltci`). Where these merge components, the search continues with the
merged ones; otherwise the tree is consistent at δ.

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
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import varset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from jtsolve.backends.consistent.ltci import LTCI
    from jtsolve.core.problem import Problem


class ConsistentTrees:
    """Junction trees whose separators all have k variables, by rising threshold.

    Args:
        problem: the problem; n > k + 1.
        k: the size of the separators.
        ltci: tests larger sets, and ends the search.

    Attributes:
        threshold: δ·N, in nats.
        retested: the number of separators for which larger sets were tested.

    Raises:
        StoppedError: the report stopped it.
    """

    def __init__(self, problem: Problem, k: int, ltci: LTCI) -> None:
        self.problem, self.k, self.ltci = problem, k, ltci
        self.graphs = HyperedgeGraphs(problem, k, ltci)
        self.permitted = np.flatnonzero(permitted_separators(problem, _all_of_size(problem.n, k)))
        self.state = _state(problem, self.graphs)
        self.roots = np.flatnonzero(self.state.permitted)
        self.threshold = -inf
        self.retested = 0

    def rising(self) -> Iterator[tuple[JunctionTree, bool]]:
        """Yields the trees found and whether they are consistent; the first consistent one is the last.

        The threshold of the search never falls.

        Raises:
            StoppedError: the report stopped it.
        """
        least = -inf
        while True:
            strengths = np.unique(self.graphs.strengths[self.permitted])
            thresholds = [least, *strengths[(strengths > least) & (strengths < inf)].tolist()]
            # Invariant: no tree at the threshold before `low`, and one at `high`, unless it is the last.
            low, high = 0, len(thresholds) - 1
            while low < high:
                middle = (low + high) // 2
                if self._root_at(thresholds[middle], best=False) is None:
                    low = middle + 1
                else:
                    high = middle
            least = thresholds[high]
            root = self._root_at(least)
            if root is None:
                return
            # Only for the separators in use: larger sets given all separators would need too many scores.
            tree, used = self._tree(root)
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
        root = self._root_at(threshold)
        return None if root is None else self._tree(root)[0]

    def _make_components(self, threshold: float) -> None:
        """Makes the components at a threshold."""
        self.threshold = threshold
        first_edges = self.graphs.first_edges(threshold)
        for first in range(0, self.permitted.size, PIECES.components):
            self._check()
            some = self.permitted[first : first + PIECES.components]
            kernel.make_components(self.state, some, self.graphs.forest, first_edges)

    def _root_at(self, threshold: float, *, best: bool = True) -> int | None:
        """Returns the rank of the clique that is the root of the best, or any, greedy tree, or None."""
        self._make_components(threshold)
        size = self.state.size.ravel()
        found = np.flatnonzero(size)
        found = found[np.argsort(size[found], kind="stable")]
        for first in range(0, found.size, PIECES.components):
            self._check()
            kernel.evaluate_components(self.state, found[first : first + PIECES.components], best)
        values = np.full(self.roots.size, -inf)
        for first in range(0, values.size, PIECES.components):
            self._check()
            some = slice(first, first + PIECES.components)
            kernel.evaluate_roots(self.state, self.roots[some], values[some])
            if not best and values[some].max() > -inf:
                break
        root = int(values.argmax()) if values.size else 0
        return int(self.roots[root]) if values.size and values[root] > -inf else None

    def _check(self) -> None:
        """Reports the threshold; raises StoppedError if the report ends the search."""
        self.ltci.report(note=f"treewidth {self.k}: δ·N = {self.threshold:.4g} nats")
        self.ltci.check()

    def _retest(self, used: list[int]) -> bool:
        """Tests larger sets given the separators; returns whether components merged."""
        changed = False
        for s in used:
            self._check()
            self.retested += 1
            changed |= self.graphs.test(s, self.state.leader[s], self.threshold)
        return changed

    def _tree(self, root: int) -> tuple[JunctionTree, list[int]]:
        """Returns the best greedy tree with a root, and the ranks of its separators."""
        state = self.state
        left = self._pieces(kernel.decompose_root(state, root))
        clique = state.clique.tolist()
        # The root clique first, each vertex joined to those before it.
        families = [(v, varset(clique[:i])) for i, v in enumerate(clique)]
        used = set()
        while left:
            s, q = left.pop()
            used.add(s)
            x = int(state.x[s, q])
            families.append((x, varset(self.graphs.sets[s].tolist())))
            left += self._pieces(kernel.decompose(state, s, q, x))
        return JunctionTree.from_families(families), sorted(used)

    def _pieces(self, count: int) -> list[tuple[int, int]]:
        """Returns the components of the cover that the kernel has just found, as s and q."""
        return [(s, q) for s, q, *_ in self.state.pieces[:count].tolist()]


def _state(problem: Problem, graphs: HyperedgeGraphs) -> kernel.State:
    """Returns the state of a search before any component is made."""
    (count, k), n = graphs.sets.shape, problem.n
    words = n // 64 + 1

    def integers(*shape: int) -> NDArray[np.int64]:
        return np.zeros(shape, dtype=np.int64)

    return kernel.State(
        sets=graphs.sets,
        permitted=permitted_cliques(problem, _all_of_size(n, k + 1)),
        separator_scores=graphs.separator_scores,
        clique_scores=graphs.clique_scores,
        binomial=graphs.binomial,
        leader=integers(count, n) - 1,
        size=integers(count, n),
        members=integers(count, n, words),
        value=np.full((count, n), -inf),
        x=integers(count, n),
        clique=integers(k + 1),
        around=integers(k + 1),
        uncovered=integers(words),
        pieces=np.zeros(n * (k + 1), dtype=kernel.PIECE),
    )


def _all_of_size(n: int, size: int) -> MemberRows:
    """Returns the sets of a size in colex order."""
    rows = unrank(np.arange(comb(n, size)), n, size)
    return MemberRows(rows, np.full(len(rows), size))
