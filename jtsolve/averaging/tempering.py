"""The temperatures of chains, and the pairs of variables that they propose more often than others.

An edge worth g nats appears and disappears freely at an exponent of some 1/g: at the hottest exponent, the
best edges of the variables are worth ten nats, in the mean. From 1 to there, the rejection rates of exchanges
sum up to a number that grows about as √n ln(1 / hottest), and hardly depends on how many temperatures there
are; twice as many, with rates of 1/2, let graphs go up and down the fastest.

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
"""Nats of an edge of mean worth at the hottest exponent, which is at most `_WARMEST`. At 10, annealed chains
of plants (69 variables, 17,412 rows) begin unordered; flare has the 0.05 that serves it."""

_RUNGS = 0.8
"""Temperatures for each √n ln(1 / hottest): the rates of plants, measured, sum up to half of it."""

_NEAREST, _UNIT = 16, 32
"""The partners of a vertex in the list; the first of them counts this often, the k-th a k-th of it."""


class ProposalMix(NamedTuple):
    """The mix of moves, and pairs of vertices that are proposed more often than others.

    Attributes:
        firsts: shape (m,): of the list, in which each pair is both ways, and as often as it counts.
        seconds: shape (m,): the other vertices.
        chances: shape (n, n): ln of the chance of a pair in this order, drawn from the list or uniformly.
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


def exponents(
    worths: NDArray[np.float64], temperatures: int | None, hottest: float | None
) -> NDArray[np.float64]:
    """Returns the exponents of the weights, 1 first, in equal ratios; None: as many or as hot as needed.

    Args:
        worths: of the pairs in nats, shape (n, n).
        temperatures: number of exponents; None for as many as needed.
        hottest: the smallest exponent; None for as small as needed.
    """
    n = len(worths)
    if hottest is None:
        hottest = min(_WARMEST, _COST / max(1.0, float(np.abs(worths).max(axis=1).mean())))
    if temperatures is None:
        temperatures = 1 + ceil(_RUNGS * sqrt(n) * log(1 / hottest))
    last = max(1, temperatures - 1)
    return np.array([float(hottest) ** (t / last) for t in range(temperatures)], np.float64)


def respaced(betas: NDArray[np.float64], rejections: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns exponents between the same ends at which all exchanges would be rejected equally often.

    Args:
        betas: the current exponents, shape (m,).
        rejections: the share of rejected exchanges of neighbours, shape (m - 1,).
    """
    barrier = np.concatenate([[0.0], np.cumsum(np.maximum(rejections, 1e-3))])
    logs: NDArray[np.float64] = np.interp(np.linspace(0, barrier[-1], len(betas)), barrier, np.log(betas))
    return np.exp(logs)


def proposals_of(worths: NDArray[np.float64], branches: float, exchanges: float) -> ProposalMix:
    """Returns the moves whose pairs are each vertex with those of the highest worths.

    Args:
        worths: of the pairs in nats, shape (n, n).
        branches: share of proposals to move a branch.
        exchanges: share of proposals to exchange edges.
    """
    n = len(worths)
    counts = np.zeros((n, n), np.int64)
    for u in range(n):
        others = [v for v in np.argsort(-worths[u], kind="stable").tolist() if v != u]
        # A pair is listed both ways, so that a move and its return are drawn equally often.
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
