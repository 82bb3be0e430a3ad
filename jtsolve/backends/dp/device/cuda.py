"""A CUDA device through CuPy, which is imported only when a device is asked for.

Kernels are CUDA C++ text, compiled for the current device at the first run and cached by CuPy.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from jtsolve.errors import ChoiceError, LimitError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike, NDArray

    from jtsolve.core.problem import Problem

_REFERENCE_PROCESSORS = 132
"""Multiprocessors of the device on which rates were measured, an H100."""

_SPARE = 100_000_000
"""Bytes of a device left free, for the code of the kernels and what they return."""


class Device(Protocol):
    """A device: its memory and its kernels. Arrays on it are opaque; a slice of one is one."""

    @property
    def speed(self) -> float:
        """Rate of work relative to an H100; for predictions only."""
        ...

    def free(self) -> tuple[int, int]:
        """Releases the memory of arrays that are gone; returns the free and all bytes."""
        ...

    def compile(self, source: str) -> Callable[..., None]:
        """Returns launch(name, blocks, threads, *arguments): arrays on the device and numpy scalars."""
        ...

    def empty(self, size: int, dtype: DTypeLike) -> Any:
        """Returns a new array."""
        ...

    def upload(self, array: NDArray[Any]) -> Any:
        """Returns a copy on the device."""
        ...

    def download(self, array: Any) -> NDArray[Any]:
        """Returns a copy in the memory of the process."""
        ...

    def wait(self) -> None:
        """Returns when all launches are done."""
        ...


def may_have_device() -> bool:
    """Tells whether CuPy is installed, without importing it."""
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
        return _CudaDevice(cupy)
    except runtime.CUDARuntimeError as error:
        raise _unusable(f"the driver finds no usable one ({error})", "free it, or attach one") from error


def lacks_device(_problem: Problem) -> str | None:
    """A rule: objects if CuPy is installed but finds no device; see `open_device`."""
    try:
        if may_have_device():
            open_device()
    except ChoiceError as error:
        message = str(error)
        return message[0].upper() + message[1:]
    return None


def _unusable(reason: str, remedy: str) -> ChoiceError:
    return ChoiceError(f"no CUDA device can be used: {reason}. Ways out: {remedy}; device=cpu.")


def require_room(device: Device, need: int) -> None:
    """Refuses work for which the device has too little free memory.

    Raises:
        LimitError: with the need, what is free, and the ways out.
    """
    free, total = device.free()
    if need + _SPARE > free:
        raise LimitError(
            f"the device needs {need / 1e9:.3g} GB; {free / 1e9:.3g} of its {total / 1e9:.3g} GB are free: "
            "others and the driver hold the rest. Ways out: end what holds it; fewer bits or a smaller "
            "treewidth; device=cpu."
        )


def fits(device: Device, need: int) -> bool:
    """Tells whether the device has the bytes free."""
    return need + _SPARE <= device.free()[0]


class _CudaDevice:
    """See `Device`."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
        self.speed: float = properties["multiProcessorCount"] / _REFERENCE_PROCESSORS
        self.free()  # makes the context, which takes memory itself

    def free(self) -> tuple[int, int]:
        self.cupy.get_default_memory_pool().free_all_blocks()
        free, total = self.cupy.cuda.runtime.memGetInfo()
        return int(free), int(total)

    def compile(self, source: str) -> Callable[..., None]:
        module = self.cupy.RawModule(code=source, options=("-std=c++17",), backend="nvrtc")
        try:
            module.compile()
        except RuntimeError as error:  # the compiler's library is missing
            raise _unusable(f"CuPy cannot compile ({error})", "pip install 'jtsolve[gpu]'") from error

        def launch(name: str, blocks: int, threads: int, *arguments: Any) -> None:
            module.get_function(name)((blocks,), (threads,), arguments)

        return launch

    def empty(self, size: int, dtype: DTypeLike) -> Any:
        try:
            return self.cupy.empty(size, dtype)
        except self.cupy.cuda.memory.OutOfMemoryError:  # taken by others meanwhile
            require_room(self, size * np.dtype(dtype).itemsize)
            raise

    def upload(self, array: NDArray[Any]) -> Any:
        return self.cupy.asarray(array)

    def download(self, array: Any) -> NDArray[Any]:
        copy: NDArray[Any] = self.cupy.asnumpy(array)
        return copy

    def wait(self) -> None:
        self.cupy.cuda.get_current_stream().synchronize()
