"""Many runs on this machine, some at a time, each supervised by a thread."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jtsolve.compare.running.supervise import PROGRAM, Watcher, supervise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.compare.spec import Spec

_POLL = 0.2
"""Interval of polling for signals, in seconds."""


class Executor(Protocol):
    """A place to run specifications."""

    def execute(self, specs: Sequence[Spec], watcher: Watcher) -> None:
        """Does all runs, and passes each row to the watcher as it arrives.

        An exception of the watcher, or Ctrl-C, kills the runs in progress; they leave no row.
        """
        ...


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """Runs on this machine, at most `jobs` at a time."""

    jobs: int
    program: tuple[str, ...] = PROGRAM

    def execute(self, specs: Sequence[Spec], watcher: Watcher) -> None:
        """See `Executor`."""
        cancelled = threading.Event()

        def one(spec: Spec) -> None:
            row = supervise(spec, cancelled, self.program)
            if row is not None:
                # Called here: a Ctrl-C interrupts the main thread, and could lose a finished row there.
                watcher.finished(row)

        pool = ThreadPoolExecutor(self.jobs, thread_name_prefix="supervisor")
        try:
            futures = {pool.submit(one, spec) for spec in specs}
            while futures:
                # A signal just before an endless wait would be handled at its end only.
                done, futures = wait(futures, _POLL, FIRST_COMPLETED)
                for future in done:
                    future.result()
        finally:
            cancelled.set()
            pool.shutdown(cancel_futures=True)
