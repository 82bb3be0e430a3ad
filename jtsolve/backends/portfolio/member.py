"""The process of a portfolio's member: reads a problem and its limits, solves it, and reports to the parent.

A problem is pickled with its large arrays apart (pickle protocol 5), in one file that every process maps:
they are in memory once, and read-only. The best tree of all members is in another file, which the parent
replaces and members read as their incumbent.
"""

from __future__ import annotations

import contextlib
import mmap
import pickle
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from jtsolve.core.machine import allow_memory, memory_of_call
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import StoppedError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from jtsolve.core.backend import Backend, News
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree

_ALIGNED = 64
"""Bytes: parts begin at multiples, as every type of number requires."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A member, its limits (seconds from now, bytes, threads) and its seed.

    `best` is the file of the best tree of all, which does not exist before the first.
    """

    member: Backend
    time: float | None
    memory: int
    threads: int
    seed: int
    best: str


def pack_problem(problem: Problem, file: Path) -> bytes:
    """Writes the problem to a file, and returns the place of each part, as bytes."""
    buffers: list[pickle.PickleBuffer] = []
    bare = replace(problem, provenance={})  # of no use to a solver, and of any type
    head = pickle.dumps(bare, protocol=5, buffer_callback=buffers.append)
    lengths = []
    with file.open("wb") as stream:
        for raw in (memoryview(head), *(buffer.raw() for buffer in buffers)):
            lengths.append(raw.nbytes)
            stream.write(raw)
            stream.write(bytes(-raw.nbytes % _ALIGNED))
    return pickle.dumps((lengths, str(file)))


def unpack(packed: bytes) -> Problem:
    """Returns the problem that `pack_problem` wrote."""
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


class _MemberReport:
    """The report of a member: passes trees and bounds to the parent."""

    def __init__(self, connection: Connection, limits: Limits, best: Path) -> None:
        self._connection, self._limits = connection, limits
        self._requested: Stop | None = None  # by the parent
        self._file, self._read = best, (0, 0)  # the version that was read last
        self._best: JunctionTree | None = None
        self._lock = threading.Lock()

    @property
    def stop(self) -> Stop | None:
        late = self._limits.time is not None and self._limits.elapsed >= self._limits.time
        return self._requested or (Stop.TIME if late else None)

    @property
    def incumbent(self) -> JunctionTree | None:
        with contextlib.suppress(FileNotFoundError):  # there is none yet
            status = self._file.stat()
            version = status.st_ino, status.st_mtime_ns  # clocks of file systems are coarse
            if version != self._read:
                self._read = version
                self._best = pickle.loads(self._file.read_bytes())  # noqa: S301 - from our parent
        return self._best

    def __call__(self, **news: Unpack[News]) -> bool:
        tree, bound = news.get("tree"), news.get("bound")
        if tree is not None or bound is not None:  # a member's progress is not that of the whole
            self.send("news", {"tree": tree, "bound": bound})
        return self.stop is None

    def send(self, kind: str, content: Any) -> None:
        """Sends a message to the parent; without one, this process is about to be killed."""
        with self._lock, contextlib.suppress(ConnectionError):
            self._connection.send((kind, content))

    def await_stop(self) -> None:
        """Receives the parent's reasons to stop, until the connection closes."""
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                self._requested = self._connection.recv()


@memory_of_call()
def main(connection: Connection) -> None:
    """Runs the parent's assignment, and sends the outcome or the error."""
    packed = connection.recv_bytes()
    try:
        assignment: Assignment = pickle.loads(connection.recv_bytes())  # noqa: S301 - from our parent
        allow_memory(assignment.memory)
        problem = unpack(packed)
    except Exception as error:  # noqa: BLE001 - any error has to reach the parent
        connection.send(("failed", _picklable(error)))
        return
    limits = Limits(assignment.time, assignment.memory, assignment.threads, assignment.seed)
    report = _MemberReport(connection, limits, Path(assignment.best))
    threading.Thread(target=report.await_stop, daemon=True).start()
    guarded = problem.guarded(report)
    try:
        report.send("ended", assignment.member.solve(guarded, limits, report))
    except StoppedError:
        report.send("ended", Outcome(None, stop=report.stop or Stop.TIME))
    except Exception as error:  # noqa: BLE001 - the same
        report.send("failed", _picklable(error))


def _picklable(error: Exception) -> Exception:
    """Returns the error if it can be pickled, else another one with its text."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - errors of any library can fail in any way
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
