"""Reports on a part of the work, derived from the report on the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from jtsolve.core.result import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.core.backend import News, Report
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree


@dataclass(frozen=True, slots=True)
class DerivedReport:
    """A report on a part of the work.

    Args:
        report: on the whole.
        forward: receives the news of the part.
        ends: returns a reason to stop that holds for the part only, or None.
        same_problem: whether the incumbent of the whole is a tree of the part's problem.
    """

    report: Report
    forward: Callable[[News], object]
    ends: Callable[[], Stop | None] = lambda: None
    same_problem: bool = True

    @property
    def stop(self) -> Stop | None:
        """See `backend.Report`."""
        return self.report.stop or self.ends()

    @property
    def incumbent(self) -> JunctionTree | None:
        """See `backend.Report`."""
        return self.report.incumbent if self.same_problem else None

    def __call__(self, **news: Unpack[News]) -> bool:
        """See `backend.Report`."""
        self.forward(news)
        return self.stop is None


class NewIncumbents:
    """Returns each incumbent of a report once; in a portfolio another member may have found it."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.last: JunctionTree | None = None

    def new(self) -> JunctionTree | None:
        """Returns the incumbent, or None if it is the one of the last call."""
        last, self.last = self.last, self.report.incumbent
        return None if self.last is last else self.last


def ending_at(report: Report, limits: Limits, end: float, *, bounds: bool = True) -> DerivedReport:
    """Returns a report that has an earlier end, in seconds since the start of the whole.

    Args:
        report: on the whole.
        limits: of the whole; their clock counts.
        end: of the part.
        bounds: whether bounds are passed on; not where they hold for some of the trees only.
    """

    def forward(news: News) -> None:
        report(**(news if bounds else {**news, "bound": None}))

    return DerivedReport(report, forward, lambda: Stop.TIME if limits.elapsed >= end else None)
