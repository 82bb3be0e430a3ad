"""Proofs of optimality on samples of random Bayesian networks, by backend.

    python benchmarks/networks.py --backends dp maxsat ilp --output docs/benchmarks/networks

Each network has `--variables` variables of two or three states, each with up to three parents among those
before it in a random order, and tables drawn from a Dirichlet distribution with all parameters 1. A problem
has the BDeu scores (equivalent sample size 1) of `--rows` rows drawn from the network, and a bounded
treewidth. A backend is given as on the command line, options after a colon: `ilp:relaxation=none`. Each run
is a separate process, `jtsolve solve`, so that starting the program and reading the scores count.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from publishing import publish

from jtsolve.io.instance import write_problem
from jtsolve.networks.network import Network, NetworkNode
from jtsolve.networks.sample import sample
from jtsolve.scoring.problem import WHOLE, problem_from_table
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem

MOST_PARENTS = 3
COLUMNS = ("seed", "n", "treewidth", "backend", "status", "seconds", "score", "gap", "families")


def random_network(seed: int, n: int) -> Network:
    """Returns a network with tables drawn from flat Dirichlet distributions, determined by the seed."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(n)
    states = generator.integers(2, 4, size=n)
    parents: list[tuple[int, ...]] = [()] * n
    for place, v in enumerate(order.tolist()):
        count = min(place, int(generator.integers(0, MOST_PARENTS + 1)))
        parents[v] = tuple(generator.choice(order[:place], size=count, replace=False).tolist())
    nodes = []
    for v in range(n):
        rows = int(np.prod(states[list(parents[v])], dtype=np.int64))
        table = generator.dirichlet(np.ones(states[v]), size=rows)
        nodes.append(NetworkNode(f"V{v}", tuple(map(str, range(states[v]))), parents[v], table))
    return Network(f"random-{seed}", tuple(nodes))


def random_problem(seed: int, n: int, rows: int, treewidth: int) -> Problem:
    """Returns the problem of rows drawn from a random network, both determined by the seed."""
    network = random_network(seed, n)
    names = tuple(node.name for node in network.nodes)
    states = tuple(node.states for node in network.nodes)
    table = DataTable(names, states, sample(network, rows, seed).T)
    return problem_from_table(table, Bdeu(1.0), treewidth=treewidth, tabulation=WHOLE, name=network.name)


def measure(path: Path, problem: Problem, backend: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns a row of the table: one run of one backend."""
    command = [sys.executable, "-m", "jtsolve", "solve", str(path), "--json", "--quiet"]
    command += ["--backend", backend, "--threads", str(arguments.threads)]
    command += ["--time-limit", str(arguments.time_limit)]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - started
    row: dict[str, Any] = {"n": problem.n, "treewidth": arguments.treewidth, "backend": backend}
    if not done.stdout:
        return row | {"status": done.stderr.strip().splitlines()[-1]}
    result = json.loads(done.stdout)
    row |= {"status": result["status"], "seconds": f"{seconds:.1f}"}
    row["families"] = result.get("stats", {}).get("families", "")
    if result["score"] is not None and result["gap"] is not None:
        row |= {"score": f"{result['score']:.4f}", "gap": f"{result['gap']:.2g}"}
    return row


def main() -> None:
    """Measures all seeds and backends, prints the table, and writes it as CSV if there is an output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backends", nargs="+", default=["dp", "clutter"], help="name or name:key=value,...")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--variables", type=int, default=12)
    parser.add_argument("--treewidth", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--time-limit", type=float, default=120.0, help="seconds of each run")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=None, help="write NAME.csv")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in arguments.seeds:
            problem = random_problem(seed, arguments.variables, arguments.rows, arguments.treewidth)
            path = Path(folder) / f"{problem.name}.json.gz"
            write_problem(problem, path)
            for backend in arguments.backends:
                rows.append({"seed": seed} | measure(path, problem, backend, arguments))
                print(rows[-1], file=sys.stderr, flush=True)
    publish(rows, COLUMNS, arguments.threads, arguments.output)


if __name__ == "__main__":
    main()
