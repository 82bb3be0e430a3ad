"""Marked graphs, of discrete and real variables, and the star that makes them ordinary.

A conditional Gaussian model has estimates in closed form iff its graph is *strongly decomposable*: chordal,
and no path between two non-adjacent discrete vertices has real inner vertices only. Equivalently, the graph
with one more vertex, the star, adjacent to exactly the discrete ones, is chordal. So a problem with marks is
an ordinary problem over n + 1 variables, the star the last: every edge from it to a discrete variable is
required, sets of it and a real variable have no score, and s(A ∪ star) = s(A). `solve` adds the star and
removes it; backends see ordinary problems only.

A junction tree is *strongly rooted* if for each clique C with separator S to its parent, C∖S is real or S is
discrete. Strongly decomposable graphs have such a tree, but other trees of the same graph need not be.

References:
    H.-G. Leimer, Triangulated graphs with marked vertices, Annals of Discrete Mathematics 41, 1989.
    S. L. Lauritzen, Graphical Models, Oxford 1996, chapters 2 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.scores import DenseScores, Guarded, LocalScores, SparseScores, Stoppable
from jtsolve.core.tree import JunctionTree, RootedClique, families_by_search, rooted_cliques
from jtsolve.core.varset import VarSet, bounded_subsets, is_subset, members, set_table

if TYPE_CHECKING:
    from numpy.typing import NDArray


def strongly_rooted(tree: JunctionTree, real: VarSet) -> list[RootedClique]:
    """Returns a strongly rooted junction tree of the same graph, each clique after its parent.

    The graph is built from the star, by maximum cardinality search. Let v be the first vertex of a clique,
    joined to the separator S. If v is discrete, so is S, since S, v and the star are pairwise adjacent. If v
    is real, the vertices that join the clique later are adjacent to v and so not to the star: they are real.

    Args:
        tree: of a strongly decomposable graph.
        real: the real variables.

    Raises:
        ValueError: the graph is not strongly decomposable.
    """
    families = families_by_search(_neighbours(tree, real))  # the star, vertex 0, is the first
    rooted_cliques(families)  # raises unless the graph with the star is chordal
    return rooted_cliques((vertex - 1, around >> 1) for vertex, around in families[1:])


def with_star(tree: JunctionTree, real: VarSet) -> JunctionTree:
    """Returns the junction tree of the graph with the star, which is variable n.

    Raises:
        ValueError: the graph is not strongly decomposable.
    """
    n, (star, *others) = tree.n, _neighbours(tree, real)
    return JunctionTree.from_neighbours([*(around >> 1 | (around & 1) << n for around in others), star >> 1])


def _neighbours(tree: JunctionTree, real: VarSet) -> list[VarSet]:
    """Returns the neighbours of the star, as vertex 0, and of each variable v, as vertex v + 1."""
    neighbours = [~real & (1 << tree.n) - 1, *(~real >> v & 1 for v in range(tree.n))]
    neighbours[0] <<= 1
    for clique in tree.cliques:
        for v in members(clique):
            neighbours[v + 1] |= (clique & ~(1 << v)) << 1
    return neighbours


def without_star(tree: JunctionTree) -> JunctionTree:
    """Returns the junction tree of the graph without its last vertex, the star."""
    n = tree.n - 1
    return JunctionTree.from_nodes(n, [clique & ~(1 << n) for clique in tree.cliques], tree.edges)


def is_strongly_decomposable(tree: JunctionTree, real: VarSet) -> bool:
    """Returns whether the graph of a junction tree is strongly decomposable."""
    try:
        with_star(tree, real)
    except ValueError:
        return False
    return True


def scores_with_star(scores: LocalScores, discrete: VarSet, size: int) -> LocalScores:
    """Returns scores over one more variable, the star: s(A ∪ star) = s(A) for discrete A.

    A table becomes a table of the sets that have a score.

    Args:
        scores: over n variables.
        discrete: the variables that the star may join.
        size: the largest number of members of a set besides the star.
    """
    star = 1 << scores.n
    if isinstance(scores, DenseScores):
        masks = bounded_subsets(scores.n, scores.max_size)
        pairs = list(zip(masks, scores.values.tolist(), strict=True))
    elif isinstance(scores, SparseScores):
        pairs = list(scores.table.items())
    else:
        return StarScores(scores, discrete, size)
    own = [(mask, value) for mask, value in pairs if mask.bit_count() <= size]
    joined = [(mask | star, value) for mask, value in own if is_subset(mask, discrete)]
    return SparseScores(scores.n + 1, set_table(scores.n + 1, [*own, *joined]))


@dataclass(frozen=True, slots=True)
class StarScores:
    """Scores with a star, computed on demand; see `scores_with_star`."""

    inner: LocalScores
    discrete: VarSet
    size: int

    @property
    def n(self) -> int:
        """See `LocalScores`."""
        return self.inner.n + 1

    @property
    def max_size(self) -> int:
        """See `LocalScores`."""
        return max(self.size, min(self.size, self.discrete.bit_count()) + 1)

    @property
    def stats(self) -> object:
        """The counters of the scores."""
        return getattr(self.inner, "stats", None)

    def score(self, mask: VarSet) -> float:
        """See `LocalScores`."""
        star = 1 << self.inner.n
        own = mask & ~star
        if own.bit_count() > self.size or (mask & star and not is_subset(own, self.discrete)):
            return -inf
        return self.inner.score(own)

    def batch(self, sets: NDArray[np.intp]) -> NDArray[np.float64]:
        """See `LocalScores`."""
        count, size = sets.shape
        if not size:
            return self.inner.batch(sets)
        joined = sets[:, -1] == self.inner.n
        found = np.full(count, -inf)
        if size <= self.size:
            found[~joined] = self.inner.batch(sets[~joined])
        if size - 1 <= self.size:
            discrete = np.array([self.discrete >> v & 1 for v in range(self.inner.n)], dtype=np.bool_)
            joined[joined] = discrete[sets[joined, :-1]].all(axis=1)
            found[joined] = self.inner.batch(sets[joined, :-1])
        return found

    def extremes(self) -> tuple[float, float]:
        """See `LocalScores`; the star alone scores 0."""
        low, high = self.inner.extremes()
        return min(low, 0.0), max(high, 0.0)

    def guarded(self, stoppable: Stoppable) -> StarScores:
        """See `scores.Guarded`."""
        if not isinstance(self.inner, Guarded):
            return self
        return StarScores(self.inner.guarded(stoppable), self.discrete, self.size)
