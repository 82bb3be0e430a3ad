"""From the skeleton of a Bayesian network to its CPDAG: the arcs on which all equivalent networks agree.

A vertex k between i and j, which are not joined, is a common child (i → k ← j) iff the set that separates i
from j leaves k out. These v-structures direct further edges, by rules that leave no other choice (Meek):

    1. a → b – c, a and c not joined:                    b → c, or b were a common child
    2. a → b → c, a – c:                                 a → c, or there were a circle
    3. a – b, a – c → b, a – d → b, c, d not joined:     a → b, or there were a circle or a v-structure

Tests on few rows contradict each other: an edge that v-structures or rules direct both ways stays undirected.
Rules are applied to all edges at once, so that the order of the vertices does not matter.

References:
    T. Verma, J. Pearl, Equivalence and synthesis of causal models, UAI 1990.
    C. Meek, Causal inference and causal explanation with background knowledge, UAI 1995.
    D. Colombo, M. Maathuis, Order-independent constraint-based causal structure learning, JMLR 15, 2014.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from jtsolve.core.varset import VarSet, members

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jtsolve.core.graph import Edge, UndirectedGraph


def unshielded(graph: UndirectedGraph) -> Iterator[Edge]:
    """Yields the pairs (i, j), i < j, that are not joined but have a common neighbour."""
    for i, j in combinations(range(graph.n), 2):
        if not graph.has_edge(i, j) and graph.neighbours[i] & graph.neighbours[j]:
            yield i, j


def directed(graph: UndirectedGraph, separators: Mapping[Edge, VarSet]) -> tuple[Edge, ...]:
    """Returns the arcs (u, v) from u to v, in increasing order.

    Args:
        graph: the skeleton.
        separators: of every pair of `unshielded`.

    >>> from jtsolve.core.graph import UndirectedGraph
    >>> path = UndirectedGraph.from_edges("ABCD", [(0, 2), (1, 2), (2, 3)])
    >>> directed(path, {(0, 1): 0b0000, (0, 3): 0b0100, (1, 3): 0b0100})
    ((0, 2), (1, 2), (2, 3))
    """
    found = {
        (end, k)
        for (i, j), separator in separators.items()
        for k in members(graph.neighbours[i] & graph.neighbours[j] & ~separator)
        for end in (i, j)
    }
    parents, free = [0] * graph.n, list(graph.neighbours)
    while found:
        for u, v in found:
            if (v, u) not in found:
                parents[v] |= 1 << u
            free[u] &= ~(1 << v)
            free[v] &= ~(1 << u)
        undecided = ((u, v) for u in range(graph.n) for v in members(free[u]))
        found = {(u, v) for u, v in undecided if _follows(graph, parents, free, u, v)}
    return tuple(sorted((u, v) for v, around in enumerate(parents) for u in members(around)))


def _follows(graph: UndirectedGraph, parents: list[VarSet], free: list[VarSet], u: int, v: int) -> bool:
    """Returns whether a rule directs u – v to u → v."""
    if parents[u] & ~graph.neighbours[v]:
        return True
    if any(parents[b] >> u & 1 for b in members(parents[v])):
        return True
    between = parents[v] & free[u]
    return any(between & ~graph.neighbours[c] & ~(1 << c) for c in members(between))
