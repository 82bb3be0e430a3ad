"""Triangulations: chordal graphs that hold a graph, as junction trees, and as constraints on them.

Vertices are eliminated greedily: next the one with the fewest missing edges among its neighbours (min-fill);
ties go to the smaller table, then to the lower number (U. Kjærulff, Triangulation of graphs, Aalborg 1990).
"""

from __future__ import annotations

from itertools import combinations
from math import log
from typing import TYPE_CHECKING

from jtsolve.core.problem import Constraints
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jtsolve.core.graph import UndirectedGraph


def triangulated(
    arities: Sequence[int], scopes: Iterable[VarSet], permits: Callable[[VarSet], bool] = bool
) -> JunctionTree:
    """Returns the junction tree of the min-fill triangulation, in which each scope lies within a clique.

    Args:
        arities: number of states of each variable, for breaking ties.
        scopes: sets of variables.
        permits: returns whether a vertex may be eliminated together with its neighbours, given all of them.

    Raises:
        ValueError: no vertex left may be eliminated; in another order it might have been possible.

    >>> square = [0b0011, 0b0110, 0b1100, 0b1001]
    >>> triangulated([2, 2, 2, 2], square).treewidth
    2
    """
    neighbours = [0] * len(arities)
    for scope in scopes:
        for v in members(scope):
            neighbours[v] |= scope & ~(1 << v)
    weight = [log(arity) for arity in arities]

    def cost(v: int) -> tuple[int, float, int]:
        around = neighbours[v]
        table = sum(weight[u] for u in members(around))
        missing = sum((around & ~neighbours[u]).bit_count() - 1 for u in members(around))
        return missing // 2, table, v

    costs = {v: cost(v) for v in range(len(arities))}
    families: list[tuple[int, VarSet]] = []
    while costs:
        permitted = (v for v in costs if permits(neighbours[v] | 1 << v))
        v = min(permitted, key=costs.__getitem__, default=-1)
        if v < 0:
            raise ValueError("no permitted elimination order was found")
        del costs[v]
        around = neighbours[v]
        families.append((v, around))
        changed = around
        for u in members(around):
            added = around & ~neighbours[u] & ~(1 << u)
            for w in members(added):  # a new edge {u, w} changes the fill-in of their common neighbours
                changed |= neighbours[u] & neighbours[w]
            neighbours[u] = (neighbours[u] | around) & ~(1 << u) & ~(1 << v)
        # Eliminated variables leave all neighbourhoods.
        costs.update((u, cost(u)) for u in members(changed & ~(1 << v)))
    return JunctionTree.from_families(reversed(families))


def triangulation(graph: UndirectedGraph) -> JunctionTree:
    """Returns the junction tree of the min-fill triangulation of a graph."""
    return triangulated([2] * graph.n, [1 << u | 1 << v for u, v in graph.edges])


def constraints_within(
    superset: UndirectedGraph | None, required: UndirectedGraph | None = None
) -> Constraints:
    """Returns the constraints that keep a junction tree within a triangulation of a superset.

    Args:
        superset: of the graph; its min-fill triangulation adds edges, without which it need not have a
            chordal graph with all required edges. None for all pairs.
        required: whose edges the tree has to have; None for none.

    Raises:
        InputError: a required edge is outside.
    """
    forbidden: frozenset[int] = frozenset()
    if superset is not None:
        every = {1 << u | 1 << v for u, v in combinations(range(superset.n), 2)}
        forbidden = frozenset(every - triangulation(superset).edge_sets)
    needed = () if required is None else (1 << u | 1 << v for u, v in required.edges)
    return Constraints(forbidden_edges=forbidden, required_edges=frozenset(needed))
