"""Immutable tables: `DataTable` holds states, `ContinuousTable` real numbers, `MixedTable` both."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from jtsolve.errors import ChoiceError, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

Codes: TypeAlias = "NDArray[np.integer[Any]]"


def code_type(largest: int) -> type[np.uint8 | np.uint16 | np.int32]:
    """Returns the smallest integer type for codes below `largest`.

    >>> code_type(256).__name__, code_type(257).__name__
    ('uint8', 'uint16')
    """
    if largest <= 1 << 8:
        return np.uint8
    return np.uint16 if largest <= 1 << 16 else np.int32


@dataclass(frozen=True, slots=True, eq=False)
class DataTable:
    """Rows of states: the value of column i in row r is `states[i][codes[i, r]]`.

    Args:
        names: of the columns; unique and not empty.
        states: labels of each column's states, at least one; some may not occur.
        codes: shape (columns, rows), so that columns are contiguous: all passes go along them. Copied unless
            read-only, contiguous and of the smallest type that holds the codes (uint8, uint16 or int32).
        weights: shape (rows,), positive whole multiplicities, in counts of `unit`; None for 1.
        provenance: remarks on file and coding.
        unit: the weight of one count: 1 unless rows weigh fractions.
        gaps: shape (columns, rows), which cells are missing; their codes are placeholders. None without any.

    Raises:
        InputError: the shapes do not fit, a name, state, code or weight is invalid, or there are no rows.

    >>> DataTable(("a",), (("no", "yes"),), np.array([[0, 1, 1]])).total
    3
    """

    names: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    codes: Codes
    weights: NDArray[np.int64] | None = None
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    unit: float = 1.0
    gaps: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        _require_names(self.names)
        codes = np.asarray(self.codes)
        if codes.ndim != 2 or codes.shape[0] != len(self.names) or len(self.states) != len(self.names):  # noqa: PLR2004
            raise InputError(
                "table",
                "codes",
                f"shape {codes.shape} and states of {len(self.states)} columns for {len(self.names)} names",
                "give an array of shape (columns, rows), and states for every column",
            )
        _require_rows(codes.shape[1])
        if codes.dtype.kind not in "ui":
            raise InputError("table", "codes", f"the type {codes.dtype} is not integer", "give integer codes")
        for name, labels, column in zip(self.names, self.states, codes, strict=True):
            if not labels or len(set(labels)) < len(labels):
                reason = "there are none, or one occurs twice"
                raise InputError("table", f"states of '{name}'", reason, "give unique labels")
            if column.min() < 0 or column.max() >= len(labels):
                raise InputError(
                    "table",
                    f"codes of '{name}'",
                    f"they range from {column.min()} to {column.max()}, but there are {len(labels)} states",
                    "number the states from 0",
                )
        kind = code_type(max(map(len, self.states)))
        object.__setattr__(self, "codes", _frozen(codes, kind))
        if self.weights is not None:
            object.__setattr__(self, "weights", _weights(self.weights, codes.shape[1]))
        if not self.unit > 0 or (self.unit != 1 and self.weights is None):
            reason = f"it is {self.unit}, or there are no weights"
            raise InputError("table", "unit of weights", reason, "give a number above 0, and weights")
        _require_gaps(self.gaps, codes)

    @property
    def n(self) -> int:
        """The number of columns."""
        return len(self.names)

    @property
    def rows(self) -> int:
        """The number of rows stored, regardless of weights."""
        return int(self.codes.shape[1])

    @property
    def total(self) -> float:
        """The number of rows represented: the sum of the weights; whole unless rows weigh fractions."""
        counts = self.rows if self.weights is None else int(self.weights.sum())
        return counts if self.unit == 1 else counts * self.unit

    def require_whole_weights(self, purpose: str, remedy: str = "round them") -> None:
        """Checks that no row weighs a fraction.

        Args:
            purpose: the request that needs whole weights, for the message.
            remedy: for the message.

        Raises:
            ChoiceError: some rows do.
        """
        if self.unit != 1:
            raise ChoiceError(f"{purpose} needs whole weights, and these have fractions; {remedy}")

    @property
    def arities(self) -> NDArray[np.int64]:
        """The number of states of each column, shape (n,)."""
        return np.array([len(labels) for labels in self.states], dtype=np.int64)

    def digest(self) -> str:
        """Returns "sha256:…" over names, states, codes and weights."""
        sha = hashlib.sha256(repr((self.names, self.states, str(self.codes.dtype))).encode())
        sha.update(self.codes.data)
        if self.weights is not None:
            sha.update(self.weights.data)
        if self.unit != 1:
            sha.update(repr(self.unit).encode())
        return f"sha256:{sha.hexdigest()}"


@dataclass(frozen=True, slots=True, eq=False)
class ContinuousTable:
    """Rows of real numbers, for Gaussian scores.

    Args:
        names: of the columns; unique and not empty.
        values: shape (columns, rows), finite; copied unless it is read-only.
        provenance: remarks on the file.
        rows_behind: the number of rows behind a covariance, which the values represent (see `covariance`);
            None for rows of data.
        gaps: see `DataTable`.

    Raises:
        InputError: the shapes do not fit, a name is empty or repeated, there are no rows, a value is not
            finite, or a column is constant.
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    rows_behind: float | None = None
    gaps: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        _require_names(self.names)
        values = np.asarray(self.values)
        if values.ndim != 2 or values.shape[0] != len(self.names):  # noqa: PLR2004 - columns and rows
            reason = f"shape {values.shape} for {len(self.names)} names"
            raise InputError("table", "values", reason, "give an array of shape (columns, rows)")
        _require_rows(values.shape[1])
        values = _frozen(values, np.float64)
        object.__setattr__(self, "values", values)
        for name, column in zip(self.names, values, strict=True):
            if not np.isfinite(column).all():
                raise InputError(
                    "table", f"column '{name}'", "a number is not finite", "remove the row or the column"
                )
            if column.min() == column.max():
                reason = f"every value is {column[0]:g}: a constant has no Gaussian density"
                raise InputError("table", f"column '{name}'", reason, "leave the column out")
        _require_gaps(self.gaps, values)

    @property
    def n(self) -> int:
        """The number of columns."""
        return len(self.names)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.values.shape[1])

    @property
    def total(self) -> float:
        """The number of rows represented."""
        return self.rows if self.rows_behind is None else self.rows_behind

    def require_rows(self, purpose: str) -> None:
        """Checks that there are rows of data.

        Args:
            purpose: the request that needs them, for the message.

        Raises:
            ChoiceError: there is a covariance only.
        """
        if self.rows_behind is not None:
            raise ChoiceError(f"{purpose} needs rows, and a covariance has none; give the data")

    def digest(self) -> str:
        """Returns "sha256:…" over names, values, and the number of rows behind a covariance."""
        sha = hashlib.sha256(repr(self.names).encode())
        sha.update(self.values.data)
        if self.rows_behind is not None:
            sha.update(repr(self.rows_behind).encode())
        return f"sha256:{sha.hexdigest()}"


