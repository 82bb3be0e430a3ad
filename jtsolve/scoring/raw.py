"""The columns of a file as they stand there, in little room: different values once, a code for each row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl
    from numpy.typing import NDArray

GAP = -1
"""The code of a missing value."""


@dataclass(frozen=True, slots=True, eq=False)
class RawColumn:
    """A column: in row r stands `labels[codes[r]]`, or nothing if the code is `GAP`.

    Args:
        name: of the column.
        labels: the different values, in any order; not all need to occur.
        codes: shape (rows,).
        states: the states that the file declares, or None.
    """

    name: str
    labels: tuple[str, ...]
    codes: NDArray[np.int32]
    states: tuple[str, ...] | None = None

    @property
    def gaps(self) -> int:
        """The number of rows in which nothing stands."""
        return int((self.codes == GAP).sum())

    def occurring(self) -> NDArray[np.intp]:
        """Returns the codes that occur, in increasing order."""
        return np.flatnonzero(np.bincount(self.codes[self.codes != GAP], minlength=len(self.labels)))

    def numbers(self) -> NDArray[np.float64]:
        """Returns the number that each label stands for; NaN where it is no finite number."""
        return np.array([_number(label) for label in self.labels])

    def first_word(self) -> str | None:
        """Returns an occurring label that is no finite number, or None if there is none."""
        return next((self.labels[i] for i in self.occurring() if np.isnan(_number(self.labels[i]))), None)

    def recoded(self, codes: NDArray[np.int32]) -> RawColumn:
        """Returns the column with each code replaced: label i by `codes[i]`, which may be `GAP`."""
        # GAP is -1: the entry added at the end.
        return replace(self, codes=np.append(codes, GAP).astype(np.int32)[self.codes])

    def where(self, rows: NDArray[np.bool_]) -> RawColumn:
        """Returns the column with the chosen rows only."""
        return replace(self, codes=self.codes[rows])


def _number(label: str) -> float:
    try:
        value = float(label)
    except ValueError:
        return nan
    return value if isfinite(value) and "_" not in label else nan  # Python reads 1_000 as a number


@dataclass(frozen=True, slots=True, eq=False)
class RawTable:
    """The columns of a file; `typed` tells whether gaps are marked by the format and not by words."""

    columns: tuple[RawColumn, ...]
    typed: bool


@dataclass(slots=True)
class Encoder:
    """Makes the codes of a column from its values, piece by piece."""

    known: dict[str, int] = field(default_factory=dict)
    pieces: list[NDArray[np.int32]] = field(default_factory=list)

    def add(self, values: pl.Series, label: Callable[[object], str] = str) -> None:
        """Adds values; null is a gap. Different values may have the same label."""
        import polars as pl

        different = values.drop_nulls().unique(maintain_order=True).to_list()
        if not different:
            self.pieces.append(np.full(len(values), GAP, dtype=np.int32))
            return
        codes = [self.known.setdefault(label(value), len(self.known)) for value in different]
        coded = values.replace_strict(different, codes, default=None, return_dtype=pl.Int32)
        self.pieces.append(coded.fill_null(GAP).to_numpy())

    def column(self, name: str, states: tuple[str, ...] | None = None) -> RawColumn:
        """Returns the column, and forgets the pieces."""
        codes = np.concatenate(self.pieces)
        self.pieces.clear()
        return RawColumn(name, tuple(self.known), codes, states)


def require_distinct(names: Sequence[str], source: str) -> None:
    """Finds out whether every column has a name of its own.

    Raises:
        InputError: a name is empty or there twice.
    """
    seen: set[str] = set()
    for position, name in enumerate(names):
        if not name or name in seen:
            raise InputError(
                source,
                f"the name of column {position + 1}",
                f"'{name}' is there twice" if name else "it is empty",
                "name every column, each differently; say --no-header if the first line is a row",
            )
        seen.add(name)


def ragged(source: str, line: int, found: int, wanted: int) -> InputError:
    """Returns the error for a row with too few or too many values."""
    return InputError(
        source,
        f"line {line}",
        f"it has {found} values, but there are {wanted} columns",
        "give every row a value for every column, or name the separator with --separator",
    )
