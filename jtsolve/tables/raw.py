"""The columns of a file as they stand there, in little room: different values once, a code for each row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

GAP = -1
"""The code of a missing value."""


@dataclass(frozen=True, slots=True, eq=False)
class RawColumn:
    """A column: in row r stands `labels[codes[r]]`, or nothing if the code is `GAP`.

    Args:
        name: of the column.
        labels: the different values, in any order; not all need to occur.
        codes: shape (rows,), of a signed type.
        states: the states that the file declares, or None.
    """

    name: str
    labels: tuple[str, ...]
    codes: NDArray[np.signedinteger[Any]]
    states: tuple[str, ...] | None = None

    def gaps(self, times: NDArray[np.int64] | None) -> int:
        """Returns the number of rows in which nothing stands; `times` says how often each row counts."""
        empty = self.codes == GAP
        return int(empty.sum() if times is None else times[empty].sum())

    def occurring(self) -> NDArray[np.intp]:
        """Returns the codes that occur, in increasing order."""
        return np.flatnonzero(np.bincount(self.codes[self.codes != GAP], minlength=len(self.labels)))

    def present(self) -> NDArray[np.bool_]:
        """Returns in which rows something stands."""
        present: NDArray[np.bool_] = self.codes != GAP
        return present

    def numbers(self) -> NDArray[np.float64]:
        """Returns the number that each label stands for; NaN where it is no finite number."""
        return np.array([_number(label) for label in self.labels])

    def first_word(self) -> str | None:
        """Returns an occurring label that is no finite number, or None if there is none."""
        return next((self.labels[i] for i in self.occurring() if np.isnan(_number(self.labels[i]))), None)

    def recoded(self, codes: NDArray[np.int32]) -> RawColumn:
        """Returns the column with each code replaced: label i by `codes[i]`, which may be `GAP`."""
        # GAP is -1: the entry added at the end.
        kind = signed_type(int(codes.max(initial=0)) + 1)
        return replace(self, codes=np.append(codes, GAP).astype(kind)[self.codes])

    def where(self, rows: NDArray[np.bool_]) -> RawColumn:
        """Returns the column with the chosen rows only."""
        return replace(self, codes=self.codes[rows])


def signed_type(labels: int) -> type[np.int8 | np.int16 | np.int32]:
    """Returns the smallest type for the codes of so many labels, and for `GAP`.

    >>> signed_type(128).__name__, signed_type(129).__name__
    ('int8', 'int16')
    """
    return np.int8 if labels <= 1 << 7 else np.int16 if labels <= 1 << 15 else np.int32


def _number(label: str) -> float:
    try:
        value = float(label)
    except ValueError:
        return nan
    return value if isfinite(value) and "_" not in label else nan  # Python reads 1_000 as a number


@dataclass(frozen=True, slots=True, eq=False)
class RawTable:
    """The columns of a file.

    Args:
        names: of all its columns.
        columns: those that were asked for, in the order of the file.
        typed: whether gaps are marked by the format, and not by words.
        times: shape (rows,): how often each row stands in the file; None for once.
    """

    names: tuple[str, ...]
    columns: tuple[RawColumn, ...]
    typed: bool
    times: NDArray[np.int64] | None = None


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
