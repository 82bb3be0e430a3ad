"""Forward selection on thousands of variables: seconds and memory, the scores counted on demand.

    python benchmarks/forward_large.py --cases 1000:3,5000:3 --output docs/benchmarks/forward_large

The data are drawn: each binary variable has two earlier ones; in each row it takes the state of one of them
at random, and is flipped with its own probability between 0 and 0.3. BIC; a case is variables:largest
clique, and runs in a separate process.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.backend import Limits
from jtsolve.core.machine import describe, peak_memory
from jtsolve.core.problem import Problem, Variable
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.bic import Bic
from jtsolve.solving import solve
from jtsolve.tables.table import DataTable

COLUMNS = ["variables", "rows", "largest clique", "seconds", "processor s", "peak GB", "edges", "score"]


def drawn(variables: int, rows: int, seed: int) -> DataTable:
    """Returns the data."""
    random = np.random.default_rng(seed)
    codes = np.empty((variables, rows), dtype=np.int64)
    codes[0] = random.integers(0, 2, rows)
    for v in range(1, variables):
        parents = random.integers(max(0, v - 20), v, 2)
        codes[v] = codes[random.choice(parents, rows), np.arange(rows)]
        codes[v] ^= random.random(rows) < random.uniform(0, 0.3)
    return DataTable(tuple(f"V{v}" for v in range(variables)), (("0", "1"),) * variables, codes)


def run_once(variables: int, size: int, rows: int, threads: int) -> dict[str, Any]:
    """Runs one case in this process; the time is that from the data in memory to the checked tree."""

    def problem_of(n: int, count: int) -> Problem:
        table = drawn(n, count, seed=1)
        return Problem(tuple(map(Variable, table.names, table.states)), DataScores(table, Bic(), size))

    forward = REGISTRY["forward"]
    solve(problem_of(12, 100), forward, Limits(threads=threads))  # compiles the kernels
    problem = problem_of(variables, rows)
    began, spent = time.perf_counter(), time.process_time()
    result = solve(problem, forward, Limits(threads=threads))
    if result.tree is None or result.score is None:
        raise SystemExit(f"no tree of {variables} variables")
    return {
        "variables": variables,
        "rows": rows,
        "largest clique": size,
        "seconds": f"{time.perf_counter() - began:.1f}",
        "processor s": f"{time.process_time() - spent:.1f}",
        "peak GB": f"{peak_memory() / 1e9:.2f}",
        "edges": len(result.tree.graph_edges),
        "score": f"{result.score:.1f}",
    }


def main() -> None:
    """Reads the command line, runs the cases, prints and writes the table after each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", default="1000:3,1000:4,5000:3", help="variables:largest clique")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("forward_large"), help="without an ending")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        variables, size = map(int, arguments.once.split(":"))
        print(json.dumps(run_once(variables, size, arguments.rows, arguments.threads)))
        return
    machine = describe(arguments.threads)
    shown = [word if "/" not in word else Path(word).name for word in sys.argv[1:]]
    head = (
        f"{machine['processor']}, {machine['threads']} thread(s) of {machine['cores']} cores; jtsolve "
        f"{machine['jtsolve']}.\n\n"
        f"Command: `{' '.join(['python', 'benchmarks/forward_large.py', *shown])}`\n"
    )
    lines = [head, "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with arguments.output.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for case in arguments.cases.split(","):
            command = [sys.executable, __file__, "--once", case, "--rows", str(arguments.rows)]
            command += ["--threads", str(arguments.threads)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            row = json.loads(done.stdout)
            writer.writerow(row)
            file.flush()
            lines.append("| " + " | ".join(str(row[column]) for column in COLUMNS) + " |")
            print(lines[-1], flush=True)
            arguments.output.with_suffix(".md").write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
