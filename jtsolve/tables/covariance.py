"""Covariance matrices in place of rows: read, checked, and represented by points with that covariance.

Scores of real numbers depend only on the covariance of the columns and the number of rows. With the
correlation matrix R = V Λ Vᵀ and the diagonal matrix D of standard deviations, the 2n points in the columns
of ±√n D V √Λ have mean 0 and covariance D R D.
"""

from __future__ import annotations

from dataclasses import fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import ChoiceError, InputError, name_list
from jtsolve.tables.frames import column_texts, has_index, is_path
from jtsolve.tables.options import DROP, Coding
from jtsolve.tables.selection import kept_columns
from jtsolve.tables.table import ContinuousTable, dependent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.tables.frames import Frame
    from jtsolve.tables.raw import RawColumn, RawTable

_ASYMMETRY = 1e-8
"""Largest difference between R and Rᵀ that counts as rounding."""
_NEGATIVE = 1e-8
"""Size of a negative eigenvalue, relative to the largest, that counts as rounding to nine digits."""
_ALLOWED = ("columns", "drop", "decimal", "missing_values", "max_states")
"""Options of data that apply to a covariance."""
_LEAST_COLUMNS = 3
"""Fewest columns of a table that is recognised as a covariance: smaller ones may be symmetric by chance."""


def table_of_covariance(
    names: Sequence[str],
    covariance: NDArray[np.float64],
    rows: float,
    source: str,
    remarks: Mapping[str, Any] = MappingProxyType({}),
) -> ContinuousTable:
    """Returns a table of points with a given covariance.

    Args:
        names: of the columns.
        covariance: shape (n, n), the sum of products divided by the number of rows.
        rows: the number of rows behind it.
        source: for messages.
        remarks: for the provenance.

    Raises:
        InputError: it is not symmetric, or has a negative eigenvalue; or a variance is not above 0.
    """
    variances = np.diag(covariance)
    if not (variances > 0).all():
        at = int(np.argmin(variances))
        reason = f"its variance is {variances[at]:g}"
        raise InputError(source, f"column '{names[at]}'", reason, f"leave it out with {DROP([names[at]])}")
    deviations = np.sqrt(variances)
    correlation = covariance / np.outer(deviations, deviations)
    difference = np.abs(correlation - correlation.T)
    if difference.max() > _ASYMMETRY:
        a, b = divmod(int(difference.argmax()), len(names))
        reason = (
            f"it is not symmetric: '{names[a]}' and '{names[b]}' have {covariance[a, b]:.9g} and "
            f"{covariance[b, a]:.9g}"
        )
        raise InputError(source, "covariance", reason, "give both halves of the matrix, which are equal")
    values, vectors = np.linalg.eigh((correlation + correlation.T) / 2)
    if values[0] < -_NEGATIVE * values[-1]:
        weights = np.abs(vectors[:, 0])
        error = dependent([names[v] for v in np.flatnonzero(weights > weights.max() / 10).tolist()])
        reason = f"the matrix is not positive definite: {error.reason}"
        raise InputError(source, error.place, reason, error.remedy)
    half = np.sqrt(len(names)) * deviations[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    return ContinuousTable(tuple(names), np.hstack([half, -half]), MappingProxyType({**remarks}), rows)


def to_covariance(
    raw: RawTable, coding: Coding, rows: int, source: str, labels: Sequence[str] | None = None
) -> ContinuousTable:
    """Returns the table of a covariance, in the order of its columns.

    Args:
        raw: the matrix as read, perhaps with a first column of labels.
        coding: the columns to keep.
        rows: the number of rows behind it.
        source: for messages.
        labels: of the rows, if they are not in a column; None otherwise.

    Raises:
        ChoiceError: the coding has an option that applies to rows only.
        InputError: the matrix is not square, a value is missing or not a number, or rows and columns have
            different names; or as `table_of_covariance`.
    """
    given = {one.metadata["option"]: getattr(coding, one.name) for one in fields(Coding)}
    refused = [
        str(option)
        for option, value in given.items()
        if option.name not in _ALLOWED and value and value != option.default
    ]
    if refused:
        raise ChoiceError(f"a covariance has no rows to which {', '.join(refused)} applies; leave it out")
    columns = list(raw.columns)
    if labels is None and (not columns[0].name or _is_words(columns[0], len(columns) - 1)):
        first, *columns = columns
        labels = [first.labels[code] for code in first.codes.tolist()]
    names = [column.name for column in columns]
    if columns[0].codes.size != len(columns):
        reason = f"it has {columns[0].codes.size} rows and {len(columns)} columns"
        raise InputError(source, "covariance", reason, "give a square matrix, a row for each column")
    order = list(range(len(names)))
    if labels is not None and list(labels) != names:
        only = [name for name in dict.fromkeys((*labels, *names)) if (name in labels) != (name in names)]
        if only or len(set(labels)) < len(names):
            reason = f"rows and columns have different names: {name_list(only or list(labels))}"
            raise InputError(source, "covariance", reason, "name the rows as the columns")
        order = [list(labels).index(name) for name in names]
    unlabelled = replace(raw, names=tuple(names), columns=tuple(columns), index=False)
    selection = kept_columns(unlabelled, coding, source)
    kept = [column.name for column in selection.columns]
    at = [order[names.index(name)] for name in kept]
    matrix = np.array([_numbers(column, source) for column in selection.columns])[:, at]
    return table_of_covariance(
        kept, matrix, rows, source, {"covariance": "in place of rows", **selection.remarks}
    )


def labels_of_rows(data: Frame) -> list[str] | None:
    """Returns the labels of the rows of a frame of pandas; None if it has none."""
    return None if is_path(data) or not has_index(data) else column_texts(data.index)


def is_covariance(columns: Sequence[RawColumn]) -> bool:
    """Returns whether the rows of a table, apart from labels, are a covariance matrix of its columns."""
    if columns and _is_words(columns[0], len(columns) - 1):
        columns = columns[1:]
    n = len(columns)
    if n < _LEAST_COLUMNS or columns[0].codes.size != n:
        return False
    if any((column.codes < 0).any() for column in columns):
        return False
    matrix = np.array([column.numbers()[column.codes] for column in columns])
    if not np.isfinite(matrix).all():
        return False
    try:
        table_of_covariance([column.name for column in columns], matrix, n, "")
    except InputError:
        return False
    return True


def _is_words(column: RawColumn, rows: int) -> bool:
    """Returns whether a column has this many rows, and a label that is no number in each."""
    there = column.codes.size == rows and bool(column.present().all())
    return there and bool(np.isnan(column.occurring_numbers()).all())


def _numbers(column: RawColumn, source: str) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = np.append(column.numbers(), np.nan)[column.codes]
    if np.isnan(numbers).any():
        row = int(np.argmax(np.isnan(numbers)))
        reason = "a value is missing" if column.codes[row] < 0 else "a value is not a number"
        place = f"column '{column.name}', row {row + 1}"
        raise InputError(source, place, reason, "give a covariance for every pair of columns")
    return numbers
