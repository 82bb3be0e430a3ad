"""Required edges for the heuristics: a chordal graph around them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from jtsolve.core.varset import VarSet, is_subset, members

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem


def triangulated(problem: Problem) -> list[VarSet] | None:
    """Returns the neighbours of each vertex in a chordal graph that holds the required edges.

    Eliminates a vertex that asks for the fewest new edges, the lowest number first (min-fill; Rose, 1972),
    of those that make no clique too large and join no forbidden pair. None if no vertex is left that does;
    another order might have gone on.
    """
    neighbours = [0] * problem.n
    for edge in problem.constraints.required_edges:
        for v in members(edge):
            neighbours[v] |= edge & ~(1 << v)
    left = sum(1 << v for v in range(problem.n) if neighbours[v])

    def missing(v: int) -> list[tuple[int, int]]:
        pairs = combinations(members(neighbours[v] & left), 2)
        return [(a, b) for a, b in pairs if not neighbours[a] >> b & 1]

    def may_go(v: int) -> bool:
        clique = neighbours[v] & left | 1 << v
        return clique.bit_count() <= problem.max_clique_size and not any(
            is_subset(edge, clique) for edge in problem.constraints.forbidden_edges
        )

    while left:
        candidates = [v for v in members(left) if may_go(v)]
        if not candidates:
            return None
        v = min(candidates, key=lambda v: len(missing(v)))
        for a, b in missing(v):
            neighbours[a] |= 1 << b
            neighbours[b] |= 1 << a
        left ^= 1 << v
    return neighbours
