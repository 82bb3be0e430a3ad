"""Tables of counts: crosstabs become rows of states with a column of counts, `Freq`, as in R.

In a frame of `pandas.crosstab`, the names of both axes are the variables; in a Series of counts, as of
`value_counts`, the names of its index. A wide table, of a file or another frame, has columns of counts whose
names are the states of one variable; `Coding.crosstab` names that variable.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import ChoiceError, InputError, name_list
from jtsolve.options import names_as_words
from jtsolve.tables.frames import FRAME, column_texts, is_pandas
from jtsolve.tables.options import CROSSTAB, names_in
from jtsolve.tables.raw import GAP, RawColumn, RawTable, signed_type
from jtsolve.tables.suspects import MARGIN
from jtsolve.tables.values import is_missing, label_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.tables.frames import Frame
    from jtsolve.tables.options import Coding

FREQ = "Freq"
_FEW = 20
"""Most states of a variable in a table that is recognised as one of counts; larger ones are rather data."""


def counts_in_rows(
    data: Frame, given: Mapping[str, Any], names: Collection[str] = ()
) -> tuple[Frame, Mapping[str, Any]]:
    """Returns data and the options to read them; a pandas table of counts becomes rows with weights.

    Args:
        data: of any kind.
        given: options by name. `crosstab`: whether data are a pandas table of counts; None for `is_crosstab`.
        names: the variables of a model, if there is one: its tables of counts have them on their axes.

    Raises:
        ChoiceError: `crosstab` is True, and the data are no frame of pandas.
        InputError: as `in_rows`.
    """
    is_table = given.get("crosstab")
    if isinstance(is_table, str):
        return data, given
    if is_table and not is_pandas(data):
        raise ChoiceError(f"crosstab=True is for frames of pandas; name the variable: {CROSSTAB('NAME=A,B')}")
    rest = {name: value for name, value in given.items() if name != "crosstab"}
    if is_table is None:
        is_table = given.get("weights") is None and (_has_axes(data, names) if names else is_crosstab(data))
    if not is_table:
        return data, rest
    rows = in_rows(data)
    return rows, {"states": list(rows.columns[:-1]), **rest, "weights": FREQ}  # its labels are no quantities


def _has_axes(data: Frame, names: Collection[str]) -> bool:
    """Returns whether data are of pandas, with some names on their axes and none among their columns."""
    if not is_pandas(data):
        return False
    axes = [data.index] if data.ndim == 1 else [data.index, data.columns]
    levels = column_texts(name for axis in axes for name in axis.names)
    columns = [] if data.ndim == 1 else column_texts(data.columns)
    return "" not in levels and not set(names).isdisjoint(levels) and set(names).isdisjoint(columns)


def is_crosstab(data: Frame) -> bool:
    """Returns whether data are a pandas table of counts.

    All levels of its axes have names and at most 20 labels, and its values are whole numbers from 0 on.
    """
    if not is_pandas(data) or not data.size:
        return False
    axes = [data.index] if data.ndim == 1 else [data.index, data.columns]
    if any(is_missing(name) for axis in axes for name in axis.names):
        return False
    few = all(axis.unique(level).size <= _FEW for axis in axes for level in range(axis.nlevels))
    kinds = [data.dtype] if data.ndim == 1 else data.dtypes
    whole = all(getattr(kind, "kind", "O") in "iu" for kind in kinds)
    return few and whole and not data.isna().to_numpy().any() and bool((data.to_numpy() >= 0).all())


def in_rows(data: Any) -> Any:
    """Returns a pandas table of counts as a frame with a row for each cell, and its count in `Freq`.

    Raises:
        InputError: an axis or a level has no name, two have the same, or the table has its margins.
    """
    pandas = sys.modules["pandas"]
    axes = [data.index] if data.ndim == 1 else [data.index, data.columns]
    names = [name for axis in axes for name in axis.names]
    labels = column_texts(names)
    if "" in labels or len({*labels, FREQ}) <= len(labels):
        reason = f"the names of its axes, {name_list(labels)}, are not distinct names other than {FREQ}"
        raise InputError(FRAME, "crosstab", reason, "name the variables: rename_axis")
    counts = data.to_numpy().reshape(len(data), -1)
    if data.ndim > 1:
        ends = [label_of(axis[-1] if axis.nlevels == 1 else axis[-1][0]) for axis in axes]
        _require_no_margins(counts, ends, FRAME)
    places = [place.ravel() for place in np.indices(counts.shape)]
    made = {
        name: axis.get_level_values(level).take(place)
        for axis, place in zip(axes, places, strict=False)  # a Series has one axis
        for level, name in enumerate(axis.names)
    }
    return pandas.DataFrame({**made, FREQ: counts.ravel()})


def melted(raw: RawTable, coding: Coding, source: str) -> tuple[RawTable, Coding]:
    """Returns a wide table as rows with counts, and their coding; without `coding.crosstab`, its arguments.

    Args:
        raw: the columns as read.
        coding: its crosstab names the new variable.
        source: the file, for errors.

    Raises:
        InputError: there is no such column, no column is left for another variable, a name repeats, or the
            table has its margins.
    """
    if coding.crosstab is None:
        return raw, coding
    name, _, chosen = coding.crosstab.partition("=")
    counted = names_in(chosen) if chosen else raw.names[1:]
    unknown = [one for one in counted if one not in raw.names]
    held = [column for column in raw.columns if column.name not in counted]
    if unknown or not counted or not held:
        reason = f"there is no column {name_list(unknown)}" if unknown else "no column is left for a variable"
        remedy = f"name the columns of counts: {CROSSTAB('NAME=FIRST,SECOND')}"
        raise InputError(source, "crosstab", reason, remedy)
    names = [*(column.name for column in held), name, FREQ]
    if not name or len(set(names)) < len(names):
        reason = f"{name_list(names)} are not distinct names"
        raise InputError(source, "crosstab", reason, f"name the variable: {CROSSTAB('NAME')}")
    by_name = {column.name: column for column in raw.columns}
    counts = [by_name[one] for one in counted]
    remedy = f"correct it, or name the columns of counts: {CROSSTAB('NAME=FIRST,SECOND')}"
    for column in counts:
        if column.gaps() or (word := column.first_word()) is not None:
            what = "a missing value" if column.gaps() else f"'{word}'"
            raise InputError(source, f"column '{column.name}'", f"{what} is no count", remedy)
    numbers = np.array([column.numbers()[column.codes] for column in counts])
    last = held[0].codes[-1]
    _require_no_margins(numbers.T, ["" if last == GAP else held[0].labels[last], counted[-1]], source)
    rows = raw.columns[0].codes.size
    labels = {
        label: code for code, label in enumerate(dict.fromkeys(t for one in counts for t in one.labels))
    }
    values = [np.array([*map(labels.__getitem__, one.labels), GAP])[one.codes] for one in counts]
    states = np.repeat(np.arange(len(counted)), rows)
    columns = [replace(column, codes=np.tile(column.codes, len(counted))) for column in held]
    columns += [
        RawColumn(name, counted, states.astype(signed_type(len(counted))), counted),
        RawColumn(FREQ, tuple(labels), np.concatenate(values).astype(np.int32)),
    ]
    times = None if raw.times is None else np.tile(raw.times, len(counted))
    layout = f"{name}={names_as_words(counted)}"
    return RawTable(tuple(names), tuple(columns), raw.typed, times, raw.index, crosstab=layout), replace(
        coding, crosstab=None, weights=FREQ, states=coding.states or tuple(column.name for column in held)
    )


def _require_no_margins(counts: NDArray[Any], ends: Sequence[str], source: str) -> None:
    """Checks that neither the last row nor the last column is a margin.

    One of them may be the sum of the others by chance: it is a margin if its label in `ends` is one of a
    margin, or if both are sums.
    """
    sums = [len(table) > 2 and bool((table[:-1].sum(0) == table[-1]).all()) for table in (counts, counts.T)]  # noqa: PLR2004 - of two or more
    for end, is_sum in zip(ends, sums, strict=True):
        if is_sum and (all(sums) or MARGIN.fullmatch(end)):
            reason = f"'{end}' is the sum of the others: a margin, which would count every row again"
            raise InputError(source, "crosstab", reason, "leave the margins out")
