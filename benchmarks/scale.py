"""Hundreds to thousands of variables: processor seconds to the first tree, to `forward`'s, and the trees.

    python benchmarks/scale.py --data FOLDER --cases text:1058:2,book:5000:2,drawn:5000:2 --seeds 1 2 3 \
        --seconds 60 --output docs/benchmarks/scale

A case is data:variables:treewidth. `drawn` is random, from a network of two parents each; `text` is random
and like documents: words of Zipf's frequencies, present or absent, more likely in documents on one of their
two topics; `book` are the 500 words of the set of this name (FOLDER/density), as often as needed, with the
rows of each copy in another order, so that nothing holds between copies.

Each run is the command `jtsolve solve FILE --score bic --treewidth K --time-limit S --threads 1`, reading
included, with a clock that counts the processor time of the process (`processor_clock.py`): other programs do
not count. `auto` names no backend. "beats forward s" is when its best tree is better than that with which
`forward` ended; "over s" is by how much it exceeds the limit, writing the answer excluded.

    python benchmarks/scale.py --network FOLDER/networks/insurance.bif.gz --widths 2,3,4,5,6 --seconds 20 \
        --output docs/benchmarks/scale_widths

asks whether more room gives a worse answer: 5,000 rows of a network, at several treewidths.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from jtsolve.core.machine import describe_machine
from jtsolve.networks.files import read_network
from jtsolve.networks.sample import sample
from jtsolve.tables.table import DataTable

COLUMNS = ["data", "rows", "variables", "treewidth", "seed", "backend", "first tree s", "first score"]
COLUMNS += ["beats forward s", "last better s", "over s", "peak GB", "edges", "score", "bound"]
ROWS = {"text": 2000, "drawn": 10_000, "network": 5000}
CLOCK = Path(__file__).with_name("processor_clock.py")


def drawn(variables: int, rows: int, seed: int) -> DataTable:
    """Returns data in which each binary variable copies one of two earlier ones, or its opposite.

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


