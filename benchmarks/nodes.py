"""One hard problem on two Dask workers beside two threads, and a simulation of larger clusters.

    python benchmarks/nodes.py --data FOLDER --output docs/benchmarks/nodes

runs `jtsolve solve` both ways on alarm (10,000 rows, BDeu) at treewidth 3 and plants at 2, from FOLDER, with
`portfolio`, and on random scores with few cliques, whose proof branches, with `clutter`. Processor seconds
are those of the command and its workers. What starting takes is measured apart: of the command, with three
variables, and of two workers that do nothing. A small run before has compiled the kernels.

The simulation is of such a proof in one process: every node's seconds, its bound and its children are
recorded, a node a task. Free workers take the open node with the largest bound; a child is
open when its parent is done, and a task costs what sending it takes: packing and unpacking the node, measured
here, and a millisecond of the scheduler, which handles one task at a time.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.clutter.backend import ClutterCuts
from jtsolve.backends.clutter.branch_and_bound import BranchAndBound, OpenNode, ProofNode
from jtsolve.backends.clutter.spread import packed
from jtsolve.core import run as core
from jtsolve.core.machine import describe
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits
from jtsolve.core.scores import DenseScores
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.io.instance import write_problem
from jtsolve.solving import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor

SCHEDULER = 1e-3
"""Seconds that Dask's scheduler takes for a task, as its documentation gives it."""
WORKERS = (1, 2, 8, 64, 512)
_TWO_WORKERS = "from jtsolve.cluster import local_workers\nwith local_workers(2): pass"


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the command."""

    problem: str
    executor: str
    seconds: float
    processor: float
    status: str
    nodes: int
    tasks: int


@dataclass(slots=True)
class Node:
    """A node of a proof: seconds of its work and of sending it, its bound in units, and its children."""

    seconds: float
    sent: float
    bound: int
    children: list[Node]


def random_problem(n: int, size: int, cliques: int) -> Problem:
    """Returns normal scores for sets of up to `size` variables, and a limit on the number of cliques."""
    values = np.random.default_rng(0).standard_normal(count_bounded_subsets(n, size))
    values[0] = 0.0
    names = tuple(Variable(f"V{v}") for v in range(n))
    return Problem(
        names,
        DenseScores(n, size, values),
        Constraints(max_cliques=cliques),
        f"random {n}, {size}, {cliques}",
    )


def measured(command: Sequence[str]) -> tuple[bytes, float, float]:
    """Returns what a command of Python prints, its seconds, and processor seconds with its children."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, *command], check=True, capture_output=True)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def timed(name: str, words: Sequence[str], executor: str, limit: float) -> Run:
    """Runs the command with two threads or workers."""
    command = ["-m", "jtsolve", "solve", *words, "--json", "--threads", "2"]
    printed, seconds, spent = measured([*command, "--executor", executor, "--time-limit", str(limit)])
    result = json.loads(printed)
    stats = result["stats"]
    proof = next((one for one in stats.get("members", {}).values() if "nodes" in one), stats)
    run = Run(name, executor, seconds, spent, result["status"], proof.get("nodes", 0), proof.get("tasks", 0))
    print(run, flush=True)
    return run


def recorded(problem: Problem, seconds: float) -> Node | None:
    """Returns the nodes of a proof in this process; None if the time did not suffice."""
    limits = Limits(threads=1, time=seconds)
    recorder = Recorder(problem, core.Run(limits))
    nodes: dict[int, Node] = {}
    proofs: list[ProofNode] = []
    work = BranchAndBound._work  # noqa: SLF001 - it is measured

    def watched(search: BranchAndBound, node: OpenNode, pool: ThreadPoolExecutor | None) -> bool:
        at, bound = time.thread_time(), node.subproblem.units
        packed(node)
        sent = 2 * (time.thread_time() - at)  # unpacking takes as long
        at = time.thread_time()
        done = work(search, node, pool)
        nodes[id(node.proof)] = Node(time.thread_time() - at, sent, bound, [])
        proofs.append(node.proof)
        return done

    BranchAndBound._work = watched  # type: ignore[method-assign,assignment]  # noqa: SLF001
    try:
        outcome = ClutterCuts().solve(problem, limits, recorder)
    finally:
        BranchAndBound._work = work  # type: ignore[method-assign]  # noqa: SLF001
    if outcome.stop is not Stop.FINISHED:
        return None
    below = set()
    for proof in proofs:
        children = [id(one) for one in (proof.absent, proof.present) if one is not None]
        nodes[id(proof)].children = [nodes[one] for one in children]
        below.update(children)
    roots = [nodes[id(proof)] for proof in proofs if id(proof) not in below]
    return max(roots, key=lambda root: total(root, lambda _: 1.0))  # not that of a first tree, or of ties


