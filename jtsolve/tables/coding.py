"""Coding of raw columns as states or numbers: missing values, declared states, discretisation.

The states of a column are its distinct values as written, numbers first, by value, then words in lexical
order. Declared states (of a schema, or of the file) keep their order and may be unobserved; an undeclared
value is an error.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import ChoiceError, InputError
from jtsolve.options import SCORE
from jtsolve.tables.options import DISCRETISE, DROP, MAX_STATES, MISSING, SCHEMA, STATES, WEIGHTS
from jtsolve.tables.raw import GAP, GAP_STATE, signed_type
from jtsolve.tables.selection import name_list, selected
from jtsolve.tables.table import ContinuousTable, DataTable, code_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.tables.options import Coding, Discretisation
    from jtsolve.tables.raw import RawColumn, RawTable
    from jtsolve.tables.selection import Subtable

FEW = 20
"""A column of at most this many distinct numbers counts as discrete, even if they are fractions."""
FEW_WHOLE = 31
"""The same for whole numbers: days of a month, hours and classes are states, ages are not."""


def to_states(raw: RawTable, coding: Coding, source: str) -> DataTable:
    """Returns a table of states.

    Raises:
        InputError: a column is continuous, has too many states, or has missing or undeclared values; all
            continuous columns are named.
    """
    selection = selected(raw, coding, source)
    columns, remarks = selection.columns, selection.remarks
    require_states(columns, coding, source)
    cuts: dict[str, tuple[float, ...]] = {}
    coded = [coded_column(column, coding, source, cuts, selection) for column in columns]
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
    if coding.discretise is not None and coding.discretise.method == "mdlp":
        remarks["cut_by"] = coding.classes
    return DataTable(names, states, codes, selection.weights, MappingProxyType(remarks), selection.unit)


def require_states(columns: Sequence[RawColumn], coding: Coding, source: str) -> None:
    """Checks that no column is to be cut that the coding does not cut.

    Raises:
        InputError: some are; all are named.
    """
    if coding.discretise is not None:
        return
    continuous = [column.name for column in columns if is_continuous(column, coding)]
    if continuous:
        raise InputError(
            source,
            f"column{'s' * (len(continuous) > 1)} {name_list(continuous)}",
            "numbers with many distinct values are not states",
            f"cut them with {DISCRETISE('quantile:4')}; declare states with {STATES}, or cuts with {SCHEMA}; "
            f"leave them out with {DROP(continuous)}; or use a Gaussian score "
            f"({SCORE('gaussian-bic')})",
        )


def to_numbers(raw: RawTable, coding: Coding, source: str) -> ContinuousTable:
    """Returns a table of real numbers.

    Raises:
        InputError: a value is missing or not a number.
        ChoiceError: the coding has an option that applies to states only.
    """
    given = {
        str(WEIGHTS): coding.weights,
        str(DISCRETISE): coding.discretise,
        str(SCHEMA): coding.schema,
        MISSING(coding.missing): coding.missing in ("state", "impute-mode"),
    }
    if refused := [option for option, value in given.items() if value]:
        raise ChoiceError(
            f"real numbers do not support {' and '.join(refused)}; do without, or read states: a discrete "
            "score such as bdeu, or the kind states"
        )
    selection = selected(raw, coding, source, treatments=("drop-rows", "drop-columns"))
    columns, remarks = selection.columns, selection.remarks
    values = []
    for column in columns:
        _require_numbers(
            column,
            source,
            f"leave it out with {DROP([column.name])}, or read states: a discrete score such as "
            "bdeu, or the kind states",
        )
        values.append(column.numbers()[column.codes])
    try:
        names = tuple(column.name for column in columns)
        return ContinuousTable(names, np.array(values), MappingProxyType(remarks))
    except InputError as error:
        raise InputError(source, error.place, error.reason, error.remedy) from None


def _require_numbers(column: RawColumn, source: str, remedy: str) -> None:
    word = column.first_word()
    if word is not None:
        raise InputError(source, f"column '{column.name}'", f"'{word}' is not a finite number", remedy)


def is_quantity(column: RawColumn, coding: Coding) -> bool:
    """Tells whether a column holds many different numbers, and no states of it are declared."""
    if column.states is not None or coding.declares(column.name):
        return False
    if len(column.labels) <= FEW:  # labels that do not occur change nothing, and rows need not be counted
        return False
    occurring = column.occurring()
    if occurring.size <= FEW:
        return False
    different = np.unique(column.numbers()[occurring])
    few = FEW if (different % 1 != 0).any() else FEW_WHOLE
    return bool(different.size > few and not np.isnan(different).any())


def is_continuous(column: RawColumn, coding: Coding) -> bool:
    """Tells whether a quantity has more numbers than states are allowed, or some with fractions."""
    if not is_quantity(column, coding):
        return False
    different = np.unique(column.numbers()[column.occurring()])
    return different.size > coding.max_states or bool((different % 1 != 0).any())


def coded_column(
    column: RawColumn,
    coding: Coding,
    source: str,
    cuts: dict[str, tuple[float, ...]],
    selection: Subtable,
) -> tuple[tuple[str, ...], NDArray[np.signedinteger[Any]]]:
    """Returns the states of a column and the code of each row; records the cuts in `cuts`.

    Raises:
        InputError: it has too many states, undeclared values, or a class that cannot cut it.
    """
    declared = coding.schema.get(column.name, column.states)
    if declared is not None and isinstance(declared[0], float):
        cuts[column.name] = tuple(float(cut) for cut in declared)
    elif declared is None and coding.discretise is not None and is_quantity(column, coding):
        cuts[column.name] = _found_cuts(column, coding.discretise, selection, source)
    if column.name in cuts:
        column = _cut(column, cuts[column.name], source)
        declared = column.states
    labels, codes = _labelled(column, tuple(map(str, declared)) if declared else None, coding, source)
    gaps = codes == GAP
    if gaps.any():  # impute-mode
        counted = None if selection.weights is None else selection.weights[~gaps]
        times = np.bincount(codes[~gaps], counted, minlength=len(labels))
        codes[gaps] = np.argmax(times)
    return labels, codes


def _found_cuts(
    column: RawColumn, discretise: Discretisation, selection: Subtable, source: str
) -> tuple[float, ...]:
    """Returns the cuts of a continuous column, from the rows where it, and any class, is present."""
    present = column.present()
    classes = selection.classes if discretise.method == "mdlp" else None
    if classes is not None:
        present &= classes.present()
        if classes.name == column.name or not present.any():
            raise InputError(
                source,
                f"column '{classes.name}'",
                f"it cannot serve as the class by which '{column.name}' is cut: it is continuous or empty",
                f"name a discrete column with {DISCRETISE('mdlp:CLASS')}",
            )
    weights = None if selection.weights is None else selection.weights[present]
    numbers = column.numbers()[column.codes[present]]
    return discretise.cuts(numbers, weights, None if classes is None else classes.codes[present])


def _cut(column: RawColumn, cuts: tuple[float, ...], source: str) -> RawColumn:
    """Returns the column with ranges in place of numbers."""
    _require_numbers(column, source, "correct the value, or declare states instead of cuts")
    labels = range_labels(cuts)
    places = np.searchsorted(np.array(cuts), column.numbers(), side="left").astype(np.int32)
    return replace(column.recoded(places), labels=labels, states=labels)


def range_labels(cuts: Sequence[float]) -> tuple[str, ...]:
    """Returns the labels of the ranges between cuts.

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
) -> tuple[tuple[str, ...], NDArray[np.signedinteger[Any]]]:
    """Returns the states of a column and the code of each row; `GAP` where it is to be imputed."""
    occurring = [column.labels[code] for code in column.occurring()]
    as_state = column.gaps(None) > 0 and coding.missing == "state"
    if declared is not None:
        labels = declared
        unseen = sorted(set(occurring) - set(declared))
        if unseen:
            raise InputError(
                source,
                f"column '{column.name}'",
                f"'{unseen[0]}' is not among its declared states, {name_list(declared)}",
                "correct the value, or declare the state",
            )
    elif len(occurring) > coding.max_states:
        raise InputError(
            source,
            f"column '{column.name}'",
            f"it has {len(occurring)} distinct values, more than {coding.max_states}",
            f"if it identifies the rows, leave it out with {DROP([column.name])}; cut numbers with "
            f"{DISCRETISE('quantile:4')}; or raise {MAX_STATES}",
        )
    else:
        labels = tuple(sorted({*occurring, GAP_STATE} if as_state else occurring, key=state_order))
    if as_state and GAP_STATE not in labels:
        labels = (*labels, GAP_STATE)
    place = {label: i for i, label in enumerate(labels)}
    places = np.array([place.get(label, GAP) for label in column.labels], dtype=np.int32)
    codes: NDArray[np.signedinteger[Any]] = column.recoded(places).codes.astype(
        signed_type(len(labels)), copy=False
    )
    if as_state:
        codes[codes == GAP] = place[GAP_STATE]
    return labels, codes


def widened(table: DataTable, more: Mapping[str, Sequence[str]]) -> DataTable:
    """Returns a table whose columns have further states, which no row takes, in the usual order."""
    if not more:
        return table
    states = tuple(
        tuple(sorted({*labels, *more[name]}, key=state_order)) if name in more else labels
        for name, labels in zip(table.names, table.states, strict=True)
    )
    codes = [
        np.array([wide.index(label) for label in labels])[column]
        for labels, wide, column in zip(table.states, states, table.codes, strict=True)
    ]
    return replace(table, states=states, codes=np.array(codes))


def state_order(label: str) -> tuple[int, float, str]:
    """Sort key of states: numbers by value, then words.

    >>> sorted(["b", "10", "9", "?"], key=state_order)
    ['9', '10', '?', 'b']
    """
    try:
        value = float(label)
    except ValueError:
        return (1, 0.0, label)
    return (0, value, label) if np.isfinite(value) else (1, 0.0, label)
