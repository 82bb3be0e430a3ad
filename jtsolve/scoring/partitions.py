"""Sums over the cells of sets of a partitioned table, from counts of the partitions on their workers.

A pass processes a block of sets over all partitions. A task counts the distinct rows of its partition into
the sufficient statistics of the block (`kernels.statistics`), and a tree of tasks adds them. The sums are
computed once, from the counts of the whole table, and equal those of one machine bit for bit. The size of a
block is such that the memory of a worker fits the statistics of eight summands.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from jtsolve.cluster import lost_memory
from jtsolve.core.machine import free_memory
from jtsolve.errors import InputError
from jtsolve.tables.distinct import ONCE, distinct_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from jtsolve.cluster import Future, Workers
    from jtsolve.tables.partitions import PartitionedTable
    from jtsolve.tables.table import DataTable

    Statistics: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
    """See `kernels.statistics.count_occupied`."""

_GROUPS = 32
"""Groups of partitions in a pass, for reports of progress."""
_BYTES_PER_CELL = 16
"""Bytes of a key and a count."""
_COPIES = 24
"""Maximum number of statistics in a worker: eight summands, their sum, as many in transit, and slack."""


class LackOfMemoryError(Exception):
    """A block of sets is too large for a worker."""


def proceed_always(_done: float) -> None:
    """Never stops."""


def require_keys(arities: NDArray[np.int64], max_size: int) -> None:
    """Checks that the cells of every set of at most `max_size` columns can be numbered in 63 bits.

    `arities` has shape (n,).

    Raises:
        InputError: they cannot.
    """
    if np.sort(np.log2(arities.astype(float)))[-max_size:].sum() >= 63:  # noqa: PLR2004
        raise InputError(
            "table",
            "numbers of states",
            f"the product of the largest {max_size} exceeds 2^63 cells, too many to count by partitions",
            "score smaller sets, or discretise or leave out columns with many states",
        )


def occupied_at_most(sets: NDArray[np.int64], table: PartitionedTable) -> NDArray[np.float64]:
    """Returns an upper bound of the occupied cells of each set, shape (count,)."""
    return np.minimum(_possible(sets, table.arities), float(table.total))


def _possible(sets: NDArray[np.int64], arities: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns the product of the arities of each set."""
    padded = np.append(arities, 1).astype(float)
    possible: NDArray[np.float64] = padded[sets].prod(axis=1)
    return possible


def room_for_statistics(workers: Workers) -> float:
    """Returns the maximum number of cells in the statistics of a block."""
    return workers.memory(free_memory()) / (_COPIES * _BYTES_PER_CELL)


def sets_that_fit(sets: NDArray[np.int64], table: PartitionedTable, room: float) -> int:
    """Returns the number of first sets whose cells fit, at least 1.

    Args:
        sets: shape (count, width), padded with -1.
        table: the partitions.
        room: maximum number of cells.
    """
    return max(1, int(np.searchsorted(np.cumsum(occupied_at_most(sets, table)), room, side="right")))


def sums_over_partitions(
    table: PartitionedTable,
    sets: NDArray[np.int64],
    shared: float,
    each: float,
    proceed: Callable[[float], object] = proceed_always,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns `kernels.counting.sums_over_cells` for the rows of all partitions, in one pass.

    Both results have shape (count,).

    Args:
        table: the partitions.
        sets: shape (count, width); see `sums_over_cells`.
        shared: see `sums_over_cells`.
        each: see `sums_over_cells`.
        proceed: called with the fraction of the pass that is done; raises an error to stop.

    Raises:
        InputError: a partition cannot be coded.
        LackOfMemoryError: the block is too large for a worker.
        LimitError: the cluster is lost.
    """
    possible = _possible(sets, table.arities)
    groups = [
        group.tolist()
        for group in np.array_split(np.arange(len(table.parts)), min(_GROUPS, len(table.parts)))
    ]
    with table.cluster.connected() as workers:
        block = workers.share(sets)
        # Without references to the leaves, Dask frees them as soon as they are added.
        totals = [
            workers.total(table.map_parts(workers, _counted, block, only=group), _added) for group in groups
        ]
        try:
            with closing(workers.as_completed(totals)) as finished:
                for done, future in enumerate(finished, start=1):
                    _require(future)
                    proceed(done / len(groups))
            return workers.result(workers.submit(_summed, totals, possible, shared, each)), possible
        except Exception as error:
            if lost_memory(error):
                raise LackOfMemoryError(str(error) or type(error).__name__) from None
            raise


def _require(future: Future) -> None:
    """Raises the error of a task, if it has one."""
    error = future.exception()
    if error is not None:
        raise error


# On the workers


def _counted(table: DataTable, sets: NDArray[np.int64]) -> Statistics:
    """Returns the statistics of a partition, from its distinct rows."""
    from jtsolve.scoring.kernels.statistics import count_occupied

    rows = distinct_rows(table)
    weights = ONCE if rows.weights is None else rows.weights
    largest = float(np.sort(table.arities)[-sets.shape[1] :][1:].astype(float).prod())
    kind = np.int32 if largest < 1 << 31 else np.int64
    prefixes = np.zeros((max(1, sets.shape[1]), rows.rows), kind)
    found: Statistics = count_occupied(sets, rows.codes, table.arities, weights, prefixes)
    return found


def _added(several: Sequence[Statistics | None]) -> Statistics | None:
    """Returns the sum of statistics; None stands for no rows."""
    from jtsolve.scoring.kernels.statistics import added_cells

    summands = [one for one in several if one is not None]
    while len(summands) > 1:  # in pairs, lest the cells of a long sum be merged for each summand
        pairs = [summands[at : at + 2] for at in range(0, len(summands), 2)]
        summands = [added_cells(*pair[0], *pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]  # noqa: PLR2004
    return summands[0] if summands else None


def _summed(
    several: Sequence[Statistics | None], possible: NDArray[np.float64], shared: float, each: float
) -> NDArray[np.float64]:
    """Returns the sums over the cells of the sum of statistics."""
    from jtsolve.scoring.kernels.statistics import sums_over_statistics

    total = _added(several)
    if total is None:
        return np.zeros(possible.size)
    starts, _, counts = total
    sums: NDArray[np.float64] = sums_over_statistics(starts, counts, possible, shared, each)
    return sums
