"""Speed of local scores from data, beside the same counting by numpy and pandas.

    python benchmarks/score_speed.py --data FOLDER --output docs/benchmarks/score_speed

FOLDER holds the raw files `uci/agaricus-lepiota.data.gz` (mushroom) and `density/plants.train.data.gz`.
Mushroom: every subset of at most 5 of 22 columns, 8124 rows; plants: of at most 4 of 69 columns, 17412 rows;
BDeu. Reading and compiling do not count: each case first runs on small sets. The other programs only count,
without the logarithms, on a random sample of the same sets, in the same process:

- unique: `numpy.unique(keys, return_counts=True)`, with an int64 key of mixed radix for each row;
- bincount: `numpy.bincount(keys, minlength=cells)`, if the table has at most as many cells as rows;
- pandas: `frame.groupby(columns, sort=False).size()` on columns of type uint8, if pandas is installed.

`plants by rows` is plants counted on the distinct rows with weights, without bit sets.

    python benchmarks/score_speed.py --large FOLDER --output docs/benchmarks/score_large

writes a table of 5,000,000 distinct rows of 20 columns with 4 states to FOLDER as CSV and Parquet (210 MB),
and runs `jtsolve score --max-size 3` on each: seconds and peak memory. Two to four minutes.

Processor seconds beside those of the wall clock show whether the machine had other work.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from publishing import publish
from state_rows import read_states

from jtsolve.core.machine import cores
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.scoring.scorer import CountingScorer
from jtsolve.scoring.scorers import make_scorer
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.scoring.tabulate import tabulate_with
from jtsolve.tables.distinct import distinct_rows
from jtsolve.tables.options import Coding

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.tables.table import DataTable

COLUMNS = [
    "data",
    "rows",
    "variables",
    "max size",
    "sets",
    "threads",
    "seconds",
    "processor s",
    "us/set",
    "unique us/set",
    "bincount us/set",
    "pandas us/set",
    "unique/jtsolve",
    "pandas/jtsolve",
]

SAMPLE = 300
"""Number of sets on which the other programs are timed; times vary little among sets of one size."""


@dataclass(frozen=True, slots=True)
class Case:
    """A data set and the size of the largest sets."""

    name: str
    file: str
    drop: tuple[str, ...]
    max_size: int
    by_rows: bool = False
    """Whether to count rows in place of bit sets."""


CASES = (
    Case("mushroom", "uci/agaricus-lepiota.data.gz", ("V17",), 5),  # veil-type is constant
    Case("plants", "density/plants.train.data.gz", (), 4),
    Case("plants by rows", "density/plants.train.data.gz", (), 4, by_rows=True),
)


def sample_sets(n: int, max_size: int) -> list[list[int]]:
    """Returns random sets, with sizes in about the same proportions as among all sets."""
    generator = np.random.default_rng(0)
    total = count_bounded_subsets(n, max_size)
    sets: list[list[int]] = []
    for size in range(1, max_size + 1):
        of_size = count_bounded_subsets(n, size) - count_bounded_subsets(n, size - 1)
        times = max(1, round(SAMPLE * of_size / total))
        sets += [sorted(generator.choice(n, size, replace=False).tolist()) for _ in range(times)]
    return sets


def seconds_per_set(count: Callable[[list[int]], object], sets: list[list[int]]) -> float:
    """Returns the mean time of a function on the sets."""
    count(sets[0])
    began = time.perf_counter()
    for columns in sets:
        count(columns)
    return (time.perf_counter() - began) / len(sets)


def counters(table: DataTable) -> dict[str, Callable[[list[int]], object]]:
    """Returns the counting functions of the other programs."""
    codes = table.codes.astype(np.int64)
    arities = table.arities.tolist()

    def keys(columns: list[int]) -> tuple[NDArray[np.int64], int]:
        key, cells = np.zeros(table.rows, dtype=np.int64), 1
        for v in columns:
            key = key * arities[v] + codes[v]
            cells *= arities[v]
        return key, cells

    def unique(columns: list[int]) -> object:
        return np.unique(keys(columns)[0], return_counts=True)

    def bincount(columns: list[int]) -> object:
        key, cells = keys(columns)
        return np.bincount(key, minlength=cells) if cells <= table.rows else unique(columns)

    ways: dict[str, Callable[[list[int]], object]] = {"unique": unique, "bincount": bincount}
    if find_spec("pandas"):
        import pandas as pd  # type: ignore[import-not-found,import-untyped,unused-ignore]

        frame = pd.DataFrame(dict(zip(table.names, table.codes, strict=True)))

        def group(columns: list[int]) -> object:
            return frame.groupby([table.names[v] for v in columns], sort=False).size()

        ways["pandas"] = group
    return ways


def measure(case: Case, folder: Path, threads: int, repeat: int) -> list[str]:
    """Returns a row of the table: the fastest of `repeat` runs."""
    table = read_states(folder / case.file, Coding(drop=case.drop, missing_values=()), header=False)
    scorer = make_scorer(table, Bdeu(), case.max_size)
    if case.by_rows:
        assert isinstance(scorer, CountingScorer)
        scorer = replace(scorer, counted=distinct_rows(table), bits=None)
    tabulate_with(scorer, 2, workers=threads)
    sets = count_bounded_subsets(table.n, case.max_size)
    best, processor = float("inf"), 0.0
    for _ in range(repeat):
        began, used = time.perf_counter(), time.process_time()
        tabulate_with(scorer, case.max_size, workers=threads)
        seconds, busy = time.perf_counter() - began, time.process_time() - used
        if seconds < best:
            best, processor = seconds, busy
    sample = sample_sets(table.n, case.max_size)
    others = {name: seconds_per_set(count, sample) for name, count in counters(table).items()}
    own = best / sets
    micro = {name: f"{1e6 * value:.0f}" for name, value in others.items()}
    ratio = {name: f"{value / own:.0f}" for name, value in others.items()}
    return [
        case.name,
        str(table.rows),
        str(table.n),
        str(case.max_size),
        str(sets),
        str(threads),
        f"{best:.2f}",
        f"{processor:.2f}",
        f"{1e6 * own:.1f}",
        micro["unique"],
        micro["bincount"],
        micro.get("pandas", ""),
        ratio["unique"],
        ratio.get("pandas", ""),
    ]


LARGE_COLUMNS = ["file", "MB", "rows", "columns", "sets", "seconds", "scored in", "peak GB"]


def measure_large(folder: Path, rows: int) -> list[list[str]]:
    """Returns a row for each kind of file: `jtsolve score` on distinct rows, in a separate process."""
    import polars as pl

    generator = np.random.default_rng(0)
    codes = generator.integers(0, 4, (20, rows), dtype=np.uint8)
    for digit in range(12):  # the number of the row, in base 4: all rows differ
        codes[digit] = np.arange(rows) >> (2 * digit) & 3
    frame = pl.DataFrame({f"c{i}": column for i, column in enumerate(codes)})
    paths = folder / "large.csv", folder / "large.parquet"
    frame.write_csv(paths[0])
    frame.write_parquet(paths[1])
    del codes, frame
    found = []
    for path in paths:
        output = folder / "large.json.gz"
        arguments = ["score", str(path), "--max-size", "3", "--output", str(output)]
        call = (
            "import sys, time; from jtsolve.cli import run; from jtsolve.core.machine import peak_memory\n"
            f"code = run({arguments!r}, time.monotonic()); print('peak', peak_memory()); sys.exit(code)"
        )
        began = time.perf_counter()
        command = [sys.executable, "-c", call]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - began
        facts = re.search(r"; (\d+) sets.*scored in (\S+) s.*peak (\d+)", done.stdout, re.DOTALL)
        assert facts is not None, done.stdout
        sets, scored, peak = facts.groups()
        size = path.stat().st_size / 1e6
        row = [path.suffix, f"{size:.0f}", str(rows), "20", sets, f"{seconds:.1f}", scored]
        found.append([*row, f"{int(peak) / 1e9:.2f}"])
    return found


def main(arguments: list[str]) -> int:
    """Runs the cases and prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="the folder of the raw files")
    parser.add_argument("--large", type=Path, metavar="FOLDER", help="measure large files, written to FOLDER")
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of the large files")
    parser.add_argument(
        "--cases", default="mushroom,plants,plants by rows", help="names, separated by commas"
    )
    parser.add_argument("--threads", default=str(cores()), help="numbers, separated by commas")
    parser.add_argument("--repeat", type=int, default=3, help="runs of a case; the fastest counts")
    parser.add_argument("--output", type=Path, help="write FILE.csv")
    chosen = parser.parse_args(arguments)
    if (chosen.data is None) == (chosen.large is None):
        parser.error("give --data or --large")
    names = chosen.cases.split(",")
    columns = COLUMNS if chosen.large is None else LARGE_COLUMNS
    if chosen.large is not None:
        chosen.large.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=chosen.large) as folder:
            rows = measure_large(Path(folder), chosen.rows)
    else:
        rows = [
            measure(case, chosen.data, int(threads), chosen.repeat)
            for case in CASES
            if case.name in names
            for threads in chosen.threads.split(",")
        ]
    cells = [dict(zip(columns, row, strict=True)) for row in rows]
    publish(cells, columns, max(map(int, chosen.threads.split(","))), chosen.output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
