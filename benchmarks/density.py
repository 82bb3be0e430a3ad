"""Test log-likelihoods of trees, mixtures, context trees and hidden trees on density-estimation sets.

    python benchmarks/density.py --data FOLDER --sets nltcs,plants --sizes 2,4,5,6 --output
    docs/benchmarks/density

FOLDER holds NAME.train.data.gz, NAME.valid.data.gz and NAME.test.data.gz. The structure is learned from the
training rows: the best tree under BIC that `lns` finds in `--time` seconds for each size of the largest
clique, or, for size 2, the best forest (`chowliu`, exact). The validation likelihood chooses the equivalent
sample size of the tables. The table shows the mean of ln P over the test rows, in nats.

    python benchmarks/density.py --data FOLDER --sets nltcs,plants --mixtures --sizes 2,3

fits mixtures of trees with at most the given clique size, by expectation-maximisation with trees of `forward`
under BIC. The numbers of components, `--components`, are tried in turn until the validation likelihood falls,
then smaller treewidths. Beside each mixture is the single tree with the best validation likelihood among the
clique sizes `--single`.

    python benchmarks/density.py --data FOLDER --sets nltcs,msnbc --contexts --sizes 3 --limit 300

fits context trees with junction trees of `forward` at the leaves; validation rows choose BIC or AIC for the
leaves, the penalty, and the prior. `--limit` is the time of each fit in seconds of wall clock, for mixtures
too; then the model found so far counts.

    python benchmarks/density.py --data FOLDER --sets jester,baudio --hidden 16,32 --limit 600

fits hidden Chow–Liu trees with each number of hidden states in turn; validation rows choose among these, and
the end of EM.

Rows in the output are not computed again.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from state_rows import read_states

from jtsolve.backends.registry import REGISTRY
from jtsolve.core.files import read_file
from jtsolve.core.machine import describe_machine
from jtsolve.core.problem import Problem, Variable
from jtsolve.core.run import Limits, Run
from jtsolve.models.learning.context_trees import ContextTrees
from jtsolve.models.learning.hidden_trees import HiddenTrees
from jtsolve.models.learning.mixture_em import Mixtures
from jtsolve.models.learning.task import FitTask
from jtsolve.models.learning.tree import by_prior
from jtsolve.models.learning.validation import PRIORS, HeldOut, likeliest
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.bic import Bic
from jtsolve.solving import solve
from jtsolve.tables.options import Coding

if TYPE_CHECKING:
    from jtsolve.tables.table import DataTable

SETS = (
    "nltcs,msnbc,kdd,plants,baudio,jester,bnetflix,accidents,tretail,pumsb_star,dna,kosarek,msweb,book,tmovie,"
    "cwebkb,cr52,c20ng,bbc,ad"
)
COLUMNS = [
    "set",
    "variables",
    "rows",
    "max clique",
    "backend",
    "seconds",
    "BIC",
    "parameters",
    "smoothing",
    "train",
    "valid",
    "test",
]
MIXTURE_COLUMNS = [
    "set",
    "max clique",
    "components",
    "validation by size",
    "seconds",
    "processor s",
    "parameters",
    "smoothing",
    "valid",
    "test",
    "single tree",
    "valid, single",
    "test, single",
]
CONTEXT_COLUMNS = [
    "set",
    "max clique",
    "score",
    "splits",
    "leaves",
    "parameters",
    "penalty",
    "smoothing",
    "stop",
    "processor s",
    "valid",
    "test",
]
HIDDEN_COLUMNS = [
    "set",
    "max clique",
    "hidden states",
    "trees",
    "validation by states",
    "parameters",
    "stop",
    "processor s",
    "valid",
    "test",
]


def binary_rows(path: Path) -> DataTable:
    """Returns the rows of a file; both states are declared, since a column may be constant in a file."""
    columns = read_file(path).partition(b"\n")[0].count(b",") + 1
    schema = {f"V{v}": ("0", "1") for v in range(1, columns + 1)}
    return read_states(path, Coding(schema=schema), header=False)


def run_of(arguments: argparse.Namespace) -> Run:
    """Returns the run of a fit."""
    return Run(Limits(arguments.limit, threads=arguments.threads, seed=arguments.seed))


def measure(name: str, size: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the row of one set and one clique size."""
    parts = ("train", "valid", "test")
    train, valid, test = (binary_rows(arguments.data / f"{name}.{part}.data.gz") for part in parts)
    problem = Problem(
        tuple(map(Variable, train.names, train.states)),
        DataScores(train, Bic(), min(size, train.n)),
        name=name,
    ).with_treewidth(size - 1)
    backend = REGISTRY["chowliu" if size == 2 else "lns"]
    limits = Limits(time=arguments.time, threads=arguments.threads, seed=arguments.seed)
    began = time.perf_counter()
    result = solve(problem, backend, Run(limits))
    seconds = time.perf_counter() - began
    if result.tree is None or result.score is None:
        raise SystemExit(f"{name}: no tree of cliques of {size} in {arguments.time} s")
    model: Any = likeliest(map(by_prior(result.tree, train), PRIORS), valid)[0]
    means = {
        part: model.log_likelihood(rows).mean()
        for part, rows in (("train", train), ("valid", valid), ("test", test))
    }
    return {
        "set": name,
        "variables": train.n,
        "rows": train.rows,
        "max clique": size,
        "backend": backend.name,
        "seconds": f"{seconds:.1f}",
        "BIC": f"{result.score:.1f}",
        "parameters": model.parameters,
        "smoothing": f"{model.provenance['smoothing_ess']:g}",
        **{part: f"{mean:.4f}" for part, mean in means.items()},
    }


