"""Feature trees: test log-likelihoods and seconds on density-estimation sets, and the speed of their queries.

    python benchmarks/lem.py --data FOLDER --sets nltcs,msnbc,plants --alarm ALARM.bif --output OUTPUT

FOLDER holds NAME.train.data.gz, NAME.valid.data.gz and NAME.test.data.gz. Every method is fitted to the
training rows; validation rows choose its prior, and its threshold or penalty, except for the paper's δ. ALARM
is a network, from which rows are sampled. A table shows the mean of ln P over the test rows, in nats, and the
seconds of the processor for the fit, choices included, once the kernels are compiled; with `--conditional N`
also the mean of ln P(q | e) over N test rows, a random half of whose variables is observed (e).
`--contexts` adds rows of a model that we made: three bits choose one of eight chains over 17 other variables.

    python benchmarks/lem.py --speed --output OUTPUT

measures likelihoods, and all marginals, of random feature trees of 511 to 16,383 A-nodes; `--draw FILE` draws
the time of the marginals. Its slope over the size of the tree, by regression of logarithms, is 1 where
inference is linear. Leaves of even trees have eight variables each, so that only the number of A-nodes grows.
In the paper every cell of a table is one more A-node; in trees that are not even those grow more slowly than
the others, since deep leaves have few variables left.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from itertools import product
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from density import binary_rows

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.machine import describe_machine
from jtsolve.core.run import Limits, Run
from jtsolve.models.columns import Column, codes_of
from jtsolve.models.features.context import Context, Literal
from jtsolve.models.features.nodes import Product, Split, TableLeaf
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.inference.sampling import sample
from jtsolve.models.learning.context_trees import ContextTrees
from jtsolve.models.learning.learner import Learner
from jtsolve.models.learning.lem import PUBLISHED, Lem
from jtsolve.models.learning.task import FitTask
from jtsolve.models.learning.tree import Tree
from jtsolve.models.network import from_network
from jtsolve.networks.files import read_network
from jtsolve.scoring.scores.bic import Bic
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jtsolve.models.features.nodes import Node
    from jtsolve.models.learning.task import ModelKind
    from jtsolve.models.protocol import StateDistribution


def methods(time_limit: float) -> dict[str, Callable[[DataTable, DataTable], StateDistribution]]:
    """Returns how to fit a model to training and validation rows, by name."""
    lns = REGISTRY["lns"]

    def of(
        kind: ModelKind, treewidth: int | None = None, time: float | None = None, **more: Any
    ) -> Callable[[DataTable, DataTable], StateDistribution]:
        def fit(train: DataTable, valid: DataTable) -> StateDistribution:
            task = FitTask(train, Bic(), treewidth, validation=valid.codes, **more)
            return kind.fit(task, Run(Limits(time, threads=1)))  # type: ignore[return-value]  # of states

        return fit

    def rooted(train: DataTable, valid: DataTable) -> StateDistribution:
        root = Learner(backend=lns, treewidth=3)(train, Run(Limits(time_limit, threads=1)))
        return of(ContextTrees(), 3, tree=root)(train, valid)

    short = replace(PUBLISHED, length=1, q=2)
    return {
        "LEM, δ = 0.05, k = 1, q = 2": of(replace(short, thresholds=(0.05,))),
        "LEM, δ chosen, k = 1, q = 2": of(replace(short, support=20)),
        "LEM, G test": of(Lem()),
        **{f"trees, treewidth {width}": of(ContextTrees(), width) for width in (1, 2, 3)},
        "trees, treewidth 3, root by lns": rooted,
        **{
            f"junction tree, treewidth {width}": of(Tree(), width, time_limit, backend=lns)
            for width in (2, 4, 6, 8)
        },
    }


FLIP = 0.2257
"""Share of steps of a chain that do not copy, for an entropy of 11.3 nats a row."""


def context_rows(seed: int, sizes: Sequence[int] = (20_000, 2_000, 20_000)) -> tuple[list[DataTable], float]:
    """Returns rows for training, validation and test of 3 bits and 17 others in a chain that the bits choose.

    Returns:
        The rows, and the mean of ln P over the last ones, in nats.
    """
    generator = np.random.default_rng(seed)
    orders = [generator.permutation(17) for _ in range(8)]
    tables = []
    for rows in sizes:
        codes = generator.integers(0, 2, (20, rows)).astype(np.uint8)
        flips = np.zeros((17, rows), dtype=np.uint8)
        flips[1:] = generator.random((16, rows)) < FLIP
        for k, order in enumerate(orders):
            here = np.flatnonzero(codes[0] * 4 + codes[1] * 2 + codes[2] == k)
            states = np.cumsum(flips[:, here], axis=0) + codes[3 + order[0], here]
            codes[np.ix_(3 + order, here)] = states % 2
        tables.append(DataTable(tuple(f"V{v}" for v in range(20)), (("0", "1"),) * 20, codes))
    share = float(flips[1:].mean())
    return tables, -4 * log(2) + 16 * (share * log(FLIP) + (1 - share) * log(1 - FLIP))


def conditional(model: StateDistribution, rows: DataTable, count: int) -> float:
    """Returns the mean of ln P(q | e) over some rows, with half of the variables observed, in nats."""
    generator = np.random.default_rng(0)
    chosen = generator.choice(rows.rows, min(count, rows.rows), replace=False)
    whole = codes_of(model.columns, rows)[:, chosen].astype(np.int32)
    seen = whole.copy()
    for row in range(len(chosen)):
        seen[generator.permutation(rows.n)[: rows.n // 2], row] = -1
    return float(np.mean(model.log_likelihood(whole) - model.log_likelihood(seen)))


def alarm_rows(path: Path, rows: int) -> list[DataTable]:
    """Returns rows sampled from a network: for training, validation and test."""
    model = from_network(read_network(path))
    states = tuple(column.states for column in model.columns)
    return [DataTable(model.names, states, sample(model, rows, seed)) for seed in range(3)]


def learned(name: str, parts: Sequence[DataTable], arguments: argparse.Namespace) -> list[list[str]]:
    """Returns a row of the table for each method."""
    train, valid, test = parts
    found = []
    for method, fit in methods(arguments.seconds).items():
        if arguments.methods and method not in arguments.methods:
            continue
        started = time.process_time()
        model = fit(train, valid)
        used = time.process_time() - started
        means = [float(np.mean(model.log_likelihood(rows))) for rows in (valid, test)]
        if arguments.conditional:
            means.append(conditional(model, test, arguments.conditional))
        splits = len(model.splits) if isinstance(model, FeatureTree) else 0
        row = [name, method, str(splits), str(model.parameters), *(f"{mean:.4f}" for mean in means)]
        found.append([*row, f"{used:.1f}"])
        print(" | ".join(found[-1]), flush=True)
    return found


def warm() -> None:
    """Compiles the kernels."""
    codes = np.random.default_rng(0).integers(0, 2, (4, 300)).astype(np.uint8)
    codes[2] = codes[0]
    rows = DataTable(tuple("abcd"), (("0", "1"),) * 4, codes)
    for fit in methods(1.0).values():
        conditional(fit(rows, rows), rows, 2)


def random_tree(a_nodes: int, generator: np.random.Generator, *, is_even: bool) -> FeatureTree:
    """Returns a random feature tree of single literals, with tables of two variables at the leaves.

    The splits of an even one fill level after level, and each leaf has eight variables, or up to one fewer
    where the last level is not full. Another one has 17 variables, and grows at random leaves.
    """
    n = (a_nodes + 1).bit_length() + 6 if is_even else 17
    nodes: list[Node] = [Product(())]
    waiting = [(0, Context.of([2] * n))]
    left = (a_nodes - 1) // 2
    while waiting:
        at, context = waiting.pop(0 if is_even else int(generator.integers(len(waiting))))
        variables = sorted(context.domains)
        if left == 0 or len(variables) < 4:
            groups = [variables[k : k + 2] for k in range(0, len(variables), 2)]
            nodes[at] = Product(tuple(range(len(nodes), len(nodes) + len(groups))))
            for group in groups:
                values = generator.random((2,) * len(group))
                nodes.append(TableLeaf(tuple(group), values / values.sum()))
            continue
        left -= 1
        literal = Literal(int(generator.choice(variables)), 1)
        kids = (len(nodes), len(nodes) + 1)
        nodes[at] = Split((literal,), float(generator.uniform(0.2, 0.8)), kids)
        nodes += [Product(()), Product(())]
        waiting += [(kid, context.assume((literal,), holds=bool(k))[0]) for k, kid in enumerate(kids)]
    return FeatureTree(tuple(Column(f"V{v}", ("0", "1")) for v in range(n)), tuple(nodes))


def best_of(times: int, run: Callable[[], object]) -> float:
    """Returns the least processor seconds of some runs; the first one compiles and is left out."""
    run()
    found = []
    for _ in range(times):
        started = time.process_time()
        run()
        found.append(time.process_time() - started)
    return min(found)


class Speed(NamedTuple):
    """What was measured on a feature tree.

    Attributes:
        family: "even" or "random"; see `random_tree`.
        a_nodes: see `FeatureTree.a_nodes`.
        paper: the A-nodes of the paper: those, and the cells of all tables.
        rate: of likelihoods, million rows a second.
        marginals: the milliseconds of all marginals.
    """

    family: str
    a_nodes: int
    paper: int
    rate: float
    marginals: float


def speeds(sizes: Sequence[int]) -> list[Speed]:
    """Returns the measurements on trees of some numbers of A-nodes, even ones and others."""
    generator = np.random.default_rng(1)
    found = []
    for family, size in product(("even", "random"), sizes):
        tree = random_tree(size, generator, is_even=family == "even")
        codes = tree.sample(200_000, 1)
        likelihood = best_of(3, lambda tree=tree, codes=codes: tree.log_likelihood(codes))  # type: ignore[misc]
        runs = max(3, 16_000 // size)
        marginals = best_of(
            30,
            lambda tree=tree, runs=runs: [tree.marginals() for _ in range(runs)],  # type: ignore[misc]
        )
        rate = codes.shape[1] / likelihood / 1e6
        found.append(Speed(family, tree.a_nodes, tree.a_nodes + tree.cells, rate, marginals / runs * 1e3))
        print(found[-1], flush=True)
    return found


def lines_of(measured: Sequence[Speed]) -> dict[str, tuple[list[int], list[float]]]:
    """Returns sizes, and times of all marginals, by a name with the slope of one over the other."""
    found = {}
    counts = (("a_nodes", "our A-nodes"), ("paper", "the paper's A-nodes"))
    for family, (size, words) in product(("even", "random"), counts):
        own = [speed for speed in measured if speed.family == family]
        sizes, times = [getattr(speed, size) for speed in own], [speed.marginals for speed in own]
        slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        found[f"{family} trees, {words}: slope {slope:.3f}"] = sizes, times
    return found


def draw(measured: Sequence[Speed], path: Path) -> None:
    """Draws the time of all marginals over the size, with a line of slope 1."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, (sizes, times) in lines_of(measured).items():
        axes.plot(sizes, times, marker="o", ms=4, label=name)
        axes.plot(sizes, times[-1] * np.array(sizes) / sizes[-1], color="0.5", linewidth=1, linestyle=":")
    axes.plot([], [], color="0.5", linewidth=1, linestyle=":", label="slope 1, through the last point")
    axes.set(xscale="log", yscale="log", xlabel="size of the feature tree", ylabel="all marginals, ms")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Reads the command line, measures, prints, writes the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder of the sets")
    parser.add_argument("--sets", default="nltcs,msnbc,plants")
    parser.add_argument("--alarm", type=Path, help="a network (.bif) to sample rows from")
    parser.add_argument("--rows", type=int, default=10_000, help="of the network")
    parser.add_argument("--contexts", action="store_true", help="rows of the model of chains, too")
    parser.add_argument("--seed", type=int, default=0, help="of --contexts")
    parser.add_argument("--conditional", type=int, default=0, metavar="N", help="test rows for ln P(q | e)")
    parser.add_argument("--methods", nargs="*", default=[], help="of these only")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each tree of lns")
    parser.add_argument("--speed", action="store_true", help="measure queries in place of fits")
    parser.add_argument("--sizes", default="511,1023,2047,4095,8191,16383", help="numbers of A-nodes")
    parser.add_argument("--draw", type=Path, help="a picture of --speed")
    parser.add_argument("--output", type=Path, help="where to write the table, as .md")
    arguments = parser.parse_args()
    machine = describe_machine(1)
    head = [f"{machine}; {' '.join(['python', 'benchmarks/lem.py', *sys.argv[1:]])}", ""]
    if arguments.speed:
        measured = speeds([int(size) for size in arguments.sizes.split(",")])
        headings: Sequence[str] = ("trees", "A-nodes", "the paper's", "million rows/s", "all marginals, ms")
        rows = [
            [one.family, f"{one.a_nodes:,}", f"{one.paper:,}", f"{one.rate:.2f}", f"{one.marginals:.3f}"]
            for one in measured
        ]
        tail = ["", f"Marginals' time, in logarithms: {'; '.join(lines_of(measured))}."]
        print(tail[-1])
        if arguments.draw is not None:
            draw(measured, arguments.draw)
    else:
        warm()
        more = ["ln P(q | e)"] * bool(arguments.conditional)
        headings = ["set", "method", "splits", "parameters", "valid", "test", *more, "seconds"]
        rows, tail = [], []
        for name in filter(None, arguments.sets.split(",")):
            parts = [
                binary_rows(arguments.data / f"{name}.{part}.data.gz") for part in ("train", "valid", "test")
            ]
            rows += learned(name, parts, arguments)
        if arguments.alarm is not None:
            parts = alarm_rows(arguments.alarm, arguments.rows)
            rows += learned("alarm", parts, arguments)
        if arguments.contexts:
            parts, truth = context_rows(arguments.seed)
            rows += learned("contexts", parts, arguments)
            tail = ["", f"Truth on the test rows of contexts: {truth:.4f}."]
            print(tail[-1])
    table = [headings, ["---"] * len(headings), *rows]
    lines = [*head, *(f"| {' | '.join(row)} |" for row in table), *tail, ""]
    if arguments.output is not None:
        arguments.output.with_suffix(".md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
