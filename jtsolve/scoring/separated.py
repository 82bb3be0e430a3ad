"""Separated text, with or without quotes, and the `.dat` files of GOBNILP and blip.

Text without quotes is read in pieces: whatever the number of rows, only a piece at a time is held as words.
"""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from jtsolve.errors import InputError
from jtsolve.scoring.raw import Encoder, RawColumn, RawTable, ragged, require_distinct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "blank": " "}
"""By the names used on the command line; a blank stands for any number of blanks and tabs."""

_PIECE = 1 << 23
"""Bytes that are turned into words at one time."""


def read_separated(data: bytes, source: str, *, header: bool, separator: str | None) -> RawTable:
    """Returns the table in separated text; see `formats.read_raw`."""
    first, start, number = _first_line(data, 0, 1)
    separator = separator or _guess_separator(first)
    if separator != " " and b'"' in data:
        return _read_quoted(data, source, separator, header=header)
    fields = _fields(first, separator)
    names = fields if header else [f"V{i + 1}" for i in range(len(fields))]
    require_distinct(names, source)
    begin = (start, number) if header else (0, 1)
    return RawTable(tuple(_columns(data, begin, names, separator, source)), typed=False)


def _first_line(data: bytes, start: int, number: int) -> tuple[str, int, int]:
    """Returns the first line from `start` on that is not blank, where the next begins, and its number."""
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        line = data[start:end].decode()
        start, number = end + 1, number + 1
        if line.strip():
            return line, start, number
    return "", start, number


def _guess_separator(line: str) -> str:
    """Returns the separator that a line holds: a tab, comma, semicolon or blank."""
    return next((mark for mark in "\t,;" if mark in line.strip()), " " if " " in line.strip() else ",")


def _fields(line: str, separator: str) -> list[str]:
    return line.split() if separator == " " else [field.strip() for field in line.split(separator)]


def _columns(
    data: bytes, begin: tuple[int, int], names: Sequence[str], separator: str, source: str
) -> Iterator[RawColumn]:
    """Yields the columns of lines without quotes, from a position, with the number of its line, on."""
    import polars as pl

    encoders = [Encoder() for _ in names]
    schema = {str(i): pl.String for i in range(len(names))}
    mark = "\t" if separator == " " else separator
    start, number = begin
    while start < len(data):
        end = data.rfind(b"\n", start, start + _PIECE) + 1 or data.find(b"\n", start) + 1 or len(data)
        lines = _checked(data[start:end], number, len(names), separator, source)
        number += data.count(b"\n", start, end)
        start = end
        if not lines:
            continue
        if len(names) == 1:
            frame = pl.DataFrame({"0": [line.decode() for line in lines]})
        else:
            text = io.BytesIO(b"\n".join(lines))
            frame = pl.read_csv(text, has_header=False, separator=mark, quote_char=None, schema=schema)
        assert frame.height == len(lines), "a line is a row"
        for encoder, values in zip(encoders, frame, strict=True):
            encoder.add(values.fill_null(""), lambda word: str(word).strip())
    if not encoders[0].pieces:
        raise _no_rows(source)
    for name, encoder in zip(names, encoders, strict=True):
        yield encoder.column(name)


def _checked(piece: bytes, number: int, width: int, separator: str, source: str) -> list[bytes]:
    """Returns the lines that are not blank, with tabs for blanks if these separate; checks their lengths."""
    if separator == " ":
        piece = re.sub(rb"(?m)^\t|\t$", b"", re.sub(rb"[ \t]+", b"\t", piece))
        separator = "\t"
    mark = separator.encode()
    lines = []
    for offset, line in enumerate(piece.split(b"\n")):
        if not line.strip():
            continue
        found = line.count(mark) + 1
        if found != width:
            raise ragged(source, number + offset, found, width)
        lines.append(line)
    return lines


def _read_quoted(data: bytes, source: str, separator: str, *, header: bool) -> RawTable:
    """Returns the table in text with values in double quotes (RFC 4180), which may hold separators."""
    import polars as pl

    text = io.StringIO(data.decode(), newline="")
    reader = csv.reader(text, delimiter=separator, strict=True, skipinitialspace=True)
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
                raise ragged(source, reader.line_num, len(row), len(names))
            rows.append(row)
    except csv.Error as error:
        raise InputError(
            source, f"line {reader.line_num}", f"the quotes do not close ({error})", "mend the quotes"
        ) from None
    if not rows or names is None:
        raise _no_rows(source)
    require_distinct(names, source)
    encoders = [Encoder() for _ in names]
    for encoder, column in zip(encoders, zip(*rows, strict=True), strict=True):
        encoder.add(pl.Series(column, dtype=pl.String), lambda word: str(word).strip())
    return RawTable(
        tuple(encoder.column(name) for name, encoder in zip(names, encoders, strict=True)), typed=False
    )


def _no_rows(source: str) -> InputError:
    return InputError(source, "", "there are no rows below the header", "give rows, or say --no-header")


def read_dat(data: bytes, source: str) -> RawTable:
    """Returns the table in a `.dat` file: names, then numbers of states, then rows of states 0, 1, ….

    The numbers of states count, also where not every state occurs. Lines that begin with # are remarks, above
    the numbers of states.
    """
    heads: list[list[str]] = []
    start, number = 0, 1
    while len(heads) < 2:  # noqa: PLR2004 - names, and numbers of states
        line, start, number = _first_line(data, start, number)
        if not line.lstrip().startswith("#"):
            heads.append(line.split())
    names, numbers = heads
    if not names or len(numbers) != len(names) or not all(re.fullmatch("[0-9]{1,9}", n) for n in numbers):
        raise InputError(
            source,
            f"line {max(2, number - 1)}",
            "here should be the number of states of every column, as in files of GOBNILP and blip",
            "rename the file to .txt if it is separated text of another kind",
        )
    require_distinct(names, source)
    for name, word in zip(names, numbers, strict=True):
        if not 1 <= int(word) <= len(data):
            raise InputError(
                source,
                f"line {number - 1}",
                f"'{name}' has {word} states",
                "give a number above 0, and not above the size of the file",
            )
    columns = [
        RawColumn(column.name, column.labels, column.codes, tuple(map(str, range(int(word)))))
        for column, word in zip(_columns(data, (start, number), names, " ", source), numbers, strict=True)
    ]
    return RawTable(tuple(columns), typed=False)
