"""A guard against processes without the threads of polars: a fork does not copy them."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from time import monotonic, sleep

from jtsolve.errors import ChoiceError

_THREADS = Path("/proc/self/task")
"""Threads of this process on Linux, where multiprocessing forks by default up to Python 3.13."""
_WORKER = re.compile(r"polars-\d+\s")

_NAMED_SECONDS = 1.0
"""Time within which a new thread has set its name."""


def require_threads() -> None:
    """Refuses work in a forked process whose parent had started the threads of polars: it would hang.

    Raises:
        ChoiceError: explains how to start processes.
    """
    if not _has_threads(os.getpid()):
        raise ChoiceError(
            "this process was forked after its parent had started the threads of polars, which a fork does "
            "not copy: reading tables would never end. Start processes by "
            'multiprocessing.get_context("spawn") or "forkserver", or by joblib\'s default, loky'
        )


@lru_cache(maxsize=1)
def _has_threads(_process: int) -> bool:
    import polars as pl

    pl.thread_pool_size()  # starts the threads, unless the parent has started them
    end = monotonic() + _NAMED_SECONDS
    while _THREADS.is_dir() and not any(map(_is_worker, _THREADS.iterdir())):
        if monotonic() > end:
            return False
        sleep(_NAMED_SECONDS / 1000)
    return True


def _is_worker(thread: Path) -> bool:
    try:
        return _WORKER.match((thread / "comm").read_text("utf-8")) is not None
    except (FileNotFoundError, ProcessLookupError):
        return False  # the thread has ended
