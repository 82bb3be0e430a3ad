"""A chain moved on for some rounds: `kernels.edge_chain`, and the scores that it wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.scores import StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.averaging.known import OnDemand
    from jtsolve.averaging.tempering import Partners

_MOST_ROUNDS, _PROPOSALS = 100, 250_000
"""Of a piece, the rounds of a thread at a time: a tenth of a second, after which Ctrl-C and limits act."""


class Scores(NamedTuple):
    """What weighs a graph, and how it is moved.

    Attributes:
        values: see `known.Known`; so are the next two.
        ranks: of the sets that are known.
        wanted: of those that are not.
        before: see `known.sets_before`.
        largest: the size of the largest clique.
        log_odds: ln of the prior odds of an edge.
        forbidden: shape (n, words): the vertices to which a vertex must not be adjacent.
        branches: the share of proposals to move a branch.
        exchanges: the share of proposals of an edge for another.
    """

    values: NDArray[np.float64]
    ranks: NDArray[np.int64]
    wanted: NDArray[np.int64]
    before: NDArray[np.int64]
    largest: int
    log_odds: float
    forbidden: NDArray[np.uint32]
    branches: float
    exchanges: float


class Shared(NamedTuple):
    """What all chains read; `on_demand` makes the scores of each, where there is no table."""

    betas: NDArray[np.float64]
    steps: int
    scores: Scores
    on_demand: Callable[[], OnDemand] | None
    partners: Partners

    @property
    def piece(self) -> int:
        """The rounds of a thread at a time."""
        proposals = 2 * self.steps * len(self.betas)
        return max(1, min(_MOST_ROUNDS, _PROPOSALS // max(1, proposals)))


class ChainState(NamedTuple):
    """Where a chain is; see `kernels.edge_chain`."""

    random: NDArray[Any]
    rows: NDArray[Any]
    logs: NDArray[Any]
    order: NDArray[Any]
    clock: NDArray[Any]
    counts: NDArray[Any]


def advance(
    shared: Shared,
    state: ChainState,
    on_demand: OnDemand | None,
    graphs: NDArray[np.uint32],
    heights: NDArray[np.float64],
    *,
    stop: Callable[[], bool],
) -> None:
    """Runs a chain for as many rounds as there are places in its trace; writes state and trace.

    Raises:
        StoppedError: `stop` answered True before scores were computed, which may take minutes in all.
    """
    from jtsolve.averaging.kernels.edge_chain import run_chain

    random, rows, logs, order, clock, counts = state
    left = np.full(len(rows), -1)
    for start in range(0, len(heights), shared.piece):
        done, end = start, min(start + shared.piece, len(heights))
        while done < end:
            scores = shared.scores
            if on_demand is not None:
                if stop():
                    raise StoppedError
                on_demand.answer()
                scores = scores._replace(**on_demand.known._asdict())
            done += run_chain(
                random,
                rows,
                logs,
                order,
                clock,
                left,
                shared.betas,
                end - done,
                shared.steps,
                scores,
                shared.partners,
                graphs[done:end],
                heights[done:end],
                counts,
            )


def advanced(
    shared: Shared, rounds: int, state: ChainState
) -> tuple[ChainState, NDArray[np.uint32], NDArray[np.float64]]:
    """Returns the state of a chain after some rounds, and its trace; called on a worker."""
    state = ChainState(*(array.copy() for array in state))
    graphs, heights = np.zeros((rounds, *state.rows.shape[1:]), np.uint32), np.zeros(rounds)
    on_demand = None if shared.on_demand is None else shared.on_demand()
    advance(shared, state, on_demand, graphs, heights, stop=lambda: False)
    return state, graphs, heights
