"""Exact, independent draws of graphs from the posterior.

The recursion of `sums` is followed from the top; each choice is drawn in proportion to its term. V is
partitioned with L(∅,K) P(∅,R∖K) for the K ∋ min R, and each part K is connected(∅,K):

    connected(Q,K): a graph on Q ∪ K with Q complete, K connected and N(K) = Q:
        a clique C, Q ⊊ C ⊆ Q ∪ K (C ∋ min K if Q = ∅), with c(C) P°(C,K∖C);
        below it, of R = K ∖ C, a part K' ∋ min R with L°(C,K') P°(C,R∖K') / P°(C,R), its neighbourhood Q' ⊊ C
        with F(Q',K')/s(Q') / L°(C,K'), and connected(Q',K'); then R ∖ K'
    until
        K is connected, and accepted with probability 1 / (number of cliques that contain Q, or min K), since
        each of them may propose it.

L° = L − F/s, and P° sums the partitions without a full part: then C is a maximal clique. Draws need no
burn-in and no weights. Time: at most 4^n / 2 products for P°; 2^n steps to list the first cliques, fewer for
the others; a task makes each list once (`kernels.draws`).
"""

from __future__ import annotations

from functools import partial
from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.averaging.plan import LANES, TableSizes
from jtsolve.averaging.sums import pieces_of
from jtsolve.core.threads import Pool, run_tasks
from jtsolve.core.tree import JunctionTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from jtsolve.averaging.sums import Sums
    from jtsolve.core.run import Run
    from jtsolve.core.varset import VarSet

_TASKS, _LONGEST = 8, 4000
"""Tasks, each with its own lists (`kernels.draws`); maximum draws of a task: the delay of Ctrl-C."""


class Arranged(NamedTuple):
    """The tables, rearranged for draws.

    Attributes:
        layout: the layout of the sums.
        terms: `kernels.draws.Terms`.
        connected: whether all graphs are connected.
    """

    layout: Any
    terms: Any
    connected: bool


def arrange_tables(sums: Sums, run: Run) -> Arranged:
    """Rearranges the tables of a total above 0 in place: `sums` must not be used afterwards.

    Raises:
        StoppedError: the run stops.
    """
    from jtsolve.averaging.kernels.draws import Terms, arrange_cliques, arrange_joints, arrange_parts

    layout, local, tables = sums.layout, sums.local, sums.tables
    n, plan = sums.weights.n, TableSizes(sums.weights.n, sums.weights.width)
    sizes = np.bitwise_count(np.arange(1 << n)).astype(np.int64)
    small, bounded = (
        np.where(sizes <= most, np.cumsum(sizes <= most) - 1, -1) for most in (plan.width - 1, plan.width)
    )
    joint_offset, clique_offset = (
        np.cumsum(rows) - rows for rows in (layout.first[n - sizes, -2], layout.first[sizes, -1])
    )
    lane = layout.offset % LANES
    part_offset = np.where(sizes <= plan.width, layout.offset - lane + (lane << (n - sizes)), -1)
    cliques = np.zeros(layout.first[sizes, -1].sum(), np.uint64)
    terms = Terms(
        tables.links,
        tables.parts,
        part_offset,
        tables.f,
        joint_offset,
        small.astype(np.int32),
        cliques,
        clique_offset,
        bounded.astype(np.int32),
    )

    def do_all(tasks: list[Callable[[], object]]) -> None:
        _on_all_threads(tasks, run, "preparing the draws")

    do_all(
        [
            partial(arrange_parts, size, first, last, sums.total, layout, local, tables, terms)
            for size in range(plan.width + 1)
            for first, last in pieces_of(plan.groups(size), 0.5 * LANES * 3.0 ** (n - size))
        ]
    )
    do_all(
        [
            partial(arrange_joints, first, last, layout, local, tables, cliques, joint_offset, terms.small)
            for first, last in pieces_of(1 << n, 20.0 * 1.5**n)
        ]
    )
    # F/s, in the memory of the cliques, replaces F, which is no longer needed.
    joints = int(layout.first[n - sizes, -2].sum())
    tables.f[:joints] = cliques[:joints]
    cliques[:] = 0
    do_all(
        [
            partial(arrange_cliques, size, first, last, layout, local, terms)
            for size in range(1, plan.width + 1)
            for first, last in pieces_of(comb(n, size), 20.0 * 2.0 ** (n - size))
        ]
    )
    return Arranged(layout, terms, local.inverse[0] == 0)


def draw_graphs(arranged: Arranged, count: int, run: Run) -> NDArray[np.int64]:
    """Draws graphs; the same seed draws the same graphs.

    Args:
        arranged: the tables.
        count: number of graphs, at least 1.
        run: threads, seed and progress.

    Returns:
        Shape (count, n): the neighbours of each vertex as bit masks.

    Raises:
        StoppedError: the run stops.
    """
    from jtsolve.averaging.kernels.draws import draw_graphs as draw

    graphs = np.zeros((count, int(arranged.layout.n)), np.int64)
    each = min(_LONGEST, -(-count // _TASKS))
    starts = range(0, count, each)
    states = np.random.SeedSequence(run.seed).generate_state(len(starts), np.uint64) | np.uint64(1)
    drawing = [
        partial(
            draw,
            states[i : i + 1],
            arranged.connected,
            arranged.layout,
            arranged.terms,
            graphs[start : start + each],
        )
        for i, start in enumerate(starts)
    ]
    _on_all_threads(drawing, run, f"{count} draws")
    return graphs


def _on_all_threads(tasks: Sequence[Callable[[], object]], run: Run, note: str) -> None:
    """Runs tasks on all threads."""
    with Pool(run.threads) as pool:
        run_tasks(pool, tasks, lambda _i: run.progress(note=note))


def trees_of(graphs: Iterable[tuple[VarSet, ...]]) -> list[JunctionTree]:
    """Returns the canonical junction trees of graphs, given by neighbours; equal graphs share a tree."""
    found: dict[tuple[VarSet, ...], JunctionTree] = {}
    trees = []
    for graph in graphs:
        if graph not in found:
            found[graph] = JunctionTree.from_neighbours(graph)
        trees.append(found[graph])
    return trees