def measure_contexts(name: str, size: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the row of the context tree of one set and one clique size."""
    parts = ("train", "valid", "test")
    train, valid, test = (binary_rows(arguments.data / f"{name}.{part}.data.gz") for part in parts)
    spent = time.process_time()
    task = FitTask(train, Bic(), size - 1, validation=HeldOut(valid.codes))
    tree = ContextTrees().fit(task, run_of(arguments))
    return {
        "set": name,
        "max clique": size,
        "score": tree.provenance["features"]["score"],
        "splits": len(tree.splits),
        "leaves": len(tree.leaves),
        "parameters": tree.parameters,
        "penalty": tree.provenance["features"]["penalty"],
        "smoothing": f"{tree.provenance['smoothing_ess']:g}",
        "stop": tree.provenance["stop"],
        "processor s": f"{time.process_time() - spent:.1f}",
        **{
            part: f"{tree.log_likelihood(rows).mean():.4f}"
            for part, rows in zip(parts[1:], (valid, test), strict=True)
        },
    }


def measure_hidden(name: str, size: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the row of the hidden Chow–Liu tree of one set."""
    parts = ("train", "valid", "test")
    train, valid, test = (binary_rows(arguments.data / f"{name}.{part}.data.gz") for part in parts)
    states = tuple(map(int, arguments.hidden.split(",")))
    how = HiddenTrees(states, arguments.trees)
    spent = time.process_time()
    tree = how.fit(FitTask(train, Bic(), validation=HeldOut(valid.codes)), run_of(arguments))
    spent = time.process_time() - spent
    found = tree.provenance["hidden_tree"]
    return {
        "set": name,
        "max clique": size,
        "hidden states": found["states"],
        "trees": found["trees"],
        "validation by states": "; ".join(
            f"{one['states']}: {one['log_likelihood']:.3f}" for one in found["tried"]
        ),
        "parameters": tree.parameters,
        "stop": tree.provenance["stop"],
        "processor s": f"{spent:.1f}",
        "valid": f"{tree.log_likelihood(valid).mean():.4f}",
        "test": f"{tree.log_likelihood(test).mean():.4f}",
    }


def measure_mixture(name: str, size: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the row of the mixture of one set and one clique size, with the best single tree."""
    parts = ("train", "valid", "test")
    train, valid, test = (binary_rows(arguments.data / f"{name}.{part}.data.gz") for part in parts)
    sizes = tuple(map(int, arguments.components.split(",")))
    how = Mixtures(sizes)
    task = FitTask(train, Bic(), size - 1, validation=HeldOut(valid.codes))
    began, spent = time.perf_counter(), time.process_time()
    mixture = how.fit(task, run_of(arguments))
    seconds, spent = time.perf_counter() - began, time.process_time() - spent
    means = {
        part: f"{mixture.log_likelihood(rows).mean():.4f}"
        for part, rows in cast("Any", (("valid", valid), ("test", test)))
    }
    singles = [measure(name, int(single), arguments) for single in arguments.single.split(",")]
    best = max(singles, key=lambda row: float(row["valid"]))
    tried = mixture.provenance["sizes_tried"]
    return {
        "set": name,
        "max clique": size,
        "components": mixture.provenance["mixture"]["components"],
        "validation by size": "; ".join(
            f"{one['components']} of treewidth {one['treewidth']}: {one['validation_log_likelihood']:.3f}"
            for one in tried
        ),
        "seconds": f"{seconds:.1f}",
        "processor s": f"{spent:.1f}",
        "parameters": mixture.parameters,
        "smoothing": f"{mixture.provenance['smoothing_ess']:g}",
        **means,
        "single tree": f"{best['backend']}, cliques of {best['max clique']}",
        "valid, single": best["valid"],
        "test, single": best["test"],
    }


def main() -> None:
    """Measures the missing rows; prints and writes the table after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets")
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--sizes", default="2,4,5,6", help="largest cliques: treewidth plus one")
    parser.add_argument("--time", type=float, default=30.0, help="seconds for each search")
    parser.add_argument("--mixtures", action="store_true", help="fit mixtures")
    parser.add_argument("--contexts", action="store_true", help="fit context trees")
    parser.add_argument("--hidden", help="fit hidden Chow–Liu trees with these numbers of states")
    parser.add_argument("--trees", type=int, default=1, help="number of hidden Chow–Liu trees in a mixture")
    parser.add_argument("--limit", type=float, help="seconds for a context tree, mixture or hidden tree")
    parser.add_argument("--components", default="1,2,4,8,16", help="numbers of components to try")
    parser.add_argument("--single", default="3,4,6", help="clique sizes of the single trees beside mixtures")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="where to write the table, as .csv")
    arguments = parser.parse_args()
    machine = describe_machine(arguments.threads)
    head = (
        f"{machine['processor']}, {arguments.threads} thread(s); Python {machine['python']}, "
        f"numpy {machine['numpy']}, numba {machine['numba']}, jtsolve {machine['jtsolve']}.\n\n"
        f"Command: `{' '.join(['python', 'benchmarks/density.py', *sys.argv[1:]])}`\n"
    )
    print(head)
    columns, work = (CONTEXT_COLUMNS, measure_contexts) if arguments.contexts else (COLUMNS, measure)
    if arguments.mixtures:
        columns, work = MIXTURE_COLUMNS, measure_mixture
    if arguments.hidden is not None:
        columns, work, arguments.sizes = HIDDEN_COLUMNS, measure_hidden, "2"
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    rows: list[dict[str, Any]] = []
    if arguments.output is not None and arguments.output.with_suffix(".csv").is_file():
        with arguments.output.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    trees = str(arguments.trees)  # of hidden trees only
    done = {(row["set"], str(row["max clique"]), str(row.get("trees", trees))): row for row in rows}
    for name in arguments.sets.split(","):
        for size in arguments.sizes.split(","):
            row = done.get((name, size, trees))
            if row is None:
                row = done[name, size, trees] = work(name, int(size), arguments)
            print("| " + " | ".join(str(row[column]) for column in columns) + " |", flush=True)
            if arguments.output is not None:
                _write(arguments.output, list(done.values()))


def _write(output: Path, rows: list[dict[str, Any]]) -> None:
    rows.sort(key=lambda row: (row["set"], int(row["max clique"])))
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
