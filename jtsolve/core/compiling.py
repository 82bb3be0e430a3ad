"""Compiled kernels: `kernel` marks one, `announced` tells when one is compiled.

Kernels are inner loops in flat numpy and numba: arrays in, arrays out, no domain types. Each package keeps
its own in a folder `kernels`. Every kernel releases the global lock, so that Python threads run kernels side
by side and the main thread stays free to take Ctrl-C; and every kernel is cached on disk, so that only the
first run compiles.

The cache lies beside the kernels, or in the user's cache folder where the package is read-only. Where neither
can be written (a container with a read-only file system), numba would refuse to load a cached kernel at all;
then each process compiles into a temporary folder of its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
from numba.core import event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _is_writable(folder: Path) -> bool:
    """Tells whether a file can be made in the folder, or in the nearest folder above that exists."""
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _ensure_cache() -> None:
    """Gives numba a temporary cache if it would find no place for one."""
    places = (Path(__file__).parent / "__pycache__", Path.home() / ".cache")
    if "NUMBA_CACHE_DIR" not in os.environ and not any(map(_is_writable, places)):
        folder = tempfile.mkdtemp(prefix="jtsolve-kernels-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["NUMBA_CACHE_DIR"] = folder
        numba.config.reload_config()


_ensure_cache()


def kernel(function: Callable[..., Any] | None = None, *, inline: str = "never") -> Any:
    """Compiles a function when it is first called; inline="always" copies its body into its callers."""
    # Nothing calls a kernel through a C pointer; the wrapper for it is a fifth of the time to compile.
    compiled = numba.njit(nogil=True, cache=True, inline=inline, no_cfunc_wrapper=True)
    return compiled if function is None else compiled(function)


class _Announcer(event.Listener):  # type: ignore[misc]  # numba is untyped
    def __init__(self, announce: Callable[[], object]) -> None:
        self._announce = announce
        self._said = False

    def on_start(self, _event: object) -> None:
        if not self._said:
            self._said = True
            self._announce()

    def on_end(self, _event: object) -> None:
        """Nothing: what follows speaks for itself."""


@contextmanager
def announced(announce: Callable[[], object]) -> Iterator[None]:
    """Calls `announce` once if anything is compiled within; kernels in the cache on disk do not count."""
    with event.install_listener("numba:compile", _Announcer(announce)):
        yield
