"""A junction tree that large-neighbourhood search cuts up and puts together again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, is_subset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from random import Random


@dataclass(frozen=True, slots=True)
class Region:
    """A connected part of a junction tree.

    Attributes:
        nodes: the nodes in it.
        variables: U, the union of their cliques.
        boundary: (the end inside, the end outside, B), for each tree edge that leaves it; B is the separator.
    """

    nodes: tuple[int, ...]
    variables: VarSet
    boundary: tuple[tuple[int, int, VarSet], ...]

    @property
    def covered(self) -> frozenset[VarSet]:
        """The boundary separators that no other holds: what a new tree over U must have within its cliques.

        A set of one variable or none is always within one, and is left out.
        """
        separators = {separator for _, _, separator in self.boundary if separator.bit_count() > 1}
        return frozenset(
            one
            for one in separators
            if not any(one != other and is_subset(one, other) for other in separators)
        )


class MutableTree:
    """A junction tree with numbered nodes; a new node has a higher number than all before it."""

    def __init__(self, tree: JunctionTree) -> None:
        self.n = tree.n
        self.cliques: dict[int, VarSet] = dict(enumerate(tree.cliques))
        # Dictionaries without values: sets in the order of insertion, for the same choices in every run.
        self.adjacent: dict[int, dict[int, None]] = {node: {} for node in self.cliques}
        self.next = len(self.cliques)
        for a, b in tree.edges:
            self.link(a, b)

    def frozen(self) -> JunctionTree:
        """Returns the tree as a value, validated again."""
        position = {node: i for i, node in enumerate(self.cliques)}
        edges = [(position[a], position[b]) for a in self.adjacent for b in self.adjacent[a] if a < b]
        return JunctionTree(self.n, tuple(self.cliques.values()), tuple(edges))

    def link(self, a: int, b: int) -> None:
        """Puts a tree edge between two nodes."""
        self.adjacent[a][b] = self.adjacent[b][a] = None

    def cut(self, a: int, b: int) -> None:
        """Takes the tree edge between two nodes away."""
        del self.adjacent[a][b], self.adjacent[b][a]

    def pick(self, start: int, size: int, random: Random) -> Region:
        """Returns a region that begins at a node and grows by random neighbours to `size` variables or less.

        The clique of `start` is in it even if it is larger.
        """
        nodes, variables = {start: None}, self.cliques[start]
        frontier = list(self.adjacent[start])
        while frontier and variables.bit_count() < size:
            i = random.randrange(len(frontier))
            node, frontier[i] = frontier[i], frontier[-1]
            frontier.pop()
            if (variables | self.cliques[node]).bit_count() <= size:
                nodes[node] = None
                variables |= self.cliques[node]
                frontier += [other for other in self.adjacent[node] if other not in nodes]
        return self.region(nodes, variables)

    def region(self, nodes: Collection[int], variables: VarSet) -> Region:
        """Returns the region of some connected nodes, `variables` being the union of their cliques."""
        boundary = [
            (node, other, self.cliques[node] & self.cliques[other])
            for node in nodes
            for other in self.adjacent[node]
            if other not in nodes
        ]
        return Region(tuple(nodes), variables, tuple(boundary))

    def score_of(self, region: Region, score: Callable[[VarSet], float]) -> float:
        """Returns Σ s(C) − Σ s(S) over a region's cliques and the separators within it, in nats."""
        value = 0.0
        for node in region.nodes:
            value += score(self.cliques[node])
            for other in self.adjacent[node]:
                if other < node and other in region.nodes:
                    value -= score(self.cliques[node] & self.cliques[other])
        return value

    def splice(
        self,
        region: Region,
        cliques: Sequence[VarSet],
        edges: Sequence[tuple[int, int]],
        random: Random,
    ) -> None:
        """Puts a junction tree over U in the place of a region; its cliques cover all boundary separators.

        A neighbour o goes on a random new clique that holds its B. As o ∩ U = B, running intersection holds
        and the boundary separators stay. A new clique that equals a B is within o and is merged into it; no
        other nested pair can arise.
        """
        for node in region.nodes:
            for other in list(self.adjacent[node]):
                self.cut(node, other)
        for node in region.nodes:
            del self.cliques[node], self.adjacent[node]
        fresh = list(range(self.next, self.next + len(cliques)))
        self.next += len(cliques)
        for node, clique in zip(fresh, cliques, strict=True):
            self.cliques[node] = clique
            self.adjacent[node] = {}
        for i, j in edges:
            self.link(fresh[i], fresh[j])
        for _, other, separator in region.boundary:
            self.link(other, random.choice([q for q in fresh if is_subset(separator, self.cliques[q])]))
        for node in fresh:
            clique = self.cliques[node]
            host = next((o for o in self.adjacent[node] if is_subset(clique, self.cliques[o])), None)
            if host is not None:
                self.merge(node, host)

    def merge(self, node: int, host: int) -> None:
        """Merges a node into a neighbour that holds its clique."""
        for other in list(self.adjacent[node]):
            self.cut(node, other)
            if other != host:
                self.link(other, host)
        del self.cliques[node], self.adjacent[node]

    def rehang(self, random: Random) -> None:
        """Puts a random tree edge somewhere else: between other cliques that hold its separator, if any.

        Every such edge gives a junction tree of the same graph; a region is a part of the tree at hand, and
        so sees more of the graph's neighbourhoods in time.
        """
        a = random.choice(list(self.cliques))
        if not self.adjacent[a]:
            return
        b = random.choice(list(self.adjacent[a]))
        separator = self.cliques[a] & self.cliques[b]
        self.cut(a, b)
        ends = [random.choice(self.holders(end, separator)) for end in (a, b)]
        self.link(*ends)

    def holders(self, start: int, separator: VarSet) -> list[int]:
        """Returns the nodes whose cliques hold S in the part of the tree where a node lies that does."""
        found = {start: None}
        stack = [start]
        while stack:
            for node in self.adjacent[stack.pop()]:
                if node not in found and is_subset(separator, self.cliques[node]):
                    found[node] = None
                    stack.append(node)
        return list(found)

    def copy(self) -> MutableTree:
        """Returns a tree that can be changed without changing this one."""
        other = object.__new__(MutableTree)
        other.n, other.next = self.n, self.next
        other.cliques = dict(self.cliques)
        other.adjacent = {node: dict(adjacent) for node, adjacent in self.adjacent.items()}
        return other
