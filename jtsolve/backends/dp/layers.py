"""The table g in the memory of the process: filled in numpy, or in layers on threads."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.backends.dp import plain
from jtsolve.backends.dp.plan import ADDITION, LANES, NEIGHBOUR
from jtsolve.backends.dp.ranks import positions_of, table_offsets
from jtsolve.core.scores import StoppedError
from jtsolve.core.threads import Pool, run_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.backends.dp.plan import Precision, TableClass, TablePlan
    from jtsolve.backends.dp.ranks import RankTables
    from jtsolve.backends.dp.scores import LocalTables
    from jtsolve.core.backend import Report

_ADDITIONS, _NEIGHBOURS = 1e8, 4e6
"""The work of one call of a thread: a few hundredths of a second, so that Ctrl-C and limits act at once."""


class _Chunk(NamedTuple):
    """A call for a thread, and its predicted duration."""

    seconds: float
    call: Callable[[], object]


class _Cells(NamedTuple):
    """The cells of a class whose U have equally many members in the block.

    Attributes:
        entry: the class.
        members: its C, without the root.
        low: |U ∩ block|.
        lows: those parts of U.
    """

    entry: TableClass
    members: NDArray[np.int64]
    low: int
    lows: NDArray[np.int64]


class LayeredTables:
    """See `trace.Tables`.

    Args:
        plan: its sizes.
        ranks: of the sets C.
        local: the local scores.
        workers: threads.
    """

    def __init__(self, plan: TablePlan, ranks: RankTables, local: LocalTables, workers: int) -> None:
        self.plan, self.ranks, self.local, self.workers = plan, ranks, local, workers
        self.precision: Precision = local.clique.dtype.name  # type: ignore[assignment]
        self.work = 0.0  # finished, in predicted seconds of one core
        self.total_work = plan.core_seconds(self.precision) or 1.0  # n = 1: nothing to do
        self.offset = table_offsets(plan, ranks)
        self.step = np.broadcast_to(LANES, ranks.masks.size)
        self.g = np.empty(plan.cells, local.clique.dtype)

    def fill(self, report: Report) -> None:
        """See `trace.Tables`."""
        self.report = report
        if plain.KERNELS.prefer_numpy(plain.seconds(self.plan)):
            for size in plain.layers(self.ranks, self.local, self.offset, self.g):
                if not report(done=size / self.plan.m, note=f"layer {size} of {self.plan.m}"):
                    raise StoppedError
            return
        pool = Pool(self.workers)
        try:
            self._layers(pool)
        finally:
            pool.shutdown(cancel_futures=True)

    def gather(self, cells: NDArray[np.int64]) -> NDArray[Any]:
        """See `trace.Tables`."""
        return self.g[cells]

    def _layers(self, pool: Pool) -> None:
        """Runs the layers by |U ∖ block|: for each, the splits of all C, then all U.

        The cells of one layer and one 2·|U ∩ block| + |C| do not depend on one another.
        """
        plan, local, g = self.plan, self.local, self.g
        known = self.offset >= 0
        empty = self.offset[known]  # the cells of U = ∅
        g[empty] = 0
        F = g
        if plan.two_tables:
            F = np.empty_like(g)
            F[empty] = local.clique[known]  # F(S,∅) = s(S)
        tables = (self.ranks, local, self.offset, g, F, plan.two_tables)
        levels: dict[int, list[_Cells]] = {}
        for entry in plan.classes:
            members = self.ranks.masks[positions_of(entry, plan, self.ranks)]
            lows = np.arange(1 << entry.bits)
            for low in range(entry.bits + 1):
                cells = _Cells(entry, members, low, lows[np.bitwise_count(lows) == low])
                levels.setdefault(2 * low + entry.inner + entry.outer, []).append(cells)
        high_masks = np.arange(1 << (plan.m - plan.block))
        high_sizes = np.bitwise_count(high_masks)
        for high in plan.layers:
            note = f"layer {high} of {plan.layers[-1]}"
            sets = high_masks[high_sizes == high]
            # With one member outside the block, no split has two parts that reach outside it.
            if high > 1:
                self._run(pool, list(self._split_tasks(high, sets)), note)
            for _, level in sorted(levels.items()):
                tasks = [task for cells in level for task in self._cell_tasks(cells, high, sets, tables)]
                self._run(pool, tasks, note)

    def _split_tasks(self, high: int, sets: NDArray[np.int64]) -> Iterator[_Chunk]:
        """Yields the splits of a layer."""
        from jtsolve.backends.dp.kernels.partition import best_splits

        for entry in self.plan.classes:
            additions = self.plan.split_additions(entry, high)
            seconds = ADDITION[self.precision] * additions
            own = sets[: np.searchsorted(sets, 1 << (entry.elements - entry.bits))]
            for share, groups, part in _pieces(entry.split_groups, own, additions / _ADDITIONS):
                arguments = (entry.base, entry.elements, entry.bits, *groups, part, self.local.lowest)
                yield _Chunk(seconds * share, partial(best_splits, self.g, *arguments))

    def _cell_tasks(
        self, cells: _Cells, high: int, sets: NDArray[np.int64], tables: tuple[Any, ...]
    ) -> Iterator[_Chunk]:
        """Yields the rest of the work on some cells of a layer; `tables` as in `finish_g`."""
        from jtsolve.backends.dp.kernels.recurrence import finish_g

        entry, members, low, lows = cells
        if high == low == 0:
            return
        own = sets[: np.searchsorted(sets, 1 << (entry.elements - entry.bits))]
        each = high + low + entry.inner + entry.outer
        neighbours = (entry.cells >> entry.elements) * own.size * lows.size * each
        seconds = NEIGHBOUR * neighbours
        for share, groups, part in _pieces(range(entry.groups), own, neighbours / _NEIGHBOURS):
            call = partial(finish_g, members, *groups, entry.bits, part, lows, *tables)
            yield _Chunk(seconds * share, call)

    def _run(self, pool: Pool, tasks: Sequence[_Chunk], note: str) -> None:
        """Runs tasks on all threads; polls the report after each."""
        if self.workers == 1:  # no pool: other backends solve thousands of small problems here
            for task in tasks:
                task.call()
                if not self._done(task, note):
                    raise StoppedError
        else:
            run_tasks(pool, [task.call for task in tasks], lambda i: self._done(tasks[i], note))

    def _done(self, task: _Chunk, note: str) -> bool:
        """Counts a finished task; returns whether to continue."""
        self.work += task.seconds
        return self.report(done=min(1.0, self.work / self.total_work), note=note)


def _pieces(
    groups: range, sets: NDArray[np.int64], pieces: float
) -> Iterator[tuple[float, tuple[int, int], NDArray[np.int64]]]:
    """Cuts groups × sets into about as many pieces: yields the share of each, its groups and its sets."""
    if not groups or not sets.size:
        return
    by_group = min(max(1, round(pieces)), len(groups))
    by_set = min(max(1, round(pieces / by_group)), sets.size)
    bounds = np.linspace(groups.start, groups.stop, by_group + 1).astype(int).tolist()
    for first, last in pairwise(bounds):
        for part in np.array_split(sets, by_set):
            yield (last - first) / len(groups) * part.size / sets.size, (first, last), part
