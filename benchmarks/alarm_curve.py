"""Test log-likelihood over the number of rows, on ALARM: the setting of Chechetka and Guestrin's Figure 2(b).

    python benchmarks/alarm_curve.py alarm.bif.gz --output docs/benchmarks/alarm_curve --draw alarm_curve.png

Training data of each number of rows are drawn from the network; each method learns a structure of bounded
treewidth; its tables are fitted with a prior of equivalent sample size 1; the model is tested on rows of
another seed. The top line is the network itself, with its true tables. A method is stopped after `--seconds`
of processor time on one thread, and its best tree found so far counts. Cases in `--output` are not repeated.
`--draw FILE` draws the table.

A method is a backend and, after a colon, its score: `consistent:ml`, `lns:bic`; `consistent+lns:bic` is `lns`
started from the trees of `consistent`. Methods that are not registered are left out, with a note.
"""

from __future__ import annotations

import argparse
import csv
import signal
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from labels import label_ends

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.machine import describe_machine
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.run import Limits, Run
from jtsolve.models.learning.fit import count
from jtsolve.networks.files import read_network
from jtsolve.networks.sample import sample
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.registry import REGISTRY as SCORES
from jtsolve.solving import solve
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend
    from jtsolve.networks.network import Network

METHODS = "chowliu:ml,forward:bic,consistent:ml,consistent:bic,search:ml,search:bic,lns:ml,lns:bic"
TEST_SEED = 1_000_003
COLUMNS = ["rows", "seed", "method", "test nats/row", "train score", "parameters", "cpu s", "stop"]
TITLES = {"ml": "learned by maximum likelihood", "bic": "learned by BIC"}


def data(network: Network, rows: int, seed: int) -> DataTable:
    """Returns rows drawn from the network."""
    codes = np.ascontiguousarray(sample(network, rows, seed).T)
    return DataTable(
        tuple(node.name for node in network.nodes), tuple(node.states for node in network.nodes), codes
    )


def truth(network: Network, table: DataTable) -> float:
    """Returns the mean log-likelihood of rows under the network itself, in nats."""
    total = 0.0
    for v, node in enumerate(network.nodes):
        row = np.zeros(table.rows, dtype=np.int64)
        for parent in node.parents:
            row = row * len(network.nodes[parent].states) + table.codes[parent]
        chances = node.table / node.table.sum(axis=1, keepdims=True)
        total += float(np.log(chances[row, table.codes[v]]).mean())
    return total


def backend_of(name: str, q: int) -> Backend | None:
    """Returns the backend of a method's name, or None if it is not registered."""
    parts = name.split("+")
    if any(part not in REGISTRY for part in parts):
        return None
    chosen: list[Any] = [REGISTRY[part] for part in parts]
    chosen = [replace(entry, q=q) if entry.name == "consistent" else entry for entry in chosen]
    backend: Backend = chosen[0] if len(chosen) == 1 else replace(chosen[1], start=(chosen[0],))
    return backend


def seconds_of(name: str, text: str) -> float:
    """Returns the seconds for a backend, from "10,consistent=30": 10, but for `consistent` 30.

    >>> seconds_of("lns", "10,consistent=30"), seconds_of("consistent", "10,consistent=30")
    (10.0, 30.0)
    """
    general, *others = text.split(",")
    return float(dict(part.split("=") for part in others).get(name, general))


def measure(
    network: Network, train: DataTable, test: DataTable, method: str, arguments: argparse.Namespace
) -> dict[str, object] | None:
    """Returns the figures of one method on one sample; None if there is no such backend."""
    name, _, score = method.partition(":")
    backend = backend_of(name, arguments.q)
    if backend is None:
        return None
    treewidth = 1 if name == "chowliu" else arguments.treewidth
    scores = DataScores(train, SCORES[score], treewidth + arguments.q, cache=arguments.cache)
    problem = Problem(
        tuple(Variable(node.name, node.states) for node in network.nodes),
        scores,
        Constraints(max_treewidth=treewidth),
    )
    began = time.process_time()
    # The timer counts processor time and acts like Ctrl-C: `solve` returns the best tree found so far.
    signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_PROF, seconds_of(name, arguments.seconds))
    result = solve(problem, backend, Run(Limits(threads=1, seed=1)))
    signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = time.process_time() - began
    if result.tree is None:
        return None
    model = count(result.tree, train).model(arguments.ess)
    return {
        "test nats/row": f"{float(model.log_likelihood(test).mean()):.4f}",
        "train score": f"{result.score:.2f}",
        "parameters": model.parameters,
        "cpu s": f"{seconds:.1f}",
        "stop": result.stop.value,
    }


