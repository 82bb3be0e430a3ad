"""Time and memory of averages over decomposable graphs.

    sums      exact sums for random scores: seconds, processor seconds and memory, beside the predictions
    draws     exact draws per second
    chains    proposals per second
    network   edges of a network with probability above 1/2 in chains, beside Chow-Liu and the best tree:
              `network ALARM.bif:1000:3:8000` draws 1,000 rows, has cliques of at most 3, and 8,000 rounds
    predict   test log-likelihood of 32 drawn trees beside the best one: `predict FOLDER/nltcs:4:500` reads
              500 rows of the set, with cliques of at most 4; without a number, all rows;
              `predict FOLDER/plants:3:17412:9900` has 9,900 rounds of chains, converged or not

Without arguments, the first three run. Sizes follow the name of a part: `python benchmarks/averaging.py sums
13 15 16`; `sums 18/4` has cliques of at most 4.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
from problems import gaussian, named
from state_rows import read_states

from jtsolve.averaging.average import average, draw_trees
from jtsolve.averaging.chains import Chains, run_chains
from jtsolve.averaging.draws import arrange_tables, draw_graphs
from jtsolve.averaging.features import features_of
from jtsolve.averaging.method import Draws
from jtsolve.averaging.plan import TableSizes
from jtsolve.averaging.sums import compute
from jtsolve.averaging.weights import set_weights
from jtsolve.backends.chowliu import ChowLiu
from jtsolve.core.machine import describe_machine, peak_memory
from jtsolve.core.run import Limits, Run
from jtsolve.errors import NotConvergedError
from jtsolve.models.learning.fit import count as counted
from jtsolve.models.mixture import Mixture
from jtsolve.networks.files import read_network
from jtsolve.networks.sample import sample
from jtsolve.scoring.problem import WITHIN_LIMITS, problem_from_table
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.solving import solve
from jtsolve.tables.table import DataTable


def timed(call: Any) -> tuple[Any, float, float]:
    """Returns a value, seconds of wall clock, and seconds of processor over all threads."""
    wall, processor = time.perf_counter(), time.process_time()
    value = call()
    return value, time.perf_counter() - wall, time.process_time() - processor


def warm_up() -> None:
    """Loads or compiles the kernels."""
    sums = compute(set_weights(named(gaussian(0, 5))), Run())
    features_of(sums, Run())
    draw_graphs(arrange_tables(sums, Run()), 1, Run())


def sums(sizes: list[str]) -> None:
    """Prints the cost of exact sums of normal scores; a size is n or n/largest clique."""
    print("| n | cliques ≤ | seconds | processor | features | peak memory | predicted | predicted s |")
    print("|---|---|---|---|---|---|---|---|")
    for size in sizes or ["10", "11", "12", "13", "14", "15"]:
        n, _, width = size.partition("/")
        problem = named(gaussian(1, int(n), int(width or n), scale=5.0))
        limits = Limits()
        plan = TableSizes(problem.n, problem.max_clique_size)
        weights = set_weights(problem)
        predicted = plan.estimate(limits.workers)
        found, wall, processor = timed(lambda w=weights, lim=limits: compute(w, Run(lim)))
        _, features, _ = timed(lambda f=found, lim=limits: features_of(f, Run(lim)))
        memory = f"{peak_memory() / 1e9:.2f} GB | {predicted.memory / 1e9:.2f} GB"
        seconds = f"{wall:.2f} | {processor:.2f} | {features:.2f}"
        print(f"| {n} | {width or n} | {seconds} | {memory} | {predicted.seconds:.2f} |", flush=True)
        del found  # the memory of the next size must not include these tables


def draws(sizes: list[str]) -> None:
    """Prints the cost of exact draws, for normal scores of two scales; 0 draws are the shared preparation."""
    print("| n | scale of the scores | draws | seconds | processor | per processor second |")
    print("|---|---|---|---|---|---|")
    for size in sizes or ["10", "13", "15"]:
        for scale in (1.0, 20.0):
            problem = named(gaussian(1, int(size), scale=scale))
            found = compute(set_weights(problem), Run())
            ready, wall, processor = timed(lambda f=found: arrange_tables(f, Run()))
            print(f"| {size} | {scale:g} | 0 | {wall:.2f} | {processor:.2f} | |", flush=True)
            for count in (1000, 10_000, 100_000):
                _, wall, processor = timed(lambda r=ready, count=count: draw_graphs(r, count, Run()))
                speed = f"{wall:.2f} | {processor:.2f} | {count / processor:.0f}"
                print(f"| {size} | {scale:g} | {count} | {speed} |", flush=True)


def chains(sizes: list[str]) -> None:
    """Prints proposals per second, for normal scores of sets of at most four variables."""
    print("| n | proposals per second | per processor second |\n|---|---|---|")
    for size in sizes or ["8", "13", "20", "40", "100"]:
        problem = named(gaussian(1, int(size), min(4, int(size))))
        run_chains(problem, 1.0, Run(), how=Chains(rounds=100), start=None)
        found, wall, processor = timed(
            lambda p=problem: run_chains(p, 1.0, Run(), how=Chains(rounds=500), start=None)
        )
        count = found.diagnostics["proposals"]
        print(f"| {size} | {count / wall:.3g} | {count / processor:.3g} |", flush=True)


def mixed(trees: tuple[Any, ...], train: DataTable) -> Mixture:
    """Returns the mixture of drawn trees, weighted by their shares."""
    shares = Counter(trees)
    models = tuple(counted(tree, train).model(1.0) for tree in shares)
    return Mixture(np.array(list(shares.values())) / len(trees), models)


def predict(sets: list[str]) -> None:
    """Prints test log-likelihoods in nats per row, of the best tree under BDeu and of drawn trees."""
    print("| set | rows | variables | cliques ≤ | best tree | 32 drawn trees | distinct | processor |")
    print("|---|---|---|---|---|---|---|---|")
    for name in sets:
        path, largest, *rows = name.split(":")
        files = [Path(f"{path}.{part}.data.gz") for part in ("train", "test")]
        train, test = (read_states(file, header=False) for file in files)
        train = replace(train, codes=train.codes[:, : int(rows[0]) if rows else None])
        score, width = Bdeu(1.0), int(largest) - 1
        problem = problem_from_table(train, score, treewidth=width, tabulation=WITHIN_LIMITS)

        def fitted(problem: Any = problem, train: Any = train, rows: Any = rows) -> tuple[Any, Any, Any]:
            best = solve(problem, None, Run(Limits(threads=1))).tree
            if len(rows) > 1:
                how = Chains(rounds=int(rows[1]))
                sample = run_chains(problem, 1.0, Run(), how=how, start=best)
                trees = tuple(sample.draw(32))
                found = Draws(trees, "chains", {"converged": sample.converged})
                return best, found, mixed(trees, train)
            try:
                draws = draw_trees(problem, 32, run=Run(Limits(threads=1)))
            except NotConvergedError:
                return best, None, None
            assert draws is not None, "nothing is forbidden"
            return best, draws, mixed(draws.trees, train)

        (best, draws, mixture), _, processor = timed(fitted)
        mean = counted(best, train).model(1.0).log_likelihood(test).mean()
        row = f"{train.total} | {train.n} | {largest} | {mean:.4f} | "
        if draws is None:
            row += "not converged | "
        else:
            mean = mixture.log_likelihood(test).mean()
            row += f"{mean:.4f} | {len(set(draws.trees))}, {draws.method}"
            row += "" if draws.diagnostics.get("converged", True) else ", NOT CONVERGED"
        print(f"| {Path(path).name} | {row} | {processor:.1f} s |", flush=True)


def network(cases: list[str]) -> None:
    """Prints the number of undirected edges of a network that are found in data drawn from it."""
    columns = "rows | cliques ≤ | converged | R̂ | ESS | largest difference | posterior > 0.5 | best tree"
    print(f"| {columns} | Chow-Liu | processor |\n|{'---|' * 10}")
    for case in cases:
        path, rows, largest, rounds = case.split(":")
        found = read_network(path)
        codes = sample(found, int(rows), 1).T
        data = DataTable(found.names, tuple(node.states for node in found.nodes), codes)
        true = {frozenset((i, parent)) for i, node in enumerate(found.nodes) for parent in node.parents}
        problem = problem_from_table(data, Bdeu(1.0), treewidth=int(largest) - 1, tabulation=WITHIN_LIMITS)
        how = Chains(rounds=int(rounds))
        posterior, _, processor = timed(lambda p=problem, x=how: average(p, method=x))
        forest = solve(problem.with_treewidth(1), ChowLiu(), Run()).tree
        assert posterior is not None and posterior.best is not None and forest is not None  # noqa: PT018
        row = f"{rows} | {largest} | {posterior.converged} | "
        said = posterior.diagnostics
        row += f"{max(x or inf for x in said['r_hat'].values()):.3f} | {said['effective_sample_size']:.0f} | "
        row += f"{said['largest_difference']:.2f}"
        for edges in (posterior.median_graph, posterior.best.graph_edges, forest.graph_edges):
            hits = sum(frozenset(edge) in true for edge in edges)
            row += f" | {hits} of {len(true)}, {len(edges) - hits} others"
        print(f"| {row} | {processor:.0f} s |", flush=True)


PARTS = {
    "sums": sums,
    "draws": draws,
    "chains": chains,
    "network": network,
    "predict": predict,
}
NEED_FILES = ("network", "predict")


def main(arguments: list[str]) -> None:
    """Runs the parts named."""
    machine = describe_machine(Limits().workers)
    print(f"{machine['processor']}, {machine['threads']} threads; {machine['command']}\n")
    warm_up()
    names = [word for word in arguments if word in PARTS]
    sizes = [word for word in arguments if word not in PARTS]
    for name in names or [part for part in PARTS if part not in NEED_FILES]:
        PARTS[name](sizes if names else [])
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
