"""A CUDA device through CuPy, which is imported only when a device is requested.

Kernels are CUDA C++ text, compiled for the current device at the first run and cached by CuPy. Tables over
pairs of disjoint sets (C, U) lie by C: the C of one size in groups of LANES in colex order, one to a thread
of a warp; U is renamed within the k variables outside C:

    cell(C,U) = base[|C|] + (rank(C) div 32)·32·2^k + 32·U + rank(C) mod 32;   C = ∅ is not grouped.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from math import ceil, comb
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from jtsolve.core.scores import StoppedError
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.options import TREEWIDTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from jtsolve.core.problem import Problem

_REFERENCE_PROCESSORS = 132
"""Multiprocessors of the device on which rates were measured, an H100."""

_SPARE = 100_000_000
"""Bytes of a device left free, for the code of the kernels and their results."""

_AHEAD = 0.2
"""Predicted seconds of launches in flight between two polls of the report: Ctrl-C acts within this time."""

_SLOWNESS = 20.0
"""By how much a device may be slower than predicted, until it is measured."""

_CONTEXT_SECONDS = 1.0
"""Import of CuPy, context, kernels from CuPy's cache on disk."""

LANES = 32
"""Tables side by side: the threads of a warp."""

TEAMS = 8
"""Warps of a block, unless a launch has its own number."""

DeviceChoice = Literal["auto", "cpu", "cuda"]
"""The option `device`: see `choose_device`."""

TABLES = r"""
typedef long long i64;
typedef unsigned u32;
struct Row { int c, u, groups, parts, first; };

// The class of a block, by the first block of each; `block` becomes its number within the class.
__device__ __forceinline__ Row row_of(const Row *rows, int count, int &block) {
    int i = count - 1;
    while (rows[i].first > block) i--;
    block -= rows[i].first;
    return rows[i];
}

// Where the table of the C of a rank begins, among those with c members and k variables outside.
__device__ __forceinline__ i64 table_at(i64 rank, int c, int k) {
    return c ? (rank >> 5 << (k + 5)) + (rank & 31) : 0;
}

__device__ __forceinline__ u32 below(u32 set, int v) { return set & ((1u << v) - 1); }
__device__ __forceinline__ u32 with_zero(u32 set, int v) { return set >> v << (v + 1) | below(set, v); }
"""
"""CUDA C++ of the places of tables and of sets."""


