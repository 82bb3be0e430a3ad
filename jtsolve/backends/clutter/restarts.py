"""Restarts of a search from better trees.

The first tree matters: it determines the root and guides the dual ascent (`ascent`). The volume algorithm
makes up for a poor tree only slowly: on accidents (111 variables, treewidth 2), the ascent from the optimum
takes 4 s and reaches the bound that the volume algorithm reaches a minute after the ascent from an early
tree. So when a better tree is found while the root node is being bounded, a new search starts from it, and
the search with the better bound continues.
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
class _Restarts:
    """The present search, and when another starts.

    Attributes:
        score: of the first tree of the present search.
        due: seconds from which on another search may start.
        restart_pending: whether another search is to start; stays set until then.
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
        """Returns whether another search is worth its time."""
        search = self.search
        if search is None or self.limits.elapsed <= self.due or search.best.score <= self.score:
            return False
        if search.root.potentials is not None:  # soon better than any ascent
            return False
        if self.report.incumbent is None:  # a restart would repeat the present search
            return False
        # After branching, or with few families left, the present search is nearly done.
        families = search.root.subproblem.families
        return search.root.proof.edge is None and int(families.allowed.sum()) > search.few

    def restart(self, begin: Callable[[], BranchAndBound], *, repeatable: bool) -> BranchAndBound:
        """Starts a search, and returns the better of it and the present one."""
        began, self.due, self.restart_pending = self.limits.elapsed, inf, False
        try:
            fresh = begin()
            if self.search is not None and self.search.best.tree is not None:
                # Rounding in the present search may have found the best tree.
                fresh.best.offer(self.search.best.tree)
            fresh.ascend()
            # Both bounds hold for the same problem: the lower one wins.
            if self.search is None or fresh.bound < self.search.bound:
                self.search = fresh
        except (StoppedError, LimitError):  # the present search continues
            if self.search is None:
                raise
            repeatable = False
        self.score = self.search.best.score
        self.due = self.limits.elapsed + _WAIT * (self.limits.elapsed - began) if repeatable else inf
        return self.search


def search_with_restarts(
    begin: Callable[[Report], BranchAndBound],
    limits: Limits,
    report: Report,
    *,
    repeatable: bool,
) -> tuple[BranchAndBound, Stop]:
    """Runs a search, with restarts; returns the last search, and why it stopped.

    Args:
        begin: returns a search that starts from the best tree reported.
        limits: of the run.
        report: of the run.
        repeatable: whether to restart, which needs memory for two searches.

    Raises:
        StoppedError, LimitError: the first search could not start.
    """
    restarts = _Restarts(report, limits)
    part = DerivedReport(report, lambda news: report(**news), lambda: restarts.stop)
    while True:
        search = restarts.restart(partial(begin, part), repeatable=repeatable)
        stop = search.run()
        if report.stop is not None or stop is not Stop.STEPS:
            return search, stop
