"""Private tables from greedy and optimal clique trees, at equal noisy scores of pairs.

    python benchmarks/private.py nltcs.csv --cells 8 --epsilon 1 10 --seeds 3

Under ε and δ = 1e-9 (zero-concentrated privacy, converted tightly), a share of 0.1 of the budget measures
single columns, 0.09 the distance of each pair from independence, and the rest tables within the cliques; all
noise is Gaussian. A tree is chosen by these noisy distances alone, and mirror descent fits it to the noisy
tables. The result is the total variation distance between model and data, averaged over all pairs of columns.

`greedy` adds the pair with the largest distance that keeps the graph chordal and its cliques within the bound
on cells. `optimal` is the tree with the largest sum, by jtsolve. Both measure the pairs within cliques whose
value exceeds their noise. `charged` charges the noise in the score (`core.pairs`, half of its expectation)
and measures whole cliques. Rows of a CSV are read as states, with numbers cut into four ranges.

References:
    McKenna, Miklau and Sheldon, Winning the NIST contest, Journal of Privacy and Confidentiality 11, 2021.
    Canonne, Kamath and Steinke, The discrete Gaussian for differential privacy, NeurIPS 2020 (conversion).
"""

from __future__ import annotations

import argparse
import resource
from itertools import combinations
from math import inf, pi, prod, sqrt
from typing import TYPE_CHECKING, NamedTuple

import networkx as nx
import numpy as np

import jtsolve as jt
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members
from jtsolve.listing import table as text_table
from jtsolve.models.columns import Column
from jtsolve.models.model import JunctionTreeModel
from jtsolve.tables.options import Dialect
from jtsolve.tables.reading import read_checked, reading_of
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Pair = tuple[int, int]

_DELTA = 1e-9
_SINGLES, _DISTANCES = 0.1, 0.09
_MEAN = sqrt(2 / pi)
"""Mean of the absolute value of standard normal noise."""
_CHARGE = 0.5
_STEPS = 1000


class Noisy(NamedTuple):
    """A measured table: its columns, the noisy counts, and the standard deviation of the noise."""

    columns: tuple[int, ...]
    counts: Floats
    deviation: float


class Data(NamedTuple):
    """Columns of states."""

    names: tuple[str, ...]
    codes: NDArray[np.int64]
    states: tuple[int, ...]

    def counts(self, columns: Sequence[int]) -> Floats:
        """Returns the joint counts, an axis for each column."""
        dims = [self.states[v] for v in columns]
        at = np.ravel_multi_index([self.codes[v] for v in columns], dims)
        return np.bincount(at, minlength=prod(dims)).reshape(dims).astype(float)


def budget_of(epsilon: float) -> float:
    """Returns the largest ρ of zero-concentrated privacy that gives (ε, δ)."""

    def log_delta(rho: float) -> float:
        alphas = 1 + np.geomspace(1e-2, 1e4, 4000)
        values = (alphas - 1) * (alphas * rho - epsilon) + alphas * np.log1p(-1 / alphas) - np.log(alphas - 1)
        return float(values.min())

    low, high = 0.0, epsilon + 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if log_delta(middle) <= np.log(_DELTA) else (low, middle)
    return low


def greedy(distances: dict[Pair, float], states: Sequence[int], cells: int) -> JunctionTree:
    """Returns the tree of a chordal graph grown by the pair with the largest distance."""
    graph = nx.empty_graph(len(states))
    waiting = sorted((pair for pair, value in distances.items() if value > 0), key=lambda p: -distances[p])
    grown = True
    while grown:
        grown = False
        for u, v in waiting:
            graph.add_edge(u, v)
            common = set(graph[u]) & set(graph[v]) | {u, v}
            fits = nx.is_chordal(graph) and all(
                prod(states[w] for w in clique) <= cells for clique in nx.find_cliques(graph.subgraph(common))
            )
            if not fits:
                graph.remove_edge(u, v)
                continue
            waiting.remove((u, v))
            grown = True
            break
    return JunctionTree.from_graph(graph)


