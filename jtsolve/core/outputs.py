"""The files that a call writes: none of them is one that it reads, and no two are the same.

A front door opens `one_call` around a call. Outputs are claimed before the work, by every option that names
one; inputs are noted as they are opened.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from jtsolve.core.formats import require_name
from jtsolve.core.machine import memory_of_call
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jtsolve.core.formats import FileKind

_Identity: TypeAlias = "tuple[int, int] | str"
"""Device and inode of a file; the path of one that does not exist."""


@dataclass(frozen=True, slots=True)
class _Files:
    read: set[_Identity] = field(default_factory=set)
    written: set[_Identity] = field(default_factory=set)


_FILES: ContextVar[_Files | None] = ContextVar("files", default=None)
"""The files of the current call."""


@contextmanager
def one_call() -> Iterator[None]:
    """Makes one call of the body, or of the function decorated.

    Its inputs and outputs are kept apart, and its limit on memory ends with it.
    """
    token = _FILES.set(_Files())
    try:
        with memory_of_call():
            yield
    finally:
        _FILES.reset(token)


def note_input(path: str | Path) -> None:
    """Notes a file that is about to be read.

    Raises:
        InputError: it is an output of this call.
    """
    files, identity = _FILES.get(), _identity(path)
    if files is not None and identity is not None:
        files.read.add(identity)
        if identity in files.written:
            raise _replaces(path)


def claim_outputs(*paths: str | Path | None, kind: FileKind | None = None) -> None:
    """Checks before a long run that its answers can be written to files; None is none.

    Args:
        paths: of the files.
        kind: their kind of content, whose format their suffixes must name; None where another check does so.

    Raises:
        ChoiceError: a name has the suffix of another format.
        InputError: one cannot be written, is an input of this call, or another output of it.
    """
    files = _FILES.get()
    for path in paths:
        if path is None:
            continue
        _require_writable(path)
        identity = _identity(path)
        if files is not None and identity is not None:
            if identity in files.read:
                raise _replaces(path)
            if identity in files.written:
                raise InputError(
                    str(path), "", "two outputs both name this file", "give each a separate file"
                )
            files.written.add(identity)
        if kind is not None:
            kind.format_to_write(path)


def _replaces(path: str | Path) -> InputError:
    return InputError(str(path), "", "the output would replace the input", "give another name")


def _identity(path: str | Path) -> _Identity | None:
    """Returns the identity of a file under all its names; None for devices, pipes, folders, invalid names."""
    try:
        if not os.path.exists(path):  # noqa: PTH110 - a Path would lose a trailing slash
            return os.path.realpath(path)
        status = os.stat(path)  # noqa: PTH116 - the same
    except (OSError, ValueError):  # the folder of the process has been removed; or an invalid name
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _require_writable(output: str | Path) -> None:
    """Raises InputError, with the reason, if a file cannot be written."""
    require_name(output)
    source, path = str(output), Path(output)
    try:
        folder = path.resolve().parent
        mode = _mode(path)
    except FileNotFoundError:  # the folder of the process has been removed
        raise InputError(source, "", "its folder does not exist", "create the folder first") from None
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a circle of links
        cause = getattr(error, "strerror", None) or str(error)
        raise InputError(source, "", f"it cannot be written ({cause})", "give another name") from None
    if source.endswith("/") or (mode is not None and stat.S_ISDIR(mode)):
        raise InputError(source, "", "it is a directory", "give the name of a file")
    is_device = mode is not None and not stat.S_ISREG(mode)
    if not is_device and not folder.is_dir():
        raise InputError(source, "", "its folder does not exist", "create the folder first")
    replaced = path if is_device else folder  # a file is replaced by a new one in its folder
    if not os.access(replaced, os.W_OK):
        raise InputError(source, "", f"you have no permission to write to {replaced}", "write elsewhere")


def _mode(path: Path) -> int | None:
    """Returns the kind and permissions of a file; None of one that does not exist."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None
