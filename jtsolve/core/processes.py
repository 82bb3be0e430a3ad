"""Child processes, measured and killed together with all their descendants.

A child leads a session, so that Ctrl-C at the terminal reaches this process only. Its standard input is its
lifeline: a pipe to which nothing is written, and which closes when this process dies, even by SIGKILL. A
child that calls `end_with_parent` then kills itself and its descendants.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class ProcessTree:
    """A child process with its descendants.

    Args:
        command: the program and its arguments.
        options: further arguments of `subprocess.Popen`.
    """

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        self.process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 - commands are our own
            command, stdin=subprocess.PIPE, start_new_session=True, **options
        )
        self._members: dict[int, psutil.Process] = {}  # a descendant stays one when its parent dies

    def memory(self) -> int:
        """Returns the bytes of memory that they hold now."""
        self._add_descendants()
        total = 0
        for pid, member in list(self._members.items()):
            try:
                total += member.memory_info().rss
            except psutil.Error:
                del self._members[pid]
        return total

    def kill(self) -> None:
        """Kills them all, and waits for the child to end."""
        if self.process.returncode is None:
            self._add_descendants()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        _kill(self._members.values())  # those in other sessions
        self.process.wait()
        assert self.process.stdin is not None, "a pipe"
        self.process.stdin.close()

    def _add_descendants(self) -> None:
        """Adds the descendants born since the last call."""
        with suppress(psutil.Error):
            child = self._members.setdefault(self.process.pid, psutil.Process(self.process.pid))
            self._members |= {member.pid: member for member in child.children(recursive=True)}


def start_python(function: str, **options: Any) -> tuple[ProcessTree, Connection]:
    """Calls a function in a new interpreter; returns the process and our end of a pipe to it.

    The interpreter has our module path and does not run the main module again, so scripts need no guard.

    Args:
        function: "module:function"; its argument is the other end of the pipe.
        options: further arguments of `subprocess.Popen`.
    """
    ours, theirs = Pipe()
    with theirs:
        program = (
            f"import sys; sys.path[:] = {sys.path!r}; from jtsolve.core.processes import call_with_pipe; "
            f"call_with_pipe({function!r}, {theirs.fileno()})"
        )
        command = [sys.executable, "-c", program]
        return ProcessTree(command, pass_fds=[theirs.fileno()], stdout=subprocess.DEVNULL, **options), ours


def call_with_pipe(function: str, descriptor: int) -> None:
    """Runs in the new interpreter: calls the function with the pipe of a file descriptor."""
    end_with_parent()
    try:
        function_named(function)(Connection(descriptor))
    except (EOFError, ConnectionError):  # the parent has ended: do not exit before the lifeline has closed
        _end()


def function_named(text: str) -> Callable[..., Any]:
    """Returns the function that "module:function" names."""
    module, _, name = text.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


def end_with_parent() -> None:
    """Kills this process and its descendants once its lifeline closes."""
    if os.getpgrp() != os.getpid():
        return  # started by hand: the group is not ours to kill

    def watch() -> None:
        while os.read(0, 1024):
            pass
        _end()

    threading.Thread(target=watch, daemon=True, name="lifeline").start()


def _end() -> None:
    """Kills this process, its group and its descendants."""
    _kill(psutil.Process().children(recursive=True))
    os.killpg(0, signal.SIGKILL)


def _kill(processes: Iterable[psutil.Process]) -> None:
    for one in processes:
        with suppress(psutil.Error):
            one.kill()  # psutil makes sure that the number has not gone to another process
