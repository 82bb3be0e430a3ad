"""The coding of a model's columns (names, states, cuts), and its application to new data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.errors import InputError
from jtsolve.tables.check import OF_ROWS, examine, report_findings
from jtsolve.tables.coding import GAP_STATE
from jtsolve.tables.gatherer import Intake
from jtsolve.tables.options import GAPS, Coding, Dialect, gap_words
from jtsolve.tables.raw import GAP, RawColumn, RawTable
from jtsolve.tables.reading import opened_data, read_raw
from jtsolve.tables.selection import name_list, row_weights
from jtsolve.tables.table import code_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.tables.frames import Frame
    from jtsolve.tables.options import Decimal
    from jtsolve.tables.partitions import PartitionedTable
    from jtsolve.tables.source import Source
    from jtsolve.tables.table import Codes, DataTable


@dataclass(frozen=True, slots=True)
class Column:
    """A discrete variable.

    Args:
        name: not empty.
        states: labels, at least one, unique.
        cuts: increasing boundaries of the ranges that the states stand for, one fewer than ranges; None if
            the column was not discretised. After the ranges, there may be the state for a missing value.
        hidden: whether rows may lack the column; it is then summed over.

    Raises:
        ValueError: a condition above is violated.

    >>> Column("a", ("no", "yes")).arity
    2
    """

    name: str
    states: tuple[str, ...]
    cuts: tuple[float, ...] | None = None
    hidden: bool = False

    def __post_init__(self) -> None:
        if not self.name or not self.states or len(set(self.states)) < len(self.states):
            raise ValueError(f"column '{self.name}' needs a name and distinct states")
        if self.cuts is None:
            return
        numbers = [*self.cuts, *map(float, self.cuts)]
        increasing = all(low < high for low, high in pairwise(self.cuts))
        ranges = len(self.states) - (self.states[-1] == GAP_STATE)
        if len(self.cuts) + 1 != ranges or not np.isfinite(numbers).all() or not increasing:
            raise ValueError(f"column '{self.name}' needs increasing cuts, one fewer than its ranges")

    @property
    def arity(self) -> int:
        """The number of states."""
        return len(self.states)

    def code(self, label: str) -> int:
        """Returns the position of a state.

        Raises:
            InputError: there is no such state.
        """
        if label not in self.states:
            reason = f"it has no state '{label}'"
            raise InputError("model", f"column '{self.name}'", reason, f"use one of {name_list(self.states)}")
        return self.states.index(label)


def position(names: Sequence[str], name: str) -> int:
    """Returns the position of a variable of a model.

    Raises:
        InputError: there is no variable of this name.
    """
    if name not in names:
        raise InputError("model", "variables", f"there is no '{name}'", f"use one of {name_list(names)}")
    return names.index(name)


def columns_of(table: DataTable | PartitionedTable) -> tuple[Column, ...]:
    """Returns the columns of a table, with the cuts that its provenance records."""
    cuts: dict[str, Sequence[float]] = table.provenance.get("cuts", {})
    return tuple(
        Column(name, states, tuple(cuts[name]) if name in cuts else None)
        for name, states in zip(table.names, table.states, strict=True)
    )


def states_of(columns: Iterable[Column]) -> dict[str, tuple[str, ...]]:
    """Returns the states of the columns that are not cut, by name."""
    return {column.name: column.states for column in columns if column.cuts is None}


def hidden_of(columns: Iterable[Column]) -> list[str]:
    """Returns the names of the hidden columns."""
    return [column.name for column in columns if column.hidden]


def codes_of(columns: Sequence[Column], table: DataTable) -> Codes:
    """Returns the rows of a table in the coding of a model, shape (columns, rows); -1 where one is hidden.

    Raises:
        InputError: a column is missing, or an observed state is unknown to the model.
    """
    if list(zip(table.names, table.states, strict=True)) == [(c.name, c.states) for c in columns]:
        return table.codes
    place = {name: i for i, name in enumerate(table.names)}
    _require_columns([column.name for column in columns if not column.hidden], place, "table")
    complete = all(column.name in place for column in columns)
    kind = code_type(max(column.arity for column in columns)) if complete else np.int32
    codes = np.empty((len(columns), table.rows), dtype=kind)
    for row, column in zip(codes, columns, strict=True):
        if column.name not in place:
            row[:] = GAP
            continue
        labels = table.states[place[column.name]]
        found = table.codes[place[column.name]]
        known = {label: code for code, label in enumerate(column.states)}
        places = np.array([known.get(label, GAP) for label in labels], dtype=np.int64)[found]
        if (places < 0).any():
            raise _unseen("table", column, labels[int(found[np.argmax(places < 0)])])
        row[:] = places
    return codes


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of a data file, not yet in the coding of a model.

    Args:
        columns: by the names of the model, in its order.
        gaps: words that mean a missing value.
        source: the file, for messages.
        weights: shape (rows,), how often each row counts; None for once.
    """

    columns: tuple[RawColumn, ...]
    gaps: tuple[str, ...]
    source: str
    weights: NDArray[np.int64] | None = None

    def new_states(
        self, table: DataTable | PartitionedTable, declared: Collection[str]
    ) -> dict[str, list[str]]:
        """Returns the values that the columns of a table do not have, by column.

        Args:
            table: its columns are those of the model.
            declared: columns whose states are the user's choice, and complete.
        """
        found = {}
        for raw, column in zip(self.columns, columns_of(table), strict=True):
            if column.cuts is None and column.name not in declared:
                known = {*column.states, *self.gaps}
                new = [raw.labels[i] for i in raw.occurring() if raw.labels[i] not in known]
                if new:
                    found[column.name] = new
        return found

    def codes(self, columns: Sequence[Column], *, unseen: int | None = None) -> NDArray[np.int32]:
        """Returns the rows in the coding of a model, shape (columns, rows); -1 where missing.

        If a column has the state "?", a gap is coded as that state.

        Args:
            columns: of the model.
            unseen: the code, below 0, of values that are not among the states; None to refuse them.

        Raises:
            InputError: a value is not among the states of its column.
        """
        pairs = zip(self.columns, columns, strict=True)
        return np.array(
            [_coded(raw, column, self.gaps, self.source, unseen) for raw, column in pairs], dtype=np.int32
        )


