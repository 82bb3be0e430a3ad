"""From cells to states or numbers: gaps, numbers of states, cutting numbers into ranges, declared states.

The rule for states: the distinct values of a column, as they are written, are its states; numbers come first,
by value, then words in order. Declared states (a schema, or the file's own) are taken as they are declared,
whether all occur or not, and a value that is not declared is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from jtsolve.errors import ChoiceError, InputError
from jtsolve.scoring.formats import as_numbers
from jtsolve.scoring.table import ContinuousTable, DataTable, code_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    from numpy.typing import NDArray

    from jtsolve.scoring.formats import RawColumn, RawTable

Missing: TypeAlias = Literal["refuse", "state", "drop-rows", "drop-columns", "impute-mode"]
MISSING: tuple[str, ...] = get_args(Missing)

GAPS = ("", "?", "NA", "N/A", "NaN", "nan", "null")
"""Words that stand for a missing value in text that has no mark of its own for it."""

GAP_STATE = "?"
"""The label of a missing value that is kept as a state."""

_FEW = 20
"""Up to so many different numbers, fractions among them, are taken for states and not for a continuum."""

Schema: TypeAlias = Mapping[str, "tuple[str, ...] | tuple[float, ...]"]
"""States (texts) or cuts (numbers, increasing) by the name of a column."""


@dataclass(frozen=True, slots=True)
class Discretisation:
    """How to cut numbers into ranges; a number that equals a cut lies below it.

    Args:
        method: "quantile": cuts are the observed values at equal shares of the file's rows; "width": ranges
            of equal width between the least and the largest value.
        bins: the number of ranges, at least 2; ties can leave fewer.

    Raises:
        ChoiceError: a value is not on offer.
    """

    method: Literal["quantile", "width"]
    bins: int

    def __post_init__(self) -> None:
        if self.method not in ("quantile", "width") or self.bins < 2:  # noqa: PLR2004 - one range tells nothing
            raise ChoiceError(
                f"no discretisation '{self.method}:{self.bins}'; give quantile:B or width:B with B > 1"
            )

    @classmethod
    def parse(cls, text: str) -> Discretisation:
        """Returns what "quantile:4" or "width:4" stands for.

        >>> Discretisation.parse("quantile:4")
        Discretisation(method='quantile', bins=4)
        """
        method, _, bins = text.partition(":")
        return cls(method, int(bins) if bins.isdecimal() else 0)  # type: ignore[arg-type]  # checked there

    def cuts(self, numbers: NDArray[np.float64]) -> tuple[float, ...]:
        """Returns the cuts between the ranges of a column, increasing, all below the largest number."""
        shares = np.arange(1, self.bins) / self.bins
        if self.method == "quantile":
            cuts = np.quantile(numbers, shares, method="inverted_cdf")
        else:
            cuts = numbers.min() + shares * (numbers.max() - numbers.min())
        return tuple(float(cut) for cut in np.unique(cuts) if cut < numbers.max())


@dataclass(frozen=True, slots=True)
class Coding:
    """What to make of the cells of a file.

    Args:
        columns: names of the columns to keep, in this order; None for all in the order of the file.
        drop: names of columns to leave out.
        weights: the name of a column that tells how often each row occurs, or None.
        missing: what to do about missing values: "refuse" with the counts; a "state" of its own; "drop-rows"
            that have one; "drop-columns" that have one; "impute-mode": put in the column's most frequent
            state, the first in order among equals.
        gaps: words that stand for a missing value in files that have no mark for it.
        discretise: how to cut continuous columns into states, or None to refuse them.
        schema: declared states or cuts of some columns.
        max_states: the largest number of states of a column whose states are not declared.

    Raises:
        ChoiceError: a value is not on offer.
    """

    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    weights: str | None = None
    missing: Missing = "refuse"
    gaps: tuple[str, ...] = GAPS
    discretise: Discretisation | None = None
    schema: Schema = field(default_factory=lambda: MappingProxyType({}))
    max_states: int = 1000

    def __post_init__(self) -> None:
        if self.missing not in MISSING:
            raise ChoiceError(
                f"missing values cannot be handled by '{self.missing}', but by {', '.join(MISSING)}"
            )
        if self.max_states < 1:
            raise ChoiceError(f"at most {self.max_states} states leave no column; give a number of 1 or more")


def to_states(raw: RawTable, coding: Coding, source: str) -> DataTable:
    """Returns a table of states.

    Raises:
        InputError: a column is continuous, has too many states, has values missing, or has only such, or a
            value is not declared; all columns at fault are named.
    """
    columns, weights, remarks = _selected(raw, coding, source)
    continuous = [
        column.name
        for column in columns
        if coding.discretise is None and column.name not in coding.schema and _is_continuous(column)
    ]
    if continuous:
        raise InputError(
            source,
            f"column{'s' * (len(continuous) > 1)} {_listed(continuous)}",
            "real numbers with many different values are no states",
            "cut them with --discretise quantile:4, declare states or cuts in a --schema, leave them out "
            "with --drop, or take a Gaussian score for them (--score gaussian-bic)",
        )
    cuts: dict[str, tuple[float, ...]] = {}
    coded = [_coded(column, coding, source, cuts, weights) for column in columns]
    names = tuple(column.name for column in columns)
    states = tuple(labels for labels, _ in coded)
    kind = code_type(max(map(len, states)))
    codes = np.empty((len(names), coded[0][1].size), dtype=kind)
    for row, (_, column_codes) in zip(codes, coded, strict=True):
        row[:] = column_codes
    codes.setflags(write=False)
    remarks["states"] = (
        "declared, or the distinct values as they are written: numbers by value, then words in order"
    )
    if cuts:
        remarks["cuts"] = {name: list(values) for name, values in cuts.items()}
    return DataTable(names, states, codes, weights, MappingProxyType(remarks))


def to_numbers(raw: RawTable, coding: Coding, source: str) -> ContinuousTable:
    """Returns a table of real numbers.

    Raises:
        InputError: a column holds something else, or values are missing.
        ChoiceError: the coding asks for what only states can have.
    """
    if coding.weights or coding.discretise or coding.schema or coding.missing in ("state", "impute-mode"):
        raise ChoiceError(
            "real numbers take no weights, discretisation, schema, nor missing values as states or modes; "
            "leave these out, or take a score of states such as bdeu"
        )
    columns, _, remarks = _selected(raw, coding, source)
    values = []
    for column in columns:
        numbers = as_numbers(column.cells)
        if numbers is None:
            raise InputError(
                source,
                f"column '{column.name}'",
                f"'{_first_word(column.cells)}' is no finite number",
                "leave the column out with --drop, or take a score of states such as bdeu",
            )
        values.append(numbers.to_numpy())
    try:
        names = tuple(column.name for column in columns)
        return ContinuousTable(names, np.array(values), MappingProxyType(remarks))
    except InputError as error:
        raise InputError(source, error.place, error.reason, error.remedy) from None


def _first_word(cells: pl.Series) -> str:
    import polars as pl

    numbers = cells.cast(pl.Float64, strict=False)
    return str(cells.filter(cells.is_not_null() & ~numbers.is_finite().fill_null(value=False))[0])


# Which columns and rows -----------------------------------------------------------------------------------


def _selected(
    raw: RawTable, coding: Coding, source: str
) -> tuple[list[RawColumn], NDArray[np.int64] | None, dict[str, Any]]:
    """Returns the columns to keep, their gaps treated, the weights of the rows, and remarks on both."""
    by_name = {column.name: column for column in raw.columns}
    named = (*(coding.columns or ()), *coding.drop, *coding.schema, *filter(None, [coding.weights]))
    unknown = [name for name in named if name not in by_name]
    if unknown:
        raise InputError(
            source,
            "columns",
            f"there is none called {_listed(unknown)}",
            f"choose among {_listed(list(by_name))}",
        )
    out = {*coding.drop, coding.weights}
    keep = [name for name in coding.columns or by_name if name not in out]
    if not keep or len(set(keep)) < len(keep):
        raise InputError(source, "columns", "none is left, or one is named twice", "keep each column once")
    columns = [_with_gaps(by_name[name], raw, coding) for name in keep]
    remarks: dict[str, Any] = {"missing": coding.missing}
    if dropped := [name for name in by_name if name not in keep and name != coding.weights]:
        remarks["columns_dropped"] = dropped
    weights = None
    if coding.weights is not None:
        remarks["weights"] = coding.weights
        weights, present = _row_weights(by_name[coding.weights], source)
        columns = [_replace_cells(column, column.cells.filter(present)) for column in columns]
    return _without_gaps(columns, weights, remarks, coding, source)


def _with_gaps(column: RawColumn, raw: RawTable, coding: Coding) -> RawColumn:
    """Returns the column with null where a word stands for a missing value, unless the word is declared."""
    import polars as pl

    if raw.typed:
        return column
    declared = set(map(str, coding.schema.get(column.name, ()))) | set(column.states or ())
    words = [word for word in coding.gaps if word not in declared]
    cells = column.cells
    return _replace_cells(
        column, pl.select(pl.when(~cells.fill_null("").is_in(words)).then(cells.fill_null(""))).to_series()
    )


def _replace_cells(column: RawColumn, cells: pl.Series) -> RawColumn:
    return type(column)(column.name, cells, column.states)


def _row_weights(column: RawColumn, source: str) -> tuple[NDArray[np.int64], pl.Series]:
    """Returns the weights above 0, and which rows have one."""
    import polars as pl

    numbers = column.cells.cast(pl.Float64, strict=False)
    whole = numbers.null_count() == 0 and bool(((numbers >= 0) & (numbers == numbers.floor())).all())
    if not whole or not 0 < float(numbers.sum()) < 2.0**53:
        raise InputError(
            source,
            f"column '{column.name}'",
            "not all weights are whole numbers of 0 or more, some of them above 0",
            "count how often each row occurs; scores of fractional counts are not offered",
        )
    present = numbers > 0
    return numbers.filter(present).cast(pl.Int64).to_numpy(), present


def _without_gaps(
    columns: list[RawColumn],
    weights: NDArray[np.int64] | None,
    remarks: dict[str, Any],
    coding: Coding,
    source: str,
) -> tuple[list[RawColumn], NDArray[np.int64] | None, dict[str, Any]]:
    """Treats missing values as the coding says; the remarks tell how many there were."""
    height = len(columns[0].cells)
    counts = {column.name: gaps for column in columns if (gaps := column.cells.null_count())}
    if not counts:
        return columns, weights, remarks
    remarks["missing_values"] = counts
    if coding.missing == "refuse":
        told = ", ".join(f"{gaps} in '{name}'" for name, gaps in counts.items())
        raise InputError(
            source,
            "missing values",
            f"there are {told}",
            "say what to do: --missing state, drop-rows, drop-columns or impute-mode; or --missing-values to "
            "say which words stand for one",
        )
    empty = [name for name, gaps in counts.items() if gaps == height]
    if empty and coding.missing != "drop-columns":
        raise InputError(
            source,
            f"column{'s' * (len(empty) > 1)} {_listed(empty)}",
            "every value is missing",
            "leave it out with --drop, or say --missing drop-columns",
        )
    if coding.missing == "drop-columns":
        kept = [column for column in columns if column.name not in counts]
        if not kept:
            raise InputError(
                source, "missing values", "every column has some", "say --missing state or drop-rows"
            )
        return kept, weights, remarks
    if coding.missing == "drop-rows":
        full = columns[0].cells.is_not_null()
        for column in columns[1:]:
            full &= column.cells.is_not_null()
        if not full.any():
            raise InputError(source, "missing values", "every row has some", "say --missing state")
        kept = [_replace_cells(column, column.cells.filter(full)) for column in columns]
        return kept, None if weights is None else weights[full.to_numpy()], remarks
    return columns, weights, remarks  # `_coded` puts in a state


# States ---------------------------------------------------------------------------------------------------


def _is_continuous(column: RawColumn) -> bool:
    """Tells whether a column holds real numbers, not all whole, with many different values."""
    import polars as pl

    if column.states is not None:
        return False
    if column.cells.dtype == pl.String:
        sample = column.cells.drop_nulls().head(1000)
        if as_numbers(sample) is None:
            return False
    numbers = as_numbers(column.cells)
    if numbers is None:
        return False
    different = numbers.drop_nulls().unique()
    return len(different) > _FEW and bool((different != different.floor()).any())


def _coded(
    column: RawColumn,
    coding: Coding,
    source: str,
    cuts: dict[str, tuple[float, ...]],
    weights: NDArray[np.int64] | None,
) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Returns the states of a column and the state of each row; notes the cuts, if it is cut."""
    declared = coding.schema.get(column.name, column.states)
    if declared is not None and (not declared or isinstance(declared[0], float)):
        cuts[column.name] = tuple(float(cut) for cut in declared)
    elif declared is None and coding.discretise is not None and _is_continuous(column):
        numbers = as_numbers(column.cells)
        assert numbers is not None, "continuous columns hold numbers"
        cuts[column.name] = coding.discretise.cuts(numbers.drop_nulls().to_numpy())
    if column.name in cuts:
        column = _cut(column, cuts[column.name], source)
        declared = column.states
    labels, codes = _labelled(column, tuple(map(str, declared)) if declared else None, coding, source)
    if codes.null_count():  # impute-mode
        present = codes.is_not_null()
        counted = None if weights is None else weights[present.to_numpy()]
        times = np.bincount(codes.drop_nulls().to_numpy(), counted, minlength=len(labels))
        codes = codes.fill_null(int(np.argmax(times)))
    return labels, codes.to_numpy()


