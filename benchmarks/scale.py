"""Thousands of variables: processor seconds until the first tree and until `forward` is beaten, and scores.

    python benchmarks/scale.py --data FOLDER --cases book:5000:2,drawn:5000:2 --seeds 1 2 3 \
        --seconds 60 --output docs/benchmarks/scale

A case is data:variables:treewidth. `drawn` is random, from a network with two parents per variable; `book`
has the 500 words of the set of this name (FOLDER/density), repeated as often as needed, with the rows of each
copy in another order, so that copies are independent.

Each run is the command `jtsolve solve FILE --score bic --treewidth K --time-limit S --threads 1`, reading
included, with a clock that counts the processor time of the process (`processor_clock.py`), so that other
programs on the machine do not count. `auto` is the command without `--backend`. "beats forward s" is the
time at which its tree becomes better than the last one of `forward`; "over s" is the time beyond the limit,
without writing the result.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from publishing import publish

from jtsolve.tables.table import DataTable

COLUMNS = ["data", "rows", "variables", "treewidth", "seed", "backend", "first tree s", "first score"]
COLUMNS += ["beats forward s", "last better s", "over s", "peak GB", "edges", "score", "bound"]
ROWS = 10_000
"""Rows of `drawn`."""
CLOCK = Path(__file__).with_name("processor_clock.py")


def drawn(variables: int, rows: int, seed: int) -> DataTable:
    """Returns data in which each binary variable copies one of two earlier ones, or is its opposite.

    The copied one is drawn in each row; each variable has its own probability of the opposite, up to 0.3.
    """
    random = np.random.default_rng(seed)
    codes = np.empty((variables, rows), dtype=np.int64)
    codes[0] = random.integers(0, 2, rows)
    for v in range(1, variables):
        parents = random.integers(max(0, v - 20), v, 2)
        codes[v] = codes[random.choice(parents, rows), np.arange(rows)]
        codes[v] ^= random.random(rows) < random.uniform(0, 0.3)
    return DataTable(tuple(f"V{v}" for v in range(variables)), (("0", "1"),) * variables, codes)


def book(path: Path, words: int, seed: int) -> DataTable:
    """Returns copies of a binary file side by side, each with its rows in another order."""
    random = np.random.default_rng(seed)
    with gzip.open(path, "rt") as file:
        one = np.loadtxt(file, delimiter=",", dtype=np.uint8).T
    copies = [one[:, random.permutation(one.shape[1])] for _ in range(-(-words // len(one)))]
    return DataTable(
        tuple(f"w{v}" for v in range(words)), (("0", "1"),) * words, np.concatenate(copies)[:words]
    )


def data_of(kind: str, variables: int, seed: int, arguments: argparse.Namespace) -> DataTable:
    """Returns the data of a case."""
    if kind == "book":
        return book(arguments.data / "density" / "book.train.data.gz", variables, seed)
    return drawn(variables, arguments.rows, seed)


def write(table: DataTable, folder: Path) -> Path:
    """Writes binary data as CSV and returns the file."""
    file = folder / "data.csv"
    cells = np.full((table.rows, 2 * table.n), ord(","), np.uint8)
    cells[:, ::2] = table.codes.T + ord("0")
    cells[:, -1] = ord("\n")
    file.write_bytes(",".join(table.names).encode() + b"\n" + cells.tobytes())
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
    """Returns the cells of a result."""
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
    """Runs the cases, and prints and writes the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", default="drawn:1000:2", help="data:variables:treewidth")
    parser.add_argument("--backends", default="forward,auto", help="forward first, for comparison")
    parser.add_argument("--data", type=Path, help="the folder of the data, for book")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of drawn")
    parser.add_argument("--seconds", type=float, default=60, help="limit of processor time")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of the data and the search")
    parser.add_argument("--output", type=Path, default=Path("scale"), help="file without suffix")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in arguments.cases.split(","):
            kind, number, treewidth = case.split(":")
            for seed in arguments.seeds:
                table = data_of(kind, int(number), seed, arguments)
                data, forward = write(table, Path(folder)), None
                for name in arguments.backends.split(","):
                    # `chowliu` supports treewidth 1 only.
                    width = "1" if name == "chowliu" else treewidth
                    result, peak = run(data, width, name, seed, arguments.seconds)
                    row: dict[str, object] = dict(row_of(result, arguments.seconds, forward))
                    forward = result["score"] if name == "forward" else forward
                    row |= {"data": kind, "rows": table.rows, "variables": table.n, "treewidth": width}
                    row |= {"seed": seed, "backend": name, "peak GB": f"{peak:.2f}"}
                    rows.append(row)
                    print(row, flush=True)
    publish(rows, COLUMNS, 1, arguments.output)


if __name__ == "__main__":
    main()
