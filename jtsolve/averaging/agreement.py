"""Convergence of chains: thresholds for R̂, effective sizes, errors and differences between chains."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.averaging.diagnostics import effective_size, split_r_hat, standard_error
from jtsolve.averaging.traces import MOST_DIFFERENCE, edge_shares, edge_trace

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Demands:
    """Conditions of convergence, besides `traces.MOST_DIFFERENCE`."""

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
