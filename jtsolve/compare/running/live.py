"""The state of a comparison: finished rows, and the expected time of the others."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from jtsolve.compare.running.warmup import warm_up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jtsolve.compare.folder import ComparisonPlan, Folder, Journal
    from jtsolve.compare.running.local import Executor
    from jtsolve.compare.spec import Row, Spec


@dataclass(slots=True)
class Board:
    """Writes every finished run to the journal, and reports the number left; thread-safe.

    Args:
        journal: receives the rows.
        specs: the missing runs.
        done: earlier rows.
        jobs: the number of runs at a time.
        report: called with a line for each finished run.
    """

    journal: Journal
    specs: Sequence[Spec]
    done: Sequence[Row]
    jobs: int
    report: Callable[[str], None]
    _seconds: dict[str, list[float]] = field(default_factory=dict)
    _pending: dict[str, Spec] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Counts the earlier rows."""
        self._pending = {spec.id: spec for spec in self.specs}
        for row in self.done:
            self._count(row)

    def finished(self, row: Row) -> None:
        """Records the row of a run; it is on disk before it counts."""
        self.journal.append(row)
        with self._lock:
            self._pending.pop(row.spec.id, None)
            self._count(row)
            left = f"{len(self._pending)} left"
        seconds = self.remaining()
        self.report(f"{_line(row)}  ({left}{f', about {duration(seconds)}' if seconds else ''})")

    def _count(self, row: Row) -> None:
        self._seconds.setdefault(row.spec.backend, []).append(row.seconds)

    def remaining(self) -> float | None:
        """Returns the expected seconds until the end; None while there is no basis for an estimate.

        The expectation for a run is the mean over its backend's runs so far, else its time limit, else the
        mean over all backends.
        """
        with self._lock:
            means = {name: fmean(seconds) for name, seconds in self._seconds.items()}
            overall = fmean(means.values()) if means else None
            total = 0.0
            for spec in self._pending.values():
                expected = means.get(spec.backend, spec.time_limit or overall)
                if expected is None:
                    return None
                total += expected
        return total / self.jobs


def execute(
    folder: Folder,
    plan: ComparisonPlan,
    executor: Executor,
    jobs: int,
    report: Callable[[str], None],
    *,
    warm: bool,
) -> None:
    """Does the missing runs of a comparison, and journals every row.

    Args:
        folder: of the comparison.
        plan: its runs.
        executor: where they run.
        jobs: the number of runs at a time.
        report: called with a line for each finished run.
        warm: whether uncounted first runs compile kernels.
    """
    with folder.journal() as journal:
        rows = folder.rows()  # the journal is locked: no other process adds rows
        missing = [spec for spec in plan.specs if spec.id not in rows]
        board = Board(journal, missing, list(rows.values()), jobs, report)
        if warm and missing:
            warm_up(missing, executor, folder.path)
        executor.execute(missing, board.finished)


def duration(seconds: float) -> str:
    """Returns a time in words.

    >>> duration(59), duration(75), duration(3700)
    ('59 s', '1 min 15 s', '1 h 1 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _line(row: Row) -> str:
    spec = row.spec
    treewidth = "" if spec.treewidth is None else f" treewidth {spec.treewidth}"
    text = f"{spec.instance.label}{treewidth}  {spec.backend}  seed {spec.seed}: {row.status.value}"
    if row.result is not None and row.result.score is not None:
        text += f", score {row.result.score:.4f}, gap {row.result.gap:.3g}"
    elif row.message:
        text += f", {row.message.splitlines()[-1][:160]}"
    return f"{text}, {row.seconds:.1f} s"
