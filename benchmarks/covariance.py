"""Decomposable covariances of held-out days: jtsolve, TMFG and MFCF at one treewidth.

    python benchmarks/covariance.py prices.csv.gz --columns 100 --seconds 10 60

The file has closing prices, a column for each stock. Logarithmic returns beyond ±0.3 are unadjusted splits
and count as 0. Returns are standardised by the training days, the first half or every other day; the others
are held out. All methods use only the covariance, and all graphs get the maximum likelihood estimate
(`fit_mixed`), so that results differ only by the graph. The table has the score (Gaussian BIC, nats), the
bound if there is one, held-out nats per day, and processor seconds, child processes included.

`tmfg` is the package fast-tmfg, if it is installed (treewidth 3 only). `mfcf` is written here: a clique
forest grows by the vertex and the facet of a clique with the largest gain of the score, and facets may be
used repeatedly (Massara and Aste, Learning clique forests, 2019).
"""

from __future__ import annotations

import argparse
import resource
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import numpy as np
import polars as pl

import jtsolve as jt
from jtsolve.core.tree import JunctionTree
from jtsolve.listing import table as text_table
from jtsolve.models.learning.mixed_tree import fit_mixed
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.scores.gaussian_bic import GaussianBic
from jtsolve.tables.covariance import table_of_covariance

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


_SPLIT = 0.3
"""Size of logarithmic returns beyond which they are splits."""


class Days(NamedTuple):
    """Standardised returns: covariance and number of the training days, and the held-out days."""

    names: list[str]
    covariance: Floats
    rows: int
    held_out: Floats


def days_in(path: str, columns: int | None, *, alternate: bool) -> Days:
    """Returns the days of a file of prices."""
    prices = pl.read_csv(path)
    names = prices.columns[:columns]
    returns = np.diff(np.log(prices.select(names).to_numpy()), axis=0)
    returns[np.abs(returns) > _SPLIT] = 0.0
    half = len(returns) // 2
    train, held_out = (returns[::2], returns[1::2]) if alternate else (returns[:half], returns[half:])
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    standard = (train - mean) / deviation
    return Days(names, standard.T @ standard / len(train), len(train), (held_out - mean) / deviation)


def mfcf(days: Days, treewidth: int) -> nx.Graph:
    """Returns the graph of a maximally filtered clique forest with the gains of Gaussian BIC."""
    correlation, n = days.covariance, len(days.names)
    penalty = np.log(days.rows) / 2
    first = int(np.argmax(np.square(correlation).sum(axis=0)))
    graph, left = nx.empty_graph(n), [v for v in range(n) if v != first]
    facets: list[tuple[int, ...]] = [(first,)]
    gains: list[Floats] = []

    def gains_at(facet: tuple[int, ...]) -> Floats:
        inner = correlation[np.ix_(facet, facet)]
        cross = correlation[list(facet)]
        explained = (cross * np.linalg.solve(inner, cross)).sum(axis=0)
        gain: Floats = -days.rows / 2 * np.log(np.maximum(1 - explained, 1e-12)) - penalty * len(facet)
        return gain

    gains.append(gains_at(facets[0]))
    while left:
        table = np.array(gains)[:, left]
        at, place = np.unravel_index(int(table.argmax()), table.shape)
        v = left.pop(int(place))
        if table[at, place] <= 0:
            facets.append((v,))
            gains.append(gains_at((v,)))
            continue
        clique = (*facets[int(at)], v)
        graph.add_edges_from((u, v) for u in facets[int(at)])
        sizes = range(1, min(treewidth, len(clique)) + 1)
        for facet in {tuple(sorted(one)) for size in sizes for one in combinations(clique, size) if v in one}:
            facets.append(facet)
            gains.append(gains_at(facet))
    return graph


def tmfg(days: Days) -> nx.Graph:
    """Returns the graph of fast-tmfg."""
    import pandas as pd

    package: Any = import_module("fast_tmfg")

    weights = pd.DataFrame(np.square(days.covariance))
    cliques, _, _ = package.TMFG().fit_transform(weights=weights, output="unweighted_sparse_W_matrix")
    graph = nx.empty_graph(len(days.names))
    for clique in cliques:
        graph.add_edges_from(combinations(map(int, clique), 2))
    return graph


def main() -> None:
    """Prints a table of methods."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("prices")
    parser.add_argument("--columns", type=int, help="the first columns only")
    parser.add_argument("--alternate", action="store_true", help="learn from every other day")
    parser.add_argument("--treewidth", type=int, default=3)
    parser.add_argument("--seconds", type=float, nargs="+", default=[10.0, 60.0], help="limits of jtsolve")
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    days = days_in(given.prices, given.columns, alternate=given.alternate)
    data = table_of_covariance(days.names, days.covariance, days.rows, given.prices)
    scores = DataScores(data, GaussianBic(), given.treewidth + 1)
    rows: list[list[str]] = []

    def line(name: str, find: Callable[[], tuple[JunctionTree, float | None]]) -> None:
        began = _processor()
        tree, bound = find()
        seconds = _processor() - began
        precision = fit_mixed(tree, data, ess=0.0).matrices()[1]
        half = np.linalg.slogdet(precision)[1] - len(days.names) * np.log(2 * np.pi)
        squares = np.einsum("ti,ij,tj->t", days.held_out, precision, days.held_out)
        held_out = (half - squares.mean()) / 2
        shown = "" if bound is None else f"{bound:.1f}"
        rows.append([name, f"{tree.score(scores):.1f}", shown, f"{held_out:.3f}", f"{seconds:.1f}"])

    if given.treewidth == 3 and find_spec("fast_tmfg"):  # it supports no other treewidth
        line("tmfg", lambda: (JunctionTree.from_graph(tmfg(days)), None))
    line("mfcf", lambda: (JunctionTree.from_graph(mfcf(days, given.treewidth)), None))
    for seconds in given.seconds:

        def learned(seconds: float = seconds) -> tuple[JunctionTree, float]:
            found = jt.learn(
                covariance=pl.DataFrame(dict(zip(days.names, days.covariance, strict=True))),
                rows=days.rows,
                treewidth=given.treewidth,
                time=seconds,
                threads=given.threads,
            )
            return found.tree, found.bound

        line(f"jtsolve, {seconds:g} s", learned)
    print(text_table(["method", "score", "bound", "held out per day", "processor s"], rows))


def _processor() -> float:
    """Returns the processor seconds of this process and of those that it started."""
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


if __name__ == "__main__":
    main()
