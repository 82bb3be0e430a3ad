"""Weka's ARFF files."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from jtsolve.errors import InputError
from jtsolve.tables.gatherer import Gatherer, Intake
from jtsolve.tables.raw import ragged, require_distinct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jtsolve.tables.raw import RawTable
    from jtsolve.tables.source import Lines

_ROWS = 1 << 16
"""Rows held as text at a time."""

_ARFF_WORD = re.compile(
    r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s,{}'"%][^,{}\t]*?))\s*(?=,|$)"""
)
_ARFF_ATTRIBUTE = re.compile(
    r"""@attribute\s+(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s{]+))\s*(.*)""", re.IGNORECASE
)


def read_arff(lines: Lines, intake: Intake) -> RawTable:
    """Returns the table in an ARFF file: nominal, numeric and string attributes; sparse rows are rejected."""
    import polars as pl

    source = lines.name
    heads: list[tuple[str, tuple[str, ...] | None]] = []
    texts = _texts(lines)
    for number, line in texts:
        word = line.split(None, 1)[0].lower()
        if word == "@data":
            break
        if word == "@attribute":
            heads.append(_arff_attribute(line, number, source))
        elif word != "@relation":
            raise InputError(
                source, f"line {number}", f"'{line[:40]}' is not a header line", "check that the file is ARFF"
            )
    names = [name for name, _ in heads]
    require_distinct(names, source)
    gatherer = Gatherer(names, intake)
    while batch := list(islice(texts, _ROWS)):
        columns = list(
            zip(*(_arff_row(line, number, len(heads), source) for number, line in batch), strict=True)
        )
        gatherer.add([pl.Series(columns[place], dtype=pl.String) for place in gatherer.places])
    if not gatherer.rows:
        raise InputError(source, "@data", "there are no rows", "give a table with rows")
    return gatherer.table(typed=True, states=[states for _, states in heads])


def _texts(lines: Lines) -> Iterator[tuple[int, str]]:
    """Yields stripped lines with their numbers, without blank lines and comments."""
    for first, piece in lines:
        for number, line in enumerate(piece.decode().split("\n"), first):
            text = line.strip()
            if text and not text.startswith("%"):
                yield number, text


def _arff_row(line: str, number: int, width: int, source: str) -> list[str | None]:
    if line.startswith("{"):
        raise InputError(source, f"line {number}", "sparse rows are not supported", "save full rows")
    row = _arff_words(line, number, source)
    if len(row) != width:
        raise ragged(source, number, len(row), width)
    return row


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
        f"the attribute '{line[:60]}' is not supported",
        "declare it as {state, …}, numeric, real, integer or string, each state once",
    )


def _arff_name(match: re.Match[str]) -> str:
    return _unescaped(match[1] or match[2] or match[3] or "")


def _arff_words(line: str, number: int, source: str) -> list[str | None]:
    """Returns the values of a row; None for an unquoted question mark."""
    words: list[str | None] = []
    at = 0
    while True:
        match = _ARFF_WORD.match(line, at)
        if match is None:
            raise InputError(
                source,
                f"line {number}",
                f"no value can be read at '{line[at : at + 40]}'",
                "check the quotes",
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
