"""Graph selection over junction trees: the comparison of Vats and Nowak on their settings, and speed.

    python benchmarks/selection.py compare --trials 50 --output docs/benchmarks/selection
    python benchmarks/selection.py speed --output docs/benchmarks/selection_speed

`compare` draws rows from the graphs of D. Vats, R. Nowak, JMLR 15, 2014 (their chains, cycles, hubs, and a
random neighbourhood graph), screens them by Algorithm 4, and selects within the screen by a method on all
columns ("plain", parameter by EBIC), by the same method over the junction tree ("tree"), and by the plain
method with as many edges as the tree ("equal"). Weak edges are those among the first fifth of the vertices.
Standard errors are over the trials. Each finished setting is written; those in the output are not repeated.

`speed` measures the processor seconds of one run of each task, for the path the least of five, in a separate
process, and its peak memory.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from publishing import publish

from jtsolve.core.machine import peak_memory
from jtsolve.selection.choosing import Ebic
from jtsolve.selection.framework import OverJunctionTree, Plain, select
from jtsolve.selection.lasso import GraphicalLasso, NeighbourhoodSelection
from jtsolve.selection.pc import PC
from jtsolve.selection.samples import GaussianSample
from jtsolve.selection.screens import Complete, Correlations, GivenGraph, PcScreen
from jtsolve.tables.table import ContinuousTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from jtsolve.core.graph import UndirectedGraph

WEAK = 0.2
"""Share of the vertices whose edges among themselves are weak."""


def chain(p: int, weak: float, strong: float) -> NDArray[np.float64]:
    """Returns the precision matrix of a chain."""
    first = int(WEAK * p)
    matrix = np.eye(p)
    for i in range(p - 1):
        matrix[i, i + 1] = matrix[i + 1, i] = weak if i + 1 < first else strong
    return matrix


def cycle(p: int, weak: float, strong: float) -> NDArray[np.float64]:
    """Returns the precision matrix of cycles with chords: weak triangles, then steps of five."""
    first = int(WEAK * p)
    edges = [(k, k + 1) for k in range(p - 1)] + [(k, k + 2) for k in range(first)]
    edges += [(0, first - 1), (first, p - 1)]
    edges += [(k - 1, min(p, k + 5) - 1) for k in range(first, p, 5)]
    matrix = np.eye(p)
    for u, v in edges:
        matrix[u, v] = matrix[v, u] = weak if u < first and v < first else strong
    return matrix


def hub(p: int, weak: int, strong: int) -> NDArray[np.float64]:
    """Returns the precision matrix of stars of `weak` vertices among the weak ones, else of `strong`."""
    first = int(WEAK * p)
    matrix = np.eye(p)
    for begin, end, size in ((0, first, weak), (first, p, strong)):
        for centre in range(begin, end, size):
            leaves = np.arange(centre + 1, min(centre + size, end))
            matrix[centre, leaves] = matrix[leaves, centre] = 1 / (size - 1) - 1e-7
    return matrix


def neighbourhood(p: int, share: float, seed: int = 7) -> NDArray[np.float64]:
    """Returns that of a graph of near points in a square, of bounded degree; drawn until it is regular."""
    draw = np.random.default_rng(seed)
    first = max(4, int(np.ceil(share * p)))
    for _ in range(100):
        matrix = np.eye(p)
        for begin, end, degree, value in ((0, first, 8, 0.15), (first, p, 4, 0.249)):
            places = draw.random((end - begin, 2))
            squares = np.square(places[:, None] - places[None]).sum(axis=2)
            joined = np.tril(draw.random(squares.shape) < np.exp(-4 * squares) / np.sqrt(2 * np.pi), -1)
            joined |= joined.T
            for v in np.flatnonzero(joined.sum(axis=0) > degree).tolist():
                extra = np.flatnonzero(joined[v])[degree:]
                joined[v, extra] = joined[extra, v] = False
            matrix[begin:end, begin:end] += value * joined
        for u, v in ((-3, 0), (-2, 1), (-1, 2), (-3, 1)):
            matrix[first + u, first + v] = matrix[first + v, first + u] = 0.15
        if np.linalg.eigvalsh(matrix)[0] > 1e-3:
            return matrix
    raise SystemExit("no regular precision matrix was drawn")


SETTINGS: dict[str, tuple[Callable[[], NDArray[np.float64]], int, int, int]] = {
    "CH1": (lambda: chain(100, 0.15, 0.25), 0, 2, 1),
    "CH2": (lambda: chain(100, 0.075, 0.25), 0, 2, 1),
    "CY1": (lambda: cycle(100, 0.15, 0.25), 1, 2, 2),
    "CY2": (lambda: cycle(100, 0.075, 0.25), 1, 2, 2),
    "HB1": (lambda: hub(100, 8, 5), 0, 1, 1),
    "HB2": (lambda: hub(100, 12, 5), 0, 1, 1),
    "NB1": (lambda: neighbourhood(100, 0.2), 1, 4, 2),
    "NB300": (lambda: neighbourhood(300, 0.1), 1, 4, 2),
}
"""By name: precision matrix, η of the screen, largest separator, η of PC, as in the authors' programs."""

