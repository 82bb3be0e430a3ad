"""Heuristics on hundreds to thousands of variables: processor seconds to the first tree, and the trees.

    python benchmarks/scale.py --cases text:1058:2,text:5000:2,drawn:1000:2,drawn:5000:2 --seconds 60 \
        --output docs/benchmarks/scale

A case is data:variables:treewidth. The data are random: `drawn` from a network of two parents each; `text`
like documents: words of Zipf's frequencies, present or absent, more likely in documents on one of their two
topics. BIC, the scores computed on demand, on one thread; each run is a separate process, with the data in
memory. Seconds are of the processor, and so is the limit: other programs do not count.

    python benchmarks/scale.py --network FOLDER/networks/insurance.bif.gz --widths 2,3,4,5,6 --seconds 20 \
        --output docs/benchmarks/scale_widths

asks whether more room gives a worse answer: 5,000 rows of a network, at several treewidths.
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
from jtsolve.networks.bif import read_network
from jtsolve.networks.sample import sample
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.bic import Bic
from jtsolve.solving import solve
from jtsolve.tables.table import DataTable

COLUMNS = [
    "data",
    "rows",
    "variables",
    "treewidth",
    "backend",
    "first tree s",
    "first score",
    "last better s",
]
COLUMNS += ["processor s", "peak GB", "edges", "score", "bound"]
ROWS = {"text": 2000, "drawn": 10_000, "network": 5000}


class ProcessorLimits(Limits):
    """Limits whose clock counts the processor time of this process; it is read a hundred times a second.

    Reading it takes milliseconds on some virtual machines.
    """

    @property
    def elapsed(self) -> float:
        """Seconds of the processor since the process began."""
        if (now := time.monotonic()) > _clock["read"] + 0.01:
            _clock.update(read=now, seconds=time.process_time())
        return _clock["seconds"]


_clock = {"read": 0.0, "seconds": 0.0}


def drawn(variables: int, rows: int, seed: int) -> DataTable:
    """Returns data in which each binary variable takes the state of one of two earlier ones, or its opposite.

    Which of the two is drawn in each row; each variable has its own probability of the opposite, up to 0.3.
    """
    random = np.random.default_rng(seed)
    codes = np.empty((variables, rows), dtype=np.int64)
    codes[0] = random.integers(0, 2, rows)
    for v in range(1, variables):
        parents = random.integers(max(0, v - 20), v, 2)
        codes[v] = codes[random.choice(parents, rows), np.arange(rows)]
        codes[v] ^= random.random(rows) < random.uniform(0, 0.3)
    return DataTable(tuple(f"V{v}" for v in range(variables)), (("0", "1"),) * variables, codes)


def text(words: int, documents: int, seed: int) -> DataTable:
    """Returns data like words in documents: shape (words, documents), binary."""
    random = np.random.default_rng(seed)
    topics = max(5, words // 50)
    frequency = np.maximum(0.003, 0.5 / np.arange(1, words + 1) ** 0.7)
    own, lift = random.integers(0, topics, (words, 2)), random.uniform(3, 12, (words, 2))
    about = np.zeros((documents, topics), dtype=bool)
    for _ in range(2):
        about[np.arange(documents), random.integers(0, topics, documents)] = True
    codes = np.empty((words, documents), dtype=np.int64)
    for v in range(words):
        odds = frequency[v] / (1 - frequency[v]) * np.where(about[:, own[v, 0]], lift[v, 0], 0.7)
        odds *= np.where(about[:, own[v, 1]], lift[v, 1], 1.0)
        codes[v] = random.random(documents) < odds / (1 + odds)
    return DataTable(tuple(f"w{v}" for v in range(words)), (("0", "1"),) * words, codes)


def sampled(path: Path, rows: int, seed: int) -> DataTable:
    """Returns rows drawn from a network."""
    network = read_network(path)
    codes = np.ascontiguousarray(sample(network, rows, seed).T, dtype=np.int64)
    names = tuple(node.name for node in network.nodes)
    return DataTable(names, tuple(node.states for node in network.nodes), codes)


def run_once(case: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs one backend on one case in this process."""
    kind, number, treewidth, name = case.split(":")
    rows = arguments.rows or ROWS[kind]
    if kind == "network":
        table = sampled(arguments.network, rows, arguments.seed)
    else:
        table = {"text": text, "drawn": drawn}[kind](int(number), rows, arguments.seed)

    def problem_of(data: DataTable) -> Problem:
        scores = DataScores(data, Bic(), int(treewidth) + 1)
        return Problem(tuple(map(Variable, data.names, data.states)), scores)

    solve(problem_of(text(14, 100, 0)), REGISTRY[name], Limits(threads=1))  # loads the kernels
    problem = problem_of(table)
    first: list[float] = []
    began = time.process_time()

    def hear(*, score: float | None, **_others: Any) -> None:
        if score is not None and not first:
            first.extend((time.process_time() - began, score))

    limits = ProcessorLimits(time=began + arguments.seconds, threads=1, seed=arguments.seed)
    result = solve(problem, REGISTRY[name], limits, hear)
    if result.tree is None:
        raise SystemExit(f"{name} found no tree of {case}")
    return {
        "data": arguments.network.name.partition(".")[0] if kind == "network" else kind,
        "rows": rows,
        "variables": table.n,
        "treewidth": treewidth,
        "backend": name,
        "first tree s": f"{first[0]:.1f}",
        "first score": f"{first[1]:.1f}",
        "last better s": f"{result.trace[-1].seconds - began:.1f}",
        "processor s": f"{time.process_time() - began:.1f}",
        "peak GB": f"{peak_memory() / 1e9:.2f}",
        "edges": len(result.tree.graph_edges),
        "score": f"{result.score:.1f}",
        "bound": f"{result.bound:.1f}",
    }


