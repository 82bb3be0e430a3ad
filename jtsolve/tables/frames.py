"""Data frames of pandas, polars and Arrow, numpy arrays and dictionaries of columns: in, and out again.

Each becomes a polars frame, which is read by the rules for typed files: the states are True and False, whole
numbers without ".0", midnights as dates. Declared categories (pandas, `polars.Enum`) are the states, in their
order. None of these packages but polars has to be installed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from jtsolve.errors import InputError
from jtsolve.tables.forked import require_threads
from jtsolve.tables.options import DROP
from jtsolve.tables.raw import GAP, GAP_STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl
    from numpy.typing import NDArray

Frame: TypeAlias = Any
"""A DataFrame, an Arrow table, a dictionary of columns, or an array of shape (rows, columns)."""

FRAME = "the data frame"
"""Its name in messages."""

_MOST_VALUES = 1 << 16
"""Most distinct values of a column that are remembered: far more than a column has states."""


def is_path(data: Frame) -> TypeGuard[str | Path]:
    """Tells whether data are the path of a file rather than a frame."""
    return isinstance(data, str | Path)


def is_listing(value: object) -> bool:
    """Tells whether a value holds several: it can be iterated over, and is no text."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def is_pandas(data: Frame) -> bool:
    """Tells whether data are a frame or a column of pandas, without importing it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame | pandas.Series)


def has_index(data: Frame) -> bool:
    """Tells whether the rows have labels, which are not a column: a pandas index other than 0, 1, …."""
    return is_pandas(data) and not isinstance(data.index, sys.modules["pandas"].RangeIndex)


def label_of(value: Any) -> str:
    """Returns a value as the label of a state.

    >>> [label_of(value) for value in (True, 3, 3.0, 0.5, "x", datetime(2024, 5, 1))]
    ['True', '3', '3', '0.5', 'x', '2024-05-01']
    """
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Real | Decimal) and not isinstance(value, Integral):
        return repr(float(value)).removesuffix(".0")
    if isinstance(value, datetime) and value.time() == time() and value.tzinfo is None:
        return str(value.date())
    return str(value)


def is_missing(value: Any) -> bool:
    """Tells whether a value is None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    same = value == value  # noqa: PLR0124 - NaN differs from itself, and pandas.NA gives no bool
    return type(value).__name__ == "NAType" or (isinstance(same, bool | np.bool_) and not same)


def polars_frame(data: Frame, wants: Callable[[str], bool] = lambda _name: True) -> pl.DataFrame:
    """Returns the columns of a frame as numbers, booleans, times, texts, or declared categories.

    Args:
        data: the frame.
        wants: whether a column of this name is needed; the others are empty in the frame returned.

    Raises:
        InputError: it is not a frame, lengths differ, names repeat, or values cannot be states.
    """
    import polars as pl

    require_threads()
    names, columns = named_columns(data)
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated or "" in names[1:]:
        reason = f"two columns are called '{repeated[0]}'" if repeated else "a column has an empty name"
        raise InputError(FRAME, "columns", reason, "give every column a unique name")
    # If none is wanted, read the first: rows are counted all the same.
    places = [at for at, name in enumerate(names) if wants(name)] or range(len(names[:1]))
    needed = {names[at]: _series(names[at], columns[at]) for at in places}
    lengths = {len(column) for column in needed.values()}
    if len(lengths) > 1:
        reason = f"their lengths differ: {', '.join(map(str, sorted(lengths)))}"
        raise InputError(FRAME, "columns", reason, "give every column a value for every row")
    empty = pl.Series([None]).new_from_index(0, max(lengths, default=0))
    return pl.DataFrame({name: needed.get(name, empty) for name in names})


def named_columns(data: Frame) -> tuple[list[str], list[Any]]:
    """Returns the names and the columns of a frame, uncopied; an array's columns are V1, V2, …."""
    import polars as pl

    if is_pandas(data) and data.ndim == 2:  # noqa: PLR2004 - no single column
        names = ["" if is_missing(name) else label_of(name) for name in data.columns]
        return names, [data.iloc[:, place] for place in range(data.shape[1])]
    if isinstance(data, Mapping):
        return list(map(label_of, data)), list(data.values())
    if isinstance(data, np.ndarray) and data.dtype.names:
        return list(data.dtype.names), [data[name] for name in data.dtype.names]
    if isinstance(data, np.ndarray) and data.ndim == 2:  # noqa: PLR2004 - rows and columns
        return [f"V{place + 1}" for place in range(data.shape[1])], list(data.T)
    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    elif hasattr(data, "__arrow_c_stream__") and not (isinstance(data, pl.Series) or is_pandas(data)):
        data = pl.DataFrame(data)
    if isinstance(data, pl.DataFrame):
        return data.columns, data.get_columns()
    raise InputError(
        "data",
        "",
        f"a value of type {type(data).__name__} is not a table",
        "give the path of a file, a DataFrame of pandas or polars, an Arrow table, a dictionary of columns, "
        "or an array of shape (rows, columns); pandas.DataFrame(data) makes one of a Series or a list",
    )


