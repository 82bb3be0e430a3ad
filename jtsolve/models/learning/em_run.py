"""Runs of EM, in one process or over partitions: when they end, and why."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from jtsolve.cluster import ClusterLostError, WorkersLostError
from jtsolve.core.result import Stop
from jtsolve.core.scores import StoppedError
from jtsolve.errors import LimitError

if TYPE_CHECKING:
    from jtsolve.core.run import Run


class EmRun(ABC):
    """A run of EM that keeps the mixture of its last M-step, so that it may end at any time.

    Attributes:
        run: its limits and progress.
    """

    run: Run

    def go(self) -> Stop:
        """Runs EM and returns why it ended."""
        try:
            self.fit()
        except (ClusterLostError, WorkersLostError):
            return Stop.LOST
        except (LimitError, StoppedError):
            if self.run.stop is None:
                raise
        return self.run.stop or Stop.FINISHED

    @abstractmethod
    def fit(self) -> None:
        """Alternates fitting and learning trees until no tree changes, or the run has to stop."""
