"""Certified averages: intervals of ln Z and of every edge, and their cost; errors of chains beside them.

    python benchmarks/certified.py --data FOLDER [--cases alarm@10000:2,mushroom:3,hypothyroid:2:0.03]
        [--limit SECONDS] [--chains SECONDS] [--output FILE]

A case is NAME:TREEWIDTH[:TOLERANCE]: a shipped instance, a network with the number of rows drawn from it, or
plants with the number of its first columns. Each is one run of `jtsolve average … --method
certified:TOLERANCE` in a separate process; processor seconds include scoring (BDeu, equivalent sample size
1). FOLDER holds `networks/NAME.bif.gz` and `density/plants.train.data.gz`.
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
from time import monotonic
from typing import Any

import numpy as np
from publishing import publish

INSTANCES = Path(__file__).resolve().parents[1] / "instances" / "uci"
CASES = (
    "alarm@10000:2,alarm@10000:3,alarm@10000:4,alarm@1000:2,alarm@1000:3:0.005,insurance@10000:2,insurance@1000:2,"
    "mushroom:2,mushroom:3,hypothyroid:2:0.03,plants@40:2,plants@56:2,hailfinder@10000:2,zoo:2,alarm@300:2"
)
COLUMNS = (
    "data", "treewidth", "variables", "log_evidence_low", "log_evidence_high", "widest", "above", "below",
    "open", "seconds", "wall", "gigabytes", "chains",
)  # fmt: skip


def file_of(source: str, data: Path, folder: Path) -> Path:
    """Returns the file of a case's data, written to the folder unless it is shipped."""
    name, _, size = source.partition("@")
    if not size:
        return INSTANCES / f"{name}.json.gz"
    path = folder / f"{name}{size}.csv"
    if name == "plants":
        with gzip.open(data / "density" / "plants.train.data.gz", "rt") as stream:
            rows = [line.split(",")[: int(size)] for line in stream]
        lines = [",".join(f"v{v}" for v in range(int(size))), *map(",".join, rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        network = str(data / "networks" / f"{name}.bif.gz")
        command = [sys.executable, "-m", "jtsolve", "sample", network, "--rows", size, "--output", str(path)]
        subprocess.run(command, check=True)
    return path


def averaged(path: Path, width: str, method: str, limit: float) -> tuple[dict[str, Any], float, float, float]:
    """Returns the posterior of one run, its processor seconds, seconds of wall clock, and peak GB.

    Raises:
        SystemExit: the run failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "posterior.json"
        command = [sys.executable, "-m", "jtsolve", "average", str(path), "--treewidth", width]
        command += ["--method", method, "--quiet", "--output", str(target), "--time-limit", str(limit)]
        command += [] if path.name.endswith(".json.gz") else ["--score", "bdeu", "--missing", "state"]
        began, process = monotonic(), subprocess.Popen(command)
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) not in {0, 5}:
            raise SystemExit(f"{command} failed")
        found: dict[str, Any] = json.loads(target.read_bytes())
        return found, usage.ru_utime + usage.ru_stime, monotonic() - began, usage.ru_maxrss / 1e6


def row(case: str, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Returns the figures of a case."""
    source, width, *rest = case.split(":")
    path = file_of(source, arguments.data, folder)
    method = f"certified:{rest[0] if rest else 0.001}"
    found, processor, wall, memory = averaged(path, width, method, arguments.limit)
    low, high = (np.array([edge[k] for edge in found["edges"]]) for k in (2, 3))
    evidence = found["diagnostics"]["log_evidence_above_best"]
    above, below = int((low > 0.99).sum()), int((high < 0.01).sum())
    chains = ""
    if arguments.chains:
        drawn, *_ = averaged(path, width, "chains", arguments.chains)
        share = np.array([edge[2] for edge in drawn["edges"]])
        outside = float(np.maximum(low - share, share - high).max(initial=0.0))
        chains = f"{max(0.0, outside):.3f}{'' if drawn['converged'] else ', not converged'}"
    widest = f"{(high - low).max():.1e}"
    figures = (
        source, width, len(found["variables"]), *(f"{round(nats, 5) + 0.0:.5f}" for nats in evidence),
        widest, above, below, low.size - above - below, f"{processor:.1f}", f"{wall:.1f}",
        f"{memory:.1f}", chains,
    )  # fmt: skip
    return dict(zip(COLUMNS, figures, strict=True))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--data", type=Path, help="folder of networks and density sets")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of each run")
    parser.add_argument(
        "--chains", type=float, default=0.0, help="seconds of the chains beside it; 0 for none"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="also write FILE.csv")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in arguments.cases.split(","):
            rows.append(row(case, arguments, Path(folder)))
            print(rows[-1], flush=True)
    publish(rows, COLUMNS, 1, arguments.output)


if __name__ == "__main__":
    main()
