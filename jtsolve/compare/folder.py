"""A comparison on disk.

RUN/plan.json       every run of the grid, the command, the machine                 written once
RUN/results/        a file for each finished run, written whole or not at all
RUN/specs/          with --plan: one specification per file, for a batch system
RUN/lock            held by the writing process; the system releases it when that process ends
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from jtsolve.compare.spec import Row, Spec, read_row, to_json
from jtsolve.core.files import read_file, write_atomically
from jtsolve.core.outputs import claim_outputs
from jtsolve.core.result import Stop
from jtsolve.errors import ChoiceError, InputError
from jtsolve.io.documents import decode_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class ComparisonPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All runs of a comparison, the command and the machine."""

    format: Literal["jtsolve-comparison"]
    version: Literal[1]
    command: str
    created: str
    machine: dict[str, Any]
    specs: list[Spec]


FILES = ("plan.json", "lock", "report.html", "runs.csv")
"""Names of the files of a comparison, beside those of its runs."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of a comparison."""

    path: Path

    @property
    def plan_path(self) -> Path:
        """Path of the plan."""
        return self.path / "plan.json"

    @property
    def results(self) -> Path:
        """The folder of the rows."""
        return self.path / "results"

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
        self._require_regular_files()
        return decode_json(read_file(self.plan_path), ComparisonPlan, str(self.plan_path))

    def write_plan(self, plan: ComparisonPlan) -> None:
        """Writes the plan, and creates the folder if necessary.

        Raises:
            InputError: as `make`; or one of its files is an input of this call.
        """
        self.make()
        claim_outputs(*(self.path / name for name in FILES))
        write_atomically(self.plan_path, msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")

    def make(self) -> None:
        """Creates the folder if it does not exist.

        Raises:
            InputError: it cannot be created, or one of its files is a pipe, a device or a directory.
        """
        _make(self.results)
        self._require_regular_files()

    def _require_regular_files(self) -> None:
        for path in (self.path / name for name in FILES):
            if os.path.lexists(path) and not path.is_file():  # a pipe could block for ever
                raise InputError(str(path), "", "it is no regular file", "remove it, or give another folder")

    def write_specs(self, specs: list[Spec]) -> list[Path]:
        """Writes one file per run, numbered from 1, and returns the paths."""
        folder = self.path / "specs"
        _make(folder)
        paths = [folder / f"{number:05d}.json" for number in range(1, len(specs) + 1)]
        for path, spec in zip(paths, specs, strict=True):
            write_atomically(path, to_json(spec))
        return paths

    def write_row(self, row: Row) -> None:
        """Writes the row of a finished run.

        Raises:
            InputError: it cannot be written.
        """
        write_atomically(self.results / f"{row.spec.id}.json", to_json(row))

    def rows(self) -> dict[str, Row]:
        """Returns the rows of finished runs by run id; interrupted rows of `jtsolve run` are skipped.

        Raises:
            InputError: a file in results/ is not a row.
        """
        found: dict[str, Row] = {}
        for path in sorted(self.results.glob("*.json")):
            if not path.is_file():  # reading from a pipe may never end
                continue
            row = read_row(path)
            if row.result is None or row.result.stop is not Stop.INTERRUPTED:
                found.setdefault(row.spec.id, row)
        return found

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from writing to the comparison in the body.

        Raises:
            ChoiceError: another process holds the lock.
        """
        self.make()
        try:
            lock = (self.path / "lock").open("a")
        except OSError as error:
            reason = f"it cannot be written ({error.strerror})"
            raise InputError(str(self.path), "", reason, "give another folder") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ChoiceError(
                    f"{self.path}: another process is writing to this comparison; wait for it, stop it, or "
                    "give another --output"
                ) from None
            yield


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"the folder cannot be created ({error.strerror})"
        raise InputError(str(folder.parent), "", reason, "give another one") from None
