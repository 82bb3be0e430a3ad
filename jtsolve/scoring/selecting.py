"""Which columns and rows of a file count, and what becomes of missing values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import InputError
from jtsolve.scoring.raw import GAP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.scoring.options import Coding
    from jtsolve.scoring.raw import RawColumn, RawTable


def selected(
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
            f"there is none called {listed(unknown)}",
            f"choose among {listed(list(by_name))}",
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
        columns = [column.where(present) for column in columns]
    return _without_gaps(columns, weights, remarks, coding, source)


def _with_gaps(column: RawColumn, raw: RawTable, coding: Coding) -> RawColumn:
    """Returns the column with gaps where a word stands for a missing value, unless the word is declared."""
    declared = set(map(str, coding.schema.get(column.name, ()))) | set(column.states or ())
    words = set(coding.gaps) - declared
    if raw.typed or words.isdisjoint(column.labels):
        return column
    codes = [GAP if label in words else code for code, label in enumerate(column.labels)]
    return column.recoded(np.array(codes, dtype=np.int32))


def _row_weights(column: RawColumn, source: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the weights above 0, and which rows have one."""
    by_label = column.numbers()
    whole = column.gaps == 0 and bool(((by_label >= 0) & (by_label == np.floor(by_label))).all())
    numbers = by_label[column.codes] if whole else np.zeros(1)
    if not 0 < numbers.sum() < 2.0**53:
        raise InputError(
            source,
            f"column '{column.name}'",
            "not all weights are whole numbers of 0 or more, some of them above 0",
            "count how often each row occurs; scores of fractional counts are not offered",
        )
    present = numbers > 0
    return numbers[present].astype(np.int64), present


def _without_gaps(
    columns: list[RawColumn],
    weights: NDArray[np.int64] | None,
    remarks: dict[str, Any],
    coding: Coding,
    source: str,
) -> tuple[list[RawColumn], NDArray[np.int64] | None, dict[str, Any]]:
    """Treats missing values as the coding says; the remarks tell how many there were."""
    height = columns[0].codes.size
    counts = {column.name: gaps for column in columns if (gaps := column.gaps)}
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
            f"column{'s' * (len(empty) > 1)} {listed(empty)}",
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
        full = np.ones(height, dtype=np.bool_)
        for column in columns:
            full &= column.codes != GAP
        if not full.any():
            raise InputError(source, "missing values", "every row has some", "say --missing state")
        kept = [column.where(full) for column in columns]
        return kept, None if weights is None else weights[full], remarks
    return columns, weights, remarks  # `coding` puts in a state


def listed(names: Sequence[str]) -> str:
    """Returns the first names in quotes, and how many more there are."""
    shown = ", ".join(f"'{name}'" for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"  # noqa: PLR2004 - a line of text
