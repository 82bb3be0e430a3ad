"""Time against the number of variables, by treewidth: Figures 2 and 3 of Kangas et al. (2014).

    python benchmarks/figures.py --backends dp ilp --output docs/benchmarks/kangas_figures \
        --draw docs/images/kangas_figures.png

Their Figure 2 has synthetic data, here the problems of `networks.py` (random networks, 1000 rows, BDeu);
their Figure 3 has UCI sets, here the shipped instances of at most 19 variables. Their width w is the size of
the largest clique, the treewidth plus one; w = inf means no bound. Each run is a separate process, `jtsolve
solve`, on one thread. As in the paper, times are processor seconds, starting the program and reading the
scores included. The time of `dp` depends on n and w alone, so it runs on one seed. If no seed was solved
within the limits, larger n have the status `not tried`. Runs in the output are not repeated, so that a figure
can be made in parts.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from networks import random_problem

from jtsolve.core.machine import describe_machine
from jtsolve.io.instance import read_problem, write_problem

UCI = Path(__file__).resolve().parents[1] / "instances" / "uci"
ONE_SEED = ("dp",)
MOST_UCI = 19
ROWS = 1000
COLUMNS = ("data", "w", "backend", "n", "seed", "status", "seconds")
MACHINE = ("processor", "cores", "threads", "jtsolve", "python", "numpy")


class Case(NamedTuple):
    """One run: `data` is `network` or the name of an instance, w is a clique size or inf."""

    data: str
    w: str
    backend: str
    n: int
    seed: int


def cases(arguments: argparse.Namespace) -> list[Case]:
    """Returns the runs in the order of w, backend, data and n."""
    found = []
    for w in arguments.sizes:
        for backend in arguments.backends:
            seeds = arguments.seeds[:1] if backend in ONE_SEED else arguments.seeds
            found += [
                Case("network", w, backend, n, seed) for n in sorted(arguments.variables) for seed in seeds
            ]
            sizes = {name: read_problem(UCI / f"{name}.json.gz") for name in arguments.instances}
            found += [
                Case(name, w, backend, problem.n, 0)
                for name, problem in sorted(sizes.items(), key=lambda item: item[1].n)
                if problem.n <= MOST_UCI and problem.scores.max_size >= (problem.n if w == "inf" else int(w))
            ]
    return found


def processor_seconds() -> float:
    """Returns the processor seconds of all descendant processes so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(case: Case, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the row of a run."""
    treewidth = case.n - 1 if case.w == "inf" else min(int(case.w), case.n) - 1
    if case.data == "network":
        path = folder / f"{case.n}-{treewidth}-{case.seed}.json.gz"
        if not path.exists():
            write_problem(random_problem(case.seed, case.n, ROWS, treewidth), path)
    else:
        path = UCI / f"{case.data}.json.gz"
    command = [sys.executable, "-m", "jtsolve", "solve", str(path), "--treewidth", str(treewidth)]
    command += ["--backend", case.backend, "--threads", "1", "--time-limit", str(arguments.time_limit)]
    command += ["--memory-limit", str(arguments.memory_limit), "--json", "--quiet"]
    began = processor_seconds()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    seconds = processor_seconds() - began
    if not done.stdout:
        said = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        status = "memory" if "memory limit" in done.stderr else said[:80]
        return {**case._asdict(), "status": status, "seconds": ""}
    return {**case._asdict(), "status": json.loads(done.stdout)["status"], "seconds": f"{seconds:.2f}"}


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the rows of all cases, stored ones unchanged; writes after each run."""
    kept = arguments.output.with_suffix(".csv")
    rows: dict[Case, dict[str, Any]] = {}
    if kept.exists():
        with kept.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                case = Case(row["data"], row["w"], row["backend"], int(row["n"]), int(row["seed"]))
                rows[case] = {**row, **case._asdict()}
    with tempfile.TemporaryDirectory() as folder:
        for _, line in groupby(cases(arguments), key=lambda one: (one.data == "network", one.w, one.backend)):
            solved = True
            for _, same in groupby(line, key=lambda one: (one.n, one.data)):
                found = []
                for case in same:
                    if case not in rows or (rows[case]["status"] == "not tried" and solved):
                        rows[case] = (
                            run(case, Path(folder), arguments)
                            if solved
                            else {**case._asdict(), "status": "not tried", "seconds": ""}
                        )
                        print(rows[case], file=sys.stderr, flush=True)
                        write_csv(list(rows.values()), kept)
                    found.append(rows[case]["status"])
                solved = "optimal" in found
    return list(rows.values())


def write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    """Writes the rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


def points(rows: list[dict[str, Any]], limit: float) -> dict[tuple[bool, str, str], list[tuple[int, float]]]:
    """Returns the median seconds over n of every line; unsolved runs count as `limit`, untried do not.

    A line is (synthetic or not, w, backend). Two instances with equal n are two points.
    """
    lines: dict[tuple[bool, str, str], dict[tuple[int, str], list[float]]] = {}
    for row in rows:
        if row["status"] != "not tried":
            line = lines.setdefault((row["data"] == "network", row["w"], row["backend"]), {})
            solved = row["status"] == "optimal"
            line.setdefault((row["n"], row["data"]), []).append(float(row["seconds"]) if solved else limit)
    return {
        key: [(n, statistics.median(seconds)) for (n, _), seconds in sorted(line.items())]
        for key, line in lines.items()
    }


def table(rows: list[dict[str, Any]], limit: float) -> str:
    """Returns the medians as Markdown tables: a line per backend and w, a column per n."""
    lines = []
    for synthetic, title in ((True, "Random networks"), (False, "UCI instances")):
        found = {key: line for key, line in points(rows, limit).items() if key[0] == synthetic}
        columns = sorted({n for line in found.values() for n, _ in line})
        lines += [f"{title}, processor seconds by number of variables:", ""]
        lines += ["| w | backend | " + " | ".join(map(str, columns)) + " |"]
        lines += ["|---|---|" + "--:|" * len(columns)]
        for (_, w, backend), line in found.items():
            cells = [
                ", ".join(f"{s:.2f}" if s < limit else "unsolved" for m, s in line if m == n) for n in columns
            ]
            lines.append(f"| {w} | `{backend}` | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], limit: float, path: Path) -> None:
    """Draws small multiples: a column per width, synthetic problems above, UCI instances below."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    lines = points(rows, limit)
    sizes = sorted({w for _, w, _ in lines}, key=float)
    backends = list(dict.fromkeys(backend for _, _, backend in lines))
    figure, axes = plt.subplots(
        2, len(sizes), figsize=(2.2 * len(sizes) + 0.6, 4.6), sharey=True, sharex="row", squeeze=False
    )
    for (synthetic, w, backend), line in lines.items():
        place = axes[0 if synthetic else 1][sizes.index(w)]
        colour = f"C{backends.index(backend)}"
        # Instances of different sizes are unrelated problems: no line joins them.
        width = 1.2 if synthetic else 0.0
        place.plot(*zip(*line, strict=True), color=colour, marker="o", markersize=4, linewidth=width)
        over = [point for point in line if point[1] >= limit]
        place.plot(*zip(*over, strict=True) if over else ((), ()), "^", color=colour, markersize=6)
    for column, w in enumerate(sizes):
        bound = "no bound" if w == "inf" else f"treewidth {int(w) - 1}"
        axes[0][column].set_title(f"w = {'∞' if w == 'inf' else w}\n{bound}", fontsize=9)
    for row, name in enumerate(("random networks", "UCI instances")):
        axes[row][0].set_ylabel(f"{name}\nprocessor seconds", fontsize=8)
        for place in axes[row]:
            place.set(yscale="log", xlabel="variables", ylim=(0.5, 2 * limit))
            place.yaxis.set_major_formatter("{x:g}")
            place.yaxis.set_minor_formatter("")
            place.axhline(limit, color="C3", linewidth=0.8, linestyle="--")
            place.annotate(
                "limit",
                (0.02, limit),
                xycoords=("axes fraction", "data"),
                xytext=(0, 2),
                textcoords="offset points",
                color="C3",
                fontsize=7,
            )
            place.margins(x=0.1)
            place.tick_params(labelsize=7)
            place.xaxis.label.set_size(8)
            place.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            place.grid(visible=True, axis="y", linewidth=0.3)
            place.spines[["top", "right"]].set_visible(False)
            place.set_visible(bool(place.lines[1:]))  # more than the line of the limit
    keys = [Line2D([], [], color=f"C{i}", marker="o", markersize=4) for i in range(len(backends))]
    figure.legend(keys, backends, loc="upper center", ncols=len(backends), fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measures the missing cases, prints and writes the table, draws."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backends", nargs="+", default=["dp", "ilp"], help="name or name:key=value,...")
    parser.add_argument("--variables", nargs="*", type=int, default=[8, 10, 12, 14, 16, 18])
    parser.add_argument(
        "--sizes", nargs="+", default=["3", "4", "5", "6", "inf"], help="of the largest clique"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    every = sorted(path.name.removesuffix(".json.gz") for path in UCI.glob("*.json.gz"))
    parser.add_argument("--instances", nargs="*", default=every, help="of instances/uci")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds of each run")
    parser.add_argument("--memory-limit", type=float, default=8.0, help="GB of each run")
    parser.add_argument("--output", type=Path, default=Path("kangas_figures"), help="writes .csv")
    parser.add_argument("--draw", type=Path, help="file of the picture, a .png")
    arguments = parser.parse_args()
    rows = measure(arguments)
    facts = describe_machine(1)
    machine = ", ".join(f"{key} {facts[key]}" for key in MACHINE)
    text = table(rows, arguments.time_limit)
    text += f"\nMachine: {machine}.\nCommand: `python {shlex.join(sys.argv)}`\n"
    print(text)
    if arguments.draw is not None:
        draw(rows, arguments.time_limit, arguments.draw)


if __name__ == "__main__":
    main()
