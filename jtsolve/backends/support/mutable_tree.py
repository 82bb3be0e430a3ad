"""A junction tree for heuristics that change it step by step.

Separators are stored at the tree edges, and a random node is drawn in constant time: a change costs the
degrees of the nodes that it touches, independently of the number of variables. Callers preserve running
intersection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, is_subset

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random


class Change(NamedTuple):
    """A change of some nodes of a junction tree.

    Attributes:
        masks: the new cliques of nodes; one within a neighbour, such as ∅, is merged into it.
        fresh: the clique of a new node; -1 for none.
        cut: tree edges to remove.
        links: the neighbours of the new node.
    """

    masks: Mapping[int, VarSet] = {}
    fresh: VarSet = -1
    cut: tuple[tuple[int, int], ...] = ()
    links: tuple[int, ...] = ()


class MutableTree:
    """A junction tree with numbered nodes; a new node has a higher number than all before it.

    Attributes:
        cliques: from nodes to their cliques.
        adjacent: from nodes to their neighbours, and from these to the separators between; in the order of
            insertion, so that the same seed draws the same neighbours.
        next: the number of the next node.
        touched: the nodes that the last `apply` changed, each with its clique and neighbours before, or None
            if it is new.
    """

    def __init__(self, tree: JunctionTree) -> None:
        self.n = tree.n
        self.cliques: dict[int, VarSet] = dict(enumerate(tree.cliques))
        self.adjacent: dict[int, dict[int, VarSet]] = {node: {} for node in self.cliques}
        for a, b in tree.edges:
            self.link(a, b)
        self.touched: dict[int, tuple[VarSet, dict[int, VarSet]] | None] = {}
        self._home: dict[int, int] = {}  # the last known node of a variable
        self.next = len(self.cliques)
        self._order = list(self.cliques)  # to draw from; `_place` inverts it
        self._place = {node: place for place, node in enumerate(self._order)}

    def frozen(self) -> JunctionTree:
        """Returns the tree as a value, which is validated."""
        position = {node: i for i, node in enumerate(self.cliques)}
        edges = [(position[a], position[b]) for a in self.adjacent for b in self.adjacent[a] if a < b]
        return JunctionTree(self.n, tuple(self.cliques.values()), tuple(edges))

    def copy(self) -> MutableTree:
        """Returns an independent copy, which cannot undo the last change."""
        other = object.__new__(MutableTree)
        other.n, other.next, other.touched = self.n, self.next, {}
        other.cliques = dict(self.cliques)
        other.adjacent = {node: dict(adjacent) for node, adjacent in self.adjacent.items()}
        other._home = dict(self._home)
        other._order, other._place = list(self._order), dict(self._place)
        return other

    def link(self, a: int, b: int) -> None:
        """Adds a tree edge."""
        self.adjacent[a][b] = self.adjacent[b][a] = self.cliques[a] & self.cliques[b]

    def cut(self, a: int, b: int) -> VarSet:
        """Removes a tree edge; returns its separator."""
        del self.adjacent[a][b]
        return self.adjacent[b].pop(a)

    def add(self, clique: VarSet) -> int:
        """Adds a node without neighbours."""
        node = self.next
        self.next += 1
        self._enter(node)
        self.cliques[node] = clique
        self.adjacent[node] = {}
        return node

    def remove(self, node: int) -> None:
        """Removes a node and its tree edges."""
        for other in self.adjacent[node]:
            del self.adjacent[other][node]
        self._discard(node)

    def merge(self, node: int, host: int) -> None:
        """Merges a node into a neighbour that contains its clique."""
        for other in self.adjacent[node]:
            separator = self.adjacent[other].pop(node)
            if other != host:
                self.adjacent[other][host] = self.adjacent[host][other] = separator
        self._discard(node)

    def random_node(self, random: Random) -> int:
        """Returns a node, all equally likely."""
        return self._order[int(random.random() * len(self._order))]

    def holder(self, v: int) -> int:
        """Returns a node whose clique contains a variable."""
        node = self._home.get(v, -1)
        if not self.cliques.get(node, 0) >> v & 1:
            node = self._home[v] = next(node for node, mask in self.cliques.items() if mask >> v & 1)
        return node

    def apply(self, change: Change) -> None:
        """Makes a change, and merges nodes that come to lie within a neighbour."""
        self.touched = {}
        for a, b in change.cut:
            self._touch(a)
            self._touch(b)
            self.cut(a, b)
        for node, mask in change.masks.items():
            self._touch(node)
            self.cliques[node] = mask
        changed = list(change.masks)
        if change.fresh >= 0:
            fresh = self.add(change.fresh)
            self.touched[fresh] = None
            for other in change.links:
                self._touch(other)
                self.link(fresh, other)
            changed.append(fresh)
        for node in changed:
            for other in self.adjacent[node]:
                self._touch(other)
                separator = self.cliques[node] & self.cliques[other]
                self.adjacent[node][other] = self.adjacent[other][node] = separator
        self._contract([*changed, *change.links, *(end for edge in change.cut for end in edge)])

    def undo(self) -> None:
        """Undoes the last `apply`."""
        for node, before in self.touched.items():
            if before is None:
                if node in self.cliques:
                    self._discard(node)
            else:
                if node not in self.cliques:
                    self._enter(node)
                self.cliques[node], self.adjacent[node] = before
        self.touched = {}

    def move_tree_edge(self, random: Random) -> None:
        """Moves a random tree edge between random cliques that contain its separator.

        The graph and the score stay the same, but another junction tree of the graph has other moves.
        """
        a = self.random_node(random)
        if not self.adjacent[a]:
            return
        b = random.choice(list(self.adjacent[a]))
        separator = self.cut(a, b)
        self.link(*(random.choice(self._holders(end, separator)) for end in (a, b)))
        self.touched = {}

    def nodes_with(self, start: int, v: int, most: int, barred: int = -1) -> list[int]:
        """Returns the nodes that contain v, found from `start` without passing the node `barred`.

        The search ends after `most` nodes: a longer list is incomplete.

        Args:
            start: a node that contains v.
            v: the variable.
            most: number of nodes after which the search ends.
            barred: a node that the search does not pass.
        """
        found = [start]
        origin = {start: barred}
        for node in found:
            for other, separator in self.adjacent[node].items():
                if separator >> v & 1 and other not in (origin[node], barred):
                    found.append(other)
                    origin[other] = node
            if len(found) > most:
                break
        return found

    def _holders(self, start: int, separator: VarSet) -> list[int]:
        """Returns the nodes that contain S, connected to one of them."""
        found = {start: None}
        stack = [start]
        while stack:
            for node, between in self.adjacent[stack.pop()].items():
                if node not in found and is_subset(separator, between):
                    found[node] = None
                    stack.append(node)
        return list(found)

    def _touch(self, node: int) -> None:
        """Keeps the state of a node before the change."""
        if node not in self.touched:
            self.touched[node] = self.cliques[node], dict(self.adjacent[node])

    def _contract(self, nodes: list[int]) -> None:
        """Merges nodes within neighbours and neighbours within nodes, until there are none."""
        for node in nodes:  # which grows
            if node not in self.cliques:
                continue
            mask = self.cliques[node]
            for other, separator in self.adjacent[node].items():
                if separator == mask:
                    self._merge(node, other)
                    nodes.append(other)
                    break
                if separator == self.cliques[other]:
                    self._merge(other, node)
                    nodes.append(node)
                    break

    def _merge(self, node: int, host: int) -> None:
        for touched in (node, host, *self.adjacent[node]):
            self._touch(touched)
        self.merge(node, host)

    def _enter(self, node: int) -> None:
        self._place[node] = len(self._order)
        self._order.append(node)

    def _discard(self, node: int) -> None:
        """Removes a node; the last in order replaces it."""
        place = self._place.pop(node)
        last = self._order.pop()
        if last != node:
            self._order[place] = last
            self._place[last] = place
        del self.cliques[node], self.adjacent[node]
