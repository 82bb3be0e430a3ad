"""The graphs visited by chains, as bit words, estimates from them, and the convergence of the chains.

The diagnostics are rank-normalised split R̂, effective sample sizes, and shares with standard errors.

References:
    Vehtari, Gelman, Simpson, Carpenter and Bürkner, Rank-normalization, folding, and localization: an
    improved R̂ for assessing convergence of MCMC, Bayesian Analysis 16, 2021. Geyer, Practical Markov chain
    Monte Carlo, Statistical Science 7, 1992 (initial monotone sequence).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.averaging.draws import trees_of
from jtsolve.averaging.parts import MOST_DIFFERENCE, Traces
from jtsolve.tables.margins import mean_ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet

WORD = 32
"""As in `kernels.edge_chain`, which is loaded with the first chain."""

_POINTS, _THINNED = 250, 1000
"""Per chain: points of a trace, and graphs for the counts of cliques and separators."""


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


@dataclass(frozen=True, slots=True)
class Demands:
    """Conditions of convergence, besides `posterior.MOST_DIFFERENCE`."""

    most_r_hat: float = 1.01
    least_size: float = 1500.0
    most_error: float = 0.009
    """Vehtari et al. recommend this R̂ and an effective size of 400. Among the 78 edges of flare, the largest
    error is about 3 Monte Carlo standard errors: at a size of 1,500 alone, one run in ten was off by more
    than 0.03."""
    error_bound: float = 4.0
    """Differences up to this many Monte Carlo standard errors are tolerated: at an effective size of 1,500,
    the standard error of one of four chains is 0.026 at probability 1/2, and many pairs are compared."""
    certain: float = 0.01
    """Edges with a probability this close to 0 or 1 change too rarely for R̂."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Convergence diagnostics of chains.

    Attributes:
        score: R̂ of the logarithms of the weights.
        size: R̂ of the number of edges.
        worst_edge: the largest R̂ of an uncertain edge; 1 without any.
        effective: the least effective sample size of all of these.
        error: the largest Monte Carlo standard error of an edge's probability.
        difference: the largest difference between two chains in the probability of an edge.
        beyond: the largest part of such a difference that standard errors do not explain.
    """

    score: float
    size: float
    worst_edge: float
    effective: float
    error: float
    difference: float
    beyond: float

    def meets(self, demands: Demands) -> bool:
        """Returns whether the chains have converged."""
        return (
            max(self.score, self.size, self.worst_edge) <= demands.most_r_hat
            and self.effective >= demands.least_size
            and self.error <= demands.most_error
            and self.beyond <= MOST_DIFFERENCE
        )

    def figures(self) -> dict[str, Any]:
        """Returns the diagnostics as JSON values; an infinite R̂ is None."""
        r_hats = {"score": self.score, "edges_in_graph": self.size, "worst_edge": self.worst_edge}
        return {
            "r_hat": {name: value if np.isfinite(value) else None for name, value in r_hats.items()},
            "effective_sample_size": self.effective,
            "largest_error": self.error,
            "largest_difference": self.difference,
            "difference_beyond_error": self.beyond,
        }


def agreement_of(graphs: NDArray[np.uint32], heights: NDArray[np.float64], demands: Demands) -> Agreement:
    """Returns the convergence diagnostics of chains.

    Args:
        graphs: shape (chains, rounds, n, words): the graphs of each chain.
        heights: shape (chains, rounds): ln of their weights.
        demands: decides which edges are certain, and which differences are tolerated.
    """
    shares = edge_shares(graphs)
    upper = np.triu_indices(graphs.shape[2], 1)
    means = shares.mean(axis=0)[upper]
    sizes = np.bitwise_count(graphs).sum(axis=(2, 3)) / 2
    effective = min(effective_size(heights), effective_size(sizes))
    worst, error, beyond = 1.0, 0.0, 0.0
    for u, v, p in zip(*(index.tolist() for index in upper), means, strict=True):
        if demands.certain < p < 1 - demands.certain:
            trace = edge_trace(graphs, u, v)
            worst = max(worst, split_r_hat(trace))
            effective = min(effective, size := effective_size(trace))
            error = max(error, sqrt(p * (1 - p) / size))
            beyond = max(beyond, _beyond_error(trace, demands.error_bound))
    difference = float((shares.max(axis=0) - shares.min(axis=0)).max())
    return Agreement(split_r_hat(heights), split_r_hat(sizes), worst, effective, error, difference, beyond)


def _beyond_error(traces: NDArray[np.float64], bound: float) -> float:
    """Returns the largest difference between the means of two chains in excess of `bound` standard errors."""
    means = traces.mean(axis=1)
    errors = np.array([standard_error(trace[None]) for trace in traces])
    differences = np.abs(means[:, None] - means) - bound * np.hypot(errors[:, None], errors)
    return max(0.0, float(differences.max()))


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


def split_chains(traces: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the halves of chains as separate chains: shape (m, k) becomes (2m, k // 2)."""
    half = traces.shape[1] // 2
    return np.concatenate([traces[:, :half], traces[:, -half:]])


