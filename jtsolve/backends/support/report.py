"""A part of the time for a part of the work: a report that wants it to end at a time of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jtsolve.core.result import Stop

if TYPE_CHECKING:
    from jtsolve.core.backend import Limits, Report
    from jtsolve.core.tree import JunctionTree


@dataclass(frozen=True, slots=True)
class Portion:
    """Hands everything on, and says when the part of the time is over.

    Args:
        report: what is handed on to.
        limits: of the whole work; their clock counts.
        until: when the part ends, in seconds since the start of the whole.
        bounds: whether bounds are handed on; they are not where the part is about some of the trees only.
    """

    report: Report
    limits: Limits
    until: float
    bounds: bool = True

    @property
    def stop(self) -> Stop | None:
        """Why the work has to end now, or None."""
        return self.report.stop or (Stop.TIME if self.limits.elapsed >= self.until else None)

    @property
    def incumbent(self) -> JunctionTree | None:
        """See `backend.Report`."""
        return self.report.incumbent

    def __call__(
        self,
        *,
        tree: JunctionTree | None = None,
        bound: float | None = None,
        done: float | None = None,
        note: str | None = None,
    ) -> bool:
        """See `backend.Report`."""
        self.report(tree=tree, bound=bound if self.bounds else None, done=done, note=note)
        return self.stop is None
