"""Runs CUDA source without a device: compiled as C++, each thread of a block a coroutine."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike, NDArray

COMPILER = shutil.which("g++")

_SHIM = r"""
#include <ucontext.h>
#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>
#define __global__
#define __device__
#define __constant__ static const
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
using std::max; using std::min;
struct Index { int x; };
static Index threadIdx, blockIdx;
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __clz(unsigned x) { return __builtin_clz(x); }
static long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
static double __longlong_as_double(long long y) { double x; memcpy(&x, &y, 8); return x; }

static ucontext_t scheduler;
static std::vector<ucontext_t> threads;
static std::vector<std::vector<char>> stacks;
static std::vector<char> ended;
static std::function<void()> body;
static void enter() { body(); ended[threadIdx.x] = 1; }
static void __syncthreads() { swapcontext(&threads[threadIdx.x], &scheduler); }

// Every thread runs to its next barrier in turn; all have to come to as many.
static int run(int blocks, int size) {
    if (stacks.size() < (size_t)size) {
        stacks.resize(size, std::vector<char>(1 << 15)); threads.resize(size); ended.resize(size);
    }
    for (int block = 0; block < blocks; block++) {
        for (int i = 0; i < size; i++) {
            getcontext(&threads[i]);
            threads[i].uc_stack.ss_sp = stacks[i].data();
            threads[i].uc_stack.ss_size = stacks[i].size();
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


class Emulator:
    """Like `core.cuda.Device`, in the memory of the process."""

    speed = 1.0

    def __init__(self, *, room: int = 1 << 33, damage: tuple[str, str] = ("", "")) -> None:
        self.room, self.damage = room, damage
        self.launched: list[str] = []

    def free(self) -> tuple[int, int]:
        return self.room, 1 << 34

    def compile(self, source: str) -> Callable[..., None]:
        before, after = self.damage
        assert before in source
        library = _library(source.replace(before, after) if before else source)

        def launch(name: str, blocks: int, threads: int, *arguments: Any) -> None:
            self.launched.append(name)
            given = [
                ctypes.c_void_p(one.ctypes.data)
                if isinstance(one, np.ndarray)
                else {4: ctypes.c_int, 8: ctypes.c_longlong}[one.itemsize](int(one))
                for one in arguments
            ]
            assert library[f"run_{name}"](blocks, threads, *given) == 0

        return launch

    def empty(self, size: int, dtype: DTypeLike) -> Any:
        return np.full(size * np.dtype(dtype).itemsize, 77, np.uint8).view(dtype)

    def upload(self, array: NDArray[Any]) -> Any:
        return np.array(array, order="C")

    def download(self, array: Any) -> NDArray[Any]:
        return np.array(array)

    def wait(self) -> None:
        pass


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
        code += f"    body = [=]() {{ {name}({names}); }};\n    return run(blocks_, threads_);\n}}\n"
    folder = Path(tempfile.mkdtemp(prefix="jtsolve-emulator-"))
    (folder / "kernels.cpp").write_text(code, encoding="utf-8")
    command = [str(COMPILER), "-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-Wl,-Bsymbolic"]
    subprocess.run(  # noqa: S603 - the compiler on text of this repository
        [*command, "-o", str(folder / "kernels.so"), str(folder / "kernels.cpp")], check=True
    )
    return ctypes.CDLL(str(folder / "kernels.so"))
