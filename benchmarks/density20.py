"""Score and bound of `jtsolve solve` on the twenty sets of density estimation.

    python benchmarks/density20.py --data FOLDER --treewidths 1 2 3 --seconds 60 600 --output
    docs/benchmarks/density20

runs `jtsolve solve` on FOLDER/NAME.train.data.gz, one after the other, and adds a row for each of the times
to the .csv, whose rows are kept. A single run, of the longest missing time, gives the rows of all missing
times; a proof counts for all later times. The gap is a share of the score. Processor seconds are those of the
command and its child processes: if they are below the limit times the threads, the machine had other work.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

from publishing import publish

from jtsolve.core.machine import cores

SETS = (
    *(
        "nltcs",
        "msnbc",
        "kdd",
        "plants",
        "baudio",
        "jester",
        "bnetflix",
        "accidents",
        "tretail",
        "pumsb_star",
    ),
    *("dna", "kosarek", "msweb", "book", "tmovie", "cwebkb", "cr52", "c20ng", "bbc", "ad"),
)
COLUMNS = (
    *("set", "treewidth", "seconds", "limit s", "threads"),
    *("score", "bound", "gap", "wall s", "processor s"),
)
PROVED = "proved"


def measured(
    name: str, treewidth: int, times: list[int], arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """Returns a row for each of the increasing times, from one run."""
    before, limit = getrusage(RUSAGE_CHILDREN), times[-1]
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, "-m", "jtsolve", "solve", str(arguments.data / f"{name}.train.data.gz")]
        command += ["--read", "header=false", "--treewidth", str(treewidth), "--time-limit", str(limit)]
        command += ["--memory-limit", str(arguments.memory), "--threads", str(arguments.threads)]
        subprocess.run([*command, "--output", str(result)], check=True, capture_output=True)
        found = json.loads(result.read_text(encoding="utf-8"))
    after = getrusage(RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    last, rows = found["seconds"]["total"], []
    for seconds in times:
        ended = seconds == limit or last <= seconds
        known = [step[1:] for step in found["trace"] if step[0] <= seconds]
        score, bound = (found["score"], found["bound"]) if ended else known[-1] if known else (None, None)
        proved = ended and found["status"] == "optimal"
        open_gap = "" if score is None or bound is None else f"{100 * (bound - score) / abs(score):.2f} %"
        rows.append({
            "set": name,
            "treewidth": treewidth,
            "seconds": seconds,
            "limit s": limit,
            "threads": arguments.threads,
            "score": "" if score is None else f"{score:.1f}",
            "bound": "" if bound is None else f"{bound:.1f}",
            "gap": PROVED if proved else open_gap,
            "wall s": f"{last:.0f}",
            "processor s": f"{used:.0f}",
        })  # fmt: skip
    return rows


def missing(rows: list[dict[str, Any]], name: str, treewidth: int, times: list[int]) -> list[int]:
    """Returns the times, increasing, for which a set has neither a row nor an earlier proof."""
    own = [row for row in rows if (row["set"], int(row["treewidth"])) == (name, treewidth)]
    proved = min((int(row["seconds"]) for row in own if row["gap"] == PROVED), default=max(times) + 1)
    return sorted({seconds for seconds in times if seconds < proved} - {int(row["seconds"]) for row in own})


def main() -> None:
    """Measures the missing rows of the table, and writes it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--treewidths", type=int, nargs="+", default=[2])
    parser.add_argument("--seconds", type=int, nargs="+", default=[60], help="times of the rows")
    parser.add_argument("--memory", type=float, default=8, help="limit of a run, in GB")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--output", type=Path, required=True, help="writes .csv")
    arguments = parser.parse_args()
    kept, rows = arguments.output.with_suffix(".csv"), []
    if kept.exists():
        with kept.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
    for treewidth in arguments.treewidths:
        for name in arguments.sets:
            if times := missing(rows, name, treewidth, arguments.seconds):
                rows += measured(name, treewidth, times, arguments)
                publish(rows, COLUMNS, arguments.threads, arguments.output)


if __name__ == "__main__":
    main()
