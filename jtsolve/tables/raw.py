"""Columns as read from a file, stored compactly: the distinct values, and a code for each row."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import InputError
from jtsolve.tables.options import HEADER, SEPARATOR
from jtsolve.tables.values import label_of, number_in

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from numpy.typing import NDArray

    from jtsolve.tables.values import ValueKind

GAP = -1
"""Code of a missing value."""

DECIMAL_COMMA = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?(?:[eE][+-]?\d+)?")
"""A number with a decimal comma, and perhaps points between thousands."""


@dataclass(frozen=True, slots=True, eq=False)
class RawColumn:
    """A column: row r holds `labels[codes[r]]`, or nothing if the code is `GAP`.

    Args:
        name: of the column.
        labels: distinct values in any order; some may not occur.
        codes: shape (rows,), of a signed type.
        states: states declared by the file, or None.
        kind: of the values; None for cells of a text file, whose kind is not decided yet.
        commas: whether its labels were numbers with decimal commas.
    """

    name: str
    labels: tuple[str, ...]
    codes: NDArray[np.signedinteger[Any]]
    states: tuple[str, ...] | None = None
    kind: ValueKind | None = None
    commas: bool = False

    def counts(self, times: NDArray[np.int64] | None = None) -> tuple[int, NDArray[np.int64]]:
        """Returns the number of missing values, and how often each label occurs, shape (labels,).

        Args:
            times: shape (rows,), multiplicity of each row; None for 1.
        """
        # Shifted, so that the first entry counts the missing values.
        found = np.bincount(self.codes.astype(np.int64) - GAP, times, len(self.labels) + 1).astype(np.int64)
        return int(found[0]), found[1:]

    def gaps(self, times: NDArray[np.int64] | None = None) -> int:
        """Returns the number of missing values; `times` has shape (rows,), the multiplicities of the rows."""
        empty = self.codes == GAP
        return int(empty.sum() if times is None else times[empty].sum())

    def occurring(self) -> NDArray[np.intp]:
        """Returns the codes that occur, in increasing order, shape (m,)."""
        return np.flatnonzero(self.counts()[1])

    def occurring_numbers(self) -> NDArray[np.float64]:
        """Returns the labels that occur as numbers, shape (m,); NaN for those that are not finite numbers."""
        return self.numbers()[self.occurring()]

    def present(self) -> NDArray[np.bool_]:
        """Returns which rows have a value, shape (rows,)."""
        present: NDArray[np.bool_] = self.codes != GAP
        return present

    def numbers(self) -> NDArray[np.float64]:
        """Returns each label as a number, shape (labels,); NaN where it is not a finite number."""
        return np.array([_number(label) for label in self.labels], dtype=np.float64)

    def first_word(self) -> str | None:
        """Returns an occurring label that is not a finite number, or None."""
        return next((self.labels[i] for i in self.occurring() if np.isnan(_number(self.labels[i]))), None)

    def with_decimal_point(self, gaps: Container[str], *, always: bool = False) -> RawColumn:
        """Returns the column with numbers in place of texts with decimal commas, if all its texts are such.

        Args:
            gaps: words that mean a missing value.
            always: whether to convert every such text, even beside other words.

        >>> RawColumn("a", ("1.234,50", "7"), np.array([0, 1])).with_decimal_point(()).labels
        ('1234.5', '7')
        """
        words = [self.labels[i] for i in self.occurring() if self.labels[i] not in gaps]
        marked = self.kind in (None, "text") and any("," in word or "." in word for word in words)
        if not marked or not (always or all(map(DECIMAL_COMMA.fullmatch, words))):
            return self
        turned = [
            label_of(float(label.replace(".", "").replace(",", ".")))
            if DECIMAL_COMMA.fullmatch(label)
            else label
            for label in self.labels
        ]
        place = {label: code for code, label in enumerate(dict.fromkeys(turned))}
        recoded = self.recoded(np.array([place[label] for label in turned], dtype=np.int32))
        return replace(recoded, labels=tuple(place), kind=None if always else "number", commas=True)

    def recoded(self, codes: NDArray[np.int32]) -> RawColumn:
        """Returns the column with code i replaced by `codes[i]`, shape (labels,), which may be `GAP`."""
        kind = signed_type(int(codes.max(initial=0)) + 1)
        if np.array_equal(codes, np.arange(codes.size)):
            return replace(self, codes=self.codes.astype(kind))
        # GAP is -1, which indexes the appended entry.
        return replace(self, codes=np.append(codes, GAP).astype(kind)[self.codes])

    def where(self, rows: NDArray[np.bool_]) -> RawColumn:
        """Returns the column restricted to the chosen rows, a mask of shape (rows,)."""
        return replace(self, codes=self.codes[rows])


def signed_type(labels: int) -> type[np.int8 | np.int16 | np.int32]:
    """Returns the smallest type for this many codes and `GAP`.

    >>> signed_type(128).__name__, signed_type(129).__name__
    ('int8', 'int16')
    """
    return np.int8 if labels <= 1 << 7 else np.int16 if labels <= 1 << 15 else np.int32


def _number(label: str) -> float:
    number = number_in(label)
    return nan if number is None else float(number)


@dataclass(frozen=True, slots=True, eq=False)
class RawTable:
    """The columns of a file.

    Args:
        names: of all its columns.
        columns: the requested ones, in file order.
        typed: whether the format itself marks gaps, rather than words such as NA.
        times: shape (rows,), how often each row occurs in the file; None for once.
        index: whether labels of the rows were left out: an index, or a first column without a name.
        weights: the column with the weights that the format gives the rows; the user may choose another.
        crosstab: the variable that columns of counts made, and these columns, as in `Coding.crosstab`; None
            without.
    """

    names: tuple[str, ...]
    columns: tuple[RawColumn, ...]
    typed: bool
    times: NDArray[np.int64] | None = None
    index: bool = False
    weights: str | None = None
    crosstab: str | None = None


def require_distinct(names: Sequence[str], source: str, *, index: bool = False) -> None:
    """Checks that the names of columns are unique and not empty.

    Args:
        names: of all columns.
        source: for messages.
        index: whether the first of several may be empty, as that of an index.

    Raises:
        InputError: a name is empty or repeated.
    """
    seen: set[str] = set()
    for position, name in enumerate(names):
        if index and not name and position == 0 and len(names) > 1:
            continue
        if not name or name in seen:
            reason = f"'{name}' occurs twice" if name else "it is empty"
            remedy = f"give every column a unique name, or, if the first line is a row, {HEADER}"
            raise InputError(source, f"the name of column {position + 1}", reason, remedy)
        seen.add(name)


def ragged(source: str, line: int, found: int, wanted: int) -> InputError:
    """Returns the error for a row with too few or too many values.

    Args:
        source: the file.
        line: its number.
        found: number of values.
        wanted: number of columns.
    """
    return InputError(
        source,
        f"line {line}",
        f"it has {found} values, but there are {wanted} columns",
        "give every row a value for every column, remove lines above the names of the columns, or set the "
        f"separator with {SEPARATOR}",
    )
