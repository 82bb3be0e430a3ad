"""Restarts of a search from better trees.

The initial best tree matters: the root has the most neighbours in it, and it guides the dual
ascent (`ascent`). The steps after the ascent make up for a poor tree only slowly: on accidents (111
variables, treewidth 2), the ascent from the optimum takes 4 s and ends where steps that began with an early
tree arrive after a minute. So when a better tree has come while the first node is being bounded, a new search
begins with it, and the one with the better bound continues.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from jtsolve.backends.support.report import DerivedReport
from jtsolve.core.result import Stop
from jtsolve.core.scores import StoppedError
from jtsolve.errors import LimitError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.backends.clutter.branch_and_bound import BranchAndBound
    from jtsolve.core.backend import Report
    from jtsolve.core.run import Limits

_WAIT = 2.0
"""A restart waits until the search has run for this multiple of the time of its first phase."""


@dataclass(slots=True)
class _Course:
    """The present search, the score of its first tree, and the seconds from which on another may begin.

    `restart_pending`: another search is to begin; once set, it stays until that begins.
    """

    report: Report
    limits: Limits
    search: BranchAndBound | None = None
    score: float = inf
    due: float = inf
    restart_pending: bool = False

    @property
    def stop(self) -> Stop | None:
        """The reason to stop for the present search, or None."""
        self.restart_pending = self.restart_pending or self._pays_off()
        return Stop.STEPS if self.restart_pending else None

    def _pays_off(self) -> bool:
        """Returns whether another search is worth its time: at the root only, and with many families left."""
        search = self.search
        if search is None or self.limits.elapsed <= self.due or search.best.score <= self.score:
            return False
        if search.root.potentials is not None:  # which are soon better than any ascent
            return False
        if self.report.incumbent is None:  # as of a part of the work: it would begin as this one did
            return False
        # After branching, or with few families left, the present search is nearly done.
        families = search.root.subproblem.families
        return search.root.proof.edge is None and int(families.allowed.sum()) > search.few

    def restart(self, begin: Callable[[], BranchAndBound], *, room: bool) -> BranchAndBound:
        """Begins a search, and returns the better of it and the present one."""
        began, self.due, self.restart_pending = self.limits.elapsed, inf, False
        try:
            fresh = begin()
            if self.search is not None and self.search.best.tree is not None:
                # Rounding in the present search may have found a better tree than all others.
                fresh.best.offer(self.search.best.tree)
            fresh.ascend()
            # Both bounds hold for the same problem: the lower one wins.
            if self.search is None or fresh.bound < self.search.bound:
                self.search = fresh
        except (StoppedError, LimitError):  # the present search continues
            if self.search is None:
                raise
            room = False
        self.score = self.search.best.score
        self.due = self.limits.elapsed + _WAIT * (self.limits.elapsed - began) if room else inf
        return self.search


def search_with_restarts(
    begin: Callable[[Report], BranchAndBound],
    limits: Limits,
    report: Report,
    *,
    room: bool,
) -> tuple[BranchAndBound, Stop]:
    """Returns the search, and why it stopped.

    Args:
        begin: returns a search that starts from the best tree reported.
        limits: of the whole.
        report: on the whole.
        room: whether there is memory for two searches; without it, the first continues.

    Raises:
        StoppedError, LimitError: the first search could not begin.
    """
    course = _Course(report, limits)
    part = DerivedReport(report, lambda news: report(**news), lambda: course.stop)
    while True:
        search = course.restart(partial(begin, part), room=room)
        stop = search.run()
        if report.stop is not None or stop is not Stop.STEPS:
            return search, stop