def _cut(column: RawColumn, cuts: tuple[float, ...], source: str) -> RawColumn:
    """Returns the column with ranges in place of numbers."""
    import polars as pl

    numbers = as_numbers(column.cells)
    if numbers is None:
        raise InputError(
            source,
            f"column '{column.name}'",
            f"'{_first_word(column.cells)}' is no finite number, so it lies in no range",
            "mend the value, or declare states in place of cuts",
        )
    labels = range_labels(cuts)
    places = np.searchsorted(np.array(cuts), numbers.fill_null(0.0).to_numpy(), side="left")
    cells = pl.Series([labels[place] for place in places.tolist()], dtype=pl.String)
    whole = pl.select(pl.when(column.cells.is_not_null()).then(cells)).to_series()
    return type(column)(column.name, whole, labels)


def range_labels(cuts: Sequence[float]) -> tuple[str, ...]:
    """Returns a label for each range between cuts.

    >>> range_labels([1.0, 2.5])
    ('<= 1', '> 1, <= 2.5', '> 2.5')
    """
    bounds = [f"{cut!r}".removesuffix(".0") for cut in cuts]
    if not bounds:
        return ("any",)
    return (
        f"<= {bounds[0]}",
        *(f"> {low}, <= {high}" for low, high in pairwise(bounds)),
        f"> {bounds[-1]}",
    )


