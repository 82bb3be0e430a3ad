"""Time and memory as backends predict them, beside measurements.

    python benchmarks/predictions.py --instances instances/uci --backends dp,lns --treewidths 2,3 --output RUN

This is `jtsolve compare` with one run at a time; the same command resumes a stopped comparison. The table
omits measured times of runs that ended at a limit. Seconds are those of the backend alone: predictions do not
cover starting Python and reading the instance.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from math import isfinite
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from publishing import publish

from jtsolve.backends.registry import REGISTRY
from jtsolve.compare.folder import Folder
from jtsolve.compare.reporting.exports import machine_text, short, treewidth_text
from jtsolve.compare.reporting.report import judged
from jtsolve.compare.running.run import read_instance
from jtsolve.core.machine import cores, memory_bytes
from jtsolve.core.run import Limits

if TYPE_CHECKING:
    from jtsolve.compare.reporting.tables import Record
    from jtsolve.compare.spec import Spec
    from jtsolve.core.backend import Estimate

COLUMNS = ["instance", "n", "treewidth", "backend", "predicted s", "measured s", "seconds ratio"]
COLUMNS += ["predicted GB", "measured GB", "GB ratio"]


def prediction(spec: Spec) -> Estimate | None:
    """Returns the estimate for a run; None if the backend does not support the problem."""
    backend, problem = REGISTRY.parse(spec.backend), read_instance(spec).with_star()
    if backend.capabilities.objections(problem):
        return None
    return backend.estimate(problem, Limits(spec.time_limit, memory_bytes(spec.memory_limit), spec.threads))


def cells(record: Record, predicted: Estimate) -> list[str]:
    """Returns the row of a run; a ratio is measured over predicted."""
    seconds = record.solving if record.stop == "finished" else None
    expected = predicted.seconds if isfinite(predicted.seconds) else None
    time_ratio = seconds / expected if seconds and expected else None
    memory = predicted.memory / 1e9
    memory_ratio = record.memory / memory if record.memory and memory else None
    figures = (expected, seconds, time_ratio, memory, record.memory, memory_ratio)
    return [
        record.instance,
        str(record.n),
        treewidth_text(record.treewidth),
        record.backend,
        *map(short, figures),
    ]


def main() -> None:
    """Runs the missing cases and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", nargs="+", default=["instances/uci"])
    parser.add_argument("--backends", default="chowliu,dp,forward,lns")
    parser.add_argument("--treewidths", default="1,2,3")
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--memory-limit", type=float, default=4.0, help="GB")
    parser.add_argument(
        "--output", type=Path, required=True, help="the folder of the comparison; the table is OUTPUT.csv"
    )
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "jtsolve", "compare", "--quiet", "--output", str(arguments.output)]
    if Folder(arguments.output).exists():
        command.append("--resume")
    else:
        limits = [f"--time-limit={arguments.time_limit}", f"--memory-limit={arguments.memory_limit}"]
        grid = [f"--backends={arguments.backends}", f"--treewidths={arguments.treewidths}"]
        command += [*arguments.instances, *grid, *limits]
    subprocess.run(command, check=True)
    folder = Folder(arguments.output)
    plan = folder.plan()
    comparison = judged(folder, plan)
    print(f"{machine_text(plan)}.\n\nCommand: `{plan.command}`\n")
    specs = {row.spec.id: row.spec for row in comparison.rows if row.n is not None}
    records = [record for record in comparison.records if record.run in specs]
    pairs = [(record, prediction(specs[record.run])) for record in records]
    rows = [cells(record, predicted) for record, predicted in pairs if predicted is not None]
    publish([dict(zip(COLUMNS, row, strict=True)) for row in rows], COLUMNS, cores(), arguments.output)
    for name, column in (("time", 6), ("memory", 9)):
        ratios = [float(row[column]) for row in rows if row[column] != "–"]
        if ratios:
            print(
                f"\n{name}, measured over predicted: median {median(ratios):.3g}, highest {max(ratios):.3g}"
            )


if __name__ == "__main__":
    main()
