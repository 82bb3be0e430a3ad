"""One run in this process: reads the instance, solves it, and returns the row.

An error within the run also gives a row: a refusal, a limit, a wrong result. If the process dies, `supervise`
writes the row; it also measures time and memory.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from traceback import format_exc
from typing import TYPE_CHECKING

import msgspec

from jtsolve.backends.registry import REGISTRY
from jtsolve.compare.spec import Row, RunStatus, Spec, new_row
from jtsolve.core.machine import describe_machine, memory_bytes, peak_memory
from jtsolve.core.run import Limits, Run
from jtsolve.errors import InputError, InternalError, JtsolveError, LimitError, RefusedError
from jtsolve.io.instance import read_problem
from jtsolve.io.result import result_to_document
from jtsolve.solving import choose_backend, solve

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem

AUTO = "auto"


def row_of(spec: Spec, started: float) -> Row:
    """Returns the row of a run, with its error if it failed.

    Args:
        spec: the run.
        started: `time.monotonic()` at the start of the process; limits count from there.
    """
    facts = _RunFacts()
    limits = Limits(spec.time_limit, memory_bytes(spec.memory_limit), spec.threads, spec.seed, started)
    try:
        row = _solved(spec, Run(limits), facts)
    except (JtsolveError, MemoryError, ImportError) as error:
        row = new_row(spec, _status_of(error), str(error) or "the system has no memory left")
    except Exception:  # noqa: BLE001 - a bug in one run must not end the comparison
        row = new_row(spec, RunStatus.CRASHED, format_exc().strip())
    return msgspec.structs.replace(
        row,
        n=facts.n,
        exact=facts.exact,
        prepared=facts.prepared,
        peak_memory=peak_memory(),
        machine=describe_machine(spec.threads),
    )


def read_instance(spec: Spec, run: Run | None = None) -> Problem:
    """Returns the problem of a run, under its treewidth.

    Raises:
        InputError: the file cannot be read, or is not the one that the run was planned with.
    """
    path = spec.instance.path
    if file_digest(path) != spec.instance.sha256:
        reason = "it is not the file that the run was planned with: its SHA-256 differs"
        raise InputError(path, "", reason, "bring that file back, or begin a new comparison")
    return read_problem(path, run).with_treewidth(spec.treewidth)


def file_digest(path: str | Path) -> str:
    """Returns the SHA-256 of a file.

    Raises:
        InputError: it cannot be read.
    """
    place = Path(path)
    if place.exists() and not place.is_file():  # a pipe, from which reading may never end
        raise InputError(str(path), "", "it is no regular file", "give the instance as a file")
    try:
        with place.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(
            str(path), "", f"it cannot be read ({error.strerror})", "give a readable file"
        ) from None


@dataclass(slots=True)
class _RunFacts:
    """Facts of a run that are available before it ends."""

    n: int | None = None
    exact: bool | None = None
    prepared: float | None = None


def _solved(spec: Spec, run: Run, facts: _RunFacts) -> Row:
    chosen = None if spec.backend == AUTO else REGISTRY.parse(spec.backend)
    problem = read_instance(spec, run)
    facts.n = problem.n
    backend = choose_backend(problem, run).backend if chosen is None else chosen
    facts.exact = backend.capabilities.exact
    facts.prepared = run.elapsed
    result = solve(problem, backend, run)
    return Row("jtsolve-row", 1, spec, RunStatus(result.status.value), result=result_to_document(result))


_STATUSES: tuple[tuple[type[Exception], RunStatus], ...] = (
    (ImportError, RunStatus.NOT_INSTALLED),
    (RefusedError, RunStatus.REFUSED),
    (LimitError, RunStatus.TOO_LARGE),
    (InternalError, RunStatus.WRONG),
    (MemoryError, RunStatus.OUT_OF_MEMORY),
    (JtsolveError, RunStatus.BAD_INPUT),
)


def _status_of(error: Exception) -> RunStatus:
    if isinstance(error, RefusedError) and any("not installed" in reason for reason in error.reasons):
        return RunStatus.NOT_INSTALLED
    return next(status for kind, status in _STATUSES if isinstance(error, kind))
