"""Work on threads, until it is done or the run has to stop."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.scores import StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jtsolve.core.run import Run

_POLL = 0.02
"""Polling interval of the clock while a kernel runs, in seconds."""


class Pool(ThreadPoolExecutor):
    """Threads that work in the context of the caller, with its limit on memory."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queues a call."""
        return super().submit(copy_context().run, fn, *args, **kwargs)


def run_kernel(run: Run, kernel: Callable[..., Any], *arguments: Any) -> Any:
    """Runs a long kernel in another thread, so that this one stays free for Ctrl-C.

    Args:
        run: ends the kernel.
        kernel: its last parameter is an array of one uint8, which it reads regularly; at 1, it returns at
            once, with any value.
        arguments: of the kernel.

    Raises:
        StoppedError: the run had to stop.
    """
    halt = np.zeros(1, np.uint8)
    with Pool(1, thread_name_prefix="kernel") as pool:
        work = pool.submit(kernel, *arguments, halt)
        while not work.done():
            wait([work], _POLL)
            halt[0] = run.stop is not None
    if halt[0]:
        raise StoppedError
    return work.result()


def run_tasks(pool: Pool, tasks: Sequence[Callable[[], object]], after: Callable[[int], bool]) -> None:
    """Runs tasks on all threads of a pool; if one fails or `after` returns False, the rest is cancelled.

    Args:
        pool: the threads.
        tasks: independent of each other.
        after: called with the position of each finished task; returns whether to continue.

    Raises:
        StoppedError: `after` returned False.
    """
    futures = {pool.submit(task): i for i, task in enumerate(tasks)}
    try:
        for future in as_completed(futures):
            future.result()
            if not after(futures[future]):
                raise StoppedError
    finally:
        for other in futures:
            other.cancel()
