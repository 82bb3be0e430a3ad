"""The process of a portfolio's member: takes a problem and an order, solves, and tells the parent.

A problem is pickled with its large arrays apart (pickle protocol 5), in one file, which each process maps:
they are in memory once, and read-only. The best tree of all members is in another file, which the parent
replaces and members read when they want to know.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import pickle
import signal
import threading
from dataclasses import dataclass, replace
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import psutil

from jtsolve.core.backend import Backend, Limits
from jtsolve.core.result import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree

_ALIGNED = 64
"""Bytes: parts begin at multiples, which any kind of number wants."""

PROGRAM = (
    "import sys; sys.path[:] = eval(sys.argv[2]); "
    "from jtsolve.backends.portfolio.member import main; main(int(sys.argv[1]))"
)
"""What the interpreter is given to run, with a file descriptor and the module path as arguments."""


@dataclass(frozen=True, slots=True)
class Order:
    """Who is to solve the problem, and what it may spend: seconds from now, bytes, threads; and its seed.

    `best` is the file of the best tree of all; there is none before the first.
    """

    member: Backend
    time: float | None
    memory: int
    threads: int
    seed: int
    best: str


def pickled(value: object, aside: Callable[[pickle.PickleBuffer], object] | None = None) -> bytes:
    """Returns a value as bytes, read-only mappings too; large arrays go to `aside`, if it is given."""
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, protocol=5, buffer_callback=aside)
    pickler.dispatch_table = {MappingProxyType: lambda proxy: (_read_only, (dict(proxy),))}
    pickler.dump(value)
    return stream.getvalue()


def _read_only(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)


def pack(problem: Problem, file: Path) -> bytes:
    """Writes the problem to a file, and returns where each part is, as bytes."""
    buffers: list[pickle.PickleBuffer] = []
    bare = replace(problem, provenance={})  # of no use to a solver, and whatever a reader put there
    head = pickled(bare, buffers.append)
    lengths = []
    with file.open("wb") as stream:
        for raw in (memoryview(head), *(buffer.raw() for buffer in buffers)):
            lengths.append(raw.nbytes)
            stream.write(raw)
            stream.write(bytes(-raw.nbytes % _ALIGNED))
    return pickle.dumps((lengths, str(file)))


def unpack(packed: bytes) -> Problem:
    """Returns the problem that `pack` has written."""
    lengths, file = pickle.loads(packed)  # noqa: S301 - from our parent
    with Path(file).open("rb") as stream:
        view = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    start = 0
    parts: list[memoryview] = []
    for length in lengths:
        parts.append(view[start : start + length])
        start += length + -length % _ALIGNED
    problem: Problem = pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 - the same
    return problem


class _Line:
    """The report of the member: tells the parent what is new, and knows when to stop."""

    def __init__(self, connection: Connection, problem: Problem, limits: Limits, best: Path) -> None:
        self._connection, self._problem, self._limits = connection, problem, limits
        self._asked: Stop | None = None
        self._file, self._read = best, 0  # when what we have read of it was written
        self._best: JunctionTree | None = None
        self._score = -inf
        self._lock = threading.Lock()

    @property
    def stop(self) -> Stop | None:
        if (
            self._asked is None
            and self._limits.time is not None
            and self._limits.elapsed >= self._limits.time
        ):
            return Stop.TIME
        return self._asked

    @property
    def incumbent(self) -> JunctionTree | None:
        with contextlib.suppress(FileNotFoundError):  # there is none yet
            written = self._file.stat().st_mtime_ns
            if written != self._read:
                self._read = written
                self._learn(pickle.loads(self._file.read_bytes()))  # noqa: S301 - from our parent
        return self._best

    def _learn(self, tree: JunctionTree) -> None:
        """Keeps a tree if it is the best one that is known here."""
        score = tree.score(self._problem.scores)
        with self._lock:
            if score > self._score:
                self._best, self._score = tree, score

    def __call__(
        self,
        *,
        tree: JunctionTree | None = None,
        bound: float | None = None,
        done: float | None = None,  # noqa: ARG002 - of one member: it says little of the whole
        note: str | None = None,  # noqa: ARG002 - the same
    ) -> bool:
        if tree is not None:
            self._learn(tree)
        if tree is not None or bound is not None:
            self.say("news", {"tree": tree, "bound": bound})
        return self.stop is None

    def say(self, kind: str, content: Any) -> None:
        """Sends a message; where nobody is left to hear it, `obey` ends the process."""
        with self._lock, contextlib.suppress(ConnectionError):
            self._connection.send((kind, content))

    def obey(self) -> None:
        """Waits for the parent's word to stop; if the parent is gone, ends with all it has started."""
        while True:
            try:
                self._asked = self._connection.recv()
            except (EOFError, ConnectionError):
                for child in psutil.Process().children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        child.kill()
                os._exit(1)


def main(descriptor: int) -> None:
    """Does what the parent orders, and tells it the outcome or what went wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells all processes; the parent decides
    connection = Connection(descriptor)
    packed = connection.recv_bytes()
    try:
        order: Order = pickle.loads(connection.recv_bytes())  # noqa: S301 - from our parent
        problem = unpack(packed)
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent has to know
        connection.send(("failed", _plain(error)))
        return
    limits = Limits(order.time, order.memory, order.threads, order.seed)
    line = _Line(connection, problem, limits, Path(order.best))
    threading.Thread(target=line.obey, daemon=True).start()
    try:
        line.say("ended", order.member.solve(problem, limits, line))
    except Exception as error:  # noqa: BLE001 - the same
        line.say("failed", _plain(error))


def _plain(error: Exception) -> Exception:
    """Returns an error that can be sent: itself, or its text, if it cannot be made again from its parts."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - errors of any library can fail in any way
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
