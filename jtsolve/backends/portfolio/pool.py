"""Members of a portfolio as processes: start, listen, end, kill."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import psutil

from jtsolve.backends.portfolio.member import PROGRAM, Order, pack, pickled
from jtsolve.core.machine import resident_memory
from jtsolve.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jtsolve.core.backend import Backend, Limits
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Outcome, Stop
    from jtsolve.core.tree import JunctionTree

_LISTEN = 0.05
"""Seconds between two questions whether to go on."""
_SHARE = 0.2
"""Seconds at least between two best trees for the members, which look now and then."""
_GRACE = 0.4
"""Seconds that members have to end when asked to; with the rest, a run ends within a second."""


@dataclass(frozen=True, slots=True)
class Job:
    """A member with its seed, and the bytes that it is predicted to need; `number` is unique in a run."""

    number: int
    member: Backend
    seed: int
    memory: int

    @property
    def label(self) -> str:
        """What to call it."""
        return f"{self.member.name} {self.number}"


class Listener(Protocol):
    """Who is told what the members say."""

    @property
    def stop(self) -> Stop | None:
        """Why all have to end, or None."""
        ...

    @property
    def incumbent(self) -> JunctionTree | None:
        """The best tree of all, or None."""
        ...

    def hear(self, job: Job, tree: JunctionTree | None = None, bound: float | None = None) -> None:
        """Takes news; raises InternalError if they are wrong."""
        ...

    def ended(self, job: Job, outcome: Outcome) -> None:
        """Takes the outcome; raises InternalError if it is wrong."""
        ...

    def fail(self, job: Job, error: Exception) -> None:
        """Takes note of a failure."""
        ...


@dataclass(frozen=True, slots=True)
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    connection: Connection


class Pool:
    """Runs jobs, so many at a time."""

    def __init__(self, problem: Problem, limits: Limits, jobs: tuple[Job, ...], at_a_time: int) -> None:
        self.problem, self.limits, self.at_a_time = problem, limits, at_a_time
        self.waiting = list(jobs)
        self.running: list[_Running] = []
        self.shared: JunctionTree | None = None
        self.next_share = 0.0

    def run(self, listener: Listener) -> None:
        """Runs until all jobs have ended or the listener says stop; no process is left."""
        with tempfile.TemporaryDirectory(prefix="jtsolve-") as folder:
            packed = pack(self.problem, Path(folder) / "scores")
            best = Path(folder) / "incumbent"
            room = self.limits.memory_bytes - resident_memory()
            try:
                while (self.waiting or self.running) and listener.stop is None:
                    while self.waiting and len(self.running) < self.at_a_time:
                        self.start(self.waiting.pop(0), packed, room, best)
                    self.listen(listener, _LISTEN)
                    self.share(listener.incumbent, best)
                self.ask_to_end(listener)
            finally:
                for one in self.running:
                    kill(one.process)
                    one.connection.close()

    def share(self, tree: JunctionTree | None, file: Path) -> None:
        """Writes the best tree down for the members, if it is new and the last one is not so.

        A file, and not their connections: no member has to listen, and none that does not can hold us up.
        """
        if tree is None or tree is self.shared or monotonic() < self.next_share:
            return
        fresh = file.with_suffix(".new")
        fresh.write_bytes(pickled(tree))
        fresh.replace(file)  # at once: nobody ever reads half a tree
        self.shared, self.next_share = tree, monotonic() + _SHARE

    def start(self, job: Job, packed: bytes, room: int, best: Path) -> None:
        """Starts a process; its share of the memory is that of its need among those that run at a time."""
        ours, theirs = Pipe()
        command = [sys.executable, "-c", PROGRAM, str(theirs.fileno()), repr(sys.path)]
        with theirs:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and program
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        needs = sorted([job.memory, *(one.job.memory for one in self.running), *self._next()], reverse=True)
        limits = self.limits
        order = Order(
            member=job.member,
            time=None if limits.time is None else limits.time - limits.elapsed,
            memory=max(1, room * job.memory // max(1, sum(needs[: self.at_a_time]))),
            threads=max(1, limits.workers // self.at_a_time),
            seed=job.seed,
            best=str(best),
        )
        self.running.append(_Running(job, process, ours))
        with contextlib.suppress(BrokenPipeError):  # it died at once: to be noticed where it is listened to
            ours.send_bytes(packed)
            ours.send_bytes(pickled(order))

    def _next(self) -> list[int]:
        """Returns the needs of the jobs that start together with this one."""
        return [job.memory for job in self.waiting[: max(0, self.at_a_time - len(self.running) - 1)]]

    def listen(self, listener: Listener, seconds: float) -> None:
        """Takes what the members say within so many seconds."""
        talking = {one.connection: one for one in self.running}
        for connection in wait(list(talking), seconds):
            one = talking[connection]  # type: ignore[index]
            if not self.hear(one, listener):
                self.running.remove(one)
                kill(one.process)
                one.connection.close()

    def hear(self, one: _Running, listener: Listener) -> bool:
        """Takes a message of a member; returns whether the member goes on."""
        try:
            kind, content = one.connection.recv()
        except (EOFError, ConnectionError):
            listener.fail(one.job, InternalError(_death(one.process)))
            return False
        if kind == "failed":
            listener.fail(one.job, content)
            return False
        try:
            if kind == "ended":
                listener.ended(one.job, content)
                return False
            listener.hear(one.job, **content)
        except InternalError as error:
            listener.fail(one.job, error)
            return False
        return True

    def ask_to_end(self, listener: Listener) -> None:
        """Asks all that run to end, and takes their last words for a moment."""
        for one in self.running:
            with contextlib.suppress(ConnectionError):  # it has ended already
                one.connection.send(listener.stop)
        end = monotonic() + _GRACE
        while self.running and (left := end - monotonic()) > 0:
            self.listen(listener, left)


def _death(process: subprocess.Popen[bytes]) -> str:
    """Returns how a process ended that said nothing."""
    try:
        code: Any = process.wait(5)
    except subprocess.TimeoutExpired:
        code = None
    return f"its process ended without an answer (exit code {code}; below 0: the signal that killed it)"


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process with all that it has started."""
    for victim in [*_descendants(process.pid), process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
    process.wait()


def _descendants(pid: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        yield from psutil.Process(pid).children(recursive=True)
