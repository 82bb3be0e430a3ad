"""Many runs on this machine, some at a time, each supervised by a thread."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jtsolve.compare.running.supervise import PROGRAM, supervise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jtsolve.compare.spec import Row, Spec

_POLL = 0.2
"""Interval of polling for signals, in seconds."""


class Executor(Protocol):
    """A place to run specifications."""

    def execute(self, specs: Sequence[Spec], finished: Callable[[Row], object]) -> None:
        """Performs all runs, and calls `finished` with each row, from any thread.

        If it raises, or at Ctrl-C, the runs in progress are killed; they leave no row.
        """
        ...


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """Runs on this machine, at most `jobs` at a time."""

    jobs: int
    program: tuple[str, ...] = PROGRAM

    def execute(self, specs: Sequence[Spec], finished: Callable[[Row], object]) -> None:
        """See `Executor`."""
        cancelled = threading.Event()

        def one(spec: Spec) -> None:
            row = supervise(spec, cancelled, self.program)
            if row is not None:
                # Not in the main thread, where Ctrl-C could lose a finished row.
                finished(row)

        pool = ThreadPoolExecutor(self.jobs, thread_name_prefix="supervisor")
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
