"""A search that begins anew when better trees come.

The best tree at the beginning decides much: the root has the most neighbours in it, and it guides the dual
ascent (`ascent`). The steps after the ascent make up for a poor tree only slowly: on accidents (111
variables, treewidth 2), the ascent from the optimum takes 4 s and ends where steps that began with an early
tree arrive after a minute. So when a better tree has come while the first node is being bounded, a new search
begins with it, and the one with the better bound goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from jtsolve.backends.support.report import DerivedReport
from jtsolve.core.result import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.backends.clutter.branch_and_bound import BranchAndBound
    from jtsolve.core.backend import Limits, Report

_WAIT = 2.0
"""A search goes on for this many times as long as its beginning took, before another begins."""


@dataclass(slots=True)
class _Course:
    """The present search, the score of its first tree, and the seconds from which on another may begin."""

    search: BranchAndBound | None = None
    score: float = inf
    due: float = inf

    def is_over(self, limits: Limits) -> bool:
        """Tells whether another search is to begin: not below the root, nor where few families are left."""
        search = self.search
        if search is None or limits.elapsed <= self.due or search.best.score <= self.score:
            return False
        families = search.root.subproblem.families
        return search.root.proof.edge is None and int(families.allowed.sum()) > search.few


def search_with_restarts(
    begin: Callable[[Report], BranchAndBound],
    limits: Limits,
    report: Report,
    enough: Callable[[BranchAndBound], bool],
    *,
    room: bool,
) -> tuple[BranchAndBound, Stop]:
    """Returns the search, and why it stopped.

    Args:
        begin: returns a search that starts from the best tree reported.
        limits: of the whole.
        report: on the whole.
        enough: see `BranchAndBound.run`.
        room: whether there is memory for two searches; without it, the first goes on.
    """
    course = _Course()
    part = DerivedReport(
        report,
        lambda news: report(**news),
        lambda: Stop.STEPS if course.is_over(limits) else None,
    )
    while True:
        course.due, began = inf, limits.elapsed
        fresh = begin(part)
        fresh.ascend()
        if course.search is None or fresh.bound < course.search.bound:
            course.search = fresh
        course.score = course.search.best.score
        course.due = limits.elapsed + _WAIT * (limits.elapsed - began) if room else inf
        stop = course.search.run(partial(enough, course.search))
        if report.stop is not None or stop is not Stop.STEPS:
            return course.search, stop
