"""A junction tree that local search changes step by step, and takes steps back.

A `Change` says what becomes of some nodes, in terms that keep running intersection (`moves` sees to
it); nodes that come to lie within a neighbour are merged into it. The separators stand at the tree edges, and
a random node is drawn in constant time, so that a step costs the degrees of the nodes that it touches,
whatever the number of variables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, is_subset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

_WALK = 6
"""Steps of the walk by which the end of a tree edge moves on: enough to mix, as one of many such walks."""


class Change(NamedTuple):
    """A change of some nodes of a junction tree.

    Attributes:
        masks: the new sets of nodes; a set that a neighbour holds, ∅ too, is merged into that neighbour.
        fresh: the set of a new node; -1 for none.
        cut: tree edges that go.
        links: the nodes to which the new node is linked.
    """

    masks: Mapping[int, VarSet] = {}
    fresh: VarSet = -1
    cut: tuple[tuple[int, int], ...] = ()
    links: tuple[int, ...] = ()


class SearchTree:
    """A junction tree with numbered nodes.

    Attributes:
        cliques: the set of each node.
        adjacent: for each node its neighbours, and the separators between.
        touched: what the last change touched, as it was before: set and neighbours, None if it was not there.
    """

    def __init__(self, tree: JunctionTree) -> None:
        self.n = tree.n
        self.cliques: dict[int, VarSet] = dict(enumerate(tree.cliques))
        self.adjacent: dict[int, dict[int, VarSet]] = {node: {} for node in self.cliques}
        for (a, b), separator in zip(tree.edges, tree.separators, strict=True):
            self.adjacent[a][b] = self.adjacent[b][a] = separator
        self.touched: dict[int, tuple[VarSet, dict[int, VarSet]] | None] = {}
        self._home: dict[int, int] = {}  # a node that holds a variable, or did
        self._next = len(self.cliques)
        self._order = list(self.cliques)  # the nodes in some order, to draw from
        self._place = {node: place for place, node in enumerate(self._order)}

    def frozen(self) -> JunctionTree:
        """Returns the tree as a value, validated again."""
        position = {node: i for i, node in enumerate(self.cliques)}
        edges = [(position[a], position[b]) for a in self.adjacent for b in self.adjacent[a] if a < b]
        return JunctionTree(self.n, tuple(self.cliques.values()), tuple(edges))

    def copy(self) -> SearchTree:
        """Returns a tree that can be changed without changing this one."""
        other = object.__new__(SearchTree)
        other.n, other._next, other.touched = self.n, self._next, {}
        other.cliques = dict(self.cliques)
        other.adjacent = {node: dict(adjacent) for node, adjacent in self.adjacent.items()}
        other._home = dict(self._home)
        other._order, other._place = list(self._order), dict(self._place)
        return other

    def random_node(self, random: Random) -> int:
        """Returns a node, all equally likely."""
        return self._order[int(random.random() * len(self._order))]

    def holder(self, v: int) -> int:
        """Returns a node that holds a variable."""
        node = self._home.get(v, -1)
        if not self.cliques.get(node, 0) >> v & 1:
            node = self._home[v] = next(node for node, mask in self.cliques.items() if mask >> v & 1)
        return node

    def apply(self, change: Change) -> None:
        """Makes a change; `undo` takes it back until the next one."""
        self.touched = {}
        for a, b in change.cut:
            self._touch(a)
            self._touch(b)
            del self.adjacent[a][b], self.adjacent[b][a]
        for node, mask in change.masks.items():
            self._touch(node)
            self.cliques[node] = mask
        changed = list(change.masks)
        if change.fresh >= 0:
            changed.append(self._add(change.fresh, change.links))
        for node in changed:
            for other in self.adjacent[node]:
                self._touch(other)
                separator = self.cliques[node] & self.cliques[other]
                self.adjacent[node][other] = self.adjacent[other][node] = separator
        self._contract([*changed, *change.links, *(end for edge in change.cut for end in edge)])

    def undo(self) -> None:
        """Takes the last change back."""
        for node, before in self.touched.items():
            if before is None:
                if node in self.cliques:
                    self._discard(node)
            else:
                if node not in self.cliques:
                    self._enter(node)
                self.cliques[node], self.adjacent[node] = before
        self.touched = {}

    def rehang(self, random: Random) -> None:
        """Moves a random tree edge to other cliques that hold its separator, by a random walk from each end.

        The graph stays the same, and so does the score; but moves see only the tree at hand.
        """
        a = self.random_node(random)
        if not self.adjacent[a]:
            return
        b = random.choice(list(self.adjacent[a]))
        separator = self.adjacent[a].pop(b)
        del self.adjacent[b][a]
        a, b = (self._walk(end, separator, random) for end in (a, b))
        self.adjacent[a][b] = self.adjacent[b][a] = separator
        self.touched = {}

    def nodes_with(self, start: int, v: int, most: int, barred: int = -1) -> list[int]:
        """Returns the nodes that hold v in the part of the tree at `start`, without the node `barred`.

        At most `most` + 1 are looked for: a longer list is not complete.
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

    def _walk(self, start: int, separator: VarSet, random: Random) -> int:
        """Returns where a random walk among the nodes that hold S ends."""
        node = start
        for _ in range(_WALK):
            adjacent = self.adjacent[node]
            if not adjacent:
                break
            other = random.choice(list(adjacent))
            if is_subset(separator, adjacent[other]):
                node = other
        return node

    def _touch(self, node: int) -> None:
        """Keeps what a node was before the change."""
        if node not in self.touched:
            self.touched[node] = self.cliques[node], dict(self.adjacent[node])

    def _add(self, mask: VarSet, links: Iterable[int]) -> int:
        """Adds a node and links it."""
        node = self._next
        self._next += 1
        self.touched[node] = None
        self._enter(node)
        self.cliques[node] = mask
        self.adjacent[node] = {}
        for other in links:
            self._touch(other)
            self.adjacent[node][other] = self.adjacent[other][node] = 0
        return node

    def _contract(self, nodes: list[int]) -> None:
        """Merges each of the nodes within a neighbour, and each neighbour within one, until none is."""
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
        """Merges a node into a neighbour that holds its set."""
        self._touch(node)
        self._touch(host)
        for other in self.adjacent[node]:
            self._touch(other)
            separator = self.adjacent[other].pop(node)
            if other != host:
                self.adjacent[other][host] = self.adjacent[host][other] = separator
        self._discard(node)

    def _enter(self, node: int) -> None:
        self._place[node] = len(self._order)
        self._order.append(node)

    def _discard(self, node: int) -> None:
        """Takes a node out; the last in order takes its place there."""
        place = self._place.pop(node)
        last = self._order.pop()
        if last != node:
            self._order[place] = last
            self._place[last] = place
        del self.cliques[node], self.adjacent[node]
