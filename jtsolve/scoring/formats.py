"""The text and column files that data come in, read into `RawTable`: labels, or numbers, with gaps.

    .csv .tsv .tab .txt .data   separated by commas, semicolons, tabs or blanks; a header, or none
    .dat                        GOBNILP and blip: names, then numbers of states, then rows of states from 0
    .arff                       Weka
    .parquet .arrow .feather .ipc   typed columns, read by polars

Text is UTF-8. Blanks around a value are no part of it. Blank lines are left out. Every row must have as many
values as there are columns.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import polars as pl

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "blank": " "}
"""By the names used on the command line."""


@dataclass(frozen=True, slots=True, eq=False)
class RawColumn:
    """A column as it stands in the file.

    Args:
        name: of the column.
        cells: text, or numbers if the file is typed and says so; null where the file has a gap.
        states: the states that the file declares, or None.
    """

    name: str
    cells: pl.Series
    states: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RawTable:
    """The columns of a file; `typed` tells whether gaps are marked by the format and not by words."""

    columns: tuple[RawColumn, ...]
    typed: bool


def read_raw(data: bytes, source: str, *, header: bool = True, separator: str | None = None) -> RawTable:
    """Returns the table in a file.

    Args:
        data: the contents, unpacked.
        source: the file's name, for its suffix and for messages.
        header: whether the first line of separated text names the columns; if not, they are V1, V2, ….
        separator: of separated text: a character, " " for any number of blanks; None to find out.

    Raises:
        InputError: the data are not what the suffix says; names the line and what is wrong.
    """
    stem = source.removesuffix(".gz")
    suffix = stem.rpartition(".")[2].lower()
    if suffix in ("parquet", "arrow", "feather", "ipc"):
        return _read_columnar(data, source, suffix)
    text = _decoded(data, source)
    if suffix == "arff":
        return _read_arff(text, source)
    if suffix == "dat":
        return _read_dat(text, source)
    usual = {"csv": None, "tsv": "\t", "tab": "\t"}.get(suffix)
    return _read_separated(text, source, header=header, separator=separator or usual)


# Separated text -------------------------------------------------------------------------------------------


def _decoded(data: bytes, source: str) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(source, "", "it is UTF-16", "save the file as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(source, f"line {line}", "a byte is not UTF-8", "save the file as UTF-8") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(
            source, f"line {line}", "it holds a zero byte, as no text does", "give a table as text"
        )
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise InputError(source, "", "there is nothing but blanks in it", "give a table with rows")
    return text


def _read_separated(text: str, source: str, *, header: bool, separator: str | None) -> RawTable:
    separator = separator or _guess_separator(text)
    if separator != " " and '"' in text:
        return _read_quoted(text, source, separator, header=header)
    lines = _lines(text)
    numbered = [(number, _fields(line, separator)) for number, line in islice(lines, 1 if header else 0)]
    return _from_lines(numbered[0] if header else None, lines, separator, source)


def _guess_separator(text: str) -> str:
    """Returns the separator that the first line which is not blank holds: a tab, comma, semicolon, blank."""
    first = text.lstrip().partition("\n")[0]
    return next((mark for mark in "\t,;" if mark in first), " " if " " in first.strip() else ",")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields the number, from 1, and the text of each line that is not blank."""
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _fields(line: str, separator: str) -> list[str]:
    return line.split() if separator == " " else [field.strip() for field in line.split(separator)]


def _from_lines(
    header: tuple[int, list[str]] | None, lines: Iterable[tuple[int, str]], separator: str, source: str
) -> RawTable:
    """Returns the table in lines without quotes; checks their lengths, and leaves the rest to polars."""
    import polars as pl

    numbered = list(lines)
    if separator == " ":
        body = ["\t".join(line.split()) for _, line in numbered]
        separator = "\t"
    else:
        body = [line for _, line in numbered]
    if header is None and body:
        width = body[0].count(separator) + 1
        header = (numbered[0][0], [f"V{i + 1}" for i in range(width)])
    names = header[1] if header else []
    if not body:
        raise _no_rows(source)
    for (number, _), line in zip(numbered, body, strict=True):
        if line.count(separator) + 1 != len(names):
            raise _ragged(source, number, line.count(separator) + 1, len(names))
    if len(names) == 1:
        frame = pl.DataFrame({"0": body})
    else:
        frame = pl.read_csv(
            io.BytesIO("\n".join(body).encode()),
            has_header=False,
            separator=separator,
            quote_char=None,
            schema={str(i): pl.String for i in range(len(names))},
        )
    assert frame.height == len(body), "a line is a row"
    return _text_table(names, [frame[str(i)].str.strip_chars() for i in range(len(names))], source)


