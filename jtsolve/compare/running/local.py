"""Many runs on this machine, some at a time, each supervised by a thread."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from jtsolve.compare.running.supervise import PROGRAM, supervise
from jtsolve.compare.running.warmup import rehearsals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jtsolve.compare.folder import ComparisonPlan, Folder
    from jtsolve.compare.spec import Row, Spec

_POLL = 0.2
"""Interval of polling for signals, in seconds."""


def perform(
    specs: Sequence[Spec], jobs: int, finished: Callable[[Row], object], program: tuple[str, ...] = PROGRAM
) -> None:
    """Performs runs; if an error or Ctrl-C ends it, the runs in progress are killed, and leave no row.

    Args:
        specs: the runs.
        jobs: the number of runs at a time.
        finished: called with each row, from any thread.
        program: the command of a run; for tests.
    """
    cancelled = threading.Event()

    def one(spec: Spec) -> None:
        row = supervise(spec, cancelled, program)
        if row is not None:
            # Not in the main thread, where Ctrl-C could lose a finished row.
            finished(row)

    pool = ThreadPoolExecutor(jobs, thread_name_prefix="supervisor")
    try:
        futures = {pool.submit(one, spec) for spec in specs}
        while futures:
            # With a limit, since a signal just before the wait is handled only after it.
            done, futures = wait(futures, _POLL, FIRST_COMPLETED)
            for future in done:
                future.result()
    finally:
        cancelled.set()
        pool.shutdown(cancel_futures=True)


def perform_missing(
    folder: Folder, plan: ComparisonPlan, jobs: int, tell: Callable[[str], None], *, warm: bool
) -> None:
    """Performs the runs of a comparison that have no row yet.

    Args:
        folder: of the comparison.
        plan: its runs.
        jobs: the number of runs at a time.
        tell: called with a line for each finished run.
        warm: whether uncounted first runs compile kernels.
    """
    with folder.locked():
        rows = folder.rows()
        missing = [spec for spec in plan.specs if spec.id not in rows]
        if warm and missing:
            perform(rehearsals(missing, folder.path), jobs, lambda _: None)
        left = {spec.id for spec in missing}

        def keep(row: Row) -> None:
            folder.write_row(row)
            left.discard(row.spec.id)
            tell(f"{_line(row)}  ({len(left)} left)")

        perform(missing, jobs, keep)


def _line(row: Row) -> str:
    spec = row.spec
    treewidth = "" if spec.treewidth is None else f" treewidth {spec.treewidth}"
    text = f"{spec.instance.label}{treewidth}  {spec.backend}  seed {spec.seed}: {row.status.value}"
    if row.result is not None and row.result.score is not None:
        text += f", score {row.result.score:.4f}, gap {row.result.gap:.3g}"
    elif row.message:
        text += f", {row.message.splitlines()[-1][:160]}"
    return f"{text}, {row.seconds:.1f} s"
