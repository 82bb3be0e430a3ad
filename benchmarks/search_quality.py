"""Measures the trees of `search` and `portfolio` on density-estimation data at a fixed time.

    python benchmarks/search_quality.py --data FOLDER --cases nltcs:3,plants:4

BIC scores in nats of the training split, computed on demand; a case is set:size of the largest
clique. The column "annealing" is the result of a sketch of single-edge annealing in Python in 30 s on one
core. FOLDER holds NAME.train.data.gz, comma-separated. Each case and backend runs for `--seconds`; all
default cases take six minutes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.machine import describe_machine
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.run import Limits, Run
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.bic import Bic
from jtsolve.solving import solve
from jtsolve.tables.table import DataTable

ANNEALING = {
    "nltcs:3": -102513,
    "nltcs:4": -100107,
    "plants:3": -256234,
    "plants:4": -247865,
    "accidents:3": -387638,
    "accidents:4": -371238,
}
"""Nats; a sketch of single-edge annealing, 30 s, one core."""
COLUMNS = (
    "set",
    "variables",
    "largest clique",
    "backend",
    "score",
    "annealing",
    "last better at, s",
    "moves",
)


def load(folder: Path, name: str, width: int) -> Problem:
    """Returns the problem of a set's training split."""
    codes = np.loadtxt(folder / f"{name}.train.data.gz", delimiter=",", dtype=np.uint8).T
    names = tuple(f"v{v}" for v in range(len(codes)))
    table = DataTable(names, (("0", "1"),) * len(names), np.ascontiguousarray(codes))
    variables = tuple(Variable(text, 2) for text in names)
    constraints = Constraints(max_treewidth=width - 1)
    return Problem(variables, DataScores(table, Bic(), width), constraints, name)


def main() -> None:
    """Measures all cases and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data")
    parser.add_argument("--cases", default=",".join(ANNEALING))
    parser.add_argument("--backends", nargs="+", default=["search", "portfolio"], help="as for --backend")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    machine = describe_machine(arguments.threads or Limits().workers)
    run = f"{machine['threads']} threads; seed {arguments.seed}; {arguments.seconds:g} s"
    print(f"{machine['processor']}, {run}.\n")
    print(f"Command: `{' '.join(['python', 'benchmarks/search_quality.py', *sys.argv[1:]])}`\n")
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for case in arguments.cases.split(","):
        name, width = case.split(":")
        for text in arguments.backends:
            problem = load(arguments.data, name, int(width))
            limits = Limits(time=arguments.seconds, seed=arguments.seed, threads=arguments.threads)
            result = solve(problem, REGISTRY.parse(text), Run(limits))
            cells = (
                name,
                problem.n,
                width,
                f"`{text}`",
                "none" if result.score is None else f"{result.score:.1f}",
                ANNEALING.get(case, ""),
                f"{result.trace[-1].seconds:.1f}" if result.trace else "",
                result.stats.get("proposed", ""),
            )
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
