"""A chordal graph that contains the required edges, for heuristics to start from."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from jtsolve.core.varset import VarSet, is_subset, members

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem


def chordal_neighbours(problem: Problem) -> list[VarSet] | None:
    """Returns the neighbours of each vertex in a chordal graph that contains the required edges.

    Eliminates the vertex that needs the fewest fill edges, the lowest on a tie (min-fill; Rose, 1972), among
    those whose elimination makes no clique too large and joins no forbidden pair. Returns None if there is no
    such vertex; another order might have succeeded.
    """
    neighbours = [0] * problem.n
    for edge in problem.constraints.required_edges:
        for v in members(edge):
            neighbours[v] |= edge & ~(1 << v)
    left = sum(1 << v for v in range(problem.n) if neighbours[v])

    def missing(v: int) -> list[tuple[int, int]]:
        pairs = combinations(members(neighbours[v] & left), 2)
        return [(a, b) for a, b in pairs if not neighbours[a] >> b & 1]

    def may_be_eliminated(v: int) -> bool:
        clique = neighbours[v] & left | 1 << v
        return clique.bit_count() <= problem.max_clique_size and not any(
            is_subset(edge, clique) for edge in problem.constraints.forbidden_edges
        )

    while left:
        candidates = [v for v in members(left) if may_be_eliminated(v)]
        if not candidates:
            return None
        v = min(candidates, key=lambda v: len(missing(v)))
        for a, b in missing(v):
            neighbours[a] |= 1 << b
            neighbours[b] |= 1 << a
        left ^= 1 << v
    return neighbours
