"""ARFF files, as Weka reads them.

Commas or blanks separate values, which may be in quotes; % begins a comment. The rest of a line after a type,
such as a range, is ignored. A row may be sparse, {0 x, 3 2.5}: omitted values are 0, or the first state. A
row may end with its weight, {0.5}. Where commas separate values, blanks within a value belong to it.
Reference: the ARFF page of Weka's manual; java.io.StreamTokenizer.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from jtsolve.errors import InputError
from jtsolve.tables.gatherer import Gatherer, Intake
from jtsolve.tables.raw import ragged, require_distinct
from jtsolve.tables.values import number_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jtsolve.tables.raw import RawTable
    from jtsolve.tables.source import Lines

_TOKEN = re.compile(
    r"""(?P<gap>[\s,]*)(?:'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<brace>[{}])"""
    r"""|(?P<word>[^\s,{}%'"][^\s,{}%]*)|(?P<end>%.*|$))"""
)
_SPECIAL = re.compile(r"""['"{}%\t]""")
_ATTRIBUTE = re.compile(
    r"""@attribute\s+(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s{]+))\s*(.*)""", re.IGNORECASE
)
_NUMBERS = ("numeric", "real", "integer")
_TEXTS = ("string", "date")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class _Attribute(NamedTuple):
    """A column: its states if it is nominal, and its value in sparse rows that omit it, if it has one."""

    name: str
    states: tuple[str, ...] | None
    absent: str | None


class _Token(NamedTuple):
    """A value, None if it is missing; or a brace."""

    text: str | None
    gap: str
    is_word: bool
    is_brace: bool = False


