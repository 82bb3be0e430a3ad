"""Coding of raw columns as states or numbers: missing values, declared states, discretisation.

The states of a column are its distinct values as written: numbers by value, then words in lexical order, then
the state for a missing value. Declared states (of a schema, or of the file) keep their order and may be
unobserved; an undeclared value is an error.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import ChoiceError, InputError, name_list
from jtsolve.options import KIND, SCORE
from jtsolve.tables.options import (
    DISCRETISE,
    DROP,
    MAX_STATES,
    MISSING,
    MISSING_VALUES,
    REAL,
    SCHEMA,
    STATES,
    TREATMENTS,
    WEIGHTS,
    Discretisation,
)
from jtsolve.tables.raw import GAP, signed_type
from jtsolve.tables.selection import kept_columns, selected, without_gaps
from jtsolve.tables.table import ContinuousTable, DataTable, MixedTable, code_type
from jtsolve.tables.values import ColumnStates, are_of, gap_label, kind_of_texts, number_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.tables.options import Coding
    from jtsolve.tables.raw import RawColumn, RawTable
    from jtsolve.tables.selection import Subtable

FEW = 20
"""Most distinct numbers of a discrete column with fractions."""
FEW_WHOLE = 24
"""The same for whole numbers: hours and codes of classes are states; ages and days of a month are not."""
_SPIKE = 0.25
"""Share of the rows from which a single value makes a column of numbers unfit for a real one: most of its
normal scores would be equal, and variances would differ between cells by chance."""
_SPIKED = Discretisation("quantile", 16)
"""Cuts of such columns: with fewer ranges, models of credit and census data lost a nat per row."""
READ_STATES = f"read states: {SCORE('bdeu')}, or for the selection of a graph {KIND('states')}"
_OF_NUMBERS = ("em", "drop-rows", "drop-columns")
"""Treatments of gaps in real numbers."""


def to_states(raw: RawTable, coding: Coding, source: str, poll: Callable[[], object]) -> DataTable:
    """Returns a table of states.

    Args:
        raw: the columns as read.
        coding: options of states and missing values.
        source: the file, for errors.
        poll: called for every column; may raise to end the coding.

    Raises:
        InputError: a column is continuous, has too many states, or has missing or undeclared values.
    """
    if coding.real:
        raise ChoiceError(f"{REAL(coding.real)} is for scores of mixed tables, such as cg; leave it out")
    return _states(selected(raw, coding, source), coding, source, poll)


def _states(selection: Subtable, coding: Coding, source: str, poll: Callable[[], object]) -> DataTable:
    """Returns the table of states of selected columns, whose gaps are treated."""
    columns, remarks = selection.columns, selection.remarks
    require_states(columns, coding, source)
    cuts: dict[str, tuple[float, ...]] = {}
    coded = []
    for column in columns:
        poll()
        coded.append(coded_column(column, coding, source, cuts, selection))
    names = tuple(column.name for column in columns)
    states = tuple(one.labels for one, _ in coded)
    kind = code_type(max(map(len, states)))
    codes = np.empty((len(names), coded[0][1].size), dtype=kind)
    for row, (_, column_codes) in zip(codes, coded, strict=True):
        row[:] = column_codes
    codes.setflags(write=False)
    remarks["states"] = "declared, or the distinct values as written: numbers by value, then words in order"
    remarks |= kinds_remarks(dict(zip(names, (one for one, _ in coded), strict=True)))
    if cuts:
        remarks["cuts"] = {name: list(values) for name, values in cuts.items()}
    if coding.discretise is not None and coding.discretise.method == "mdlp":
        remarks["cut_by"] = coding.classes
    gaps = _gaps(columns) if coding.missing == "em" else None
    return DataTable(names, states, codes, selection.weights, MappingProxyType(remarks), selection.unit, gaps)


def _gaps(columns: Sequence[RawColumn]) -> NDArray[np.bool_] | None:
    """Returns which cells are missing, shape (columns, rows); None without any."""
    gaps = ~np.array([column.present() for column in columns])
    return gaps if gaps.any() else None


def kinds_remarks(states: Mapping[str, ColumnStates]) -> dict[str, Any]:
    """Returns remarks on kinds of values other than texts, and on states for a missing value."""
    kinds = {name: one.kind for name, one in states.items() if one.kind != "text"}
    gaps = [name for name, one in states.items() if one.gap]
    return ({"kinds": kinds} if kinds else {}) | ({"missing_states": gaps} if gaps else {})


def require_states(columns: Sequence[RawColumn], coding: Coding, source: str) -> None:
    """Checks that every continuous column is cut by the coding.

    Args:
        columns: as read.
        coding: options of states.
        source: the file, for errors.

    Raises:
        InputError: some are not; the message names them.
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
            f"leave them out with {DROP(continuous)}; or use a score of real numbers ({SCORE('cg')})",
        )


