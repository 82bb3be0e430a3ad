"""Distinct rows of integers and their counts, merged by polars.

A merge involves the rows kept so far and those added since the last merge. Its memory is `_BYTES_A_ROW` for
each row, plus `_TIMES_A_VALUE` times the size of the values. It takes place when at least as many rows were
added as are kept, and a least number, so that each row is merged twice on average even if all differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.tables.forked import require_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl
    from numpy.typing import NDArray

    from jtsolve.tables.table import DataTable

_TIMES_A_VALUE, _BYTES_A_ROW = 3, 256
"""Peak of a merge, measured with polars 2.1 on rows that all differ, 2 to 1000 columns of 1 to 4 bytes:
polars concatenates rows, encodes them as keys, lists the positions of each in a hash table, and gathers."""
_TIMES = "times"
_FEW_COLUMNS, _TIMES_MORE = 64, 8
"""Columns of a wide table that are compared first, and their growth factor: a seventh of the work at most."""
ONCE: NDArray[np.int64] = np.empty(0, np.int64)
"""Multiplicities of rows that all count once, for kernels. Read-only as those of a table: otherwise
numba, which distinguishes the two, would compile every kernel twice."""
ONCE.flags.writeable = False


class DistinctRows:
    """Distinct rows in order of first occurrence, with counts.

    Args:
        require_memory: called with the bytes of each merge before it; raises an error to refuse them.
        least: rows to add before a merge: few enough for the memory, enough for a negligible overhead.
    """

    def __init__(
        self, require_memory: Callable[[int], object] = lambda _size: None, least: int = 1 << 18
    ) -> None:
        require_threads()
        self._require_memory, self._least = require_memory, least
        self._frames: list[pl.DataFrame] = []
        self._added = 0

    def add(self, columns: Sequence[NDArray[Any]], weights: NDArray[np.int64] | None = None) -> None:
        """Counts rows.

        Args:
            columns: integers, shape (rows,) each.
            weights: multiplicity of each row, shape (rows,); None for 1.
        """
        import polars as pl

        self._added += columns[0].size
        times = np.ones(columns[0].size, np.int64) if weights is None else weights
        frame = {str(place): column for place, column in enumerate(columns)}
        self._frames.append(pl.DataFrame({**frame, _TIMES: times}))
        if self._added >= max(self._least, self._frames[0].height):
            self._merge()

    def _merge(self) -> None:
        """Merges the rows added with those kept, which come first: each keeps its first position."""
        import polars as pl

        rows = sum(frame.height for frame in self._frames)
        width = max(frame.estimated_size() / frame.height for frame in self._frames)
        self._require_memory(int(rows * (_TIMES_A_VALUE * width + _BYTES_A_ROW)))
        together = pl.concat(self._frames, how="vertical_relaxed")
        keys = together.columns[:-1]
        self._frames = [together.group_by(keys, maintain_order=True).agg(pl.col(_TIMES).sum())]
        self._added = 0

    def distinct_rows(self) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
        """Returns the values of each column, and the counts, shape (distinct,) each; there must be rows."""
        if self._added:
            self._merge()
        *columns, times = self._frames.pop().iter_columns()
        return [column.to_numpy() for column in columns], times.to_numpy()


def merged_rows(table: DataTable) -> DataTable:
    """Returns the distinct rows of a table with their counts, or the table itself if more than half differ.

    Counting weighted rows is slower, so that merging pays only if it halves their number. Rows that differ in
    some columns differ: for a wide table, a few columns usually show that merging does not pay.
    """
    columns = _FEW_COLUMNS
    while table.weights is None and _TIMES_MORE * columns <= table.n:
        rows = DistinctRows()
        rows.add(list(table.codes[:columns]))
        if 2 * rows.distinct_rows()[1].size > table.rows:
            return table
        columns *= _TIMES_MORE
    distinct = distinct_rows(table)
    return distinct if table.weights is not None or 2 * distinct.rows <= table.rows else table


def distinct_rows(table: DataTable) -> DataTable:
    """Returns the distinct rows of a table in order of first occurrence, with their counts as weights."""
    rows = DistinctRows()
    rows.add(list(table.codes), table.weights)
    columns, weights = rows.distinct_rows()
    if weights.size == table.rows:
        return table
    return replace(table, codes=np.stack(columns), weights=weights, gaps=None)