def _series(name: str, column: Any) -> pl.Series:
    """Returns a column, its categories and objects as text."""
    import polars as pl

    if isinstance(column, pl.Series):
        if column.dtype != pl.Object:
            return column
        column = column.to_list()
    if is_pandas(column) and column.dtype != object:
        distinct, codes, declared = _pandas_codes(column)
        labels = [_state(name, value) for value in distinct]
        kind = pl.Enum(list(dict.fromkeys(labels))) if declared else pl.String
        return pl.Series([*labels, None], dtype=kind).gather(codes % (len(labels) + 1))
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "biufUM":
        return pl.Series(column.astype("datetime64[us]") if column.dtype.kind == "M" else column)
    if not is_listing(column):
        reason = f"a value of type {type(column).__name__} is no column"
        raise InputError(FRAME, f"column '{name}'", reason, "give a list with a value for every row")
    values = [None if is_missing(value) else _state(name, value) for value in _listed(column)]
    return pl.Series(values, dtype=pl.String)


def _pandas_codes(column: Any) -> tuple[list[Any], NDArray[np.int64], bool]:
    """Returns the distinct values of a pandas column, the code of each row, and whether they are declared."""
    if hasattr(column.dtype, "categories"):
        return column.cat.categories.tolist(), column.cat.codes.to_numpy().astype(np.int64), True
    codes, distinct = column.factorize()
    return distinct.tolist(), codes.astype(np.int64), False


def _state(name: str, value: Any) -> str:
    """Returns the label of a value; refuses those that hold several."""
    if isinstance(value, bytes | list | tuple | set | frozenset | dict | np.ndarray):
        raise not_a_state(FRAME, name, type(value).__name__)
    return label_of(value)


def not_a_state(source: str, name: str, kind: object) -> InputError:
    """Returns the error for a column of binary or nested values."""
    return InputError(
        source,
        f"column '{name}'",
        f"values of type {kind} cannot be states",
        f"leave it out with {DROP([name])}, or write it as text",
    )


