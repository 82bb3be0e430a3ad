"""Solvers in processes of their own, which can be killed at any time: they look at no clock of ours.

A process is started for each kind of solver when it is first needed, and kept for the next problem, since
starting one takes longer than many solves. Kinds are kept apart because solver libraries do not mix: OR-tools
and highspy, for one, cannot be loaded into the same process. What goes in and out is pickled; the process's
own output goes nowhere.

While a process works, the report is asked ten times a second whether to go on. If not, the process and all
that it started are killed, and what it has said so far counts.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection, Pipe
from threading import Lock, Thread
from time import sleep
from traceback import format_exc
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import psutil

from jtsolve.core.machine import resident_memory
from jtsolve.core.result import Stop
from jtsolve.errors import InternalError

if TYPE_CHECKING:
    from jtsolve.core.backend import Limits, Report

Say: TypeAlias = Callable[[Any], None]
"""Sends a message from the process; any thread may call it."""

_POLL = 0.1
"""Seconds between two questions whether to go on."""
_SECONDS_TO_PARENT = 1.0
"""Seconds between two looks at whether the parent is there: it may be killed, and tells nothing then."""
BASE_MEMORY = 150_000_000
"""Bytes of a process with a solver library loaded, before it has a problem."""


class _Process:
    """A running process, and the pipe to it."""

    def __init__(self) -> None:
        self.pipe, theirs = Pipe()
        # The same modules as here, whatever the way they were found; and no main module is run again.
        program = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            "from jtsolve.backends.support.worker import serve; serve()"
        )
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - this interpreter, our own program
                [sys.executable, "-c", program],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C at the terminal is for us, and we tell it
            )

    def memory(self) -> int:
        """Returns the bytes that the process and those started by it hold."""
        total = 0
        with suppress(psutil.NoSuchProcess):
            own = psutil.Process(self.process.pid)
            for one in (own, *own.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    total += one.memory_info().rss
        return total

    def close(self) -> None:
        """Kills the process and what it started, and waits for its end."""
        self.pipe.close()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


_idle: dict[str, list[_Process]] = {}


@atexit.register
def close_all() -> None:
    """Ends all processes that wait for work."""
    while _idle:
        _, waiting = _idle.popitem()
        for process in waiting:
            process.close()


class Task(NamedTuple):
    """What a process is to do.

    Attributes:
        kind: of the process, such as the name of the solver library.
        function: "module:function"; it is called with `say`, which sends a message, and the arguments.
        arguments: what can be pickled.
    """

    kind: str
    function: str
    arguments: tuple[Any, ...]


def run(task: Task, heard: Callable[[Any], None], report: Report, limits: Limits) -> tuple[Any, Stop | None]:
    """Calls a function in a process of its own.

    Args:
        task: what to do.
        heard: is given every message.
        report: is asked whether to go on.
        limits: this process and the other may hold so much memory together.

    Returns:
        What the function returned, and None; or None, and why it was stopped.

    Raises:
        InternalError: the function failed, or the process died.
    """
    waiting = _idle.setdefault(task.kind, [])
    process = _alive(waiting) or _Process()
    try:
        process.pipe.send((task.function, task.arguments))
        while True:
            if process.pipe.poll(_POLL):
                what, content = process.pipe.recv()
                if what == "done":
                    waiting.append(process)
                    return content, None
                if what == "failed":
                    raise InternalError(f"the solver '{task.kind}' failed:\n{content}")  # noqa: TRY301 - closes below
                heard(content)
            stop = report.stop
            if stop is None and process.memory() + resident_memory() > limits.memory_bytes:
                stop = Stop.MEMORY
            if stop is not None:
                process.close()
                return None, stop
    except (EOFError, ConnectionError):
        process.close()
        raise InternalError(
            f"the process of the solver '{task.kind}' died (exit code {process.process.returncode}); if it "
            "was killed for want of memory, give a --memory-limit below what the machine has"
        ) from None
    except BaseException:
        process.close()
        raise


def _alive(waiting: list[_Process]) -> _Process | None:
    """Takes a process off the list; those that somebody has killed meanwhile are dropped."""
    while waiting:
        process = waiting.pop()
        if process.process.poll() is None:
            return process
        process.close()
    return None


def _end_with(parent: int) -> None:
    """Ends this process and what it started when its parent is gone: nobody would wait for an answer."""
    while os.getppid() == parent:
        sleep(_SECONDS_TO_PARENT)
    os.killpg(0, signal.SIGKILL)


def serve() -> None:
    """Works on what comes through standard input until that is closed."""
    Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    pipe = Connection(os.dup(0))
    lock = Lock()

    def send(what: str, content: Any) -> None:
        with lock:
            pipe.send((what, content))

    def say(content: Any) -> None:
        send("news", content)

    while True:
        try:
            named, arguments = pipe.recv()
        except EOFError:
            return
        module, _, function = named.partition(":")
        try:
            value = getattr(import_module(module), function)(say, *arguments)
        except Exception:  # noqa: BLE001 - whatever it is: told on the other side
            send("failed", format_exc())
        else:
            send("done", value)
