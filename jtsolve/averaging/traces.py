"""The graphs visited by chains, as bit words, and estimates from them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.averaging.diagnostics import distribution, standard_error
from jtsolve.averaging.draws import trees_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet

WORD = 32
"""As in `kernels.edge_chain`, which is loaded with the first chain."""

MOST_DIFFERENCE = 0.05
"""Maximum difference between two converged chains in the probability of an edge."""

_POINTS, _THINNED = 250, 1000
"""Per chain: points of a trace, and graphs for the counts of cliques and separators."""


@dataclass(frozen=True, slots=True, eq=False)
class Traces:
    """Thinned traces of chains, and the accuracy of each edge.

    Attributes:
        rounds: shape (points,): the rounds, after the warm-up, at which the traces were taken.
        scores: shape (chains, points): ln of the weight of the graph, up to a constant, in nats.
        edges_in_graph: shape (chains, points): its number of edges.
        errors: shape (n, n): the Monte Carlo standard error of each edge's probability.
        differences: shape (n, n): the largest difference between two chains in it.
    """

    rounds: NDArray[np.int64]
    scores: NDArray[np.float64]
    edges_in_graph: NDArray[np.int64]
    errors: NDArray[np.float64]
    differences: NDArray[np.float64]

    def figure(self, names: Sequence[str], title: str) -> Any:
        """Returns a figure of the traces and of the edges with the largest differences."""
        from jtsolve.averaging.pictures import traces

        lines = {"score, nats": self.scores.tolist(), "edges": self.edges_in_graph.tolist()}
        pairs = combinations(range(len(names)), 2)
        differences = [(f"{names[u]}–{names[v]}", float(self.differences[u, v])) for u, v in pairs]
        return traces(self.rounds.tolist(), lines, differences, MOST_DIFFERENCE, title)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The graphs of chains after the warm-up.

    Attributes:
        graphs: shape (chains, rounds, n, words), uint32: the neighbours of each vertex, in words of 32.
        heights: shape (chains, rounds): ln of the weight of each graph, up to a constant.
        converged: whether all conditions of convergence are met.
        diagnostics: diagnostics as JSON values.
    """

    graphs: NDArray[np.uint32]
    heights: NDArray[np.float64]
    converged: bool
    diagnostics: dict[str, Any]

    def edges(self) -> NDArray[np.float64]:
        """Returns the estimated probability of each edge, shape (n, n)."""
        mean: NDArray[np.float64] = edge_shares(self.graphs).mean(axis=0)
        return mean

    def traces(self) -> Traces:
        """Returns the thinned traces, and the errors of all edges."""
        rounds, n = self.graphs.shape[1:3]
        at = np.linspace(0, rounds - 1, min(rounds, _POINTS)).astype(int)
        shares = edge_shares(self.graphs)
        errors = np.zeros((n, n))
        for u, v in np.argwhere(np.triu(shares.any(axis=0) & (shares < 1).any(axis=0))).tolist():
            errors[u, v] = errors[v, u] = standard_error(edge_trace(self.graphs, u, v))
        return Traces(
            rounds + at,
            self.heights[:, at],
            self.sizes[:, at],
            errors,
            shares.max(axis=0) - shares.min(axis=0),
        )

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of edges of each graph: shape (chains, rounds)."""
        sizes: NDArray[np.int64] = np.bitwise_count(self.graphs).sum(axis=(2, 3), dtype=np.int64) // 2
        return sizes

    def draw(self, count: int) -> list[JunctionTree]:
        """Returns the junction trees of `count` equally spaced graphs of all chains in sequence."""
        graphs = self.graphs.reshape(-1, *self.graphs.shape[2:])
        at = np.linspace(0, len(graphs) - 1, count + 2).astype(int)[1:-1]
        return trees_of(unpacked_neighbours(graphs[at]))

    def trees(self) -> list[JunctionTree]:
        """Returns the junction trees of equally spaced graphs of every chain."""
        rounds = self.graphs.shape[1]
        at = np.linspace(0, rounds - 1, min(rounds, _THINNED)).astype(int)
        return trees_of(unpacked_neighbours(self.graphs[:, at]))


def posterior_from_sample(sample: Sample, threshold: float) -> dict[str, Any]:
    """Returns the estimates for the posterior; cliques and separators above the threshold."""
    trees = sample.trees()
    cliques = Counter(clique for tree in trees for clique in tree.cliques)
    separators = Counter(separator for tree in trees for separator in tree.separators)
    effective = sample.diagnostics["effective_sample_size"]
    widths = np.array([tree.treewidth for tree in trees])

    def listed(counts: Counter[VarSet]) -> tuple[tuple[VarSet, float], ...]:
        shares = [(mask, count / len(trees)) for mask, count in counts.items()]
        chosen = [pair for pair in shares if pair[1] >= threshold]
        return tuple(sorted(chosen, key=lambda pair: (-pair[1], pair[0])))

    return {
        "log_evidence": None,
        "edges": sample.edges(),
        "cliques": listed(cliques),
        "separators": listed(separators),
        "connected": sum(0 not in tree.separators for tree in trees) / len(trees),
        "method": "chains",
        "converged": sample.converged,
        "traces": sample.traces(),
        "diagnostics": {
            **sample.diagnostics,
            "expected_cliques": sum(cliques.values()) / len(trees),
            **distribution("edges_in_graph", sample.sizes, effective),
            **distribution("treewidth", widths, min(float(len(trees)), effective)),
        },
    }


def edge_trace(graphs: NDArray[np.uint32], u: int, v: int) -> NDArray[np.float64]:
    """Returns 1 where a graph has the edge, else 0: shape (chains, rounds).

    Args:
        graphs: rows as words, shape (chains, rounds, n, words).
        u: one end.
        v: the other end.
    """
    trace: NDArray[np.float64] = (graphs[:, :, u, v // WORD] >> v % WORD & 1).astype(np.float64)
    return trace


def edge_shares(graphs: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Returns the share of the graphs of each chain with each edge: shape (chains, n, n)."""
    n = graphs.shape[2]
    shares = [(graphs[..., v // WORD] >> v % WORD & 1).mean(axis=1) for v in range(n)]
    return np.stack(shares, axis=2)


def word_count(n: int) -> int:
    """Returns the number of words of a row of n bits."""
    return -(-n // WORD)


def packed_neighbours(neighbours: Sequence[VarSet]) -> NDArray[np.uint32]:
    """Returns the rows of a graph in words: shape (n, words)."""
    n = len(neighbours)
    data = b"".join(mask.to_bytes(4 * word_count(n), "little") for mask in neighbours)
    return np.frombuffer(data, "<u4").astype(np.uint32).reshape(n, -1)


def unpacked_neighbours(graphs: NDArray[np.uint32]) -> list[tuple[VarSet, ...]]:
    """Returns the neighbours of each vertex, of graphs of any shape (…, n, words)."""
    data = np.ascontiguousarray(graphs, "<u4").reshape(-1, *graphs.shape[-2:])
    return [tuple(int.from_bytes(row.tobytes(), "little") for row in rows) for rows in data]
