"""Junction trees, valid by construction and in canonical form.

A chordal graph has one set of maximal cliques and one multiset of separators, but many junction trees, all of
the same score. A `JunctionTree` stores the canonical one: trees of equal graphs are equal values.

References:
    Blair and Peyton, An introduction to chordal graphs and clique trees, 1993 (running intersection, the
    tree from a perfect elimination order, maximum cardinality search).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import fsum, inf
from typing import TYPE_CHECKING, NamedTuple

from jtsolve.core.notebook import as_html
from jtsolve.core.varset import VarSet, is_subset, key_of, members, renumbered, varset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import networkx as nx

    from jtsolve.core.scores import LocalScores


@dataclass(frozen=True, slots=True)
class JunctionTree:
    """A junction tree over the variables {0..n-1}.

    Args:
        n: the number of variables.
        cliques: the maximal cliques; they cover all variables, and none is within another. Stored in
            increasing order of their sorted members.
        edges: pairs of positions in `cliques`: a tree with running intersection. Stored are the canonical
            edges.

    Raises:
        ValueError: the cliques and edges do not form a junction tree over {0..n-1}; with the reason.

    >>> JunctionTree(3, [0b110, 0b011], [(0, 1)]).cliques
    (3, 6)
    >>> JunctionTree(3, [0b110, 0b011], [])
    Traceback (most recent call last):
    ValueError: 2 cliques need 1 tree edges, not 0
    """

    n: int
    cliques: tuple[VarSet, ...]
    edges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        order = sorted(range(len(self.cliques)), key=lambda i: list(members(self.cliques[i])))
        position = {old: new for new, old in enumerate(order)}
        cliques = tuple(self.cliques[i] for i in order)
        try:
            edges = [(position[i], position[j]) for i, j in self.edges]
        except KeyError as error:
            raise ValueError(f"a tree edge names clique {error.args[0]}, which does not exist") from None
        _validate(self.n, cliques, edges)
        object.__setattr__(self, "cliques", cliques)
        object.__setattr__(self, "edges", _canonical_edges(self.n, cliques, edges))

    def _repr_html_(self) -> str | None:
        return as_html([], self, [str(v) for v in range(self.n)])

    @property
    def separators(self) -> tuple[VarSet, ...]:
        """The separators, aligned with `edges`: the intersections of the cliques joined."""
        return tuple(self.cliques[i] & self.cliques[j] for i, j in self.edges)

    @property
    def treewidth(self) -> int:
        """The size of the largest clique minus one."""
        return max(clique.bit_count() for clique in self.cliques) - 1

    @property
    def edge_count(self) -> int:
        """The number of edges of the graph: Σ |C|(|C| − 1)/2 over cliques minus the same over separators."""
        parts = [part.bit_count() for part in self.cliques], [part.bit_count() for part in self.separators]
        cliques, separators = (sum(size * (size - 1) // 2 for size in sizes) for sizes in parts)
        return cliques - separators

    @property
    def graph_edges(self) -> tuple[tuple[int, int], ...]:
        """The edges (u, v), u < v, of the chordal graph, in increasing order."""
        found = {(u, v) for clique in self.cliques for u in members(clique) for v in members(clique) if u < v}
        return tuple(sorted(found))

    @property
    def edge_sets(self) -> frozenset[VarSet]:
        """The edges of the chordal graph as sets of two, as in `Constraints.forbidden_graphs`."""
        return frozenset(1 << u | 1 << v for u, v in self.graph_edges)

    def relabelled(self, places: Sequence[int]) -> JunctionTree:
        """Returns the tree in which variable v is called `places[v]`, a permutation of 0, …, n - 1."""
        cliques = tuple(renumbered(clique, places) for clique in self.cliques)
        return JunctionTree(self.n, cliques, self.edges)

    def score(self, scores: LocalScores) -> float:
        """Returns Σ s(C) − Σ s(S) in nats; -inf if a clique or separator has no score."""
        terms = [scores.score(clique) for clique in self.cliques]
        for separator in self.separators:
            value = scores.score(separator)
            terms.append(-value if value > -inf else -inf)
        return fsum(terms)  # exact: sums of 10^4 terms of 10^4 nats would drift by more than 10^-6

    def to_graph(self) -> nx.Graph:
        """Returns the chordal graph on the nodes 0..n-1."""
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from(range(self.n))
        graph.add_edges_from(self.graph_edges)
        return graph

    @classmethod
    def from_graph(cls, graph: nx.Graph) -> JunctionTree:
        """Returns the junction tree of a chordal graph on the nodes 0..n-1.

        Raises:
            ValueError: the graph is not chordal, or its nodes are not 0..n-1.
        """
        if set(graph.nodes) != set(range(len(graph))):
            raise ValueError("the graph's nodes must be 0..n-1")
        return cls.from_neighbours([varset(graph.adj[v]) & ~(1 << v) for v in range(len(graph))])

    @classmethod
    def from_neighbours(cls, neighbours: Sequence[VarSet]) -> JunctionTree:
        """Returns the junction tree of the chordal graph in which vertex v is adjacent to `neighbours[v]`.

        Raises:
            ValueError: the graph is not chordal.
        """
        return cls.from_families(families_by_search(neighbours))

    @classmethod
    def from_families(cls, families: Iterable[tuple[int, VarSet]]) -> JunctionTree:
        """Returns the tree of a graph built vertex by vertex, each joined to a clique of earlier ones.

        Args:
            families: (v, P) in the order of arrival, the reverse of a perfect elimination order.

        Raises:
            ValueError: some P is not a clique of earlier vertices (the graph would not be chordal), or a
                vertex is missing.
        """
        nodes = rooted_cliques(families)
        n = sum((node.clique & ~node.separator).bit_count() for node in nodes)
        edges = tuple((node.parent, i) for i, node in enumerate(nodes) if i)
        return cls(n, tuple(node.clique for node in nodes), edges)

    @classmethod
    def from_nodes(cls, n: int, nodes: Sequence[VarSet], edges: Sequence[tuple[int, int]]) -> JunctionTree:
        """Returns the junction tree after merging every node that is within a neighbour.

        Args:
            n: the number of variables.
            nodes: sets with running intersection over the tree; one may be within another.
            edges: pairs of positions in `nodes`.
        """
        merged = list(range(len(nodes)))  # merged[i]: the node that node i was merged into

        def representative(i: int) -> int:
            while merged[i] != i:
                i = merged[i]
            return i

        kept = []
        for i, j in edges:
            a, b = representative(i), representative(j)
            if is_subset(nodes[a], nodes[b]):
                merged[a] = b
            elif is_subset(nodes[b], nodes[a]):
                merged[b] = a
            else:
                kept.append((i, j))
        roots = [i for i in range(len(nodes)) if merged[i] == i]
        position = {root: k for k, root in enumerate(roots)}
        return cls(
            n,
            tuple(nodes[i] for i in roots),
            tuple((position[representative(i)], position[representative(j)]) for i, j in kept),
        )


class RootedClique(NamedTuple):
    """A maximal clique of a rooted junction tree.

    Attributes:
        clique: its members.
        separator: those that it shares with its parent; ∅ at the root.
        parent: position of its parent; 0 at the root, which is the first.
    """

    clique: VarSet
    separator: VarSet
    parent: int


def rooted_cliques(families: Iterable[tuple[int, VarSet]]) -> list[RootedClique]:
    """Returns the rooted junction tree of a graph built vertex by vertex; see `from_families`.

    Raises:
        ValueError: a parent arrives after its child, or the graph is not chordal.
    """
    rank: dict[int, int] = {}
    node_of: list[int] = []  # by rank, the node in which a vertex arrived: it and its parents are there
    nodes: list[RootedClique] = []
    for v, parents in families:
        last, rest = -1, parents
        while rest:
            lowest = rest & -rest
            rest ^= lowest
            u = lowest.bit_length() - 1
            if u not in rank:
                raise ValueError(f"vertex {v} is joined to a vertex that arrives later")
            last = max(last, rank[u])
        node = 0 if last < 0 else node_of[last]
        if nodes and not is_subset(parents, nodes[node].clique):
            raise ValueError(f"not chordal: the earlier neighbours of vertex {v} are not a clique")
        if nodes and nodes[node].clique == parents:
            nodes[node] = nodes[node]._replace(clique=parents | 1 << v)
        else:
            nodes.append(RootedClique(parents | 1 << v, parents, node))
            node = len(nodes) - 1
        rank[v] = len(node_of)
        node_of.append(node)
    return nodes


def maximum_cardinality_search(neighbours: Sequence[VarSet], first: int = 0) -> list[int]:
    """Returns the vertices in an order that is the reverse of a perfect elimination order iff one exists.

    The next vertex is one with the most visited neighbours (Tarjan and Yannakakis, SIAM J. Comput. 1984); the
    lowest number breaks ties. The vertices left are kept as one set for each number of visited neighbours.
    """
    everything = (1 << len(neighbours)) - 1
    # By the number of visited neighbours, one more for the first vertex; the last set is empty.
    left = [everything & ~(1 << first), everything & 1 << first, 0]
    order: list[int] = []
    while len(left) > 1:
        if not left[-2]:
            left.pop()
            continue
        lowest = left[-2] & -left[-2]
        v = lowest.bit_length() - 1
        left[-2] ^= lowest
        order.append(v)
        around = neighbours[v]
        for number in range(len(left) - 2, -1, -1):
            if moved := left[number] & around:
                left[number] ^= moved
                left[number + 1] |= moved
        if left[-1]:
            left.append(0)
    return order


def families_by_search(neighbours: Sequence[VarSet], first: int = 0) -> list[tuple[int, VarSet]]:
    """Returns the vertices in the order of `maximum_cardinality_search`, each with its earlier neighbours."""
    placed, families = 0, []
    for v in maximum_cardinality_search(neighbours, first):
        families.append((v, neighbours[v] & placed))
        placed |= 1 << v
    return families


def _validate(n: int, cliques: Sequence[VarSet], edges: Sequence[tuple[int, int]]) -> None:
    """Raises ValueError unless the cliques and edges form a junction tree over {0..n-1}."""
    if n < 1 or not cliques:
        raise ValueError("a junction tree has at least one variable and one clique")
    covered = 0
    for clique in cliques:
        covered |= clique
    if covered != (1 << n) - 1:
        raise ValueError(f"the cliques hold {list(members(covered))}, not exactly the variables 0 to {n - 1}")
    if len(edges) != len(cliques) - 1:
        raise ValueError(f"{len(cliques)} cliques need {len(cliques) - 1} tree edges, not {len(edges)}")
    if len(reachable(len(cliques), edges)) != len(cliques):
        raise ValueError("the tree edges do not connect the cliques")
    # In a tree, the cliques that contain v are connected iff they number one more than the edges among them;
    # they number at least one more.
    separators = [cliques[i] & cliques[j] for i, j in edges]
    if sum(map(int.bit_count, cliques)) != n + sum(map(int.bit_count, separators)):
        count = Counter(v for clique in cliques for v in members(clique))
        count.subtract(v for separator in separators for v in members(separator))
        broken = next(v for v, surplus in count.items() if surplus != 1)
        raise ValueError(f"the cliques that hold variable {broken} are not connected")
    # With running intersection, a clique within another is within its neighbour on the path to it.
    for (i, j), separator in zip(edges, separators, strict=True):
        if separator in (cliques[i], cliques[j]):
            raise ValueError(
                f"one of the cliques {list(members(cliques[i]))} and {list(members(cliques[j]))} "
                "is within the other"
            )


def adjacency(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Returns the neighbours of each position under the edges."""
    adjacent: list[list[int]] = [[] for _ in range(count)]
    for i, j in edges:
        adjacent[i].append(j)
        adjacent[j].append(i)
    return adjacent


