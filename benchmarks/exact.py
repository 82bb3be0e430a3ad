"""Times of proofs of optimality on real data, by backend.

    python benchmarks/exact.py --cases zoo:2,mushroom:2 --backends clutter dp --output docs/benchmarks/exact

A case is set:treewidth. The sets of `instances/uci` (BDeu, equivalent sample size 1) are scored already;
others are scored from the files in `--data`: alarm (alarm_10000, BDeu, equivalent sample size 1), nltcs,
plants, accidents, baudio and kosarek (training rows, BIC). A backend may have options, as in
clutter:simplex=50000. Each case is one command, `jtsolve solve`, so that starting the program and reading the
scores count. `gap` is the bound minus the score, `gap %` the same in per cent of the score.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from publishing import publish

from jtsolve.families.families import families_of
from jtsolve.io.instance import read_problem

HERE = Path(__file__).resolve().parents[1]
COLUMNS = ["set", "n", "treewidth", "families", "backend", "status", "seconds", "score", "gap", "gap %"]
SCORED = {
    "alarm": ("scores/alarm_10000.dat.gz", "bdeu", ()),
    **{
        name: (f"density/{name}.train.data.gz", "bic", ("--read", "header=false"))
        for name in ("nltcs", "plants", "accidents", "baudio", "kosarek")
    },
}
DEFAULT = (
    "zoo:2,zoo:3,zoo:4,voting:2,voting:3,voting:4,tumor:2,tumor:3,tumor:4,lymph:2,lymph:3,lymph:4,"
    "hypothyroid:2,hypothyroid:3,hypothyroid:4,mushroom:2,nltcs:2,nltcs:3,alarm:2"
)


def instance_of(name: str, treewidth: int, data: Path, folder: Path) -> Path:
    """Returns the instance file of a set; scores it if it is not shipped."""
    shipped = HERE / "instances" / "uci" / f"{name}.json.gz"
    if shipped.exists():
        return shipped
    source, score, more = SCORED[name]
    path = folder / f"{name}-{treewidth}.json.gz"
    if not path.exists():
        command = [sys.executable, "-m", "jtsolve", "score", str(data / source), "--score", score, *more]
        command += ["--max-size", str(treewidth + 1), "--output", str(path), "--quiet"]
        subprocess.run(command, check=True)
    return path


def measure(case: str, backend: str, arguments: argparse.Namespace) -> dict[str, object]:
    """Returns the row of one case and backend."""
    name, _, text = case.partition(":")
    treewidth = int(text)
    path = instance_of(name, treewidth, arguments.data, arguments.scores)
    problem = read_problem(path).with_treewidth(treewidth)
    families = int(families_of(problem).allowed.sum())
    row: dict[str, object] = {
        "set": name,
        "n": problem.n,
        "treewidth": treewidth,
        "families": families,
        "backend": backend,
    }
    command = [sys.executable, "-m", "jtsolve", "solve", str(path), "--treewidth", text, "--json"]
    command += ["--backend", backend, "--time-limit", str(arguments.time_limit)]
    command += ["--threads", str(arguments.threads)]
    began = time.perf_counter()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if not done.stdout:
        return {**row, "status": (done.stderr.strip().splitlines() or ["no answer"])[-1][:60]}
    result = json.loads(done.stdout)
    row |= {"status": result["status"], "seconds": f"{seconds:.1f}"}
    if result["score"] is not None and result["gap"] is not None:
        row |= {
            "score": f"{result['score']:.4f}",
            "gap": f"{result['gap']:.2g}" if result["gap"] < 1 else f"{result['gap']:.1f}",
            "gap %": f"{100 * result['gap'] / abs(result['score']):.2f}",
        }
    return row


def main() -> None:
    """Measures the cases, prints the table, and writes it as CSV if there is an output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", default=DEFAULT, help="set:treewidth, joined by commas")
    parser.add_argument("--backends", nargs="+", default=["clutter", "dp"], help="as for --backend")
    parser.add_argument("--time-limit", type=float, default=120.0, help="seconds of each run")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", type=Path, default=Path(), help="folder of the data sets")
    parser.add_argument("--scores", type=Path, default=None, help="keep scored sets in this folder")
    parser.add_argument("--output", type=Path, default=None, help="write NAME.csv")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arguments.scores = arguments.scores or Path(folder)
        arguments.scores.mkdir(parents=True, exist_ok=True)
        rows = []
        for case in arguments.cases.split(","):
            for backend in arguments.backends:
                rows.append(measure(case, backend, arguments))
                print(rows[-1], file=sys.stderr, flush=True)
    publish(rows, COLUMNS, arguments.threads, arguments.output)


if __name__ == "__main__":
    main()
