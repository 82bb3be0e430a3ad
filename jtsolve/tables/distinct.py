"""Distinct rows of small integers and their counts; the hash table is in `kernels.distinct`.

Memory for each distinct row: its values, in the smallest type that holds them all, and 16 to 32 bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.tables.table import DataTable

_BLOCK = 1 << 16
"""Rows inserted at a time."""
_FEW_COLUMNS, _TIMES_MORE = 64, 8
"""Columns of a wide table looked at first, and by what factor they grow: at most a seventh of the work."""
ONCE: NDArray[np.int64] = np.empty(0, np.int64)
"""Multiplicities of rows that all count once, for kernels. Read-only as those of a table, which numba tells
apart: it would compile every kernel that takes them twice."""
ONCE.flags.writeable = False


class Watch(Protocol):
    """Callback on progress of reading; it raises an error to stop."""

    def __call__(self, *, rows: int, memory: int) -> None:
        """Takes the number of rows read so far, and the bytes about to be allocated for them."""
        ...


def unwatched(*, rows: int, memory: int) -> None:
    """Never stops reading."""


class DistinctRows:
    """Distinct rows in order of first occurrence, with counts.

    Args:
        width: number of columns.
        watch: called before memory is allocated.

    Attributes:
        used: number of distinct rows.
    """

    def __init__(self, width: int, watch: Watch = unwatched) -> None:
        self.used = self._read = 0
        self._watch = watch
        self._rows: NDArray[Any] = np.empty((0, width), np.uint8)
        self._times = np.empty(0, np.int64)
        self._slots = np.zeros(1, np.int32)

    def add(
        self, columns: Sequence[NDArray[Any]], largest: int, weights: NDArray[np.int64] | None = None
    ) -> None:
        """Counts rows.

        Args:
            columns: their values, column by column, from 0.
            largest: upper bound of all values so far.
            weights: multiplicity of each row; None for 1.
        """
        from jtsolve.tables.kernels.distinct import insert_rows

        kind = np.uint8 if largest < 1 << 8 else np.uint16 if largest < 1 << 16 else np.uint32
        if self._rows.itemsize < np.dtype(kind).itemsize:
            self._watch(rows=self._read, memory=self._rows.size * np.dtype(kind).itemsize)
            self._rows = self._rows.astype(kind)
        for start in range(0, columns[0].size, _BLOCK):
            parts = [column[start : start + _BLOCK] for column in columns]
            block = np.empty((parts[0].size, len(parts)), self._rows.dtype)
            for place, part in enumerate(parts):
                block[:, place] = part
            times = ONCE if weights is None else weights[start : start + _BLOCK]
            self._make_room(block.shape[0])
            self.used = insert_rows(block, times, self._rows, self._times, self._slots, self.used)
            self._read += block.shape[0]

    def _make_room(self, count: int) -> None:
        """Makes room for `count` more rows: storage grows by half, the hash table keeps two slots a row."""
        from jtsolve.tables.kernels.distinct import fill_slots

        need = self.used + count
        if need > self._times.size:
            capacity = max(need, self._times.size * 3 // 2)
            width = self._rows.shape[1]
            self._watch(rows=self._read, memory=capacity * (width * self._rows.itemsize + 8))
            rows = np.empty((capacity, width), self._rows.dtype)
            rows[: self.used] = self._rows[: self.used]
            times = np.empty(capacity, np.int64)
            times[: self.used] = self._times[: self.used]
            self._rows, self._times = rows, times
        if 2 * need > self._slots.size:
            size = 1 << (2 * need - 1).bit_length()
            self._watch(rows=self._read, memory=4 * size)
            self._slots = fill_slots(self._rows, self.used, size)

    def taken(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Returns the values, shape (columns, rows), and the counts; drops the hash table."""
        self._slots = np.zeros(1, np.int32)
        return self._rows[: self.used].T, self._times[: self.used].copy()


def merged_rows(table: DataTable) -> DataTable:
    """Returns the distinct rows of a table with their counts, or the table itself if more than half differ.

    Weighted rows take longer to count, so that merging has to halve the rows to pay. Rows that differ in some
    columns differ: of a wide table, a few columns usually show that merging does not pay.
    """
    columns = _FEW_COLUMNS
    while table.weights is None and _TIMES_MORE * columns <= table.n:
        rows = DistinctRows(columns)
        rows.add(list(table.codes[:columns]), int(table.arities.max()) - 1)
        if 2 * rows.used > table.rows:
            return table
        columns *= _TIMES_MORE
    distinct = distinct_rows(table)
    return distinct if table.weights is not None or 2 * distinct.rows <= table.rows else table


def distinct_rows(table: DataTable) -> DataTable:
    """Returns the distinct rows of a table in order of first occurrence, with their counts as weights."""
    rows = DistinctRows(table.n)
    rows.add(list(table.codes), int(table.arities.max()) - 1, table.weights)
    codes, weights = rows.taken()
    return table if weights.size == table.rows else replace(table, codes=codes, weights=weights)
