"""Data frames of pandas, polars and Arrow, numpy arrays and dictionaries of columns, as input and output.

Each input becomes a polars frame, which is read like a typed file: booleans become True and False, whole
numbers lose their ".0", and midnights become dates. Declared categories (pandas, `polars.Enum`) are the
states, in their order. Of these packages, only polars has to be installed.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import count
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
    from collections.abc import Callable, Sequence

    import polars as pl
    from numpy.typing import NDArray

    from jtsolve.tables.values import ColumnStates, ValueKind

Frame: TypeAlias = Any
"""A DataFrame, an Arrow table, a dictionary of columns, or an array of shape (rows, columns)."""

FRAME = "the data frame"
"""The name of a frame in messages."""

_LONGEST_DECIMAL = 40
"""Characters of a text 0.… with 38 digits behind the point."""
_MOST_VALUES = 1 << 16
"""Maximum number of original values that a style keeps for a column: far more than a column has states."""


def is_path(data: Frame) -> TypeGuard[str | Path]:
    """Returns whether data are the path of a file rather than a frame."""
    return isinstance(data, str | Path)


def is_listing(value: object) -> bool:
    """Returns whether a value is a collection: iterable, but no text, and no array of one value."""
    single = isinstance(value, str | bytes) or getattr(value, "ndim", 1) == 0
    return isinstance(value, Iterable) and not single


def is_pandas(data: Frame) -> bool:
    """Returns whether data are a frame or a column of pandas, without importing it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame | pandas.Series)


def has_index(data: Frame) -> bool:
    """Returns whether the rows have labels outside the columns: a pandas index other than 0, 1, …."""
    return is_pandas(data) and not isinstance(data.index, sys.modules["pandas"].RangeIndex)


class Columns(NamedTuple):
    """The columns of a frame, as polars holds them.

    Attributes:
        frame: numbers, booleans, times and texts; categories for types that polars lacks.
        kinds: of the values of these categories, by column; None if all are missing.
        observed: columns whose categories are the values that occur, rather than declared ones.
    """

    frame: pl.DataFrame
    kinds: dict[str, ValueKind | None]
    observed: set[str]


def columns_in(data: Frame, wants: Callable[[str], bool] = lambda _name: True) -> Columns:
    """Returns the columns of a frame.

    Args:
        data: the frame.
        wants: whether the column of this name is needed; other columns are null in the frame returned.

    Raises:
        InputError: the value is not a frame, lengths differ, names repeat, or values cannot be states.
    """
    import polars as pl

    require_threads()
    originals, columns = named_columns(data)
    names = column_texts(originals)
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated or "" in names[1:]:
        reason = f"two columns are called '{repeated[0]}'" if repeated else "a column has an empty name"
        raise InputError(FRAME, "columns", reason, "give every column a unique name")
    # If no column is needed, the first gives the number of rows.
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
    """Returns the original names of columns whose names are not texts, by text."""
    held = list(names)
    return {name: one for name, one in zip(column_texts(held), held, strict=True) if name != one}


def labels_in(data: Frame) -> dict[str, Any]:
    """Returns `relabelled` of the columns of a frame; nothing for a path."""
    if is_path(data):
        return {}
    if hasattr(data, "collect_schema"):  # of polars; lazy ones are not read
        return relabelled(data.collect_schema().names())
    return relabelled(data.columns if is_pandas(data) else named_columns(data)[0])


def named_columns(data: Frame) -> tuple[list[Any], list[Any]]:
    """Returns the names, of any type, and the columns of a frame, uncopied; those of an array are V1, V2, ….

    Raises:
        InputError: the value is no table.
    """
    import polars as pl

    if is_pandas(data) and data.ndim == 2:  # noqa: PLR2004 - no single column
        return list(data.columns), [data.iloc[:, place] for place in range(data.shape[1])]
    if isinstance(data, Mapping):
        return list(data), list(map(_unpacked, data.values()))
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(data, pyarrow.Table | pyarrow.RecordBatch):
        return data.schema.names, list(map(_unpacked, data.columns))
    if isinstance(data, np.ndarray) and data.dtype.names:
        return list(data.dtype.names), [data[name] for name in data.dtype.names]
    if isinstance(data, np.ndarray) and data.ndim == 2:  # noqa: PLR2004 - rows and columns
        cells = data if np.ma.isMA(data) else np.asarray(data)  # a matrix has no columns of one dimension
        return [f"V{place + 1}" for place in range(data.shape[1])], list(cells.T)
    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    elif hasattr(data, "__arrow_c_stream__") and not (
        isinstance(data, pl.Series) or is_pandas(data) or hasattr(data, "read_next_batch")
    ):  # a stream can be read once only
        with readable(FRAME, "Arrow"):
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


