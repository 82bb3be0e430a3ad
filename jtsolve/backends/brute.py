"""Brute force over all chordal graphs on at most five vertices: the oracle of the tests.

Enumerates all 2^(n(n-1)/2) graphs, keeps the chordal ones (1, 2, 8, 61, 822 for n = 1..5), drops those that
violate a constraint, and returns the best of the rest. It prunes nothing and shares no code with the other
backends, not even for the constraints: each is checked on the finished tree in the simplest way.

Time: 2^(n(n-1)/2) chordality tests once per process, then one pass over the chordal graphs per problem.

References:
    Tarjan and Yannakakis, Simple linear-time algorithms to test chordality of graphs, SIAM J. Comput. 13,
    1984 (maximum cardinality search, the chordality test).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, ClassVar

from jtsolve.core.backend import Capabilities, Estimate
from jtsolve.core.machine import base_memory
from jtsolve.core.problem import ALL_FEATURES
from jtsolve.core.result import Outcome
from jtsolve.core.sparsity import ties_of, tree_size
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import neighbours_of

if TYPE_CHECKING:
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits
    from jtsolve.core.varset import VarSet

_MEMORY = 2_000_000
"""A generous bound on the bytes of the 894 stored trees."""


@dataclass(frozen=True, slots=True)
class Brute:
    """Enumerates all chordal graphs on at most five vertices. Exact; supports every constraint."""

    name: ClassVar[str] = "brute"
    capabilities: ClassVar[Capabilities] = Capabilities(features=ALL_FEATURES, exact=True, max_variables=5)

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:  # noqa: ARG002 - the protocol's signature
        """See `Backend.estimate`: about 100 microseconds per graph in the first run."""
        return Estimate(
            memory=base_memory() + _MEMORY, seconds=1e-4 * 2 ** (problem.n * (problem.n - 1) // 2)
        )

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`; ties go to the smallest tree, see `core.sparsity.tree_size`."""
        self.estimate(problem, limits).require_memory(self.name, limits)
        best: JunctionTree | None = None
        best_score = -inf
        trees = chordal_trees(problem.n)
        for count, tree in enumerate(trees):
            if report.stop is not None:
                return Outcome(best, stop=report.stop, stats={"graphs": count})
            score = tree.score(problem.scores) if meets_constraints(problem, tree) else -inf
            smaller = score == best_score and best and tree_size(problem, tree) < tree_size(problem, best)
            if score > best_score or smaller:
                best, best_score = tree, score
                report(tree=best, done=count / len(trees))
        # Without a tree the score, and so the bound, is -inf: infeasible.
        return Outcome(best, bound=best_score, stats={"graphs": len(trees), "ties": ties_of(problem)})


@cache
def chordal_trees(n: int) -> tuple[JunctionTree, ...]:
    """Returns the junction trees of all chordal graphs on {0..n-1}, the empty graph first.

    >>> [len(chordal_trees(n)) for n in (1, 2, 3, 4)]
    [1, 2, 8, 61]
    """
    pairs = list(combinations(range(n), 2))
    trees = []
    for graph in range(1 << len(pairs)):
        edges = (pair for position, pair in enumerate(pairs) if graph >> position & 1)
        try:
            trees.append(JunctionTree.from_neighbours(neighbours_of(n, edges)))
        except ValueError:
            continue  # not chordal
    return tuple(trees)


def meets_constraints(problem: Problem, tree: JunctionTree) -> bool:
    """Returns whether the finished tree meets every constraint and all of its parts have scores."""
    limits = problem.constraints
    of_edges = limits.forbidden_edges or limits.required_edges or limits.forbidden_graphs
    edges: frozenset[VarSet] = tree.edge_sets if of_edges else frozenset()  # dominates the time
    cliques, separators = tree.cliques, tree.separators
    return (
        all(problem.scores.score(part) > -inf for part in (*cliques, *separators))
        and (limits.max_treewidth is None or tree.treewidth <= limits.max_treewidth)
        and (
            limits.max_separator_size is None
            or all(separator.bit_count() <= limits.max_separator_size for separator in separators)
        )
        and (
            limits.max_clique_cells is None
            or all(problem.cells(clique) <= limits.max_clique_cells for clique in cliques)
        )
        and all(separator.bit_count() >= limits.min_separator_size for separator in separators)
        and edges.isdisjoint(limits.forbidden_edges)
        and edges >= limits.required_edges
        and limits.forbidden_cliques.isdisjoint(cliques)
        and limits.forbidden_separators.isdisjoint(separators)
        and (limits.allowed_separators is None or limits.allowed_separators.issuperset(separators))
        and (limits.max_cliques is None or len(cliques) <= limits.max_cliques)
        and edges not in limits.forbidden_graphs
    )