def open_rows(
    data: str | Path | Frame,
    names: Sequence[str],
    *,
    gaps: Sequence[str] = GAPS,
    dialect: Dialect = Dialect(),  # noqa: B008 - a frozen value
    decimal: Decimal = "point",
    weights: str | None = None,
    drop: Sequence[str] = (),
    states: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    hidden: Collection[str] = (),
    strict: bool = False,
    run: Run | None = None,
) -> FileRows:
    """Returns the rows of a data file or frame for a model; extra columns are ignored.

    Args:
        data: the path of the file, or the frame; for formats, see `tables.reading`.
        names: of the model's variables.
        gaps: words that mean a missing value.
        dialect: without a header, the columns are those of the model, in its order.
        decimal: see `Coding`.
        weights: the column that counts how often each row occurs, or None.
        drop: variables that will not be used, and need no data check.
        states: of columns whose values are states, for the data check.
        hidden: names of columns that may be missing: all of their values are.
        strict: whether findings of the data check (`check.OF_ROWS`) are errors.
        run: shows the findings; None leaves the check out.

    Raises:
        InputError: the file cannot be read, or a column is missing.
    """
    source, place = opened_data(data, dialect.encoding)
    raw, read = _raw_columns(source, place, names, dialect, weights=weights, hidden=hidden)
    by_name = {column.name: column for column in raw.columns}
    if weights is not None:
        _require_columns([weights], dict.fromkeys(by_name, 0), place)
    if run is not None:
        every = by_name | {name: replace(column, name=name) for name, column in read.items()}
        unused = tuple(name for name in drop if name in read)
        declared = {name: labels for name, labels in states.items() if name in read}
        coding = Coding(
            tuple(read), unused, weights=weights, missing_values=tuple(gaps), schema=declared, decimal=decimal
        )
        table = RawTable(tuple(every), tuple(every.values()), raw.typed)
        report_findings(examine(table, coding, place, kinds=OF_ROWS), place, run, strict=strict)
    if decimal == "comma":
        read = {name: column.with_decimal_point(gaps, typed=raw.typed) for name, column in read.items()}
    absent = RawColumn("", (), np.full(raw.columns[0].codes.size, GAP))
    columns = tuple(read.get(name, absent) for name in names)
    times = None
    if weights is not None:
        times, unit = row_weights(by_name[weights], None, place)
        if unit != 1:
            reason = "some weights are fractions, and rows are counted"
            raise InputError(place, f"column '{weights}'", reason, "count how often each row occurs")
    return FileRows(columns, gap_words(gaps, typed=raw.typed), place, times)


