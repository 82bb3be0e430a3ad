"""How often backends find the optimum where only two maximal cliques are allowed.

    python benchmarks/two_cliques.py --backends search:method=tabu search portfolio --sizes 6 8 10

Independent normal scores without a bound on the treewidth, one problem for each seed, one thread. Two cliques
A and B with A∪B = V and the separator A∩B are one of 3^n choices, all of which are scored: the optimum is
known.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from problems import gaussian, named

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.machine import describe_machine
from jtsolve.core.problem import Constraints, Problem
from jtsolve.core.result import optimality_tolerance
from jtsolve.core.run import Limits, Run
from jtsolve.solving import solve

COLUMNS = ("n", "backend", "optimum found", "mean distance, nats", "processor seconds a problem")


def optimum(problem: Problem) -> float:
    """Returns the score of the best tree of one or two cliques, in nats."""
    every = (1 << problem.n) - 1
    masks = np.arange(every + 1)
    scores = np.array([problem.scores.score(int(mask)) for mask in masks])
    best = scores[every]
    for one in masks[1:every]:
        others = masks[(masks | one == every) & (masks & one != one) & (masks != every)]
        best = max(best, (scores[one] + scores[others] - scores[one & others]).max())
    return float(best)


def main() -> None:
    """Measures all sizes and backends and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", nargs="+", default=["search:method=tabu", "search", "portfolio"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[6, 8, 10])
    parser.add_argument("--problems", type=int, default=30, help="for each size")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each run")
    arguments = parser.parse_args()
    print(f"{describe_machine(1)['processor']}, one thread; {arguments.problems} problems a row.\n")
    print(f"Command: `{' '.join(['python', 'benchmarks/two_cliques.py', *sys.argv[1:]])}`\n")
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for n in arguments.sizes:
        two = Constraints(max_cliques=2)
        problems = [replace(named(gaussian(seed, n)), constraints=two) for seed in range(arguments.problems)]
        best = [optimum(problem) for problem in problems]
        for text in arguments.backends:
            began = time.process_time()
            backend = REGISTRY.parse(text)
            runs = (Run(Limits(arguments.seconds, threads=1)) for _ in problems)
            found = [solve(one, backend, run).score for one, run in zip(problems, runs, strict=True)]
            seconds = (time.process_time() - began) / len(problems)
            missing = [b - (f if f is not None else -np.inf) for b, f in zip(best, found, strict=True)]
            hits = sum(m <= optimality_tolerance(b) for m, b in zip(missing, best, strict=True))
            cells = (n, f"`{text}`", f"{hits} of {len(best)}", f"{np.mean(missing):.3f}", f"{seconds:.2f}")
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
