"""Time of the dynamic programming, beside the machine's rate of additions and beside Junctor.

    python benchmarks/dp_speed.py --cases 12:12,14:14,16:16,16:3 --output docs/benchmarks/dp_speed

A case is n:clique_size; clique_size = n is unbounded. Each runs in a separate process, `--repeat` times
after one uncounted run; the table shows the median. Scores are independent normal numbers, as the time does
not depend on them.

The limit is that of one core: the additions that the recurrences need (4^n / 4 without a bound), divided by
numpy's rate of `maximum(c, a + b, out=c)` on float64 arrays in the cache. If a program `junctor` is on the
PATH, it runs on the same scores and must find the same optimum.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from math import comb
from pathlib import Path

import numpy as np
from publishing import publish

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.machine import peak_memory
from jtsolve.core.problem import Problem, Variable
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import DenseScores
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.solving import solve

COLUMNS = [
    "n",
    "treewidth",
    "precision",
    "seconds",
    "peak GB",
    "predicted GB",
    "additions",
    "G additions/s",
    "limit s",
    "seconds/limit",
    "junctor s",
    "junctor/jtsolve",
]


def add_and_max_rate() -> float:
    """Returns additions with maximum per second on one core, in numpy, with data in the cache."""
    best = 0.0
    for size in (512, 1024, 2048, 4096):
        a, b, total, high = (np.ones(size) for _ in range(4))
        rounds = 20_000_000 // size
        began = time.perf_counter()
        for _ in range(rounds):
            np.add(a, b, out=total)
            np.maximum(high, total, out=high)
        best = max(best, size * rounds / (time.perf_counter() - began))
    return best


def needed_additions(n: int, width: int) -> float:
    """Returns Σ over C of the pairs (U, R): 4^n / 4 without a bound."""
    m = n - 1
    with_root = sum(comb(m, i) * 3 ** (m - i) for i in range(width))
    without = sum(comb(m, i) * 3 ** (m - i) for i in range(1, width + 1) if i <= m)
    return float(with_root + without) / 2


def run_once(n: int, width: int, arguments: argparse.Namespace) -> None:
    """Solves one case in this process and prints its figures as JSON."""
    values = np.random.default_rng(n).standard_normal(count_bounded_subsets(n, width)) * 3
    values[0] = 0
    problem = Problem(tuple(Variable(f"v{i}") for i in range(n)), DenseScores(n, width, values))
    if arguments.scores is not None:
        np.savetxt(arguments.scores, values, fmt="%.9f", header=f"{n} {width}", comments="")
    backend = REGISTRY.parse(f"dp:precision={arguments.precision}")
    memory = None if arguments.memory_limit is None else int(arguments.memory_limit * 1e9)
    limits = Limits(threads=arguments.threads, memory=memory)
    estimate = backend.estimate(problem, limits)
    result = solve(problem, backend, Run(limits))
    print(
        json.dumps(
            {
                "seconds": result.seconds["total"],
                "parts": dict(result.seconds),
                "peak": peak_memory(),
                "predicted": estimate.memory,
                "precision": result.stats["precision"],
                "score": result.score,
                "gap": result.gap,
            }
        )
    )


def measure(n: int, width: int, arguments: argparse.Namespace, rate: float) -> dict[str, object]:
    """Returns the row of one case."""
    with tempfile.TemporaryDirectory() as folder:
        scores = Path(folder) / "case.score"
        command = [sys.executable, __file__, "--once", f"{n}:{width}", "--precision", arguments.precision]
        command += ["--threads", str(arguments.threads)]
        if arguments.memory_limit is not None:
            command += ["--memory-limit", str(arguments.memory_limit)]
        junctor = shutil.which("junctor") if f"{n}:{width}" in arguments.junctor.split(",") else None
        runs = []
        for number in range(arguments.warm_up + arguments.repeat):
            extra = ["--scores", str(scores)] if junctor and number == 0 else []
            done = subprocess.run(command + extra, check=True, capture_output=True, text=True)
            runs.append(json.loads(done.stdout))
        del runs[: arguments.warm_up]
        junctor_seconds = None
        if junctor:
            began = time.perf_counter()
            done = subprocess.run(
                [junctor, str(scores), str(width), "-s"], check=True, capture_output=True, text=True
            )
            junctor_seconds = time.perf_counter() - began
            total = float(done.stdout.split()[-1])
            if abs(total - runs[0]["score"]) > 1e-4:
                raise SystemExit(f"n = {n}: junctor found {total}, jtsolve {runs[0]['score']}")
    seconds = statistics.median(run["seconds"] for run in runs)
    additions = needed_additions(n, width)
    return {
        "n": n,
        "treewidth": "unbounded" if width == n else width - 1,
        "precision": runs[0]["precision"],
        "seconds": f"{seconds:.2f}",
        "peak GB": f"{max(run['peak'] for run in runs) / 1e9:.2f}",
        "predicted GB": f"{runs[0]['predicted'] / 1e9:.2f}",
        "additions": f"{additions:.3g}",
        "G additions/s": f"{additions / seconds / 1e9:.2f}",
        "limit s": f"{additions / rate:.2f}",
        "seconds/limit": f"{seconds / (additions / rate):.2f}",
        "junctor s": "" if junctor_seconds is None else f"{junctor_seconds:.2f}",
        "junctor/jtsolve": "" if junctor_seconds is None else f"{junctor_seconds / seconds:.0f}",
    }


def main() -> None:
    """Measures the cases; prints and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="12:12,13:13,14:14,15:15,16:16,16:3,18:3,18:4")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=1, help="first runs, not counted")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--memory-limit", type=float, help="GB; default: 80 %% of the free memory")
    parser.add_argument("--junctor", default="12:12,13:13,14:14,16:3", help="cases for junctor")
    parser.add_argument("--output", type=Path, help="where to write the table, as .csv")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    parser.add_argument("--scores", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        n, width = map(int, arguments.once.split(":"))
        run_once(n, width, arguments)
        return
    rate = add_and_max_rate()
    print(f"numpy adds and compares {rate / 1e9:.2f} G float64 per second on one core.", flush=True)
    rows = []
    for case in arguments.cases.split(","):
        n, width = map(int, case.split(":"))
        rows.append(measure(n, width, arguments, rate))
        print(rows[-1], flush=True)
    publish(rows, COLUMNS, arguments.threads, arguments.output)


if __name__ == "__main__":
    main()
