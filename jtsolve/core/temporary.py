"""Temporary files and folders, locked while in use; those of processes that were killed are removed.

The kernel releases a lock with the process that holds it. Process numbers would be ambiguous, since
containers may share a folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER = "jtsolve-run-"
_FILE = (".jtsolve-", ".tmp")


def locked_file(folder: Path) -> tuple[int, Path]:
    """Returns the descriptor and the path of a new file in a folder, locked until it is closed."""
    _remove_orphans(folder, *_FILE)
    while True:
        handle, name = tempfile.mkstemp(dir=folder, prefix=_FILE[0], suffix=_FILE[1])
        if _is_locked(handle, Path(name)):
            return handle, Path(name)


def locked_folder() -> tuple[int, Path]:
    """Returns the descriptor and the path of a new temporary folder, locked until it is closed.

    Raises:
        InputError: there is no place for it.
    """
    try:
        place = tempfile.gettempdir()
    except FileNotFoundError:
        remedy = "name one in the environment variable TMPDIR"
        raise InputError("TMPDIR", "", "no folder for temporary files can be written", remedy) from None
    _remove_orphans(Path(place), _FOLDER)
    while True:
        name = tempfile.mkdtemp(prefix=_FOLDER)
        handle = os.open(name, os.O_RDONLY)
        if _is_locked(handle, Path(name)):
            return handle, Path(name)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yields a new temporary folder, and removes it at the end."""
    handle, folder = locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
        os.close(handle)


def _is_locked(handle: int, path: Path) -> bool:
    """Locks a new folder; False, and closed, if another process removed it before the lock."""
    with suppress(OSError):  # no locks in this file system: there nothing is ever removed as an orphan
        fcntl.flock(handle, fcntl.LOCK_EX)
    if path.exists():
        return True
    os.close(handle)
    return False


def _remove_orphans(folder: Path, prefix: str, suffix: str = "") -> None:
    """Removes unlocked files and folders, as far as this user has permission."""
    with suppress(OSError), os.scandir(folder) as entries:
        found = [one for one in entries if one.name.startswith(prefix) and one.name.endswith(suffix)]
        for one in found:
            # Each step fails if the owner ends meanwhile, or another process removes the same entry.
            with suppress(OSError):
                _remove_unlocked(Path(one.path))


def _remove_unlocked(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    finally:
        os.close(handle)
