"""Score and bound over time of `jtsolve solve` with the backend that `auto` chooses.

    python benchmarks/gaps.py --data FOLDER --output gaps --draw gaps.png

The table has a line for each case and seed. Finished runs are kept beside the output, in .runs.json, and not
repeated: the same command resumes a stopped run. A case is data:treewidth:seconds. The data are, in FOLDER,
density/NAME.train.data.gz (scored by BIC), scores/alarm_10000.dat.gz (`alarm_10000`, scored by BDeu), or
networks/NAME.bif.gz, from which `--rows` rows are drawn (scored by `--score`); or a shipped instance.

Scores are tabulated, and kernels loaded, before the clock starts; scores of more sets than fit into memory
are computed on demand. The limit is on the processor time of this process and all that it starts, divided by
the threads, which other work on the machine hardly changes. The gap is a share of the score. The picture
shows score and bound over time, for the slow cases.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import psutil
from alarm_curve import data
from publishing import publish
from state_rows import read_states

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.machine import cores
from jtsolve.core.run import Limits, Run
from jtsolve.io.instance import read_problem
from jtsolve.networks.files import read_network
from jtsolve.scoring.problem import WITHIN_LIMITS, problem_from_table
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.scoring.scores.bic import Bic
from jtsolve.solving import Recorder, choose_backend
from jtsolve.tables.options import Coding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Problem

CASES = (
    "plants:2:60",
    "accidents:2:300",
    "baudio:2:300",
    "jester:2:300",
    "bnetflix:2:300",
    "kosarek:2:300",
    "plants:3:120",
    "alarm_10000:3:60",
    "alarm_10000:4:60",
    "mushroom:3:30",
    "hypothyroid:4:30",
    *(f"insurance:{width}:20" for width in (2, 3, 4, 5, 6)),
    "book:2:120",
)
_POLL = 0.1
"""Polling interval of the processor time, in seconds."""
_TIMES = (12, 20, 30, 60, 120, 150)
"""Times of the columns with the gap, in seconds."""
_LONG = 10.0
"""Minimum seconds of a case in the picture."""


class Meter:
    """Processor time of this process and of all processes that it starts, counted from the construction."""

    def __init__(self) -> None:
        self._own = psutil.Process()
        self._last: dict[int, float] = {}
        self._begun = self._total()

    @property
    def seconds(self) -> float:
        """Seconds; for a process that has ended, those of the last poll."""
        return self._total() - self._begun

    def _total(self) -> float:
        for process in [self._own, *self._own.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                self._last[process.pid] = times.user + times.system
        return sum(self._last.values())


def problem_of(name: str, width: int, arguments: argparse.Namespace, backend: Backend | None) -> Problem:
    """Returns the problem of a case, with the scores that the backend reads."""
    shipped = Path(__file__).parents[1] / "instances" / "uci" / f"{name}.json.gz"
    network = arguments.data / "networks" / f"{name}.bif.gz"
    score: Bic | Bdeu = Bic()
    if shipped.exists():
        return read_problem(shipped).with_treewidth(width)
    if name == "alarm_10000":
        table = read_states(arguments.data / "scores" / "alarm_10000.dat.gz", Coding())
        score = Bdeu()
    elif network.exists():
        table = data(read_network(network), arguments.rows, seed=1)
        score = Bdeu() if arguments.score == "bdeu" else Bic()
    else:
        path = arguments.data / "density" / f"{name}.train.data.gz"
        table = read_states(path, Coding(), header=False, separator=",")
    return problem_from_table(
        table, score, treewidth=width, run=Run(), backend=backend, tabulation=WITHIN_LIMITS, name=name
    )


def run_once(case: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs one case in this process; returns the trace of score and bound over seconds."""
    name, width, seconds = case.split(":")
    limit = float(seconds)
    chosen = REGISTRY.parse(arguments.backend) if arguments.backend else None
    problem = problem_of(name, int(width), arguments, chosen)
    REGISTRY.parse("lns:steps=30").solve(problem, Limits(), Recorder(problem, Run()))
    run = Run(Limits(seed=seed, threads=arguments.threads))
    backend = chosen or choose_backend(problem, run).backend
    recorder = Recorder(problem, run)
    meter, began, over = Meter(), monotonic(), threading.Event()
    trace: list[tuple[float, float | None, float | None]] = []

    def poll() -> float:
        used: float = meter.seconds / arguments.threads
        known = (recorder.score, recorder.bound if recorder.bound < inf else None)
        if not trace or trace[-1][1:] != known:
            trace.append((round(used, 2), *known))
        return used

    def watch() -> None:
        while not over.wait(_POLL):
            if poll() >= limit:
                run.interrupt()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        outcome = backend.solve(problem, run.limits, recorder)
    finally:
        over.set()
        watcher.join()
    recorder(tree=outcome.tree, bound=outcome.bound)
    used = poll()
    return {
        "case": case,
        "seed": seed,
        "backend": backend.name,
        "n": problem.n,
        "rows": problem.rows,
        "trace": trace,
        "seconds": used,
        "wall": monotonic() - began,
    }


def at(run: dict[str, Any], seconds: float) -> tuple[float | None, float | None]:
    """Returns score and bound after some seconds."""
    known = [entry[1:] for entry in run["trace"] if entry[0] <= seconds]
    return tuple(known[-1]) if known else (None, None)