def _labelled(
    column: RawColumn, declared: tuple[str, ...] | None, coding: Coding, source: str
) -> tuple[tuple[str, ...], pl.Series]:
    """Returns the states of a column, and their codes, null where a value is missing and stays so."""
    import polars as pl

    cells = column.cells
    if cells.dtype != pl.String:  # floats of a typed file
        cells = pl.Series([None if value is None else f"{value!r}".removesuffix(".0") for value in cells])
    if cells.null_count() and coding.missing == "state":
        cells = cells.fill_null(GAP_STATE)
        if declared is not None and GAP_STATE not in declared:
            declared = (*declared, GAP_STATE)
    found = cells.drop_nulls().unique()
    place = f"column '{column.name}'"
    if declared is not None:
        unseen = sorted(set(found.to_list()) - set(declared))
        if unseen:
            raise InputError(
                source,
                place,
                f"'{unseen[0]}' is not among its declared states, {_listed(list(declared))}",
                "mend the value, or declare the state",
            )
        labels = declared
    elif len(found) > coding.max_states:
        raise InputError(
            source,
            place,
            f"it has {len(found)} different values, more than {coding.max_states}",
            "leave it out with --drop if it names the rows, cut it with a --schema of cuts, or raise "
            "--max-states",
        )
    else:
        labels = tuple(sorted(found.to_list(), key=state_order))
    kind = {1: pl.UInt8, 2: pl.UInt16, 4: pl.Int32}[np.dtype(code_type(len(labels))).itemsize]
    codes = cells.replace_strict(list(labels), list(range(len(labels))), default=None, return_dtype=kind)
    return labels, codes


def state_order(label: str) -> tuple[int, float, str]:
    """Orders states: numbers by value, then words.

    >>> sorted(["b", "10", "9", "?"], key=state_order)
    ['9', '10', '?', 'b']
    """
    try:
        value = float(label)
    except ValueError:
        return (1, 0.0, label)
    return (0, value, label) if np.isfinite(value) else (1, 0.0, label)


def _listed(names: Sequence[str]) -> str:
    """Returns the first names in quotes, and how many more there are."""
    shown = ", ".join(f"'{name}'" for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"  # noqa: PLR2004 - a line of text
