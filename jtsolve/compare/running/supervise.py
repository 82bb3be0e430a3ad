"""A run in a process of its own, held to its limits from outside; whatever happens to it, there is a row.

The process leads a group of its own. It is killed, with its group and all its descendants, when it exceeds
its time limit by more than the grace, or when it and its descendants together hold more memory than its
limit; memory is looked at every `_POLL` seconds. The process in turn watches its standard input, a pipe from
here: when that ends, because this process was killed, it kills its own group, so that no run outlives its
comparison.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from pathlib import Path

import msgspec
import psutil

from jtsolve.compare.running.run import run
from jtsolve.compare.spec import Row, RunStatus, Spec, new_row, read_row, to_json
from jtsolve.core.files import write_atomically
from jtsolve.core.machine import describe
from jtsolve.errors import InputError

_POLL = 0.05
"""Seconds between two looks at a process: what it may touch meanwhile beyond its limit is some 0.2 GB."""
_LAST_WORDS = 2000
"""Characters of a crashed process's output that are kept."""
_STEPS = 10_000
"""Incumbents that are kept of a killed run."""

PROGRAM: tuple[str, ...] = (sys.executable, "-m", "jtsolve", "run", "--inside")
"""The command that runs one specification within its own process; the files' names are added."""

Step = tuple[float, float | None, float | None]


class Watcher:
    """Is told what runs do; the default does nothing. Any thread may tell, several at a time."""

    def started(self, spec: Spec) -> None:
        """The run begins."""

    def progressed(self, spec: Spec, step: Step) -> None:
        """The run reports seconds, score and bound."""

    def finished(self, row: Row) -> None:
        """The run is over, and this came of it."""


