"""Tasks on several threads, until they are done or the run has to stop."""

from __future__ import annotations

from concurrent.futures import as_completed
from typing import TYPE_CHECKING

from jtsolve.core.scores import StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor


def run_tasks(
    pool: ThreadPoolExecutor, tasks: Sequence[Callable[[], object]], after: Callable[[int], bool]
) -> None:
    """Runs tasks on all threads; asks `after`, given the position of a finished task, whether to continue.

    Raises:
        StoppedError: it answered no.
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
