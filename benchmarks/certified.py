"""Certified averages: intervals of ln Z and of every edge, their cost, and the errors of chains beside them.

    python benchmarks/certified.py DATA:TREEWIDTH[:TOLERANCE] … [--chains SECONDS] [--output FILE]

Each row is one run of `jtsolve average DATA --treewidth W --method certified:TOLERANCE` in a process of its
own, with its processor seconds; the table is written anew with the rows of this call.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HEAD = """# Certified averages

Made by `benchmarks/certified.py`: {machine}. Seconds are of the processor, of the whole command, scores
included. BDeu, equivalent sample size 1. Open edges are neither above 0.99 nor below 0.01; chains have
{seconds} s, and their error is the largest distance of an edge from its interval.

| data | treewidth | variables | ln Z − ln best | widest edge | > 0.99, < 0.01, open | s | GB | chains |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
"""


def averaged(path: Path, width: int, method: str, limit: float | None) -> tuple[dict[str, Any], float, float]:
    """Returns the posterior file of one run, its processor seconds, and its peak memory in GB."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "posterior.json"
        command = [
            sys.executable,
            "-m",
            "jtsolve",
            "average",
            str(path),
            "--treewidth",
            str(width),
            "--method",
            method,
        ]
        command += ["--quiet", "--output", str(target)]
        command += [] if path.name.endswith(".json.gz") else ["--score", "bdeu", "--missing", "state"]
        command += [] if limit is None else ["--time-limit", str(limit)]
        process = subprocess.Popen(command)
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) not in {0, 5}:
            raise SystemExit(f"{command} failed")
        found: dict[str, Any] = json.loads(target.read_bytes())
        return found, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e6


def row(text: str, seconds: float, limit: float) -> str:
    """Returns the row of a case DATA:TREEWIDTH[:TOLERANCE]."""
    name, width, *rest = text.split(":")
    method = f"certified:{rest[0] if rest else 0.001}"
    found, processor, memory = averaged(Path(name), int(width), method, limit)
    low, high = (np.array([edge[k] for edge in found["edges"]]) for k in (2, 3))
    above = found["diagnostics"]["log_evidence_above_best"]
    decided = int((low > 0.99).sum()), int((high < 0.01).sum())
    error = ""
    if seconds:
        chains, _, _ = averaged(Path(name), int(width), "chains", seconds)
        share = np.array([edge[2] for edge in chains["edges"]])
        outside = float(np.maximum(low - share, share - high).max(initial=0.0))
        error = f"{max(0.0, outside):.3f}{'' if chains['converged'] else ', not converged'}"
    cells = [
        Path(name).name.split(".")[0],
        width,
        len(found["variables"]),
        f"{above[0]:.5f} to {above[1]:.5f}",
        f"{(high - low).max():.1e}",
        f"{decided[0]}, {decided[1]}, {low.size - sum(decided)}",
        f"{processor:.1f}",
        f"{memory:.1f}",
        error,
    ]
    return f"| {' | '.join(map(str, cells))} |\n"


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--chains", type=float, default=0.0)
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--output", type=Path, default=Path("docs/benchmarks/certified.md"))
    given = parser.parse_args()
    machine = f"{os.cpu_count()} cores, shared with other work"
    text = HEAD.format(machine=machine, seconds=f"{given.chains:g}")
    for case in given.cases:
        text += row(case, given.chains, given.limit)
        given.output.write_text(text, encoding="utf-8")
        print(text.splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
