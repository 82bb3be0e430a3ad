"""Reads data files and frames into tables of states or of real numbers; reads schemas.

    .csv .tsv .tab .txt .data, other   delimited by commas, semicolons, tabs or blanks; R's write.table
    .dat                               GOBNILP and blip: names, numbers of states, then rows of states
    .arff                              Weka
    .parquet .arrow .feather .ipc      typed columns, read by polars

A folder, or a pattern such as 'folder/*.parquet', stands for all its Parquet files, one after the other. Data
frames are read like these; see `frames`. Any single file may be packed. Text is UTF-8 by default; blanks
around values and blank lines do not count. The header may be missing. Every row must have as many values as
there are columns. A first column without a name is an index, as pandas writes it, and left out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import isfinite
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from jtsolve.core.files import read_file
from jtsolve.core.formats import GRAPH, MODEL, TABLE, kind_of_suffix
from jtsolve.core.run import Run
from jtsolve.errors import ChoiceError, InputError, name_list, nearest_word, printable, require_type
from jtsolve.options import KEYWORDS, field_options
from jtsolve.tables.arff import read_arff
from jtsolve.tables.check import KINDS, examine, plain_finding, report_findings
from jtsolve.tables.coding import to_mixed, to_numbers, to_states
from jtsolve.tables.covariance import labels_of_rows, to_covariance
from jtsolve.tables.crosstab import melted
from jtsolve.tables.csv_text import read_dat, read_separated
from jtsolve.tables.frames import FRAME, Frame, is_listing, is_path
from jtsolve.tables.gatherer import Intake
from jtsolve.tables.options import (
    CLASS_COLUMN,
    CROSSTAB,
    DATA,
    UTF_8,
    WEIGHTS,
    Coding,
    Dialect,
    Discretisation,
    Habits,
    Reading,
    Schema,
)
from jtsolve.tables.parquet import read_columnar, read_frame
from jtsolve.tables.source import BLOCKS, Blocks, Lines, Source
from jtsolve.tables.values import label_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jtsolve.tables.check import Finding
    from jtsolve.tables.raw import RawTable
    from jtsolve.tables.table import ContinuousTable, DataTable, Table

Cells: TypeAlias = Literal["states", "numbers", "mixed"]

SomeTable = TypeVar("SomeTable", "DataTable", "ContinuousTable", "Table")


def read_raw(
    data: Source | Frame,
    intake: Intake | None = None,
    dialect: Dialect = Dialect(),  # noqa: B008 - a frozen value
) -> RawTable:
    """Returns the columns of a file or frame, uncoded.

    Args:
        data: the file, whose suffix determines the format, or a data frame.
        intake: the columns and rows to read; None for all.
        dialect: the format of text; its encoding is that of the source.

    Raises:
        InputError: the content does not match the suffix; names the line and the fault.
        ChoiceError: the format has no such option of the dialect.
    """
    intake = intake or Intake()
    if not isinstance(data, Source):
        dialect.refuse(FRAME, "it is not text")
        return read_frame(data, intake)
    source = data
    kind = _format_of(source)
    if kind in ("parquet", "arrow"):
        dialect.refuse(source.name, "it is not text")
        return read_columnar(source, kind, intake)
    lines = Lines(source, intake.blocks.size)
    if kind in ("arff", "dat"):
        replace(dialect, encoding=UTF_8).refuse(source.name, f"the format .{kind} fixes how it is written")
        return read_arff(lines, intake) if kind == "arff" else read_dat(lines, intake)
    usual = "\t" if kind == "tsv" else None
    return read_separated(lines, intake, header=dialect.header, separator=dialect.separator or usual)


def _format_of(source: Source) -> str:
    """Returns the format of data files: text, unless the suffix names another.

    Raises:
        InputError: the suffix is that of a model or graph.
    """
    if kind_of_suffix(source.files[0]) in (MODEL, GRAPH):
        raise TABLE.refusal(source.files[0])
    return TABLE.format_to_read(source.files[0]) or "csv"


def opened_data(data: str | Path | Frame, encoding: str = UTF_8) -> tuple[Source | Frame, str]:
    """Returns a source for a path, or the frame itself, and its name in messages."""
    return (Source(data, encoding), str(data)) if is_path(data) else (data, FRAME)


def dialect_of(data: Source | Frame, habits: Habits) -> Dialect:
    """Returns the dialect of further rows for a model: that of its data, if the format does not fix it."""
    kind = _format_of(data) if isinstance(data, Source) else None
    if kind == "tsv":
        return replace(habits.dialect, separator=habits.given.separator)
    return habits.dialect if kind == "csv" else habits.given


def read_checked(
    data: str | Path | Frame,
    coding: Coding,
    dialect: Dialect,
    *,
    cells: Cells = "states",
    size: int | None = None,
    kinds: Collection[str] = KINDS,
    strict: bool = False,
    run: Run | None = None,
    blocks: Blocks = BLOCKS,
) -> Table:
    """Returns the table in a data file or frame, of states or of numbers, after the data check.

    Args:
        data: the path of the file, or the frame.
        coding: how to code its cells.
        dialect: the format of text.
        cells: states, numbers, or "mixed": columns of many numbers as real, the others as states.
        size: see `check.examine`.
        kinds: see `check.examine`.
        strict: whether findings of the data check are errors; otherwise, the run shows them before anything
            is coded, so that they appear even if the coding fails.
        run: shows progress and findings, and limits the reading; None for the defaults.
        blocks: sizes of the blocks in which the file is read.

    Beyond `Blocks.kept` rows, equal ones are merged and weighted, unless they are numbers. The provenance
    has the findings, as "warnings".

    Raises:
        InputError: the file cannot be read, does not match its suffix, or the coding does not fit; `strict`,
            and there are findings.
    """
    source, name = opened_data(data, dialect.encoding)
    intake = Intake(coding.reads, cells != "numbers", run or Run(), name, blocks=blocks)
    raw, coding = melted(read_raw(source, intake, dialect), coding, name)
    rows = raw.columns[0].codes.size
    intake.require(rows)
    if raw.weights is not None and coding.weights is None:
        coding = replace(coding, weights=raw.weights)
    elif raw.weights is not None:
        coding = replace(coding, drop=(*coding.drop, raw.weights))
    kinds = [kind for kind in kinds if cells != "mixed" or kind != "quantity"]
    discrete = cells != "numbers"
    findings = examine(raw, coding, name, size=size, discrete=discrete, kinds=kinds, poll=intake.poll)
    report_findings(findings, name, run, strict=strict)
    intake.require(rows)
    table: Table = _CODED[cells](raw, coding, name, intake.poll)
    if cells == "mixed" and run is not None and (decisions := _decisions(table.provenance)):
        run.say(decisions)
    return _described(table, source, dialect, findings)


def read_covariance(
    data: str | Path | Frame, coding: Coding, dialect: Dialect, rows: int, run: Run | None = None
) -> ContinuousTable:
    """Returns the table of a covariance matrix in a data file or frame; see `covariance.to_covariance`.

    Args:
        data: the path of the file, or the frame.
        coding: the columns to keep.
        dialect: the format of text.
        rows: the number of rows behind the covariance.
        run: see `read_checked`.
    """
    source, name = opened_data(data, dialect.encoding)
    raw = read_raw(source, Intake(together=False, run=run or Run(), source=name, labels=True), dialect)
    return _described(to_covariance(raw, coding, rows, name, labels_of_rows(data)), source, dialect)


_CODED: dict[Cells, Callable[[RawTable, Coding, str, Callable[[], object]], Table]] = {
    "states": to_states,
    "numbers": to_numbers,
    "mixed": to_mixed,
}


def _decisions(remarks: Mapping[str, Any]) -> str:
    """Returns which columns are real and which are cut, and why; empty if there are neither."""
    parts = []
    if real := remarks.get("real"):
        parts.append(f"real: {name_list(real)}, of many different numbers, or declared so")
    if spiked := remarks.get("spiked"):
        reasons = "; ".join(f"'{name}', where {why}" for name, why in spiked.items())
        parts.append(f"cut into ranges: {reasons}")
    return "; ".join([*parts, "the others hold states"] if parts else [])


def _described(
    table: SomeTable, source: Source | Frame, dialect: Dialect, findings: Sequence[Finding] = ()
) -> SomeTable:
    """Returns the table with remarks on its source and the findings of the data check."""
    facts: dict[str, Any] = (
        {"data": printable(Path(source.path).name), "sha256_unpacked": source.sha256, **dialect.explicit}
        if isinstance(source, Source)
        else {"data": FRAME}
    )
    facts |= {"rows": table.total, **table.provenance}
    if findings:
        facts["warnings"] = [plain_finding(finding) for finding in findings]
    return replace(table, provenance=MappingProxyType(facts))


def reading_of(given: Mapping[str, Any]) -> Reading:
    """Returns the options of data from keyword arguments; None stands for the default.

    A single name of a column needs no list, and names may be values of any type, as in frames; `discretise`
    may be text such as "quantile:4"; `schema` is as in `read_declarations`.

    Raises:
        ChoiceError: an option does not exist, or a value or combination is invalid.
        InputError: the schema is invalid.

    >>> reading_of({"drop": "a", "discretise": "width:2"}).coding.discretise
    Discretisation(method='width', bins=2, by=None)
    """
    known = {option.name: option for option in DATA}
    for name in given.keys() - known.keys():
        near = nearest_word(name, keywords := KEYWORDS | {known: known for known in known})
        hint = (
            f"did you mean {keywords[near]}=?"
            if near
            else 'options of a score are in its name: "bdeu:ess=1".'
        )
        raise ChoiceError(f"there is no option '{name}'; {hint} For data, there are {', '.join(known)}")
    values = {name: value for name, value in given.items() if value is not None}
    for name, value in values.items():
        require_type(known[name], value)
        if known[name].type is tuple:
            values[name] = tuple(map(label_of, value if is_listing(value) else (value,)))
        elif known[name] in (WEIGHTS, CROSSTAB, CLASS_COLUMN):
            if is_listing(value):
                raise ChoiceError(f"{known[name]} names a column of the data; add the values to the data")
            values[name] = label_of(value)
    if not isinstance(values.get("discretise"), Discretisation | None):
        values["discretise"] = Discretisation.parse(str(values["discretise"]))
    if "schema" in values:
        values["schema"], declared = read_declarations(values["schema"])
        values.setdefault("class_column", declared)
    parts = [
        {option.name: values[option.name] for option in field_options(kind) if option.name in values}
        for kind in (Coding, Dialect, Reading)
    ]
    return Reading(Coding(**parts[0]), Dialect(**parts[1]), **parts[2])


def read_declarations(schema: str | Path | Mapping[str, Any]) -> tuple[Schema, str | None]:
    """Returns the declared states and cuts, and the class column, of a schema: a JSON file, or a mapping.

    A schema maps columns to lists: strings declare states, increasing numbers are cuts. In place of a list,
    {"states": list, "class": true}, with optional keys, can declare the class column too.

    Raises:
        InputError: the schema is not of this form.

    >>> dict(read_declarations({"Age": [40, 60], "Smoker": ["no", "yes"]})[0])
    {'Age': (40.0, 60.0), 'Smoker': ('no', 'yes')}
    """
    if isinstance(schema, Mapping):
        return _declarations(schema, "the schema")
    return _declarations(_read_object(schema), str(schema))


def _read_object(path: str | Path) -> dict[str, Any]:
    """Returns the object in a JSON file."""
    source = str(path)
    try:
        document = json.loads(
            read_file(path).decode(), object_pairs_hook=_distinct, parse_int=_finite, parse_float=_finite
        )
    except UnicodeDecodeError:
        raise InputError(source, "", "a byte is not UTF-8", "save the file as UTF-8") from None
    except ValueError as error:
        raise InputError(source, "", f"it is not JSON ({error})", "correct the file") from None
    except RecursionError:
        reason = "its lists or objects are nested too deeply"
        raise InputError(source, "", reason, "nest them less deeply") from None
    if not isinstance(document, dict):
        raise InputError(source, "", "it is not an object", 'write {"column": ["state", "state"]}')
    return document


def _declarations(document: Mapping[str, Any], source: str) -> tuple[Schema, str | None]:
    schema: dict[str, tuple[str, ...] | tuple[float, ...]] = {}
    classes = []
    for name, declared in document.items():
        entry = declared
        if isinstance(declared, dict) and declared and declared.keys() <= {"states", "class"}:
            if declared.get("class", False) not in (True, False):
                raise InputError(source, f"'{name}'", "its class is neither true nor false", "write true")
            classes += [name] * bool(declared.get("class"))
            if "states" not in declared:
                continue
            entry = declared["states"]
        is_list = isinstance(entry, list | tuple) and entry
        words = [value for value in entry if isinstance(value, str) and value.strip()] if is_list else []
        if is_list and words == list(entry) and len(set(entry)) == len(entry):
            schema[name] = tuple(entry)
        elif is_list and all(_is_number(value) for value in entry):
            cuts = tuple(map(float, entry))
            if sorted(set(cuts)) != list(cuts):
                raise InputError(source, f"'{name}'", "the cuts do not increase", "order them")
            schema[name] = cuts
        else:
            reason = "it is neither a list of distinct states (texts, not blank) nor of cuts (numbers)"
            remedy = 'write ["low", "high"] or [0.5, 1.5], or {"states": ["no", "yes"], "class": true}'
            raise InputError(source, f"'{name}'", reason, remedy)
    if len(classes) > 1:
        raise InputError(
            source, f"'{classes[1]}'", f"the class is '{classes[0]}' already", "declare one class"
        )
    return MappingProxyType(schema), classes[0] if classes else None


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object; refuses repeated keys: parsers silently keep one of them."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key '{twice}' occurs twice")
    return entries


def _finite(text: str) -> float:
    """Returns a JSON number as float64; refuses numbers beyond its range."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"the number {text} is beyond the range of float64")
    return number
