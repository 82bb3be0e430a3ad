"""The variables of models: columns of states, and of real numbers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.errors import InputError
from jtsolve.tables.raw import GAP, GAP_STATE
from jtsolve.tables.selection import name_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.tables.frames import FrameStyle
    from jtsolve.tables.partitions import PartitionedTable
    from jtsolve.tables.raw import RawColumn
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

    def observation(self, value: Any) -> str | list[float]:
        """Returns evidence on the column given a value, or a likelihood of each state as it is.

        A number stands for the range that it lies in.
        """
        from jtsolve.tables.frames import label_of

        if isinstance(value, list | tuple | np.ndarray):
            return list(value)
        if self.cuts is not None and isinstance(value, Real) and not np.isnan(float(value)):
            return self.states[int(np.searchsorted(np.array(self.cuts), float(value), side="left"))]
        return label_of(value)

    def parsed(self, text: str, _option: str) -> str:
        """Returns evidence on the column, as a user writes it."""
        return text

    def series(self, style: FrameStyle, codes: NDArray[np.integer[Any]]) -> Any:
        """Returns a column of a frame."""
        return style.column(self.name, self.states, codes)

    def read(
        self, raw: RawColumn, gaps: Sequence[str], source: str, unseen: int | None = None
    ) -> NDArray[np.int32]:
        """Returns the codes of a column of a file; -1 where missing.

        Args:
            raw: the column.
            gaps: words that mean a missing value; it is a state if there is one for it.
            source: the file, for messages.
            unseen: the code, below 0, of values that are not among the states; None to refuse them.

        Raises:
            InputError: a value is not among the states.
        """
        known = {label: code for code, label in enumerate(self.states)}
        gap = known.get(GAP_STATE, GAP)
        codes = np.array([known.get(label, GAP) for label in raw.labels], dtype=np.int32)
        strange = codes == GAP
        if self.cuts is not None:
            numbers = raw.numbers()
            numbers[[i for i, label in enumerate(raw.labels) if label in gaps]] = np.nan
            inside = np.isfinite(numbers)
            codes[inside] = np.searchsorted(np.array(self.cuts), numbers[inside], side="left")
            strange &= ~inside
        words = [i for i in np.flatnonzero(strange).tolist() if raw.labels[i] not in gaps]
        codes[strange] = gap
        if unseen is not None:
            codes[words] = unseen
        elif occurring := set(raw.occurring().tolist()).intersection(words):
            raise self.unseen(source, raw.labels[min(occurring)])
        coded: NDArray[np.int32] = np.append(codes, np.int32(gap))[raw.codes]
        return coded

    def unseen(self, source: str, label: str) -> InputError:
        """Returns the error for a value that is not among the states."""
        what = "lies in none of its ranges" if self.cuts is not None else "is none of its states"
        return InputError(
            source,
            f"column '{self.name}'",
            f"'{label}' {what}, {name_list(self.states)}: the model assigns it no probability",
            "correct the value, leave it empty to sum over it, or fit a model with the state declared",
        )


@dataclass(frozen=True, slots=True)
class RealColumn:
    """A variable of real numbers.

    Args:
        name: not empty.
    """

    name: str
    states: ClassVar[None] = None
    cuts: ClassVar[None] = None
    hidden: ClassVar[bool] = False

    def code(self, value: float) -> float:
        """Returns the number itself; see `Column.code`."""
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
        """Returns a column of a frame."""
        return style.numbers(self.name, values)

    def read(
        self, raw: RawColumn, gaps: Sequence[str], source: str, _unseen: int | None = None
    ) -> NDArray[np.float64]:
        """Returns the numbers of a column of a file; NaN where missing.

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
        raise InputError("model", "variables", f"there is no '{name}'", f"use one of {name_list(names)}")
    return names.index(name)


def columns_of(table: DataTable | PartitionedTable) -> tuple[Column, ...]:
    """Returns the columns of a table, with the cuts that its provenance records."""
    cuts: dict[str, Sequence[float]] = table.provenance.get("cuts", {})
    return tuple(
        Column(name, states, tuple(cuts[name]) if name in cuts else None)
        for name, states in zip(table.names, table.states, strict=True)
    )


def states_of(columns: Iterable[Column | RealColumn]) -> dict[str, tuple[str, ...]]:
    """Returns the states of the columns that have some and are not cut, by name."""
    return {column.name: column.states for column in columns if column.states and column.cuts is None}


def hidden_of(columns: Iterable[Column | RealColumn]) -> list[str]:
    """Returns the names of the hidden columns."""
    return [column.name for column in columns if column.hidden]


def codes_of(columns: Sequence[Column], table: DataTable) -> Codes:
    """Returns the rows of a table in the coding of a model, shape (columns, rows); -1 where one is hidden.

    Raises:
        InputError: a column is missing, or an observed state is unknown to the model.
    """
    from jtsolve.tables.table import code_type

    if list(zip(table.names, table.states, strict=True)) == [(c.name, c.states) for c in columns]:
        return table.codes
    place = {name: i for i, name in enumerate(table.names)}
    require_columns([column.name for column in columns if not column.hidden], place, "table")
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
            raise column.unseen("table", labels[int(found[np.argmax(places < 0)])])
        row[:] = places
    return codes


def require_columns(names: Sequence[str], place: Mapping[str, int], source: str) -> None:
    """Checks that the columns of a model are among those of a table or file.

    Raises:
        InputError: one is not.
    """
    missing = [name for name in names if name not in place]
    if missing:
        raise InputError(
            source,
            "columns",
            f"there is none called {name_list(missing)}",
            "give every column of the model, or an empty one to sum over it",
        )
