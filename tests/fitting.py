"""Fits of kinds of models to tables, for tests: the task and the run in one call."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from runs import ReportingRun

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.problem import Constraints
from jtsolve.core.run import Limits
from jtsolve.models.columns import codes_of, columns_of
from jtsolve.models.learning.fit import count
from jtsolve.models.learning.task import FitTask
from jtsolve.models.learning.validation import HeldOut
from jtsolve.scoring.scores.bic import Bic
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from jtsolve.core.backend import Backend
    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.learning.task import ModelKind
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.tables.table import Codes


class WatchedRun(ReportingRun):
    """A run that records its notes, which may end it."""

    def __init__(self, limits: Limits, act: Callable[[Run, str], None] | None = None) -> None:
        super().__init__(self._note, limits)
        self.notes: list[str] = []
        self.act = act

    def _note(self, *, note: str | None, **_: Any) -> None:
        if note is not None:
            self.notes.append(note)
            if self.act is not None:
                self.act(self, note)


def run_for(
    seconds: float | None = None, seed: int = 0, act: Callable[[Run, str], None] | None = None
) -> WatchedRun:
    """Returns a run of one thread that ends after some seconds; a negative number is a run that has ended."""
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
    score: ScoreFunction | None = None,
    backend: str | None = None,
    constraints: Constraints = Constraints(),  # noqa: B008 - a frozen value
    tree: JunctionTree | None = None,
    seconds: float | None = None,
    seed: int = 0,
    run: Run | None = None,
) -> Any:
    """Returns a model of a table."""
    codes = codes_of(columns_of(table), validation) if isinstance(validation, DataTable) else validation
    held = None if codes is None else HeldOut(codes)
    of: Backend | None = None if backend is None else REGISTRY[backend]
    task = FitTask(table, score or Bic(), treewidth, of, constraints, ess, held, tree)
    return kind.fit(task, run or run_for(seconds, seed))


def fit(
    tree: JunctionTree,
    table: DataTable,
    *,
    ess: float = 1.0,
    weights: ArrayLike | None = None,
    run: Run | None = None,
) -> JunctionTreeModel:
    """Returns the model of a tree with a prior of this equivalent sample size."""
    return count(tree, table, weights, run).model(ess)
