"""Fits of kinds of models to tables, for tests: the task and the run in one call."""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.problem import Constraints
from jtsolve.core.run import Console, Limits, Run
from jtsolve.models.columns import codes_of, columns_of
from jtsolve.models.learning.task import FitTask
from jtsolve.scoring.scores.bic import Bic
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.core.backend import Backend
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.learning.task import ModelKind
    from jtsolve.scoring.score import LocalScore
    from jtsolve.tables.table import Codes


class WatchedRun(Run):
    """A run whose notes are recorded, and may end it."""

    __slots__ = ("act", "notes")

    def __init__(self, limits: Limits, act: Callable[[Run, str], None] | None = None) -> None:
        super().__init__(limits, Console())
        self.notes: list[str] = []
        self.act = act

    def part(
        self,
        seconds: float = inf,
        *,
        threads: int | None = None,
        seed: int | None = None,
        silent: bool = False,
    ) -> Run:
        """See `Run`; the notes of a part that is not silent are recorded too."""
        part = super().part(seconds, threads=threads, seed=seed, silent=silent)
        if silent:
            return part
        watched = WatchedRun(part.limits, self.act)
        watched.notes, watched._interruption, watched._screen = self.notes, part._interruption, part._screen
        return watched

    def progress(
        self,
        *,
        note: str | None = None,
        done: float | None = None,
        score: float | None = None,
        bound: float | None = None,
    ) -> bool:
        """See `Run`."""
        if note is not None:
            self.notes.append(note)
            if self.act is not None:
                self.act(self, note)
        return super().progress(note=note, done=done, score=score, bound=bound)


def run_for(
    seconds: float | None = None, seed: int = 0, act: Callable[[Run, str], None] | None = None
) -> WatchedRun:
    """Returns a run of one thread that ends after some seconds; below 0: it has ended."""
    if seconds is not None and seconds <= 0:
        return WatchedRun(Limits(1e-9, None, 1, seed, monotonic() - 1), act)
    return WatchedRun(Limits(seconds, None, 1, seed), act)


def interrupt(run: Run, _note: str) -> None:
    """Interrupts a run at its first report."""
    run.interrupt()


def fitted(
    kind: ModelKind,
    table: DataTable,
    validation: DataTable | Codes | None = None,
    treewidth: int | None = None,
    *,
    ess: float | None = 1.0,
    score: LocalScore | None = None,
    backend: str | None = None,
    constraints: Constraints = Constraints(),  # noqa: B008 - a frozen value
    tree: JunctionTree | None = None,
    seconds: float | None = None,
    seed: int = 0,
    run: Run | None = None,
) -> Any:
    """Returns a model of a table."""
    codes = codes_of(columns_of(table), validation) if isinstance(validation, DataTable) else validation
    of: Backend | None = None if backend is None else REGISTRY[backend]
    task = FitTask(table, score or Bic(), treewidth, of, constraints, ess, codes, tree)
    return kind.fit(task, run or run_for(seconds, seed))
