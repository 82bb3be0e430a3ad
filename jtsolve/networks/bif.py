"""Reader of the Bayesian Interchange Format (BIF), as its authors and the bnlearn repository write it.

    network NAME { }
    variable NAME { type discrete [ COUNT ] { STATE, … }; }
    probability ( NAME ) { table P, …; }
    probability ( NAME | PARENT, … ) { default P, …; (STATE, …) P, …; … }
    probability ( NAME PARENT … ) { table P …; }

Commas and the bar count as blanks. In a `table` with parents, the variable varies slowest, and the last
parent fastest; after a bar such a table is refused, since programs disagree on its order. A `default` row
stands for all rows that are not given. Comments are skipped, and so are properties other than those of
`networks.names`. Reference: F. Cozman, The Interchange Format for Bayesian Networks, 1998.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.errors import InputError
from jtsolve.networks import names
from jtsolve.networks.building import NetworkBuilder
from jtsolve.networks.network import NetworkNode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.networks.network import Network

_TOKEN = re.compile(
    r'(?P<gap>\s+|//[^\n]*|/\*.*?\*/)|"(?P<quoted>[^"\n]*)"|[{}()\[\];,|]|[^\s{}()\[\];,|"]+', re.DOTALL
)
_PUNCTUATION = frozenset("{}()[];,|")


def parse_bif(data: bytes, source: str) -> Network:
    """Returns the network in the content of a BIF file.

    Raises:
        InputError: it is invalid; names the line.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(source, f"line {line}", "it is not UTF-8", "convert the file to UTF-8") from None
    return _Parser(text, source).network()


class _Token(NamedTuple):
    text: str
    line: int
    is_quoted: bool = False


class _Table(NamedTuple):
    """A parsed probability block: parents by name, rows by the parents' states, or a whole table."""

    parents: tuple[str, ...]
    rows: list[tuple[tuple[str, ...], list[float], int]]
    default: tuple[list[float], int] | None
    whole: list[float] | None
    line: int


