"""Score and bound of the plain command on the twenty sets of density estimation.

    python benchmarks/density20.py --data FOLDER --seconds 60 --output docs/benchmarks/density20

runs `jtsolve solve` on FOLDER/NAME.train.data.gz, one after the other, and adds a row for each run to the
.csv, which keeps those that are there. The gap is a share of the score. Processor seconds are those of the
command with all that it started: below the limit times the threads, the machine had other work.
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
COLUMNS = ("set", "treewidth", "limit s", "threads", "score", "bound", "gap", "wall s", "processor s")


def measured(name: str, treewidth: int, seconds: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the row of one run."""
    before = getrusage(RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, "-m", "jtsolve", "solve", str(arguments.data / f"{name}.train.data.gz")]
        command += ["--read", "header=false", "--treewidth", str(treewidth), "--time-limit", str(seconds)]
        command += ["--memory-limit", str(arguments.memory), "--threads", str(arguments.threads)]
        subprocess.run([*command, "--output", str(result)], check=True, capture_output=True)
        found = json.loads(result.read_text(encoding="utf-8"))
    after = getrusage(RUSAGE_CHILDREN)
    gap = found["gap"] / abs(found["score"])
    return {
        "set": name,
        "treewidth": treewidth,
        "limit s": seconds,
        "threads": arguments.threads,
        "score": f"{found['score']:.1f}",
        "bound": f"{found['bound']:.1f}",
        "gap": "proved" if found["status"] == "optimal" else f"{100 * gap:.2f} %",
        "wall s": f"{found['seconds']['total']:.0f}",
        "processor s": f"{after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.0f}",
    }


def main() -> None:
    """Measures what the table lacks, and writes it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--treewidths", type=int, nargs="+", default=[2])
    parser.add_argument("--seconds", type=int, nargs="+", default=[60])
    parser.add_argument("--memory", type=float, default=8, help="limit of a run, in GB")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--output", type=Path, required=True, help="writes .csv")
    arguments = parser.parse_args()
    kept, rows = arguments.output.with_suffix(".csv"), []
    if kept.exists():
        with kept.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
    known = {(row["set"], int(row["treewidth"]), int(row["limit s"])) for row in rows}
    for treewidth in arguments.treewidths:
        for seconds in arguments.seconds:
            for name in arguments.sets:
                if (name, treewidth, seconds) not in known:
                    rows.append(measured(name, treewidth, seconds, arguments))
                    publish(rows, COLUMNS, arguments.threads, arguments.output)


if __name__ == "__main__":
    main()
