"""What a comparison keeps on disk: a folder with the plan and a journal.

    RUN/plan.json       every run of the grid, the command, the machine                 written once
    RUN/journal.jsonl   one JSON line per finished run, on the disk before it counts     only ever appended to
    RUN/specs/          with --plan: a specification per file, for a batch system
    RUN/results/        rows that `jtsolve run` wrote, one per file
    RUN/lock            held by the process that writes; the system drops it when that process ends

A journal line is written with one call. If the machine stops in the middle of it, the line has no end: it is
no row, is left out when reading, and is cut off before the next one is written.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from jtsolve.compare.spec import Row, Spec, read_row, to_json
from jtsolve.core.files import read_file, write_atomically
from jtsolve.core.result import Stop
from jtsolve.errors import ChoiceError, InputError
from jtsolve.io.documents import decode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class ComparisonPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All runs of a comparison, and how it was asked for."""

    format: Literal["jtsolve-comparison"]
    version: Literal[1]
    command: str
    created: str
    machine: dict[str, Any]
    specs: list[Spec]


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of a comparison."""

    path: Path

    @property
    def plan_path(self) -> Path:
        """The file of the plan."""
        return self.path / "plan.json"

    @property
    def journal_path(self) -> Path:
        """The file of the rows."""
        return self.path / "journal.jsonl"

    def exists(self) -> bool:
        """Tells whether there is a comparison here."""
        return self.plan_path.exists()

    def plan(self) -> ComparisonPlan:
        """Returns the plan.

        Raises:
            InputError: there is none, or it is damaged.
        """
        if not self.exists():
            raise InputError(
                str(self.path), "", "there is no comparison here", "give the --output of 'jtsolve compare'"
            )
        return decode(read_file(self.plan_path), ComparisonPlan, str(self.plan_path))

    def write_plan(self, plan: ComparisonPlan) -> None:
        """Writes the plan, whole or not at all, and makes the folder if need be."""
        self.make()
        write_atomically(self.plan_path, msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")

    def make(self) -> None:
        """Makes the folder, if it is not there.

        Raises:
            InputError: it cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                str(self.path), "", f"the folder cannot be made ({error.strerror})", "give another one"
            ) from None

    def write_specs(self, specs: list[Spec]) -> list[Path]:
        """Writes a file per run, numbered from 1, and returns their paths."""
        folder = self.path / "specs"
        folder.mkdir(exist_ok=True)
        (self.path / "results").mkdir(exist_ok=True)
        paths = [folder / f"{number:05d}.json" for number in range(1, len(specs) + 1)]
        for path, spec in zip(paths, specs, strict=True):
            write_atomically(path, to_json(spec))
        return paths

    def rows(self) -> dict[str, Row]:
        """Returns the rows of finished runs, by the run's id, in the order in which they finished.

        Of a run that is there twice, the first counts. Rows of `jtsolve run` that were interrupted are left
        out.

        Raises:
            InputError: a line that has an end, or a file in results/, is no row.
        """
        found: dict[str, Row] = {}
        lines = self.journal_path.read_bytes().split(b"\n")[:-1] if self.journal_path.exists() else []
        for number, line in enumerate(lines, 1):
            row = decode(line, Row, f"{self.journal_path}: line {number}")
            found.setdefault(row.spec.id, row)
        for path in sorted((self.path / "results").glob("*.json")):
            row = read_row(path)
            if row.result is None or row.result.stop is not Stop.INTERRUPTED:
                found.setdefault(row.spec.id, row)
        return found

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        """Yields the journal to append to, while no other process may.

        Raises:
            ChoiceError: another process writes here.
        """
        self.make()
        with (self.path / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ChoiceError(
                    f"{self.path}: another process is at work on this comparison; wait for it, end it, or "
                    "give another --output"
                ) from None
            handle = os.open(self.journal_path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                yield Journal(str(self.journal_path), handle)
            finally:
                os.close(handle)


@dataclass(slots=True)
class Journal:
    """Rows on the disk, one line each; several threads may append."""

    path: str
    handle: int
    _length: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Cuts off a last line that has no end: it was being written when the machine stopped."""
        size = os.fstat(self.handle).st_size
        end = size
        while end > 0:
            begin = max(0, end - 65536)
            newline = os.pread(self.handle, end - begin, begin).rfind(b"\n")
            if newline >= 0:
                end = begin + newline + 1
                break
            end = begin
        if end < size:
            os.ftruncate(self.handle, end)
        self._length = end

    def append(self, row: Row) -> None:
        """Writes a row and returns when it is on the disk.

        Raises:
            InputError: it cannot be written; then nothing of it is there.
        """
        line = msgspec.json.encode(row) + b"\n"
        with self._lock:
            try:
                written = os.write(self.handle, line)
                os.fsync(self.handle)
                if written < len(line):
                    raise OSError(0, "no room for a whole line")  # noqa: TRY301 - handled as the system's own
            except OSError as error:
                os.ftruncate(self.handle, self._length)
                raise InputError(
                    self.path,
                    "",
                    f"a row cannot be written ({error.strerror}); those before it are safe",
                    "free space, and go on with --resume",
                ) from None
            self._length += len(line)