def read_arff(lines: Lines, intake: Intake) -> RawTable:
    """Returns the table in an ARFF file: nominal, numeric, string and date attributes.

    Weights of rows become a further column, the default for the option of weights.

    Raises:
        InputError: a line cannot be read, or an attribute is relational.
    """
    import polars as pl

    source = lines.name
    attributes: list[_Attribute] = []
    texts = _texts(lines)
    for number, line in texts:
        word = line.split(None, 1)[0].lower()
        if word == "@data":
            break
        if word == "@attribute":
            attributes.append(_attribute(line, number, source))
        elif word != "@relation":
            raise InputError(
                source, f"line {number}", f"'{line[:40]}' is not a header line", "check that the file is ARFF"
            )
    names = [attribute.name for attribute in attributes]
    require_distinct(names, source)
    weight = "weight"
    while weight in names:
        weight += "_"
    wanted = replace(intake, wants=lambda name: name == weight or intake.wants(name))
    gatherer = Gatherer([*names, weight], wanted)
    most = max(1, intake.blocks.rows // 8)  # all their values are held as strings
    while batch := list(islice(texts, most)):
        rows = (_row(line, number, attributes, source) for number, line in batch)
        columns = list(zip(*rows, strict=True))
        gatherer.add([pl.Series(columns[place], dtype=pl.String) for place in gatherer.places])
    if not gatherer.rows:
        raise InputError(source, "@data", "there are no rows", "give a table with rows")
    table = gatherer.table(typed=True, states=[*(attribute.states for attribute in attributes), None])
    if table.columns[-1].labels == ("1",):
        return replace(table, names=tuple(names), columns=table.columns[:-1])
    return replace(table, weights=weight)


def _texts(lines: Lines) -> Iterator[tuple[int, str]]:
    """Yields stripped lines with their numbers, without blank lines and comments."""
    for first, piece in lines:
        for number, line in enumerate(piece.decode().split("\n"), first):
            text = line.strip()
            if text and not text.startswith("%"):
                yield number, text


def _attribute(line: str, number: int, source: str) -> _Attribute:
    if match := _ATTRIBUTE.match(line):
        name, kind = _unescaped(match[1] or match[2] or match[3] or ""), match[4]
        if kind.startswith("{"):
            tokens = _tokens(kind, number, source)[1:]
            end = next((i for i, token in enumerate(tokens) if token.is_brace), None)
            states = tuple("?" if word is None else word for word in _joined(tokens[:end]))
            if end is not None and states and len(set(states)) == len(states):
                return _Attribute(name, states, states[0])
        word = re.split(r"[\s%{\[]", kind.lower(), maxsplit=1)[0]
        if word in (*_NUMBERS, *_TEXTS):
            return _Attribute(name, None, "0" if word in _NUMBERS else None)
    reason = f"the attribute '{line[:60]}' is not supported"
    remedy = "declare it as {state, …}, numeric, real, integer, string or date, each state once"
    raise InputError(source, f"line {number}", reason, remedy)


def _row(line: str, number: int, attributes: Sequence[_Attribute], source: str) -> list[str | None]:
    """Returns the values of a row, and its weight."""
    width = len(attributes)
    if line.count(",") == width - 1 and _SPECIAL.search(line) is None:
        values = [value.strip() for value in line.split(",")]
        if "" not in values:
            return [*(None if value == "?" else value for value in values), "1"]
    tokens = _tokens(line, number, source)
    braces = [i for i, token in enumerate(tokens) if token.is_brace]
    weight = "1"
    sparse = braces[:1] == [0]
    if len(braces) == 2 * (1 + sparse) and braces[-1] == len(tokens) - 1 and braces[-2] == len(tokens) - 3:
        value = number_in(text := tokens[-2].text or "")
        if value is None or value < 0:
            raise InputError(source, f"line {number}", f"'{text}' is no weight", "write a number from 0 on")
        weight = f"{value:.17g}"
        tokens, braces = tokens[:-3], braces[:-2]
    if sparse and braces == [0, len(tokens) - 1]:
        return [*_sparse(tokens[1:-1], number, attributes, source), weight]
    if braces:
        raise InputError(source, f"line {number}", "its braces enclose no row and no weight", "close them")
    found = _joined(tokens)
    if len(found) != width:
        raise ragged(source, number, len(found), width)
    return [*found, weight]


def _sparse(
    tokens: Sequence[_Token], number: int, attributes: Sequence[_Attribute], source: str
) -> list[str | None]:
    """Returns the values of a sparse row: pairs of a position, from 0, and a value."""
    given: dict[int, str | None] = {}
    for place, value in zip(tokens[::2], tokens[1::2], strict=False):
        at = int(place.text) if place.text and re.fullmatch("[0-9]{1,9}", place.text) else len(attributes)
        if at >= len(attributes) or at in given:
            reason = f"'{place.text}' is no position of an attribute, or occurs twice"
            raise InputError(source, f"line {number}", reason, f"count them from 0 to {len(attributes) - 1}")
        given[at] = value.text
    if len(tokens) % 2:
        raise InputError(source, f"line {number}", "a position has no value", "write {position value, …}")
    for at, attribute in enumerate(attributes):
        if at not in given and attribute.absent is None:
            reason = f"it omits '{attribute.name}', and the types string and date have no default value"
            raise InputError(source, f"line {number}", reason, "give it in every row")
    return [given.get(at, attribute.absent) for at, attribute in enumerate(attributes)]


def _tokens(line: str, number: int, source: str) -> list[_Token]:
    """Returns the values and braces of a line up to a comment."""
    found: list[_Token] = []
    at = 0
    while True:
        match = _TOKEN.match(line, at)
        commas = 0 if match is None else match["gap"].count(",")
        ends = match is not None and match["end"] is not None
        if match is None or commas > 1 or (commas and (not found or ends)):
            reason = f"no value can be read at '{line[at : at + 40]}'"
            raise InputError(source, f"line {number}", reason, "check the quotes and commas")
        if ends:
            return found
        if match["word"] is not None:
            found.append(_Token(None if match["word"] == "?" else match["word"], match["gap"], is_word=True))
        elif match["brace"] is not None:
            found.append(_Token(match["brace"], match["gap"], is_word=False, is_brace=True))
        else:
            quoted = match["single"] if match["single"] is not None else match["double"]
            found.append(_Token(_unescaped(quoted), match["gap"], is_word=False))
        at = match.end()


def _joined(tokens: Sequence[_Token]) -> list[str | None]:
    """Returns the values of tokens; if commas separate them, words with blanks between form one value."""
    if not any("," in token.gap for token in tokens[1:]):
        return [token.text for token in tokens]
    found: list[str | None] = []
    for i, token in enumerate(tokens):
        apart = "," in token.gap or "\t" in token.gap or not token.is_word
        if i and not apart and tokens[i - 1].is_word and found[-1] is not None and token.text is not None:
            found[-1] += f"{token.gap}{token.text}"
        else:
            found.append(token.text)
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text)
