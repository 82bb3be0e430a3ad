"""Runs of EM: when they end, and why."""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import monotonic

from jtsolve.core.result import Stop
from jtsolve.errors import LimitError


class EmRun(ABC):
    """A run of EM that keeps the mixture of its last M-step, so that it may end at any time.

    Attributes:
        deadline: of `time.monotonic()`, at which to end; None for none.
    """

    deadline: float | None

    @property
    def is_late(self) -> bool:
        """Tells whether the deadline has passed."""
        return self.deadline is not None and monotonic() >= self.deadline

    def go(self) -> Stop:
        """Runs EM and returns why it ended."""
        try:
            self.fit()
        except KeyboardInterrupt:
            return Stop.INTERRUPTED
        except LimitError:
            if not self.is_late:
                raise
        return Stop.TIME if self.is_late else Stop.FINISHED

    @abstractmethod
    def fit(self) -> None:
        """Alternates fitting and learning trees until no tree changes, or the deadline."""
