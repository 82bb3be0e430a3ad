"""The trap of dominated parent sets: a pruning rule of Bayesian networks loses the best chordal graph."""

from __future__ import annotations

from itertools import permutations
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jtsolve.backends.brute import chordal_trees
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.result import Status
from jtsolve.core.varset import VarSet, members, subsets
from jtsolve.io.instance import read_problem
from jtsolve.solving import solve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree

TRAPS = {
    name: read_problem(Path(__file__).parent / "regressions" / f"{name}.json")
    for name in ("dominated-parents", "exclusive-or")
}
RUNS = [
    (backend, name)
    for backend in REGISTRY
    for name, problem in TRAPS.items()
    if REGISTRY[backend].capabilities.exact and not REGISTRY[backend].capabilities.objections(problem)
]


def worth(problem: Problem, v: int, parents: VarSet) -> float:
    """Returns w(v,P) = s(P∪v) − s(P)."""
    return problem.scores.score(parents | 1 << v) - problem.scores.score(parents)


def dominated(problem: Problem, v: int, parents: VarSet) -> bool:
    """Returns whether a proper subset of the parents is worth as much or more."""
    own = worth(problem, v, parents)
    return any(worth(problem, v, fewer) >= own for fewer in subsets(parents) if fewer != parents)


def perfect_orders(tree: JunctionTree) -> Iterator[list[tuple[int, VarSet]]]:
    """Yields the families of every perfect order of the tree's graph."""
    neighbours = [0] * tree.n
    for u, v in tree.graph_edges:
        neighbours[u] |= 1 << v
        neighbours[v] |= 1 << u
    for order in permutations(range(tree.n)):
        placed, families = 0, []
        for v in order:
            families.append((v, neighbours[v] & placed))
            placed |= 1 << v
        if all(parents & ~neighbours[u] == 1 << u for _, parents in families for u in members(parents)):
            yield families


def best_without_dominated(problem: Problem) -> float:
    """Returns the best score of the trees that have a perfect order without dominated families, in nats."""
    scores = [
        tree.score(problem.scores)
        for tree in chordal_trees(problem.n)
        if any(
            not any(dominated(problem, v, parents) for v, parents in families)
            for families in perfect_orders(tree)
        )
    ]
    return max(scores, default=-inf)


@pytest.mark.parametrize("name", TRAPS)
def test_the_rule_of_dominated_parents_loses_the_optimum(name: str) -> None:
    problem = TRAPS[name]
    assert -inf < best_without_dominated(problem) < problem.provenance["optimum"] - 1


def test_every_perfect_order_gives_the_score_of_its_tree() -> None:
    problem = TRAPS["dominated-parents"]
    for tree in chordal_trees(4):
        orders = list(perfect_orders(tree))
        assert orders
        for families in orders:
            total = sum(worth(problem, v, parents) for v, parents in families)
            assert total == pytest.approx(tree.score(problem.scores))


@pytest.mark.parametrize(("backend", "name"), RUNS)
def test_no_exact_backend_falls_into_the_trap(backend: str, name: str) -> None:
    problem = TRAPS[name]
    result = solve(problem, REGISTRY[backend])
    assert result.status is Status.OPTIMAL
    assert result.score == pytest.approx(problem.provenance["optimum"], abs=1e-6)


def test_the_exact_backends_that_take_any_treewidth_are_all_tried() -> None:
    assert {backend for backend, _ in RUNS} >= {"brute", "clutter", "dp"}