def worthwhile(
    worth: dict[tuple[int, ...], float], states: Sequence[int], budget: float
) -> dict[tuple[int, ...], float]:
    """Returns the tables to measure and their budgets, which maximise the value less the noise."""
    noise = {one: (_MEAN * prod(states[v] for v in one)) ** (2 / 3) for one in worth}
    order = sorted(worth, key=lambda one: -worth[one] / noise[one])
    best, chosen, gain, cost = -inf, 0, 0.0, 0.0
    for count, one in enumerate(order, 1):
        gain, cost = gain + worth[one], cost + noise[one]
        if gain - cost**1.5 / sqrt(budget) > best:
            best, chosen = gain - cost**1.5 / sqrt(budget), count
    total = sum(noise[one] for one in order[:chosen])
    return {one: budget * noise[one] / total for one in order[:chosen]}


class Fit:
    """Least squares by mirror descent on the log potentials of the cliques of a junction tree."""

    def __init__(self, tree: JunctionTree, states: Sequence[int]) -> None:
        self.cliques = [tuple(members(clique)) for clique in tree.cliques]
        self.dims = [tuple(states[v] for v in clique) for clique in self.cliques]
        near = nx.Graph(tree.edges)
        near.add_nodes_from(range(len(self.cliques)))
        self.order: list[Pair] = []  # (clique, parent) from each root down
        for part in nx.connected_components(near):
            root = min(part)
            self.order += [(root, -1), *((child, up) for up, child in nx.bfs_edges(near, root))]

    def margin(self, table: Floats, at: int, columns: Collection[int]) -> Floats:
        """Returns the marginal table of some columns of a clique, in increasing order."""
        gone = tuple(i for i, v in enumerate(self.cliques[at]) if v not in columns)
        summed: Floats = table.sum(axis=gone)
        return summed

    def spread(self, table: Floats, at: int, columns: Collection[int]) -> Floats:
        """Returns a table of some columns, shaped to broadcast over a clique."""
        return table.reshape(
            [n if v in columns else 1 for v, n in zip(self.cliques[at], self.dims[at], strict=True)]
        )

    def marginals(self, potentials: list[Floats]) -> list[Floats]:
        """Returns the tables of the cliques, which sum to 1."""
        tables = [np.exp(one - one.max()) for one in potentials]
        messages: dict[int, Floats] = {}
        shared = {i: set(self.cliques[i]) & set(self.cliques[up]) for i, up in self.order if up >= 0}
        for i, up in reversed(self.order):
            if up >= 0:
                messages[i] = self.margin(tables[i], i, shared[i])
                messages[i] /= messages[i].sum()
                tables[up] = tables[up] * self.spread(messages[i], up, shared[i])
        for i, up in self.order:
            tables[i] /= tables[i].sum()
            if up >= 0:
                above = self.margin(tables[up], up, shared[i])
                tables[i] = tables[i] * self.spread(above / np.maximum(messages[i], 1e-300), i, shared[i])
        return tables

    def fitted(self, measured: Sequence[Noisy], singles: Sequence[Floats], total: float) -> list[Floats]:
        """Returns the tables of the cliques after the descent, which starts from independence."""
        potentials = [np.zeros(dims) for dims in self.dims]
        place = {v: i for i, clique in reversed(list(enumerate(self.cliques))) for v in clique}
        for v, counts in enumerate(singles):
            logs = np.log(np.maximum(counts, 0.5) / total)
            potentials[place[v]] = potentials[place[v]] + self.spread(logs, place[v], (v,))
        homes = [
            next(i for i, clique in enumerate(self.cliques) if set(one.columns) <= set(clique))
            for one in measured
        ]

        def loss(tables: list[Floats]) -> tuple[float, list[Floats]]:
            value, slopes = 0.0, [np.zeros(dims) for dims in self.dims]
            for one, i in zip(measured, homes, strict=True):
                error = total * self.margin(tables[i], i, one.columns) - one.counts
                value += float((error**2).sum()) / one.deviation**2 / 2
                slopes[i] += self.spread(error / one.deviation**2, i, one.columns)
            return value, slopes

        tables = self.marginals(potentials)
        value, slopes = loss(tables)
        step = 2 / (total * sum(one.deviation**-2 for one in measured))
        for _ in range(_STEPS):
            moved = [one - step * slope for one, slope in zip(potentials, slopes, strict=True)]
            other = self.marginals(moved)
            after, new = loss(other)
            change = zip(slopes, tables, other, strict=True)
            expected = total * sum(float((slope * (a - b)).sum()) for slope, a, b in change)
            if value - after >= step * expected / 2:
                potentials, tables, value, slopes, step = moved, other, after, new, step * 1.2
            else:
                step /= 2
        return tables


