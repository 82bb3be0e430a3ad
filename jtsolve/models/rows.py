"""The rows of data files and frames in the coding of a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.run import Run
from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.columns import Column, coded_table, hidden_of, require_columns, states_by_name
from jtsolve.tables.check import OF_ROWS, examine, report_findings
from jtsolve.tables.crosstab import melted
from jtsolve.tables.gatherer import Intake
from jtsolve.tables.options import (
    CLASS_COLUMN,
    COLUMNS,
    DISCRETISE,
    DROP,
    MISSING,
    SCHEMA,
    Coding,
    Habits,
    gap_words,
)
from jtsolve.tables.raw import GAP, RawColumn, RawTable
from jtsolve.tables.reading import dialect_of, opened_data, read_raw
from jtsolve.tables.selection import row_weights

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.models.columns import RealColumn
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.options import Reading
    from jtsolve.tables.table import DataTable
    from jtsolve.tables.values import ColumnStates, Words


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of a data file, not yet in the coding of a model.

    Args:
        columns: by the names of the model, in its order.
        gaps: words that mean a missing value.
        source: the file, for messages.
        weights: shape (rows,), the multiplicity of each row, in multiples of `unit`; None for 1.
        unit: see `DataTable`.
    """

    columns: tuple[RawColumn, ...]
    gaps: Words
    source: str
    weights: NDArray[np.int64] | None = None
    unit: float = 1.0

    @property
    def times(self) -> NDArray[Any]:
        """The multiplicity of each row, shape (rows,): whole numbers, unless rows weigh fractions."""
        if self.weights is None:
            return np.ones(self.columns[0].codes.size, dtype=np.int64)
        return self.weights if self.unit == 1 else self.weights * self.unit

    def new_states(
        self, columns: Sequence[Column | RealColumn], declared: Collection[str]
    ) -> dict[str, list[str]]:
        """Returns the values that are not states of their columns, by column.

        Args:
            columns: of the model.
            declared: columns whose states the user declared; they are complete.
        """
        found = {}
        for raw, column in zip(self.columns, columns, strict=True):
            if isinstance(column, Column) and column.cuts is None and column.name not in declared:
                places = column.places(raw.labels, raw.kind)
                labels = [raw.labels[i] for i in raw.occurring() if places[i] < 0]
                new = [label for label in labels if label not in self.gaps]
                if new:
                    found[column.name] = new
        return found

    def coded(
        self, columns: Sequence[Column | RealColumn], *, unseen: int | None = None, sums: bool = False
    ) -> Any:
        """Returns the rows in the coding of a model, shape (columns, rows); see `Column.read`.

        Args:
            columns: of the model.
            unseen: see `Column.read`.
            sums: whether missing values stay missing even if their column has a state for them.

        Raises:
            InputError: a value is invalid in its column.
        """
        pairs = zip(self.columns, columns, strict=True)
        found = np.array([column.read(raw, self.gaps, self.source, unseen) for raw, column in pairs])
        for row, column in zip(found, columns, strict=True):
            if sums and column.gap and column.states is not None:
                row[row == len(column.states) - 1] = GAP
        if found.dtype.kind == "f":  # beside real numbers, a missing state is NaN
            for row, column in zip(found, columns, strict=True):
                if column.states is not None:
                    row[row == GAP] = np.nan
        return found


def open_rows(
    data: str | Path | Frame,
    names: Sequence[str],
    *,
    habits: Habits = Habits(),  # noqa: B008 - a frozen value
    counted: Coding | None = None,
    drop: Sequence[str] = (),
    states: Mapping[str, ColumnStates] = MappingProxyType({}),
    hidden: Collection[str] = (),
    strict: bool = False,
    run: Run | None = None,
) -> FileRows:
    """Returns the rows of a data file or frame for a model; extra columns are ignored.

    Args:
        data: the path of the file, or the frame; for formats, see `tables.reading`.
        names: of the variables of the model.
        habits: the options of reading the training data; without a header, the columns are those of the
            model, in its order.
        counted: names the column with the multiplicity of each row, or a crosstab; by default, the column
            that counted the training data has it. None for rows that are not counted.
        drop: variables that are not used, and need no data check.
        states: of the discrete columns, for the data check.
        hidden: names of columns that may be absent; all of their values are missing then.
        strict: whether findings of the data check (`check.OF_ROWS`) are errors.
        run: shows the findings; None to skip the check.

    Raises:
        InputError: the file cannot be read, or a column is missing.
    """
    source, place = opened_data(data, habits.dialect.encoding)
    dialect = dialect_of(source, habits)
    given = counted or Coding()
    own = None if counted is None or given.crosstab or habits.weights in names else habits.weights
    crosstab = habits.crosstab if given.crosstab is None and given.weights is None else given.crosstab
    coding = Coding((*names, own or ""), weights=given.weights, crosstab=crosstab)
    wants = coding.reads if dialect.header else lambda _name: True
    raw = read_raw(source, Intake(wants, together=False, run=run or Run(), source=place), dialect)
    if given.crosstab is None and crosstab is not None:
        made = crosstab.partition("=")[0]
        coding = replace(coding, crosstab=crosstab if made in names and made not in raw.names else None)
    raw, coding = melted(raw, coding, place)
    read = _columns_named(raw, names, place, hidden, header=dialect.header)
    weights = coding.weights
    by_name = {column.name: column for column in raw.columns}
    if weights is not None:
        require_columns([weights], dict.fromkeys(by_name, 0), place)
    elif counted is not None:
        weights = raw.weights or (own if own in by_name else None)
    if run is not None:
        every = by_name | {name: replace(column, name=name) for name, column in read.items()}
        unused = tuple(name for name in drop if name in read)
        declared = {name: one.labels for name, one in states.items() if name in read}
        coding = Coding(
            tuple(read),
            unused,
            weights=weights,
            missing_values=habits.gaps,
            schema=declared,
            decimal=habits.decimal,
        )
        table = RawTable(tuple(every), tuple(every.values()), raw.typed)
        report_findings(examine(table, coding, place, kinds=OF_ROWS), place, run, strict=strict)
    gaps = gap_words(habits.gaps, typed=raw.typed)
    if habits.decimal == "comma":
        read = {name: _with_points(column, name, gaps, habits.commas) for name, column in read.items()}
    absent = RawColumn("", (), np.full(raw.columns[0].codes.size, GAP))
    columns = tuple(read.get(name, absent) for name in names)
    times = (None, 1.0) if weights is None else row_weights(by_name[weights], None, place)
    return FileRows(columns, gaps, place, *times)


