"""From states back to values: of columns in the rows that estimators return."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.estimator.rows import is_frame
from jtsolve.models.columns import Column, RealColumn, variables_of
from jtsolve.tables.frames import is_pandas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.estimator.base import Training


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The values that the states of a column represent.

    Attributes:
        typical: a value for each state; of a range, the median of its rows, the lower of two. None for the
            state of a missing value.
        edges: of a cut column, its cuts between the least and the largest number; otherwise None.
    """

    typical: tuple[Any, ...]
    edges: NDArray[np.float64] | None

    def at(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Returns the typical value of each code, of the shape of the codes."""
        values: NDArray[Any] = _array(self.typical)[np.asarray(codes, dtype=np.int64)]
        return values

    def drawn(self, codes: NDArray[Any], generator: np.random.RandomState) -> NDArray[Any]:
        """Returns a value for each code, of the same shape: that of the state, or uniform from its range."""
        codes = np.asarray(codes, dtype=np.int64)
        if self.edges is None:
            return self.at(codes)
        edges = np.append(self.edges, np.nan)  # after the ranges, the state of a missing value
        low, high = edges[codes], edges[codes + 1]
        made: NDArray[np.float64] = high - (high - low) * generator.random_sample(codes.shape)
        return made


class RealValues:
    """The values of a real column: its numbers themselves."""

    edges = None

    def at(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the numbers, of any shape."""
        return numbers

    def drawn(self, numbers: NDArray[np.float64], _generator: np.random.RandomState) -> NDArray[np.float64]:
        """Returns the numbers, of any shape."""
        return numbers


def _array(values: Sequence[Any]) -> NDArray[Any]:
    """Returns values as numbers or booleans if they are, with NaN for None; otherwise as objects."""
    found = [value for value in values if value is not None]
    if all(isinstance(value, Real) for value in found):
        return np.array([np.nan if value is None else value for value in values])
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def values_of(training: Training) -> tuple[Values | RealValues, ...]:
    """Returns the values of the features."""
    found: list[Values | RealValues] = []
    for column, raw in zip(
        variables_of(training.table), training.rows.columns, strict=False
    ):  # before classes
        if not isinstance(column, Column):
            found.append(RealValues())
            continue
        if column.cuts is None:
            known = training.style.values[column.name]
            present = [known.get(label, label) for label in column.values.own]
            typical = (*present, *[None] * column.gap)
            found.append(Values(typical, None))
            continue
        numbers = RealColumn(column.name).read(raw, training.rows.gaps, training.rows.source)
        weights = np.ones(numbers.size) if training.times is None else training.times.astype(np.float64)
        there = ~np.isnan(numbers)
        found.append(_ranges(numbers[there], weights[there], column.cuts, column.arity))
    return tuple(found)


def _ranges(
    numbers: NDArray[np.float64], weights: NDArray[np.float64], cuts: Sequence[float], arity: int
) -> Values:
    """Returns the values of a cut column; an empty range has the mean of its ends."""
    edges = np.array([numbers.min(), *cuts, numbers.max()])
    place = np.searchsorted(np.array(cuts), numbers, side="left")
    typical: list[float | None] = [None] * arity
    for code in range(len(cuts) + 1):
        inside = place == code
        if not inside.any():
            typical[code] = float(edges[code : code + 2].mean())
            continue
        order = np.argsort(numbers[inside])
        up_to = np.cumsum(weights[inside][order])
        typical[code] = float(numbers[inside][order][np.searchsorted(2 * up_to, up_to[-1])])
    return Values(tuple(typical), edges)


def with_fills(X: Any, fills: Mapping[int, tuple[NDArray[np.intp], NDArray[Any]]]) -> Any:
    """Returns a copy of a table with other values in some cells.

    `fills` maps a column to positions of rows and their values, shape (m,) each.
    """
    if is_pandas(X):
        return _pandas_with_fills(X, fills)
    if is_frame(X):
        return _polars_with_fills(X, fills)
    out = np.array(X)
    for v, (at, values) in fills.items():
        out[at, v] = values
    return out


def _pandas_with_fills(X: Any, fills: Mapping[int, tuple[NDArray[np.intp], NDArray[Any]]]) -> Any:
    out = X.copy()
    for v, (at, values) in fills.items():
        column = out.iloc[:, v].copy()
        if column.dtype.kind in "iu" and values.dtype.kind == "f":  # medians of nullable whole numbers
            column = column.astype("Float64")
        column.iloc[at] = values
        out.isetitem(v, column)
    return out


def _polars_with_fills(X: Any, fills: Mapping[int, tuple[NDArray[np.intp], NDArray[Any]]]) -> Any:
    import polars as pl

    frame = X if isinstance(X, pl.DataFrame) else pl.DataFrame(X)
    columns = frame.get_columns()
    for v, (at, values) in fills.items():
        column = columns[v]
        if column.dtype.is_integer() and values.dtype.kind == "f":
            column = column.cast(pl.Float64)
        place = np.arange(len(column))
        place[at] = len(column) + np.arange(at.size)
        more = pl.Series(column.name, values.tolist(), dtype=column.dtype, strict=False)
        columns[v] = pl.concat([column, more]).gather(place)
    return pl.DataFrame(columns)
