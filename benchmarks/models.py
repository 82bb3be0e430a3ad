"""Speed of log-likelihoods, samples and marginals, beside pyAgrum and pgmpy.

    python benchmarks/models.py --data FOLDER --output docs/benchmarks/models

Cases, chosen by `--cases`:

- narrow: log-likelihoods of 10^5 rows of 16 binary variables, treewidth 3 (the size of nltcs);
- wide: the same of 100 binary variables, treewidth 3;
- gaps: wide with a fifth of the cells missing, 10^4 rows;
- samples: 10^6 rows of ALARM (37 variables), from FOLDER/networks/alarm.bif.gz;
- marginals: all single marginals of a tree of 1,000 variables, treewidth 3, without evidence;
- evidence: the same given the states of ten variables, propagation included;
- network: queries of munin1 (186 variables, FOLDER/networks/munin1.bif.gz), whose whole tree has 430 million
  cells: P(a root), P(a leaf), P(a leaf | another), and all single marginals; beside lazy propagation of
  pyAgrum, which must agree to 1e-5 (it reads BIF in single precision). Nothing is cached between queries.

Everything runs on one thread. Each case runs once uncounted, which compiles, then `--repeat` times: the table
shows the median. Models are random k-trees with tables fitted to random rows. pyAgrum evaluates
`log2JointProbability` and pgmpy `get_state_probability` row by row on the same model as a Bayesian network,
on the first rows only (`--their-rows`); both must agree with jtsolve to 1e-9. Processor seconds beside those
of the wall clock show whether the machine had other work.
"""

from __future__ import annotations

import argparse
import gzip
import math
import statistics
import tempfile
import time
import warnings
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from publishing import publish

from jtsolve.core.tree import JunctionTree
from jtsolve.models.files.interop import to_pgmpy, to_pyagrum
from jtsolve.models.learning.fit import count
from jtsolve.models.network import NetworkModel, from_network
from jtsolve.networks.files import read_network
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.models.model import JunctionTreeModel

COLUMNS = ["case", "program", "work", "seconds", "processor s", "per second", "jtsolve is faster by"]


def random_ktree(n: int, k: int, seed: int) -> JunctionTree:
    """Returns a k-tree: each vertex beyond the first k + 1 is joined to k of a random earlier clique."""
    random = Random(seed)  # noqa: S311 - nothing here is secret
    cliques = [list(range(k + 1))]
    families = [(v, (1 << v) - 1) for v in range(k + 1)]
    for v in range(k + 1, n):
        parents = random.sample(random.choice(cliques), k)
        families.append((v, sum(1 << u for u in parents)))
        cliques.append([*parents, v])
    return JunctionTree.from_families(families)


def random_model(n: int, rows: int) -> tuple[JunctionTreeModel, DataTable]:
    """Returns a model of treewidth 3 and the random binary rows that it is fitted to."""
    generator = np.random.default_rng(n)
    codes = (generator.random((n, rows)) < generator.random((n, 1))).astype(np.uint8)
    table = DataTable(tuple(f"V{v}" for v in range(n)), (("0", "1"),) * n, codes)
    return count(random_ktree(n, 3, n), table).model(1.0), table


def measured(work: Callable[[], object], repeat: int) -> tuple[float, float]:
    """Returns the median wall clock and processor seconds, after one uncounted run."""
    work()
    clock, processor = [], []
    for _ in range(repeat):
        began, spent = time.perf_counter(), time.process_time()
        work()
        clock.append(time.perf_counter() - began)
        processor.append(time.process_time() - spent)
    return statistics.median(clock), statistics.median(processor)


def pyagrum_rows(model: JunctionTreeModel) -> Callable[[np.ndarray], list[float]]:
    """Returns a function that evaluates ln P of each row by pyAgrum."""
    network = to_pyagrum(model.network("a test"))
    instantiation = network.completeInstantiation()

    def evaluate(codes: np.ndarray) -> list[float]:
        found = []
        for row in codes.T.tolist():
            instantiation.fromdict(dict(zip(model.names, row, strict=True)))
            found.append(network.log2JointProbability(instantiation) * math.log(2))
        return found

    return evaluate


def pgmpy_rows(model: JunctionTreeModel) -> Callable[[np.ndarray], list[float]]:
    """Returns a function that evaluates ln P of each row by pgmpy."""
    network = to_pgmpy(model.network("a test"))
    states = [column.states for column in model.columns]

    def evaluate(codes: np.ndarray) -> list[float]:
        found = []
        for row in codes.T.tolist():
            labels = [of_column[code] for of_column, code in zip(states, row, strict=True)]
            found.append(math.log(network.get_state_probability(dict(zip(model.names, labels, strict=True)))))
        return found

    return evaluate


OTHERS: dict[str, Callable[[JunctionTreeModel], Callable[[np.ndarray], list[float]]]] = {
    "pyagrum": pyagrum_rows,
    "pgmpy": pgmpy_rows,
}