@dataclass(frozen=True, slots=True)
class FrameStyle:
    """How a frame holds its values, so that frames made of states look like it.

    Args:
        pandas: whether frames and columns are those of pandas; otherwise of polars.
        values: the original value by column and label; a label that is absent is a text.
        dtypes: of the columns.
    """

    pandas: bool = False
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dtypes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Frame, states: Mapping[str, Sequence[str]]) -> FrameStyle:
        """Returns the style of a frame, or of the file of this path.

        Args:
            data: the frame or path.
            states: of the columns read from it.
        """
        if is_path(data):
            numbers = {name: found for name, labels in states.items() if (found := _numbers(labels))}
            return cls(values=numbers)
        names, columns = named_columns(data)
        values, dtypes = {}, {}
        for name, column in zip(names, columns, strict=True):
            if name in states and (distinct := _distinct(column)):
                values[name] = {label_of(value): value for value in distinct if not is_missing(value)}
                dtypes[name] = getattr(column, "dtype", None)
        return cls(is_pandas(data), values, dtypes)

    def like(self, data: Frame, states: Mapping[str, Sequence[str]] = MappingProxyType({})) -> FrameStyle:
        """Returns the style of answers about a frame: its container and, of the columns in it, its values.

        Args:
            data: the frame; a path, an array or a dictionary leaves the style as it is.
            states: of the columns whose values answers have.
        """
        pandas = is_pandas(data)
        if is_path(data) or not (pandas or hasattr(data, "__arrow_c_stream__") or hasattr(data, "collect")):
            return self
        own = FrameStyle.of(data, states) if states else FrameStyle(pandas)
        kept = self.dtypes if pandas == self.pandas else {}
        values = {
            name: {**self.values.get(name, {}), **own.values.get(name, {})}
            for name in {**self.values, **own.values}
        }
        return FrameStyle(pandas, values, {**kept, **own.dtypes})

    def column(self, name: str, states: Sequence[str], codes: NDArray[np.integer[Any]]) -> Any:
        """Returns a column of states, given by their codes; -1 for a missing value.

        States that are none of the original values, such as ranges, become ordered categories. The state for
        a missing value is missing again.
        """
        known = self.values.get(name, {})
        if not known or any(label not in known and label != GAP_STATE for label in states):
            return self._categories(name, states, codes)
        originals = [*(known.get(label) for label in states), None]
        if self.pandas:
            import pandas as pd

            cells = np.empty(len(originals), dtype=object)
            cells[:] = originals
            made, dtype = pd.Series(cells[codes], name=name), self.dtypes.get(name)
            if dtype is None:
                return made.infer_objects()
            holds = dtype.kind not in "biu" or isinstance(dtype, pd.api.extensions.ExtensionDtype)
            return made.astype(dtype) if holds or not made.isna().any() else made
        import polars as pl

        dtype = self.dtypes.get(name)
        kind = dtype if isinstance(dtype, pl.DataType) and dtype != pl.Object else None
        places = np.where(codes == GAP, len(states), codes).astype(np.int64)
        return pl.Series(name, originals, dtype=kind, strict=False).gather(places)

    def _categories(self, name: str, states: Sequence[str], codes: NDArray[np.integer[Any]]) -> Any:
        if self.pandas:
            import pandas as pd

            return pd.Series(pd.Categorical.from_codes(codes, list(states), ordered=True), name=name)
        import polars as pl

        places = np.where(codes == GAP, len(states), codes).astype(np.int64)
        return pl.Series(name, [*states, None], dtype=pl.Enum(states)).gather(places)

    def words(self, name: str, values: list[str]) -> Any:
        """Returns a column of texts, as a variable's values are held where it has none of its own."""
        return FrameStyle(self.pandas).column(name, list(dict.fromkeys(values)), _codes_of(values))

    def numbers(self, name: str, values: NDArray[np.float64]) -> Any:
        """Returns a column of numbers."""
        if self.pandas:
            import pandas as pd

            return pd.Series(values, name=name)
        import polars as pl

        return pl.Series(name, values)

    def frame(self, columns: Iterable[Any], like: Frame = None) -> Any:
        """Returns a frame of columns, its rows labelled as those of `like`."""
        if self.pandas:
            import pandas as pd

            return self.labelled(pd.concat(list(columns), axis=1), like)
        import polars as pl

        return pl.DataFrame(list(columns))

    def labelled(self, made: Any, like: Frame) -> Any:
        """Returns a column or frame with the row labels of another; of polars, itself."""
        return made.set_axis(like.index) if self.pandas and is_pandas(like) else made


def _codes_of(values: list[str]) -> NDArray[np.int64]:
    """Returns the position of each value among the distinct ones."""
    place = {value: code for code, value in enumerate(dict.fromkeys(values))}
    return np.array([place[value] for value in values], dtype=np.int64)


def _distinct(column: Any) -> list[Any]:
    """Returns the distinct values of a column, or the declared ones; none if there are too many."""
    import polars as pl

    if is_pandas(column) and column.dtype != object:
        return _few(_pandas_codes(column)[0])
    if isinstance(column, pl.Series) and column.dtype != pl.Object:
        if isinstance(column.dtype, pl.Enum):
            return _few(column.dtype.categories.to_list())
        return _few(column.unique().to_list())
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
        return _few(np.unique(column).tolist())
    return _few(list({label_of(value): value for value in _listed(column)}.values()))


def _listed(column: Any) -> list[Any]:
    values: list[Any] = column.tolist() if hasattr(column, "tolist") else list(column)
    return values


def _few(values: list[Any]) -> list[Any]:
    return values if len(values) <= _MOST_VALUES else []


def _numbers(labels: Sequence[str]) -> dict[str, Any]:
    """Returns the labels of a text file as numbers; empty unless all are, or a missing value."""
    found: dict[str, Any] = {}
    for label in labels:
        try:
            found[label] = int(label)
        except ValueError:
            try:
                found[label] = float(label)
            except ValueError:
                if label != GAP_STATE:
                    return {}
    kinds = set(map(type, found.values()))
    return {label: float(value) for label, value in found.items()} if len(kinds) > 1 else found
