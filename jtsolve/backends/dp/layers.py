"""The table g in the memory of the process: filled in numpy, or in layers on threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from operator import setitem
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.backends.dp import plain
from jtsolve.backends.dp.plan import COSTS, LANES, TableClass, TablePlan
from jtsolve.backends.dp.ranks import table_offsets
from jtsolve.core.lazy_kernels import LazyKernels
from jtsolve.core.scores import StoppedError
from jtsolve.core.threads import run_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.backends.dp.plan import Precision
    from jtsolve.backends.dp.ranks import RankTables
    from jtsolve.backends.dp.scores import LocalTables
    from jtsolve.core.backend import Report

_KERNELS = LazyKernels("jtsolve.backends.dp.kernels.recurrence")


class _Chunk(NamedTuple):
    """A call for a thread, and its predicted duration."""

    seconds: float
    call: Callable[[], object]


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
        self.offset = table_offsets(ranks, self._classes())
        self.step = np.broadcast_to(LANES, ranks.masks.size)
        self.g = np.empty(plan.cells, local.clique.dtype)

    def fill(self, report: Report) -> None:
        """See `trace.Tables`."""
        self.report = report
        if _KERNELS.prefer_numpy(plain.seconds(self.plan)):
            for size in plain.layers(self.ranks, self.local, self.offset, self.g):
                if not report(done=size / self.plan.m, note=f"layer {size} of {self.plan.m}"):
                    raise StoppedError
            return
        pool = ThreadPoolExecutor(self.workers)
        try:
            self._layers(pool)
        finally:
            pool.shutdown(cancel_futures=True)

    def gather(self, cells: NDArray[np.int64]) -> NDArray[Any]:
        """See `trace.Tables`."""
        return self.g[cells]

    def _classes(self, high: int | None = None) -> NDArray[np.int64]:
        """Returns the classes of g, or of a layer of F, for `table_offsets`."""
        found = []
        base = 0
        for entry in self.plan.classes:
            rows = 1 << entry.elements if high is None else entry.rows(high)
            found.append((entry.inner, entry.outer, entry.roots, rows, base))
            base += (entry.cells >> entry.elements) * rows
        return np.array(found)

    def _layers(self, pool: ThreadPoolExecutor) -> None:
        """Runs the layers by |U ∖ block|: for each, the splits of all C, then all U.

        The cells of one layer and one 2·|U ∩ block| + |C| do not depend on one another.
        """
        from jtsolve.backends.dp.kernels.partition import best_splits
        from jtsolve.backends.dp.kernels.recurrence import finish_g

        plan, local = self.plan, self.local
        empty = np.array_split(self.offset[self.offset >= 0], 8 * self.workers)
        self._run(pool, [_Chunk(0.0, partial(setitem, self.g, cells, 0)) for cells in empty], "clearing")
        high_masks = np.arange(1 << (plan.m - plan.block), dtype=np.int64)
        high_sizes = np.bitwise_count(high_masks)
        current, at = self.g, self.offset  # F and its offsets; g where F has no table
        for high in plan.layers:
            note = f"layer {high} of {plan.layers[-1]}"
            sets = high_masks[high_sizes == high]
            before, at_before = current, at
            if plan.layered:
                current = np.empty(plan.layer_cells(high), self.g.dtype)
                at = table_offsets(self.ranks, self._classes(high))
                if high == 0:
                    known = at >= 0
                    current[at[known]] = local.clique[known]  # F(S,∅) = s(S)
            # With one member outside the block, no split has two parts that reach outside it.
            if high > 1:
                tasks = [
                    _Chunk(seconds, partial(best_splits, self.g, *arguments, local.lowest))
                    for entry in plan.classes
                    for seconds, arguments in self._split_tasks(entry, high, sets)
                ]
                self._run(pool, tasks, note)
            tables = (self.ranks, local, self.offset, self.g, plan.layered)
            layers = (before, current, np.stack([at_before, at]))
            levels: dict[int, list[_Chunk]] = {}
            for entry in plan.classes:
                for low in range(entry.bits + 1):
                    level = levels.setdefault(2 * low + entry.inner + entry.outer, [])
                    for seconds, arguments in self._cell_tasks(entry, high, low, sets):
                        level.append(_Chunk(seconds, partial(finish_g, *arguments, *tables, *layers)))
            for _, tasks in sorted(levels.items()):
                self._run(pool, tasks, note)

    def _split_tasks(
        self, entry: TableClass, high: int, sets: NDArray[np.int64]
    ) -> Iterator[tuple[float, tuple[Any, ...]]]:
        """Yields the work of a class in a layer as chunks: predicted seconds, arguments of `best_splits`."""
        own = sets[: np.searchsorted(sets, 1 << (entry.elements - entry.bits))]
        additions = self.plan.split_additions(entry, high)
        seconds = COSTS.addition(self.precision) * additions
        for share, groups, part in _pieces(entry.split_groups, own, additions / COSTS.chunk_additions):
            yield seconds * share, (entry.base, entry.elements, entry.bits, *groups, part)

    def _cell_tasks(
        self, entry: TableClass, high: int, low: int, sets: NDArray[np.int64]
    ) -> Iterator[tuple[float, tuple[Any, ...]]]:
        """Yields the cells of a class with `low` members of U in the block, as arguments of `finish_g`."""
        own = sets[: np.searchsorted(sets, 1 << (entry.elements - entry.bits))]
        lows = np.array([mask for mask in range(1 << entry.bits) if mask.bit_count() == low])
        if high == low == 0:
            return
        neighbours = (
            (entry.cells >> entry.elements) * own.size * lows.size * (high + low + entry.inner + entry.outer)
        )
        masks = self.ranks.masks
        inner = np.bitwise_count(masks & ((1 << self.ranks.block) - 1))
        outer = np.bitwise_count(masks >> self.ranks.block)
        members = masks[(inner == entry.inner) & (outer == entry.outer)]
        for share, groups, part in _pieces(range(entry.groups), own, neighbours / COSTS.chunk_neighbours):
            yield COSTS.neighbour * neighbours * share, (members, *groups, entry.bits, part, lows)

    def _run(self, pool: ThreadPoolExecutor, tasks: Sequence[_Chunk], note: str) -> None:
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