LEVEL = 0.01
"""α of the screen."""
COLUMNS = ["graph", "rows", "trials", "method", "WEDR", "FDR", "TPR", "ED", "edges", "processor s"]


def drawn(precision: NDArray[np.float64], rows: int, seed: int) -> ContinuousTable:
    """Returns rows of a normal distribution."""
    draw = np.random.default_rng(seed)
    factor = np.linalg.cholesky(np.linalg.inv(precision))
    values = factor @ draw.normal(size=(len(precision), rows))
    return ContinuousTable(tuple(f"X{v}" for v in range(len(precision))), values)


def measured(truth: NDArray[np.bool_], found: UndirectedGraph, weak: int) -> list[float]:
    """Returns the rates of weak, false and true edges, the edit distance, and the number of edges."""
    true, own = np.triu(truth), np.triu(found.matrix())
    hits = (true & own).sum()
    weak_edges = true[:weak, :weak]
    return [
        (weak_edges & own[:weak, :weak]).sum() / max(1, weak_edges.sum()),
        (own & ~true).sum() / max(1, own.sum()),
        hits / true.sum(),
        (true ^ own).sum(),
        own.sum(),
    ]


def equal(method: Any, moments: GaussianSample, screen: GivenGraph, edges: int) -> UndirectedGraph:
    """Returns the plain graph with the nearest number of edges, by bisection of the parameter."""
    from dataclasses import replace

    low, high = (1e-12, 0.999) if isinstance(method, PC) else (1e-3, 1.0)
    best: UndirectedGraph | None = None
    for _ in range(25):
        middle = float(np.sqrt(low * high))
        graph = select(moments, replace(method, criterion=middle), screen, Plain()).graph
        if best is None or abs(graph.size - edges) < abs(best.size - edges):
            best = graph
        if graph.size == edges:
            break
        # Larger λ give fewer edges, larger levels more.
        if (graph.size > edges) == isinstance(method, PC):
            high = middle
        else:
            low = middle
    assert best is not None
    return best


def one_trial(name: str, rows: int, seed: int, chosen: list[str]) -> Iterator[tuple[str, list[float]]]:
    """Yields the measures of every method, with processor seconds last."""
    make, eta, separators, depth = SETTINGS[name]
    precision = make()
    truth = (precision != 0) & ~np.eye(len(precision), dtype=np.bool_)
    weak = int((0.1 if name == "NB300" else WEAK) * len(precision))
    moments = GaussianSample.of(drawn(precision, rows, seed))
    began = time.process_time()
    superset = PcScreen(eta, LEVEL).superset(moments, 0)
    yield "screen", [*measured(truth, superset, weak), time.process_time() - began]
    screen = GivenGraph(superset)
    methods: dict[str, Any] = {
        "glasso": GraphicalLasso(),
        "pc": PC(depth, criterion=Ebic()),
        "neighbourhood": NeighbourhoodSelection(),
    }
    for label in chosen:
        method = methods[label]
        sizes = 0
        for way, over in (("plain", Plain()), ("tree", OverJunctionTree(separators))):
            began = time.process_time()
            graph = select(moments, method, screen, over).graph
            yield f"{label} {way}", [*measured(truth, graph, weak), time.process_time() - began]
            sizes = graph.size
        began = time.process_time()
        graph = equal(method, moments, screen, sizes)
        yield f"{label} equal", [*measured(truth, graph, weak), time.process_time() - began]


def compare(names: list[str], sizes: list[int], trials: int, chosen: list[str], output: Path | None) -> None:
    """Runs the comparison; prints and writes the table after each setting."""
    table: list[dict[str, Any]] = []
    if output is not None and output.with_suffix(".csv").exists():
        with output.with_suffix(".csv").open(encoding="utf-8", newline="") as stream:
            table = list(csv.DictReader(stream))
    done = {(row["graph"], row["rows"]) for row in table}
    for rows in sizes:
        for name in names:
            if (name, str(rows)) in done:
                continue
            found: dict[str, list[list[float]]] = {}
            for trial in range(trials):
                for method, measures in one_trial(name, rows, 1000 + trial, chosen):
                    found.setdefault(method, []).append(measures)
            for method, listed in found.items():
                mean = np.mean(listed, axis=0)
                error = np.std(listed, axis=0, ddof=1) / np.sqrt(trials) if trials > 1 else mean * np.nan
                shown = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean[:3], error[:3], strict=True)]
                shown += [f"{mean[3]:.1f} ± {error[3]:.1f}", f"{mean[4]:.1f}", f"{mean[5]:.2f}"]
                table.append(dict(zip(COLUMNS, [name, rows, trials, method, *shown], strict=True)))
            publish(table, COLUMNS, 1, output)


