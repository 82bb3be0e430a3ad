"""CSV and other delimited text, and the `.dat` files of GOBNILP and blip.

Text is read in blocks, so that memory does not grow with the file. Polars parses blocks without quotation
marks; from the first quotation mark on, the slower `csv` module does.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.errors import InputError
from jtsolve.tables.gatherer import Gatherer, Intake
from jtsolve.tables.options import HEADER
from jtsolve.tables.raw import ragged, require_distinct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.tables.raw import RawTable
    from jtsolve.tables.source import Lines

_LINES_AHEAD = 20
"""Lines after the first that are examined to detect the separator."""

_HELD_PER_BYTE, _PARSED_PER_BYTE = 8, 14
"""Bytes held for a byte of text before a block is parsed, and once its lines are known."""

_MOST_STATES = 1 << 24
"""Most states that a `.dat` file may declare for a column."""


def read_separated(lines: Lines, intake: Intake, *, header: bool, separator: str | None) -> RawTable:
    """Returns the table in delimited text; see `reading.read_raw`.

    Args:
        lines: of the file.
        intake: the memory limit.
        header: whether the first line names the columns.
        separator: None to detect it.

    Raises:
        InputError: there are no rows, or the text violates the format.
    """
    number, first = lines.first()
    if marked := re.fullmatch(r"""\s*("?)sep=([^\w"])\1\s*""", first):  # as spreadsheets write and skip
        separator = separator or marked[2]
        number, first = lines.first()
    ahead = lines.ahead(_LINES_AHEAD)
    separator = separator or _guess_separator(first, ahead)
    labelled = header and _have_labels(first, ahead, separator)
    begin = chain([(number, first.encode() + b"\n")], lines)
    if '"' in first:
        rows = _quoted_rows(begin, separator, lines.name, labelled=labelled)
        _, fields = next(rows)
    else:
        fields = _fields(first, separator)
    names = [*([""] * labelled), *fields] if header else [f"V{i + 1}" for i in range(len(fields))]
    require_distinct(names, lines.name, index=header)
    gatherer = Gatherer(names, intake)
    if '"' in first:
        _add_rows(rows if header else chain([(number, fields)], rows), gatherer, lines.name)
    else:
        _add_pieces(iter(lines if header else begin), gatherer, separator, lines.name, labelled=labelled)
    if not gatherer.rows:
        raise _no_rows(lines.name)
    return gatherer.table(typed=False)


def _guess_separator(line: str, ahead: Sequence[str] = ()) -> str:
    """Returns the first of tab, comma, semicolon, pipe and blank that fits; comma if there is none.

    Marks within quotes do not count. If there are semicolons and every comma is within a number, the commas
    are decimal marks. Otherwise, the first mark that occurs equally often in all lines is preferred, since
    the others may be part of names; a pipe is a separator only then.
    """
    text, *others = (re.sub(r'"[^"]*"', "", one.strip()) for one in (line, *ahead))
    marks = [mark for mark in "\t,;" if mark in text]
    if ";" in marks and "\t" not in marks and not re.search(r"(?<!\d),|,(?!\d)", text):
        return ";"
    found = [*marks, *(["|"] if "|" in text and others else [])]
    if not text.strip() and '"' in line:  # one column of R, below whose name are labels and values
        labels = [re.match(r'"[^"]*"(.)', other.strip()) for other in ahead]
        return labels[0][1] if labels and labels[0] and all(labels) else ","
    even = [mark for mark in found if all(other.count(mark) == text.count(mark) for other in others)]
    return next(iter(even or marks), " " if " " in text else ",")


def _have_labels(first: str, ahead: Sequence[str], separator: str) -> bool:
    """Returns whether lines begin with labels of rows, as of R's write.table: the header has none for them.

    Then all lines have one value more than the first, and the labels differ. One line proves nothing; an
    empty last value in all lines means that they end with a separator.
    """
    width = len(_words(first, separator))
    rows = [_words(line, separator) for line in ahead]
    full = len(rows) > 1 and all(len(row) == width + 1 for row in rows) and any(row[-1] for row in rows)
    return full and len({row[0] for row in rows}) == len(rows)


def _words(line: str, separator: str) -> list[str]:
    if '"' not in line:
        return _fields(line, separator)
    return next(csv.reader([_in_doubles(line.strip())], delimiter=separator, skipinitialspace=True))


def _in_doubles(line: str) -> str:
    """Returns a line with doubled quotation marks within values, where R writes a backslash before them."""
    return line.replace('\\"', '""')


def _fields(line: str, separator: str) -> list[str]:
    return line.split() if separator == " " else [field.strip() for field in line.split(separator)]


def _add_pieces(
    pieces: Iterator[tuple[int, bytes]],
    gatherer: Gatherer,
    separator: str,
    source: str,
    *,
    labelled: bool = False,
) -> None:
    """Adds the rows of blocks of text; from the first with a quotation mark on, as quoted text."""
    import polars as pl

    width = len(gatherer.names)
    schema = {str(i): pl.String for i in range(width)}
    mark = "\t" if separator == " " else separator
    for number, piece in pieces:
        if b'"' in piece:
            rows = _quoted_rows(chain([(number, piece)], pieces), separator, source, labelled=labelled)
            return _add_rows(rows, gatherer, source)
        gatherer.intake.require(gatherer.rows, _HELD_PER_BYTE * len(piece))
        lines = _checked(piece, number, width, separator, source)
        if not lines:
            continue
        if width == 1:
            frame = pl.DataFrame({"0": [line.decode() for line in lines]})
        else:
            text = b"\n".join(lines)
            if (cells := _characters(text, len(lines), width, mark)) is not None:
                gatherer.add_characters(cells[gatherer.places])
                continue
            gatherer.intake.require(gatherer.rows, _PARSED_PER_BYTE * len(piece))
            stream = io.BytesIO(codecs.BOM_UTF8 * text.startswith(codecs.BOM_UTF8) + text)  # polars drops one
            frame = pl.read_csv(stream, has_header=False, separator=mark, quote_char=None, schema=schema)
        assert frame.height == len(lines), "a line is a row"
        gatherer.add([frame[str(place)] for place in gatherer.places])
    return None


def _characters(text: bytes, height: int, width: int, mark: str) -> NDArray[np.uint8] | None:
    """Returns the values of lines, shape (width, height), if each is one ASCII character; None otherwise.

    Each line has `width` − 1 separators, which then have the odd positions.
    """
    if len(text) != 2 * width * height - 1 or not text.isascii():
        return None
    grid = np.frombuffer(text + b"\n", np.uint8).reshape(height, 2 * width)
    fits = (grid[:, -1] == ord("\n")).all() and (grid[:, 1:-1:2] == ord(mark)).all()
    return np.ascontiguousarray(grid[:, ::2].T) if fits else None


def _checked(piece: bytes, number: int, width: int, separator: str, source: str) -> list[bytes]:
    """Returns the non-blank lines, with tabs for separating blanks, after checking the number of values."""
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


def _quoted_rows(
    pieces: Iterator[tuple[int, bytes]], separator: str, source: str, *, labelled: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of text with quoted values (RFC 4180), each with the number of its last line.

    Quoted values may contain separators and newlines. Blank lines are skipped. In text of R (labelled rows,
    or blanks as separators), a quotation mark within a value follows a backslash.
    """
    number, piece = next(pieces)
    texts = chain([piece], (piece for _, piece in pieces))
    lines: Iterator[str] = chain.from_iterable(io.StringIO(text.decode(), newline="\n") for text in texts)
    if labelled or separator == " ":
        lines = map(_in_doubles, lines)
    if separator == " ":
        lines = map(_between_blanks, lines)
    reader = csv.reader(lines, delimiter=separator, strict=True, skipinitialspace=True)
    try:
        for row in reader:
            if len(row) > 1 or any(field.strip() for field in row):
                yield number + reader.line_num - 1, [field.strip() for field in row]
    except csv.Error as error:
        reason = f"the quotes do not close ({error})"
        raise InputError(source, f"line {number + reader.line_num - 1}", reason, "check the quotes") from None


