"""The components of a junction tree, each rooted at its centre, which halves its depth.

Edges with empty separators are left out: they join cliques of different components.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jtsolve.core.tree import adjacency

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet


@dataclass(frozen=True, slots=True)
class RootedForest:
    """The components of a tree, each rooted at its centre: the clique of least eccentricity.

    Attributes:
        orders: for each component, its cliques, each after its parent; the largest component first.
        isolated: cliques of single variables without edges, which are in no component.
        parent: by clique; a root is its own parent.
        children: by clique, increasing.
        edge: by clique, position in `tree.edges` of the edge to the parent; -1 for a root.
    """

    orders: tuple[tuple[int, ...], ...]
    isolated: tuple[int, ...]
    parent: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    edge: tuple[int, ...]

    @classmethod
    def of(cls, tree: JunctionTree) -> RootedForest:
        """Returns the rooted components."""
        count = len(tree.cliques)
        joined = [edge for edge, separator in zip(tree.edges, tree.separators, strict=True) if separator]
        adjacent = adjacency(count, joined)
        parent = list(range(count))
        orders, isolated, seen = [], [], [False] * count
        for start in range(count):
            if seen[start]:
                continue
            if tree.cliques[start].bit_count() == 1:  # no clique that shares its variable would be maximal
                isolated.append(start)
                continue
            root = _centre(_ordered(start, adjacent, parent), adjacent)
            order = _ordered(root, adjacent, parent)
            for i in order:
                seen[i] = True
            orders.append(tuple(order))
        orders.sort(key=lambda order: -len(order))
        children = tuple(tuple(sorted(j for j in adjacent[i] if j != parent[i])) for i in range(count))
        number = {frozenset(edge): k for k, edge in enumerate(tree.edges)}
        edge = tuple(number.get(frozenset((i, parent[i])), -1) for i in range(count))
        return cls(tuple(orders), tuple(isolated), tuple(parent), children, edge)

    def separator(self, tree: JunctionTree, i: int) -> VarSet:
        """Returns the separator between a clique and its parent."""
        return tree.cliques[i] & tree.cliques[self.parent[i]]


def _ordered(root: int, adjacent: Sequence[Sequence[int]], parent: list[int]) -> list[int]:
    """Returns the cliques of the component of a root, each after its parent, which it sets."""
    parent[root] = root
    order = [root]
    for i in order:
        for j in adjacent[i]:
            if j != parent[i]:
                parent[j] = i
                order.append(j)
    return order


def _centre(component: Sequence[int], adjacent: Sequence[Sequence[int]]) -> int:
    """Returns the centre, which remains when all leaves are removed repeatedly."""
    degree = {i: len(adjacent[i]) for i in component}
    layer = [i for i, d in degree.items() if d <= 1]
    left = len(component)
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
