"""Score over time of all heuristic backends.

    python benchmarks/anytime.py --data FOLDER --seconds 15 --cases \
        nltcs:4,plants:4,jester:3,bnetflix:3,accidents:4,dna:4 --output anytime_all --draw anytime.png

FOLDER/density holds the training splits NAME.train.data.gz of the density-estimation sets (`jtsolve data
fetch`), scored by BIC. Each run is a separate process, limited and timed as in `gaps.py`: in processor
seconds per thread, with scores tabulated before. `consistent` tests pairs only (q=2); refused runs have no
score. The picture shows the distance of each run from the best known score, in docs/benchmarks/density20.csv
or of a run in the picture. Runs are kept beside the output and not repeated.

    python benchmarks/anytime.py --uci --seeds 5 --output docs/benchmarks/anytime_uci

measures the seconds until `lns` finds the optimum of each shipped instance at treewidths 2 to 4 where it is
proved.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from itertools import product
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaps import run_once
from labels import label_ends
from page import DOCS, read
from publishing import publish

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.machine import cores
from jtsolve.core.run import Console, Limits, Run
from jtsolve.errors import LimitError
from jtsolve.io.instance import read_problem
from jtsolve.solving import Recorder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Incumbent

SETS = ("nltcs", "plants", "baudio", "jester", "bnetflix", "accidents", "dna")

COLUMNS = ["set", "clique size", "backend", "seed", "score"]
UCI_COLUMNS = ["instance", "treewidth", "optimum", "seeds at the optimum", "seconds, by seed"]
TOLERANCE = 1e-8
"""Relative tolerance, since optima are recorded with fewer digits."""
LEAST = 1e-4
"""Nats per row: the least distance that the picture distinguishes from 0."""


def heuristics() -> list[str]:
    """Returns the names of the heuristic backends."""
    return [name for name, backend in REGISTRY.items() if not backend.capabilities.exact]


def run_here(name: str, size: int, backend: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs one case in this process."""
    arguments.backend = "consistent:q=2" if backend == "consistent" else backend
    case = {"set": name, "size": size, "backend": backend, "seed": seed}
    try:
        found = run_once(f"{name}:{size - 1}:{arguments.seconds:g}", seed, arguments)
    except LimitError as error:
        return case | {"score": None, "reason": str(error), "trace": []}
    trace = [[seconds, score] for seconds, score, _ in found["trace"] if score is not None]
    return case | {"score": trace[-1][1], "rows": found["rows"], "trace": trace}


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns all runs; stored ones are not repeated."""
    kept = arguments.output.with_suffix(".runs.json")
    runs: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    cases = [case.split(":") for case in arguments.cases.split(",")]
    found = []
    for (name, size), backend, seed in product(cases, arguments.backends.split(","), range(arguments.seeds)):
        key = f"{name}:{size}:{backend}:{seed}:{arguments.seconds:g}:{arguments.threads}"
        if key not in runs:
            command = [sys.executable, __file__, "--once", f"{name}:{size}:{backend}:{seed}"]
            command += ["--data", str(arguments.data), "--seconds", str(arguments.seconds)]
            command += ["--threads", str(arguments.threads)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            runs[key] = json.loads(done.stdout)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(runs, indent=1), encoding="utf-8")
        run = runs[key]
        found.append(run)
        print(f"{key}: {run['score']}", file=sys.stderr, flush=True)
    return found


def row_of(run: dict[str, Any]) -> dict[str, Any]:
    """Returns the row of a run in the table."""
    score = "none" if run["score"] is None else f"{run['score']:.1f}"
    return {
        "set": run["set"],
        "clique size": run["size"],
        "backend": run["backend"],
        "seed": run["seed"],
        "score": score,
    }


def known_scores() -> dict[tuple[str, int], float]:
    """Returns the best scores in the table of `density20.py`, by set and clique size."""
    best: dict[tuple[str, int], float] = {}
    for row in read(DOCS / "benchmarks", "density20"):
        case = row["set"], int(row["treewidth"]) + 1
        best[case] = max(best.get(case, -inf), float(row["score"] or -inf))
    return best


def measure_uci(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns, for each proved optimum at treewidth 2 to 4, the seconds until each seed finds it."""
    rows = []
    for path in sorted((Path(__file__).parents[1] / "instances" / "uci").glob("*.opt.json")):
        optima = json.loads(path.read_text(encoding="utf-8"))
        problem = read_problem(path.with_name(path.name.replace(".opt.json", ".json.gz")))
        for entry in optima["optima"]:
            if entry["treewidth"] not in {2, 3, 4}:
                continue
            bounded = problem.with_treewidth(entry["treewidth"])
            times = [reach(bounded, entry["score"], seed, arguments) for seed in range(arguments.seeds)]
            row = {
                "instance": optima["instance"],
                "treewidth": entry["treewidth"],
                "optimum": f"{entry['score']:.6f}",
                "seeds at the optimum": f"{sum(time < inf for time in times)} of {len(times)}",
                "seconds, by seed": ", ".join("never" if time == inf else f"{time:.2f}" for time in times),
            }
            rows.append(row)
            print("| " + " | ".join(str(row[column]) for column in UCI_COLUMNS) + " |", flush=True)
    return rows