def _read_quoted(text: str, source: str, separator: str, *, header: bool) -> RawTable:
    """Returns the table in text with values in double quotes (RFC 4180), which may hold separators."""
    import polars as pl

    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=separator, strict=True, skipinitialspace=True
    )
    names: list[str] | None = None
    rows: list[list[str]] = []
    try:
        for row in reader:
            if not any(field.strip() for field in row):
                continue
            if names is None:
                names = [field.strip() for field in row] if header else [f"V{i + 1}" for i in range(len(row))]
                if header:
                    continue
            if len(row) != len(names):
                raise _ragged(source, reader.line_num, len(row), len(names))
            rows.append(row)
    except csv.Error as error:
        raise InputError(
            source, f"line {reader.line_num}", f"the quotes do not close ({error})", "mend the quotes"
        ) from None
    if not rows or names is None:
        raise _no_rows(source)
    columns = [
        pl.Series([cell.strip() for cell in column], dtype=pl.String) for column in zip(*rows, strict=True)
    ]
    return _text_table(names, columns, source)


def _no_rows(source: str) -> InputError:
    return InputError(source, "", "there are no rows below the header", "give rows, or say --no-header")


def _ragged(source: str, line: int, found: int, wanted: int) -> InputError:
    return InputError(
        source,
        f"line {line}",
        f"it has {found} values, but there are {wanted} columns",
        "give every row a value for every column, or name the separator with --separator",
    )


def _text_table(names: Sequence[str], cells: Sequence[pl.Series], source: str) -> RawTable:
    _require_distinct(names, source)
    return RawTable(tuple(map(RawColumn, names, cells)), typed=False)


def _require_distinct(names: Sequence[str], source: str) -> None:
    for position, name in enumerate(names):
        if not name or name in names[:position]:
            raise InputError(
                source,
                f"the name of column {position + 1}",
                f"'{name}' is there twice" if name else "it is empty",
                "name every column, each differently; say --no-header if the first line is a row",
            )


# GOBNILP and blip -----------------------------------------------------------------------------------------


def _read_dat(text: str, source: str) -> RawTable:
    """Returns the table in a `.dat` file: names, then numbers of states, then rows of states 0, 1, ….

    The numbers of states count, also where not every state occurs. Lines that begin with # are remarks.
    """
    lines = [(number, line) for number, line in _lines(text) if not line.lstrip().startswith("#")]
    names = lines[0][1].split() if lines else []
    numbers = lines[1][1].split() if len(lines) > 1 else []
    if (
        not names
        or len(numbers) != len(names)
        or not all(re.fullmatch("[0-9]{1,9}", word) for word in numbers)
    ):
        raise InputError(
            source,
            f"line {lines[1][0] if len(lines) > 1 else 2}",
            "here should be the number of states of every column, as in files of GOBNILP and blip",
            "rename the file to .txt if it is separated text of another kind",
        )
    for name, word in zip(names, numbers, strict=True):
        if not 1 <= int(word) <= len(text):
            raise InputError(
                source,
                f"line {lines[1][0]}",
                f"'{name}' has {word} states",
                "give a number above 0, and not above the size of the file",
            )
    table = _from_lines((lines[0][0], names), lines[2:], " ", source)
    columns = [
        RawColumn(column.name, column.cells, tuple(map(str, range(int(word)))))
        for column, word in zip(table.columns, numbers, strict=True)
    ]
    return RawTable(tuple(columns), typed=False)


# Weka -----------------------------------------------------------------------------------------------------

_ARFF_WORD = re.compile(
    r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s,{}'"%][^,{}\t]*?))\s*(?=,|$)"""
)
_ARFF_ATTRIBUTE = re.compile(
    r"""@attribute\s+(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s{]+))\s*(.*)""", re.IGNORECASE
)