def likelihoods(case: str, n: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the results of a case of complete rows: those of jtsolve and of the other programs."""
    rows = arguments.rows
    model, table = random_model(n, rows)
    clock, processor = measured(lambda: model.log_likelihood(table), arguments.repeat)
    ours = model.log_likelihood(table)
    found = [line(case, "jtsolve", f"{rows} rows × {n}", (clock, processor), rows)]
    for program, evaluate in OTHERS.items():
        if find_spec(program) is None:
            continue
        count = arguments.their_rows // (20 if program == "pgmpy" else 1)
        codes = table.codes[:, :count]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            evaluator = evaluate(model)
            evaluator(codes[:, :1])  # uncounted, as for jtsolve
            began, spent = time.perf_counter(), time.process_time()
            theirs = evaluator(codes)
        other, other_processor = time.perf_counter() - began, time.process_time() - spent
        worst = float(np.abs(np.array(theirs) - ours[:count]).max())
        if worst > 1e-9:
            raise SystemExit(f"{case}: {program} differs by {worst}")
        name = f"{program} {version(program)}"
        entry = line(case, name, f"{count} rows × {n}", (other, other_processor), count)
        entry["jtsolve is faster by"] = f"{other_processor / count / (processor / rows):.0f}"
        found.append(entry)
    return found


def line(
    case: str, program: str, work: str, seconds: tuple[float, float], count: int, *, unit: str = "rows"
) -> dict[str, Any]:
    """Returns a row of the table; `seconds` are of wall clock and processor, rates per processor second."""
    clock, processor = seconds
    return {
        "case": case,
        "program": program,
        "work": work,
        "seconds": f"{clock:.4g}",
        "processor s": f"{processor:.4g}",
        "per second": f"{count / processor:.3g} {unit}",
        "jtsolve is faster by": "",
    }


def gaps(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the result for rows with missing cells."""
    rows = arguments.rows // 10
    model, table = random_model(100, rows)
    codes = table.codes.astype(np.int32)
    codes[np.random.default_rng(1).random(codes.shape) < 0.2] = -1
    clock, processor = measured(lambda: model.log_likelihood(codes), arguments.repeat)
    return [line("gaps", "jtsolve", f"{rows} rows × 100", (clock, processor), rows)]


def samples(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the result for samples of ALARM."""
    model = from_network(read_network(arguments.data / "networks" / "alarm.bif.gz"))
    rows = arguments.rows * 10
    clock, processor = measured(lambda: model.sample(rows, 1), arguments.repeat)
    return [line("samples", "jtsolve", f"{rows} rows × {model.n}", (clock, processor), rows)]


def single_marginals(case: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the result for all single marginals of a thousand variables."""
    model, _ = random_model(1000, 1000)
    evidence = {f"V{v}": str(v % 2) for v in range(0, 1000, 100)} if case == "evidence" else {}

    def asked() -> Any:
        return model.condition(evidence).model.marginals()

    clock, processor = measured(asked, arguments.repeat)
    return [line(case, "jtsolve", "1000 marginals", (clock, processor), 1000, unit="marginals")]


def network_queries(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the results for queries of munin1."""
    path = arguments.data / "networks" / "munin1.bif.gz"
    network = read_network(path)
    used = {p for node in network.nodes for p in node.parents}
    root = next(node.name for node in network.nodes if not node.parents)
    leaf, other = [node.name for v, node in enumerate(network.nodes) if v not in used][-2:]
    seen = {other: network.nodes[network.names.index(other)].states[0]}
    queries: list[tuple[str, list[str], dict[str, str]]] = [
        ("P(root)", [root], {}),
        ("P(leaf)", [leaf], {}),
        ("P(leaf given a leaf)", [leaf], seen),
        ("all marginals", list(network.names), {}),
    ]
    theirs = None
    if find_spec("pyagrum") is not None:
        pyagrum: Any = import_module("pyagrum")  # partly typed
        with tempfile.TemporaryDirectory() as folder:
            unpacked = Path(folder) / "munin1.bif"
            unpacked.write_bytes(gzip.decompress(path.read_bytes()))
            theirs = pyagrum.loadBN(str(unpacked))
    found = []
    for work, names, evidence in queries:
        groups = [[name] for name in names]
        seconds = measured(partial(NetworkModel(network).posterior, groups, evidence), arguments.repeat)
        found.append(line("network", "jtsolve", work, seconds, len(names), unit="marginals"))
        if theirs is None:
            continue

        def infer(names: list[str] = names, evidence: dict[str, str] = evidence) -> list[Any]:
            found = []
            for name in names:  # one at a time: a joint query builds the whole tree
                engine = pyagrum.LazyPropagation(theirs)
                engine.setEvidence(evidence)
                engine.addTarget(name)
                engine.makeInference()
                found.append(engine.posterior(name).toarray())
            return found

        for mine, their in zip(
            NetworkModel(network).posterior(groups, evidence).tables, infer(), strict=True
        ):
            if np.abs(mine - their).max() > 1e-5:
                raise SystemExit(f"pyAgrum disagrees on {work}")
        their_seconds = measured(infer, arguments.repeat)
        entry = line(
            "network", f"pyagrum {version('pyagrum')}", work, their_seconds, len(names), unit="marginals"
        )
        entry["jtsolve is faster by"] = f"{their_seconds[1] / seconds[1]:.3g}"
        found.append(entry)
    return found


CASES: dict[str, Callable[[argparse.Namespace], list[dict[str, Any]]]] = {
    "narrow": lambda arguments: likelihoods("narrow", 16, arguments),
    "wide": lambda arguments: likelihoods("wide", 100, arguments),
    "gaps": gaps,
    "samples": samples,
    "marginals": lambda arguments: single_marginals("marginals", arguments),
    "evidence": lambda arguments: single_marginals("evidence", arguments),
    "network": network_queries,
}


def main() -> None:
    """Measures the cases; prints and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of networks/, for samples and network")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--their-rows", type=int, default=2000, help="rows for pyAgrum; a 20th for pgmpy")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--output", type=Path, help="where to write the table, as .csv")
    arguments = parser.parse_args()
    rows = []
    for case in arguments.cases.split(","):
        for row in CASES[case](arguments):
            rows.append(row)
            print(row, flush=True)
    publish(rows, COLUMNS, 1, arguments.output)


if __name__ == "__main__":
    main()