def _between_blanks(line: str) -> str:
    """Returns a line for the `csv` module, which skips blanks, but not tabs, nor blanks at the ends."""
    text = line.strip(" \t\n")
    return (text if '"' in text else text.replace("\t", " ")) + "\n"


def _add_rows(rows: Iterator[tuple[int, list[str]]], gatherer: Gatherer, source: str) -> None:
    """Adds rows of texts; messages have their line numbers."""
    import polars as pl

    width = len(gatherer.names)
    while batch := list(islice(rows, gatherer.batch)):
        for number, row in batch:
            if len(row) != width:
                raise ragged(source, number, len(row), width)
        columns = list(zip(*(row for _, row in batch), strict=True))
        gatherer.add([pl.Series(columns[place], dtype=pl.String) for place in gatherer.places])


def _no_rows(source: str) -> InputError:
    return InputError(source, "", "there are no rows below the header", f"add rows, or give {HEADER}")


def read_dat(lines: Lines, intake: Intake) -> RawTable:
    """Returns the table in a `.dat` file: names, then numbers of states, then rows of states 0, 1, ….

    All declared states count, observed or not. Lines above them that begin with # are comments.

    Raises:
        InputError: the text violates the format.
    """
    source = lines.name
    heads: list[tuple[int, list[str]]] = []
    while len(heads) < 2:  # noqa: PLR2004 - names, and numbers of states
        number, line = lines.first()
        if not line.lstrip().startswith("#"):
            heads.append((number, line.split()))
    (first, names), (second, numbers) = heads
    if not names or len(numbers) != len(names) or not all(re.fullmatch("[0-9]{1,9}", n) for n in numbers):
        reason = "the number of states of every column is expected here, as in files of GOBNILP and blip"
        remedy = "rename the file to .txt if it is another kind of delimited text"
        raise InputError(source, f"line {second or max(2, first + 1)}", reason, remedy)
    require_distinct(names, source)
    for name, word in zip(names, numbers, strict=True):
        if not 1 <= int(word) <= _MOST_STATES:
            reason = f"'{name}' has {word} states"
            raise InputError(source, f"line {second}", reason, f"give a number between 1 and {_MOST_STATES}")
    gatherer = Gatherer(names, intake)
    _add_pieces(iter(lines), gatherer, " ", source)
    if not gatherer.rows:
        raise _no_rows(source)
    return gatherer.table(typed=False, states=[tuple(map(str, range(int(word)))) for word in numbers])
