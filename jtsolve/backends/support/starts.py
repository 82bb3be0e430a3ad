"""First trees, and the least gain that counts, for backends that improve the trees of others."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, ClassVar

from jtsolve.backends.support.report import ending_at
from jtsolve.core.backend import Capabilities, Estimate
from jtsolve.core.result import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.backend import Backend, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree

_AT_LEAST = 1.0
"""Seconds granted to every start."""
_TOLERANCE = 1e-7
"""Nats."""
_ROUNDING = 1e-14
"""Share of the magnitudes of a tree's scores, above the rounding error of their sum."""


def least_gain(problem: Problem, tree: JunctionTree) -> float:
    """Returns by how many nats a tree must outscore `tree`, or one like it, to count as better.

    That exceeds the rounding error of sums; a smaller gain lets a search cycle among trees of equal score.
    """
    sets = [*tree.cliques, *(separator for separator in tree.separators if separator)]
    return max(_TOLERANCE, _ROUNDING * sum(abs(problem.scores.score(mask)) for mask in sets))


def best_start(
    starts: Sequence[Backend], problem: Problem, limits: Limits, report: Report
) -> JunctionTree | None:
    """Returns and reports the best tree of several backends, or None if none finds one.

    A backend that objects to the problem, but not to the same one at treewidth 1, solves that; it is left out
    if it objects to both. The first backend always starts, so that a run has a tree; the others start unless
    the run is stopped. After the first tree, a backend gets as much time as all before it, at least a second,
    so that none holds up the search.

    Args:
        starts: the backends, in order.
        problem: to solve.
        limits: time, memory and threads.
        report: receives the trees; ends the search.
    """
    best, best_score, began, started = None, -inf, limits.elapsed, False
    for backend in starts:
        own = problem_for(backend, problem)
        if own is None or (started and report.stop is not None):
            continue
        started = True
        now = limits.elapsed
        end = inf if best is None else now + max(_AT_LEAST, now - began)
        # A bound at treewidth 1 is none at any other.
        until_end = ending_at(report, limits, end, bounds=own is problem)
        tree = backend.solve(own, limits, until_end).tree
        if tree is not None and (score := tree.score(problem.scores)) > best_score:
            best, best_score = tree, score
            report(tree=best)
    return best


def problem_for(backend: Backend, problem: Problem) -> Problem | None:
    """Returns the problem for a start backend: the given one, or it at treewidth 1, or None."""
    if not backend.capabilities.objections(problem):
        return problem
    forest = problem.with_treewidth(1)
    return None if backend.capabilities.objections(forest) else forest


@dataclass(frozen=True, slots=True)
class KnownTree:
    """A known tree, as a backend that others start from."""

    tree: JunctionTree = field(repr=False)

    name: ClassVar[str] = "known"
    capabilities: ClassVar[Capabilities] = Capabilities()

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:  # noqa: ARG002 - the protocol's signature
        """See `Backend.estimate`: nothing."""
        return Estimate(0, 0.0)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:  # noqa: ARG002 - the same
        """See `Backend.solve`: returns the tree."""
        return Outcome(self.tree)
