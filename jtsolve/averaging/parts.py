"""Parts of a posterior over decomposable graphs: intervals, traces of chains, and bootstrap strengths."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.result import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

CERTAIN = 0.99
MOST_DIFFERENCE = 0.05
"""Maximum difference between two converged chains in the probability of an edge."""


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Proved bounds on the figures of a posterior, each (low, high).

    Args:
        log_evidence: ln Z, in nats.
        low: shape (n, n): lower bounds on the probabilities of edges.
        high: shape (n, n): upper bounds.
        connected: the probability that the graph is connected.
        cliques: for each listed clique.
        separators: for each listed separator.
        expected_edges: the expected number of edges.
        expected_cliques: the expected number of cliques.

    Raises:
        ValueError: a lower bound is above the upper one.
    """

    log_evidence: tuple[float, float]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    connected: tuple[float, float]
    cliques: tuple[tuple[float, float], ...]
    separators: tuple[tuple[float, float], ...]
    expected_edges: tuple[float, float]
    expected_cliques: tuple[float, float]

    def __post_init__(self) -> None:
        numbers = (self.log_evidence, self.connected, self.expected_edges, self.expected_cliques)
        pairs = (*numbers, *self.cliques, *self.separators)
        if not (self.low <= self.high).all() or any(low > high for low, high in pairs):
            raise ValueError("a lower bound is above the upper one")

    @property
    def width(self) -> float:
        """The width of the widest interval of an edge."""
        return float((self.high - self.low).max(initial=0.0))

    @property
    def decided(self) -> tuple[int, int, int]:
        """The numbers of pairs that are an edge with probability above 0.99, below 0.01, and undecided."""
        upper = np.triu_indices(len(self.low), 1)
        present = int((self.low[upper] > CERTAIN).sum())
        absent = int((self.high[upper] < 1 - CERTAIN).sum())
        return present, absent, upper[0].size - present - absent


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
class Strengths:
    """Bootstrap strengths of edges.

    Attributes:
        edges: shape (n, n): the share of the resamples whose tree has the edge.
        resamples: number of resamples completed.
        wanted: number of resamples requested.
        optimal: number of trees that are proved optimal for their resample.
        backend: the backend that found the trees.
        seed: seed of the resamples.
        stop: why the run ended.
    """

    edges: NDArray[np.float64]
    resamples: int
    wanted: int
    optimal: int
    backend: str
    seed: int
    stop: Stop = Stop.FINISHED