SPEED = ["task", "edges", "processor s", "peak GB", "scikit-learn s", "ratio"]


def path_and_peer(p: int, rows: int) -> dict[str, Any]:
    """Returns the seconds of an EBIC path, and of scikit-learn's solver for 16 λ down to the best one.

    The tolerance of scikit-learn, on the duality gap, is one that it reaches: at the default of 1e-4, each λ
    uses all 100 iterations.
    """
    from sklearn.covariance import graphical_lasso

    table = drawn(chain(p, 0.15, 0.25), rows, 1)
    method = GraphicalLasso()
    found = select(table, method, Complete(), Plain())  # compiles the kernels
    spent = _least(lambda: select(table, method, Complete(), Plain()))
    correlation = GaussianSample.of(table).correlation
    off = np.abs(correlation - np.eye(p))
    values = np.geomspace(off.max(), found.steps[0].parameter or 1.0, 16).tolist()
    theirs = _least(lambda: [graphical_lasso(correlation, value, tol=1e-2) for value in values])
    return {
        "task": f"glasso, EBIC path, p = {p}, n = {rows}; theirs: 16 λ from the largest to the best",
        "edges": found.graph.size,
        "processor s": f"{spent:.3f}",
        "scikit-learn s": f"{theirs:.2f}",
        "ratio": f"{theirs / spent:.1f}",
    }


def _least(work: Callable[[], object]) -> float:
    """Returns the least processor seconds of five runs, since other programs can only add to them."""
    spent = []
    for _ in range(5):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


def over_a_tree(p: int, rows: int, screen: Any, shown: str) -> dict[str, Any]:
    """Returns the seconds of a whole selection: moments, screen, junction trees, decisions, strengths."""
    small = drawn(chain(20, 0.15, 0.25), 100, 0)
    select(small, GraphicalLasso(), PcScreen(1, LEVEL), OverJunctionTree(2))  # compiles the kernels
    table = drawn(chain(p, 0.15, 0.25), rows, 1)
    began = time.process_time()
    found = select(table, GraphicalLasso(), screen, OverJunctionTree(2))
    spent = time.process_time() - began
    task = f"glasso over a junction tree, p = {p}, n = {rows}, {shown}, {found.superset.size} edges"
    return {"task": task, "edges": found.graph.size, "processor s": f"{spent:.2f}"}


TASKS: dict[str, Callable[[], dict[str, Any]]] = {
    "path": lambda: path_and_peer(100, 300),
    "tree100": lambda: over_a_tree(100, 300, PcScreen(0, LEVEL), "screen pc:0"),
    "tree600": lambda: over_a_tree(600, 150, PcScreen(0, 0.001), "screen pc:0 at 0.001"),
    "tree2000": lambda: over_a_tree(2000, 300, Correlations(0.2), "screen correlation:0.2"),
    "path40": lambda: path_and_peer(40, 100),
}


def speed(names: list[str], output: Path | None) -> None:
    """Runs each task in a separate process; prints and writes the table after each."""
    table: list[dict[str, Any]] = []
    for name in names:
        command = [sys.executable, __file__, "once", name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        table.append(json.loads(done.stdout))
        publish(table, SPEED, 1, output)


def main() -> None:
    """Runs the comparison, the speed tasks, or one of these."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["compare", "speed", "once"])
    parser.add_argument("task", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--rows", default="300,500")
    parser.add_argument("--methods", default="glasso,pc,neighbourhood")
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--tasks", default="path,tree100,tree600,tree2000")
    parser.add_argument("--output", type=Path, help="file without suffix")
    arguments = parser.parse_args()
    if arguments.what == "once":
        print(json.dumps(TASKS[arguments.task]() | {"peak GB": f"{peak_memory() / 1e9:.2f}"}))
    elif arguments.what == "speed":
        speed(arguments.tasks.split(","), arguments.output)
    else:
        sizes = [int(size) for size in arguments.rows.split(",")]
        chosen = arguments.methods.split(",")
        compare(arguments.settings.split(","), sizes, arguments.trials, chosen, arguments.output)


if __name__ == "__main__":
    main()