_RARE = re.compile(r"decimal256|decimal\d+\(\d+, -|run_end|union|list_view|arrow\.json|interval")
"""Types of Arrow that polars lacks."""


def _unpacked(column: Any) -> Any:
    """Returns an array of pyarrow as a column of polars, or a list of objects; other columns unchanged.

    UTC takes the place of offsets, which polars does not read.
    """
    import polars as pl

    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None or not isinstance(column, pyarrow.Array | pyarrow.ChunkedArray):
        return column
    with readable(FRAME, "Arrow"):
        if _RARE.search(str(column.type)):
            return column.to_pylist()
        if re.match("[+-]", getattr(column.type, "tz", None) or ""):
            column = column.cast(pyarrow.timestamp(column.type.unit, "UTC"))
        return pl.DataFrame(pyarrow.table([column], [""])).to_series()


@contextmanager
def readable(name: str, suffix: str) -> Iterator[None]:
    """Translates the errors of polars.

    Args:
        name: of the file or frame.
        suffix: of its format.

    Raises:
        InputError: polars cannot read the file.
    """
    import polars as pl

    try:
        yield
    except pl.exceptions.PanicException:  # a BaseException, on damage that polars does not expect
        reason = f"polars fails to read it as {suffix}: it is damaged, or of a type that polars lacks"
        raise InputError(name, "", reason, "write it again, with common types") from None
    except (pl.exceptions.PolarsError, OSError, ValueError, OverflowError, NotImplementedError) as error:
        cause = (str(error).splitlines() or [type(error).__name__])[0]
        reason = f"it cannot be read as {suffix} ({cause})"
        raise InputError(name, "", reason, "check the file, or write values of rare types as text") from None


def _series(name: str, column: Any, kinds: dict[str, ValueKind | None], observed: set[str]) -> pl.Series:
    """Returns a column; values of types that polars lacks become categories, and their kind is recorded."""
    import polars as pl

    held = _held(name, column)
    if isinstance(held, pl.Series):
        return held
    distinct, codes, declared = held
    labels, places, kinds[name] = distinct_labels(distinct)
    if not declared:
        observed.add(name)
    rows = (np.array([*places, GAP]) % (len(labels) + 1))[codes]
    try:
        return pl.Series([*labels, None], dtype=pl.Enum(labels)).gather(rows)
    except UnicodeEncodeError:
        reason = "a text has half of a surrogate pair, which is no character"
        raise InputError(FRAME, f"column '{name}'", reason, "decode the text with its encoding") from None


def _plain_array(column: NDArray[Any]) -> NDArray[Any] | None:
    """Returns an array in a type of polars; None if there is none for it."""
    if column.dtype.kind == "M":
        exact = np.datetime_data(column.dtype)[0] in ("ns", "us", "ms")
        return column if exact else column.astype("datetime64[us]")
    held = column.dtype.kind in "biu" or (column.dtype.kind == "f" and column.dtype.itemsize in (4, 8))
    return column if held else None


def _held(name: str, column: Any) -> pl.Series | tuple[list[Any], NDArray[np.int64], bool]:
    """Returns a column of a type that polars has, or distinct values, their codes, and whether declared.

    Missing values have the code -1, or are among the values.
    """
    import polars as pl

    if isinstance(column, pl.Series) and column.dtype != pl.Object:
        return column
    if isinstance(column, np.ndarray) and column.ndim == 1 and (plain := _plain_array(column)) is not None:
        return pl.Series(plain)
    if hasattr(getattr(column, "dtype", None), "pyarrow_dtype"):
        return _held(name, _unpacked(column.array.__arrow_array__()))
    if is_pandas(column) and column.dtype != object:
        if hasattr(column.dtype, "categories"):
            codes = column.cat.codes.to_numpy().astype(np.int64)
            return _checked(name, _scalars(column.cat.categories, column.cat.categories.dtype)), codes, True
        if isinstance(column.dtype, np.dtype) and not column.dtype.isnative:
            column = column.astype(column.dtype.newbyteorder("="))
        try:
            codes, distinct = column.factorize()
        except NotImplementedError:  # nested values of Arrow
            raise not_a_state(FRAME, name, column.dtype) from None
        return _checked(name, _scalars(distinct, column.dtype)), codes.astype(np.int64), False
    if not is_listing(column) or isinstance(column, Mapping | Iterator | set | frozenset):
        reason = f"a value of type {type(column).__name__} is no column"
        remedy = "give a list with a value for every row; or pandas.DataFrame(data)"
        raise InputError(FRAME, f"column '{name}'", reason, remedy)
    if is_pandas(column):
        cells = np.ascontiguousarray(column.to_numpy())
    else:
        is_plain = getattr(getattr(column, "dtype", None), "kind", None) in ("O", "U", "S")
        values = column.tolist() if is_plain else list(column)
        if np.ma.isMA(column):
            values = [None if one is np.ma.masked else one for one in values]
        cells = np.fromiter(values, object, len(values))
    try:
        codes, distinct = _factorized(cells, by_pandas=is_pandas(column))
    except TypeError:  # no hash
        _checked(name, cells)
        without = [value for value in cells if getattr(value, "__hash__", None) is None] or cells
        raise not_a_state(FRAME, name, type(without[0]).__name__) from None
    return _checked(name, distinct), codes, False


