"""The state of a comparison, for a display: runs in progress, finished, failed; remaining time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from jtsolve.compare.running.supervise import Step, Watcher
from jtsolve.compare.spec import ANSWERED, DECLINED, Row, RunStatus, Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jtsolve.compare.folder import Journal


@dataclass(frozen=True, slots=True)
class RunInProgress:
    """A run in progress: its start (`time.monotonic()`), and the best score and bound reported so far."""

    spec: Spec
    since: float
    score: float | None = None
    bound: float | None = None


@dataclass(slots=True)
class Board(Watcher):
    """Writes every finished run to the journal, and keeps the state of all; any thread may use it.

    Args:
        journal: takes the rows.
        specs: the runs still to do.
        done: earlier rows.
        jobs: the number of runs at a time.
        say: is given a line for each finished run.
    """

    journal: Journal
    specs: Sequence[Spec]
    done: Sequence[Row]
    jobs: int
    say: Callable[[str], None]
    running: dict[str, RunInProgress] = field(default_factory=dict)
    statuses: Counter[RunStatus] = field(default_factory=Counter)
    best: dict[tuple[str, int | None], tuple[float, str]] = field(default_factory=dict)
    _seconds: dict[str, list[float]] = field(default_factory=dict)
    _pending: dict[str, Spec] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Counts the earlier rows."""
        self._pending = {spec.id: spec for spec in self.specs}
        for row in self.done:
            self._count(row)

    def started(self, spec: Spec) -> None:
        """See `Watcher`."""
        with self._lock:
            self.running[spec.id] = RunInProgress(spec, time.monotonic())

    def progressed(self, spec: Spec, step: Step) -> None:
        """See `Watcher`."""
        with self._lock:
            if spec.id in self.running:
                self.running[spec.id] = RunInProgress(spec, self.running[spec.id].since, step[1], step[2])

    def finished(self, row: Row) -> None:
        """See `Watcher`; the row is on the disk before it counts."""
        self.journal.append(row)
        with self._lock:
            self.running.pop(row.spec.id, None)
            self._pending.pop(row.spec.id, None)
            self._count(row)
            left = len(self._pending)
        self.say(f"{_line(row)}  ({left} left)")

    def _count(self, row: Row) -> None:
        self.statuses[row.status] += 1
        self._seconds.setdefault(row.spec.backend, []).append(row.seconds)
        score = None if row.result is None else row.result.score
        if score is not None and score > self.best.get(row.spec.problem, (float("-inf"), ""))[0]:
            self.best[row.spec.problem] = (score, row.spec.backend)

    def counts(self) -> dict[str, int]:
        """Returns the numbers of runs by state."""
        with self._lock:
            return {
                "running": len(self.running),
                "waiting": len(self._pending) - len(self.running),
                "finished": sum(self.statuses[status] for status in ANSWERED),
                "declined": sum(self.statuses[status] for status in DECLINED),
                "failed": sum(
                    count for status, count in self.statuses.items() if status not in ANSWERED | DECLINED
                ),
            }

    def under_way(self) -> list[RunInProgress]:
        """Returns the runs in progress, the longest first."""
        with self._lock:
            return sorted(self.running.values(), key=lambda one: one.since)

    def remaining(self) -> float | None:
        """Returns the expected seconds until the end; None while there is nothing to go by.

        Each run is expected to take the mean of its backend's runs so far, else its time limit, else the mean
        of all.
        """
        with self._lock:
            means = {name: fmean(seconds) for name, seconds in self._seconds.items()}
            overall = fmean(means.values()) if means else None
            total = 0.0
            now = time.monotonic()
            for spec in self._pending.values():
                expected = means.get(spec.backend, spec.time_limit or overall)
                if expected is None:
                    return None
                begun = self.running.get(spec.id)
                total += expected if begun is None else max(0.0, expected - (now - begun.since))
        return total / self.jobs


def _line(row: Row) -> str:
    spec = row.spec
    treewidth = "" if spec.treewidth is None else f" treewidth {spec.treewidth}"
    text = f"{spec.instance.label}{treewidth}  {spec.backend}  seed {spec.seed}: {row.status.value}"
    if row.result is not None and row.result.score is not None:
        text += f", score {row.result.score:.4f}, gap {row.result.gap:.3g}"
    elif row.message:
        text += f", {row.message.splitlines()[-1][:160]}"
    return f"{text}, {row.seconds:.1f} s"