def _read_arff(text: str, source: str) -> RawTable:
    """Returns the table in an ARFF file: nominal, numeric and string attributes; sparse rows are refused."""
    import polars as pl

    heads: list[tuple[str, tuple[str, ...] | None]] = []
    lines = ((number, line.strip()) for number, line in _lines(text) if not line.lstrip().startswith("%"))
    for number, line in lines:
        word = line.split(None, 1)[0].lower()
        if word == "@data":
            break
        if word == "@attribute":
            heads.append(_arff_attribute(line, number, source))
        elif word != "@relation":
            raise InputError(
                source, f"line {number}", f"'{line[:40]}' is no part of a header", "check that it is ARFF"
            )
    _require_distinct([name for name, _ in heads], source)
    rows: list[list[str | None]] = []
    for number, line in lines:
        if line.startswith("{"):
            raise InputError(
                source, f"line {number}", "sparse rows are not read", "save the file with full rows"
            )
        row = _arff_words(line, number, source)
        if len(row) != len(heads):
            raise _ragged(source, number, len(row), len(heads))
        rows.append(row)
    if not rows:
        raise InputError(source, "@data", "there are no rows", "give a table with rows")
    columns = [
        RawColumn(name, pl.Series(list(cells), dtype=pl.String), states)
        for (name, states), cells in zip(heads, zip(*rows, strict=True), strict=True)
    ]
    return RawTable(tuple(columns), typed=True)


def _arff_attribute(line: str, number: int, source: str) -> tuple[str, tuple[str, ...] | None]:
    match = _ARFF_ATTRIBUTE.match(line)
    kind = match[4].strip() if match else ""
    if match and kind.startswith("{") and kind.endswith("}"):
        words = _arff_words(kind[1:-1], number, source)
        states = tuple("?" if word is None else word for word in words)
        if states and len(set(states)) == len(states):
            return _arff_name(match), states
    elif match and kind.lower() in ("numeric", "real", "integer", "string"):
        return _arff_name(match), None
    raise InputError(
        source,
        f"line {number}",
        f"the attribute '{line[:60]}' is not read",
        "declare it as {state, …}, numeric, real, integer or string, each state once",
    )


def _arff_name(match: re.Match[str]) -> str:
    return _unescaped(match[1] or match[2] or match[3] or "")


def _arff_words(line: str, number: int, source: str) -> list[str | None]:
    """Returns the values of a row; None where it says ? without quotes."""
    words: list[str | None] = []
    at = 0
    while True:
        match = _ARFF_WORD.match(line, at)
        if match is None:
            raise InputError(
                source, f"line {number}", f"no value can be read at '{line[at : at + 40]}'", "mend the quotes"
            )
        plain = match[3]
        quoted = match[1] if match[1] is not None else match[2]
        words.append((None if plain == "?" else plain) if plain is not None else _unescaped(quoted))
        at = match.end()
        if at == len(line):
            return words
        at += 1


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


# Typed columns --------------------------------------------------------------------------------------------


def _read_columnar(data: bytes, source: str, suffix: str) -> RawTable:
    import polars as pl

    try:
        stream = io.BytesIO(data)
        frame = pl.read_parquet(stream) if suffix == "parquet" else pl.read_ipc(stream)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise InputError(
            source, "", f"it cannot be read as {suffix} ({str(error).splitlines()[0]})", "check the file"
        ) from None
    columns = []
    for series in frame:
        kind = series.dtype
        if kind.is_nested() or kind in (pl.Binary, pl.Object):
            raise InputError(
                source,
                f"column '{series.name}'",
                f"its type is {kind}, whose values are no states",
                "leave the column out when the file is made, or turn it into text",
            )
        if kind.is_float() or kind.is_decimal():
            columns.append(RawColumn(series.name, series.cast(pl.Float64).fill_nan(None)))
        else:
            columns.append(RawColumn(series.name, series.cast(pl.String)))
    if not columns or frame.height == 0:
        raise InputError(source, "", "there are no rows", "give a table with rows")
    _require_distinct([column.name for column in columns], source)
    return RawTable(tuple(columns), typed=True)


def as_numbers(cells: pl.Series) -> pl.Series | None:
    """Returns the cells as float64, null where there is a gap, or None if a cell is no finite number."""
    import polars as pl

    numbers = cells if cells.dtype == pl.Float64 else cells.cast(pl.Float64, strict=False)
    if numbers.null_count() > cells.null_count() or not np.isfinite(numbers.drop_nulls().to_numpy()).all():
        return None
    return numbers