def reachable(count: int, edges: Sequence[tuple[int, int]]) -> set[int]:
    """Returns the positions reachable from position 0."""
    adjacent = adjacency(count, edges)
    seen = {0}
    stack = [0]
    while stack:
        for j in adjacent[stack.pop()]:
            if j not in seen:
                seen.add(j)
                stack.append(j)
    return seen


def _canonical_edges(
    n: int, cliques: Sequence[VarSet], edges: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Returns the edges of the canonical junction tree of the same cliques.

    The cliques that contain a separator S form a subtree; without its edges labelled S, it splits into the
    same parts in every junction tree of the graph. The canonical tree joins the first of these parts to all
    others, through the first clique of each: a path would be deeper.
    """
    adjacent: list[list[tuple[int, VarSet]]] = [[] for _ in cliques]
    key = key_of(n)
    ends: dict[int | bytes, tuple[VarSet, set[int]]] = {}
    for i, j in edges:
        separator = cliques[i] & cliques[j]
        adjacent[i].append((j, separator))
        adjacent[j].append((i, separator))
        ends.setdefault(key(separator), (separator, set()))[1].update((i, j))
    canonical: list[tuple[int, int]] = []
    for separator, starts in ends.values():
        part_of: set[int] = set()
        firsts = []
        for start in starts:
            if start in part_of:
                continue
            part = {start}
            stack = [start]
            while stack:
                for j, joint in adjacent[stack.pop()]:
                    if joint & separator == separator != joint and j not in part:
                        part.add(j)
                        stack.append(j)
            part_of |= part
            firsts.append(min(part))
        centre = min(firsts)
        canonical.extend((centre, first) for first in firsts if first != centre)
    return tuple(sorted((min(i, j), max(i, j)) for i, j in canonical))
