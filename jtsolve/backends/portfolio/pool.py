"""Runs the members of a portfolio in processes."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
from dataclasses import dataclass
from multiprocessing.connection import wait
from time import monotonic
from typing import TYPE_CHECKING, Any

from jtsolve.backends.portfolio.member import Assignment, pack_problem
from jtsolve.core.machine import resident_memory
from jtsolve.core.processes import start_python
from jtsolve.core.temporary import temporary_folder
from jtsolve.errors import InternalError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from jtsolve.backends.portfolio.ledger import Job, Ledger
    from jtsolve.core.problem import Problem
    from jtsolve.core.processes import ProcessTree
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree

_POLL = 0.05
"""Polling interval for messages and the reason to stop, in seconds."""
_SHARE = 0.2
"""Minimum seconds between two best trees written for the members, which rarely read them."""
_GRACE = 0.4
"""Grace period for members to stop, in seconds; a run ends within a second in all."""
_WRITING = 30.0
"""The same where a member writes a certificate: 47 MB for jester."""


@dataclass(frozen=True, slots=True)
class _MemberProcess:
    job: Job
    tree: ProcessTree
    connection: Connection

    def close(self) -> None:
        """Kills the process."""
        self.tree.kill()
        self.connection.close()


class Pool:
    """Runs jobs, at most `at_a_time` at a time."""

    def __init__(self, problem: Problem, limits: Limits, jobs: tuple[Job, ...], at_a_time: int) -> None:
        self.problem, self.limits, self.at_a_time = problem, limits, at_a_time
        self.waiting = list(jobs)
        self.running: list[_MemberProcess] = []
        self.shared: JunctionTree | None = None
        self.next_share = 0.0

    def run(self, ledger: Ledger) -> None:
        """Runs until all jobs have ended or the ledger stops them; leaves no process."""
        with temporary_folder() as folder:
            packed = pack_problem(self.problem, folder / "scores")
            best = folder / "incumbent"
            room = self.limits.memory_bytes - resident_memory()
            try:
                while (self.waiting or self.running) and ledger.stop is None:
                    while self.waiting and len(self.running) < self.at_a_time:
                        self.start(self.waiting.pop(0), packed, room, best)
                    self.receive_all(ledger, _POLL)
                    self.share(ledger.report.incumbent, best)
                self.request_stop(ledger)
            finally:
                for one in self.running:
                    one.close()

    def share(self, tree: JunctionTree | None, file: Path) -> None:
        """Writes the best tree to a file for the members, if it is new and the last one is not too recent.

        They are in a file, not in the connections, which would fill up while a member reads nothing.
        """
        if tree is None or tree is self.shared or monotonic() < self.next_share:
            return
        fresh = file.with_suffix(".new")
        fresh.write_bytes(pickle.dumps(tree))
        fresh.replace(file)  # atomically, so that no reader sees half a tree
        self.shared, self.next_share = tree, monotonic() + _SHARE

    def start(self, job: Job, packed: bytes, room: int, best: Path) -> None:
        """Starts a member with a share of the memory in proportion to its need.

        Args:
            job: the member and its need.
            packed: the problem, as `member.pack_problem` wrote it.
            room: bytes for all members that run at a time.
            best: the file of the best tree.
        """
        tree, connection = start_python("jtsolve.backends.portfolio.member:main")
        needs = sorted([job.memory, *(one.job.memory for one in self.running), *self._next()], reverse=True)
        limits = self.limits
        assignment = Assignment(
            member=job.member,
            time=None if limits.time is None else limits.time - limits.elapsed,
            memory=max(1, room * job.memory // max(1, sum(needs[: self.at_a_time]))),
            threads=max(1, limits.workers // self.at_a_time),
            seed=job.seed,
            best=str(best),
        )
        self.running.append(_MemberProcess(job, tree, connection))
        with contextlib.suppress(BrokenPipeError):  # it died at once, which `receive` detects
            connection.send_bytes(packed)
            connection.send_bytes(pickle.dumps(assignment))

    def _next(self) -> list[int]:
        """Returns the needs of the jobs that start together with this one."""
        return [job.memory for job in self.waiting[: max(0, self.at_a_time - len(self.running) - 1)]]

    def receive_all(self, ledger: Ledger, seconds: float) -> None:
        """Handles the messages that arrive within some seconds."""
        members = {one.connection: one for one in self.running}
        for connection in wait(list(members), seconds):
            one = members[connection]  # type: ignore[index] # `wait` returns some of its arguments
            if not self.receive(one, ledger):
                self.running.remove(one)
                one.close()

    def receive(self, one: _MemberProcess, ledger: Ledger) -> bool:
        """Handles a message of a member; returns whether the member continues."""
        try:
            kind, content = one.connection.recv()
        except (EOFError, ConnectionError):
            ledger.fail(one.job, InternalError(_death(one.tree.process)))
            return False
        if kind == "failed":
            ledger.fail(one.job, content)
            return False
        try:
            if kind == "ended":
                ledger.ended(one.job, content)
                return False
            ledger.record(one.job, **content)
        except InternalError as error:
            ledger.fail(one.job, error)
            return False
        return True

    def request_stop(self, ledger: Ledger) -> None:
        """Requests all members to stop, and handles their messages during the grace period."""
        for one in self.running:
            with contextlib.suppress(ConnectionError):  # it has ended already
                one.connection.send(ledger.stop)
        began = monotonic()
        while self.running:
            writes = any(getattr(one.job.member, "certificate", None) for one in self.running)
            left = began + (_WRITING if writes else _GRACE) - monotonic()
            if left <= 0:
                break
            self.receive_all(ledger, left)


def _death(process: subprocess.Popen[bytes]) -> str:
    """Returns the message on a process that ended without an answer."""
    try:
        code: Any = process.wait(5)
    except subprocess.TimeoutExpired:
        code = None
    return f"its process ended without an answer (exit code {code}; below 0: the signal that killed it)"