def makespan(root: Node, workers: int) -> float:
    """Returns the seconds of a proof on a number of workers."""
    waiting: list[tuple[int, int, Node]] = [(-root.bound, 0, root)]
    running: list[tuple[float, int, Node]] = []
    now = scheduled = 0.0
    count = 1
    while waiting or running:
        while waiting and len(running) < workers:
            _, _, node = heapq.heappop(waiting)
            scheduled = max(now, scheduled) + SCHEDULER
            heapq.heappush(running, (scheduled + node.sent + node.seconds, count, node))
            count += 1
        now, _, node = heapq.heappop(running)
        for child in node.children:
            heapq.heappush(waiting, (-child.bound, count, child))
            count += 1
    return now


def total(root: Node, of: Callable[[Node], float]) -> float:
    """Returns a sum over all nodes."""
    return of(root) + sum(total(child, of) for child in root.children)


def depth(root: Node) -> float:
    """Returns the seconds of the longest chain of nodes, below which no cluster comes."""
    return root.seconds + max(map(depth, root.children), default=0.0)


def main() -> None:
    """Runs the benchmark, and writes OUTPUT.csv and OUTPUT.md."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of the public data; without, random scores only")
    parser.add_argument("--cases", default="alarm,plants", help="which of the public data")
    parser.add_argument("--random", default="9,3,4", help="variables, members of a clique, and cliques")
    parser.add_argument("--simulate", default="9,3,4", help="the same, of the problem that is simulated")
    parser.add_argument("--time-limit", type=float, default=300.0)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small, branching = folder / "small.json", folder / "random.json"
        write_problem(random_problem(3, 2, 3), small)
        write_problem(random_problem(*map(int, options.random.split(","))), branching)
        cases = [(f"random {options.random}", [str(branching), "--backend", "clutter"])]
        if options.data is not None:
            both = ["--backend", "portfolio"]
            alarm = options.data / "scores" / "alarm_10000.dat.gz"
            plants = options.data / "density" / "plants.train.data.gz"
            known = {
                "alarm": ("alarm 3", [str(alarm), "--score", "bdeu", "--treewidth", "3", *both]),
                "plants": (
                    "plants 2",
                    [str(plants), "--no-header", "--score", "bic", "--treewidth", "2", *both],
                ),
            }
            cases += [known[name] for name in options.cases.split(",")]
        starting = [str(small), "--backend", "clutter"]
        timed("start", starting, "local", options.time_limit)  # compiles
        runs = [timed("start", starting, "local", options.time_limit)]
        _, seconds, spent = measured(["-c", _TWO_WORKERS])
        runs.append(Run("start of the workers", "dask", seconds, spent, "", 0, 0))
        for case, words in cases:
            for executor in ("local", "dask"):
                runs.append(timed(case, words, executor, options.time_limit))  # noqa: PERF401 - one at a time
    root = recorded(random_problem(*map(int, options.simulate.split(","))), options.time_limit)
    report(options.output, runs, root, options.simulate)


def report(output: Path, runs: list[Run], root: Node | None, simulated: str) -> None:
    """Writes the table of the runs, and the page with the simulation."""
    with output.with_suffix(".csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow([entry.name for entry in fields(Run)])
        table.writerows(astuple(run) for run in runs)
    machine = describe(2)
    lines = [
        f"{machine['cores']} cores ({machine['processor']}), Python {machine['python']}:",
        f"`{machine['command']}`",
        "",
        "| problem | executor | seconds | processor seconds | status | nodes | tasks of the proof |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run in runs:
        facts = f"{run.seconds:.1f} | {run.processor:.1f} | {run.status} | {run.nodes} | {run.tasks}"
        lines.append(f"| {run.problem} | {run.executor} | {facts} |")
    lines += [
        "",
        "| problem | two workers / one process |",
        "| --- | --- |",
    ]
    for here, there in zip(runs[2::2], runs[3::2], strict=True):
        lines.append(f"| {here.problem} | {there.processor / here.processor:.2f} |")
    if root is None:
        lines += ["", f"The proof of random {simulated} did not end within the time."]
    else:
        work = total(root, lambda node: node.seconds)
        lines += [
            "",
            f"Simulated, random {simulated}: {total(root, lambda _: 1.0):.0f} nodes, {work:.1f} s of work,",
            f"{total(root, lambda node: node.sent):.2f} s to pack and unpack nodes; the first node takes",
            f"{root.seconds:.2f} s, the longest chain {depth(root):.2f} s.",
            "",
            "| workers | seconds | times as fast as one |",
            "| --- | --- | --- |",
        ]
        one = makespan(root, 1)
        for workers in WORKERS:
            seconds = makespan(root, workers)
            lines.append(f"| {workers} | {seconds:.2f} | {one / seconds:.1f} |")
    output.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
