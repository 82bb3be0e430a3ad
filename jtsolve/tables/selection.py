"""Selection of columns and rows, and treatment of missing values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log2
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import InputError, name_list, use_one_of
from jtsolve.tables.options import DROP, GAPS, MISSING, MISSING_VALUES, TREATMENTS, gap_words
from jtsolve.tables.raw import GAP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.tables.options import Coding
    from jtsolve.tables.raw import RawColumn, RawTable

_MOST_WEIGHT = 2.0**53
_STEPS = 40
"""The unit of fractional weights is about 2^-40 of their sum, so that products of counts do not overflow."""


@dataclass(frozen=True, slots=True)
class Subtable:
    """Selected columns and rows of a file.

    Args:
        columns: columns to keep, in the requested order.
        weights: shape (rows,), multiplicity of each row, in counts of `unit`; None for 1.
        classes: the class column for discretisation, which may be dropped otherwise; None without one.
        remarks: on the changes made, for the provenance.
        unit: see `DataTable`.
    """

    columns: list[RawColumn]
    weights: NDArray[np.int64] | None
    classes: RawColumn | None
    remarks: dict[str, Any]
    unit: float = 1.0

    @property
    def times(self) -> NDArray[np.int64] | None:
        """The multiplicity of each row, shape (rows,); None for once, and for fractional weights."""
        return self.weights if self.unit == 1 else None

    def where(self, rows: NDArray[np.bool_]) -> Subtable:
        """Returns the selection restricted to the chosen rows, a mask of shape (rows,)."""
        return replace(
            self,
            columns=[column.where(rows) for column in self.columns],
            weights=None if self.weights is None else self.weights[rows],
            classes=None if self.classes is None else self.classes.where(rows),
        )


def selected(
    raw: RawTable, coding: Coding, source: str, treatments: Sequence[str] = TREATMENTS[1:]
) -> Subtable:
    """Returns the columns to keep, with gaps treated, and the weights of the rows.

    Args:
        raw: the columns as read.
        coding: the user's choices.
        source: the file, for messages.
        treatments: treatments of missing values that apply to the columns; messages recommend the first.
    """
    return without_gaps(kept_columns(raw, coding, source), coding, source, treatments)


def kept_columns(raw: RawTable, coding: Coding, source: str) -> Subtable:
    """Returns the columns to keep, with gaps marked but not treated, and the weights of the rows.

    Args:
        raw: the columns as read.
        coding: names the columns to keep or to drop, and the weights.
        source: the file, for errors.

    Raises:
        InputError: a column is unknown or named twice, or none is left.
    """
    special = [name for name in (coding.weights, coding.classes) if name is not None]
    unknown = [
        name
        for name in dict.fromkeys(
            (*(coding.columns or ()), *coding.drop, *coding.schema, *coding.states, *coding.real, *special)
        )
        if name not in raw.names
    ]
    if unknown:
        reason = f"there is none called {name_list(unknown)}"
        raise InputError(source, "columns", reason, use_one_of(unknown[0], raw.names))
    out = {*coding.drop, coding.weights}
    chosen = raw.names if coding.columns is None else coding.columns
    keep = [name for name in chosen if name not in out]
    if not keep or len(set(keep)) < len(keep):
        raise InputError(source, "columns", "none is left, or one is named twice", "name each column once")
    by_name = {column.name: column for column in raw.columns}
    columns = [with_gaps(by_name[name], raw, coding) for name in keep]
    classes = None if coding.classes is None else with_gaps(by_name[coding.classes], raw, coding)
    remarks: dict[str, Any] = {"missing": coding.missing}
    if tuple(coding.missing_values) != GAPS:
        remarks["missing_value_words"] = list(coding.missing_values)
    if coding.decimal != "point":
        remarks["decimal"] = coding.decimal
        remarks["decimal_columns"] = [column.name for column in columns if column.commas]
    kept = {*keep, coding.weights}
    if dropped := [name for name in raw.names if name not in kept]:
        remarks["columns_dropped"] = dropped
    if raw.index:
        remarks["index"] = "left out: the labels of the rows, a first column without a name"
    if coding.class_column is not None:
        remarks["class"] = coding.class_column
    selection = Subtable(columns, raw.times, classes, remarks)
    if raw.crosstab is not None:
        remarks["crosstab"] = raw.crosstab
    if coding.weights is not None:
        remarks["weights"] = coding.weights
        weights, unit = row_weights(by_name[coding.weights], raw.times, source)
        selection = replace(selection, weights=weights, unit=unit).where(weights > 0)
    return selection


def with_gaps(column: RawColumn, raw: RawTable, coding: Coding) -> RawColumn:
    """Returns the column with gaps in place of words for missing values, except declared states.

    Args:
        column: as read.
        raw: its table.
        coding: the words for missing values.
    """
    words = gap_words(coding.missing_values, typed=raw.typed)
    if coding.decimal == "comma":
        column = column.with_decimal_point(words)
    declared = set(map(str, coding.schema.get(column.name, ()))) | set(column.states or ())
    gaps = [label in words and label not in declared for label in column.labels]
    if not any(gaps):
        return column
    codes = [GAP if gap else code for code, gap in enumerate(gaps)]
    return column.recoded(np.array(codes, dtype=np.int32))


def row_weights(
    column: RawColumn, times: NDArray[np.int64] | None, source: str
) -> tuple[NDArray[np.int64], float]:
    """Returns the weight of each row, times its multiplicity, in units, shape (rows,); and the unit.

    Args:
        column: the weights.
        times: multiplicity of each row, shape (rows,); None for once.
        source: the file, for errors.

    Raises:
        InputError: a weight is no number or negative, or the sum is 0 or too large.
    """
    by_label = column.numbers()
    valid = column.gaps() == 0 and bool((by_label >= 0).all())
    numbers = by_label[column.codes] if valid else np.zeros(1)
    if valid and times is not None:
        numbers = numbers * times
    total = float(numbers.sum())
    if not 0 < total < _MOST_WEIGHT:
        reason = (
            f"the weights sum to {total:.3g}, beyond 2^53, from which on counts are inexact"
            if total >= _MOST_WEIGHT
            else "weights must be numbers, none negative and not all 0"
        )
        remedy = "divide them by a constant" if total > 0 else "give how often each row counts"
        raise InputError(source, f"column '{column.name}'", reason, remedy)
    return in_units(numbers)


def in_units(weights: NDArray[np.float64]) -> tuple[NDArray[np.int64], float]:
    """Returns weights, shape (rows,), as whole counts of a unit, and the unit.

    The unit is 1 for whole weights; otherwise 2^-40 of their sum, rounded up to a power of two.

    >>> in_units(np.array([2.0, 1.0])), in_units(np.array([0.5, 1.5]))[1] == 2.0**-39
    ((array([2, 1]), 1.0), True)
    """
    whole = bool((weights == np.floor(weights)).all())
    unit = 1.0 if whole else 2.0 ** (ceil(log2(weights.sum())) - _STEPS)
    return np.rint(weights / unit).astype(np.int64), unit


def without_gaps(selection: Subtable, coding: Coding, source: str, treatments: Sequence[str]) -> Subtable:
    """Treats missing values by the coding; the remarks record their number by column.

    Args:
        selection: the columns, with gaps.
        coding: names the treatment.
        source: the file, for errors.
        treatments: see `selected`.

    Raises:
        InputError: the coding refuses gaps, or its treatment leaves nothing.
    """
    columns = selection.columns
    counts = {column.name: gaps for column in columns if (gaps := column.gaps(selection.times))}
    if not counts:
        return selection
    selection.remarks["missing_values"] = counts
    empty = [column.name for column in columns if not column.present().any()]
    require_treated(counts, empty, len(columns), coding, source, treatments)
    if coding.missing == "drop-columns":
        return replace(selection, columns=[column for column in columns if column.name not in counts])
    if coding.missing == "drop-rows":
        missing = ~np.array([column.present() for column in columns])
        fewest = missing[:, missing.sum(axis=0).argmin()]
        if fewest.any():
            names = [column.name for column, gap in zip(columns, fewest, strict=True) if gap]
            raise InputError(source, "missing values", "every row has some", f"leave out with {DROP(names)}")
        return selection.where(full_rows(columns))
    return selection  # other treatments are applied in `coding`


def full_rows(columns: Sequence[RawColumn]) -> NDArray[np.bool_]:
    """Returns which rows have a value in every column, shape (rows,)."""
    full: NDArray[np.bool_] = np.logical_and.reduce([column.present() for column in columns])
    return full


def require_treated(  # noqa: PLR0917 - a column's gaps, and the parts of the message
    gaps: Mapping[str, int],
    empty: Sequence[str],
    columns: int,
    coding: Coding,
    source: str,
    treatments: Sequence[str] = TREATMENTS[1:],
) -> None:
    """Checks that the coding treats missing values.

    Args:
        gaps: number of missing values by column, above 0.
        empty: columns without values.
        columns: the number of columns.
        coding: the user's choices.
        source: the file, for messages.
        treatments: see `selected`.

    Raises:
        InputError: it refuses them, or its treatment leaves nothing.
    """
    way, *others = (treatment for treatment in treatments if treatment != "drop-columns")
    ways = f"{MISSING(way)} (or {', '.join(others)})" if others else MISSING(way)
    if coding.missing == "refuse" and gaps:
        listed = ", ".join(f"{count} in '{name}'" for name, count in gaps.items())
        raise InputError(
            source,
            "missing values",
            f"there are {listed}",
            f"choose a treatment: {ways}, or leave columns out with {DROP}; if these words are values, set "
            f"those for a missing one with {MISSING_VALUES}",
        )
    if coding.missing == "drop-columns":
        if len(gaps) == columns:
            raise InputError(source, "missing values", "every column has some", f"give {ways}")
    elif empty:
        reason = "every value is missing"
        remedy = f"leave out with {DROP(empty)}"
        raise InputError(source, f"column{'s' * (len(empty) > 1)} {name_list(empty)}", reason, remedy)