def reach(problem: Problem, optimum: float, seed: int, arguments: argparse.Namespace) -> float:
    """Returns the seconds until `lns` finds the optimum; infinite if it does not within 10 s."""
    goal = optimum - TOLERANCE * abs(optimum)
    reached = inf

    def improved(step: Incumbent) -> None:
        nonlocal reached
        if step.score is not None and step.score >= goal and reached == inf:
            reached = step.seconds
            run.interrupt()

    run = Run(Limits(time=10, seed=seed, threads=arguments.threads), Console(improved=improved))
    REGISTRY["lns"].solve(problem, run.limits, Recorder(problem, run))
    return reached


def draw(runs: list[dict[str, Any]], path: Path, seconds: float) -> None:
    """Draws the distance of each run from the best known score over time: a panel for each case."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    cases, known = list(dict.fromkeys((run["set"], run["size"]) for run in runs)), known_scores()
    colours = {backend: f"C{i}" for i, backend in enumerate(dict.fromkeys(run["backend"] for run in runs))}
    columns = min(3, len(cases))
    rows = -(-len(cases) // columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=(3.9 * columns, 2.9 * rows), squeeze=False, layout="constrained"
    )
    labels = []
    for axes in panels.flat[len(cases) :]:
        axes.set_visible(False)
    for axes, case in zip(panels.flat, cases, strict=False):
        own = [run for run in runs if (run["set"], run["size"]) == case and run["score"] is not None]
        best = max(known.get(case, -inf), *(run["score"] for run in own))
        labels.append(draw_case(axes, own, best, colours, seconds))
        axes.set_title(f"{case[0]}, cliques of {case[1]}", fontsize=9)
    figure.supxlabel("processor seconds per thread", fontsize=9)
    figure.supylabel("nats per row below the best known score", fontsize=9)
    for axes, ends in zip(panels.flat, labels, strict=False):
        label_ends(axes, ends, size=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def draw_case(
    axes: Axes, runs: list[dict[str, Any]], best: float, colours: dict[str, str], seconds: float
) -> list[tuple[float, str, str]]:
    """Draws the runs of a case, one line each; returns a label for each backend's best run.

    The scale is logarithmic, since distances of backends differ by factors of ten and more; distances below
    `LEAST` are drawn at the lower end, marked 0.
    """
    ends: dict[str, float] = {}
    for run in runs:
        points = [*run["trace"], [seconds, run["score"]]]
        heights = [max(LEAST, (best - score) / run["rows"]) for _, score in points]
        colour = colours[run["backend"]]
        axes.step([point[0] for point in points], heights, where="post", color=colour, linewidth=1.2)
        axes.plot(points[0][0], heights[0], marker="o", markersize=3, color=colour)
        ends[run["backend"]] = min(ends.get(run["backend"], inf), heights[-1])
    axes.set(xscale="log", yscale="log")
    axes.set_xticks([tick for tick in (0.1, 1.0, 10.0) if tick <= seconds])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlim(0.05, seconds)
    axes.set_yticks([10.0**power for power in range(-3, 2)] + [LEAST])
    axes.set_yticklabels(["0.001", "0.01", "0.1", "1", "10", "0"])
    axes.minorticks_off()
    top = max((best - run["trace"][0][1]) / run["rows"] for run in runs if run["trace"])
    axes.set_ylim(LEAST * 0.8, max(10 * LEAST, 1.3 * top))
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    return [(height, backend, colours[backend]) for backend, height in ends.items()]


def main() -> None:
    """Reads the command line, measures, prints, writes, draws."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    every = ",".join(f"{name}:{size}" for name in SETS for size in (3, 4))
    parser.add_argument("--data", type=Path, help="the folder of the data sets")
    parser.add_argument("--cases", default=every, help="name:clique_size, joined by commas")
    parser.add_argument("--backends", default=",".join(heuristics()), help="names, joined by commas")
    parser.add_argument("--seeds", type=int, default=1, help="how many, from 0")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--output", type=Path, default=Path("anytime"), help="file of the table")
    parser.add_argument("--draw", type=Path, help="file of the picture, a .png")
    parser.add_argument("--uci", action="store_true", help="the shipped instances instead")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        name, size, *backend, seed = arguments.once.split(":")
        print(json.dumps(run_here(name, int(size), ":".join(backend), int(seed), arguments)))
        return
    if arguments.uci:
        publish(measure_uci(arguments), UCI_COLUMNS, arguments.threads, arguments.output)
        return
    if arguments.data is None:
        parser.error("--data is missing: the folder of the data sets")
    runs = measure(arguments)
    publish([row_of(run) for run in runs], COLUMNS, arguments.threads, arguments.output)
    if arguments.draw is not None:
        draw(runs, arguments.draw, arguments.seconds)


if __name__ == "__main__":
    main()