def _factorized(cells: NDArray[Any], *, by_pandas: bool) -> tuple[NDArray[np.int64], list[Any]]:
    """Returns a code for each object and the distinct objects; numbers are equal, but none is a boolean.

    Args:
        cells: the objects, contiguous.
        by_pandas: whether pandas makes the codes, which is faster.
    """
    addresses = np.ctypeslib.as_array((ctypes.c_size_t * cells.size).from_address(cells.ctypes.data))
    marks: dict[Any, bool] = {object(): value for value in (True, False)}
    for mark, value in marks.items():  # there is one object of each, and one of numpy
        found = (addresses == id(value)) | (addresses == id(np.bool_(value)))
        if found.any():
            cells = np.where(found, mark, cells)
    if by_pandas:
        codes, distinct = sys.modules["pandas"].factorize(cells)
    else:
        distinct = defaultdict(count().__next__)
        codes = np.fromiter(map(distinct.__getitem__, cells), np.int64, cells.size)
    return codes, [marks.get(value, value) for value in distinct]


def _scalars(values: Any, dtype: Any) -> Iterable[Any]:
    """Returns values of pandas for iteration; half and single precision would otherwise become double."""
    kind = str(dtype).lower()
    if kind.startswith(("float16", "halffloat")):
        return np.asarray(values, dtype=np.float16)
    return np.asarray(values, dtype=np.float32) if kind.startswith(("float32", "float[")) else values


def _checked(name: str, values: Iterable[Any]) -> list[Any]:
    """Returns values as a list; refuses collections among them."""
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
    reason = f"values of type {kind} cannot be states"
    remedy = f"leave it out with {DROP([name])}, or write it as text"
    return InputError(source, f"column '{name}'", reason, remedy)


@dataclass(frozen=True, slots=True)
class FrameStyle:
    """How a frame represents its values, so that answers have the same form.

    Args:
        pandas: whether frames and columns are those of pandas; otherwise of polars.
        values: original values, by column and label.
        dtypes: of the columns.
        names: see `relabelled`.
    """

    pandas: bool = False
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dtypes: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Frame, columns: Mapping[str, ColumnStates]) -> FrameStyle:
        """Returns the style of a frame, or the default style for a path.

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
        """Returns the style of answers about a frame: its container, and the values of its columns.

        Args:
            data: the frame; a path, an array or a dictionary leaves the style unchanged.
            columns: states of the columns in the answers.
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
        """Returns the original name of a column; names in polars are always texts."""
        original = self.names.get(name, name)
        return original if self.pandas or isinstance(original, str) else name

    def column(self, name: str, states: ColumnStates, codes: NDArray[np.integer[Any]]) -> Any:
        """Returns a column of states.

        Labels that are not original values, such as ranges, become ordered categories. The state for a
        missing value becomes a missing value.

        Args:
            name: of the column.
            states: of the column.
            codes: shape (rows,), -1 for a missing value.
        """
        codes = np.where(codes == len(states.own), np.int64(GAP), codes)
        known, dtype = self.values.get(name, {}), self.dtypes.get(name)
        zones = {getattr(value, "tzinfo", None) is None for value in known.values()}
        suits = self.pandas or (len(zones) < 2 and all(map(_suits_polars, known.values())))  # noqa: PLR2004
        if not suits or any(label not in known for label in states.own):
            known, dtype = states.values(), None
        if not known:
            return _categories(self.name(name), states.own, codes, pandas=self.pandas)
        originals = [*(known[label] for label in states.own), None]
        if self.pandas:
            import pandas as pd

            cells = np.empty(len(originals), dtype=object)
            cells[:] = originals
            made = pd.Series(cells[codes], name=self.name(name), dtype=object)
            held = pd.Series(list(known.values()), dtype=object)
            if dtype is None or not _fits(lambda: held.astype(dtype), known):
                return made.infer_objects()
            holds = dtype.kind not in "biu" or isinstance(dtype, pd.api.extensions.ExtensionDtype)
            return made.astype(dtype) if holds or not made.isna().any() else made
        import polars as pl

        kind = dtype if isinstance(dtype, pl.DataType) else None
        if kind is not None and not _fits(lambda: pl.Series(list(known.values()), dtype=kind), known):
            kind = None
        made = pl.Series(self.name(name), originals, dtype=kind, strict=False)
        held = made.drop_nulls()
        if states.places(labels_of(held), kind_of_type(held.dtype)) != list(range(len(states.own))):
            # For instance, values of Python have no nanoseconds.
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
        """Returns a frame of columns, with the row labels of `like`."""
        if self.pandas:
            import pandas as pd

            return self.labelled(pd.concat(list(columns), axis=1), like)
        import polars as pl

        return pl.DataFrame(list(columns))

    def labelled(self, made: Any, like: Frame) -> Any:
        """Returns a column or frame with the row labels of another, if it has them and as many rows."""
        labels = self.pandas and is_pandas(like) and len(like) == len(made)
        return made.set_axis(like.index) if labels else made


