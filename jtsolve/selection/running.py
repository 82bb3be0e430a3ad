"""A selection in a separate thread: a time limit or Ctrl-C does not wait for its end.

One region, or one graph of a path, may take minutes in a kernel, which cannot be interrupted but leaves other
threads free. The thread is left behind then, and ends as soon as it is back in Python.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.core.run import Run

    Result = TypeVar("Result")

_BEAT = 0.1
"""Polling interval for the end of the time, in seconds."""


def within_limits(work: Callable[[], Result], run: Run) -> Result:
    """Returns the result of the work, or raises its error.

    Raises:
        LimitError: the time is over.
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

    thread = threading.Thread(target=in_thread, daemon=True)
    thread.start()
    try:
        while not ended.wait(max(0.0, min(_BEAT, run.left))):
            run.require_time("the selection", "or a stricter screen")
    finally:
        if not ended.is_set():
            # As Ctrl-C does in the main thread. A flag would have to be polled in every loop of every
            # method; a process could be killed, but would need a copy of the table and load everything again.
            end = ctypes.py_object(SystemExit)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), end)
    if errors:
        raise errors[0]
    return results[0]
