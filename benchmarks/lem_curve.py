"""Test log-likelihood over the number of rows, on Alarm, MSNBC and Adult: Figure 2 of the paper on LEM.

    python benchmarks/lem_curve.py --data FOLDER --journal lem_curve.jsonl
        --output docs/benchmarks/lem_curve --draw docs/images/lem_curve.png

V. Gogate, W. A. Webb and P. Domingos, Learning efficient Markov networks, NIPS 2010. Each fold has its own
rows: for Alarm they are sampled from the network, for MSNBC and Adult drawn from the rows that are not for
testing (test rows: 58,265 and 7,327, as in the paper; for Adult the first of a fixed shuffle of both files).
A fold of N rows has N / 4 more for tuning, which choose the prior of every model and all other settings of a
learner. Numbers in Adult with more than 31 values are cut at their quartiles and the 95th percentile.
Temperature and Traffic, the paper's other two sets, are left out.

Every learner has about `--seconds` of processor time on one thread, the baselines L1 and DL and LEM with
k = 1 three times as much, and its best model found so far counts; but LEM as published has `--published`
seconds and must finish, or is left out at larger sizes. The junction tree of `lns` is the first leaf of the
context tree, whose own seconds are shown. Models of baselines whose likelihood cannot be computed exactly are
left out. The journal has a line for each model; a stopped run resumes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import signal
import statistics
import sys
import time
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from alarm_curve import backend_of, data, truth
from classification import ADULT, MOST_STATES
from density import binary_rows
from journals import read_lines
from labels import label_ends
from log_linear import induced_features, markov_network
from threadpoolctl import threadpool_limits

from jtsolve.core.machine import describe_machine
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits, Run
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.learning.context_trees import ContextTrees
from jtsolve.models.learning.lem import PUBLISHED, Lem
from jtsolve.models.learning.task import FitTask
from jtsolve.models.learning.tree import by_prior
from jtsolve.models.learning.validation import PRIORS, HeldOut, likeliest
from jtsolve.networks.files import read_network
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.registry import REGISTRY as SCORES
from jtsolve.scoring.scores.bic import Bic
from jtsolve.solving import solve
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.learning.task import ModelKind

    Row = dict[str, Any]

SETS = ("alarm", "msnbc", "adult")
COLUMNS = ("set", "rows", "fold", "learner", "test", "tuning", "parameters", "cpu s", "remark")
UNFINISHED = ("interrupted", "not tried: too slow with fewer rows")
ADULT_TEST = 7_327
ALARM_TEST = 20_000
TEST_SEED = 1_000_003


@dataclass(frozen=True, slots=True)
class Source:
    """Source of the rows of a set.

    Attributes:
        test: rows for testing.
        draw: returns the rows of a fold, given their number and that of the fold.
        truth: the mean log-likelihood of the test rows under the model that generated them, or None.
    """

    test: DataTable
    draw: Callable[[int, int], DataTable]
    truth: float | None = None


def source_of(name: str, folder: Path) -> Source:
    """Returns the source of the rows of a set."""
    if name == "alarm":
        network = read_network(folder / "networks/alarm.bif.gz")
        test = data(network, ALARM_TEST, TEST_SEED)
        return Source(test, lambda rows, fold: data(network, rows, fold), truth(network, test))
    if name == "msnbc":
        pool, test = (binary_rows(folder / f"density/msnbc.{part}.data.gz") for part in ("train", "test"))
    else:
        whole = adult(folder / "uci")
        order = np.random.default_rng(TEST_SEED).permutation(whole.rows)
        test, pool = chosen(whole, order[:ADULT_TEST]), chosen(whole, order[ADULT_TEST:])

    def draw(rows: int, fold: int) -> DataTable:
        return chosen(pool, np.random.default_rng(fold).permutation(pool.rows)[:rows])

    return Source(test, draw)


def chosen(table: DataTable, rows: Any) -> DataTable:
    """Returns some rows of a table."""
    return replace(table, codes=np.ascontiguousarray(table.codes[:, rows]))


def adult(folder: Path) -> DataTable:
    """Returns the 48,842 rows of both files of Adult, as states."""
    cells = []
    for file in (ADULT.file, "adult.test.gz"):
        lines = gzip.decompress((folder / file).read_bytes()).decode("ascii").splitlines()
        rows = [[cell.strip().rstrip(".") for cell in line.split(",")] for line in lines]
        cells += [row for row in rows if len(row) == len(ADULT.columns)]
    frame = pd.DataFrame(cells, columns=list(ADULT.columns))
    codes, states = [], []
    for name in frame:
        words = frame[name]
        numbers = pd.to_numeric(words, errors="coerce").to_numpy(dtype=float)
        if np.isfinite(numbers).all() and len(np.unique(numbers)) > MOST_STATES:
            cuts = np.unique(np.quantile(numbers, [0.25, 0.5, 0.75, 0.95]))
            code = np.searchsorted(cuts, numbers)
            values = [f"above {cut:g}" for cut in cuts]
            states.append(tuple([f"to {cuts[0]:g}", *values][: code.max() + 1]))
        else:
            code, found = pd.factorize(words, sort=True)
            states.append(tuple(found))
        codes.append(code)
    return DataTable(tuple(frame), tuple(states), np.array(codes, dtype=np.uint8))


class Fold:
    """The rows of a fold, and the learners on them.

    A learner returns its model, None if it has none, and a remark.
    """

    def __init__(self, rows: DataTable, size: int, seconds: float, treewidth: int, published: float) -> None:
        self.train, self.tuning = chosen(rows, slice(size)), chosen(rows, slice(size, None))
        self.seconds, self.treewidth, self.published = seconds, treewidth, published
        self.root: JunctionTree | None = None
        self.spent = 0.0

    def learners(self) -> dict[str, Callable[[], tuple[Any | None, str]]]:
        """Returns the learners by name; the context tree follows the junction tree that it starts from."""
        return {
            "LEM as published": lambda: self.lem(PUBLISHED, 0.05, must_finish=True),
            "LEM, k = 1, q = 2": lambda: self.lem(replace(PUBLISHED, length=1, q=2), 0.05),
            "LEM, G test": lambda: self.lem(Lem(), 0.01),
            "junction tree": lambda: self.tree("lns", ("bic",), self.treewidth),
            "context tree": self.hybrid,
            "LPACJT": lambda: self.tree("consistent", ("ml", "bic"), min(3, self.treewidth)),
            "Chow-Liu": lambda: self.tree("chowliu", ("ml",), 1),
            "L1": lambda: self.baseline(markov_network),
            "DL": lambda: self.baseline(induced_features),
        }

    def lem(self, how: Lem, threshold: float, *, must_finish: bool = False) -> tuple[Any | None, str]:
        """LEM; None if it must finish but does not."""
        with limited(self.published if must_finish else 3 * self.seconds):
            task = FitTask(self.train, Bic(), validation=HeldOut(self.tuning.codes))
            tree = interrupted(replace(how, thresholds=(threshold,)), task)
        stop = tree.provenance["stop"]
        return (None if must_finish and stop != Stop.FINISHED.value else tree), stop

    def hybrid(self) -> tuple[Any | None, str]:
        """A context tree that starts from the junction tree of `lns`."""
        width = min(3, self.treewidth)
        task = FitTask(self.train, Bic(), width, validation=HeldOut(self.tuning.codes), tree=self.root)
        with limited(self.seconds):
            tree = interrupted(ContextTrees(), task)
        return tree, f"{len(tree.splits)} splits; {tree.provenance['stop']}"

    def tree(self, name: str, scores: Sequence[str], treewidth: int) -> tuple[Any | None, str]:
        """The best junction tree of a backend; the tuning rows choose among scores."""
        best, mean, remark = None, -np.inf, ""
        for score in scores:
            q = 2
            problem = Problem(
                tuple(map(Variable, self.train.names, self.train.states)),
                DataScores(self.train, SCORES[score], treewidth + q, cache=1_000_000),
                Constraints(max_treewidth=treewidth),
            )
            backend = backend_of(name, q)
            with limited(self.seconds / len(scores)):
                result = solve(problem, backend, Run(Limits(threads=1, seed=1)))
            if result.tree is None:
                continue
            model, here = likeliest(map(by_prior(result.tree, self.train), PRIORS), self.tuning)
            if here > mean:
                best, mean, remark = model, here, f"{score}; {result.stop.value}"
                self.root = result.tree if name == "lns" else self.root
        return best, remark

    def baseline(self, learn: Any) -> tuple[Any | None, str]:
        """One of `log_linear`."""
        found = learn(self.train, self.tuning, 3 * self.seconds)
        return found.model, f"{found.weights} weights: {found.remark}"


def interrupted(kind: ModelKind, task: FitTask) -> Any:
    """Returns the model of a kind, fitted until it finishes or a SIGINT arrives."""
    run = Run(Limits(threads=1))
    with run.interruptible():
        return kind.fit(task, run)


class limited:  # noqa: N801 - a context manager, as those of contextlib
    """Raises SIGINT after some processor time; learners then return the best model found so far."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        """Starts the timer."""
        signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGINT))
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def __exit__(self, *_: object) -> None:
        """Stops it."""
        signal.setitimer(signal.ITIMER_PROF, 0)


def measured(source: Source, name: str, size: int, fold: int, arguments: argparse.Namespace) -> Iterator[Row]:
    """Yields a row for each requested learner that is not in the journal."""
    wanted = arguments.learners.split(";") if arguments.learners else None
    rows = source.draw(size + size // 4, fold)
    own = Fold(rows, size, arguments.seconds, arguments.treewidth, arguments.published)
    for learner, learn in own.learners().items():
        if wanted is not None and learner not in wanted:
            continue
        case = {"set": name, "rows": size, "fold": fold, "learner": learner}
        if any(all(row[key] == value for key, value in case.items()) for row in arguments.done):
            continue
        if learner == "context tree" and own.root is None:
            own.learners()["junction tree"]()
        empty: Row = {**case, "test": None, "tuning": None, "parameters": None, "cpu s": None}
        fewer = [row for row in arguments.done if all(row[k] == case[k] for k in ("set", "fold", "learner"))]
        if any(row["remark"] in UNFINISHED and row["test"] is None and row["rows"] < size for row in fewer):
            yield {**empty, "remark": UNFINISHED[1]}
            continue
        began = time.process_time()
        model, remark = learn()
        seconds = time.process_time() - began
        row: Row = {**empty, "cpu s": round(seconds, 2), "remark": remark}
        if model is not None:
            means = (float(np.mean(model.log_likelihood(rows))) for rows in (source.test, own.tuning))
            row["test"], row["tuning"] = (round(mean, 4) for mean in means)
            row["parameters"] = model.parameters
            if isinstance(model, FeatureTree):
                row["remark"] = f"{model.a_nodes} A-nodes; {remark}"
        yield row


def warm(source: Source) -> None:
    """Compiles or loads the kernels."""
    for learn in Fold(source.draw(60, 0), 50, 10.0, 2, 10.0).learners().values():
        learn()


def summary(rows: Sequence[Row], truths: dict[str, float]) -> str:
    """Returns a table for each set: a row for each learner, a column for each size.

    Cells are means over the folds, with standard deviations.
    """
    lines = []
    for name in SETS:
        own = [row for row in rows if row["set"] == name]
        if not own:
            continue
        sizes = sorted({row["rows"] for row in own})
        folds = [len({row["fold"] for row in own if row["rows"] == size}) for size in sizes]
        lines += [f"| {name} | " + " | ".join(f"{size:,}" for size in sizes) + f" | s at {sizes[-1]:,} |"]
        lines += ["|---|" + "--:|" * (len(sizes) + 1)]
        for learner in dict.fromkeys(row["learner"] for row in own):
            cells = []
            for size, count in zip(sizes, folds, strict=True):
                found = means_of(own, learner, size)
                left_out = f" ({len(found)} of {count})" if len(found) < count else ""
                spread = f" ± {statistics.stdev(found):.3f}" if len(found) > 1 else ""
                cells.append(f"{statistics.mean(found):.3f}{spread}{left_out}" if found else "")
            spent = seconds_of(own, learner, sizes[-1])
            seconds = f"{statistics.mean(spent):.1f}" if spent else ""
            lines.append(f"| {learner} | {' | '.join(cells)} | {seconds} |")
        if name in truths:
            lines.append(f"| the network itself | {' | '.join(f'{truths[name]:.3f}' for _ in sizes)} | |")
        lines += [f"| folds | {' | '.join(map(str, folds))} | |", ""]
    return "\n".join(lines)


def means_of(rows: Sequence[Row], learner: str, size: int) -> list[float]:
    """Returns the test log-likelihoods of a learner at a number of rows, a fold each."""
    return [
        row["test"]
        for row in rows
        if row["learner"] == learner and row["rows"] == size and row["test"] is not None
    ]


def draw(rows: Sequence[Row], truths: dict[str, float], path: Path) -> None:
    """Draws a panel for each set, means and ranges over the folds, and one for the seconds, means."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    learners = list(dict.fromkeys(row["learner"] for row in rows))
    colours = {learner: f"C{i}" for i, learner in enumerate(learners)}
    names = [name for name in SETS if any(row["set"] == name for row in rows)]
    figure, panels = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for axes, name in zip(panels.ravel(), [*names, None], strict=False):
        ends = []
        own = [row for row in rows if name in (row["set"], None)]
        sizes = sorted({row["rows"] for row in own})
        for learner in learners:
            at, means, low, high = [], [], [], []
            for size in sizes:
                found = means_of(own, learner, size)
                if name is None:  # the mean over sets of their means, since sets differ in their folds
                    each = [seconds_of([r for r in rows if r["set"] == s], learner, size) for s in names]
                    found = [statistics.mean(map(statistics.mean, each))] if all(each) else []
                if found:
                    at.append(size)
                    means.append(statistics.mean(found))
                    low.append(means[-1] - min(found))
                    high.append(max(found) - means[-1])
            if at:
                axes.errorbar(at, means, [low, high], color=colours[learner], marker="o", ms=3, linewidth=1.2)
                ends.append((means[-1], learner, colours[learner]))
        if name in truths:
            axes.axhline(truths[name], color="black", linewidth=1)
            ends.append((truths[name], "the network itself", "black"))
        axes.set(xscale="log", xlabel="rows of training data", title=name or "processor seconds")
        axes.set_ylabel("test log-likelihood, nats per row" if name else "seconds, mean over the sets")
        if name is None:
            axes.set_yscale("log")
        axes.spines[["top", "right"]].set_visible(False)
        label_ends(axes, ends)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def seconds_of(rows: Sequence[Row], learner: str, size: int) -> list[float]:
    """Returns the processor seconds of a learner at a number of rows."""
    own = [row for row in rows if row["learner"] == learner and row["rows"] == size]
    return [row["cpu s"] for row in own if row["test"] is not None]


