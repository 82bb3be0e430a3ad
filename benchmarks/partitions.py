"""Scoring by partitions on Dask workers beside threads of one process, and a model of larger clusters.

    python benchmarks/partitions.py --rows 5000000 --columns 20 --size 3 --output docs/benchmarks/partitions

writes a Markov chain of columns with 2 to 4 states to Parquet files of a million rows, and runs `jtsolve
score` on them for sets of at most --size columns, with two threads and with one, two and four workers; with
one worker also for single columns. Processor seconds are those of the command and its workers, starting and
loading included; a small run before has compiled the kernels. The scores must be equal to the last bit.

The model is fitted to the runs of one and two workers, and compared with that of four:

    processor seconds = c + workers · s + rows · (p + q · sets) · (b if workers > 1 else 1)

The command costs c, and each worker s to start. A single worker needs p to survey, read and code a row, and q
to count it in one set; b is the factor of that work where workers share processors, caches and memory. The
time of a large cluster is this total divided by its workers, or the time of the scheduler if that is longer;
the scheduler needs about a millisecond per task: a survey and a count of each partition, and the sums.
"""

from __future__ import annotations

import argparse
import csv
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from jtsolve.core.machine import describe_machine
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.io.instance import read_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE = 1_000_000
PARTITION = 1 << 20
TASK = 1e-3
"""Seconds of Dask's scheduler per task, from its documentation."""
TASKS = 1 + 8 / 7 + 1 / 32
"""Tasks per partition: its survey, its count and a share of the tree that adds counts."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the command."""

    executor: str
    workers: int
    rows: int
    sets: int
    seconds: float
    processor: float


def write_rows(folder: Path, rows: int, columns: int) -> None:
    """Writes a Markov chain of columns, whose rows are nearly all different from about 20 columns on."""
    random = np.random.default_rng(0)
    for part, start in enumerate(range(0, rows, FILE)):
        count = min(FILE, rows - start)
        chain = [random.integers(0, 3, count, dtype=np.int8)]
        for v in range(1, columns):
            fresh = random.integers(0, 2 + v % 3, count, dtype=np.int8)
            chain.append(np.where(random.random(count) < 0.5, fresh, np.minimum(chain[-1], 1 + v % 3)))
        frame = pl.DataFrame({f"V{v}": column for v, column in enumerate(chain)})
        frame.write_parquet(folder / f"part.{part}.parquet")


def timed(folder: Path, shape: tuple[int, int], size: int, plan: tuple[str, int]) -> Run:
    """Runs the command on data of a given size, on an executor with a number of workers."""
    (rows, columns), (executor, workers) = shape, plan
    words = [sys.executable, "-m", "jtsolve", "score", str(folder / "*.parquet"), "--quiet"]
    words += ["--max-size", str(size), "--threads", str(workers), "--executor", executor]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*words, "--output", str(folder / f"{executor}-{workers}-{size}.json")], check=True)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(executor, workers, rows, count_bounded_subsets(columns, size), seconds, spent)


@dataclass(frozen=True, slots=True)
class Model:
    """Processor seconds of the command, of starting a worker, per row, and per row and set.

    `busy` is the factor of the last two if several workers share a machine.
    """

    command: float
    worker: float
    row: float
    count: float
    busy: float

    @classmethod
    def of(cls, starts: Sequence[float], small: Run, large: Run, two: Run) -> Model:
        """Returns the model of two runs with few rows, on one and two workers, and three with many."""
        worker = max(0.0, starts[1] - starts[0])
        count = (large.processor - small.processor) / (large.sets - small.sets) / large.rows
        row = (small.processor - starts[0]) / small.rows - count * small.sets
        alone = cls(starts[0] - worker, worker, max(0.0, row), count, 1.0)
        work = two.rows * (alone.row + alone.count * two.sets)
        return replace(alone, busy=max(1.0, (two.processor - starts[1]) / work))

    def seconds(self, workers: int, rows: int, sets: int) -> float:
        """Returns the processor seconds of a run."""
        work = rows * (self.row + self.count * sets) * (1.0 if workers == 1 else self.busy)
        return self.command + workers * self.worker + work


def main() -> None:
    """Runs the benchmark, and writes OUTPUT.csv."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--size", type=int, default=3)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "few").mkdir()
        write_rows(folder / "few", 1000, options.columns)
        write_rows(folder, options.rows, options.columns)
        plans = [("local", 2), ("dask", 1), ("dask", 2), ("dask", 4)]
        few, many = (1000, options.columns), (options.rows, options.columns)
        for plan in plans:  # compiles
            timed(folder / "few", few, options.size, plan)
        starts = [timed(folder / "few", few, options.size, plan).processor for plan in plans]
        runs = [timed(folder, many, 1, plans[1])]
        for plan in plans:
            runs.append(timed(folder, many, options.size, plan))
            print(runs[-1], flush=True)
        scores = [
            read_problem(folder / f"{executor}-{workers}-{options.size}.json").scores
            for executor, workers in plans
        ]
        equal = len({scores[0].extremes(), *(score.extremes() for score in scores)}) == 1
        masks = [0b1, 0b11, (1 << options.size) - 1]
        equal = equal and all(len({score.score(mask) for score in scores}) == 1 for mask in masks)
    report(options.output, runs, starts, equal=equal)


def report(output: Path, runs: list[Run], starts: list[float], *, equal: bool) -> None:
    """Writes the table of the runs; prints the model."""
    single, threads, one, two, four = runs
    model = Model.of(starts[1:], single, one, two)
    names = [entry.name for entry in fields(Run)]
    with output.with_suffix(".csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(names)
        table.writerows(astuple(run) for run in runs)
    machine = describe_machine(2)
    ratio = two.processor / threads.processor
    without = (two.processor - starts[2]) / (threads.processor - starts[0])
    lines = [
        f"{machine['cores']} cores ({machine['processor']}), Python {machine['python']}:",
        f"`{machine['command']}`",
        "",
        "| executor | workers or threads | rows | sets | seconds | processor seconds |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for run in runs:
        facts = f"{run.rows} | {run.sets} | {run.seconds:.1f} | {run.processor:.1f}"
        lines.append(f"| {run.executor} | {run.workers} | {facts} |")
    lines += [
        "",
        f"Scores equal to the last bit: {'yes' if equal else 'NO'}.",
        f"Two workers take {ratio:.2f} times the processor time of two threads, {without:.2f} times",
        f"without the start ({starts[0]:.1f} s of threads, {starts[2]:.1f} s of workers).",
        "",
        f"Model: {model.command:.1f} s, {model.worker:.1f} s per worker, {1e9 * model.row:.0f} ns per row,",
        f"{1e9 * model.count:.2f} ns per row and set, {model.busy:.2f} times as much on two workers.",
        f"For four it predicts {model.seconds(4, four.rows, four.sets):.1f} s of processor time; measured:",
        f"{four.processor:.1f} s.",
        f"For {two.sets} sets:",
        "",
        "| rows | workers | hours of work for each | hours of the scheduler | bottleneck |",
        "| --- | --- | --- | --- | --- |",
    ]
    for power in (9, 11):
        for workers in (10, 100, 1000):
            work = model.seconds(0, 10**power, two.sets) / workers / 3600
            scheduler = 10**power / PARTITION * TASKS * TASK / 3600
            slower = "the workers" if work > scheduler else "the scheduler"
            lines.append(f"| 10^{power} | {workers} | {work:.3g} | {scheduler:.3g} | {slower} |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
