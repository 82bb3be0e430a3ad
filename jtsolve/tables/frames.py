"""Data frames of pandas, polars and Arrow, numpy arrays and dictionaries of columns: in, and out again.

Each becomes a polars frame, which is read by the rules for typed files: the states are True and False, whole
numbers without ".0", midnights as dates. Declared categories (pandas, `polars.Enum`) are the states, in their
order. None of these packages but polars has to be installed.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from jtsolve.errors import InputError
from jtsolve.tables.forked import require_threads
from jtsolve.tables.options import DROP
from jtsolve.tables.raw import GAP
from jtsolve.tables.values import distinct_labels, is_missing, kind_of_type, label_of, labels_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import polars as pl
    from numpy.typing import NDArray

    from jtsolve.tables.values import ColumnStates, ValueKind

Frame: TypeAlias = Any
"""A DataFrame, an Arrow table, a dictionary of columns, or an array of shape (rows, columns)."""

FRAME = "the data frame"
"""Its name in messages."""

_MOST_VALUES = 1 << 16
"""Most distinct values of a column that are remembered: far more than a column has states."""


def is_path(data: Frame) -> TypeGuard[str | Path]:
    """Returns whether data are the path of a file rather than a frame."""
    return isinstance(data, str | Path)


def is_listing(value: object) -> bool:
    """Returns whether a value holds several: it can be iterated over, and is no text."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def is_pandas(data: Frame) -> bool:
    """Returns whether data are a frame or a column of pandas, without importing it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame | pandas.Series)


def has_index(data: Frame) -> bool:
    """Returns whether the rows have labels, which are not a column: a pandas index other than 0, 1, …."""
    return is_pandas(data) and not isinstance(data.index, sys.modules["pandas"].RangeIndex)


class Columns(NamedTuple):
    """The columns of a frame, as polars holds them.

    Attributes:
        frame: numbers, booleans, times and texts; categories for types unknown to polars.
        kinds: of the values of these categories, by column; None if all are missing.
        observed: columns whose categories are those that occur, and not declared.
    """

    frame: pl.DataFrame
    kinds: dict[str, ValueKind | None]
    observed: set[str]


def columns_in(data: Frame, wants: Callable[[str], bool] = lambda _name: True) -> Columns:
    """Returns the columns of a frame.

    Args:
        data: the frame.
        wants: whether a column of this name is needed; the others are empty in the frame returned.

    Raises:
        InputError: it is not a frame, lengths differ, names repeat, or values cannot be states.
    """
    import polars as pl

    require_threads()
    originals, columns = named_columns(data)
    names = column_texts(originals)
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated or "" in names[1:]:
        reason = f"two columns are called '{repeated[0]}'" if repeated else "a column has an empty name"
        raise InputError(FRAME, "columns", reason, "give every column a unique name")
    # If none is needed, read the first, since rows are counted.
    places = [at for at, name in enumerate(names) if wants(name)] or range(len(names[:1]))
    kinds: dict[str, ValueKind | None] = {}
    observed: set[str] = set()
    needed = {names[at]: _series(names[at], columns[at], kinds, observed) for at in places}
    lengths = {len(column) for column in needed.values()}
    if len(lengths) > 1:
        reason = f"their lengths differ: {', '.join(map(str, sorted(lengths)))}"
        raise InputError(FRAME, "columns", reason, "give every column a value for every row")
    empty = pl.Series([None]).new_from_index(0, max(lengths, default=0))
    return Columns(pl.DataFrame({name: needed.get(name, empty) for name in names}), kinds, observed)


def column_texts(names: Iterable[Any]) -> list[str]:
    """Returns the names of columns as texts; a missing one is empty."""
    return ["" if is_missing(name) else label_of(name) for name in names]


def relabelled(names: Iterable[Any]) -> dict[str, Any]:
    """Returns the names that are not as they are written here, by the latter."""
    held = list(names)
    return {name: one for name, one in zip(column_texts(held), held, strict=True) if name != one}


def labels_in(data: Frame) -> dict[str, Any]:
    """Returns `relabelled` of the columns of a frame; of a path, nothing."""
    if is_path(data):
        return {}
    if hasattr(data, "collect_schema"):  # of polars; lazy ones are not read
        return relabelled(data.collect_schema().names())
    return relabelled(data.columns if is_pandas(data) else named_columns(data)[0])


def named_columns(data: Frame) -> tuple[list[Any], list[Any]]:
    """Returns the names, of any type, and the columns of a frame, uncopied; an array has V1, V2, ….

    Raises:
        InputError: the value is no table.
    """
    import polars as pl

    if is_pandas(data) and data.ndim == 2:  # noqa: PLR2004 - no single column
        return list(data.columns), [data.iloc[:, place] for place in range(data.shape[1])]
    if isinstance(data, Mapping):
        return list(data), list(data.values())
    if isinstance(data, np.ndarray) and data.dtype.names:
        return list(data.dtype.names), [data[name] for name in data.dtype.names]
    if isinstance(data, np.ndarray) and data.ndim == 2:  # noqa: PLR2004 - rows and columns
        return [f"V{place + 1}" for place in range(data.shape[1])], list(data.T)
    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    elif hasattr(data, "__arrow_c_stream__") and not (isinstance(data, pl.Series) or is_pandas(data)):
        with readable(FRAME, "Arrow"):
            data = in_known_zones(pl.DataFrame(data).lazy()).collect()
    if isinstance(data, pl.DataFrame):
        return data.columns, data.get_columns()
    raise InputError(
        "data",
        "",
        f"a value of type {type(data).__name__} is not a table",
        "give the path of a file, a DataFrame of pandas or polars, an Arrow table, a dictionary of columns, "
        "or an array of shape (rows, columns); pandas.DataFrame(data) makes one of a Series or a list",
    )


@contextmanager
def readable(name: str, suffix: str) -> Iterator[None]:
    """Translates the errors of polars, and admits time zones that are offsets; see `in_known_zones`.

    Args:
        name: of the file or frame.
        suffix: of its format.

    Raises:
        InputError: polars cannot read the file.
    """
    import polars as pl

    os.environ.setdefault("POLARS_IGNORE_TIMEZONE_PARSE_ERROR", "1")  # else it panics, with a stack trace
    try:
        yield
    except pl.exceptions.PanicException:  # a BaseException: damage that polars does not foresee
        raise InputError(
            name, "", f"it is damaged: polars fails to read it as {suffix}", "write the file again"
        ) from None
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        cause = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(name, "", f"it cannot be read as {suffix} ({cause})", "check the file") from None


def in_known_zones(lazy: pl.LazyFrame) -> pl.LazyFrame:
    """Returns a frame with UTC in place of offsets such as +05:30, which are no time zones of polars."""
    import polars as pl

    return lazy.with_columns(
        pl.col(name).dt.convert_time_zone("UTC")
        for name, kind in lazy.collect_schema().items()
        if isinstance(kind, pl.Datetime) and kind.time_zone and not kind.time_zone[0].isalpha()
    )


def _series(name: str, column: Any, kinds: dict[str, ValueKind | None], observed: set[str]) -> pl.Series:
    """Returns a column; values that polars does not have become categories, whose kind is recorded."""
    import polars as pl

    if isinstance(column, pl.Series) and column.dtype != pl.Object:
        return column
    if isinstance(column, np.ndarray) and column.ndim == 1 and (plain := _plain_array(column)) is not None:
        return pl.Series(plain)
    distinct, codes, declared = _distinct(name, column)
    labels, places, kinds[name] = distinct_labels(distinct)
    if not declared:
        observed.add(name)
    rows = np.append(np.array(places, dtype=np.int64), -1)[codes]
    return pl.Series([*labels, None], dtype=pl.Enum(labels)).gather(rows % (len(labels) + 1))


def _plain_array(column: NDArray[Any]) -> NDArray[Any] | None:
    """Returns an array of a type that polars has; None for other types."""
    if column.dtype.kind == "M":
        exact = np.datetime_data(column.dtype)[0] in ("ns", "us", "ms")
        return column if exact else column.astype("datetime64[us]")
    held = column.dtype.kind in "biu" or (column.dtype.kind == "f" and column.dtype.itemsize in (4, 8))
    return column if held else None


def _distinct(name: str, column: Any) -> tuple[list[Any], NDArray[np.int64], bool]:
    """Returns the different values of a column, the code of each row, and whether they are declared.

    Equal values of different types are different; -1 is the code of some missing values.
    """
    if is_pandas(column) and column.dtype != object:
        if hasattr(column.dtype, "categories"):
            codes = column.cat.codes.to_numpy().astype(np.int64)
            return _checked(name, _scalars(column.cat.categories, column.cat.categories.dtype)), codes, True
        codes, distinct = column.factorize()
        return _checked(name, _scalars(distinct, column.dtype)), codes.astype(np.int64), False
    if not is_listing(column):
        reason = f"a value of type {type(column).__name__} is no column"
        raise InputError(FRAME, f"column '{name}'", reason, "give a list with a value for every row")
    is_plain = getattr(getattr(column, "dtype", None), "kind", None) in ("O", "U", "S")
    values = column.tolist() if is_plain else list(column)
    types = set(map(type, values)) - {type(None)}
    alone = types in _ALONE

    def keys() -> Iterable[Any]:  # 1, 1.0 and True are equal
        return values if alone else zip(map(type, values), values, strict=True)

    try:
        place = {key: code for code, key in enumerate(dict.fromkeys(keys()))}
    except TypeError:  # no hash
        _checked(name, values)
        kind = next(type(value).__name__ for value in values if getattr(value, "__hash__", None) is None)
        raise not_a_state(FRAME, name, kind) from None
    codes = np.fromiter(map(place.__getitem__, keys()), np.int64, len(values))
    return _checked(name, place if alone else (value for _, value in place)), codes, False


_ALONE: tuple[set[type], ...] = ({str}, {int}, {bool})
"""Types whose values are equal only if they are the same, if there are no others."""


def _scalars(values: Any, dtype: Any) -> Iterable[Any]:
    """Returns values of pandas singly; as a list, those of half or single precision would become double."""
    kind = str(dtype).lower()
    if kind.startswith(("float16", "halffloat")):
        return np.asarray(values, dtype=np.float16)
    return np.asarray(values, dtype=np.float32) if kind.startswith(("float32", "float[")) else values


def _checked(name: str, values: Iterable[Any]) -> list[Any]:
    """Returns values; refuses those that hold several."""
    held = list(values)
    for value in held:
        if isinstance(value, bytes | list | tuple | set | frozenset | dict | np.ndarray):
            raise not_a_state(FRAME, name, type(value).__name__)
    return held


def not_a_state(source: str, name: str, kind: object) -> InputError:
    """Returns the error for a column of binary or nested values.

    Args:
        source: of the data, for errors.
        name: of the column.
        kind: type of its values.
    """
    return InputError(
        source,
        f"column '{name}'",
        f"values of type {kind} cannot be states",
        f"leave it out with {DROP([name])}, or write it as text",
    )


@dataclass(frozen=True, slots=True)
class FrameStyle:
    """How a frame holds its values, for frames made of states in the same form.

    Args:
        pandas: whether frames and columns are those of pandas; otherwise of polars.
        values: the original value by column and label.
        dtypes: of the columns.
        names: the original names of columns that are not as they are written here.
    """

    pandas: bool = False
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dtypes: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Frame, columns: Mapping[str, ColumnStates]) -> FrameStyle:
        """Returns the style of a frame; of a path, that of texts.

        Args:
            data: the frame or path.
            columns: states of the columns read from it.
        """
        if is_path(data):
            return cls()
        originals, held = named_columns(data)
        names = column_texts(originals)
        values, dtypes = {}, {}
        for name, column in zip(names, held, strict=True):
            if name in columns and (found := _originals(name, column, columns[name])):
                values[name] = found
                dtypes[name] = getattr(column, "dtype", None)
        return cls(is_pandas(data), values, dtypes, relabelled(originals))

    def like(self, data: Frame, columns: Mapping[str, ColumnStates] = MappingProxyType({})) -> FrameStyle:
        """Returns the style of answers about a frame: its container and, of the columns in it, its values.

        Args:
            data: the frame; a path, an array or a dictionary leaves the style as it is.
            columns: states of the columns whose values answers have.
        """
        pandas = is_pandas(data)
        if is_path(data) or not (pandas or hasattr(data, "__arrow_c_stream__") or hasattr(data, "collect")):
            return self
        own = FrameStyle.of(data, columns)
        kept = self.dtypes if pandas == self.pandas else {}
        values = {
            name: {**self.values.get(name, {}), **own.values.get(name, {})}
            for name in {**self.values, **own.values}
        }
        return FrameStyle(pandas, values, {**kept, **own.dtypes}, {**self.names, **own.names})

    def name(self, name: str) -> Any:
        """Returns the name of a column as the frame had it; in polars, all names are texts."""
        original = self.names.get(name, name)
        return original if self.pandas or isinstance(original, str) else name

    def column(self, name: str, states: ColumnStates, codes: NDArray[np.integer[Any]]) -> Any:
        """Returns a column of states, given by their codes; -1 for a missing value.

        Texts that are none of the original values, such as ranges, become ordered categories. The state for
        a missing value is missing again.

        Args:
            name: of the column.
            states: of the column.
            codes: shape (rows,).
        """
        codes = np.where(codes == len(states.own), np.int64(GAP), codes)
        known, dtype = self.values.get(name, {}), self.dtypes.get(name)
        if not known or any(label not in known for label in states.own):
            known, dtype = states.values(), None
        if not known:
            return _categories(self.name(name), states.own, codes, pandas=self.pandas)
        originals = [*(known[label] for label in states.own), None]
        if self.pandas:
            import pandas as pd

            cells = np.empty(len(originals), dtype=object)
            cells[:] = originals
            made = pd.Series(cells[codes], name=self.name(name))
            if dtype is None or not _fits(lambda: pd.Series(list(known.values())).astype(dtype), known):
                return made.infer_objects()
            holds = dtype.kind not in "biu" or isinstance(dtype, pd.api.extensions.ExtensionDtype)
            return made.astype(dtype) if holds or not made.isna().any() else made
        import polars as pl

        kind = dtype if isinstance(dtype, pl.DataType) and dtype != pl.Object else None
        if kind is not None and not _fits(lambda: pl.Series(list(known.values()), dtype=kind), known):
            kind = None
        made = pl.Series(self.name(name), originals, dtype=kind, strict=False)
        held = made.drop_nulls()
        if states.places(labels_of(held), kind_of_type(held.dtype)) != list(range(len(states.own))):
            # Nanoseconds, for instance, are beyond values of Python.
            return _categories(self.name(name), states.own, codes, pandas=False)
        return made.gather(np.where(codes == GAP, len(states.own), codes))

    def words(self, name: str, values: list[str]) -> Any:
        """Returns a column of texts, as ordered categories."""
        place = {value: code for code, value in enumerate(dict.fromkeys(values))}
        codes = np.array([place[value] for value in values], dtype=np.int64)
        return _categories(name, tuple(place), codes, pandas=self.pandas)

    def variables(self, names: list[str]) -> Any:
        """Returns a column with the names of variables."""
        held = list(map(self.name, names))
        if all(isinstance(name, str) for name in held):
            return self.words("variable", held)
        import pandas as pd

        cells = np.empty(len(held), dtype=object)  # which may be tuples
        cells[:] = held
        return pd.Series(cells, name="variable").infer_objects()

    def numbers(self, name: str, values: NDArray[np.float64]) -> Any:
        """Returns a column of numbers, shape (rows,)."""
        if self.pandas:
            import pandas as pd

            return pd.Series(values, name=self.name(name))
        import polars as pl

        return pl.Series(self.name(name), values)

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


def _categories(name: Any, labels: Sequence[str], codes: NDArray[np.integer[Any]], *, pandas: bool) -> Any:
    """Returns a column of ordered categories."""
    if pandas:
        import pandas as pd

        return pd.Series(pd.Categorical.from_codes(codes, list(labels), ordered=True), name=name)
    import polars as pl

    places = np.where(codes == GAP, len(labels), codes).astype(np.int64)
    return pl.Series(name, [*labels, None], dtype=pl.Enum(labels)).gather(places)


def _fits(made: Callable[[], Any], values: Mapping[str, Any]) -> bool:
    """Returns whether a column of some type holds values as they are."""
    try:
        held = made().to_list()
    except (TypeError, ValueError, OverflowError):
        return False
    pairs = zip(held, values.values(), strict=True)
    return all(one == other or label_of(one) == label_of(other) for one, other in pairs)


def _originals(name: str, column: Any, states: ColumnStates) -> dict[str, Any]:
    """Returns the value of each state in a column of a frame, by label; none if there are too many.

    A state that does not occur has the value that its label stands for in this column, if it is of the type.
    """
    import polars as pl

    if isinstance(column, np.ndarray) and (plain := _plain_array(column)) is not None:
        column = pl.Series(np.unique(plain))
    if isinstance(column, pl.Series) and column.dtype != pl.Object:
        return _polars_originals(column, states)
    distinct = _distinct(name, column)[0]
    if len(distinct) > _MOST_VALUES:
        return {}
    kind = distinct_labels(distinct)[2]
    several = len({type(one) for one in distinct if not is_missing(one)}) > 1
    if kind is None or (kind == "text" and several and not is_pandas(column)):
        return {}  # polars has no columns of several types
    found = states.values(kind) if kind != "text" else {}
    if str(getattr(column, "dtype", "")).lower().startswith(("int", "uint")):
        found = {label: int(value) for label, value in found.items() if value == int(value)}
    places = states.codes(distinct)
    return found | {states.labels[code]: one for one, code in zip(distinct, places, strict=True) if code >= 0}


def _polars_originals(column: pl.Series, states: ColumnStates) -> dict[str, Any]:
    """Returns `_originals` of a column of polars."""
    import polars as pl

    distinct = column.drop_nulls().unique(maintain_order=True)
    if isinstance(column.dtype, pl.Enum):
        distinct = column.dtype.categories.cast(column.dtype)
    if len(distinct) > _MOST_VALUES:
        return {}
    kind, labels = kind_of_type(column.dtype), labels_of(distinct)
    found = states.values(kind) if kind != "text" else {}
    if column.dtype.is_integer():
        found = {label: int(value) for label, value in found.items() if value == int(value)}
    elif kind == "time" and not found:  # too fine for values of Python
        return {}
    pairs = zip(distinct.to_list(), states.places(labels, kind), strict=True)
    return found | {states.labels[code]: one for one, code in pairs if code >= 0}