def book(path: Path, words: int, seed: int) -> DataTable:
    """Returns copies of a file of words in documents, side by side, each with its rows in another order."""
    random = np.random.default_rng(seed)
    with gzip.open(path, "rt") as file:
        one = np.loadtxt(file, delimiter=",", dtype=np.uint8).T
    copies = [one[:, random.permutation(one.shape[1])] for _ in range(-(-words // len(one)))]
    return DataTable(
        tuple(f"w{v}" for v in range(words)), (("0", "1"),) * words, np.concatenate(copies)[:words]
    )


def sampled(path: Path, rows: int, seed: int) -> DataTable:
    """Returns rows drawn from a network."""
    network = read_network(path)
    codes = np.ascontiguousarray(sample(network, rows, seed).T, dtype=np.int64)
    names = tuple(node.name for node in network.nodes)
    return DataTable(names, tuple(node.states for node in network.nodes), codes)


def data_of(kind: str, variables: int, seed: int, arguments: argparse.Namespace) -> DataTable:
    """Returns the data of a case."""
    if kind == "book":
        return book(arguments.data / "density" / "book.train.data.gz", variables, seed)
    rows = arguments.rows or ROWS[kind]
    if kind == "network":
        return sampled(arguments.network, rows, seed)
    return {"text": text, "drawn": drawn}[kind](variables, rows, seed)


def write(table: DataTable, folder: Path) -> Path:
    """Returns a file with the data, .dat, which declares the numbers of states; .csv if all are binary."""
    if table.arities.max() <= 2:
        file = folder / "data.csv"
        cells = np.full((table.rows, 2 * table.n), ord(","), np.uint8)
        cells[:, ::2] = table.codes.T + ord("0")
        cells[:, -1] = ord("\n")
        file.write_bytes(",".join(table.names).encode() + b"\n" + cells.tobytes())
        return file
    file = folder / "data.dat"
    rows = [table.names, table.arities.tolist(), *table.codes.T.tolist()]
    file.write_text("\n".join(" ".join(map(str, row)) for row in rows) + "\n", encoding="utf-8")
    return file


def run(file: Path, treewidth: str, backend: str, seed: int, seconds: float) -> tuple[dict[str, Any], float]:
    """Returns the result of the command, and the peak of its memory in GB."""
    answer = file.with_name("result.json")
    command = [
        sys.executable,
        str(CLOCK),
        "solve",
        str(file),
        "--quiet",
        "--score",
        "bic",
        "--treewidth",
        treewidth,
    ]
    command += ["--time-limit", str(seconds), "--threads", "1", "--seed", str(seed), "--output", str(answer)]
    command += [] if backend == "auto" else ["--backend", backend]
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(command)} failed")
    return json.loads(answer.read_text(encoding="utf-8")), usage.ru_maxrss * 1024 / 1e9


def row_of(result: dict[str, Any], seconds: float, forward: float | None) -> dict[str, str]:
    """Returns the cells that a result fills."""
    trace = [(at, score) for at, score, _ in result["trace"] if score is not None]
    better = [at for at, score in trace if forward is not None and score > forward + 1e-6]
    best = next(at for at, score in trace if score == trace[-1][1])
    edges = {tuple(sorted((u, v))) for clique in result["cliques"] for u in clique for v in clique if u != v}
    return {
        "first tree s": f"{trace[0][0]:.1f}",
        "first score": f"{trace[0][1]:.1f}",
        "beats forward s": f"{better[0]:.1f}" if better else "no" if forward is not None else "",
        "last better s": f"{best:.1f}",
        "over s": f"{max(0.0, result['seconds']['total'] - seconds):.1f}",
        "edges": str(len(edges)),
        "score": f"{result['score']:.1f}",
        "bound": f"{result['bound']:.1f}",
    }


def main() -> None:
    """Reads the command line, runs the cases, prints and writes the table after each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", default="text:1058:2,drawn:1000:2", help="data:variables:treewidth")
    parser.add_argument("--backends", default="forward,auto", help="forward first, to be compared with")
    parser.add_argument("--data", type=Path, help="the folder of the data, for book")
    parser.add_argument("--network", type=Path, help="a BIF file to draw rows from instead")
    parser.add_argument("--widths", default="2,3,4,5,6", help="treewidths for the network")
    parser.add_argument("--rows", type=int, help="of the data; by default, what suits each kind")
    parser.add_argument("--seconds", type=float, default=60, help="limit of processor time")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of the data and the search")
    parser.add_argument("--output", type=Path, default=Path("scale"), help="without an ending")
    arguments = parser.parse_args()
    cases = arguments.cases.split(",")
    if arguments.network is not None:
        cases = [f"network:0:{width}" for width in arguments.widths.split(",")]
    machine = describe_machine(1)
    shown = [word if "/" not in word else Path(word).name for word in sys.argv[1:]]
    head = (
        f"{machine['processor']}, 1 thread of {machine['cores']} cores; jtsolve {machine['jtsolve']}.\n\n"
        f"Command: `{' '.join(['python', 'benchmarks/scale.py', *shown])}`\n"
    )
    print("\n".join([head, "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with (
        arguments.output.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file,
        tempfile.TemporaryDirectory() as folder,
    ):
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for case in cases:
            kind, number, treewidth = case.split(":")
            for seed in arguments.seeds:
                table = data_of(kind, int(number), seed, arguments)
                data, forward = write(table, Path(folder)), None
                for name in arguments.backends.split(","):
                    # A forest is what `chowliu` gives: at treewidth 1.
                    width = "1" if name == "chowliu" else treewidth
                    result, peak = run(data, width, name, seed, arguments.seconds)
                    row: dict[str, object] = dict(row_of(result, arguments.seconds, forward))
                    forward = result["score"] if name == "forward" else forward
                    row |= {"data": arguments.network.name.partition(".")[0] if kind == "network" else kind}
                    row |= {"rows": table.rows, "variables": table.n, "treewidth": width, "seed": seed}
                    row |= {"backend": name, "peak GB": f"{peak:.2f}"}
                    writer.writerow(row)
                    file.flush()
                    print("| " + " | ".join(str(row[column]) for column in COLUMNS) + " |", flush=True)


if __name__ == "__main__":
    main()
