"""Regions of a junction tree: drawn, scored, and replaced by another tree over the same variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jtsolve.core.varset import VarSet, is_subset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from random import Random

    from jtsolve.backends.support.mutable_tree import MutableTree


@dataclass(frozen=True, slots=True)
class Region:
    """A connected part of a junction tree.

    Attributes:
        nodes: its nodes.
        variables: U, the union of their cliques.
        boundary: (the end inside, the end outside, B) for each tree edge that leaves it; B is the separator.
    """

    nodes: tuple[int, ...]
    variables: VarSet
    boundary: tuple[tuple[int, int, VarSet], ...]

    @property
    def covered(self) -> frozenset[VarSet]:
        """The maximal boundary separators: a new tree over U must have each within a clique.

        Sets of at most one variable are left out, as they always are within a clique.
        """
        maximal: list[VarSet] = []
        separators = {separator for _, _, separator in self.boundary if separator.bit_count() > 1}
        for one in sorted(separators, key=int.bit_count, reverse=True):
            if all(one & ~other for other in maximal):
                maximal.append(one)
        return frozenset(maximal)


def draw_region(tree: MutableTree, start: int, size: int, random: Random) -> Region:
    """Returns a region grown from a node by random neighbours, of at most `size` variables.

    The clique of `start` is in it even if it is larger.

    Args:
        tree: the incumbent.
        start: the node to grow from.
        size: maximum number of variables.
        random: source of random numbers.
    """
    nodes, variables = {start: None}, tree.cliques[start]
    frontier = list(tree.adjacent[start])
    while frontier and variables.bit_count() < size:
        i = random.randrange(len(frontier))
        node, frontier[i] = frontier[i], frontier[-1]
        frontier.pop()
        joint = variables | tree.cliques[node]
        # Invariant: the nodes are connected, and `variables` is the union of their cliques.
        if joint.bit_count() <= size:
            nodes[node] = None
            variables = joint
            frontier += [other for other in tree.adjacent[node] if other not in nodes]
    return region_of(tree, nodes, variables)


def region_of(tree: MutableTree, nodes: Collection[int], variables: VarSet) -> Region:
    """Returns the region of some connected nodes, given the union of their cliques.

    Args:
        tree: the incumbent.
        nodes: connected.
        variables: the union of their cliques.
    """
    boundary = [
        (node, other, separator)
        for node in nodes
        for other, separator in tree.adjacent[node].items()
        if other not in nodes
    ]
    return Region(tuple(nodes), variables, tuple(boundary))


def region_score(tree: MutableTree, region: Region, score: Callable[[VarSet], float]) -> float:
    """Returns Σ s(C) − Σ s(S) over a region's cliques and the separators between them, in nats.

    Args:
        tree: the incumbent.
        region: a subtree of it.
        score: of a set, in nats.
    """
    value = 0.0
    for node in region.nodes:
        value += score(tree.cliques[node])
        for other, separator in tree.adjacent[node].items():
            if other < node and other in region.nodes:
                value -= score(separator)
    return value


def splice(
    tree: MutableTree,
    region: Region,
    cliques: Sequence[VarSet],
    edges: Sequence[tuple[int, int]],
    random: Random,
) -> None:
    """Replaces a region by a junction tree over U whose cliques cover all boundary separators.

    A neighbour o is linked to a random new clique that contains its B. As o ∩ U = B, running intersection
    holds and the boundary separators stay. A new clique equal to some B is within o and is merged into it; no
    other nested pair can arise.

    Args:
        tree: the incumbent; changed.
        region: to replace.
        cliques: of the new junction tree over U.
        edges: between their positions.
        random: source of random numbers.
    """
    for node in region.nodes:
        tree.remove(node)
    fresh = [tree.add(clique) for clique in cliques]
    for i, j in edges:
        tree.link(fresh[i], fresh[j])
    # The new tree covers every boundary separator, so that such a clique exists.
    for _, other, separator in region.boundary:
        tree.link(other, random.choice([q for q in fresh if is_subset(separator, tree.cliques[q])]))
    # A new clique that equals a boundary separator is a subset of o.
    for node in fresh:
        clique = tree.cliques[node]
        host = next((other for other, separator in tree.adjacent[node].items() if separator == clique), None)
        if host is not None:
            tree.merge(node, host)
