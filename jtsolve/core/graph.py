"""Undirected graphs over named variables, valid by construction."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.varset import VarSet, members, neighbours_of, varset
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import networkx as nx
    from numpy.typing import NDArray

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True)
class UndirectedGraph:
    """An undirected graph without loops over named variables.

    Args:
        names: one for each vertex; unique and not empty.
        neighbours: for each vertex, the set of its neighbours.

    Raises:
        InputError: names are missing, empty or repeated, or the neighbours are not symmetric, or hold the
            vertex itself or one that does not exist.

    >>> graph = UndirectedGraph.from_edges(("A", "B", "C"), [(0, 1), (2, 1)])
    >>> graph.edges, graph.has_edge(1, 2)
    (((0, 1), (1, 2)), True)
    """

    names: tuple[str, ...]
    neighbours: tuple[VarSet, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for v, name in enumerate(self.names):
            if not name or name in seen:
                reason = f"the name '{name}' is used twice" if name else "the name is empty"
                raise InputError("graph", f"variable {v + 1}", reason, "give every variable a unique name")
            seen.add(name)
        if len(self.neighbours) != len(self.names):
            reason = f"{len(self.neighbours)} sets of neighbours for {len(self.names)} names"
            raise InputError("graph", "neighbours", reason, "give a set for every variable")
        for v, around in enumerate(self.neighbours):
            if around < 0 or around >> self.n:
                reason = f"variable {v} has a neighbour above {self.n - 1}"
                raise InputError("graph", "neighbours", reason, f"use the variables 0 to {self.n - 1}")
            for u in members(around):
                if u == v:
                    raise InputError(
                        "graph", f"variable '{self.names[v]}'", "it is its own neighbour", "remove the loop"
                    )
                if not self.neighbours[u] >> v & 1:
                    pair = f"'{self.names[v]}' – '{self.names[u]}'"
                    raise InputError("graph", pair, "the edge has one direction only", "give both")

    def __repr__(self) -> str:
        return f"UndirectedGraph({self.n} variables, {self.size} edges)"

    @property
    def n(self) -> int:
        """The number of vertices."""
        return len(self.names)

    @property
    def size(self) -> int:
        """The number of edges."""
        return sum(around.bit_count() for around in self.neighbours) // 2

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges (u, v), u < v, in increasing order."""
        return tuple(
            (u, u + 1 + v) for u, around in enumerate(self.neighbours) for v in members(around >> u + 1)
        )

    @property
    def named_edges(self) -> list[tuple[str, str]]:
        """The edges by names, in the order of `edges`."""
        return [(self.names[u], self.names[v]) for u, v in self.edges]

    def has_edge(self, u: int, v: int) -> bool:
        """Returns whether two vertices are adjacent."""
        return bool(self.neighbours[u] >> v & 1)

    @classmethod
    def from_edges(cls, names: Sequence[str], edges: Iterable[Edge]) -> UndirectedGraph:
        """Returns the graph with these edges, in any order and direction."""
        return cls(tuple(names), tuple(neighbours_of(len(names), edges)))

    @classmethod
    def complete(cls, names: Sequence[str]) -> UndirectedGraph:
        """Returns the graph in which all vertices are adjacent."""
        everything = (1 << len(names)) - 1
        return cls(tuple(names), tuple(everything & ~(1 << v) for v in range(len(names))))

    @classmethod
    def empty(cls, names: Sequence[str]) -> UndirectedGraph:
        """Returns the graph without edges."""
        return cls(tuple(names), (0,) * len(names))

    @classmethod
    def from_matrix(cls, names: Sequence[str], matrix: NDArray[np.bool_]) -> UndirectedGraph:
        """Returns the graph of a symmetric adjacency matrix, shape (n, n)."""
        return cls(tuple(names), tuple(varset(np.flatnonzero(row).tolist()) for row in matrix))

    def matrix(self) -> NDArray[np.bool_]:
        """Returns the adjacency matrix, shape (n, n)."""
        matrix = np.zeros((self.n, self.n), dtype=np.bool_)
        for v, around in enumerate(self.neighbours):
            matrix[v, list(members(around))] = True
        return matrix

    def union(self, other: UndirectedGraph) -> UndirectedGraph:
        """Returns the graph with the edges of both.

        Raises:
            InputError: the names differ.
        """
        self._require_same(other)
        both = zip(self.neighbours, other.neighbours, strict=True)
        return UndirectedGraph(self.names, tuple(own | more for own, more in both))

    def without(self, other: UndirectedGraph) -> UndirectedGraph:
        """Returns the graph with the edges of this one that are not in the other.

        Raises:
            InputError: the names differ.
        """
        self._require_same(other)
        both = zip(self.neighbours, other.neighbours, strict=True)
        return UndirectedGraph(self.names, tuple(own & ~less for own, less in both))

    def induced(self, kept: VarSet) -> UndirectedGraph:
        """Returns the graph with the edges among some vertices; the others stay, without edges."""
        pairs = enumerate(self.neighbours)
        return UndirectedGraph(self.names, tuple(own & kept if kept >> v & 1 else 0 for v, own in pairs))

    def is_subgraph_of(self, other: UndirectedGraph) -> bool:
        """Returns whether the other graph has all edges of this one."""
        return not self.without(other).size

    def aligned(self, names: Sequence[str], source: str = "graph") -> UndirectedGraph:
        """Returns this graph with its vertices in the order of `names`; names it lacks get no edges.

        Raises:
            InputError: the graph has a vertex that is not among the names.
        """
        place = {name: v for v, name in enumerate(names)}
        unknown = [name for name in self.names if name not in place]
        if unknown:
            reason = f"there is no column '{unknown[0]}'"
            raise InputError(source, "variables", reason, "give a graph over the columns of the data")
        at = [place[name] for name in self.names]
        return UndirectedGraph.from_edges(names, ((at[u], at[v]) for u, v in self.edges))

    def components(self, inside: VarSet | None = None) -> list[VarSet]:
        """Returns the connected components of the graph, or of its subgraph on `inside`, by least vertex."""
        left = (1 << self.n) - 1 if inside is None else inside
        found = []
        while left:
            part, front = 0, left & -left
            while front:
                part |= front
                reached = 0
                for v in members(front):
                    reached |= self.neighbours[v]
                front = reached & left & ~part
            found.append(part)
            left &= ~part
        return found

    def marginal(self, kept: VarSet) -> tuple[VarSet, ...]:
        """Returns the neighbours in the marginal graph over some vertices; those of the others are empty.

        Two vertices are adjacent in it iff a path joins them whose inner vertices are all outside `kept`: the
        graph to which the marginal distribution of `kept` is Markov.

        >>> graph = UndirectedGraph.from_edges(("A", "B", "C"), [(0, 1), (1, 2)])
        >>> graph.marginal(0b101)
        (4, 0, 1)
        """
        around = [self.neighbours[v] & kept if kept >> v & 1 else 0 for v in range(self.n)]
        for part in self.components((1 << self.n) - 1 & ~kept):
            border = 0
            for v in members(part):
                border |= self.neighbours[v]
            border &= kept
            for v in members(border):
                around[v] |= border & ~(1 << v)
        return tuple(around)

    def moral(self, arcs: Iterable[Edge]) -> UndirectedGraph:
        """Returns the graph with the parents of each vertex joined, of arcs (u, v) from u to v.

        The distribution of a Bayesian network is Markov to this graph, not to its edges alone.
        """
        parents = [0] * self.n
        for u, v in arcs:
            parents[v] |= 1 << u
        married = (pair for around in parents for pair in combinations(members(around), 2))
        return UndirectedGraph.from_edges(self.names, [*self.edges, *married])

    def to_networkx(self, attributes: Mapping[Edge, Mapping[str, Any]] | None = None) -> nx.Graph:
        """Returns the graph with the names as nodes, and the attributes of edges (u, v), u < v."""
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from(self.names)
        for u, v in self.edges:
            graph.add_edge(self.names[u], self.names[v], **(attributes or {}).get((u, v), {}))
        return graph

    @classmethod
    def from_networkx(
        cls, graph: nx.Graph, source: str = "graph", written: Callable[[Any], str] = str
    ) -> UndirectedGraph:
        """Returns the undirected graph of a networkx graph; its nodes, in their order, are the variables.

        Args:
            graph: a simple undirected graph.
            source: names it in errors.
            written: turns a node into the name of its variable.

        Raises:
            InputError: it is directed, a multigraph, or no graph, or has loops or nodes of the same name.
        """
        if not hasattr(graph, "is_directed") or not hasattr(graph, "is_multigraph"):
            kind = type(graph).__name__
            raise InputError(source, "", f"a value of type {kind} is not a graph", "give a networkx.Graph")
        if graph.is_directed() or graph.is_multigraph():
            kind = "directed" if graph.is_directed() else "a multigraph"
            raise InputError(source, "", f"the graph is {kind}", "give an undirected simple graph")
        place = {node: v for v, node in enumerate(graph.nodes)}
        return cls.from_edges(
            tuple(map(written, graph.nodes)), ((place[u], place[v]) for u, v in graph.edges)
        )

    def _require_same(self, other: UndirectedGraph) -> None:
        if self.names != other.names:
            raise InputError(
                "graph", "variables", "the two graphs differ in them", "align one with the other"
            )
