"""A selection in a separate thread, so that a time limit or Ctrl-C need not wait for a kernel.

One region, or one graph of a path, may occupy a kernel for minutes. Kernels cannot be interrupted, but
release the lock of the interpreter. After an interruption, the thread ends at its next step in Python.
"""

from __future__ import annotations

import ctypes
import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.core.run import Run

    Result = TypeVar("Result")

_BEAT = 0.1
"""Polling interval for the time limit, in seconds."""


def within_limits(work: Callable[[], Result], run: Run) -> Result:
    """Returns the result of the work, or raises its error.

    Raises:
        LimitError: the time limit is reached.
    """
    results: list[Result] = []
    errors: list[BaseException] = []
    ended = threading.Event()

    def in_thread() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - for the caller
            errors.append(error)
        ended.set()

    thread = threading.Thread(target=copy_context().run, args=(in_thread,), daemon=True)
    thread.start()
    try:
        while not ended.wait(max(0.0, min(_BEAT, run.left))):
            run.require_time("the selection", "or a stricter screen")
    finally:
        if not ended.is_set():
            # As Ctrl-C in the main thread. A flag would need polling in every loop of every method, a process
            # a copy of the table and a second start.
            end = ctypes.py_object(SystemExit)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), end)
    if errors:
        raise errors[0]
    return results[0]
