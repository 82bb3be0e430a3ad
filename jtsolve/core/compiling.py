"""Compiled kernels: `kernel` marks one, `compiling_now` tells of one that is being compiled.

Kernels are inner loops in numpy and numba: arrays in, arrays out, no domain types. Each package keeps its
own in a folder `kernels`. Every kernel releases the global interpreter lock, so that threads run kernels in
parallel and the main thread can receive Ctrl-C; and is cached on disk, so that only the first run compiles.

The cache is beside the kernels, or in the user's cache folder where the package is read-only. Where neither
is writable (a container with a read-only file system), numba would fail to load cached kernels; then each
process compiles into a temporary folder. Under a limit on memory, a kernel is compiled only if that fits.

numba distinguishes compiled functions of one name, such as the parts of `sort` and those of `argsort`, by
numbers that it counts from 1 in every process. In kernels cached by different processes the same number may
stand for both; then one is called for the other, without an error, and `argsort` has returned 0, 1, 2, …
(numba, issue 10486). The numbers of all that is compiled after this module is loaded are drawn at random.
"""

from __future__ import annotations

import atexit
import os
import pickle
import secrets
import shutil
import tempfile
import threading
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
from numba.core import event
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import IndexDataCacheFile
from numba.core.registry import cpu_target

from jtsolve.core.machine import allowed_memory, require_memory
from jtsolve.core.temporary import locked_folder

if TYPE_CHECKING:
    from collections.abc import Callable

_COMPILED = 100_000_000
"""The most bytes of one compilation (`partitions.score_features`)."""


def _is_writable(folder: Path) -> bool:
    """Returns whether a file can be created in the folder, or in its nearest existing parent."""
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _ensure_cache() -> bool:
    """Gives numba a temporary cache if no default place is writable; returns whether the cache is kept."""
    places = (Path(__file__).parent / "__pycache__", Path.home() / ".cache")
    if "NUMBA_CACHE_DIR" in os.environ or any(map(_is_writable, places)):
        return True
    _, folder = locked_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    numba.config.reload_config()
    return False


_HOW_OFTEN = "(first run only)" if _ensure_cache() else "(set NUMBA_CACHE_DIR to keep them for the next run)"
# There is no public way. A counter with a random start would be shared by processes that are forked.
FunctionIdentity._unique_ids = iter(partial(secrets.randbits, 63), None)  # noqa: SLF001
if allowed_memory() is not None:  # take the memory that was asked for, before anything else does
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    inline: str = "never",
    allocates: bool = True,
    reassociates: bool = False,
) -> Any:
    """Compiles a function at its first call, and caches the machine code on disk.

    A small kernel that makes no arrays can be declared with allocates=False: it then does not count
    references to its arrays, an atomic operation for each array at each call, which may cost more than the
    rest.

    Args:
        function: to compile; None where the decorator is called with options.
        inline: "always" copies the body into the callers, "never" does not.
        allocates: whether the kernel makes arrays.
        reassociates: whether sums and products of floats may be computed in any order, on vectors.
    """
    # `_nrt` is a private option of numba. Nothing calls a kernel through a C pointer; the wrapper for it is a
    # fifth of the time to compile.
    decorate = numba.njit(
        nogil=True,
        cache=True,
        inline=inline,
        no_cfunc_wrapper=True,
        fastmath={"reassoc", "contract"} if reassociates else False,
        _nrt=allocates,
    )

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = decorate(function)
        dispatcher._cache._cache_file.__class__ = _CacheFile  # noqa: SLF001 - there is no public way
        dispatcher.get_call_template = partial(_called, dispatcher.get_call_template)
        return dispatcher

    return compiled if function is None else compiled(function)


def _called(resolve: Callable[..., Any], given: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Resolves a call from another kernel; numba would compile once more for each constant argument."""
    plain = numba.types.unliteral
    return resolve(tuple(map(plain, given)), {name: plain(kind) for name, kind in keywords.items()})


class _CacheFile(IndexDataCacheFile):  # type: ignore[misc]  # numba is untyped
    """The files of a kernel in the cache, each with its digest, and the source that it was compiled from.

    A full disk, a killed process or a damaged disk leaves files behind that would end a later run, or be
    executed. Files that are not as they were written are compiled again, and replaced. Where none can be
    written, later processes compile again.
    """

    def save(self, key: Any, data: Any) -> None:
        """Stores a compiled kernel, if the disk has room."""
        with suppress(OSError):
            super().save(key, data)

    def _save_index(self, overloads: dict[Any, Any]) -> None:
        self._save_data(self._index_name, overloads)

    def _load_index(self) -> dict[Any, Any]:
        try:
            found: dict[Any, Any] = self._load_data(self._index_name)
        except FileNotFoundError:
            return {}
        return found

    def _save_data(self, name: str, data: Any) -> None:
        content = self._dump((self._version, self._source_stamp, self._dump(data)))
        with self._open_for_write(self._data_path(name)) as stream:
            stream.write(sha256(content).digest() + content)

    def _load_data(self, name: str) -> Any:
        """Returns what was stored; raises FileNotFoundError, which numba takes for a kernel to compile."""
        with suppress(OSError):
            stored = Path(self._data_path(name)).read_bytes()
            digest, content = stored[: sha256().digest_size], stored[sha256().digest_size :]
            if sha256(content).digest() == digest:
                version, stamp, data = pickle.loads(content)  # noqa: S301 - its digest is right
                if (version, stamp) == (self._version, self._source_stamp):
                    return pickle.loads(data)  # noqa: S301 - the same
        raise FileNotFoundError(name)


class _Compilations(event.Listener):  # type: ignore[misc]  # numba is untyped
    """Counts the compilations in progress, in any thread; kernels cached on disk do not count."""

    def __init__(self) -> None:
        self.running = 0
        self._lock = threading.Lock()

    def on_start(self, _event: object) -> None:
        """Counts a compilation that begins."""
        with self._lock:
            self.running += 1
            outermost = self.running == 1
        if outermost and (most := allowed_memory()) is not None:
            once = "or one run without it: compiled kernels are kept, and need less"
            require_memory(_COMPILED, most, "compiling the kernels needs", once)

    def on_end(self, _event: object) -> None:
        """Counts a compilation that ends."""
        with self._lock:
            self.running -= 1


_compilations = _Compilations()
event.register("numba:compile", _compilations)


def compiling_now() -> str | None:
    """Returns how often kernels are compiled, if one is being compiled now; `core.run` announces it."""
    return _HOW_OFTEN if _compilations.running > 0 else None
