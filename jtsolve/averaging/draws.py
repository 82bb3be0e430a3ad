"""Exact, independent draws of graphs from the posterior.

The tables of `sums` are followed from the top, each choice in proportion to its term:

    complete(S,R): K ∋ min R with L(S,K) P(S,R∖K) / P(S,R); Q ⊆ S with F(Q,K)/s(Q) / L(S,K); connected(Q,K);
        then R∖K
    connected(Q,K): v ∈ K with weight Σ_{𝒢(Q∪v,K∖v)} w (v = min K if Q = ∅); complete(Q∪v, K∖v); repeated
    until
        K is connected and, with probability 1 / (number of v ∈ K adjacent to all of Q), accepted.

There is no burn-in and there are no weights. Time: 2^n steps to list the first choice of a graph, less for
the rest; a task makes each list once (`kernels.draws`). 1.3 to 3 attempts for a connected part have been
seen.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.averaging.weights import EXACT
from jtsolve.core.backend import Capabilities
from jtsolve.core.problem import Feature
from jtsolve.core.threads import run_tasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.averaging.sums import Sums
    from jtsolve.core.backend import Limits, Report

DRAWABLE = Capabilities(
    features=EXACT.features - {Feature.FORBIDDEN_CLIQUES},
    exact=True,
    max_variables=EXACT.max_variables,
    rules=EXACT.rules,
)
"""What draws support. At a forbidden clique they would need tables of the partitions with a full part."""

_TASK = 1000
"""Draws of a task, which share what has been listed: see `kernels.draws`."""


def draw_graphs(sums: Sums, count: int, limits: Limits, report: Report) -> NDArray[np.int64]:
    """Draws graphs from tables whose total is not 0; the same seed draws the same graphs.

    Args:
        sums: of a problem that `DRAWABLE` allows.
        count: how many, at least 1.
        limits: of which the threads and the seed are used.
        report: is asked whether to go on.

    Returns:
        Shape (count, n): the neighbours of each vertex as bit masks.

    Raises:
        StoppedError: the report asked to end.
    """
    from jtsolve.averaging.kernels.draws import draw_graphs as draw

    graphs = np.zeros((count, sums.weights.n), np.int64)
    starts = range(0, count, _TASK)
    states = np.random.SeedSequence(limits.seed).generate_state(len(starts), np.uint64) | np.uint64(1)
    tasks = [
        partial(draw, states[i : i + 1], sums.layout, sums.local, sums.tables, graphs[start : start + _TASK])
        for i, start in enumerate(starts)
    ]
    pool = ThreadPoolExecutor(limits.workers)
    try:
        run_tasks(pool, tasks, lambda _i: report(note=f"{count} draws"))
    finally:
        pool.shutdown(cancel_futures=True)
    return graphs
