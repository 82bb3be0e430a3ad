"""The dynamic programming and the sums on a CUDA device: seconds, beside the limits of the device.

    python benchmarks/gpu.py --data FOLDER
    python benchmarks/gpu.py --cases 20:20:auto,22:4:auto,18:18:sums

A case is n:clique_size:precision, with standard normal scores of seed n; n:clique_size:sums; or mushroom or
hypothyroid, with BDeu scores of all sets; FOLDER has their raw files. It runs in its own process, whose first
second imports CuPy and compiles or loads the kernels; cases that do not fit the device are left out. The
limits are measured in the same process: bytes copied, and additions with maximum in registers, per second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.averaging.device.plan import SumsPlan
from jtsolve.averaging.device.run import DeviceSums
from jtsolve.averaging.weights import set_weights
from jtsolve.backends.dp.backend import DynamicProgramming
from jtsolve.backends.dp.device.plan import DevicePlan
from jtsolve.backends.dp.plan import BYTES
from jtsolve.core import cuda
from jtsolve.core.cuda import open_device
from jtsolve.core.problem import Problem, Variable
from jtsolve.core.run import Run
from jtsolve.core.scores import DenseScores
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.errors import LimitError
from jtsolve.scoring.problem import WHOLE, problem_from_table
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.solving import solve

sys.path.insert(0, str(Path(__file__).parents[1] / "instances"))

from raw_tables import RECIPES, read_table

if TYPE_CHECKING:
    from collections.abc import Callable

SUMS_COLUMNS = (
    "case",
    "process s",
    "sums s",
    "features s",
    "kernels s",
    "predicted kernels s",
    "GB on the device",
    "log evidence",
    "identity",
)
COLUMNS = (
    "case",
    "precision",
    "process s",
    "scores s",
    "solve s",
    "splits s",
    "finish s",
    "predicted kernels s",
    "GB on the device",
    "splits, of additions",
    "finish, of copies",
    "status",
    "gap",
)
CASES = "18:18:auto,20:20:auto,21:21:float64,22:22:int32,22:22:auto,22:4:auto,25:4:auto,18:18:sums,20:20:sums"
CHAINS = r"""
template <typename T> __device__ void chains(T *out, T step, int rounds) {
    T held[16];
    for (int i = 0; i < 16; i++) held[i] = threadIdx.x + i;
    for (int round = 0; round < rounds; round++)
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const T sum = held[(i + 5) & 15] + step;
            held[i] = sum > held[i] ? sum : held[i];
        }
    T total = 0;
    for (int i = 0; i < 16; i++) total += held[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
extern "C" __global__ void chains_4(int *out, int step, int rounds) { chains(out, step, rounds); }
extern "C" __global__ void chains_6(long long *out, long long step, int rounds) { chains(out, step, rounds); }
extern "C" __global__ void chains_8(double *out, double step, int rounds) { chains(out, step, rounds); }
"""


class Timed:
    """A device whose launches are timed by events."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.marks: list[tuple[str, Any, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)

    def compile(self, source: str) -> Callable[..., None]:
        """See `Device.compile`."""
        launch = self.device.compile(source)
        event = self.device.cupy.cuda.Event

        def timed(name: str, *arguments: Any) -> None:
            begin, end = event(), event()
            begin.record()
            launch(name, *arguments)
            end.record()
            self.marks.append((name, begin, end))

        return timed

    def seconds(self) -> dict[str, float]:
        """Returns the seconds of each kernel."""
        self.device.wait()
        found: dict[str, float] = defaultdict(float)
        for name, begin, end in self.marks:
            found[name] += self.device.cupy.cuda.get_elapsed_time(begin, end) / 1e3
        return found


def limits(device: Any, size: int) -> tuple[float, float]:
    """Returns additions with maximum of numbers of `size` bytes, and bytes read and written, per second."""
    cupy = device.cupy

    def fastest(call: Callable[[], object]) -> float:
        times = []
        for _ in range(5):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            call()
            end.record()
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
        return float(min(times))

    kind = {4: np.int32, 6: np.int64, 8: np.float64}[size]
    blocks, threads, rounds = 2048, 256, 4096
    launch, out = device.compile(CHAINS), device.empty(blocks * threads, kind)
    adding = fastest(lambda: launch(f"chains_{size}", blocks, threads, out, kind(3), np.int32(rounds)))
    source, goal = (device.empty(1 << 30, np.uint8) for _ in range(2))
    copying = fastest(lambda: cupy.copyto(goal, source))
    return 16 * blocks * threads * rounds / adding, 2 * (1 << 30) / copying


def described(device: Any) -> str:
    """Returns the device, its driver and CuPy."""
    cupy = device.cupy
    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(0)
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[0]
    return (
        f"{properties['name'].decode()}, {properties['totalGlobalMem'] / 1e9:.0f} GB; "
        f"driver {driver}, CUDA {runtime.driverGetVersion()}; CuPy {cupy.__version__}"
    )


def drawn(n: int, width: int) -> Problem:
    """Returns a problem with standard normal scores of seed n."""
    values = np.random.default_rng(n).standard_normal(count_bounded_subsets(n, width))
    values[0] = 0
    return Problem(tuple(Variable(f"v{i}") for i in range(n)), DenseScores(n, width, values))


def sum_once(problem: Problem, device: Timed) -> dict[str, str]:
    """Returns the figures of the sums; the identity: expected cliques minus separators, less 1, is 0."""
    plan, run = SumsPlan(problem.n, problem.max_clique_size), Run()
    sums = DeviceSums(set_weights(problem), plan, device, run)  # type: ignore[arg-type]
    log_evidence, seconds, began = sums.log_total, sums.seconds["sums"], time.perf_counter()
    features = sums.features()
    return {
        "sums s": f"{seconds:.2f}",
        "features s": f"{time.perf_counter() - began:.2f}",
        "kernels s": ", ".join(f"{name} {spent:.3f}" for name, spent in sorted(device.seconds().items())),
        "predicted kernels s": f"{plan.kernel_seconds / device.speed:.2f}",
        "GB on the device": f"{plan.memory / 1e9:.2f}",
        "log evidence": f"{log_evidence:.12f}",
        "identity": f"{features.clique.sum() - features.separator.sum() - 1:.1e}",
    }


def solve_once(problem: Problem, precision: str, device: Timed) -> dict[str, str]:
    """Returns the figures of a run of `dp`."""
    vars(cuda)["open_device"] = lambda: device
    result = solve(problem, DynamicProgramming(precision=precision, device="cuda"))  # type: ignore[arg-type]
    kernels = device.seconds()
    plan = DevicePlan(problem.n, problem.max_clique_size, result.stats["precision"])
    adding, copying = limits(device.device, BYTES[plan.precision])
    work: dict[str, float] = defaultdict(float)
    for launch, rate in ((launch, plan.rates[launch.kernel == "finish"]) for launch in plan.launches()):
        work[launch.kernel] += launch.seconds * rate
    return {
        "precision": plan.precision,
        "solve s": f"{result.seconds['total']:.2f}",
        "splits s": f"{kernels['splits']:.4f}",
        "finish s": f"{kernels['finish']:.4f}",
        "predicted kernels s": f"{plan.kernel_seconds / device.speed:.3f}",
        "GB on the device": f"{plan.memory / 1e9:.2f}",
        "splits, of additions": f"{work['splits'] / adding / max(kernels['splits'], 1e-9):.0%}",
        "finish, of copies": f"{work['finish'] / copying / kernels['finish']:.0%}",
        "status": result.status.value,
        "gap": f"{result.gap:.1e}",
        "limits": f"{adding:.3g} additions with maximum and {copying:.3g} bytes copied a second",
    }


def run_once(case: str, data: Path) -> None:
    """Runs one case in this process and prints its figures as JSON."""
    name, *sizes = case.split(":")
    table, kind = (None, sizes[1]) if sizes else (read_table(RECIPES[name], data), "auto")
    began = time.perf_counter()
    if table is None:
        problem = drawn(int(name), int(sizes[0]))
    else:
        problem = problem_from_table(table, Bdeu(1.0), max_size=len(table.names), tabulation=WHOLE)
    row = {"case": case, "scores s": f"{time.perf_counter() - began:.2f}"}
    device = Timed(open_device())
    row |= sum_once(problem, device) if kind == "sums" else solve_once(problem, kind, device)
    print(json.dumps(row | {"device": described(device)}))


def main() -> None:
    """Reads the command line, measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", help=f"default: {CASES}; with --data, mushroom and hypothyroid as well")
    parser.add_argument("--data", type=Path, help="folder of the raw UCI files")
    parser.add_argument("--output", type=Path, default=Path("docs/benchmarks/gpu.md"))
    parser.add_argument("--once", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        try:
            run_once(arguments.once, arguments.data)
        except LimitError as error:
            print(json.dumps({"refused": str(error)}))
        return
    rows = []
    cases = arguments.cases or CASES + (",mushroom,hypothyroid" if arguments.data else "")
    for case in cases.split(","):
        began = time.perf_counter()
        command = [sys.executable, __file__, "--once", case]
        command += ["--data", str(arguments.data)] if arguments.data else []
        row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        if "refused" in row:
            print(f"{case}: {row['refused']}")
            continue
        rows.append({**row, "process s": f"{time.perf_counter() - began:.2f}"})
    if not rows:
        sys.exit("no case fits the device")
    tables = [
        "\n".join(
            [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
            + [f"| {' | '.join(row[column] for column in columns)} |" for row in chosen]
        )
        for columns in (COLUMNS, SUMS_COLUMNS)
        if (chosen := [row for row in rows if ("sums s" in row) == (columns is SUMS_COLUMNS)])
    ]
    measured = {row["precision"]: row["limits"] for row in rows if "limits" in row}
    found = "; ".join([rows[0]["device"], *(f"{kind}: {each}" for kind, each in measured.items())])
    head = f"# The dynamic programming on a device\n\n{found}; {time.strftime('%d %B %Y')}."
    called = f"Command: `python benchmarks/gpu.py {' '.join(sys.argv[1:])}`"
    text = "\n\n".join([head, called, *tables]) + "\n"
    print(text)
    arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
