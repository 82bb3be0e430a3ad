"""Collects the rows of a file block by block; large files are reduced to distinct rows and counts.

The first `Blocks.kept` rows are kept as read. Beyond that, equal rows are merged while reading, so that
memory grows with the number of distinct rows, not of all. Scores depend only on counts, so that merging
leaves them bit-identical.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.run import Run
from jtsolve.tables.distinct import DistinctRows
from jtsolve.tables.forked import require_threads
from jtsolve.tables.options import COLUMNS
from jtsolve.tables.raw import GAP, RawColumn, RawTable, signed_type
from jtsolve.tables.source import BLOCKS, Blocks
from jtsolve.tables.values import labels_of, text_label

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import polars as pl
    from numpy.typing import NDArray

    from jtsolve.tables.values import ValueKind

_ASCII = 1 << 7
_REPEATED = 4
"""Texts that occur as often on average are coded faster as categories."""
_UNKNOWN = -2
"""Code of a character that has not occurred."""


@dataclass(frozen=True, slots=True)
class Intake:
    """Columns and rows to read from a file, and the run that limits the reading.

    Args:
        wants: whether to read the column of this name.
        together: whether equal rows may be merged and counted; otherwise, all are kept in order.
        labels: whether to read the labels of the rows, a first column without a name.
        run: limits the reading and shows its progress.
        source: the name of the data in messages.
        blocks: sizes of the blocks.
    """

    wants: Callable[[str], bool] = lambda _name: True
    together: bool = True
    run: Run = field(default_factory=Run)
    source: str = "the data"
    labels: bool = False
    blocks: Blocks = BLOCKS

    def poll(self) -> None:
        """Ends the data check, or the coding after it, at the time limit.

        Raises:
            LimitError: the time does not suffice.
        """
        if self.run.stop is not None:  # the texts take as long as a column
            self.run.require_time(f"the check of {self.source}", f"fewer columns ({COLUMNS})")

    def require(self, rows: int, size: int = 0) -> None:
        """Reports progress, and ends the reading at the limits.

        Args:
            rows: read so far.
            size: bytes to allocate next, to merge equal rows.

        Raises:
            LimitError: time or memory do not suffice.
        """
        self.run.progress(note=f"reading {Path(self.source).name}: {rows} rows")
        self.run.require_time(f"the reading of {self.source} after {rows} rows", f"fewer columns ({COLUMNS})")
        self.run.require_memory(
            size,
            f"the distinct rows among the first {rows} of {self.source} need"
            if rows
            else f"{self.source} needs",
            f"fewer columns ({COLUMNS}), which have fewer distinct rows",
        )


class Gatherer:
    """Collects the values of the requested columns block by block.

    Args:
        names: of all columns of the file; that of an index, the first, is empty.
        intake: the columns and rows to read.

    Attributes:
        places: positions of the requested columns, increasing.
        rows: number of rows added.
        batch: maximum number of rows held as strings at a time.
        intake: as given.
        index: whether the first column is an index, read only on request (`Intake.labels`).
    """

    def __init__(self, names: Sequence[str], intake: Intake) -> None:
        require_threads()
        self.names = tuple(names)
        # Pandas and R write the labels of rows into a first column without a name.
        self.index = len(names) > 1 and not names[0]
        # If no column is needed, the first is read, since rows are counted and checked.
        first = int(self.index and not intake.labels)
        self.places = [i for i in range(first, len(names)) if intake.wants(names[i])] or [first]
        self.rows = 0
        self.batch = max(1, intake.blocks.values // len(names))
        self.intake = intake
        self._encoders = [Encoder() for _ in self.places]
        self._code_of: NDArray[np.int32] | None = None  # by column and character
        self._kept: list[list[NDArray[Any]]] = [[] for _ in self.places]
        self._counted: DistinctRows | None = None

    def add(self, columns: Sequence[pl.Series]) -> None:
        """Adds rows, given the values of each requested column; null and blank text are gaps."""
        coded = []
        for encoder, values in zip(self._encoders, columns, strict=True):
            self.intake.require(self.rows)
            coded.append(encoder.codes(values))
        self._add_rows(coded)

    def add_characters(self, cells: NDArray[np.uint8]) -> None:
        """Adds rows of values of one character each, in a few calls for all columns of a wide table.

        Args:
            cells: shape (requested columns, rows), codes of ASCII characters.
        """
        if self._code_of is None:
            self._code_of = np.full((len(self.places), _ASCII), _UNKNOWN, np.int32)
        self.intake.require(self.rows)
        common = bytes(np.flatnonzero((self._code_of != _UNKNOWN).all(axis=0)).tolist())
        rest = np.frombuffer(cells.tobytes().translate(None, common), np.uint8)
        for byte in np.flatnonzero(np.bincount(rest)).tolist():
            unknown = np.flatnonzero(self._code_of[:, byte] == _UNKNOWN)
            for column in unknown[(cells[unknown] == byte).any(axis=1)].tolist():
                self._code_of[column, byte] = self._encoders[column].code(text_label(chr(byte)))
        kind = signed_type(max(len(encoder.known) for encoder in self._encoders))
        self._add_rows(list(np.take_along_axis(self._code_of.astype(kind), cells, axis=1)))

    def _add_rows(self, coded: list[NDArray[Any]]) -> None:
        """Adds rows, given the codes of each column."""
        self.rows += coded[0].size
        if self._counted is None:
            for pieces, codes in zip(self._kept, coded, strict=True):
                pieces.append(codes)
            if self.rows > self.intake.blocks.kept and self.intake.together:
                coded, self._kept = [np.concatenate(pieces) for pieces in self._kept], []
                least = self.intake.blocks.kept // 4
                self._counted = DistinctRows(lambda size: self.intake.require(self.rows, size), least)
        if self._counted is not None:
            self._counted.add(coded)

    def table(
        self,
        *,
        typed: bool,
        states: Sequence[tuple[str, ...] | None] | None = None,
        kinds: Sequence[ValueKind | None] | None = None,
    ) -> RawTable:
        """Returns the table and releases the rows.

        Args:
            typed: whether the format itself marks gaps, rather than words such as NA.
            states: declared states of each column of the file, or None.
            kinds: of the values of each column of the file, or None.
        """
        times: NDArray[np.int64] | None = None
        if self._counted is not None:
            codes, counts = self._counted.distinct_rows()
            self._counted = None
            times = None if (counts == 1).all() else counts
        else:
            codes = [np.concatenate(pieces) for pieces in self._kept]
            self._kept = []
        declared = [states[place] if states else None for place in self.places]
        columns = tuple(
            RawColumn(
                self.names[place], tuple(encoder.known), column, labels, kinds[place] if kinds else None
            )
            for place, encoder, column, labels in zip(
                self.places, self._encoders, codes, declared, strict=True
            )
        )
        return RawTable(self.names[int(self.index) :], columns, typed, times, self.index)


class Encoder:
    """Assigns codes to the values of a column, block by block."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def code(self, label: str) -> int:
        """Returns the code of a label; `GAP` of a blank one."""
        return self.known.setdefault(label, len(self.known)) if label else GAP

    def codes(self, values: pl.Series) -> NDArray[Any]:
        """Returns the codes of values, shape (rows,), in the smallest type; null is a gap.

        Values may share a label.
        """
        import polars as pl

        different = values.drop_nulls().unique(maintain_order=True)
        if different.is_empty():
            return np.full(len(values), GAP, dtype=np.int8)
        codes = list(map(self.code, labels_of(different)))
        kind = signed_type(len(self.known))
        if values.dtype == pl.String and _REPEATED * len(different) < len(values):
            values, different = (one.cast(pl.Enum(different)) for one in (values, different))
        if isinstance(values.dtype, pl.Enum | pl.Categorical):  # indexing is faster than hashing
            places = different.to_physical().to_numpy()
            code_at = np.full(int(places.max()) + 2, GAP, kind)
            code_at[places] = codes
            rows = values.to_physical().cast(pl.UInt32).fill_null(code_at.size - 1)
            found: NDArray[Any] = code_at[rows.to_numpy()]
            return found
        coded = values.replace_strict(different, codes, default=None, return_dtype=pl.Int32)
        return coded.fill_null(GAP).to_numpy().astype(kind)