def to_numbers(raw: RawTable, coding: Coding, source: str, poll: Callable[[], object]) -> ContinuousTable:
    """Returns a table of real numbers.

    Args:
        raw: the columns as read.
        coding: options of missing values.
        source: the file, for errors.
        poll: see `to_states`.

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
            f"real numbers do not support {' and '.join(refused)}; do without, or {READ_STATES}"
        )
    selection = selected(raw, coding, source, treatments=_OF_NUMBERS)
    return _numbers(selection, source, READ_STATES, poll)


def _numbers(selection: Subtable, source: str, otherwise: str, poll: Callable[[], object]) -> ContinuousTable:
    """Returns the table of the numbers of selected columns without gaps."""
    columns, remarks = selection.columns, selection.remarks
    values = []
    for column in columns:
        poll()
        _require_numbers(column, source, f"leave it out with {DROP([column.name])}, or {otherwise}")
        numbers = column.numbers()[column.codes]
        missing = column.codes == GAP
        values.append(np.where(missing, numbers[~missing].mean(), numbers))
    try:
        names = tuple(column.name for column in columns)
        return ContinuousTable(names, np.array(values), MappingProxyType(remarks), gaps=_gaps(columns))
    except InputError as error:
        raise InputError(source, error.place, error.reason, error.remedy) from None


def to_mixed(
    raw: RawTable, coding: Coding, source: str, poll: Callable[[], object]
) -> DataTable | MixedTable:
    """Returns a table of states and of real numbers; one of states if no column is real.

    Columns of many different numbers are real, unless the coding cuts them or declares their states. Those in
    which one value has a quarter of the rows or more are cut. The remarks name both, as "real" and "spiked".

    Args:
        raw: the columns as read.
        coding: options of states and missing values.
        source: the file, for errors.
        poll: see `to_states`.

    Raises:
        InputError: a column declared real holds a word, a real one has gaps that would become states, or
            as `to_states`.
        ChoiceError: there are weights.
    """
    selection = kept_columns(raw, coding, source)
    numbers = [
        column
        for column in selection.columns
        if column.name in coding.real or (coding.discretise is None and is_quantity(column, coding))
    ]
    quantities = {column.name for column in numbers}
    for column in selection.columns:
        poll()
        if column.name not in quantities:
            _require_finite(column, coding, source)
    spiked = {column.name: spike for column in numbers if (spike := _spike(column, selection, coding))}
    real = [column.name for column in numbers if column.name not in spiked]
    cuts = {
        column.name: _found_cuts(column, _SPIKED, selection, source)
        for column in numbers
        if column.name in spiked
    }
    coding = replace(coding, schema={**coding.schema, **cuts}, real=())
    if real:
        if coding.weights is not None:
            raise ChoiceError(
                f"real columns do not support {WEIGHTS}, and {name_list(real)} are real; leave it out, or "
                f"cut these with {DISCRETISE('quantile:4')}"
            )
        if coding.missing in ("state", "impute-mode"):
            for column in numbers:
                if column.name in real and (count := column.gaps()):
                    reason = f"{count} values are missing, and the column is real"
                    remedy = f"give {MISSING('em')} or drop-rows, or cut it with {DISCRETISE('quantile:4')}"
                    raise InputError(source, f"column '{column.name}'", reason, remedy)
        gaps = any(column.name in real and column.gaps() for column in numbers)
        selection = without_gaps(selection, coding, source, _OF_NUMBERS if gaps else TREATMENTS[1:])
        if selection.weights is not None:  # equal rows were merged on reading
            repeated = np.repeat(np.arange(selection.weights.size), selection.weights)
            columns = [replace(column, codes=column.codes[repeated]) for column in selection.columns]
            selection = replace(selection, columns=columns, weights=None)
        real = [column.name for column in selection.columns if column.name in real]
    if spiked:
        selection.remarks["spiked"] = spiked
    if not real:
        return _states(without_gaps(selection, coding, source, TREATMENTS[1:]), coding, source, poll)
    parts = [
        replace(selection, columns=[c for c in selection.columns if (c.name in real) == of_real])
        for of_real in (False, True)
    ]
    states = _states(parts[0], coding, source, poll) if parts[0].columns else None
    values = _numbers(parts[1], source, f"declare its states with {STATES}", poll)
    remarks = {**(values if states is None else states).provenance, "real": real}
    names = tuple(column.name for column in selection.columns)
    return MixedTable(names, states, values, MappingProxyType(remarks))


def _spike(column: RawColumn, selection: Subtable, coding: Coding) -> str | None:
    """Returns a description of the value with too many rows for a real column; None without such a value."""
    if column.name in coding.real:
        return None
    _, counts = column.counts(selection.weights)
    share = counts.max() / counts.sum()
    if share < _SPIKE:
        return None
    return f"{column.labels[int(counts.argmax())]} has {100 * share:.0f} % of the rows"


def _require_finite(column: RawColumn, coding: Coding, source: str) -> None:
    """Checks that a column of many numbers holds no infinity."""
    word = None if coding.declares(column.name) or column.states is not None else column.first_word()
    if word is None or word.lstrip("+-").lower() not in {"inf", "infinity"}:
        return
    if np.isfinite(column.occurring_numbers()).sum() > FEW:
        raise InputError(
            source,
            f"column '{column.name}'",
            f"'{word}' is infinite, not a real number",
            f"correct the value; declare {MISSING_VALUES([word])} if it means a missing one; or "
            f"{STATES([column.name])}",
        )


def _require_numbers(column: RawColumn, source: str, remedy: str) -> None:
    word = column.first_word()
    if word is not None:
        raise InputError(source, f"column '{column.name}'", f"'{word}' is not a finite number", remedy)


def is_quantity(column: RawColumn, coding: Coding) -> bool:
    """Returns whether a column holds many different numbers, and no states of it are declared."""
    if column.states is not None or coding.declares(column.name):
        return False
    if len(column.labels) <= FEW:  # saves counting the rows
        return False
    different = np.unique(column.occurring_numbers())
    few = FEW if (different % 1 != 0).any() else FEW_WHOLE
    return bool(different.size > few and not np.isnan(different).any())


def is_continuous(column: RawColumn, coding: Coding) -> bool:
    """Returns whether a quantity has fractions, or more numbers than a column may have states."""
    if not is_quantity(column, coding):
        return False
    different = np.unique(column.occurring_numbers())
    return different.size > coding.max_states or bool((different % 1 != 0).any())


def coded_column(
    column: RawColumn,
    coding: Coding,
    source: str,
    cuts: dict[str, tuple[float, ...]],
    selection: Subtable,
) -> tuple[ColumnStates, NDArray[np.signedinteger[Any]]]:
    """Returns the states of a column and the code of each row, shape (rows,).

    Args:
        column: as read.
        coding: options of states.
        source: the file, for errors.
        cuts: receives the cuts of the column, by name.
        selection: the columns and weights, for cuts at quantiles or by class.

    Raises:
        InputError: it has too many states, undeclared values, or a class by which it cannot be cut.
    """
    declared = coding.schema.get(column.name, column.states)
    if declared is not None and isinstance(declared[0], float):
        cuts[column.name] = tuple(float(cut) for cut in declared)
    elif declared is None and coding.discretise is not None and is_quantity(column, coding):
        cuts[column.name] = _found_cuts(column, coding.discretise, selection, source)
    if column.name in cuts:
        column = _cut(column, cuts[column.name], source)
        declared = column.states
    states, codes = _labelled(column, tuple(map(str, declared)) if declared else None, coding, source)
    gaps = codes == GAP
    if gaps.any():  # impute-mode, from which em also starts
        counted = None if selection.weights is None else selection.weights[~gaps]
        times = np.bincount(codes[~gaps], counted, minlength=len(states.labels))
        codes[gaps] = np.argmax(times)
    return states, codes


def _found_cuts(
    column: RawColumn, discretise: Discretisation, selection: Subtable, source: str
) -> tuple[float, ...]:
    """Returns the cuts of a continuous column, from the rows in which it and the class are present."""
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
    """Returns the column with the ranges of its numbers as states."""
    _require_numbers(column, source, "correct the value, or declare states instead of cuts")
    labels = range_labels(cuts)
    places = np.searchsorted(np.array(cuts), column.numbers(), side="left").astype(np.int32)
    return replace(column.recoded(places), labels=labels, states=labels, kind="text")


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
) -> tuple[ColumnStates, NDArray[np.signedinteger[Any]]]:
    """Returns the states of a column and the code of each row; `GAP` where it is to be imputed."""
    occurring = [column.labels[code] for code in column.occurring()]
    if declared is not None:
        # Numbers declared by the user may be codes such as 01067.
        own = column.kind if column.states == declared or column.kind == "text" else None
        states = ColumnStates(declared, own or kind_of_texts(declared))
        places = states.places(column.labels, column.kind)
        unseen = sorted(column.labels[code] for code in column.occurring() if places[code] < 0)
        if unseen:
            reason = f"'{unseen[0]}' is not among its declared states, {name_list(declared)}"
            remedy = "correct the value, or declare the state"
            raise InputError(source, f"column '{column.name}'", reason, remedy)
    elif len(occurring) > coding.max_states:
        raise InputError(
            source,
            f"column '{column.name}'",
            f"it has {len(occurring)} distinct values, more than {coding.max_states}",
            f"if it identifies the rows, leave it out with {DROP([column.name])}; cut numbers with "
            f"{DISCRETISE('quantile:4')}; or raise {MAX_STATES}",
        )
    else:
        labels = tuple(sorted(occurring, key=state_order))
        states = ColumnStates(labels, column.kind or kind_of_texts(labels))
        place = {label: code for code, label in enumerate(labels)}
        places = [place.get(label, GAP) for label in column.labels]
    codes: NDArray[np.signedinteger[Any]] = column.recoded(np.array(places, dtype=np.int32)).codes.astype(
        signed_type(len(states.labels) + 1), copy=False
    )
    if column.gaps() > 0 and coding.missing == "state":
        codes[codes == GAP] = len(states.labels)
        states = ColumnStates((*states.labels, gap_label(states.labels)), states.kind, gap=True)
    return states, codes


def widened(
    table: DataTable, states: Mapping[str, ColumnStates], more: Mapping[str, Sequence[str]]
) -> DataTable:
    """Returns a table whose columns have further, unobserved states, in the usual order.

    Args:
        table: the data.
        states: of its columns.
        more: labels by column. If one is of another kind than the column, all its states become texts.
    """
    if not more:
        return table
    wide = {name: _wider(one, more.get(name, ())) for name, one in states.items()}
    codes = [
        np.array([*map(wide[name].own.index, states[name].own), len(wide[name].own)])[column]
        for name, column in zip(table.names, table.codes, strict=True)
    ]
    remarks = {key: fact for key, fact in table.provenance.items() if key != "kinds"}
    return replace(
        table,
        states=tuple(one.labels for one in wide.values()),
        codes=np.array(codes),
        provenance=MappingProxyType({**remarks, **kinds_remarks(wide), "states_of_validation": dict(more)}),
    )


def _wider(states: ColumnStates, more: Sequence[str]) -> ColumnStates:
    if not more:
        return states
    labels = tuple(sorted({*states.own, *more}, key=state_order))
    kind = states.kind if are_of(states.kind, labels) else "text"
    return ColumnStates((*labels, *[gap_label(labels)] * states.gap), kind, states.gap)


def state_order(label: str) -> tuple[int, float, str]:
    """Sort key of states: numbers by value, then words.

    >>> sorted(["b", "10", "9", "?"], key=state_order)
    ['9', '10', '?', 'b']
    """
    number = number_in(label)
    return (1, 0.0, label) if number is None else (0, float(number), label)