def gap_of(score: float | None, bound: float | None) -> str:
    """Returns the gap in per cent of the score; "proved" if it is closed."""
    if score is None or bound is None:
        return "–"
    return "proved" if bound - score <= 1e-6 else f"{100 * (bound - score) / abs(score):.3f} %"


def row_of(run: dict[str, Any]) -> list[str]:
    """Returns the cells of a run."""
    name, width, limit = run["case"].split(":")
    best = run["trace"][-1][1]
    first = next(t for t, score, _ in run["trace"] if score == best)
    closed = gap_of(*run["trace"][-1][1:]) == "proved"
    cells = [
        name,
        str(run["n"]),
        width,
        limit,
        str(run["seed"]),
        run["backend"],
        f"{best:.1f}",
        f"{first:.1f}",
    ]
    ends = inf if closed else float(limit)
    cells += [gap_of(*at(run, seconds)) if seconds <= ends else "" for seconds in _TIMES]
    return [*cells, f"{run['seconds']:.1f}" if closed else "no", f"{run['wall']:.0f}"]


def draw(runs: list[dict[str, Any]], path: Path) -> None:
    """Draws score and bound of each case over time, in nats per row above or below the best score."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    every = list(dict.fromkeys(run["case"] for run in runs))
    long = {run["case"] for run in runs if run["seconds"] > _LONG}
    cases = [case for case in every if case in long] or every
    columns = 2 if len(cases) in {2, 4} else min(3, len(cases))
    rows = -(-len(cases) // columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=(3.9 * columns, 2.9 * rows), squeeze=False, layout="constrained"
    )
    for axes in panels.flat[len(cases) :]:
        axes.set_visible(False)
    for axes, case in zip(panels.flat, cases, strict=False):
        draw_case(axes, [run for run in runs if run["case"] == case])
        name, width, _ = case.split(":")
        axes.set_title(f"{name}, treewidth {width}", fontsize=9)
    figure.supxlabel("processor seconds per thread", fontsize=9)
    figure.supylabel("% of the best score", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def draw_case(axes: Axes, runs: list[dict[str, Any]]) -> None:
    """Draws bounds above 0, scores below, on a scale that is linear only around 0."""
    best = max(score for run in runs for _, score, _ in run["trace"] if score is not None)
    for run in runs:
        for column, colour in ((2, "C3"), (1, "C0")):
            known = [(entry[0], entry[column]) for entry in run["trace"] if entry[column] is not None]
            if not known:
                continue
            times = [time for time, _ in known] + [run["seconds"]]
            heights = [100 * (value - best) / abs(best) for _, value in known]
            heights.append(heights[-1])
            axes.step(times, heights, where="post", color=colour, linewidth=1.2)
    for label, colour, height in (("bound", "C3", 0.9), ("score", "C0", 0.05)):
        axes.text(0.98, height, label, color=colour, fontsize=8, ha="right", transform=axes.transAxes)
    axes.set_yscale("symlog", linthresh=0.01)
    axes.set_yticks([-10, -1, -0.1, -0.01, 0, 0.01, 0.1, 1, 10])
    axes.set_yticklabels(["-10", "-1", "-0.1", "-0.01", "0", "0.01", "0.1", "1", "10"])
    axes.axhline(0, color="0.7", linewidth=0.6)
    axes.set_xlim(0, max(run["seconds"] for run in runs))
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Measures all cases, prints and writes the table, draws."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data")
    parser.add_argument("--cases", default=",".join(CASES), help="name:treewidth:seconds,...")
    parser.add_argument("--rows", type=int, default=5000, help="number drawn from a network")
    parser.add_argument("--score", choices=("bic", "bdeu"), default="bic", help="of networks")
    parser.add_argument("--backend", help="backend, as for `jtsolve solve`; default: auto")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--output", type=Path, default=Path("gaps"), help="writes .csv and .runs.json")
    parser.add_argument("--draw", type=Path, help="file of the picture, a .png")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        case, _, seed = arguments.once.rpartition(":")
        print(json.dumps(run_once(case, int(seed), arguments)))
        return
    kept = arguments.output.with_suffix(".runs.json")
    known: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    gaps = [f"gap at {seconds} s" for seconds in _TIMES]
    columns = ["set", "n", "treewidth", "limit s", "seed", "auto", "score", "found at"]
    columns += [*gaps, "proved at", "wall s"]
    runs, rows = [], []
    for case in arguments.cases.split(","):
        for seed in arguments.seeds:
            key = f"{case}:{seed}:{arguments.backend}:{arguments.rows}:{arguments.threads}:{arguments.score}"
            if key not in known:
                command = [
                    sys.executable,
                    __file__,
                    "--once",
                    f"{case}:{seed}",
                    "--data",
                    str(arguments.data),
                ]
                command += ["--rows", str(arguments.rows), "--threads", str(arguments.threads)]
                command += ["--score", arguments.score]
                command += ["--backend", arguments.backend] if arguments.backend else []
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                known[key] = json.loads(done.stdout)
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps(known), encoding="utf-8")
            runs.append(known[key])
            rows.append(dict(zip(columns, row_of(runs[-1]), strict=True)))
            print(*rows[-1].values(), flush=True)
    publish(rows, columns, arguments.threads, arguments.output)
    if arguments.draw is not None:
        draw(runs, arguments.draw)


if __name__ == "__main__":
    main()