def stored(path: Path) -> list[dict[str, str]]:
    """Returns the rows of the table so far."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def summary(rows: list[dict[str, str]], true: float) -> str:
    """Returns means over the seeds as a Markdown table: a row for each method, a column for each size."""
    sizes = sorted({int(row["rows"]) for row in rows})
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = ["| method | " + " | ".join(map(str, sizes)) + " |", "|---|" + "--:|" * len(sizes)]
    for method in methods:
        cells = []
        for size in sizes:
            found = [
                float(row["test nats/row"])
                for row in rows
                if row["method"] == method and int(row["rows"]) == size
            ]
            cells.append(f"{statistics.mean(found):.3f}" if found else "")
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    lines.append("| the network itself | " + " | ".join(f"{true:.3f}" for _ in sizes) + " |")
    return "\n".join(lines)


def draw(rows: list[dict[str, str]], true: float, path: Path) -> None:
    """Draws means over the seeds, with the range of the seeds: a panel for each score.

    Chow-Liu trees, which hardly depend on the penalty, are in all panels for comparison.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    methods = sorted({row["method"] for row in rows})
    names = [name for name in dict.fromkeys(m.partition(":")[0] for m in methods) if name != "chowliu"]
    colours = {"chowliu": "0.45"} | {name: f"C{i}" for i, name in enumerate(names)}
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
    for axes, score in zip(panels, TITLES, strict=True):
        axes.axhline(true, color="black", linewidth=1)
        ends = [(true, "the network itself", "black")]
        for method in methods:
            name, _, own_score = method.partition(":")
            if own_score != score and name != "chowliu":
                continue
            own = [row for row in rows if row["method"] == method]
            sizes = sorted({int(row["rows"]) for row in own})
            values = [[float(row["test nats/row"]) for row in own if int(row["rows"]) == s] for s in sizes]
            means = [statistics.mean(found) for found in values]
            below = [mean - min(found) for mean, found in zip(means, values, strict=True)]
            above = [max(found) - mean for mean, found in zip(means, values, strict=True)]
            axes.errorbar(sizes, means, [below, above], color=colours[name], marker="o", ms=3, linewidth=1.3)
            ends.append((means[-1], name, colours[name]))
        axes.set(xscale="log", xlabel="rows of training data", title=TITLES[score])
        axes.spines[["top", "right"]].set_visible(False)
        label_ends(axes, ends)
    panels[0].set_ylabel("test log-likelihood, nats per row")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measures the missing cases; prints, writes and draws the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", type=Path, help="ALARM in BIF")
    parser.add_argument("--rows", default="100,300,1000,3000,10000")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--treewidth", type=int, default=3)
    parser.add_argument("--q", type=int, default=2, help="option q of consistent")
    parser.add_argument(
        "--seconds",
        default="10,consistent=30",
        help="processor time of a run; exceptions by name",
    )
    parser.add_argument("--test-rows", type=int, default=100_000)
    parser.add_argument("--ess", type=float, default=1.0, help="equivalent sample size of the tables")
    parser.add_argument("--cache", type=int, default=1_000_000, help="number of cached scores")
    parser.add_argument("--output", type=Path, default=Path("alarm_curve"), help="file without suffix")
    parser.add_argument("--draw", type=Path)
    arguments = parser.parse_args()
    network = read_network(arguments.network)
    test = data(network, arguments.test_rows, TEST_SEED)
    true = truth(network, test)
    table = arguments.output.with_suffix(".csv")
    rows = stored(table)
    for size in map(int, filter(None, arguments.rows.split(","))):
        for seed in map(int, arguments.seeds.split(",")):
            train = data(network, size, seed)
            for method in arguments.methods.split(","):
                case = {"rows": str(size), "seed": str(seed), "method": method}
                if any(all(row[key] == case[key] for key in case) for row in rows):
                    continue
                figures = measure(network, train, test, method, arguments)
                if figures is None:
                    print(f"left out: {case}", flush=True)
                    continue
                rows.append(case | {key: str(value) for key, value in figures.items()})
                print(rows[-1], flush=True)
                with table.open("w", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS)
                    writer.writeheader()
                    writer.writerows(rows)
    machine = describe_machine(1)
    shown = [word if "/" not in word else Path(word).name for word in sys.argv[1:]]
    text = (
        f"Test log-likelihood in nats per row, means over seeds {arguments.seeds}. {machine['processor']}, "
        f"one thread; jtsolve {machine['jtsolve']}.\n\n"
        f"Command: `{' '.join(['python', 'benchmarks/alarm_curve.py', *shown])}`\n\n{summary(rows, true)}\n"
    )
    print(text)
    if arguments.draw is not None:
        draw(rows, true, arguments.draw)


if __name__ == "__main__":
    main()
