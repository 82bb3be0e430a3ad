"""Runs CUDA source without a device: compiled as C++, each thread of a block a coroutine."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.cuda import Device

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike, NDArray

COMPILER = shutil.which("g++")

_SHIM = r"""
#include <string.h>
#include <ucontext.h>
#define __global__
#define __device__
#define __constant__ static const
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
template <class T> static T max(T x, T y) { return x < y ? y : x; }
template <class T> static T min(T x, T y) { return y < x ? y : x; }
struct Index { int x; };
static Index threadIdx, blockIdx;
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __clz(unsigned x) { return __builtin_clz(x); }
static long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
static double __longlong_as_double(long long y) { double x; memcpy(&x, &y, 8); return x; }

static ucontext_t scheduler, threads[1024];
static char stacks[1024][1 << 15], ended[1024];
static void (*body)();
static void enter() { body(); ended[threadIdx.x] = 1; }
static void __syncthreads() { swapcontext(&threads[threadIdx.x], &scheduler); }

// Every thread runs to its next barrier in turn; all have to come to as many.
template <class Body> static int run(int blocks, int size, const Body &call) {
    static const Body *current;
    current = &call;
    body = [] { (*current)(); };
    for (int block = 0; block < blocks; block++) {
        for (int i = 0; i < size; i++) {
            getcontext(&threads[i]);
            threads[i].uc_stack.ss_sp = stacks[i];
            threads[i].uc_stack.ss_size = sizeof stacks[i];
            threads[i].uc_link = &scheduler;
            makecontext(&threads[i], enter, 0);
            ended[i] = 0;
        }
        blockIdx.x = block;
        for (int left = size; left;) {
            left = 0;
            for (int i = 0; i < size; i++) {
                threadIdx.x = i;
                swapcontext(&scheduler, &threads[i]);
                left += !ended[i];
            }
            if (left && left != size) return 1;
        }
    }
    return 0;
}
"""


class _Array(np.ndarray):
    """Like an array of CuPy."""

    def set(self, array: NDArray[Any]) -> None:
        assert (self.shape, self.dtype) == (array.shape, array.dtype)
        self[...] = array


class Emulator(Device):
    """A device in the memory of the process: emulates CuPy.

    Args:
        room: its free bytes.
        damage: a text of the source, and what replaces it.
        speed: see `Device`.
    """

    def __init__(
        self, *, room: int = 1 << 33, damage: tuple[str, str] = ("", ""), speed: float = 1.0
    ) -> None:
        self.room, self.damage = room, damage
        self.launched: list[str] = []
        runtime = SimpleNamespace(
            getDevice=int,
            getDeviceProperties=lambda _device: {"multiProcessorCount": 132},
            memGetInfo=lambda: (self.room, 1 << 34),
        )
        stream = SimpleNamespace(synchronize=lambda: None)
        errors = SimpleNamespace(OutOfMemoryError=MemoryError)
        super().__init__(
            SimpleNamespace(
                cuda=SimpleNamespace(runtime=runtime, memory=errors, get_current_stream=lambda: stream),
                get_default_memory_pool=lambda: SimpleNamespace(free_all_blocks=lambda: None),
                RawModule=self._module,
                empty=self._empty,
                asnumpy=np.array,
            )
        )
        self.speed = speed

    def _empty(self, size: int, dtype: DTypeLike) -> Any:
        if size * np.dtype(dtype).itemsize > self.room:
            raise MemoryError
        return np.full(size * np.dtype(dtype).itemsize, 77, np.uint8).view(dtype).view(_Array)

    def _module(self, code: str, options: tuple[str, ...], backend: str) -> SimpleNamespace:
        assert (options, backend) == (("-std=c++17",), "nvrtc")
        before, after = self.damage
        assert before in code
        library = _library(code.replace(before, after) if before else code)

        def function(name: str) -> Callable[..., None]:
            def launch(blocks: tuple[int], threads: tuple[int], arguments: tuple[Any, ...]) -> None:
                self.launched.append(name)
                given = [
                    ctypes.c_void_p(one.ctypes.data)
                    if isinstance(one, np.ndarray)
                    else {4: ctypes.c_int, 8: ctypes.c_longlong}[one.itemsize](int(one))
                    for one in arguments
                ]
                assert library[f"run_{name}"](*blocks, *threads, *given) == 0

            return launch

        return SimpleNamespace(compile=lambda: None, get_function=function)


class Ledger(Emulator):
    """Counts the bytes of arrays, and runs no kernel."""

    taken = 0

    def compile(self, source: str) -> Callable[..., None]:  # noqa: ARG002
        return lambda *_: None

    def empty(self, size: int, dtype: DTypeLike) -> Any:
        return self.upload(np.zeros(size, dtype))

    def upload(self, array: NDArray[Any]) -> Any:
        self.taken += array.nbytes
        return array


@cache
def _library(source: str) -> ctypes.CDLL:
    code = _SHIM + source
    kernels = r'extern "C" __global__ void\s(?:__launch_bounds__\([^)]*\)\s)?(\w+)\(([^)]*)\)'
    for name, parameters in re.findall(kernels, source):
        names = ", ".join(one.split()[-1].lstrip("*&") for one in parameters.split(","))
        code += f'extern "C" int run_{name}(int blocks_, int threads_, {parameters}) {{\n'
        code += f"    return run(blocks_, threads_, [&] {{ {name}({names}); }});\n}}\n"
    folder = Path(tempfile.mkdtemp(prefix="jtsolve-emulator-"))
    (folder / "kernels.cpp").write_text(code, encoding="utf-8")
    command = [str(COMPILER), "-std=c++17", "-O0", "-w", "-shared", "-fPIC", "-Wl,-Bsymbolic"]
    subprocess.run(  # noqa: S603 - the compiler on text of this repository
        [*command, "-o", str(folder / "kernels.so"), str(folder / "kernels.cpp")], check=True
    )
    return ctypes.CDLL(str(folder / "kernels.so"))
