"""First trees, for backends that improve the trees of others."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, ClassVar

from jtsolve.core.backend import Capabilities, Estimate
from jtsolve.core.result import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.backend import Backend, Limits, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree


def best_start(
    starts: Sequence[Backend], problem: Problem, limits: Limits, report: Report
) -> JunctionTree | None:
    """Returns and reports the best tree of several backends, or None if none finds one.

    Backends that object to the problem are left out; once the report says stop, no other is started.
    """
    best, best_score = None, -inf
    for backend in starts:
        if report.stop is not None or backend.capabilities.objections(problem):
            continue
        tree = backend.solve(problem, limits, report).tree
        if tree is not None and (score := tree.score(problem.scores)) > best_score:
            best, best_score = tree, score
    if best is not None:
        report(tree=best)
    return best


@dataclass(frozen=True, slots=True)
class Known:
    """A known tree, as a backend that others start from."""

    tree: JunctionTree

    name: ClassVar[str] = "known"
    capabilities: ClassVar[Capabilities] = Capabilities()

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:  # noqa: ARG002 - the protocol's signature
        """See `Backend.estimate`: nothing."""
        return Estimate(0, 0.0)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:  # noqa: ARG002 - the same
        """See `Backend.solve`: returns the tree."""
        return Outcome(self.tree)