def dependent(names: Sequence[str]) -> InputError:
    """Returns the error for columns whose covariance matrix is singular."""
    reason = "they are linearly dependent, or nearly so, and their density is unbounded"
    return InputError("table", f"columns {', '.join(names)}", reason, "leave one of them out")


@dataclass(frozen=True, slots=True, eq=False)
class MixedTable:
    """Rows of states and real numbers.

    Args:
        names: of the columns, in their order.
        discrete: the columns of states, in this order, without weights; None if there are none.
        real: the columns of numbers, at least one, in this order.
        provenance: remarks on file and coding.

    Raises:
        InputError: the names are not those of both parts in order, the numbers of rows differ, or rows have
            weights.
    """

    names: tuple[str, ...]
    discrete: DataTable | None
    real: ContinuousTable
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        _require_names(self.names)
        own = () if self.discrete is None else self.discrete.names
        for part in (own, self.real.names):
            if part != tuple(name for name in self.names if name in set(part)):
                raise InputError("table", "columns", "a part has another order", "order it as the names")
        if sorted((*own, *self.real.names)) != sorted(self.names):
            raise InputError("table", "columns", "the names are not those of the parts", "name each once")
        if self.discrete is not None and self.discrete.rows != self.real.rows:
            reason = f"there are {self.discrete.rows} of states and {self.real.rows} of numbers"
            raise InputError("table", "rows", reason, "give both parts the same rows")
        if self.discrete is not None and self.discrete.weights is not None:
            raise InputError("table", "weights", "mixed tables have no weights", "repeat the rows")

    @property
    def n(self) -> int:
        """The number of columns."""
        return len(self.names)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.real.rows

    @property
    def total(self) -> int:
        """The number of rows."""
        return self.rows

    @property
    def states(self) -> tuple[tuple[str, ...] | None, ...]:
        """Labels of the states of each column; None for a real one."""
        own = self.discrete
        known = {} if own is None else dict(zip(own.names, own.states, strict=True))
        return tuple(map(known.get, self.names))

    @property
    def real_variables(self) -> int:
        """The real columns, as a bit mask."""
        return sum(1 << v for v, states in enumerate(self.states) if states is None)

    @property
    def gaps(self) -> NDArray[np.bool_] | None:
        """Which cells are missing, shape (n, rows); None without any."""
        parts = [part for part in (self.discrete, self.real) if part is not None and part.gaps is not None]
        if not parts:
            return None
        found = np.zeros((self.n, self.rows), dtype=np.bool_)
        for part in parts:
            found[[self.names.index(name) for name in part.names]] = part.gaps
        return found

    def digest(self) -> str:
        """Returns "sha256:…" over names and both parts."""
        parts = (self.names, None if self.discrete is None else self.discrete.digest(), self.real.digest())
        return f"sha256:{hashlib.sha256(repr(parts).encode()).hexdigest()}"


