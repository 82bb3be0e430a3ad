"""The variables of models: discrete and real columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.errors import InputError, name_list, use_one_of
from jtsolve.tables.raw import GAP
from jtsolve.tables.values import ColumnStates, is_missing, label_of, number_in, text_label, value_kind

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.tables.frames import FrameStyle
    from jtsolve.tables.margins import Margin
    from jtsolve.tables.partitions import AnyTable, PartitionedTable
    from jtsolve.tables.raw import RawColumn
    from jtsolve.tables.table import Codes, DataTable
    from jtsolve.tables.values import ValueKind


@dataclass(frozen=True, slots=True)
class Column:
    """A discrete variable.

    Args:
        name: not empty, without blanks around it.
        states: labels, at least one, distinct, none blank, without blanks around them.
        cuts: increasing boundaries of the ranges that the states stand for, one fewer than ranges; None if
            the column was not discretised.
        hidden: whether rows may lack the column, which is then summed out.
        kind: of the values; see `tables.values`.
        gap: whether the last state stands for a missing value.

    Raises:
        ValueError: a condition above is violated.

    >>> Column("a", ("no", "yes")).arity
    2
    """

    name: str
    states: tuple[str, ...]
    cuts: tuple[float, ...] | None = None
    hidden: bool = False
    kind: ValueKind = "text"
    gap: bool = False

    def __post_init__(self) -> None:
        written = (self.name, *self.states)
        unfit = not self.states or tuple(map(text_label, written)) != written or "" in written
        if unfit or len(set(self.states)) < len(self.states):
            raise ValueError(
                f"column '{self.name}' needs a name and distinct states, none of them blank or with blanks "
                "around it"
            )
        if self.cuts is None:
            return
        numbers = [*self.cuts, *map(float, self.cuts)]
        increasing = all(low < high for low, high in pairwise(self.cuts))
        ranges = len(self.values.own)
        if len(self.cuts) + 1 != ranges or not np.isfinite(numbers).all() or not increasing:
            raise ValueError(f"column '{self.name}' needs increasing cuts, one fewer than its ranges")

    @property
    def values(self) -> ColumnStates:
        """The states as values."""
        return ColumnStates(self.states, self.kind, self.gap)

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
            raise InputError("model", f"column '{self.name}'", reason, use_one_of(label, self.states))
        return self.states.index(label)

    def observation(self, value: Any) -> str | list[float]:
        """Returns evidence on the column: the state of a value, or a likelihood of each state, unchanged.

        A number stands for the range that contains it, and a missing value for its state, if there is one.

        Raises:
            InputError: there is no such state, or more than one.
        """
        if isinstance(value, list | tuple | np.ndarray):
            return list(value)
        if is_missing(value):
            if not self.gap:
                reason = "a missing value is no state of it"
                raise InputError("model", f"column '{self.name}'", reason, "leave it out to sum it out")
            return self.states[-1]
        if isinstance(value, str) and value in self.states:
            return value
        return self._state(label_of(value), value_kind(value))

    def parsed(self, text: str, _option: str) -> str:
        """Returns evidence on the column, as a user writes it."""
        return self._state(text, None)

    def _state(self, label: str, kind: ValueKind | None) -> str:
        (code,) = self.places([label], kind)
        if code < 0 and kind in (None, "text"):
            code = self.code(label)  # of the state for a missing value
        if code < 0:
            reason = f"it has no state '{label}', or several that are the {kind} {label}"
            raise InputError("model", f"column '{self.name}'", reason, use_one_of(label, self.states))
        return self.states[code]

    def places(self, labels: Sequence[str], kind: ValueKind | None) -> list[int]:
        """Returns the state of each value; -1 where there is none, or more than one.

        Args:
            labels: the values as text.
            kind: of the values; None for cells of a text file.
        """
        places = self.values.places(labels, kind)
        if self.cuts is not None and kind not in ("boolean", "time"):
            for at, label in enumerate(labels):
                number = number_in(label) if places[at] < 0 else None
                if number is not None:
                    places[at] = int(np.searchsorted(np.array(self.cuts), float(number), side="left"))
        return places

    def series(self, style: FrameStyle, codes: NDArray[Any]) -> Any:
        """Returns a column of a frame from codes of shape (rows,); -1, or NaN, stands for a missing value."""
        if codes.dtype.kind == "f":
            codes = np.where(np.isnan(codes), GAP, codes).astype(np.int32)
        return style.column(self.name, self.values, codes)

    def read(
        self, raw: RawColumn, gaps: Container[str], source: str, unseen: int | None = None
    ) -> NDArray[np.int32]:
        """Returns the codes of a column of a file, shape (rows,); -1 where missing.

        Args:
            raw: the column.
            gaps: words that mean a missing value; it is a state if there is one for it.
            source: the file, for messages.
            unseen: the code, below 0, of values that are not states; None to refuse them.

        Raises:
            InputError: a value is not a state.
        """
        exact = set(self.values.own)
        codes = np.array(self.places(raw.labels, raw.kind), dtype=np.int32)
        own_gap = self.states[-1] if self.gap and raw.kind is None else None
        missing = np.array(
            [label == own_gap or (label in gaps and label not in exact) for label in raw.labels], dtype=bool
        )
        strange = np.flatnonzero((codes < 0) & ~missing)
        if unseen is not None:
            codes[strange] = unseen
        elif occurring := set(raw.occurring().tolist()).intersection(strange.tolist()):
            raise self.unseen(source, raw.labels[min(occurring)], raw.kind)
        gap = np.int32(len(exact) if self.gap else GAP)
        codes[missing] = gap
        coded: NDArray[np.int32] = np.append(codes, gap)[raw.codes]
        return coded

    def unseen(self, source: str, label: str, kind: ValueKind | None = None) -> InputError:
        """Returns the error for a value that matches no state, or several.

        Args:
            source: of the data, for the error.
            label: the value.
            kind: of the value; None if it is that of the states.
        """
        what = "lies in none of its ranges" if self.cuts is not None else "is none of its states"
        why = "the model assigns it no probability"
        if kind not in (None, self.kind) and self.cuts is None:
            why = f"no state, or more than one, is the {kind} {label}"
        return InputError(
            source,
            f"column '{self.name}'",
            f"'{label}' {what}, {name_list(self.states)}: {why}",
            "correct the value, leave it empty to sum it out, or fit a model with the state declared",
        )


@dataclass(frozen=True, slots=True)
class RealColumn:
    """A real variable.

    Args:
        name: not empty.
        margin: the map to the score, which is normal in each cell; None if the score is the number itself.
    """

    name: str
    margin: Margin | None = None
    states: ClassVar[None] = None
    cuts: ClassVar[None] = None
    hidden: ClassVar[bool] = False
    kind: ClassVar[ValueKind] = "text"
    gap: ClassVar[bool] = False

    def code(self, value: float) -> float:
        """Returns the number itself; see `Column.code`.

        Raises:
            InputError: it is not finite.
        """
        if not np.isfinite(value):
            raise InputError("evidence", f"'{self.name}'", f"{value} is not a finite number", "give a number")
        return value

    def observation(self, value: Any) -> float:
        """Returns evidence on the variable.

        Raises:
            InputError: the value is not a number.
        """
        if not isinstance(value, Real):
            raise InputError("given", f"'{self.name}'", f"{value!r} is not a number", "give a number")
        return float(value)

    def parsed(self, text: str, option: str) -> float:
        """Returns evidence on the variable, as a user writes it."""
        return number(text, option, self.name)

    def series(self, style: FrameStyle, values: NDArray[np.float64]) -> Any:
        """Returns a column of a frame, shape (rows,)."""
        return style.numbers(self.name, values)

    def read(
        self, raw: RawColumn, gaps: Container[str], source: str, _unseen: int | None = None
    ) -> NDArray[np.float64]:
        """Returns the numbers of a column of a file, shape (rows,); NaN where missing.

        Args:
            raw: the column.
            gaps: words that mean a missing value.
            source: the file, for errors.

        Raises:
            InputError: a value is not a finite number.
        """
        labels = raw.numbers()
        for i in raw.occurring():
            if raw.labels[i] in gaps:
                labels[i] = np.nan
            elif np.isnan(labels[i]):
                raise InputError(
                    source,
                    f"column '{self.name}'",
                    f"'{raw.labels[i]}' is not a finite number",
                    "correct the value, or leave it empty to integrate it out",
                )
        values: NDArray[np.float64] = np.append(labels, np.nan)[raw.codes]  # GAP is -1: the appended entry
        return values


def number(text: str, option: str, name: str) -> float:
    """Returns the number that a user writes for a variable.

    Args:
        text: as written.
        option: its name, for errors.
        name: of the variable.

    Raises:
        InputError: it is none.
    """
    try:
        return float(text)
    except ValueError:
        raise InputError(option, f"'{name}'", f"'{text}' is not a number", "write a number") from None


def position(names: Sequence[str], name: str) -> int:
    """Returns the position of a variable of a model.

    Raises:
        InputError: there is no variable of this name.
    """
    if name not in names:
        raise InputError("model", "variables", f"there is no '{name}'", use_one_of(name, names))
    return names.index(name)


def inner_knots(columns: Sequence[Column | RealColumn]) -> int:
    """Returns the number of inner knots of all margins, which are free parameters."""
    margins = [column.margin for column in columns if isinstance(column, RealColumn)]
    return sum(len(margin.values) - 2 for margin in margins if margin is not None)


def variables_of(table: AnyTable) -> tuple[Column | RealColumn, ...]:
    """Returns the columns of a discrete, real or mixed table."""
    discrete: Any = getattr(table, "discrete", table if hasattr(table, "states") else None)
    known = {} if discrete is None else {one.name: one for one in columns_of(discrete)}
    return tuple(known.get(name) or RealColumn(name) for name in table.names)


def columns_of(table: DataTable | PartitionedTable) -> tuple[Column, ...]:
    """Returns the columns of a table, with the cuts that its provenance records."""
    cuts: Mapping[str, Sequence[float]] = table.provenance.get("cuts", {})
    kinds: Mapping[str, ValueKind] = table.provenance.get("kinds", {})
    gaps = table.provenance.get("missing_states", ())
    return tuple(
        Column(
            name,
            states,
            tuple(cuts[name]) if name in cuts else None,
            kind=kinds.get(name, "text"),
            gap=name in gaps,
        )
        for name, states in zip(table.names, table.states, strict=True)
    )


def coded_table(
    columns: Sequence[Column], codes: Codes, weights: NDArray[np.int64] | None, unit: float
) -> DataTable:
    """Returns rows in the coding of a model as a table with the same columns.

    Args:
        columns: of the model.
        codes: shape (columns, rows).
        weights: multiplicity of each row, shape (rows,); None for 1.
        unit: of the weights.
    """
    from jtsolve.tables.coding import kinds_remarks
    from jtsolve.tables.table import DataTable

    remarks = kinds_remarks({column.name: column.values for column in columns})
    remarks["cuts"] = {column.name: list(column.cuts) for column in columns if column.cuts is not None}
    names, states = zip(*((column.name, column.states) for column in columns), strict=True)
    return DataTable(names, states, codes, weights, MappingProxyType(remarks), unit)


def states_by_name(columns: Iterable[Column | RealColumn]) -> dict[str, ColumnStates]:
    """Returns the states of the discrete columns that are not cut, by name."""
    return {
        column.name: column.values for column in columns if isinstance(column, Column) and column.cuts is None
    }


def hidden_of(columns: Iterable[Column | RealColumn]) -> list[str]:
    """Returns the names of the hidden columns."""
    return [column.name for column in columns if column.hidden]


def codes_of(columns: Sequence[Column], table: DataTable) -> Codes:
    """Returns the rows of a table in the coding of a model, shape (columns, rows); -1 for hidden columns.

    Raises:
        InputError: a column is missing, or a value is not a state of the model.
    """
    from jtsolve.tables.table import code_type

    if list(zip(table.names, table.states, strict=True)) == [(c.name, c.states) for c in columns]:
        return table.codes
    place = {name: i for i, name in enumerate(table.names)}
    require_columns([column.name for column in columns if not column.hidden], place, "table")
    complete = all(column.name in place for column in columns)
    kind = code_type(max(column.arity for column in columns)) if complete else np.int32
    codes = np.empty((len(columns), table.rows), dtype=kind)
    held = columns_of(table)
    for row, column in zip(codes, columns, strict=True):
        if column.name not in place:
            row[:] = GAP
            continue
        other, found = held[place[column.name]], table.codes[place[column.name]]
        known = [*column.places(other.values.own, other.kind), column.arity - 1 if column.gap else GAP]
        places = np.array(known, dtype=np.int64)[found]
        if (places < 0).any():
            raise column.unseen("table", other.states[int(found[np.argmax(places < 0)])], other.kind)
        row[:] = places
    return codes


def require_columns(names: Sequence[str], place: Mapping[str, int], source: str) -> None:
    """Checks that the columns of a model are among those of a table or file.

    Args:
        names: of the model's columns.
        place: position by name in the table.
        source: of the table, for errors.

    Raises:
        InputError: a column is missing.
    """
    missing = [name for name in names if name not in place]
    if missing:
        raise InputError(
            source,
            "columns",
            f"there is none called {name_list(missing)}",
            "give every column of the model, or an empty one to sum it out",
        )