def main() -> None:
    """Reads the command line, runs the cases, prints and writes the table after each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", default="text:1058:2,drawn:1000:2", help="data:variables:treewidth")
    parser.add_argument("--backends", default="chowliu,forward,lns,merging")
    parser.add_argument("--network", type=Path, help="a BIF file to draw rows from instead")
    parser.add_argument("--widths", default="2,3,4,5,6", help="treewidths for the network")
    parser.add_argument("--rows", type=int, help="of the data; by default, what suits each kind")
    parser.add_argument("--seconds", type=float, default=60, help="limit of processor time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("scale"), help="without an ending")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        print(json.dumps(run_once(arguments.once, arguments)))
        return
    runs = [f"{case}:{name}" for case in arguments.cases.split(",") for name in arguments.backends.split(",")]
    if arguments.network is not None:
        runs = [
            f"network:0:{width}:{name}"
            for name in arguments.backends.split(",")
            for width in arguments.widths.split(",")
        ]
    machine = describe(1)
    shown = [word if "/" not in word else Path(word).name for word in sys.argv[1:]]
    head = (
        f"{machine['processor']}, 1 thread of {machine['cores']} cores; jtsolve {machine['jtsolve']}.\n\n"
        f"Command: `{' '.join(['python', 'benchmarks/scale.py', *shown])}`\n"
    )
    lines = [head, "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with arguments.output.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for run in runs:
            kind, number, treewidth, name = run.split(":")
            # A forest is what `chowliu` gives: at treewidth 1.
            own = f"{kind}:{number}:{1 if name == 'chowliu' else treewidth}:{name}"
            command = [sys.executable, __file__, "--once", own, *sys.argv[1:]]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            row = json.loads(done.stdout)
            writer.writerow(row)
            file.flush()
            lines.append("| " + " | ".join(str(row[column]) for column in COLUMNS) + " |")
            print(lines[-1], flush=True)
            arguments.output.with_suffix(".md").write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
