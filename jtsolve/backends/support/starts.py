"""First trees, and the least gain that counts, for backends that improve the trees of others."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.backend import Backend, Limits, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree

_TOLERANCE = 1e-7
"""Nats."""
_ROUNDING = 1e-14
"""Of the magnitudes of a tree's scores: above the rounding of their sum."""


def least_gain(problem: Problem, tree: JunctionTree) -> float:
    """Returns by how many nats a tree must score more than `tree` or its like to count as better.

    That is above the rounding of sums. Below, a search may go in circles among trees of equal score.
    """
    sets = [*tree.cliques, *(separator for separator in tree.separators if separator)]
    return max(_TOLERANCE, _ROUNDING * sum(abs(problem.scores.score(mask)) for mask in sets))


def best_start(
    starts: Sequence[Backend], problem: Problem, limits: Limits, report: Report
) -> JunctionTree | None:
    """Returns and reports the best tree of several backends, or None if none finds one.

    Backends that object to the problem are left out; once the report says stop, no second one is started.
    The first is, however late it is: a run has a tree then.
    """
    best, best_score, started = None, -inf, False
    for backend in starts:
        if (started and report.stop is not None) or backend.capabilities.objections(problem):
            continue
        started = True
        tree = backend.solve(problem, limits, report).tree
        if tree is not None and (score := tree.score(problem.scores)) > best_score:
            best, best_score = tree, score
    if best is not None:
        report(tree=best)
    return best
