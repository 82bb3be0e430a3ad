"""A selection in a thread of its own, whose end a time limit or Ctrl-C does not have to wait for.

One region, or one graph of a path, may take minutes in a kernel, which cannot be interrupted but leaves other
threads free. The thread is left behind then, and ends as soon as it is back in Python.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, TypeVar

from jtsolve.errors import LimitError
from jtsolve.progress import tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.core.backend import Limits
    from jtsolve.selection.framework import Progress
    from jtsolve.solving import Listener

    Result = TypeVar("Result")

_BEAT = 0.1
"""Seconds between two looks at the progress."""


def within_limits(
    work: Callable[[Progress], Result], limits: Limits, listener: Listener | None = None
) -> Result:
    """Returns what the work returns, or raises what it raises.

    Args:
        work: takes what it tells of its progress to.
        limits: the time is kept.
        listener: is told of the progress, from the thread of the caller.

    Raises:
        LimitError: the time is over.
    """
    results: list[Result] = []
    errors: list[BaseException] = []
    state = ("selecting", 0.0)
    ended = threading.Event()

    def note(text: str, done: float, /) -> None:
        nonlocal state
        state = text, done

    def run() -> None:
        try:
            results.append(work(note))
        except BaseException as error:  # noqa: BLE001 - for the caller
            errors.append(error)
        ended.set()

    def beat() -> float:
        left = _BEAT if limits.time is None else limits.time - limits.elapsed
        return max(0.0, min(_BEAT, left))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while not ended.wait(beat()):
            tell(listener, *state)
            if limits.time is not None and limits.elapsed >= limits.time:
                raise LimitError(
                    f"the time limit ended the selection with {state[1]:.0%} of the edges decided; nothing "
                    "is written. Ways out: more time, or a stricter screen"
                )
    finally:
        if not ended.is_set():
            # As Ctrl-C does in the main thread. A flag would have to be asked for in every loop of every
            # method; a process could be killed, but would need a copy of the table and load everything again.
            end = ctypes.py_object(SystemExit)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), end)
    if errors:
        raise errors[0]
    return results[0]
