"""Averages over decomposable graphs: their time and their correctness.

    sums      the exact sums of random scores: seconds, seconds of processor, memory, against the prediction
    draws     exact draws a second
    chains    edge moves a second
    agree     sums and features of 500 random problems against all graphs
    counts    labelled chordal graphs up to n = 11 (sequence A058862 of the OEIS)
    network   edges of a network above 1/2 in chains, beside Chow-Liu and the best tree; only if named:
              `network ALARM.bif:1000:3:8000`, rows drawn, the largest clique, and the most rounds
    predict   test log-likelihood of 32 drawn trees beside the best one; only if named, with files of data:
              `predict FOLDER/nltcs:4:500`, a set of the folder, the largest clique, and the rows or all;
              `predict FOLDER/plants:3:17412:9900`: of so many rounds of chains, converged or not
    demand    rounds of chains with a table of scores and with scores on demand; only if named:
              `demand FOLDER/kosarek:4:5000:100`, a set, the largest clique, the rows, and the rounds

Name parts, or sizes: `python benchmarks/averaging.py sums 13 15 16`, `sums 18/4` for cliques of at most 4.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import replace
from math import exp, inf
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
from problems import gaussian, named, random_problem
from reference_averaging import enumerated
from state_rows import read_states

from jtsolve.averaging.average import average, draw_trees
from jtsolve.averaging.chains import FOR_CHAINS, Chains, run_chains
from jtsolve.averaging.draws import arrange_tables, draw_graphs
from jtsolve.averaging.features import features_of
from jtsolve.averaging.method import Draws
from jtsolve.averaging.plan import TableSizes
from jtsolve.averaging.sums import compute
from jtsolve.averaging.weights import EXACT, set_weights
from jtsolve.backends.chowliu import ChowLiu
from jtsolve.core.machine import describe_machine, peak_memory
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import DenseScores
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.errors import NotConvergedError
from jtsolve.models.learning.fit import fit
from jtsolve.models.mixture import Mixture
from jtsolve.networks.files import read_network
from jtsolve.networks.sample import sample
from jtsolve.scoring.problem import WITHIN_LIMITS, Tabulation, problem_from_table
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.solving import solve
from jtsolve.tables.table import DataTable

CHORDAL = [1, 2, 8, 61, 822, 18154, 617675, 30888596, 2192816760, 215488096587, 28791414081916]


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
    """Prints the cost of the exact sums of normal scores, n or n/largest clique."""
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
        del found  # or the next would be measured with the tables of this one


def draws(sizes: list[str]) -> None:
    """Prints the cost of exact draws, for normal scores of two scales: first what all draws share."""
    print("| n | scale of the scores | draws | seconds | processor | a second of processor |")
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
    """Prints proposals a second, of normal scores of sets of at most four variables."""
    print("| n | proposals a second | a second of processor |\n|---|---|---|")
    for size in sizes or ["8", "13", "20", "40", "100"]:
        problem = named(gaussian(1, int(size), min(4, int(size))))
        run_chains(problem, 1.0, Run(), how=Chains(rounds=100), start=None)
        found, wall, processor = timed(
            lambda p=problem: run_chains(p, 1.0, Run(), how=Chains(rounds=500), start=None)
        )
        count = found.diagnostics["proposals"]
        print(f"| {size} | {count / wall:.3g} | {count / processor:.3g} |", flush=True)


def agree(sizes: list[str]) -> None:
    """Prints the largest difference from the averages over all graphs, for a number of problems."""
    features = sorted(EXACT.features, key=lambda feature: feature.value)
    count, worst, differing, infeasible = int((sizes or ["500"])[0]), 0.0, 0, 0
    for seed in range(count):
        random = Random(seed)  # noqa: S311 - nothing here is secret
        n = random.choice([1, 2, 3, 4, 5, 5, 5, 5])
        chosen = frozenset(random.sample(features, random.choice([0, 1, 1, 2, 3])))
        problem = random_problem(seed, n, chosen)
        found = compute(set_weights(problem), Run(Limits(threads=1)))
        expected = enumerated(problem)
        if expected is None:
            infeasible += 1
            differing += found.log_total != -inf
            continue
        parts = features_of(found, Run(Limits(threads=1)))
        difference = abs(found.log_total - expected.log_evidence)
        difference = max(difference, abs(parts.connected - expected.connected))
        for i, mask in enumerate(parts.masks.tolist()):
            difference = max(
                difference,
                abs(parts.complete[i] - expected.complete[mask]),
                abs(parts.clique[i] - expected.clique[mask]),
                abs(parts.separator[i] - expected.separator[mask]),
            )
        worst = max(worst, difference)
        differing += difference > 1e-9
    print(
        f"{count} problems, {infeasible} of them infeasible: {differing} differ by more than 1e-9; ", end=""
    )
    print(f"largest difference {worst:.2g}")


def counts(_sizes: list[str]) -> None:
    """Prints the relative errors of the numbers of labelled chordal graphs."""
    for n, count in enumerate(CHORDAL, start=1):
        problem = named(DenseScores(n, n, np.zeros(1 << n)))
        total = compute(set_weights(problem), Run()).log_total
        print(f"n = {n}: {exp(total):.0f}, relative error {abs(exp(total) / count - 1):.1e}")


def mixed(trees: tuple[Any, ...], train: DataTable) -> Mixture:
    """Returns the mixture of drawn trees, each as heavy as its share."""
    shares = Counter(trees)
    models = tuple(fit(tree, train, ess=1.0) for tree in shares)
    return Mixture(np.array(list(shares.values())) / len(trees), models)


def predict(sets: list[str]) -> None:
    """Prints test log-likelihoods a row, in nats, of the best tree under BDeu and of drawn trees."""
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
        mean = fit(best, train, ess=1.0).log_likelihood(test).mean()
        row = f"{train.total} | {train.n} | {largest} | {mean:.4f} | "
        if draws is None:
            row += "not converged | "
        else:
            mean = mixture.log_likelihood(test).mean()
            row += f"{mean:.4f} | {len(set(draws.trees))}, {draws.method}"
            row += "" if draws.diagnostics.get("converged", True) else ", NOT CONVERGED"
        print(f"| {Path(path).name} | {row} | {processor:.1f} s |", flush=True)


def network(cases: list[str]) -> None:
    """Prints how many edges of a network, directions dropped, are found in data drawn from it."""
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


def demand(cases: list[str]) -> None:
    """Prints the time of rounds of chains with and without a table of scores, which give the same graphs."""
    print(
        "| set | rows | variables | cliques ≤ | sets | rounds | table | rounds after it | on demand | asked |"
    )
    print(f"|{'---|' * 10}")
    for case in cases:
        path, largest, rows, rounds = case.split(":")
        table = read_states(Path(f"{path}.train.data.gz"), header=False)
        table = replace(table, codes=table.codes[:, : int(rows)])
        sets = count_bounded_subsets(table.n, int(largest))
        row = f"{Path(path).name} | {table.total} | {table.n} | {largest} | {sets}"
        took, graphs = [], []
        for rule in (FOR_CHAINS, Tabulation(seconds=0.0, share=0.0)):
            problem, wall, _ = timed(
                lambda t=table, k=int(largest) - 1, r=rule: problem_from_table(
                    t, Bdeu(1.0), treewidth=k, tabulation=r
                )
            )
            if not isinstance(problem.scores, DenseScores) and rule is FOR_CHAINS:
                took += ["more than a minute", "–"]
                continue
            how = Chains(rounds=int(rounds))
            sample, run, _ = timed(lambda p=problem, x=how: run_chains(p, 1.0, Run(), how=x, start=None))
            took += [f"{wall:.1f} s", f"{run:.1f} s"] if rule is FOR_CHAINS else [f"{run:.1f} s"]
            graphs.append(sample.graphs)
        assert len(graphs) == 1 or (graphs[0] == graphs[1]).all()
        print(f"| {row} | {rounds} | {' | '.join(took)} | {problem.scores.stats['misses']} |", flush=True)


PARTS = {
    "sums": sums,
    "draws": draws,
    "chains": chains,
    "agree": agree,
    "counts": counts,
    "network": network,
    "predict": predict,
    "demand": demand,
}
UNASKED = ("network", "predict", "demand")
"""Parts that need names of files."""


def main(arguments: list[str]) -> None:
    """Runs the parts named."""
    machine = describe_machine(Limits().workers)
    print(f"{machine['processor']}, {machine['threads']} threads; {machine['command']}\n")
    warm_up()
    names = [word for word in arguments if word in PARTS]
    sizes = [word for word in arguments if word not in PARTS]
    for name in names or [part for part in PARTS if part not in UNASKED]:
        PARTS[name](sizes if names else [])
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
