"""Ties in score are broken by sparsity: fewer edges, then fewer parameters.

The number of edges of a tree, and that of its parameters, decompose like its score: the sum of `SetSizes`
over the cliques less that over the separators. So exact backends can find the sparsest of the best trees.

`sparser` removes the edges of a tree that its score does not need, considering one tree only.

An edge {a, b} of a chordal graph can be removed, and the graph stays chordal, if and only if exactly one
maximal clique C holds both. The score then changes by

    s(C∖a) + s(C∖b) − s(C∖{a,b}) − s(C).

Where that is exactly 0, the edge is removed, those with the most states first, until none is left; the score
stays the same bit for bit. A column with a single state has s(A ∪ v) = s(A) bit for bit under every score
without a term for edges, and so loses all its edges. Where edges cost, an edge to it lowers the score, and is
removed for that. Ties that rounding hides stay as they are.

Time: O(Σ |C|²) scores, and O(n) for each removed edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import fsum, inf, prod
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.tree import JunctionTree, adjacency
from jtsolve.core.varset import VarSet, is_subset, members, neighbours_of, varset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem


def arities_of(problem: Problem) -> list[int] | None:
    """Returns the number of states of each variable, or None if some is unknown."""
    arities = [own for variable in problem.variables if (own := variable.arity) is not None]
    return arities if len(arities) == problem.n else None


def ties_of(problem: Problem) -> str:
    """Returns the key that orders trees of equal score by all known sizes."""
    return "edges" if arities_of(problem) is None else "edges, parameters"


def tree_size(problem: Problem, tree: JunctionTree) -> tuple[int, int]:
    """Returns the number of edges of a tree and of its parameters, 0 if the states are unknown.

    A model has Σ (cells − 1) free parameters over its cliques, less the same over its separators.
    """
    arities = arities_of(problem)
    if arities is None:
        return tree.edge_count, 0
    cells = [prod(arities[v] for v in members(part)) - 1 for part in (*tree.cliques, *tree.separators)]
    within = len(tree.cliques)
    return tree.edge_count, sum(cells[:within]) - sum(cells[within:])


@dataclass(frozen=True, slots=True)
class SetSizes:
    """Sizes of sets; a tree's size is the sum over its cliques less that over its separators.

    Args:
        edge: the size of an edge; that of a parameter is 1.
        arities: the states of the variables, or None to count edges alone.
    """

    edge: int = 1
    arities: tuple[int, ...] | None = None

    def of_rows(self, sets: NDArray[np.integer]) -> NDArray[np.int64]:
        """Returns the sizes of sets of one number of members, which are rows; shape (count,)."""
        pairs = sets.shape[1] * (sets.shape[1] - 1) // 2
        found = np.full(len(sets), self.edge * pairs, dtype=np.int64)
        if self.arities is not None:
            found += np.array(self.arities)[sets].prod(axis=1, dtype=np.int64) - 1
        return found

    def of_masks(self, masks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the sizes of sets that are bit masks of at most 62 bits; the same shape."""
        count = np.bitwise_count(masks).astype(np.int64)
        found = self.edge * (count * (count - 1) // 2)
        if self.arities is not None:
            cells = np.ones(masks.shape, np.int64)
            for v, arity in enumerate(self.arities):
                cells[masks >> v & 1 == 1] *= arity
            found += cells - 1
        return found


def sparser(problem: Problem, tree: JunctionTree) -> JunctionTree:
    """Returns a tree of the same score from which no single edge can be removed at exactly this score.

    If edges to columns of a single state lowered the score, it is higher without them.

    Args:
        problem: the scores and constraints, which the tree meets.
        tree: returned unchanged if it does not meet the constraints.
    """
    gains: dict[tuple[VarSet, VarSet], float] = {}

    def gain(clique: VarSet, pair: VarSet) -> float:
        if (clique, pair) not in gains:
            a, b = (1 << v for v in members(pair))
            terms = [problem.scores.score(clique ^ side) for side in (a, b)]
            terms += [-problem.scores.score(clique ^ pair), -problem.scores.score(clique)]
            # A set without a score is neither a clique nor a separator: its terms would have to cancel.
            gains[clique, pair] = -inf if {inf, -inf} & set(terms) else fsum(terms)
        return gains[clique, pair]

    constant = varset(v for v, arity in enumerate(arities_of(problem) or ()) if arity == 1)
    found = tree if problem.permits(tree) else None
    while found is not None:
        tree = found
        removed = (
            JunctionTree.from_neighbours(neighbours_of(tree.n, map(members, tree.edge_sets - {pair})))
            for clique, pair in _removable(problem, tree)
            if (change := gain(clique, pair)) == 0 or (change > 0 and pair & constant)
        )
        found = next(filter(problem.permits, removed), None)
    return tree


def _removable(problem: Problem, tree: JunctionTree) -> Iterator[tuple[VarSet, VarSet]]:
    """Yields each clique and edge that only it holds; those with the most states first."""
    arities = [variable.arity or 2 for variable in problem.variables]
    near = adjacency(len(tree.cliques), tree.edges)
    edges = []
    for at, clique in enumerate(tree.cliques):
        # By running intersection, if another clique holds the edge, then so does one of the neighbours.
        shared = [clique & tree.cliques[other] for other in near[at]]
        for a, b in combinations(members(clique), 2):
            pair = 1 << a | 1 << b
            if not any(is_subset(pair, separator) for separator in shared):
                edges.append((-(arities[a] - 1) * (arities[b] - 1), at, pair))
    edges.sort()
    return ((tree.cliques[at], pair) for _, at, pair in edges)