def groups_of(m: int, size: int) -> int:
    """Returns the groups of C of one size, of m variables."""
    return -(-comb(m, size) // (LANES if size else 1))


def table_begins(m: int, width: int) -> NDArray[np.int64]:
    """Returns where the tables of the C of 0, 1, …, `width` members begin, and their end, shape (width + 2,).

    Args:
        m: the number of variables.
        width: the size of the largest C.
    """
    cells = [groups_of(m, c) * (LANES if c else 1) << (m - c) for c in range(width + 1)]
    return np.cumsum([0, *cells])


def tables_of_sets(m: int, sets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns where the tables of sets begin, and the distance from U to U + 1 in them.

    Args:
        m: the number of variables.
        sets: shape (K,): all sets of 0, 1, …, w members, by size, then by mask.
    """
    size = np.bitwise_count(sets).astype(np.int64)
    rank, lanes = np.arange(size.size) - np.searchsorted(size, size), np.where(size, LANES, 1)
    begins = table_begins(m, int(size[-1]))[size] + (rank // lanes * lanes << (m - size)) + rank % lanes
    return begins, lanes


class Launch(NamedTuple):
    """A kernel over the classes (|C|, |U|) of a level.

    Attributes:
        kernel: its name.
        classes: of each, |C|, |U|, the groups of C, the parts of U, and its blocks.
        seconds: predicted, on an H100.
        warps: of a block.
        more: further arguments.
    """

    kernel: str
    classes: Sequence[tuple[int, int, int, int, int]]
    seconds: float
    warps: int = TEAMS
    more: tuple[np.int32, ...] = ()


class DevicePlan(Protocol):
    """The predicted needs of a run on a device."""

    @property
    def memory(self) -> int:
        """Bytes on the device."""
        ...

    @property
    def host_seconds(self) -> float:
        """Seconds of wall clock beside the kernels."""
        ...

    @property
    def kernel_seconds(self) -> float:
        """Seconds of all kernels on an H100."""
        ...


class Device:
    """The current CUDA device: its memory and its kernels.

    Arrays on it are used as numpy's: slices, `view`, `fill`, and the entries at an array of positions.

    Args:
        cupy: the module.

    Attributes:
        speed: rate of work relative to an H100; for predictions only.
    """

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
        self.speed: float = properties["multiProcessorCount"] / _REFERENCE_PROCESSORS
        self.free()  # creates the context, which needs memory itself

    def free(self) -> tuple[int, int]:
        """Releases the memory of dead arrays; returns the free and the total bytes."""
        self.cupy.get_default_memory_pool().free_all_blocks()
        free, total = self.cupy.cuda.runtime.memGetInfo()
        return int(free), int(total)

    def compile(self, source: str) -> Callable[..., None]:
        """Returns launch(name, blocks, threads, *arguments): arrays on the device and numpy scalars.

        Raises:
            ChoiceError: the compiler is missing.
        """
        module = self.cupy.RawModule(code=source, options=("-std=c++17",), backend="nvrtc")
        try:
            module.compile()
        except RuntimeError as error:  # the compiler's library is missing
            raise _unusable(f"CuPy cannot compile ({error})", "pip install 'jtsolve[gpu]'") from error

        def launch(name: str, blocks: int, threads: int, *arguments: Any) -> None:
            module.get_function(name)((blocks,), (threads,), arguments)

        return launch

    def empty(self, size: int, dtype: DTypeLike) -> Any:
        """Returns a new array.

        Raises:
            LimitError: too little memory is free.
        """
        try:
            return self.cupy.empty(size, dtype)
        except self.cupy.cuda.memory.OutOfMemoryError as error:  # taken by others meanwhile
            raise _no_room(self, size * np.dtype(dtype).itemsize) from error

    def upload(self, array: NDArray[Any]) -> Any:
        """Returns a copy on the device, of any shape."""
        copy = self.empty(array.size, array.dtype).reshape(array.shape)
        copy.set(array)
        return copy

    def download(self, array: Any) -> NDArray[Any]:
        """Returns a copy in the memory of the process, of any shape."""
        copy: NDArray[Any] = self.cupy.asnumpy(array)
        return copy

    def wait(self) -> None:
        """Returns when all launches are done."""
        self.cupy.cuda.get_current_stream().synchronize()


_Plan = TypeVar("_Plan", bound=DevicePlan)


def may_have_device() -> bool:
    """Returns whether CuPy is installed, without importing it."""
    return find_spec("cupy") is not None


def open_device() -> Device:
    """Returns the current CUDA device.

    Raises:
        ChoiceError: none can be used; with the reason and the ways out.
    """
    if not may_have_device():
        raise _unusable("the package CuPy is missing", "pip install 'jtsolve[gpu]'")
    try:
        import cupy
    except ImportError as error:
        raise _unusable(f"CuPy cannot be imported ({error})", "another build of CuPy") from error
    runtime = cupy.cuda.runtime
    if not (driver := runtime.driverGetVersion()):
        raise _unusable("there is no NVIDIA driver", "install one")
    if driver // 1000 < (needed := runtime.runtimeGetVersion()) // 1000:
        remedy = f"a newer driver, or the package cupy-cuda{driver // 1000}x"
        raise _unusable(f"the driver is for CUDA {driver // 1000}, CuPy for CUDA {needed // 1000}", remedy)
    try:
        return Device(cupy)
    except runtime.CUDARuntimeError as error:
        raise _unusable(f"the driver finds no usable one ({error})", "free it, or attach one") from error


def lacks_device(_problem: Problem) -> str | None:
    """A rule: objects where no device can be used; see `open_device`."""
    try:
        open_device()
    except ChoiceError as error:
        message = str(error)
        return message[0].upper() + message[1:]
    return None


def _unusable(reason: str, remedy: str) -> ChoiceError:
    return ChoiceError(f"no CUDA device can be used: {reason}. Ways out: {remedy}; device=cpu.")


def choose_device(
    requested: DeviceChoice, plans: Sequence[_Plan], spent: float, worth: float = 2.0
) -> tuple[Device, _Plan] | None:
    """Returns the device and the first plan that fits its free memory, or None for the processor.

    Args:
        requested: value of the option `device`.
        plans: of the problem, the preferred one first; may be empty for "auto": a device does not support it.
        spent: predicted seconds on the processor; inf where the memory has no room.
        worth: predicted saving, in seconds, from which on "auto" uses a device.

    Raises:
        ChoiceError: a device is requested, but none can be used.
        LimitError: it has too little free memory.
    """
    if requested == "cpu" or (requested == "auto" and (not plans or spent < worth or not may_have_device())):
        return None
    try:
        device = open_device()
    except ChoiceError:
        if requested == "cuda":
            raise
        return None  # the processor is the way out
    plan = next((one for one in plans if one.memory + _SPARE <= device.free()[0]), None)
    if requested == "cuda" and plan is None:
        raise _no_room(device, plans[-1].memory)
    if plan is None or (requested == "auto" and spent - predicted_seconds(plan, device) < worth):
        return None
    return device, plan


def predicted_seconds(plan: DevicePlan, device: Device) -> float:
    """Returns the predicted seconds of wall clock of a run."""
    return _CONTEXT_SECONDS + plan.host_seconds + plan.kernel_seconds / device.speed


class DeviceArrays:
    """The arrays of a run on a device, and the kernels over them.

    Every kernel receives all arrays in order, the rows of the classes, their number, the first block, and the
    further arguments of its launch.

    Args:
        device: where.
        source: CUDA C++ of the kernels.
        arrays: on the device, by name.
    """

    def __init__(self, device: Device, source: str, arrays: dict[str, Any]) -> None:
        self.device, self.arrays = device, arrays
        self._launch = device.compile(source)

    def gather(self, array: Any, cells: NDArray[np.int64]) -> NDArray[Any]:
        """Returns the entries at some positions of an array, in the shape of the positions."""
        return self.device.download(array[self.device.upload(cells)])

    def run(self, launches: Iterable[Launch], report: Callable[..., bool]) -> None:
        """Runs launches in order, long ones in ranges of blocks, and waits.

        Args:
            launches: in order.
            report: called with `done` and `note` several times a second; returns whether to continue.

        Raises:
            StoppedError: the report stops it.
        """
        device, listed = self.device, list(launches)
        total = sum(each.seconds for each in listed) / device.speed
        queued = done = 0.0  # predicted seconds
        slowness, polled = _SLOWNESS, time.perf_counter()
        for number, (kernel, classes, seconds, warps, more) in enumerate(listed, start=1):
            rows = np.array(classes, np.int32)
            ends = np.cumsum(rows[:, 4])
            rows[:, 4] = ends - rows[:, 4]
            blocks, predicted = int(ends[-1]), seconds / device.speed
            given = (*self.arrays.values(), device.upload(rows), np.int32(len(rows)))
            each = ceil(blocks / max(1, ceil(predicted * slowness / _AHEAD)))
            for first in range(0, blocks, each):
                size = min(each, blocks - first)
                self._launch(kernel, size, warps * LANES, *given, np.int32(first), *more)
                queued += predicted * size / blocks
                if queued * slowness < _AHEAD:
                    continue
                device.wait()
                slowness = max(1.0, slowness / 2, (time.perf_counter() - polled) / queued)
                done += queued / total
                if not report(done=min(1.0, done), note=f"launch {number} of {len(listed)}"):
                    raise StoppedError
                queued, polled = 0.0, time.perf_counter()
        device.wait()
        if not report(done=1.0):
            raise StoppedError


def _no_room(device: Device, need: int) -> LimitError:
    """Returns the refusal of work for which the device has too little free memory."""
    free, total = device.free()
    return LimitError(
        f"the device needs {need / 1e9:.3g} GB; {free / 1e9:.3g} of its {total / 1e9:.3g} GB are free: "
        "others and the driver hold the rest. Ways out: end the programs that hold it; "
        f"a smaller {TREEWIDTH}; device=cpu."
    )
