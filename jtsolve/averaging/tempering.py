"""The temperatures of chains, and the pairs of variables that chains propose more often than others.

An edge with a gain of g nats appears and disappears freely at an exponent of about 1/g: at the smallest
exponent, the best edges of the variables have a mean gain of ten nats. The rejection rates of exchanges sum
to a number that grows about as √n ln(1 / hottest) and hardly depends on the number of temperatures; twice as
many temperatures, with rates of 1/2, move graphs up and down fastest.

References:
    Syed, Bouchard-Côté, Deligiannidis and Doucet, Non-reversible parallel tempering: a scalable highly
    parallel MCMC scheme, J. Roy. Statist. Soc. B 84, 2022 (its algorithm 2 spaces the exponents).
"""

from __future__ import annotations

from math import ceil, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem

_COST, _WARMEST = 10.0, 0.3
"""Mean gain of the best edges at the smallest exponent, in nats; the exponent is at most `_WARMEST`. At 10,
the hottest chains of plants (69 variables, 17,412 rows) are unordered, and flare has an exponent of 0.05."""

_RUNGS = 0.8
"""Temperatures per √n ln(1 / hottest): the measured rates of plants sum to half of it."""

_NEAREST, _UNIT = 16, 32
"""Number of listed partners of a vertex; the multiplicity of the first, of which the k-th has a k-th."""


class ProposalMix(NamedTuple):
    """The mix of moves, and pairs of vertices that are proposed more often than others.

    Attributes:
        firsts: shape (m,): the first vertices of a list that has each pair in both orders, with multiplicity.
        seconds: shape (m,): the second vertices.
        chances: shape (n, n): ln of the probability to draw an ordered pair, from the list or uniformly.
        branches: the share of proposals to move a branch.
        exchanges: the share of proposals of an edge for another.
    """

    firsts: NDArray[np.int32]
    seconds: NDArray[np.int32]
    chances: NDArray[np.float64]
    branches: float
    exchanges: float


def worths_of(problem: Problem) -> NDArray[np.float64]:
    """Returns the gain of each edge alone, s(uv) − s(u) − s(v): shape (n, n), 0 for u = v."""
    n = problem.n
    worths = np.zeros((n, n))
    if problem.max_clique_size > 1:
        alone = problem.scores.batch(np.arange(n)[:, None])
        v, u = np.tril_indices(n, -1)
        worths[u, v] = worths[v, u] = problem.scores.batch(np.column_stack([u, v])) - alone[u] - alone[v]
    return worths


def exponents(worths: NDArray[np.float64], temperatures: int | None) -> NDArray[np.float64]:
    """Returns the exponents of the weights, 1 first, in equal ratios.

    Args:
        worths: gains of the pairs in nats, shape (n, n).
        temperatures: number of exponents; None for a number by the scores.
    """
    n = len(worths)
    hottest = min(_WARMEST, _COST / max(1.0, float(np.abs(worths).max(axis=1).mean())))
    if temperatures is None:
        temperatures = 1 + ceil(_RUNGS * sqrt(n) * log(1 / hottest))
    last = max(1, temperatures - 1)
    return np.array([hottest ** (t / last) for t in range(temperatures)], np.float64)


def respaced(betas: NDArray[np.float64], rejections: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns exponents with the same ends and equal predicted rejection rates.

    Args:
        betas: the current exponents, shape (m,).
        rejections: the share of rejected exchanges of neighbours, shape (m - 1,).
    """
    barrier = np.concatenate([[0.0], np.cumsum(np.maximum(rejections, 1e-3))])
    logs: NDArray[np.float64] = np.interp(np.linspace(0, barrier[-1], len(betas)), barrier, np.log(betas))
    return np.exp(logs)


def proposals_of(worths: NDArray[np.float64], branches: float, exchanges: float) -> ProposalMix:
    """Returns the mix of moves, whose listed pairs join each vertex with those of the highest gains.

    Args:
        worths: gains of the pairs in nats, shape (n, n).
        branches: share of proposals to move a branch.
        exchanges: share of proposals to exchange edges.
    """
    n = len(worths)
    counts = np.zeros((n, n), np.int64)
    for u in range(n):
        others = [v for v in np.argsort(-worths[u], kind="stable").tolist() if v != u]
        # A pair is listed in both orders, so that a move and its reverse have the same probability.
        for place, v in enumerate(others[:_NEAREST], start=1):
            counts[u, v] += _UNIT // place
            counts[v, u] += _UNIT // place
    firsts, seconds = np.nonzero(counts)
    often = counts[firsts, seconds]
    chances = 0.5 * counts / max(1, counts.sum()) + 0.5 / max(1, n * (n - 1))
    return ProposalMix(
        np.repeat(firsts, often).astype(np.int32),
        np.repeat(seconds, often).astype(np.int32),
        np.log(chances),
        branches,
        exchanges,
    )
