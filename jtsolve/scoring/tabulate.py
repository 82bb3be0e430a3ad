"""A table of the scores of all small sets, computed by threads in pieces of the colex order."""

from __future__ import annotations

from bisect import bisect_right
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol

import numpy as np

from jtsolve.core.machine import cores
from jtsolve.core.scores import DenseScores
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.errors import LimitError
from jtsolve.scoring.scorer import make_scorer

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from jtsolve.scoring.prior import StructurePrior
    from jtsolve.scoring.score import LocalScore
    from jtsolve.scoring.scorer import Scorer
    from jtsolve.tables.table import Table

_TRIED_NANOSECONDS = 1e6
"""Predicted for one set, from which on the prediction is tried."""
_PIECE_NANOSECONDS = 1e8
"""Predicted work in one piece: a tenth of a second, so that Ctrl-C and limits act at once."""
_PIECE_SETS = 1 << 16
"""Most sets in a piece: some megabytes of members."""
_BYTES_PER_NUMBER = 20
"""Of a score as text with all its digits and a separator; measured: plants 19.7, mushroom 19.6."""
_PACKED_SHARE = 0.46
"""What gzip leaves of it; measured: plants 0.46, mushroom 0.44."""


class Progress(Protocol):
    """Takes the fraction that is done, and answers whether to go on."""

    def __call__(self, *, done: float) -> bool:
        """Reports and asks; called by the thread that tabulates."""
        ...


@dataclass(frozen=True, slots=True)
class TableEstimate:
    """What a table is predicted to cost.

    Args:
        sets: the number of sets, exactly.
        seconds: of wall clock, to compute it.
        memory: bytes, to hold it and to write it as text.
        file_bytes: of an instance file as text.
        packed_bytes: of a packed one.
    """

    sets: int
    seconds: float
    memory: int
    file_bytes: int
    packed_bytes: int


def estimate(scorer: Scorer, max_size: int, workers: int | None = None) -> TableEstimate:
    """Returns the predicted cost of a table of all sets of at most `max_size` variables.

    Where one set takes milliseconds, a few are computed and timed: how long a row takes depends on how much
    of the data the processor's caches hold.
    """
    sets = count_bounded_subsets(scorer.table.n, max_size)
    text = sets * _BYTES_PER_NUMBER
    each = scorer.steps if scorer.steps < _TRIED_NANOSECONDS else _tried(scorer, max_size)
    seconds = sets * each * 1e-9 / (workers or cores())
    # The array, and at the end the text twice: in pieces and joined.
    return TableEstimate(sets, seconds, 8 * sets + 2 * text, text, int(_PACKED_SHARE * text))


def _tried(scorer: Scorer, max_size: int) -> float:
    """Returns the nanoseconds that a set takes, of a few that follow one another in colex order."""
    few = np.arange(min(4, scorer.table.n - max_size + 1))[:, None]
    rest = np.arange(scorer.table.n - 1, scorer.table.n - max_size, -1)
    sets = np.hstack([np.tile(rest, (len(few), 1)), few]).astype(np.int64)
    scorer.values(sets[:1])  # loads what is compiled
    start = perf_counter_ns()
    scorer.values(sets)
    return (perf_counter_ns() - start) / len(sets)


def tabulate(
    table: Table,
    score: LocalScore,
    max_size: int,
    *,
    prior: StructurePrior | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> DenseScores:
    """Returns the scores of all sets of at most `max_size` columns, to the bit for any number of threads.

    Args:
        table: the data.
        score: of states for a `DataTable`, of real numbers for a `ContinuousTable`.
        max_size: the size of the largest sets, at least 1 and at most n.
        prior: on structures; None for none.
        workers: threads; None for all cores.
        progress: told after each piece of work; the work ends when it answers False.

    Raises:
        ChoiceError: the score is not for such a table, or `max_size` is not as said.
        InputError: the table does not allow the score; see `make_scorer`.
        LimitError: `progress` ended the work.
    """
    return tabulate_with(
        make_scorer(table, score, max_size, prior), max_size, workers=workers, progress=progress
    )


def tabulate_with(
    scorer: Scorer, max_size: int, *, workers: int | None = None, progress: Progress | None = None
) -> DenseScores:
    """Returns the table of a scorer; see `tabulate`."""
    from jtsolve.scoring.kernels.counting import colex_sets

    n = scorer.table.n
    order = _Colex(n, max_size)
    values = np.empty(order.count)
    workers = workers or cores()
    piece = min(_PIECE_SETS, int(_PIECE_NANOSECONDS / scorer.steps), order.count // (8 * workers))
    piece = max(1, piece)

    def fill(start: int) -> int:
        end = min(start + piece, order.count)
        values[start:end] = scorer.values(colex_sets(order.members(start), end - start, n))
        return end - start

    pool = ThreadPoolExecutor(workers)
    try:
        starts = range(0, order.count, piece)
        _run(pool, fill, starts, most=2 * workers, total=order.count, progress=progress)
    finally:
        pool.shutdown(cancel_futures=True)
    values.setflags(write=False)
    return DenseScores(n, max_size, values)


def _run(
    pool: ThreadPoolExecutor,
    fill: Callable[[int], int],
    starts: range,
    *,
    most: int,
    total: int,
    progress: Progress | None,
) -> None:
    """Fills all pieces, at most so many of them handed out at one time; reports as they are finished."""
    running: set[Future[int]] = set()
    done = 0
    left = iter(starts)
    while True:
        for start in left:
            running.add(pool.submit(fill, start))
            if len(running) >= most:
                break
        if not running:
            return
        finished, running = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            done += future.result()
        if progress is not None and not progress(done=done / total):
            raise LimitError(
                f"the scoring was ended when {100 * done / total:.0f} % of the {total} sets were scored; "
                "nothing is written. Score smaller sets (--max-size), or allow more time"
            )


class _Colex:
    """The sets of at most `max_size` of n variables in colex order."""

    def __init__(self, n: int, max_size: int) -> None:
        self._max_size = max_size
        self._before = [
            [count_bounded_subsets(v, max_size - above) for v in range(n)] for above in range(max_size)
        ]
        self.count = count_bounded_subsets(n, max_size)

    def members(self, rank: int) -> NDArray[np.int64]:
        """Returns the set at a position: its members in decreasing order, then -1."""
        found = np.full(self._max_size, -1, dtype=np.int64)
        for above, before in enumerate(self._before):
            if rank == 0:
                break
            # The sets whose next member is v come after those that have all the rest below v.
            found[above] = bisect_right(before, rank) - 1
            rank -= before[found[above]]
        return found