def split_r_hat(traces: NDArray[np.float64]) -> float:
    """Returns the rank-normalised split R̂ of chains, shape (m, k); 1 if nothing ever varies.

    Values are replaced by the normal scores of their ranks; R̂² is the ratio of the variance of all halves to
    the variance within them; inf if the halves differ and none varies.
    """
    from scipy.special import ndtri

    halves = split_chains(traces)
    if not np.ptp(halves, axis=1).any():
        return 1.0 if not np.ptp(halves) else inf
    ranks = mean_ranks(halves.ravel()).reshape(halves.shape)
    scores = ndtri((ranks - 0.375) / (halves.size + 0.25))
    length = halves.shape[1]
    within = float(scores.var(axis=1, ddof=1).mean())
    between = float(scores.mean(axis=1).var(ddof=1))
    return float(np.sqrt((length - 1) / length + between / within))


def effective_size(traces: NDArray[np.float64]) -> float:
    """Returns the effective sample size of chains, shape (m, k), from their halves.

    It is the size divided by 1 + 2 Σ ρ; the sums of two neighbouring autocorrelations are made monotone, and
    end before the first negative one. It is the size if nothing varies.
    """
    halves = split_chains(traces)
    count, length = halves.shape
    centred = halves - halves.mean(axis=1, keepdims=True)
    transformed = np.fft.rfft(centred, 2 * length, axis=1)
    covariance = np.fft.irfft(np.abs(transformed) ** 2, axis=1)[:, :length].mean(axis=0) / length
    within = covariance[0] * length / (length - 1)
    total = covariance[0] + float(halves.mean(axis=1).var(ddof=1))
    if total == 0:
        return float(halves.size)
    correlation = 1.0 - (within - covariance * length / (length - 1)) / total
    pairs = correlation[: length // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    kept = np.minimum.accumulate(pairs[: negative[0] if negative.size else pairs.size])
    time = max(2.0 * float(kept.sum()) - 1.0, 1.0 / np.log10(halves.size))
    return float(count * length / time)


def standard_error(traces: NDArray[np.float64]) -> float:
    """Returns the Monte Carlo standard error of the mean over all chains, shape (m, k)."""
    return float(traces.std() / np.sqrt(effective_size(traces)))


def distribution(name: str, values: NDArray[np.int64], independent: float) -> dict[str, Any]:
    """Returns the shares of the values 0, 1, …, and their errors for a number of independent draws.

    Args:
        name: name of the quantity; its errors have the key NAME_errors.
        values: shape (chains, draws), not negative.
        independent: the effective number of draws.
    """
    shares = np.bincount(values.ravel()) / values.size
    errors = np.sqrt(shares * (1 - shares) / independent)
    return {name: shares.tolist(), f"{name}_errors": errors.tolist()}
