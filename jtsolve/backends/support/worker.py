"""Solver libraries in worker processes, which can be killed: many solvers cannot be interrupted.

Starting a process takes longer than many solves, so there is one for each kind of solver, kept for the next
problem. Each kind has its own process because libraries conflict: OR-Tools and highspy cannot be loaded into
the same one. Messages are pickled; the output of the process is discarded.

While a worker is busy, the report is polled ten times a second. If it stops the run, the worker is killed
with its descendants, and the messages sent so far count.
"""

from __future__ import annotations

import atexit
import subprocess
from functools import partial
from threading import Lock
from time import monotonic
from traceback import format_exc
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from jtsolve.core.machine import resident_memory
from jtsolve.core.processes import function_named, start_python
from jtsolve.core.result import Stop
from jtsolve.errors import InternalError
from jtsolve.options import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from jtsolve.core.backend import Report
    from jtsolve.core.run import Limits

_POLL = 0.1
"""Polling interval, in seconds."""
BASE_MEMORY = 150_000_000
"""Bytes of a process with a solver library loaded, before it has a problem."""


class _Worker:
    """A running worker, and the pipe to it."""

    def __init__(self) -> None:
        self.tree, self.pipe = start_python(f"{__name__}:answer_calls", stderr=subprocess.DEVNULL)

    def close(self) -> None:
        """Kills the worker and its descendants."""
        self.pipe.close()
        self.tree.kill()


_idle: dict[str, list[_Worker]] = {}


@atexit.register
def close_all() -> None:
    """Kills all idle workers."""
    while _idle:
        _, waiting = _idle.popitem()
        for worker in waiting:
            worker.close()


class Call(NamedTuple):
    """A function call for a worker.

    Attributes:
        kind: of worker, such as the name of the solver library.
        function: "module:function"; it is called with a function that sends a message, and the arguments.
        arguments: further ones, which can be pickled.
    """

    kind: str
    function: str
    arguments: tuple[Any, ...]


def in_worker(
    call: Call, receive: Callable[[Any], None], report: Report, limits: Limits
) -> tuple[Any, Stop | None]:
    """Calls a function in a worker.

    Args:
        call: the function and its arguments.
        receive: called with every message.
        report: ends the call.
        limits: of memory, for this process and the worker together.

    Returns:
        The function's value, and None; or None, and why it was stopped.

    Raises:
        InternalError: the function failed, or the worker died.
    """
    waiting = _idle.setdefault(call.kind, [])
    worker = _alive(waiting) or _Worker()
    try:
        worker.pipe.send((call.function, call.arguments))
        next_reading = monotonic() + _POLL
        while True:
            if worker.pipe.poll(_POLL):
                kind, content = worker.pipe.recv()
                if kind == "done":
                    waiting.append(worker)
                    return content, None
                if kind == "failed":
                    raise InternalError(f"the solver '{call.kind}' failed:\n{content}")  # noqa: TRY301 - closes below
                receive(content)
            stop = report.stop
            if stop is None and monotonic() >= next_reading:  # reading it takes longer than many solves
                next_reading = monotonic() + _POLL
                if worker.tree.memory() + resident_memory() > limits.memory_bytes:
                    stop = Stop.MEMORY
            if stop is not None:
                worker.close()
                return None, stop
    except (EOFError, ConnectionError):
        worker.close()
        raise InternalError(
            f"the process of the solver '{call.kind}' died (exit code {worker.tree.process.returncode}); if "
            f"memory ran out, give {MEMORY}, below that of the machine"
        ) from None
    except BaseException:
        worker.close()
        raise


def _alive(waiting: list[_Worker]) -> _Worker | None:
    """Removes a worker from the list; drops those killed meanwhile."""
    while waiting:
        worker = waiting.pop()
        if worker.tree.process.poll() is None:
            return worker
        worker.close()
    return None


def answer_calls(pipe: Connection) -> NoReturn:
    """Makes the calls that come through the pipe; the main function of a worker.

    Raises:
        EOFError: the pipe is closed.
    """
    lock = Lock()

    def send(kind: str, content: Any) -> None:
        with lock:
            pipe.send((kind, content))

    while True:
        function, arguments = pipe.recv()
        try:
            value = function_named(function)(partial(send, "news"), *arguments)
        except Exception:  # noqa: BLE001 - the other side raises it
            send("failed", format_exc())
        else:
            send("done", value)