def read_codes(
    data: str | Path | Frame,
    columns: Sequence[Column],
    *,
    gaps: Sequence[str] = GAPS,
    header: bool = True,
    separator: str | None = None,
    decimal: Decimal = "point",
) -> NDArray[np.int32]:
    """Returns the rows of a file or frame in the coding of a model; see `open_rows` and `FileRows.codes`."""
    names = [column.name for column in columns]
    dialect, hidden = Dialect(header, separator), hidden_of(columns)
    rows = open_rows(data, names, gaps=gaps, dialect=dialect, decimal=decimal, hidden=hidden)
    return rows.codes(columns)


def read_values(
    data: str | Path | Frame,
    names: Sequence[str],
    *,
    gaps: Sequence[str] = GAPS,
    header: bool = True,
    separator: str | None = None,
    decimal: Decimal = "point",
) -> NDArray[np.float64]:
    """Returns the rows of a file or frame as numbers; see `open_rows` and `values_of`."""
    dialect = Dialect(header, separator)
    return values_of(open_rows(data, names, gaps=gaps, dialect=dialect, decimal=decimal), names)


def values_of(rows: FileRows, names: Sequence[str]) -> NDArray[np.float64]:
    """Returns rows as numbers, shape (columns, rows); NaN where missing.

    Raises:
        InputError: a value is not a finite number.
    """
    found = np.empty((len(names), rows.columns[0].codes.size))
    for row, name, column in zip(found, names, rows.columns, strict=True):
        labels = column.numbers()
        for i in column.occurring():
            if column.labels[i] in rows.gaps:
                labels[i] = np.nan
            elif np.isnan(labels[i]):
                raise InputError(
                    rows.source,
                    f"column '{name}'",
                    f"'{column.labels[i]}' is not a finite number",
                    "correct the value, or leave it empty to integrate it out",
                )
        row[:] = np.append(labels, np.nan)[column.codes]  # GAP is -1, which indexes the appended entry
    return found


def _raw_columns(
    source: Source | Frame,
    name: str,
    names: Sequence[str],
    dialect: Dialect,
    *,
    weights: str | None,
    hidden: Collection[str],
) -> tuple[RawTable, dict[str, RawColumn]]:
    """Returns a table, and its columns of these names, or by position if it has no header.

    It may lack those that are hidden.
    """
    intake = Intake(lambda one: not dialect.header or one in names or one == weights, together=False)
    raw = read_raw(source, intake, dialect)
    place = {column.name: i for i, column in enumerate(raw.columns)}
    wanted = [name for name in names if name in place or name not in hidden]
    if not dialect.header and not all(name in place for name in wanted):
        if len(raw.columns) != len(wanted):
            raise InputError(
                name,
                "",
                f"it has {len(raw.columns)} columns and no header, but the model has {len(wanted)}",
                "name the columns in a first line",
            )
        return raw, dict(zip(wanted, raw.columns, strict=True))
    _require_columns(wanted, place, name)
    return raw, {name: raw.columns[place[name]] for name in wanted}


def _coded(
    raw: RawColumn, column: Column, gaps: Sequence[str], source: str, unseen: int | None
) -> NDArray[np.int32]:
    """Returns the codes of a column of a file."""
    known = {label: code for code, label in enumerate(column.states)}
    gap = known.get(GAP_STATE, GAP)
    codes = np.array([known.get(label, GAP) for label in raw.labels], dtype=np.int32)
    strange = codes == GAP
    if column.cuts is not None:
        numbers = raw.numbers()
        numbers[[i for i, label in enumerate(raw.labels) if label in gaps]] = np.nan
        inside = np.isfinite(numbers)
        codes[inside] = np.searchsorted(np.array(column.cuts), numbers[inside], side="left")
        strange &= ~inside
    words = [i for i in np.flatnonzero(strange).tolist() if raw.labels[i] not in gaps]
    codes[strange] = gap
    if unseen is not None:
        codes[words] = unseen
    elif occurring := set(raw.occurring().tolist()).intersection(words):
        raise _unseen(source, column, raw.labels[min(occurring)])
    coded: NDArray[np.int32] = np.append(codes, np.int32(gap))[raw.codes]
    return coded


def _unseen(source: str, column: Column, label: str) -> InputError:
    what = "lies in none of its ranges" if column.cuts is not None else "is none of its states"
    return InputError(
        source,
        f"column '{column.name}'",
        f"'{label}' {what}, {name_list(column.states)}: the model assigns it no probability",
        "correct the value, leave it empty to sum over it, or fit a model with the state declared",
    )


def _require_columns(names: Sequence[str], place: Mapping[str, int], source: str) -> None:
    missing = [name for name in names if name not in place]
    if missing:
        raise InputError(
            source,
            "columns",
            f"there is none called {name_list(missing)}",
            "give every column of the model, or an empty one to sum over it",
        )
