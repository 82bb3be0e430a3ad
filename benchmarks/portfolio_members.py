"""Compares `lns` with portfolios of several members at equal processor time, on density-estimation data.

    python benchmarks/portfolio_members.py --data FOLDER --cases plants:3,accidents:3 --cpu 60

A run ends when its processes together have used `--cpu` seconds of processor time: two cores give 60 in 30 s.
Other work on the machine delays a run but hardly changes its result. This favours `lns`, since idle cores do
not count, and a portfolio pays for starting its processes. The columns give the score after a fourth, a half
and all of the time.

BIC scores in nats of the training split, computed on demand; a case is set:size of the largest
clique. FOLDER holds NAME.train.data.gz, comma-separated. The default cases take 18 minutes on two cores.
"""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import psutil
from search_quality import load

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.machine import describe_machine
from jtsolve.core.run import Limits, Run
from jtsolve.solving import Recorder

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem

COLUMNS = ("set", "largest clique", "seed", "backend", "1/4", "1/2", "end", "best", "CPU s", "wall s")
BACKENDS = ("lns", "portfolio:members=lns+lns", "portfolio:members=lns+search")
_POLL = 0.05
"""Polling interval of the processor time, in seconds."""


class Meter:
    """The processor time of this process and all that it has started, from its making on."""

    def __init__(self) -> None:
        self.own = psutil.Process()
        self.gone: dict[int, float] = {}
        self.begun = self.total()

    def total(self) -> float:
        """Returns seconds; of a process that has ended, those of the last poll."""
        for process in [self.own, *self.own.children(recursive=True)]:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            self.gone[process.pid] = times.user + times.system
        return sum(self.gone.values())

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return self.total() - self.begun


def measure(problem: Problem, text: str, seed: int, threads: int, cpu: float) -> list[object]:
    """Runs a backend until it has used so much processor time; returns the row's last cells."""
    run = Run(Limits(seed=seed, threads=threads))
    recorder = Recorder(problem, run)
    meter, began, over = Meter(), monotonic(), threading.Event()
    at: list[tuple[float, float | None]] = []

    def watch() -> None:
        while not over.wait(_POLL):
            used = meter.seconds
            at.append((used, recorder.score))
            if used >= cpu:
                run.interrupt()
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        outcome = REGISTRY.parse(text).solve(problem, run.limits, recorder)
    finally:
        over.set()
        watcher.join()
    recorder(tree=outcome.tree)
    cells = []
    for share in (0.25, 0.5, 1.0):
        known = [score for used, score in at if used <= share * cpu]
        score = recorder.score if share == 1.0 else (known[-1] if known else None)
        cells.append("none" if score is None else f"{score:.1f}")
    best = outcome.stats.get("best", "")
    return [*cells, best, f"{meter.seconds:.0f}", f"{monotonic() - began:.0f}"]


def main() -> None:
    """Measures all cases and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data")
    parser.add_argument("--cases", default="plants:3,plants:4,accidents:3")
    parser.add_argument("--backends", nargs="+", default=list(BACKENDS), help="as for --backend")
    parser.add_argument("--cpu", type=float, default=60.0, help="seconds of processor time for each run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    machine = describe_machine(arguments.threads)
    print(f"{machine['processor']}, {arguments.threads} threads; {arguments.cpu:g} s of processor time.\n")
    print(f"Command: `{' '.join(['python', 'benchmarks/portfolio_members.py', *sys.argv[1:]])}`\n")
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for seed in arguments.seeds:
        for case in arguments.cases.split(","):
            name, width = case.split(":")
            for text in arguments.backends:
                problem = load(arguments.data, name, int(width))
                measured = measure(problem, text, seed, arguments.threads, arguments.cpu)
                cells = [name, width, seed, f"`{text}`", *measured]
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