def _with_points(column: RawColumn, name: str, gaps: Words, commas: Collection[str] | None) -> RawColumn:
    """Returns a column with decimal points for commas, if the training data had decimal commas in it."""
    if commas is None:
        return column.with_decimal_point(gaps)
    return column.with_decimal_point(gaps, always=True) if name in commas else column


def read_rows(
    data: str | Path | Frame,
    columns: Sequence[Column | RealColumn],
    *,
    habits: Habits = Habits(),  # noqa: B008 - a frozen value
    sums: bool = False,
) -> Any:
    """Returns the rows of a file or frame in the coding of a model; see `open_rows` and `FileRows.coded`.

    Args:
        data: a file or a frame.
        columns: of the model.
        habits: words for missing values, decimal mark and dialect.
        sums: see `FileRows.coded`.
    """
    names, hidden = [column.name for column in columns], hidden_of(columns)
    return open_rows(data, names, habits=habits, hidden=hidden).coded(columns, sums=sums)


def _columns_named(
    raw: RawTable, names: Sequence[str], source: str, hidden: Collection[str], *, header: bool
) -> dict[str, RawColumn]:
    """Returns the columns of a table with given names.

    Without a header, columns are matched by position. Hidden columns may be absent.
    """
    place = {column.name: i for i, column in enumerate(raw.columns)}
    needed = [name for name in names if name in place or name not in hidden]
    if not header and not all(name in place for name in needed):
        if len(raw.columns) != len(needed):
            raise InputError(
                source,
                "",
                f"it has {len(raw.columns)} columns and no header, but the model has {len(needed)}",
                "give the names of the columns in a first line",
            )
        return dict(zip(needed, raw.columns, strict=True))
    require_columns(needed, place, source)
    return {name: raw.columns[place[name]] for name in needed}


def read_counts(
    data: str | Path | Frame, columns: Sequence[Column], how: Reading, habits: Habits, run: Run | None
) -> DataTable:
    """Returns the rows of a data file or frame, with their weights, as a table in the coding of a model.

    Args:
        data: see `open_rows`.
        columns: of the model.
        how: the options of reading; missing values are refused, or their rows dropped.
        habits: see `open_rows`.
        run: shows the findings of the data check; None to skip it.

    Raises:
        InputError: as `open_rows`; or a value is missing, or not a state of the model.
        ChoiceError: an option would change the coding.
    """
    coding, plain = how.coding, Coding()
    idle = (COLUMNS, DROP, DISCRETISE, CLASS_COLUMN, SCHEMA)
    if given := [one for one in idle if getattr(coding, one.name) != getattr(plain, one.name)]:
        raise ChoiceError(
            f"{', '.join(map(str, given))}: the model has its own columns and states; leave it out"
        )
    if coding.missing not in ("refuse", "drop-rows", "state"):
        raise ChoiceError(
            f"{MISSING(coding.missing)}: rows are not changed here; give drop-rows, or impute them"
        )
    file = open_rows(
        data,
        [column.name for column in columns],
        habits=habits,
        counted=coding,
        states=states_by_name(columns),
        strict=how.strict,
        run=run,
    )
    codes = file.coded(columns)
    weights = np.ones(codes.shape[1], dtype=np.int64) if file.weights is None else file.weights
    missing = (codes < 0).any(axis=0) & (weights > 0)
    if missing.any() and coding.missing != "drop-rows":
        reason = f"{int(missing.sum())} rows have some"
        raise InputError(file.source, "missing values", reason, f"leave these out: {MISSING('drop-rows')}")
    kept = ~missing & (weights > 0)
    if not kept.any():
        raise InputError(file.source, "missing values", "every row has some", "give rows without any")
    each = None if file.weights is None else weights[kept]
    return coded_table(columns, codes[:, kept], each, file.unit)
