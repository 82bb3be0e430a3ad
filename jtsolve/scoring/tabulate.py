"""Tabulation of the scores of all small sets, by threads in blocks of the colex order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.machine import cores
from jtsolve.core.result import Stop
from jtsolve.core.scores import DenseScores, StoppedError
from jtsolve.core.threads import Pool, run_tasks
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.errors import LimitError
from jtsolve.options import MAX_SIZE
from jtsolve.scoring.colex import ColexOrder
from jtsolve.scoring.mixed import MixedScorer, fill_mixed
from jtsolve.scoring.partitions import (
    LackOfMemoryError,
    occupied_at_most,
    proceed_always,
    room_for_statistics,
    sets_that_fit,
)
from jtsolve.scoring.scorer import CountingScorer
from jtsolve.tables.options import DISCRETISE, DROP
from jtsolve.tables.partitions import PartitionedTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.cluster import Workers
    from jtsolve.core.run import Run
    from jtsolve.scoring.scorer import Scorer

_TRIED_NANOSECONDS = 1e6
"""If the predicted time of a set is longer, a few sets are timed instead."""
_PIECE_NANOSECONDS = 1e8
"""Predicted work of a block: a tenth of a second, so that Ctrl-C and limits act promptly."""
_PIECE_SETS = 1 << 16
"""Maximum number of sets in a block, whose members take a few megabytes."""
_BYTES_PER_NUMBER = 20
"""Bytes of a score as text in full precision, with a separator; measured: plants 19.7, mushroom 19.6."""
_PACKED_SHARE = 0.47
"""Compression ratio of gzip; measured: hypothyroid and mushroom 0.47."""


@dataclass(frozen=True, slots=True)
class TableEstimate:
    """Predicted cost of a table.

    Args:
        sets: exact number of sets.
        seconds: of wall-clock time.
        memory: bytes of the table and of its text.
        file_bytes: size of an uncompressed instance file.
        packed_bytes: size of a gzipped one.
    """

    sets: int
    seconds: float
    memory: int
    file_bytes: int
    packed_bytes: int


def estimate(scorer: Scorer, max_size: int, workers: int | None = None) -> TableEstimate:
    """Returns the predicted cost of a table of all sets of at most `max_size` variables.

    If a set takes milliseconds, a few are timed, since the time of a row then depends on the caches.

    Args:
        scorer: of the sets.
        max_size: size of the largest sets.
        workers: number of threads; None for all cores.
    """
    sets = count_bounded_subsets(scorer.table.n, max_size)
    text = sets * _BYTES_PER_NUMBER
    untried = scorer.nanoseconds < _TRIED_NANOSECONDS or isinstance(scorer.table, PartitionedTable)
    each = scorer.nanoseconds if untried else _tried(scorer, max_size)
    seconds = sets * each * 1e-9 / (workers or cores())
    # The text is in memory twice: in parts and joined.
    return TableEstimate(sets, seconds, 8 * sets + 2 * text, text, int(_PACKED_SHARE * text))


def _tried(scorer: Scorer, max_size: int) -> float:
    """Returns the measured nanoseconds for a set, over a few consecutive ones in colex order."""
    few = np.arange(min(4, scorer.table.n - max_size + 1))[:, None]
    rest = np.arange(scorer.table.n - 1, scorer.table.n - max_size, -1)
    sets = np.hstack([np.tile(rest, (len(few), 1)), few]).astype(np.int64)
    scorer.values(sets[:1])  # loads the compiled kernels
    start = perf_counter_ns()
    scorer.values(sets)
    return (perf_counter_ns() - start) / len(sets)


def proceed_in(run: Run, done: float) -> None:
    """Reports the fraction done of a tabulation.

    Raises:
        LimitError: the time limit came first.
        StoppedError: the run was interrupted.
    """
    run.progress(done=done)
    if done < 1:
        if run.stop is Stop.INTERRUPTED:
            raise StoppedError
        run.require_time(f"the scoring after {100 * done:.0f} % of the sets", f"smaller sets ({MAX_SIZE})")


def tabulate_with(
    scorer: Scorer,
    max_size: int,
    *,
    workers: int | None = None,
    proceed: Callable[[float], object] = proceed_always,
) -> DenseScores:
    """Returns the scores of all sets of at most `max_size` columns, bit-identical for any number of threads.

    Args:
        scorer: of the sets.
        max_size: size of the largest sets.
        workers: threads; None for all cores.
        proceed: called with the fraction done; raises an error to stop.
    """
    values = _all_values(scorer, max_size, workers or cores(), proceed)
    values.setflags(write=False)
    return DenseScores(scorer.table.n, max_size, values)


def _all_values(
    scorer: Scorer, max_size: int, workers: int, proceed: Callable[[float], object]
) -> NDArray[np.float64]:
    """Returns the scores of all sets in colex order."""
    if isinstance(scorer, CountingScorer) and isinstance(scorer.table, PartitionedTable):
        return _by_passes(scorer, scorer.table, max_size, proceed)
    if isinstance(scorer, MixedScorer):
        return fill_mixed(scorer, max_size, workers, proceed)
    order = ColexOrder(scorer.table.n, max_size)
    values = np.empty(order.count)
    piece = min(_PIECE_SETS, int(_PIECE_NANOSECONDS / scorer.nanoseconds), order.count // (8 * workers))
    piece = max(1, piece)

    starts, done = range(0, order.count, piece), 0

    def fill(start: int) -> None:
        values[start : start + piece] = scorer.values(order.sets(start, min(piece, order.count - start)))

    def count(at: int) -> bool:
        nonlocal done
        done += min(piece, order.count - starts[at])
        proceed(done / order.count)
        return True

    if workers == 1:  # for hundreds of small tables, a pool would take a third of the time
        for at, start in enumerate(starts):
            fill(start)
            count(at)
    else:
        with Pool(workers) as pool:
            run_tasks(pool, [partial(fill, start) for start in starts], count)
    return values


def _by_passes(
    scorer: CountingScorer, table: PartitionedTable, max_size: int, proceed: Callable[[float], object]
) -> NDArray[np.float64]:
    """Returns the scores by a scorer of partitions, which counts one block of sets in a pass over the data.

    If a worker lacks memory, this block and all later ones are halved.
    """
    order = ColexOrder(table.n, max_size)
    values = np.empty(order.count)
    with table.cluster.connected() as workers:
        room = room_for_statistics(workers)
    start = 0
    while start < order.count:
        sets = _block(order, start, table, room)
        share = len(sets) / order.count

        def proceed_in_pass(part: float, before: float = start / order.count, share: float = share) -> None:
            proceed(before + part * share)

        try:
            values[start : start + len(sets)] = replace(scorer, proceed=proceed_in_pass).values(sets)
        except LackOfMemoryError as error:
            if len(sets) == 1:
                raise LimitError(
                    f"a worker lacks the memory to count a single set ({error}). Ways out: workers with more "
                    f"memory, smaller sets ({MAX_SIZE}), or fewer states ({DISCRETISE}, {DROP})"
                ) from None
            room = occupied_at_most(sets, table).sum() // 2
            continue
        start += len(sets)
    proceed(1.0)
    return values


def passes(table: PartitionedTable, max_size: int, workers: Workers) -> int:
    """Returns the number of passes over the data, if no worker lacks memory.

    Args:
        table: the partitions.
        max_size: size of the largest sets.
        workers: of the cluster.
    """
    order, room = ColexOrder(table.n, max_size), room_for_statistics(workers)
    start = count = 0
    while start < order.count:
        start += len(_block(order, start, table, room))
        count += 1
    return count


def _block(order: ColexOrder, start: int, table: PartitionedTable, room: float) -> NDArray[np.int64]:
    """Returns the sets of a pass, from rank `start` on."""
    sets = order.sets(start, min(_PIECE_SETS, order.count - start))
    return sets[: sets_that_fit(sets, table, room)]