def distance(data: Data, tree: JunctionTree, tables: list[Floats]) -> float:
    """Returns the mean total variation distance over all pairs."""
    states = [tuple(map(str, range(count))) for count in data.states]
    columns = tuple(map(Column, data.names, states))
    model, rows = JunctionTreeModel(columns, tree, tuple(tables)), data.codes.shape[1]
    errors = [
        np.abs(model.marginal([data.names[u], data.names[v]]) - data.counts((u, v)) / rows).sum() / 2
        for u, v in combinations(range(len(data.states)), 2)
    ]
    return float(np.mean(errors))


def run(data: Data, cells: int, epsilon: float, seed: int, seconds: float) -> dict[str, tuple[float, float]]:
    """Returns the mean total variation distance and the processor seconds of the tree, by method."""
    generator, n = np.random.default_rng(seed), len(data.states)
    rho = budget_of(epsilon)

    def measured(columns: Sequence[int], deviation: float) -> Noisy:
        exact = data.counts(columns)
        return Noisy(tuple(columns), exact + generator.normal(0, deviation, exact.shape), deviation)

    singles = [measured((v,), sqrt(n / (2 * _SINGLES * rho))).counts for v in range(n)]
    total = max(1.0, float(np.mean([one.sum() for one in singles])))
    shares = [np.maximum(one, 0) / np.maximum(one, 0).sum() for one in singles]
    pairs = list(combinations(range(n), 2))
    noise = sqrt(len(pairs) / (2 * _DISTANCES * rho))
    distances: dict[Pair, float] = {}
    for u, v in pairs:
        expected = total * np.multiply.outer(shares[u], shares[v])
        distances[u, v] = float(np.abs(data.counts((u, v)) - expected).sum() + generator.normal(0, noise))
    budget = 2 * (1 - _SINGLES - _DISTANCES) * rho
    states = dict(zip(data.names, data.states, strict=True))
    weights = {(data.names[u], data.names[v]): value for (u, v), value in distances.items()}

    def optimal(charge: float) -> JunctionTree:
        problem = jt.Problem.from_pairs(weights, states, noise=charge, max_clique_cells=cells)
        return jt.solve(problem, time=seconds, threads=1).tree

    trees: dict[str, Callable[[], JunctionTree]] = {
        "greedy": lambda: greedy(distances, data.states, cells),
        "optimal": lambda: optimal(0.0),
        "charged": lambda: optimal(_CHARGE * _MEAN * sqrt(n / budget)),
    }
    found: dict[str, tuple[float, float]] = {}
    for name, build in trees.items():
        began = _processor()
        tree = build()
        spent = _processor() - began
        cliques = [tuple(members(clique)) for clique in tree.cliques]
        if name == "charged":
            sizes = {clique: prod(data.states[v] for v in clique) ** (2 / 3) for clique in cliques}
            split = {clique: budget * size / sum(sizes.values()) for clique, size in sizes.items()}
        else:
            inside = {pair for clique in cliques for pair in combinations(clique, 2)}
            split = worthwhile({pair: distances[pair] for pair in inside}, data.states, budget)
        fit = Fit(tree, data.states)
        tables = fit.fitted([measured(one, sqrt(1 / share)) for one, share in split.items()], singles, total)
        found[name] = distance(data, tree, tables), spent
    return found


def _processor() -> float:
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


def main() -> None:
    """Prints a table of methods by ε."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--no-header", action="store_true")
    parser.add_argument("--cells", type=int, required=True)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="limit of each search of jtsolve")
    given = parser.parse_args()
    coding = reading_of({"discretise": "quantile:4", "missing": "state"}).coding
    table = read_checked(given.data, coding, Dialect(not given.no_header))
    assert isinstance(table, DataTable), "of states"
    kept = [v for v in range(table.n) if len(table.states[v]) > 1]
    data = Data(
        tuple(table.names[v] for v in kept),
        table.codes[kept].astype(np.int64),
        tuple(len(table.states[v]) for v in kept),
    )
    rows = []
    for epsilon in given.epsilon:
        runs = [run(data, given.cells, epsilon, seed, given.seconds) for seed in range(given.seeds)]
        for name in runs[0]:
            errors, spent = np.array([one[name] for one in runs]).T
            rows.append(
                [f"{epsilon:g}", name, f"{errors.mean():.4f}", f"{errors.std():.4f}", f"{spent.mean():.1f}"]
            )
    print(text_table(["epsilon", "tree", "error", "deviation", "processor s"], rows))


if __name__ == "__main__":
    main()
