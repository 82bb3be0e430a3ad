"""The coding of a model's columns (names, states, cuts), and its application to new data."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.errors import InputError
from jtsolve.tables.coding import GAP_STATE
from jtsolve.tables.gatherer import Intake
from jtsolve.tables.options import GAPS
from jtsolve.tables.raw import GAP
from jtsolve.tables.reading import opened_data, read_raw
from jtsolve.tables.selection import name_list
from jtsolve.tables.table import code_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.tables.frames import Frame
    from jtsolve.tables.raw import RawColumn, RawTable
    from jtsolve.tables.source import Source
    from jtsolve.tables.table import Codes, DataTable


@dataclass(frozen=True, slots=True)
class Column:
    """A discrete variable.

    Args:
        name: not empty.
        states: labels, at least one, unique.
        cuts: increasing boundaries of the ranges that the states stand for, one fewer than states; None if
            the column was not discretised.

    Raises:
        ValueError: a condition above is violated.

    >>> Column("a", ("no", "yes")).arity
    2
    """

    name: str
    states: tuple[str, ...]
    cuts: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.name or not self.states or len(set(self.states)) < len(self.states):
            raise ValueError(f"column '{self.name}' needs a name and distinct states")
        if self.cuts is None:
            return
        numbers = [*self.cuts, *map(float, self.cuts)]
        increasing = all(low < high for low, high in pairwise(self.cuts))
        if len(self.cuts) + 1 != len(self.states) or not np.isfinite(numbers).all() or not increasing:
            raise ValueError(f"column '{self.name}' needs increasing cuts, one fewer than its states")

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


def columns_of(table: DataTable) -> tuple[Column, ...]:
    """Returns the columns of a table, with the cuts that its provenance records."""
    cuts: dict[str, Sequence[float]] = table.provenance.get("cuts", {})
    return tuple(
        Column(name, states, tuple(cuts[name]) if name in cuts else None)
        for name, states in zip(table.names, table.states, strict=True)
    )


def codes_of(columns: Sequence[Column], table: DataTable) -> Codes:
    """Returns the rows of a table in the coding of a model, shape (columns, rows).

    Raises:
        InputError: a column is missing, or an observed state is unknown to the model.
    """
    if list(zip(table.names, table.states, strict=True)) == [(c.name, c.states) for c in columns]:
        return table.codes
    place = {name: i for i, name in enumerate(table.names)}
    _require_columns([column.name for column in columns], place, "table")
    codes = np.empty((len(columns), table.rows), dtype=code_type(max(c.arity for c in columns)))
    for row, column in zip(codes, columns, strict=True):
        labels = table.states[place[column.name]]
        found = table.codes[place[column.name]]
        known = {label: code for code, label in enumerate(column.states)}
        places = np.array([known.get(label, GAP) for label in labels], dtype=np.int64)[found]
        if (places < 0).any():
            raise _unseen("table", column, labels[int(found[np.argmax(places < 0)])])
        row[:] = places
    return codes


def read_codes(
    data: str | Path | Frame,
    columns: Sequence[Column],
    *,
    gaps: Sequence[str] = GAPS,
    header: bool = True,
    separator: str | None = None,
) -> NDArray[np.int32]:
    """Returns the rows of a file or frame in the coding of a model, shape (columns, rows); -1 where missing.

    Extra columns are ignored. If a column has the state "?", a gap is coded as that state.

    Args:
        data: the path of the file, or the frame; for formats, see `tables.reading`.
        columns: of the model.
        gaps: words that mean a missing value.
        header: whether the first line names the columns; otherwise they are those of the model, in its order.
        separator: of delimited text; None to guess.

    Raises:
        InputError: the file cannot be read, a column is missing, or a value is not among its states.
    """
    source, name = opened_data(data)
    names = [column.name for column in columns]
    raw, found = _raw_columns(source, name, names, header=header, separator=separator)
    words = () if raw.typed else gaps
    codes = [_coded(there, column, words, name) for there, column in zip(found, columns, strict=True)]
    return np.array(codes, dtype=np.int32)


def read_values(
    data: str | Path | Frame,
    names: Sequence[str],
    *,
    gaps: Sequence[str] = GAPS,
    header: bool = True,
    separator: str | None = None,
) -> NDArray[np.float64]:
    """Returns the rows of a data file or frame as numbers, shape (columns, rows); NaN where missing.

    Args, Raises: as `read_codes`; a value that is not a finite number is an error.
    """
    source, place = opened_data(data)
    raw, columns = _raw_columns(source, place, names, header=header, separator=separator)
    found = np.empty((len(names), raw.columns[0].codes.size))
    for row, name, column in zip(found, names, columns, strict=True):
        labels = column.numbers()
        for i in column.occurring():
            if np.isnan(labels[i]) and (raw.typed or column.labels[i] not in gaps):
                raise InputError(
                    place,
                    f"column '{name}'",
                    f"'{column.labels[i]}' is not a finite number",
                    "correct the value, or leave it empty to integrate it out",
                )
        row[:] = np.append(labels, np.nan)[column.codes]  # GAP is -1, which indexes the appended entry
    return found


def _raw_columns(
    data: Source | Frame, source: str, names: Sequence[str], *, header: bool, separator: str | None
) -> tuple[RawTable, list[RawColumn]]:
    """Returns a table, and its columns of these names, or by position if it has no header."""
    raw = read_raw(data, Intake(together=False), header=header, separator=separator)
    place = {column.name: i for i, column in enumerate(raw.columns)}
    if not header and not all(name in place for name in names):
        if len(raw.columns) != len(names):
            raise InputError(
                source,
                "",
                f"it has {len(raw.columns)} columns and no header, but the model has {len(names)}",
                "name the columns in a first line",
            )
        return raw, list(raw.columns)
    _require_columns(names, place, source)
    return raw, [raw.columns[place[name]] for name in names]


def _coded(raw: RawColumn, column: Column, gaps: Sequence[str], source: str) -> NDArray[np.int32]:
    """Returns the codes of a column of a file."""
    known = {label: code for code, label in enumerate(column.states)}
    numbers = raw.numbers() if column.cuts is not None else None
    gap = known.get(GAP_STATE, GAP)
    occurring = set(raw.occurring().tolist())
    codes = np.full(len(raw.labels), GAP, dtype=np.int32)
    for i, label in enumerate(raw.labels):
        if column.cuts is not None and numbers is not None and np.isfinite(numbers[i]):
            codes[i] = np.searchsorted(np.array(column.cuts), numbers[i], side="left")
        elif label in known:
            codes[i] = known[label]
        elif label in gaps:
            codes[i] = gap
        elif i in occurring:
            raise _unseen(source, column, label)
    coded = raw.recoded(codes).codes
    return np.where(raw.codes == GAP, np.int32(gap), coded)


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
