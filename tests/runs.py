"""Runs that record their reports."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from jtsolve.core.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.core.result import Stop
    from jtsolve.core.run import Console, Limits


class ReportingRun(Run):
    """Calls a function with all progress, also of parts unless they are silent, before it is reported."""

    def __init__(
        self, called: Callable[..., object], limits: Limits | None = None, console: Console | None = None
    ) -> None:
        super().__init__(limits, console)
        self._called = called

    def part(self, seconds: float = inf, *, silent: bool = False) -> Run:
        """See `Run`."""
        part = super().part(seconds, silent=silent)
        if silent:
            return part
        reporting = ReportingRun(self._called, part.limits)
        reporting._interruption, reporting._screen = part._interruption, part._screen
        return reporting

    def progress(
        self,
        *,
        note: str | None = None,
        done: float | None = None,
        score: float | None = None,
        bound: float | None = None,
        gain: float | None = None,
    ) -> bool:
        """See `Run`."""
        self._called(note=note, done=done, score=score, bound=bound, gain=gain)
        return super().progress(note=note, done=done, score=score, bound=bound, gain=gain)


def noting(notes: list[Any]) -> ReportingRun:
    """Returns a run that appends all notes to a list."""
    return ReportingRun(lambda *, note, **_: None if note is None else notes.append(note))


class ImpatientRun(Run):
    """Stops after `patience` reads of its property `stop`; its parts do not.

    Attributes:
        asked: number of reads so far.
    """

    def __init__(self, patience: int, reason: Stop, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.patience, self.reason, self.asked = patience, reason, 0

    @property
    def stop(self) -> Stop | None:
        """See `Run`."""
        self.asked += 1
        return self.reason if self.asked > self.patience else None
