"""A chain moved on for some rounds: `kernels.edge_chain`, the scores that it wants, and blocks between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.averaging.traces import neighbours_of, words_of
from jtsolve.core.scores import StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.averaging.blocks import Blocks
    from jtsolve.averaging.known import OnDemand
    from jtsolve.averaging.tempering import Partners

_BLOCK = 100
"""Rounds between two draws of a block."""
_PIECES = (100, 50, 20, 10, 5, 2, 1)
_PROPOSALS = 250_000
"""Rounds of a thread at a time: the most with no more proposals than this. They divide those between two
blocks."""


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
        several: the share of the others in which X and Y may have several members.
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
    several: float


class Shared(NamedTuple):
    """What all chains read; `on_demand` makes the scores of each, where there is no table.

    Weights of graphs are multiples of `unit`, see `known.Rounded`.
    """

    betas: NDArray[np.float64]
    steps: int
    scores: Scores
    on_demand: Callable[[], OnDemand] | None
    partners: Partners
    blocks: Blocks | None
    unit: float

    @property
    def piece(self) -> int:
        """The rounds of a thread at a time."""
        proposals = 2 * self.steps * len(self.betas)
        return next((p for p in _PIECES if p * proposals <= _PROPOSALS), 1)


class ChainState(NamedTuple):
    """Where a chain is; see `kernels.edge_chain` for all but the last: blocks tried, and blocks drawn."""

    random: NDArray[Any]
    rows: NDArray[Any]
    logs: NDArray[Any]
    order: NDArray[Any]
    clock: NDArray[Any]
    counts: NDArray[Any]
    drawn: NDArray[Any]


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

    random, rows, logs, order, clock, counts, drawn = state
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
        if shared.blocks is not None and clock[0] % _BLOCK == 0:
            cold, drawn[0] = order[0], drawn[0] + 1
            generator = np.random.default_rng(int(random[1]))
            if found := shared.blocks.redraw(neighbours_of(rows[cold][None])[0], generator):
                rows[cold], drawn[1] = words_of(found[0]), drawn[1] + 1
                logs[cold] += round(found[1] / shared.unit) * shared.unit


def advanced(
    shared: Shared, rounds: int, state: ChainState
) -> tuple[ChainState, NDArray[np.uint32], NDArray[np.float64]]:
    """Returns the state of a chain after some rounds, and its trace; called on a worker."""
    state = ChainState(*(array.copy() for array in state))
    graphs, heights = np.zeros((rounds, *state.rows.shape[1:]), np.uint32), np.zeros(rounds)
    on_demand = None if shared.on_demand is None else shared.on_demand()
    advance(shared, state, on_demand, graphs, heights, stop=lambda: False)
    return state, graphs, heights
