"""A junction tree rooted at its centre, which halves its depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jtsolve.core.tree import adjacency

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet


@dataclass(frozen=True, slots=True)
class RootedTree:
    """A tree rooted at its centre: the clique whose distance to the farthest other one is least.

    Attributes:
        root: the centre; the first if there are two.
        parent: by clique; the root is its own parent.
        children: by clique, increasing.
        order: the cliques, each after its parent.
        edge: by clique, index in `tree.edges` of the edge to its parent; -1 at the root.
    """

    root: int
    parent: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    edge: tuple[int, ...]

    @classmethod
    def of(cls, tree: JunctionTree) -> RootedTree:
        """Returns the rooted tree."""
        count = len(tree.cliques)
        adjacent = adjacency(count, tree.edges)
        root = _centre(adjacent)
        parent = [root] * count
        order = [root]
        for i in order:
            for j in adjacent[i]:
                if j != parent[i]:
                    parent[j] = i
                    order.append(j)
        children = tuple(tuple(sorted(j for j in adjacent[i] if j != parent[i])) for i in range(count))
        number = {frozenset(edge): k for k, edge in enumerate(tree.edges)}
        edge = tuple(number.get(frozenset((i, parent[i])), -1) for i in range(count))
        return cls(root, tuple(parent), children, tuple(order), edge)

    def separator(self, tree: JunctionTree, i: int) -> VarSet:
        """Returns the separator between a clique and its parent."""
        return tree.cliques[i] & tree.cliques[self.parent[i]]


def _centre(adjacent: Sequence[Sequence[int]]) -> int:
    """Returns the centre: what remains after repeatedly removing all leaves."""
    degree = [len(row) for row in adjacent]
    layer = [i for i, d in enumerate(degree) if d <= 1]
    left = len(adjacent)
    while left > 2:  # noqa: PLR2004 - a tree has one or two centres
        left -= len(layer)
        inner = []
        for i in layer:
            degree[i] = 0
            for j in adjacent[i]:
                degree[j] -= 1
                if degree[j] == 1:
                    inner.append(j)
        layer = inner
    return min(layer)