def supervise(
    spec: Spec,
    watcher: Watcher | None = None,
    cancelled: threading.Event | None = None,
    program: tuple[str, ...] = PROGRAM,
) -> Row | None:
    """Runs a specification in a process of its own and returns its row; None if it was cancelled.

    Args:
        spec: what to run.
        watcher: is told of incumbents and bounds as they come; not of the end.
        cancelled: once it is set, the process is killed.
        program: the command; for tests.
    """
    watcher = watcher or Watcher()
    began = datetime.now(UTC).isoformat(timespec="seconds")
    watcher.started(spec)
    with tempfile.TemporaryDirectory(prefix="jtsolve-") as name:
        place = _Place(Path(name))
        place.spec.write_bytes(to_json(spec))
        with place.log.open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [*program, str(place.spec), str(place.row), str(place.trace)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        child = _Child(spec, process, place, watcher)
        try:
            verdict = child.wait(cancelled or threading.Event())
        finally:
            child.kill()
        if cancelled is not None and cancelled.is_set() and not place.row.exists():
            return None
        row = _row_of(child, verdict)
    peak = max(row.peak_memory or 0, child.peak) or None
    machine = row.machine or describe(spec.threads)
    return msgspec.structs.replace(
        row, spec=spec, seconds=child.seconds, peak_memory=peak, started=began, machine=machine
    )


def run_inside(spec: Spec, row: Path, trace: Path, started: float) -> None:
    """The other side: runs a specification in this process, and writes its row and, meanwhile, its trace."""
    _watch_parent()
    os.dup2(2, 1)  # what solvers print is no answer
    last: list[float | None] = [None, None]
    with trace.open("a", encoding="utf-8", buffering=1) as stream:

        def listen(
            *, seconds: float, score: float | None, bound: float, done: float | None, note: str | None
        ) -> None:
            del done, note
            news = [score, None if bound == inf else bound]
            if news != last:
                last[:] = news
                stream.write(msgspec.json.encode((seconds, *news)).decode() + "\n")

        answer = run(spec, started, listen)
    write_atomically(row, to_json(answer))


@dataclass(frozen=True, slots=True)
class _Place:
    """The files by which the two sides speak."""

    folder: Path

    @property
    def spec(self) -> Path:
        return self.folder / "spec.json"

    @property
    def row(self) -> Path:
        return self.folder / "row.json"

    @property
    def trace(self) -> Path:
        return self.folder / "trace.jsonl"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"


@dataclass(slots=True)
class _Child:
    """The process of a run, seen from outside."""

    spec: Spec
    process: subprocess.Popen[bytes]
    place: _Place
    watcher: Watcher
    peak: int = 0
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    steps: list[Step] = field(default_factory=list)
    _family: dict[int, psutil.Process] = field(default_factory=dict)
    _read: int = 0

    def wait(self, cancelled: threading.Event) -> RunStatus | None:
        """Waits for the end; returns why the process has to be killed, or None if it ended by itself."""
        memory = inf if self.spec.memory_limit is None else self.spec.memory_limit * 1e9
        deadline = inf if self.spec.time_limit is None else self.spec.time_limit + self.spec.grace
        verdict = None
        while self.process.returncode is None and verdict is None and not cancelled.is_set():
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_POLL)
            self.seconds = time.monotonic() - self.began
            self.peak = max(self.peak, self._held())
            self._hear()
            if self.process.returncode is None and self.peak > memory:
                verdict = RunStatus.OUT_OF_MEMORY
            elif self.process.returncode is None and self.seconds > deadline:
                verdict = RunStatus.OUT_OF_TIME
        self._hear()
        return verdict

    def kill(self) -> None:
        """Ends the process, its group, and every descendant seen, if anything of them is left."""
        if self.process.returncode is None:
            self._held()  # those born since the last look
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for member in self._family.values():
            with suppress(psutil.Error):
                member.kill()  # psutil makes sure that the number is not another process by now
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def _held(self) -> int:
        """Returns the bytes that the process and its descendants hold now."""
        total = 0
        with suppress(psutil.Error):
            if self.process.pid not in self._family:
                self._family[self.process.pid] = psutil.Process(self.process.pid)
            leader = self._family[self.process.pid]
            self._family |= {member.pid: member for member in leader.children(recursive=True)}
        for member in list(self._family.values()):
            try:
                total += member.memory_info().rss
            except psutil.Error:
                del self._family[member.pid]
        return int(total)

    def _hear(self) -> None:
        """Reads what the process has reported since the last time, whole lines only."""
        if not self.place.trace.exists():
            return
        with self.place.trace.open("rb") as stream:
            stream.seek(self._read)
            text = stream.read()
        lines = text[: text.rfind(b"\n") + 1]
        self._read += len(lines)
        for line in lines.splitlines():
            step = msgspec.json.decode(line, type=Step)
            if len(self.steps) < _STEPS:
                self.steps.append(step)
            self.watcher.progressed(self.spec, step)


def _row_of(child: _Child, verdict: RunStatus | None) -> Row:
    """Returns the row of a process that is over."""
    spec = child.spec
    if child.place.row.exists():  # even if the verdict came a moment later
        try:
            return read_row(child.place.row)
        except InputError as error:
            return new_row(spec, RunStatus.CRASHED, f"the process left no valid row: {error}")
    if verdict is RunStatus.OUT_OF_TIME:
        allowed = f"{spec.time_limit:g} s and {spec.grace:g} s of grace"
        message = f"killed after {child.seconds:.1f} s: {allowed} were over"
    elif verdict is RunStatus.OUT_OF_MEMORY:
        message = f"killed holding {child.peak / 1e9:.3g} GB: the limit is {spec.memory_limit:g} GB"
    else:
        verdict = RunStatus.CRASHED
        message = _last_words(child)
    return msgspec.structs.replace(new_row(spec, verdict, message), trace=child.steps)


def _last_words(child: _Child) -> str:
    """Returns how a process ended that left no answer, and the end of what it printed."""
    code = child.process.returncode
    end = f"ended by signal {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    said = child.place.log.read_text(encoding="utf-8", errors="replace").strip()[-_LAST_WORDS:]
    return f"the process {end}" + (f": {said}" if said else ", without a word")


def _watch_parent() -> None:
    """Kills this process and its group when standard input ends: the supervisor is gone then."""
    if os.getpgrp() != os.getpid():
        return  # run by hand: the group is not ours to kill

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="lifeline").start()
