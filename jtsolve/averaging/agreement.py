"""Do chains agree? What is demanded of R̂, effective sizes, errors and differences between chains."""

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
    """What chains have to meet to count as converged, besides `traces.MOST_DIFFERENCE`."""

    most_r_hat: float = 1.01
    least_size: float = 1500.0
    most_error: float = 0.009
    """R̂ as Vehtari et al. advise, who ask for an effective size of 400. The error of the worst of flare's 78
    edges is some 3 Monte Carlo standard errors: with sizes from 1,500 on, one in ten was wrong by more than
    0.03."""
    error_bound: float = 4.0
    """A difference of this many Monte Carlo standard errors does not count: at an effective size of 1,500,
    one of four chains estimates a probability of 1/2 to 0.026, and many pairs are compared."""
    certain: float = 0.01
    """Edges with a probability within this of 0 or 1 have too few changes for R̂."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well chains agree.

    Attributes:
        score: R̂ of ln of the weights.
        size: R̂ of the number of edges.
        worst_edge: the largest R̂ of an uncertain edge; 1 without any.
        effective: the least effective sample size of all of these.
        error: the largest Monte Carlo standard error of an edge's probability.
        difference: by how much the probability of an edge differs between two chains at most.
        beyond: the same, less the part that errors explain.
    """

    score: float
    size: float
    worst_edge: float
    effective: float
    error: float
    difference: float
    beyond: float

    def meets(self, demands: Demands) -> bool:
        """Returns whether the chains agree."""
        return (
            max(self.score, self.size, self.worst_edge) <= demands.most_r_hat
            and self.effective >= demands.least_size
            and self.error <= demands.most_error
            and self.beyond <= MOST_DIFFERENCE
        )

    def figures(self) -> dict[str, Any]:
        """Returns the figures as JSON values: None for R̂ of chains that never moved and differ."""
        r_hats = {"score": self.score, "edges_in_graph": self.size, "worst_edge": self.worst_edge}
        return {
            "r_hat": {name: value if np.isfinite(value) else None for name, value in r_hats.items()},
            "effective_sample_size": self.effective,
            "largest_error": self.error,
            "largest_difference": self.difference,
            "difference_beyond_error": self.beyond,
        }


def agreement_of(graphs: NDArray[np.uint32], heights: NDArray[np.float64], demands: Demands) -> Agreement:
    """Returns how well chains agree.

    Args:
        graphs: shape (chains, rounds, n, words): the graphs of each chain.
        heights: shape (chains, rounds): ln of their weights.
        demands: which edges are certain, and which differences errors explain.
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
    """Returns the largest difference between the means of two chains, less `bound` standard errors of it."""
    means = traces.mean(axis=1)
    errors = np.array([standard_error(trace[None]) for trace in traces])
    differences = np.abs(means[:, None] - means) - bound * np.hypot(errors[:, None], errors)
    return max(0.0, float(differences.max()))
