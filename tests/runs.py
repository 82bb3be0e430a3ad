"""Runs that hand their reports to a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jtsolve.core.run import Limits, Run

if TYPE_CHECKING:
    from collections.abc import Callable


class ReportedRun(Run):
    """A run that calls a function with every report.

    Args:
        act: takes the arguments of `Run.progress` that are given.
        limits: see `Run`.
    """

    __slots__ = ("_act",)

    def __init__(self, act: Callable[..., object], limits: Limits | None = None) -> None:
        super().__init__(limits)
        self._act = act

    def progress(self, **news: Any) -> bool:
        """See `Run`."""
        self._act(**news)
        return super().progress(**news)
