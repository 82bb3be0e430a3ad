"""Whether this process has the threads of polars, which a fork does not copy."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from time import monotonic, sleep

from jtsolve.errors import ChoiceError

_THREADS = Path("/proc/self/task")
"""Threads of this process, on Linux, where processes are forked by default up to Python 3.13."""
_WORKER = re.compile(r"polars-\d+\s")

_NAMED_SECONDS = 1.0
"""In which a thread that is started has given itself its name."""


def require_threads() -> None:
    """Refuses work in a forked process whose parent had started the threads of polars: it would never end.

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

    pl.thread_pool_size()  # starts them, unless the parent has
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
        return False  # it has ended
