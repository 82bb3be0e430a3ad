"""The unit of work: a specification of a run, and the row with its outcome, both as JSON."""

from __future__ import annotations

import hashlib
import shlex
import sys
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from jtsolve.core.files import read_file
from jtsolve.io.documents import Count, Name, decode_json, json_bytes
from jtsolve.io.result import ResultDocument

if TYPE_CHECKING:
    from pathlib import Path

Positive = Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]


class InstanceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An instance file, its label in tables, and its SHA-256, which must stay the same."""

    path: str
    label: Name
    sha256: str


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run: the instance, the backend, and the limits.

    `treewidth` is null for the instance's own constraints only. The time limit is in seconds of wall clock
    from the start of the process; the memory limit is in GB (10^9 bytes), children included; null is no
    limit. A run is killed when it exceeds its time limit by more than `grace` seconds, or its memory limit.
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
    grace: Seconds = 10.0

    @property
    def id(self) -> str:
        """A digest of everything that may affect the answer; the path of the file does not."""
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
        """The instance's label and the treewidth."""
        return self.instance.label, self.treewidth

    @property
    def command(self) -> str:
        """The equivalent `jtsolve solve` command."""
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
    """How a run ended; the first four are the statuses of a result."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    """The backend does not support the problem."""
    TOO_LARGE = "too-large"
    """Refused because the work would exceed the limits."""
    NOT_INSTALLED = "not-installed"
    """A package that the backend requires is missing."""
    OUT_OF_TIME = "out-of-time"
    """Killed: still running after its time limit and the grace."""
    OUT_OF_MEMORY = "out-of-memory"
    """Killed for exceeding its memory limit, or denied memory by the system."""
    CRASHED = "crashed"
    """The process ended without a row."""
    WRONG = "wrong"
    """Verification rejects the answer."""
    BAD_INPUT = "bad-input"
    """The instance or an option of the backend is invalid."""


ANSWERED = frozenset({RunStatus.OPTIMAL, RunStatus.FEASIBLE, RunStatus.INFEASIBLE, RunStatus.UNKNOWN})
"""Statuses of runs with a verified result."""
DECLINED = frozenset({RunStatus.REFUSED, RunStatus.TOO_LARGE, RunStatus.NOT_INSTALLED})
"""Statuses of runs that the backend declined before starting."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome of one run.

    Args:
        spec: the run.
        status: how it ended.
        message: the reason if there is no result, else empty.
        result: the verified result, or null.
        n: number of variables, if the instance could be read.
        exact: whether the backend proves optimality when it finishes.
        prepared: seconds until the backend started.
        seconds: wall clock from the start of the process to its end.
        peak_memory: bytes, children included.
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
    prepared: float | None = None
    seconds: float = 0.0
    peak_memory: int | None = None
    started: str = ""
    machine: dict[str, Any] = {}


def new_row(spec: Spec, status: RunStatus, message: str = "") -> Row:
    """Returns a row without a result.

    Args:
        spec: the run.
        status: how it ended.
        message: why there is no result.
    """
    return Row("jtsolve-row", 1, spec, status, message)


def read_spec(path: str | Path) -> Spec:
    """Returns the specification in a file.

    Raises:
        InputError: the file is invalid; names the place.
    """
    return decode_json(read_file(path), Spec, str(path))


def read_row(path: str | Path) -> Row:
    """Returns the row in a file.

    Raises:
        InputError: the file is invalid; names the place.
    """
    return decode_json(read_file(path), Row, str(path))


def to_json(value: Spec | Row) -> bytes:
    """Returns a specification or a row as indented JSON, in a fixed order."""
    return json_bytes(msgspec.to_builtins(value))
