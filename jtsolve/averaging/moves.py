"""Rounds of a chain by `kernels.edge_chain`: temperatures and proposals, and the scores that it requests.

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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.scores import StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.averaging.score_table import ScoresOnDemand
    from jtsolve.core.problem import Problem

_COST, _WARMEST = 10.0, 0.3
"""Mean gain of the best edges at the smallest exponent, in nats; the exponent is at most `_WARMEST`. At 10,
the hottest chains of plants (69 variables, 17,412 rows) are unordered, and flare has an exponent of 0.05."""

_RUNGS = 0.8
"""Temperatures per √n ln(1 / hottest): the measured rates of plants sum to half of it."""

_NEAREST, _UNIT = 16, 32
"""Number of listed partners of a vertex; the multiplicity of the first, of which the k-th has a k-th."""

_MOST_ROUNDS, _PROPOSALS = 100, 250_000
"""Limits of a piece, the rounds of a call: a tenth of a second, the delay of Ctrl-C."""


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


class ChainScores(NamedTuple):
    """The weights of graphs: scores, prior odds, forbidden edges and marks.

    Attributes:
        values: see `score_table.ScoreTable`; so are the next two.
        ranks: ranks of the sets with a score.
        wanted: ranks of requested sets.
        before: see `scoring.colex.ColexOrder`.
        largest: the size of the largest clique.
        log_odds: ln of the prior odds of an edge.
        forbidden: shape (n, words): the vertices whose adjacency to a vertex must not change.
        star: the star of marks (`core.marks`), the last vertex, which is in no score; -1 for none.
    """

    values: NDArray[np.float64]
    ranks: NDArray[np.int64]
    wanted: NDArray[np.int64]
    before: NDArray[np.int64]
    largest: int
    log_odds: float
    forbidden: NDArray[np.uint32]
    star: int = -1


class ChainSetup(NamedTuple):
    """Read-only state of all chains; `on_demand` makes the scores of each where there is no table."""

    betas: NDArray[np.float64]
    steps: int
    scores: ChainScores
    on_demand: Callable[[], ScoresOnDemand] | None
    proposals: ProposalMix

    @property
    def piece(self) -> int:
        """The number of rounds of a call."""
        proposals = 2 * self.steps * len(self.betas)
        return max(1, min(_MOST_ROUNDS, _PROPOSALS // max(1, proposals)))


class ChainState(NamedTuple):
    """The state of a chain; see `kernels.edge_chain`."""

    random: NDArray[Any]
    rows: NDArray[Any]
    logs: NDArray[Any]
    order: NDArray[Any]
    clock: NDArray[Any]
    counts: NDArray[Any]


def run_rounds(
    setup: ChainSetup,
    state: ChainState,
    on_demand: ScoresOnDemand | None,
    graphs: NDArray[np.uint32],
    heights: NDArray[np.float64],
    *,
    stop: Callable[[], bool],
) -> None:
    """Runs a chain for the rounds of its trace; writes state and trace.

    Args:
        setup: read-only state of all chains.
        state: state of the chain; changed.
        on_demand: computes scores; None for a table.
        graphs: the trace, shape (rounds, n, words); written.
        heights: ln of the weights, shape (rounds,); written.
        stop: polled before scores are computed.

    Raises:
        StoppedError: `stop` returned True before scores were computed.
    """
    from jtsolve.averaging.kernels.edge_chain import run_chain

    left = np.full(len(state.rows), -1)
    done, scores = 0, setup.scores
    while done < len(heights):
        if on_demand is not None:
            # The kernel returns early where scores are missing, and resumes with the same random numbers.
            if stop():
                raise StoppedError
            on_demand.answer()
            scores = scores._replace(**on_demand.table._asdict())
        part = slice(done, done + setup.piece)
        trace = graphs[part], heights[part]
        done += run_chain(*state, left, setup.betas, setup.steps, scores, setup.proposals, *trace)


def advanced(
    setup: ChainSetup, rounds: int, state: ChainState
) -> tuple[ChainState, NDArray[np.uint32], NDArray[np.float64]]:
    """Returns the state of a chain after some rounds, its graphs and their ln weights; called on a worker.

    Args:
        setup: the state shared by all chains.
        rounds: their number; the traces have shape (rounds, n, words) and (rounds,).
        state: of the chain; unchanged.
    """
    state = ChainState(*(array.copy() for array in state))
    graphs, heights = np.zeros((rounds, *state.rows.shape[1:]), np.uint32), np.zeros(rounds)
    on_demand = None if setup.on_demand is None else setup.on_demand()
    run_rounds(setup, state, on_demand, graphs, heights, stop=lambda: False)
    return state, graphs, heights
