"""A run in a child process whose limits are enforced from outside; even a run that crashes gives a row.

The process is killed with all its descendants (`jtsolve.core.processes`) when it exceeds its time limit by
more than the grace, or when all of them exceed its memory limit together; both are checked every `_POLL`
seconds. It kills itself if this process dies, so that no run outlives its comparison.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING

import msgspec

from jtsolve.compare.running.run import row_of
from jtsolve.compare.spec import Row, RunStatus, Spec, new_row, read_row, to_json
from jtsolve.core.files import write_atomically
from jtsolve.core.machine import describe_machine
from jtsolve.core.processes import ProcessTree, end_with_parent
from jtsolve.core.temporary import temporary_folder
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

_POLL = 0.05
"""Seconds between two checks of a process, in which it may exceed its memory limit by some 0.2 GB."""
_MOST_OUTPUT = 2000
"""Characters kept of a crashed process's output."""

PROGRAM: tuple[str, ...] = (sys.executable, "-m", "jtsolve", "run", "--inside")
"""The command that performs one run in its own process; specification and row follow."""


def supervise(
    spec: Spec,
    cancelled: threading.Event | None = None,
    program: tuple[str, ...] = PROGRAM,
) -> Row | None:
    """Performs a run in a child process and returns its row; None if it was cancelled.

    Args:
        spec: the run.
        cancelled: when it is set, the process is killed.
        program: the command; for tests.
    """
    began = datetime.now(UTC).isoformat(timespec="seconds")
    with temporary_folder() as folder:
        path, answer, log = (folder / name for name in ("spec.json", "row.json", "log.txt"))
        path.write_bytes(to_json(spec))
        with log.open("wb") as stream:
            tree = ProcessTree(
                [*program, str(path), "--output", str(answer)], stdout=stream, stderr=subprocess.STDOUT
            )
        child = _SupervisedRun(spec, tree, answer, log)
        try:
            verdict = child.wait(cancelled or threading.Event())
        finally:
            tree.kill()
        if cancelled is not None and cancelled.is_set() and not answer.exists():
            return None
        row = _row_of(child, verdict)
    peak = max(row.peak_memory or 0, child.peak) or None
    machine = row.machine or describe_machine(spec.threads)
    return msgspec.structs.replace(
        row, spec=spec, seconds=child.seconds, peak_memory=peak, started=began, machine=machine
    )


def run_inside(spec: Spec, row: Path, started: float) -> None:
    """Performs a run in this process, a child of `supervise`, and writes its row.

    Args:
        spec: the run.
        row: the JSON file to write, atomically.
        started: `time.monotonic()` at the start of the run.
    """
    end_with_parent()
    os.dup2(2, 1)  # the log also receives the output of solvers
    write_atomically(row, to_json(row_of(spec, started)))


@dataclass(slots=True)
class _SupervisedRun:
    """A run, observed from outside its process."""

    spec: Spec
    tree: ProcessTree
    row: Path
    log: Path
    peak: int = 0
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    def wait(self, cancelled: threading.Event) -> RunStatus | None:
        """Waits for the end; returns why the process has to be killed, or None if it has ended itself."""
        memory = inf if self.spec.memory_limit is None else self.spec.memory_limit * 1e9
        end = inf if self.spec.time_limit is None else self.spec.time_limit + self.spec.grace
        process, verdict = self.tree.process, None
        while process.returncode is None and verdict is None and not cancelled.is_set():
            with suppress(subprocess.TimeoutExpired):
                process.wait(_POLL)
            self.seconds = time.monotonic() - self.began
            self.peak = max(self.peak, self.tree.memory())
            if process.returncode is None and self.peak > memory:
                verdict = RunStatus.OUT_OF_MEMORY
            elif process.returncode is None and self.seconds > end:
                verdict = RunStatus.OUT_OF_TIME
        return verdict


def _row_of(child: _SupervisedRun, verdict: RunStatus | None) -> Row:
    """Returns the row of a run that has ended."""
    spec = child.spec
    if child.row.exists():  # even if the limit was exceeded a moment later
        try:
            return read_row(child.row)
        except InputError as error:
            return new_row(spec, RunStatus.CRASHED, f"the process left no valid row: {error}")
    if verdict is RunStatus.OUT_OF_TIME:
        allowed = f"{spec.time_limit:g} s and {spec.grace:g} s of grace"
        message = f"killed after {child.seconds:.1f} s: {allowed} were over"
    elif verdict is RunStatus.OUT_OF_MEMORY:
        message = f"killed holding {child.peak / 1e9:.3g} GB: the limit is {spec.memory_limit:g} GB"
    else:
        verdict = RunStatus.CRASHED
        message = _crash(child)
    return new_row(spec, verdict, message)


def _crash(child: _SupervisedRun) -> str:
    """Returns how a process without a row ended, and the end of its output."""
    code = child.tree.process.returncode
    end = f"ended by signal {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    said = child.log.read_text(encoding="utf-8", errors="replace").strip()[-_MOST_OUTPUT:]
    return f"the process {end}" + (f": {said}" if said else ", without output")