class _Parser:
    """Recursive descent over the tokens of one file."""

    def __init__(self, text: str, source: str) -> None:
        self._builder = NetworkBuilder(source)
        self._tokens = self._split(text)
        self._place = 0
        self._states = self._builder.states
        self._tables: dict[str, _Table] = {}
        self._originals: dict[str, dict[str, str]] = {}

    def network(self) -> Network:
        """Parses the whole text."""
        name = self._header()
        while not self._at_end():
            token = self._next()
            if token.text == "variable":
                self._variable()
            elif token.text == "probability":
                self._probability()
            else:
                raise self._error(
                    token.line, f"'{token.text}' does not begin a block", "write 'variable' or 'probability'"
                )
        parents = {one: (table.parents, f"line {table.line}") for one, table in self._tables.items()}
        shapes = self._builder.shapes(parents)
        positions = {variable: i for i, variable in enumerate(self._states)}
        nodes = [self._node(variable, shapes[variable], positions) for variable in self._states]
        if len({node.name for node in nodes}) < len(nodes):
            raise self._error(
                1, f"two variables have the same {names.NAME}", "remove one of these properties"
            )
        return self._builder.network(name, nodes)

    def _split(self, text: str) -> list[_Token]:
        tokens: list[_Token] = []
        place, line = 0, 1
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise self._error(line, "a quotation is not closed", 'close it with " on the same line')
            if match["gap"] is None and match[0].startswith("/*"):
                raise self._error(line, "a comment is not closed", "close it with */")
            quoted = match["quoted"]
            if match["gap"] is None:
                tokens.append(_Token(match[0] if quoted is None else quoted, line, quoted is not None))
            line += match[0].count("\n")
            place = match.end()
        return tokens

    def _header(self) -> str:
        self._expect("network")
        name = self._word("the name of the network")
        self._expect("{")
        while not self._accept("}"):
            self._property()
        return name

    def _variable(self) -> None:
        token = self._peek()
        name = self._word("the name of a variable")
        self._expect("{")
        states: tuple[str, ...] | None = None
        while not self._accept("}"):
            if self._peek().text != "type":
                self._keep(name, [word for word in self._property() if word != "="])
            elif states is not None:
                raise self._error(self._peek().line, f"variable '{name}' has two types", "remove one")
            else:
                states = self._type(name)
        if states is None:
            raise self._error(token.line, f"variable '{name}' has no type", "give its states")
        self._builder.declare(name, states, f"line {token.line}")

    def _keep(self, name: str, words: list[str]) -> None:
        """Records an original name of the variable or of a state, if the property holds one."""
        if len(words) == 2 and (words[0] == names.NAME or words[0].startswith(names.STATE)):  # noqa: PLR2004
            original = names.unescaped(words[1])
            if original is not None:
                self._originals.setdefault(name, {})[words[0]] = original

    def _type(self, name: str) -> tuple[str, ...]:
        line = self._next().line
        self._expect("discrete")
        self._expect("[")
        count = self._word("a number of states")
        self._expect("]")
        self._expect("{")
        states = self._words("a state", "}")
        self._expect(";")
        if count != str(len(states)):
            raise self._error(
                line, f"variable '{name}' has {len(states)} states, but declares {count}", "correct either"
            )
        return states

    def _probability(self) -> None:
        line = self._expect("(").line
        name = self._word("the name of a variable")
        bar = self._accept("|")
        parents = self._words("a parent", ")", least=int(bar))
        if name in self._tables:
            raise self._error(line, f"variable '{name}' has two tables", "remove one of them")
        table = _Table(parents, [], None, None, line)
        self._expect("{")
        while not self._accept("}"):
            token = self._peek()
            if token.text == "property":
                self._property()
            elif self._accept("("):
                key = self._words("a state", ")")
                table.rows.append((key, self._numbers(), token.line))
            elif token.text == "default" and table.default is None:
                self._next()
                table = table._replace(default=(self._numbers(), token.line))
            elif token.text == "table" and not parents:
                self._next()
                table.rows.append(((), self._numbers(), token.line))
            elif token.text == "table" and not bar and table.whole is None:
                self._next()
                table = table._replace(whole=self._numbers())
            elif token.text == "table" and bar:
                raise self._error(
                    token.line,
                    f"'{name}' has a 'table' and parents after a bar, and programs disagree on its order",
                    "write a row for each configuration of the parents: '(states of the parents) "
                    f"probabilities;'; or leave out the bar, if '{name}' varies slowest",
                )
            else:
                raise self._error(
                    token.line,
                    f"'{token.text}' does not begin a row of the table of '{name}'",
                    "write '(states of the parents) probabilities;', or 'table …;' if there are no parents",
                )
        self._tables[name] = table

    def _node(self, name: str, shape: tuple[int, int], positions: dict[str, int]) -> NetworkNode:
        """Returns a node; called at the end, since a table may precede the declaration of its parents."""
        table, states = self._tables[name], self._states[name]
        fill = self._rows if table.whole is None else self._whole
        values = fill(name, table, shape)
        values.flags.writeable = False
        originals = self._originals.get(name, {})
        labels = tuple(originals.get(f"{names.STATE}{state}", state) for state in states)
        if len(set(labels)) < len(labels):
            raise self._error(table.line, f"two states of '{name}' have the same original", "correct one")
        own = originals.get(names.NAME, name)
        return NetworkNode(own, labels, tuple(positions[parent] for parent in table.parents), values)

    def _whole(self, name: str, table: _Table, shape: tuple[int, int]) -> NDArray[np.float64]:
        """Returns the rows of a table in which the variable varies slowest."""
        assert table.whole is not None, "the caller checks it"
        count, states = shape
        if table.rows or table.default:
            raise self._error(table.line, f"'{name}' has a table and rows", "give one of the two")
        if len(table.whole) != states * count:
            reason = f"the table of '{name}' has {len(table.whole)} cells, but {states * count} are needed"
            raise self._error(table.line, reason, "give one for each state and configuration of the parents")
        rows = np.array(table.whole).reshape(states, count).T
        return self._builder.normalised(name, rows, f"line {table.line}")

    def _rows(self, name: str, table: _Table, shape: tuple[int, int]) -> NDArray[np.float64]:
        """Returns the rows of a table that are given by the states of the parents."""
        count, states = shape
        if len(table.rows) > count or (table.default is None and len(table.rows) < count):
            reason = f"the table of '{name}' has {len(table.rows)} rows, but {count} are needed"
            raise self._error(table.line, reason, "give one row for each configuration of the parents")
        values = np.empty(shape)
        if table.default is not None:
            values[:] = self._distribution(name, states, *table.default)
        seen: set[int] = set()
        for key, numbers, line in table.rows:
            row = self._row(name, table.parents, key, line)
            if row in seen:
                raise self._error(line, f"the table of '{name}' has two rows of {key}", "remove one")
            seen.add(row)
            values[row] = self._distribution(name, states, numbers, line)
        return values

    def _row(self, name: str, parents: tuple[str, ...], key: tuple[str, ...], line: int) -> int:
        """Returns the row of a configuration of the parents; the last parent varies fastest."""
        if len(key) != len(parents):
            reason = f"a row of '{name}' names {len(key)} states, but there are {len(parents)} parents"
            raise self._error(line, reason, "name one state of each parent")
        row = 0
        for parent, state in zip(parents, key, strict=True):
            states = self._states[parent]
            if state not in states:
                raise self._error(
                    line, f"'{state}' is not a state of '{parent}'", f"use one of {', '.join(states)}"
                )
            row = row * len(states) + states.index(state)
        return row

    def _distribution(self, name: str, count: int, numbers: list[float], line: int) -> NDArray[np.float64]:
        if len(numbers) != count:
            reason = f"a row of '{name}' has {len(numbers)} probabilities, but there are {count} states"
            raise self._error(line, reason, "give one for each state")
        return self._builder.normalised(name, np.array(numbers), f"line {line}")

    def _numbers(self) -> list[float]:
        """Returns numbers up to the semicolon, which it consumes."""
        line = self._peek().line
        return self._builder.probabilities(self._words("a probability", ";"), f"line {line}")

    def _words(self, what: str, end: str, *, least: int = 1) -> tuple[str, ...]:
        """Returns words, separated by commas or blanks, up to `end`, which it consumes."""
        words: list[str] = []
        while len(words) < least or not self._accept(end):
            if words or not least:
                self._accept(",")
            words.append(self._word(what))
        return tuple(words)

    def _word(self, what: str) -> str:
        token = self._next()
        if not token.is_quoted and token.text in _PUNCTUATION:
            reason = f"{what} is missing before '{token.text}'"
            raise self._error(token.line, reason, "insert it, or quote a name with such a sign")
        return token.text

    def _property(self) -> list[str]:
        """Returns the words of a property."""
        self._expect("property")
        words = []
        while not self._accept(";"):
            words.append(self._next().text)
        return words

    def _expect(self, text: str) -> _Token:
        token = self._next()
        if token.text != text or token.is_quoted:
            raise self._error(
                token.line, f"'{token.text}' found where '{text}' is expected", f"write '{text}'"
            )
        return token

    def _accept(self, text: str) -> bool:
        token = self._peek()
        found = token.text == text and not token.is_quoted
        self._place += found
        return found

    def _at_end(self) -> bool:
        return self._place == len(self._tokens)

    def _peek(self) -> _Token:
        if self._at_end():
            line = self._tokens[-1].line if self._tokens else 1
            raise self._error(line, "the file ends prematurely", "download or export it again")
        return self._tokens[self._place]

    def _next(self) -> _Token:
        token = self._peek()
        self._place += 1
        return token

    def _error(self, line: int, reason: str, remedy: str) -> InputError:
        return InputError(self._builder.source, f"line {line}", reason, remedy)
