"""The survey of a partitioned table: workers count values, and the sums determine one coding.

A survey counts the values of every column. The survey of all partitions decides states, cuts and the
treatment of missing values, by the rules of `coding`; after that, any worker can code any partition alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import InputError, LimitError, name_list
from jtsolve.tables.check import examine, plain_finding, report_findings
from jtsolve.tables.coding import coded_column, kinds_remarks, require_states
from jtsolve.tables.gatherer import Intake
from jtsolve.tables.options import DROP, SCHEMA
from jtsolve.tables.parquet import read_frame, read_slice, require_same_columns
from jtsolve.tables.raw import GAP, RawColumn, RawTable
from jtsolve.tables.selection import Subtable, full_rows, kept_columns, require_treated
from jtsolve.tables.table import DataTable
from jtsolve.tables.values import ValueKind, label_of  # msgspec reads the annotation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.tables.options import Coding
    from jtsolve.tables.table import Codes

_MOST_LABELS = 1 << 20
"""Maximum number of distinct values of a column."""


@dataclass(frozen=True, slots=True)
class Part:
    """A partition, not read.

    Args:
        name: for messages.
        path: of a Parquet file, seen by all workers; None for a partition of Dask.
        start: the first row in the file.
        rows: their number; None if unknown.
        kinds: the types of the columns, by name.
        frame: for a partition of Dask, its task.
    """

    name: str
    path: str | None
    start: int
    rows: int | None
    kinds: Mapping[str, str]
    frame: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """The coding of a column, shared by all partitions.

    Args:
        name: of the column.
        states: their labels.
        cuts: boundaries of the ranges that are the states, or None.
        gap: the code of a missing value; None if there is none.
    """

    name: str
    states: tuple[str, ...]
    cuts: tuple[float, ...] | None = None
    gap: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionSurvey:
    """The summary of some partitions by the first pass.

    Args:
        part: the name of one of them.
        rows: their number, counting weights.
        values: number of occurrences by column and value.
        gaps: number of missing values by column.
        states: by column, those that its type declares, or None.
        kinds: of the values, by column; None if all are missing.
        remarks: on the selection of columns.
    """

    part: str
    rows: int
    values: dict[str, dict[str, int]]
    gaps: dict[str, int]
    states: dict[str, tuple[str, ...] | None]
    kinds: dict[str, ValueKind | None]
    remarks: dict[str, Any]


def _raw(part: Part, frame: Any, coding: Coding) -> RawTable | None:
    """Returns the columns of a partition, uncoded; None if it has no rows."""
    intake = Intake(coding.reads)
    if part.path is not None:
        assert part.rows, "files without rows make no partition"
        return read_slice(Path(part.path), part.start, part.rows, intake)
    kinds = {label_of(name): str(kind) for name, kind in frame.dtypes.items()}
    require_same_columns([("the first partition", part.kinds), (part.name, kinds)])
    try:
        return read_frame(frame, intake) if len(frame) else None
    except InputError as error:
        raise InputError(part.name, error.place, error.reason, error.remedy) from None


def _selected(part: Part, frame: Any, coding: Coding) -> tuple[Subtable, dict[str, int]] | None:
    """Returns the selected columns and rows of a partition, and the gaps by column; None without rows."""
    raw = _raw(part, frame, coding)
    if raw is None:
        return None
    selection = kept_columns(raw, coding, part.name)
    if selection.unit != 1:
        reason = "some weights are fractions, and partitions have counts only"
        raise InputError(part.name, f"column '{coding.weights}'", reason, "count how often each row occurs")
    gaps = {column.name: column.gaps(selection.weights) for column in selection.columns}
    if coding.missing == "drop-rows":
        selection = selection.where(full_rows(selection.columns))
    return selection, gaps


def surveyed(part: Part, frame: Any, coding: Coding) -> PartitionSurvey:
    """Returns the summary of a partition.

    Args:
        part: its name and place.
        frame: its rows.
        coding: options of the columns.
    """
    found = _selected(part, frame, coding)
    if found is None:
        return PartitionSurvey(part.name, 0, {}, {}, {}, {}, {})
    selection, gaps = found
    times = selection.weights
    values = {}
    for column in selection.columns:
        pairs = zip(column.labels, column.counts(times)[1].tolist(), strict=True)
        values[column.name] = {label: count for label, count in pairs if count}
    rows = selection.columns[0].codes.size if times is None else int(times.sum())
    states = {column.name: column.states for column in selection.columns}
    kinds = {column.name: column.kind for column in selection.columns}
    return _bounded(PartitionSurvey(part.name, rows, values, gaps, states, kinds, selection.remarks))


def combined_surveys(surveys: Sequence[PartitionSurvey]) -> PartitionSurvey:
    """Returns the summary of several partitions.

    Raises:
        InputError: the categories of a column differ between partitions.
    """
    first, *others = [survey for survey in surveys if survey.values] or surveys[:1]
    values: dict[str, Counter[str]] = {name: Counter(counts) for name, counts in first.values.items()}
    gaps = Counter(first.gaps)
    kinds = dict(first.kinds)
    for other in others:
        changed = [name for name in first.states if first.states[name] != other.states[name]]
        if changed:
            reason = f"its categories differ from those of {first.part}"
            remedy = "give all partitions the same categories, with categorize() of Dask"
            raise InputError(other.part, f"column '{changed[0]}'", reason, remedy)
        for name, counts in other.values.items():
            values[name].update(counts)
        gaps.update(other.gaps)
        for name, kind in other.kinds.items():
            # A column of several kinds holds texts, as in a single frame.
            kinds[name] = kinds[name] if kind in (None, kinds[name]) else "text" if kinds[name] else kind
    rows = sum(survey.rows for survey in surveys)
    return _bounded(replace(first, rows=rows, values=dict(values), gaps=dict(gaps), kinds=kinds))


def _bounded(survey: PartitionSurvey) -> PartitionSurvey:
    """Returns the survey; refuses columns with too many distinct values."""
    many = [name for name, values in survey.values.items() if len(values) > _MOST_LABELS]
    if many:
        raise LimitError(
            f"column{'s' * (len(many) > 1)} {name_list(many)} of {survey.part}: more than {_MOST_LABELS} "
            f"distinct values are not counted. Ways out: {DROP}, or cuts of all columns with {SCHEMA}"
        )
    return survey


def coded_part(part: Part, frame: Any, coding: Coding, columns: Sequence[CodedColumn]) -> DataTable | None:
    """Returns the table of a partition, with the states of the whole table; None if it has no rows.

    Args:
        part: the partition.
        frame: its frame, if it is one of Dask.
        coding: see `part_coding`.
        columns: their coding.

    Raises:
        InputError: a value is none of the states.
    """
    found = _selected(part, frame, coding)
    if found is None or not found[0].columns[0].codes.size:
        return None
    selection = found[0]
    gaps = {column.name: count for column in selection.columns if (count := column.gaps(selection.weights))}
    require_treated(gaps, [], len(columns), coding, part.name)
    codes: list[Codes] = []
    for raw, column in zip(selection.columns, columns, strict=True):
        _, own = coded_column(raw, coding, part.name, {}, selection)
        if raw.name in gaps:  # unless "?" is declared, `coded_column` has coded them as a further state
            assert column.gap is not None, "the survey has counted them"
            own = np.where(raw.present(), own, np.int32(column.gap))
        codes.append(own)
    return DataTable(
        tuple(column.name for column in columns),
        tuple(column.states for column in columns),
        np.array(codes),
        selection.weights,
    )


def column_codings(
    survey: PartitionSurvey,
    coding: Coding,
    source: str,
    size: int | None,
    *,
    strict: bool,
    run: Run | None,
) -> tuple[tuple[CodedColumn, ...], dict[str, Any]]:
    """Returns the coding of the columns, and remarks, after the data check.

    Args:
        survey: of all partitions.
        coding: options of the columns.
        source: the data, for errors.
        size: the largest size of a clique, for the check of sparse tables.
        strict: whether findings are errors.
        run: receives the findings.
    """
    remarks = dict(survey.remarks)
    raws = [_raw_column(name, survey) for name in survey.values]
    findings = tuple(
        finding
        for raw, times in raws
        for finding in examine(
            RawTable((raw.name,), (raw,), typed=True, times=times),
            _alone(coding, raw.name),
            source,
            size=size,
        )
    )
    report_findings(findings, source, run, strict=strict)
    if findings:
        remarks["warnings"] = [plain_finding(finding) for finding in findings]
    gaps = {name: count for name, count in survey.gaps.items() if count}
    empty = [name for name, values in survey.values.items() if not values]
    require_treated(gaps, empty, len(raws), coding, source)
    if gaps:
        remarks["missing_values"] = gaps
    if coding.missing == "drop-columns":
        raws = [(raw, times) for raw, times in raws if raw.name not in gaps]
    require_states([raw for raw, _ in raws], coding, source)
    columns, coded = [], {}
    for raw, times in raws:
        cuts: dict[str, tuple[float, ...]] = {}
        states, codes = coded_column(raw, coding, source, cuts, Subtable([raw], times, None, {}))
        gap = int(codes[-1]) if raw.name in gaps else None
        columns.append(CodedColumn(raw.name, states.labels, cuts.get(raw.name), gap))
        coded[raw.name] = states
    remarks["states"] = "declared, or the distinct values of all partitions as written"
    remarks |= kinds_remarks(coded)
    if cut := {column.name: list(column.cuts) for column in columns if column.cuts is not None}:
        remarks["cuts"] = cut
    return tuple(columns), remarks


def _raw_column(name: str, survey: PartitionSurvey) -> tuple[RawColumn, NDArray[np.int64]]:
    """Returns a column with one row per value, and one for gaps; and the weights of the rows."""
    values, gaps = survey.values[name], survey.gaps[name]
    codes = np.array([*range(len(values)), *[GAP] * bool(gaps)], dtype=np.int32)
    times = np.array([*values.values(), *[gaps] * bool(gaps)], dtype=np.int64)
    return RawColumn(name, tuple(values), codes, survey.states[name], survey.kinds[name]), times


def _alone(coding: Coding, name: str) -> Coding:
    """Returns the coding of one column."""
    return replace(
        coding,
        columns=(name,),
        drop=(),
        weights=None,
        class_column=None,
        schema={key: value for key, value in coding.schema.items() if key == name},
        states=tuple({name}.intersection(coding.states)),
    )


def part_coding(coding: Coding, columns: Sequence[CodedColumn]) -> Coding:
    """Returns the coding of single partitions: it declares all states and cuts."""
    filled = coding.missing in ("state", "impute-mode")
    gap = coding.missing == "state"
    own = {one.name: one.states[:-1] if gap and one.gap is not None else one.states for one in columns}
    return replace(
        coding,
        columns=tuple(column.name for column in columns),
        drop=(),
        missing="state" if filled else "drop-rows" if coding.missing == "drop-rows" else "refuse",
        discretise=None,
        schema={column.name: column.cuts or own[column.name] for column in columns},
        class_column=None,
        states=(),
    )