def _categories(name: Any, labels: Sequence[str], codes: NDArray[np.integer[Any]], *, pandas: bool) -> Any:
    """Returns a column of ordered categories."""
    if pandas:
        import pandas as pd

        return pd.Series(pd.Categorical.from_codes(codes, list(labels), ordered=True), name=name)
    import polars as pl

    places = np.where(codes == GAP, len(labels), codes).astype(np.int64)
    return pl.Series(name, [*labels, None], dtype=pl.Enum(labels)).gather(places)


def _suits_polars(value: Any) -> bool:
    """Returns whether a value is of a type that polars has."""
    if isinstance(value, np.generic):
        return value.dtype.kind in "biuf" and value.dtype.itemsize <= np.dtype(float).itemsize
    if isinstance(value, Decimal):  # polars panics at infinity, and at more than 38 digits behind the point
        return value.is_finite() and len(format(value, "f")) <= _LONGEST_DECIMAL
    return type(value) in (bool, int, float, str, date, datetime, time, timedelta)


def _fits(made: Callable[[], Any], values: Mapping[str, Any]) -> bool:
    """Returns whether a column of some type keeps values unchanged."""
    try:
        held = made().to_list()
    except (TypeError, ValueError, OverflowError, NotImplementedError):
        return False
    pairs = zip(held, values.values(), strict=True)
    return all(one == other or label_of(one) == label_of(other) for one, other in pairs)


def _originals(name: str, column: Any, states: ColumnStates) -> dict[str, Any]:
    """Returns the value of each state in a column of a frame, by label; nothing if there are too many.

    The value of a state that does not occur is parsed from its label, if the column can hold it.
    """
    import polars as pl

    held: Any = _held(name, column)
    of_polars = isinstance(held, pl.Series)
    if of_polars:
        column, declared = held, isinstance(held.dtype, pl.Enum)
        distinct = (
            held.dtype.categories.cast(held.dtype)
            if declared
            else held.drop_nulls().unique(maintain_order=True)
        )
    else:
        distinct = held[0]
    if len(distinct) > _MOST_VALUES:
        return {}
    kind = kind_of_type(column.dtype) if of_polars else distinct_labels(distinct)[2]
    several = not of_polars and len({type(one) for one in distinct if not is_missing(one)}) > 1
    if kind is None or (kind == "text" and several and not is_pandas(column)):
        return {}  # columns of polars have one type
    found = states.values(kind) if kind != "text" else {}
    if of_polars and kind != "number" and list(map(label_of, distinct)) != labels_of(distinct):
        return {}  # too fine for values of Python
    if str(getattr(column, "dtype", "")).lower().startswith(("int", "uint")):
        found = {label: int(value) for label, value in found.items() if value == int(value)}
    places = states.places(labels_of(distinct), kind) if of_polars else states.codes(distinct)
    return found | {states.labels[code]: one for one, code in zip(distinct, places, strict=True) if code >= 0}