Table: TypeAlias = "DataTable | ContinuousTable | MixedTable"


def stacked_columns(table: Table) -> NDArray[np.float64]:
    """Returns codes and numbers, shape (columns, rows)."""
    if isinstance(table, DataTable):
        return table.codes.astype(np.float64)
    if isinstance(table, ContinuousTable):
        return table.values
    real = np.array([states is None for states in table.states])
    cells = np.empty((table.n, table.rows))
    cells[real] = table.real.values
    if table.discrete is not None:
        cells[~real] = table.discrete.codes
    return cells


def with_cells(table: Table, cells: NDArray[Any]) -> Table:
    """Returns the table with other codes and numbers, shape (columns, rows), and the same gaps."""
    if isinstance(table, DataTable):
        return replace(table, codes=cells.astype(np.int32))
    if isinstance(table, ContinuousTable):
        return replace(table, values=cells)
    real = np.array([states is None for states in table.states])
    discrete = table.discrete and replace(table.discrete, codes=cells[~real].astype(np.int32))
    return replace(table, discrete=discrete, real=replace(table.real, values=cells[real]))


def rows_at(table: ContinuousTable | MixedTable, rows: NDArray[np.int64]) -> ContinuousTable | MixedTable:
    """Returns some rows of a table, by their positions, shape (m,), without its gaps."""
    if isinstance(table, ContinuousTable):
        return replace(table, values=table.values[:, rows], gaps=None)
    discrete = table.discrete and replace(table.discrete, codes=table.discrete.codes[:, rows], gaps=None)
    return replace(
        table, discrete=discrete, real=replace(table.real, values=table.real.values[:, rows], gaps=None)
    )


def _require_names(names: Sequence[str]) -> None:
    if not names:
        raise InputError("table", "columns", "there are none", "keep at least one column")
    seen: set[str] = set()
    for position, name in enumerate(names):
        if not name or name in seen:
            reason = f"the name '{name}' is used twice" if name else "the name is empty"
            raise InputError("table", f"column {position + 1}", reason, "give every column a unique name")
        seen.add(name)


def _require_gaps(gaps: NDArray[np.bool_] | None, cells: NDArray[Any]) -> None:
    if gaps is not None and (gaps.shape != cells.shape or gaps.dtype != np.bool_):
        raise InputError("table", "gaps", "they are not truth values for each cell", "give as many")


def _require_rows(rows: int) -> None:
    if rows < 1:
        raise InputError("table", "rows", "there are none", "give a table with at least one row")


def _frozen(array: NDArray[Any], kind: type[np.generic]) -> NDArray[Any]:
    """Returns the array, copied unless it is read-only, contiguous and of this type."""
    if array.dtype == kind and array.flags.c_contiguous and not array.flags.writeable:
        return array
    array = np.array(array, dtype=kind, order="C")
    array.setflags(write=False)
    return array


def _weights(weights: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    weights = np.asarray(weights)
    if weights.shape != (rows,) or weights.dtype.kind not in "ui" or weights.min() < 1:
        reason = f"they are not {rows} whole numbers above 0"
        remedy = "count how often each row occurs, or give fractions as counts of a unit"
        raise InputError("table", "weights", reason, remedy)
    return _frozen(weights, np.int64)
