"""Blocks of a chain's graph redrawn, exactly, given the rest.

W are the variables of a block. If every component K of the graph G without W has a complete neighbourhood
N(K) ⊆ W, any decomposable graph on W in which these N(K) are complete may take the place of G[W]: the N(K)
remain separators, and the weight changes by the ratio of the weights of the two graphs on W alone. One of
them is drawn by the exact sums, with the pairs within the N(K) as required edges. Else nothing is done.

The N(K) depend on no edge within W, and W on no graph: it is a region of a fixed tree. So this is a Gibbs
update of G[W] given the rest and given that the N(K) are complete, in detailed balance with the posterior.
"""

from __future__ import annotations

from itertools import combinations
from math import exp
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.averaging.draws import arrange, draw_graphs
from jtsolve.averaging.sums import compute
from jtsolve.averaging.weights import weights_of
from jtsolve.core.backend import Limits
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.scores import DenseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import bounded_subsets, is_subset, members, varset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Unpack

    from jtsolve.core.backend import News
    from jtsolve.core.result import Stop
    from jtsolve.core.varset import VarSet


class Blocks(NamedTuple):
    """What blocks are drawn from.

    Attributes:
        size: the most variables of a block.
        cliques: of a tree, whose regions are the blocks.
        neighbours: of each clique, by position.
        score: of a set of at most `largest` variables, in nats.
        largest: the size of the largest clique.
        log_odds: ln of the prior odds of an edge.
        forbidden: the vertices to which a vertex must not be adjacent.
    """

    size: int
    cliques: tuple[VarSet, ...]
    neighbours: tuple[tuple[int, ...], ...]
    score: Callable[[VarSet], float]
    largest: int
    log_odds: float
    forbidden: tuple[VarSet, ...]

    def redraw(
        self, neighbours: Sequence[VarSet], generator: np.random.Generator
    ) -> tuple[tuple[VarSet, ...], float] | None:
        """Redraws a block of a graph.

        Returns:
            The neighbours of each vertex, and what ln of the weight gained; None if an N(K) is not complete,
            or no block is small enough.
        """
        block = self._block(generator)
        if not block:
            return None
        complete = [boundary for _, boundary in components(neighbours, block)]
        if not all(_is_complete(neighbours, boundary) for boundary in complete):
            return None
        names = tuple(members(block))
        place = {v: i for i, v in enumerate(names)}
        problem = self._problem(names, [varset(place[v] for v in members(mask)) for mask in complete])
        limits = Limits(threads=1, seed=int(generator.integers(1 << 31)))
        sums = compute(weights_of(problem, exp(self.log_odds)), limits, _Unwatched())
        drawn = draw_graphs(arrange(sums, limits, _Unwatched()), 1, limits, _Unwatched())[0].tolist()
        before = tuple(varset(place[u] for u in members(neighbours[v] & block)) for v in names)
        after = list(neighbours)
        for v, mask in zip(names, drawn, strict=True):
            after[v] = (neighbours[v] & ~block) | varset(names[i] for i in members(mask))
        return tuple(after), self._log_weight(problem, drawn) - self._log_weight(problem, before)

    def _block(self, generator: np.random.Generator) -> VarSet:
        """Returns the variables of a random region of the tree, as large as cliques can be added to it.

        ∅ if every clique is too large.
        """
        starts = [i for i, clique in enumerate(self.cliques) if clique.bit_count() <= self.size]
        if not starts:
            return 0
        start = starts[int(generator.integers(len(starts)))]
        block, region = self.cliques[start], {start}
        while True:
            near = sorted({j for i in region for j in self.neighbours[i]} - region)
            near = [j for j in near if (block | self.cliques[j]).bit_count() <= self.size]
            if not near:
                return block
            region.add(j := near[int(generator.integers(len(near)))])
            block |= self.cliques[j]

    def _problem(self, names: Sequence[int], complete: Sequence[VarSet]) -> Problem:
        n = len(names)
        largest = min(self.largest, n)
        values = [self.score(varset(names[i] for i in members(mask))) for mask in bounded_subsets(n, largest)]
        pairs = [(1 << i | 1 << j, i, j) for i, j in combinations(range(n), 2)]
        required = {pair for pair, _, _ in pairs if any(is_subset(pair, mask) for mask in complete)}
        forbidden = {pair for pair, i, j in pairs if self.forbidden[names[i]] >> names[j] & 1}
        return Problem(
            tuple(Variable(str(v)) for v in names),
            DenseScores(n, largest, np.array(values)),
            Constraints(required_edges=frozenset(required), forbidden_edges=frozenset(forbidden)),
        )

    def _log_weight(self, problem: Problem, neighbours: Sequence[VarSet]) -> float:
        tree = JunctionTree.from_neighbours(neighbours)
        return tree.score(problem.scores) + self.log_odds * len(tree.graph_edges)


def blocks_of(
    tree: JunctionTree,
    size: int,
    score: Callable[[VarSet], float],
    largest: int,
    *,
    log_odds: float,
    forbidden: Sequence[VarSet],
) -> Blocks:
    """Returns the blocks that are regions of a tree; see there."""
    neighbours: list[list[int]] = [[] for _ in tree.cliques]
    for i, j in tree.edges:
        neighbours[i].append(j)
        neighbours[j].append(i)
    near = tuple(map(tuple, neighbours))
    return Blocks(size, tree.cliques, near, score, largest, log_odds, tuple(forbidden))


def components(neighbours: Sequence[VarSet], block: VarSet) -> Iterator[tuple[VarSet, VarSet]]:
    """Yields the components of a graph without a block, each with its neighbourhood."""
    left = ((1 << len(neighbours)) - 1) & ~block
    while left:
        component = frontier = left & -left
        reached = 0
        while frontier:
            reached |= neighbours[(frontier & -frontier).bit_length() - 1]
            component |= frontier & -frontier
            frontier = reached & ~block & ~component
        yield component, reached & block
        left &= ~component


def _is_complete(neighbours: Sequence[VarSet], mask: VarSet) -> bool:
    return all(is_subset(mask, neighbours[v] | 1 << v) for v in members(mask))


class _Unwatched:
    """A report that nobody reads: a block takes a few hundredths of a second."""

    stop: Stop | None = None
    incumbent: JunctionTree | None = None

    def __call__(self, **_news: Unpack[News]) -> bool:
        return True
