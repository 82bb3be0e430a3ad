"""Rounds of a chain by `kernels.edge_chain`, and the scores that the kernel requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.scores import StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.averaging.score_table import ScoresOnDemand
    from jtsolve.averaging.tempering import ProposalMix

_MOST_ROUNDS, _PROPOSALS = 100, 250_000
"""Limits of a piece, the rounds of a call: a tenth of a second, the delay of Ctrl-C."""


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

    random, rows, logs, order, clock, counts = state
    left = np.full(len(rows), -1)
    for start in range(0, len(heights), setup.piece):
        done, end = start, min(start + setup.piece, len(heights))
        while done < end:
            scores = setup.scores
            if on_demand is not None:
                # The kernel returns early where scores are missing, and resumes with the same random numbers.
                if stop():
                    raise StoppedError
                on_demand.answer()
                scores = scores._replace(**on_demand.table._asdict())
            done += run_chain(
                random,
                rows,
                logs,
                order,
                clock,
                left,
                setup.betas,
                end - done,
                setup.steps,
                scores,
                setup.proposals,
                graphs[done:end],
                heights[done:end],
                counts,
            )


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
