"""From cells to states or numbers: gaps, numbers of states, cutting numbers into ranges, declared states.

The rule for states: the distinct values of a column, as they are written, are its states; numbers come first,
by value, then words in order. Declared states (a schema, or the file's own) are taken as they are declared,
whether all occur or not, and a value that is not declared is an error.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import ChoiceError, InputError
from jtsolve.tables.raw import GAP, signed_type
from jtsolve.tables.selecting import listed, selected
from jtsolve.tables.table import ContinuousTable, DataTable, code_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.tables.options import Coding, Discretisation
    from jtsolve.tables.raw import RawColumn, RawTable
    from jtsolve.tables.selecting import Selection

GAP_STATE = "?"
"""The label of a missing value that is kept as a state."""

_FEW = 20
"""Up to so many different numbers, fractions among them, are taken for states and not for a continuum."""


def to_states(raw: RawTable, coding: Coding, source: str) -> DataTable:
    """Returns a table of states.

    Raises:
        InputError: a column is continuous, has too many states, has values missing, or has only such, or a
            value is not declared; all columns at fault are named.
    """
    selection = selected(raw, coding, source)
    columns, remarks = selection.columns, selection.remarks
    continuous = [
        column.name
        for column in columns
        if coding.discretise is None and column.name not in coding.schema and _is_continuous(column, coding)
    ]
    if continuous:
        raise InputError(
            source,
            f"column{'s' * (len(continuous) > 1)} {listed(continuous)}",
            "numbers with many different values are no states",
            "cut them with --discretise quantile:4, declare states or cuts in a --schema, leave them out "
            "with --drop, or take a Gaussian score for them (--score gaussian-bic)",
        )
    cuts: dict[str, tuple[float, ...]] = {}
    coded = [_coded(column, coding, source, cuts, selection) for column in columns]
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
    return DataTable(names, states, codes, selection.weights, MappingProxyType(remarks))


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
    selection = selected(raw, coding, source)
    columns, remarks = selection.columns, selection.remarks
    values = []
    for column in columns:
        word = column.first_word()
        if word is not None:
            raise InputError(
                source,
                f"column '{column.name}'",
                f"'{word}' is no finite number",
                "leave the column out with --drop, or take a score of states such as bdeu",
            )
        values.append(column.numbers()[column.codes])
    try:
        names = tuple(column.name for column in columns)
        return ContinuousTable(names, np.array(values), MappingProxyType(remarks))
    except InputError as error:
        raise InputError(source, error.place, error.reason, error.remedy) from None


# States ---------------------------------------------------------------------------------------------------


def _is_continuous(column: RawColumn, coding: Coding) -> bool:
    """Tells whether a column holds numbers, too many for states, or many and not all of them whole."""
    if column.states is not None:
        return False
    numbers = column.numbers()[column.occurring()]
    different = np.unique(numbers)
    if different.size <= _FEW or np.isnan(numbers).any():
        return False
    return different.size > coding.max_states or bool((different % 1 != 0).any())


def _coded(
    column: RawColumn,
    coding: Coding,
    source: str,
    cuts: dict[str, tuple[float, ...]],
    selection: Selection,
) -> tuple[tuple[str, ...], NDArray[np.signedinteger[Any]]]:
    """Returns the states of a column and the state of each row; notes the cuts, if it is cut."""
    declared = coding.schema.get(column.name, column.states)
    if declared is not None and isinstance(declared[0], float):
        cuts[column.name] = tuple(float(cut) for cut in declared)
    elif declared is None and coding.discretise is not None and _is_continuous(column, coding):
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
    column: RawColumn, discretise: Discretisation, selection: Selection, source: str
) -> tuple[float, ...]:
    """Returns the cuts of a continuous column, by the rows in which it, and the class if needed, is known."""
    present = column.present()
    classes = selection.classes if discretise.method == "mdlp" else None
    if classes is not None:
        present &= classes.present()
        if classes.name == column.name or not present.any():
            raise InputError(
                source,
                f"column '{classes.name}'",
                f"it holds no classes by which '{column.name}' could be cut: it is continuous or empty",
                "name a column of states with --discretise mdlp:CLASS",
            )
    weights = None if selection.weights is None else selection.weights[present]
    numbers = column.numbers()[column.codes[present]]
    return discretise.cuts(numbers, weights, None if classes is None else classes.codes[present])


def _cut(column: RawColumn, cuts: tuple[float, ...], source: str) -> RawColumn:
    """Returns the column with ranges in place of numbers."""
    word = column.first_word()
    if word is not None:
        raise InputError(
            source,
            f"column '{column.name}'",
            f"'{word}' is no finite number, so it lies in no range",
            "mend the value, or declare states in place of cuts",
        )
    labels = range_labels(cuts)
    places = np.searchsorted(np.array(cuts), column.numbers(), side="left").astype(np.int32)
    return replace(column.recoded(places), labels=labels, states=labels)


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
) -> tuple[tuple[str, ...], NDArray[np.signedinteger[Any]]]:
    """Returns the states of a column, and the state of each row; `GAP` where it is to be imputed."""
    occurring = [column.labels[code] for code in column.occurring()]
    as_state = column.gaps(None) > 0 and coding.missing == "state"
    if declared is not None:
        labels = declared
        unseen = sorted(set(occurring) - set(declared))
        if unseen:
            raise InputError(
                source,
                f"column '{column.name}'",
                f"'{unseen[0]}' is not among its declared states, {listed(declared)}",
                "mend the value, or declare the state",
            )
    elif len(occurring) > coding.max_states:
        raise InputError(
            source,
            f"column '{column.name}'",
            f"it has {len(occurring)} different values, more than {coding.max_states}",
            "leave it out with --drop if it names the rows, cut it with a --schema of cuts, or raise "
            "--max-states",
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
