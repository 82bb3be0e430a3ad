"""A comparison on disk: a folder with the plan and a journal.

    RUN/plan.json       every run of the grid, the command, the machine                 written once
    RUN/journal.jsonl   one JSON line per finished run, synced to disk                   append-only
    RUN/specs/          with --plan: one specification per file, for a batch system
    RUN/results/        rows written by `jtsolve run`, one per file
    RUN/lock            held by the writing process; the system releases it when that process ends

A line of the journal is written with a single call. If the machine stops in the middle, the line has no
newline: readers ignore it, and the next writer removes it.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from jtsolve.compare.spec import Row, Spec, read_row, to_json
from jtsolve.core.files import read_file, write_atomically
from jtsolve.core.result import Stop
from jtsolve.errors import ChoiceError, InputError
from jtsolve.io.documents import decode_json

if TYPE_CHECKING:
    from collections.abc import Iterator


class ComparisonPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All runs of a comparison, the command and the machine.

    `request` holds the values of all options of the command that affect the runs, so that --resume can accept
    the same options.
    """

    format: Literal["jtsolve-comparison"]
    version: Literal[1]
    command: str
    created: str
    machine: dict[str, Any]
    specs: list[Spec]
    request: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of a comparison."""

    path: Path

    @property
    def plan_path(self) -> Path:
        """Path of the plan."""
        return self.path / "plan.json"

    @property
    def journal_path(self) -> Path:
        """Path of the journal."""
        return self.path / "journal.jsonl"

    def exists(self) -> bool:
        """Returns whether the folder holds a comparison."""
        return self.plan_path.is_file()

    def plan(self) -> ComparisonPlan:
        """Returns the plan.

        Raises:
            InputError: it is missing or damaged.
        """
        if not self.exists():
            raise InputError(
                str(self.path), "", "there is no comparison here", "give the --output of 'jtsolve compare'"
            )
        return decode_json(read_file(self.plan_path), ComparisonPlan, str(self.plan_path))

    def write_plan(self, plan: ComparisonPlan) -> None:
        """Writes the plan atomically, and creates the folder if necessary."""
        self.make()
        write_atomically(self.plan_path, msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")

    def make(self) -> None:
        """Creates the folder if it does not exist.

        Raises:
            InputError: it cannot be created.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                str(self.path), "", f"the folder cannot be created ({error.strerror})", "give another one"
            ) from None

    def write_specs(self, specs: list[Spec]) -> list[Path]:
        """Writes one file per run, numbered from 1, and returns the paths."""
        folder = self.path / "specs"
        folder.mkdir(exist_ok=True)
        (self.path / "results").mkdir(exist_ok=True)
        paths = [folder / f"{number:05d}.json" for number in range(1, len(specs) + 1)]
        for path, spec in zip(paths, specs, strict=True):
            write_atomically(path, to_json(spec))
        return paths

    def rows(self) -> dict[str, Row]:
        """Returns the rows of finished runs by run id, in the order in which they finished.

        If a run occurs twice, its first row counts. Interrupted rows of `jtsolve run` are skipped.

        Raises:
            InputError: a complete line, or a file in results/, is not a row.
        """
        found: dict[str, Row] = {}
        lines = self.journal_path.read_bytes().split(b"\n")[:-1] if self.journal_path.is_file() else []
        for number, line in enumerate(lines, 1):
            row = decode_json(line, Row, f"{self.journal_path}: line {number}")
            found.setdefault(row.spec.id, row)
        for path in sorted((self.path / "results").glob("*.json")):
            if not path.is_file():  # reading from a pipe may never end
                continue
            row = read_row(path)
            if row.result is None or row.result.stop is not Stop.INTERRUPTED:
                found.setdefault(row.spec.id, row)
        return found

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        """Yields the journal for appending, under an exclusive lock.

        Raises:
            ChoiceError: another process holds the lock.
        """
        self.make()
        with (self.path / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ChoiceError(
                    f"{self.path}: another process is writing to this comparison; wait for it, stop it, or "
                    "give another --output"
                ) from None
            handle = os.open(self.journal_path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                yield Journal(str(self.journal_path), handle)
            finally:
                os.close(handle)


@dataclass(slots=True)
class Journal:
    """The rows on disk, one line each; thread-safe."""

    path: str
    handle: int
    _length: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Removes an unfinished last line, left when the machine stopped."""
        self._length = Path(self.path).read_bytes().rfind(b"\n") + 1
        os.ftruncate(self.handle, self._length)

    def append(self, row: Row) -> None:
        """Writes a row and syncs it to disk.

        Raises:
            InputError: it cannot be written; the journal is then unchanged.
        """
        line = msgspec.json.encode(row) + b"\n"
        with self._lock:
            try:
                written = os.write(self.handle, line)
                os.fsync(self.handle)
                if written < len(line):
                    raise OSError(0, "no room for a whole line")  # noqa: TRY301 - treated as an error of the system
            except OSError as error:
                os.ftruncate(self.handle, self._length)
                reason = f"a row cannot be written ({error.strerror}); earlier rows are safe"
                remedy = "free some space, then continue with --resume"
                raise InputError(self.path, "", reason, remedy) from None
            self._length += len(line)
