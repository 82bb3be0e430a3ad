"""The machine and this process: cores, memory and the limit on it, and a description for results."""

from __future__ import annotations

import os
import platform
import resource
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtsolve.core.version import __version__
from jtsolve.errors import ChoiceError, LimitError, printable
from jtsolve.options import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator


_MODULES, _SMALL = 10_000_000, 5_000_000
"""Bytes that modules of the package take after the start of a call, and small objects at any time."""
_LIBRARIES = {
    "numba": 190_000_000,
    "polars": 70_000_000,
    "scipy.linalg": 16_000_000,
    "scipy.special": 33_000_000,
    "scipy.sparse": 15_000_000,
    "scipy.optimize": 32_000_000,
    "scipy.sparse.csgraph": 14_000_000,
    "matplotlib": 40_000_000,
    "networkx": 25_000_000,
    "sklearn": 95_000_000,
}
"""Bytes of large libraries besides those that they load, with what their first use takes: the most of two
installations, which differ by up to 80 %."""


class _Libraries:
    """A finder of modules that finds none: it refuses large libraries that exceed the limit of the call."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        """Requires the memory of a library that is about to be loaded."""
        size, call = _LIBRARIES.get(name), _CALL.get()
        if size is not None and call is not None and call.most is not None:
            require_memory(size, call.most, f"with the library {name}, this call needs")
            call.promised = max(resident_memory(), call.promised) + size


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(slots=True)
class _Call:
    """One call of the user.

    Attributes:
        most: bytes that the process may hold until it ends; None for no limit.
        promised: bytes that it may hold once the libraries that it has loaded are in use.
    """

    most: int | None
    promised: int = 0


_CALL: ContextVar[_Call | None] = ContextVar("call", default=None)


def allow_memory(most: int | None) -> None:
    """Limits the memory of the process until the call ends; outside `memory_of_call`, does nothing.

    Libraries and the compilation of kernels count; see also `free_memory`.

    Args:
        most: bytes that the process may hold; None for the limit of the call around it, if any.

    Raises:
        LimitError: the program needs more before it has done anything.
    """
    if most is not None and (call := _CALL.get()) is not None:
        call.most = most
        if _Libraries not in sys.meta_path:
            sys.meta_path.insert(0, _Libraries)
        require_memory(_MODULES, most, "this call needs")


@contextmanager
def memory_of_call() -> Iterator[None]:
    """Limits the effect of `allow_memory` to the body, or to a call of the decorated function."""
    token = _CALL.set(_Call(allowed_memory()))
    try:
        yield
    finally:
        _CALL.reset(token)


def allowed_memory() -> int | None:
    """Returns the bytes that the process may hold during the current call; None without a limit."""
    call = _CALL.get()
    return None if call is None else call.most


def free_memory(group: Path = Path("/sys/fs/cgroup")) -> int:
    """Returns the bytes still available to this process.

    The least of those on the machine, in its control group with this folder, under the limit of the shell
    (`ulimit -v`), and under that of the call.
    """
    free = _available()
    space, table = resource.getrlimit(resource.RLIMIT_AS)[0], Path("/proc/self/statm")
    if space != resource.RLIM_INFINITY and table.is_file():
        pages = int(table.read_text(encoding="ascii").split()[0])
        free = min(free, space - pages * resource.getpagesize())
    if (allowed := allowed_memory()) is not None:
        free = min(free, allowed - resident_memory())
    limit, used = group / "memory.max", group / "memory.current"
    if limit.is_file() and used.is_file() and (most := limit.read_text(encoding="ascii").strip()) != "max":
        free = min(free, int(most) - int(used.read_text(encoding="ascii")))
    return max(0, free)


def _available() -> int:
    """Returns the bytes available on the machine."""
    if (found := _system_entry("meminfo", "MemAvailable")) is not None:
        return int(found.split()[0]) * 1024
    import psutil

    return int(psutil.virtual_memory().available)


def memory_bytes(gigabytes: float | None) -> int | None:
    """Returns a limit on memory in bytes; None for no limit.

    Raises:
        ChoiceError: it is not finite, or below one byte.
    """
    if gigabytes is None:
        return None
    if not (isinstance(gigabytes, Real) and 1 <= gigabytes * 1e9 < inf):
        raise ChoiceError(f"the memory limit is {gigabytes} GB; give a finite number above 0")
    return int(gigabytes * 1e9)


def resident_memory() -> int:
    """Returns the resident memory of this process in bytes."""
    table = Path("/proc/self/statm")
    if table.is_file():
        return int(table.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    import psutil

    return int(psutil.Process().memory_info().rss)


def base_memory(*, kernels: bool = False) -> int:
    """Returns the bytes that the process holds besides the tables of its work.

    Args:
        kernels: whether the work uses compiled kernels.
    """
    call, unloaded = _CALL.get(), kernels and "numba" not in sys.modules
    held = max(resident_memory(), 0 if call is None else call.promised)
    return held + _SMALL + unloaded * _LIBRARIES["numba"]


def require_memory(size: int, most: int, what: str, remedies: str = "where the machine has it") -> None:
    """Refuses an allocation with which the process would hold more than a limit; see `Run.require_memory`.

    Args:
        size: bytes that will be held besides those held now.
        most: bytes that the process may hold.
        what: begins the refusal, with the verb.
        remedies: besides a larger one, or where to give it: "fewer columns".

    Raises:
        LimitError: with the need, the limit, and the remedies.
    """
    if (whole := base_memory() + size) > most:
        need, own, limit = (f"{part / 1e9:.3g} GB" for part in (whole, resident_memory(), most))
        raise LimitError(
            f"{what} {need} of memory, {own} of which the program holds already, but the limit is {limit}. "
            f"Ways out: a larger {MEMORY}, {remedies}"
        )


def peak_memory() -> int:
    """Returns the peak resident memory of this process in bytes."""
    if (found := _system_entry("self/status", "VmHWM")) is not None:
        return int(found.split()[0]) * 1024
    # Not on Linux, where this also counts the memory of the parent before exec.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def describe_machine(threads: int) -> dict[str, Any]:
    """Returns the context of a timing: versions, machine, threads, command."""
    return {
        "jtsolve": __version__,
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        "numba": _version("numba"),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "command": printable(" ".join([_program(), *sys.argv[1:]])),
    }


@lru_cache  # a look-up takes longer than a small solve
def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


def _program() -> str:
    """Returns the name of the running program, without its folder."""
    name = Path(sys.argv[0]).name
    return "jtsolve" if name == "__main__.py" else name


@lru_cache(maxsize=1)
def _processor() -> str:
    """Returns the model of the processor, as the system names it."""
    return _system_entry("cpuinfo", "model name") or platform.processor()


def _system_entry(name: str, key: str) -> str | None:
    """Returns the first value of a key in a file of `/proc`; None without one, as on macOS."""
    table = Path("/proc", name)
    if not table.is_file():
        return None
    entries = (line.partition(":") for line in table.read_text("utf-8", "replace").splitlines())
    return next((value.strip() for one, _, value in entries if one.strip() == key), None)