def main() -> None:
    """Measures the missing models; prints, writes and draws the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of networks, density and uci")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--rows", default="100,316,1000,3162,10000", help="'' to draw the stored results")
    parser.add_argument("--folds", default="1,2,3,4,5")
    parser.add_argument("--learners", default="", help="names, joined by semicolons")
    parser.add_argument("--treewidth", type=int, default=4, help="for lns; at most 3 for other trees")
    parser.add_argument("--seconds", type=float, default=5.0, help="processor time per learner")
    parser.add_argument("--published", type=float, default=60.0, help="processor time of LEM as published")
    parser.add_argument("--journal", type=Path, default=Path("lem_curve.jsonl"))
    parser.add_argument("--output", type=Path, default=Path("lem_curve"), help="file without suffix")
    parser.add_argument("--draw", type=Path)
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    arguments.done = read_lines(arguments.journal)
    sizes = [int(size) for size in filter(None, arguments.rows.split(","))]
    folds = [int(fold) for fold in arguments.folds.split(",")]
    sources = {name: source_of(name, arguments.data) for name in arguments.sets.split(",")}
    with threadpool_limits(1):
        if sizes:
            warm(next(iter(sources.values())))
        for fold, (name, source), size in product(folds, sources.items(), sizes):
            for row in measured(source, name, size, fold, arguments):
                print(row, flush=True)
                arguments.done.append(row)
                with arguments.journal.open("a", encoding="utf-8") as journal:
                    journal.write(json.dumps(row) + "\n")
    rows = sorted(arguments.done, key=lambda row: (SETS.index(row["set"]), row["rows"], row["fold"]))
    truths = {name: source.truth for name, source in sources.items() if source.truth is not None}
    machine = describe_machine(1)
    shown = [word if "/" not in word else Path(word).name for word in sys.argv[1:]]
    text = (
        "Test log-likelihood in nats per row, means and standard deviations over folds; processor seconds of "
        f"one thread. {machine['processor']}; jtsolve {machine['jtsolve']}.\n\n"
        f"Command: `{' '.join(['python', 'benchmarks/lem_curve.py', *shown])}`\n\n{summary(rows, truths)}"
    )
    print(text)
    with arguments.output.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    if arguments.draw is not None:
        draw(rows, truths, arguments.draw)


if __name__ == "__main__":
    main()
