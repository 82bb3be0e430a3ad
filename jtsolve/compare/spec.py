"""The unit of work: a run specification in, a row out; both are JSON files of their own."""

from __future__ import annotations

import hashlib
import shlex
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from jtsolve.core.files import read_file
from jtsolve.io.documents import Count, Name, decode, lay_out
from jtsolve.io.result import ResultDocument

if TYPE_CHECKING:
    from pathlib import Path

Positive = Annotated[float, msgspec.Meta(gt=0)]


class InstanceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where an instance is, what to call it in tables, and the SHA-256 of the file: it has to be the same."""

    path: str
    label: Name
    sha256: str


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run: which instance, solved how, within which limits.

    `treewidth` is null for the instance's own constraints alone. Limits are in seconds of wall clock, from
    the start of the process, and in GB (10^9 bytes) of memory, all its children counted; null is no limit. A
    run that exceeds its time by more than `grace` seconds, or its memory at all, is killed.
    """

    format: Literal["jtsolve-run"]
    version: Literal[1]
    instance: InstanceFile
    backend: Name
    seed: Count = 0
    treewidth: Count | None = None
    time_limit: Positive | None = None
    memory_limit: Positive | None = None
    threads: Annotated[int, msgspec.Meta(ge=1)] = 1
    grace: Annotated[float, msgspec.Meta(ge=0)] = 10.0

    @property
    def id(self) -> str:
        """Names the run: a digest of what its answer may depend on; where the file lies is no part of it."""
        parts = (
            self.instance.label,
            self.instance.sha256,
            self.backend,
            self.seed,
            self.treewidth,
            self.time_limit,
            self.memory_limit,
            self.threads,
        )
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:16]

    @property
    def problem(self) -> tuple[str, int | None]:
        """What is solved: the instance's label and the treewidth."""
        return self.instance.label, self.treewidth

    @property
    def command(self) -> str:
        """The command that solves the same by hand."""
        options = {
            "--backend": self.backend,
            "--treewidth": self.treewidth,
            "--time-limit": self.time_limit,
            "--memory-limit": self.memory_limit,
            "--threads": self.threads,
            "--seed": self.seed,
        }
        words = ["jtsolve", "solve", self.instance.path]
        for name, value in options.items():
            if value is not None:
                words += [name, f"{value:g}" if isinstance(value, float) else str(value)]
        return shlex.join(words)


class RunStatus(Enum):
    """How a run ended; the first four are those of a result."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    """The backend does not take the problem, and says why."""
    TOO_LARGE = "too-large"
    """Refused because the work would exceed the limits."""
    NOT_INSTALLED = "not-installed"
    """A package that the backend needs is missing."""
    OUT_OF_TIME = "out-of-time"
    """Killed: it did not end within its time limit and the grace."""
    OUT_OF_MEMORY = "out-of-memory"
    """Killed for exceeding its memory limit, or refused memory by the system."""
    CRASHED = "crashed"
    """The process ended without an answer."""
    WRONG = "wrong"
    """The verification rejects its answer."""
    BAD_INPUT = "bad-input"
    """The instance or the backend's options are not what they have to be."""


ANSWERED = frozenset({RunStatus.OPTIMAL, RunStatus.FEASIBLE, RunStatus.INFEASIBLE, RunStatus.UNKNOWN})
"""The run came to its end and gave a verified result."""
DECLINED = frozenset({RunStatus.REFUSED, RunStatus.TOO_LARGE, RunStatus.NOT_INSTALLED})
"""The run was not begun, for a reason."""


class Prediction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the backend predicted: bytes of memory at the peak, seconds."""

    memory: int
    seconds: float | None


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What came of one run.

    Args:
        spec: the run.
        status: how it ended.
        message: why, where there is no result; else empty.
        result: the verified result, or null.
        n: number of variables, as far as the instance could be read.
        exact: whether the backend proves optimality when it finishes.
        predicted: what the backend predicted before it began.
        prepared: seconds until the backend began, which predictions do not cover.
        trace: of a run without a result, the incumbents and bounds that it had reported, none of them
            verified: [seconds, score, bound].
        seconds: wall clock from the start of the process to its end.
        peak_memory: bytes, of the process and its children together.
        started: date and time, UTC.
        machine: versions and machine.
    """

    format: Literal["jtsolve-row"]
    version: Literal[1]
    spec: Spec
    status: RunStatus
    message: str = ""
    result: ResultDocument | None = None
    n: int | None = None
    exact: bool | None = None
    predicted: Prediction | None = None
    prepared: float | None = None
    trace: list[tuple[float, float | None, float | None]] = []
    seconds: float = 0.0
    peak_memory: int | None = None
    started: str = ""
    machine: dict[str, Any] = {}


def new_row(spec: Spec, status: RunStatus, message: str = "") -> Row:
    """Returns a row without a result."""
    return Row("jtsolve-row", 1, spec, status, message)


def read_spec(path: str | Path) -> Spec:
    """Returns the specification in a file.

    Raises:
        InputError: the file is none; names the place.
    """
    return decode(read_file(path), Spec, str(path))


def read_row(path: str | Path) -> Row:
    """Returns the row in a file.

    Raises:
        InputError: the file is none; names the place.
    """
    return decode(read_file(path), Row, str(path))


def to_json(value: Spec | Row) -> bytes:
    """Returns a specification or a row as JSON for people, in a fixed order."""
    return (lay_out(msgspec.to_builtins(value)) + "\n").encode()
