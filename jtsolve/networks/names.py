"""Names within the grammar of BIF, and how a file keeps the others.

A word of BIF has letters, digits, underscores and hyphens of ASCII. A name beyond that is replaced by a word
that keeps its meaning, and a property of the variable, of words too, holds the original:

    property original_name _Gr_F6__DF_e;          of the variable: Größe
    property original_state_lt5 __3C_5;           of its state lt5: <5

In an original, after an underscore, all but ASCII letters, digits and hyphens is _HEX_, the code of a
character. Reference: F. Cozman, The Interchange Format for Bayesian Networks, 1998.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jtsolve.networks.network import Network

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "original_name"
STATE = "original_state_"

# The words that pyAgrum and pgmpy read alike; 1e5 would be a number.
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_VALUE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*|-?[0-9]+|[0-9]++(?![eE][0-9])[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS = frozenset(
    ("network", "variable", "probability", "property", "type", "discrete", "table", "default")
)
_SIGNS = {
    "<=": "le",
    ">=": "ge",
    "<": "lt",
    "≤": "le",
    ">": "gt",
    "≥": "ge",
    "=": "eq",
    "≠": "ne",
    "+": "plus",
    "−": "minus",
    "±": "plus_minus",
    "%": "percent",
    "&": "and",
    "|": "or",
    "@": "at",
    "#": "number",
    "$": "dollar",
    "€": "euro",
    "£": "pound",
    "°": "degree",
    "!": "not",
    "?": "question",
    "*": "star",
    "~": "about",
}
_LETTERS = str.maketrans({"ß": "ss", "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L"})
"""Letters that are not a letter of ASCII with an accent."""
_SIGN = re.compile("|".join(map(re.escape, _SIGNS)))
_BETWEEN = " \t\n_-.,;:/()[]{}'\"\\"
"""Characters that only part words."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """A network in words of BIF.

    Args:
        network: with them.
        names: the original name of each renamed variable, by its word.
        states: the same of states, by variable.
    """

    network: Network
    names: dict[str, str]
    states: dict[str, dict[str, str]]

    @property
    def changes(self) -> list[str]:
        """Each original once, and its word."""
        pairs = [*self.names.items(), *(pair for words in self.states.values() for pair in words.items())]
        return [f"'{original}' as {word}" for word, original in dict.fromkeys(pairs)]


def in_words(network: Network) -> Renaming:
    """Returns the network in words of BIF."""
    names = distinct_words(network.names, _IDENTIFIER, initial="V")
    of_states = [distinct_words(node.states, _VALUE) for node in network.nodes]
    nodes = tuple(
        replace(node, name=name, states=tuple(states))
        for node, name, states in zip(network.nodes, names, of_states, strict=True)
    )
    return Renaming(
        Network(distinct_words([network.name], _IDENTIFIER, initial="V")[0], nodes),
        _renamed(names, network.names),
        {
            name: _renamed(states, node.states)
            for name, states, node in zip(names, of_states, network.nodes, strict=True)
        },
    )


def _renamed(words: Sequence[str], originals: Sequence[str]) -> dict[str, str]:
    return {word: original for word, original in zip(words, originals, strict=True) if word != original}


def distinct_words(names: Sequence[str], plain: re.Pattern[str] = _VALUE, *, initial: str = "") -> list[str]:
    """Returns a word for each name; distinct names have distinct words, and words stay as they are.

    Args:
        names: any distinct texts.
        plain: pattern of a plain word.
        initial: begins words that would begin otherwise than `plain` allows.

    >>> distinct_words(["age", "<= 1", "> 1", "> 1!", "+", "-", "5%", "groß"])
    ['age', 'le_1', 'gt_1', 'gt_1_not', 'plus', 'minus', '5_percent', 'gross']
    """
    fits = [plain.fullmatch(name) is not None and name.lower() not in _KEYWORDS for name in names]
    taken = {name for name, fit in zip(names, fits, strict=True) if fit}
    found = []
    for name, fit in zip(names, fits, strict=True):
        if fit:
            found.append(name)
            continue
        word = _word(name)
        if plain.fullmatch(word) is None:
            word = f"{initial or '_'}{word}"
        if word.lower() in _KEYWORDS:
            word += "_"
        unique, number = word, 1
        while unique in taken:
            number += 1
            unique = f"{word}_{number}"
        taken.add(unique)
        found.append(unique)
    return found


def _word(name: str) -> str:
    """Returns a name in letters and digits of ASCII, joined by underscores; signs become words."""
    text = re.sub(r"(?<![\w.])-(?=[\d.]|\s*$)", " minus ", name.translate(_LETTERS))
    text = unicodedata.normalize("NFKD", _SIGN.sub(lambda match: f" {_SIGNS[match[0]]} ", text))
    return "_".join(re.findall(r"[A-Za-z0-9]+", "".join(map(_character, text)))) or "_"


def _character(one: str) -> str:
    if one.isascii() and one.isalnum():
        return one
    if unicodedata.combining(one):
        return ""
    return " " if one in _BETWEEN or one.isspace() else f" u{ord(one):X} "


def escaped(original: str) -> str:
    """Returns a text as a word that `unescaped` reads.

    >>> escaped("a b_1"), unescaped(escaped("<5")), unescaped("5")
    ('_a_20_b_5F_1', '<5', None)
    """
    return "_" + re.sub(r"[^A-Za-z0-9-]", lambda match: f"_{ord(match[0]):X}_", original)


def unescaped(word: str) -> str | None:
    """Returns the text of a word of `escaped`; None if it is none."""
    pieces = word[1:].split("_")
    if not word.startswith("_") or len(pieces) % 2 == 0:
        return None
    try:
        return "".join(chr(int(piece, 16)) if i % 2 else piece for i, piece in enumerate(pieces))
    except (ValueError, OverflowError):
        return None
