"""Exact, independent draws of graphs from the posterior.

The tables of `sums` are followed from the top, each choice in proportion to its term. V is partitioned with
L(∅,K) P(∅,R∖K) for the K ∋ min R, and each part K is connected(∅,K):

    connected(Q,K): a graph on Q ∪ K with Q complete, K connected and N(K) = Q:
        a clique C, Q ⊊ C ⊆ Q ∪ K (C ∋ min K if Q = ∅), with c(C) P°(C,K∖C);
        below it, of R = K ∖ C, a part K' ∋ min R with L°(C,K') P°(C,R∖K') / P°(C,R), its neighbourhood Q' ⊊ C
        with F(Q',K')/s(Q') / L°(C,K'), and connected(Q',K'); then R ∖ K'
    until
        K is connected, and accepted with probability 1 / (number of cliques that hold Q, or min K), since it
        may be proposed from each of them.

L° = L − F/s, and P° sums the partitions without a full part: then C is a maximal clique. There is no burn-in
and there are no weights. Time: at most 4^n / 2 products for P°; 2^n steps to list the first cliques, less for
the rest; a task makes each list once (`kernels.draws`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.averaging.plan import LANES, Plan
from jtsolve.averaging.sums import pieces_of
from jtsolve.core.threads import run_tasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.averaging.sums import Sums
    from jtsolve.core.backend import Limits, Report

_TASKS, _LONGEST = 8, 4000
"""Tasks, whose draws share what has been listed (`kernels.draws`); the draws of one at most: Ctrl-C waits."""


def draw_graphs(sums: Sums, count: int, limits: Limits, report: Report) -> NDArray[np.int64]:
    """Draws graphs from tables whose total is not 0; the same seed draws the same graphs.

    Args:
        sums: the tables.
        count: how many, at least 1.
        limits: of which the threads and the seed are used.
        report: is asked whether to go on.

    Returns:
        Shape (count, n): the neighbours of each vertex as bit masks.

    Raises:
        StoppedError: the report asked to end.
    """
    from jtsolve.averaging.kernels.draws import Alone, prepare
    from jtsolve.averaging.kernels.draws import draw_graphs as draw

    n, plan = sums.weights.n, Plan(sums.weights.n, sums.weights.width)
    sizes = sums.layout.first[np.bitwise_count(np.arange(1 << n)), -1]
    none = Alone(np.zeros(sizes.sum(), np.uint64), np.cumsum(sizes) - sizes)
    tables = (sums.layout, sums.local, sums.tables, none)
    preparing = [
        partial(prepare, size, first, last, sums.total, *tables)
        for size in range(1, plan.width + 1)
        for first, last in pieces_of(plan.groups(size), 0.5 * LANES * 3.0 ** (n - size))
    ]
    graphs = np.zeros((count, n), np.int64)
    each = min(_LONGEST, -(-count // _TASKS))
    starts = range(0, count, each)
    states = np.random.SeedSequence(limits.seed).generate_state(len(starts), np.uint64) | np.uint64(1)
    order = _order(n)
    drawing = [
        partial(draw, states[i : i + 1], *tables, order, graphs[start : start + each])
        for i, start in enumerate(starts)
    ]
    pool = ThreadPoolExecutor(limits.workers)
    try:
        for tasks in (preparing, drawing):
            run_tasks(pool, tasks, lambda _i: report(note=f"{count} draws"))
    finally:
        pool.shutdown(cancel_futures=True)
    return graphs


def _order(n: int) -> NDArray[np.int64]:
    """Returns the subsets of m elements at 2^m, those that are nearly ∅ or nearly everything first."""
    parts = [np.zeros(1, np.int64)]
    for m in range(n + 1):
        sizes = np.bitwise_count(np.arange(1 << m)).astype(np.int64)
        parts.append(np.argsort(np.minimum(sizes, m - sizes), kind="stable"))
    return np.concatenate(parts)
