"""Names within the grammar of BIF, and the representation of other names in files.

A word of BIF consists of ASCII letters, digits, underscores and hyphens. Any other name is replaced by a
similar word, and a property of the variable, itself of words, holds the original:

    property original_name _Gr_F6__DF_e;          of the variable: Größe
    property original_state_lt5 __3C_5;           of its state lt5: <5

The word for an original begins with an underscore; characters other than ASCII letters, digits and hyphens
become _HEX_, with the hexadecimal code. Reference: F. Cozman, The Interchange Format for Bayesian Networks,
1998.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "original_name"
STATE = "original_state_"

# Words that pyAgrum and pgmpy read in the same way; 1e5 would be a number.
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_VALUE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*|-?[0-9]+|[0-9]++(?![eE][0-9])[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS = frozenset(
    ("network", "variable", "probability", "property", "type", "discrete", "table", "default")
)
_SIGNS = {
    "<=": "le",
    "≤": "le",
    ">=": "ge",
    "≥": "ge",
    "<": "lt",
    ">": "gt",
    "=": "eq",
    "≠": "ne",
    "+": "plus",
    "−": "minus",
    "±": "plus_minus",
    "%": "percent",
    "&": "and",
    "?": "question",
}
_LETTERS = str.maketrans({"ß": "ss", "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L"})
"""Letters other than ASCII letters with an accent."""
_SIGN = re.compile("|".join(map(re.escape, _SIGNS)))
_BETWEEN = " \t\n_-.,;:/()[]{}'\"\\"
"""Characters that separate words."""


def distinct_words(names: Sequence[str], plain: re.Pattern[str] = _VALUE, *, initial: str = "") -> list[str]:
    """Returns a distinct word for each name; names that are words stay unchanged.

    Args:
        names: any distinct texts.
        plain: pattern of the words allowed.
        initial: prefix for words that would otherwise not match the pattern.

    >>> distinct_words(["age", "<= 1", "> 1", "> 1?", "+", "-", "5%", "groß"])
    ['age', 'le_1', 'gt_1', 'gt_1_question', 'plus', 'minus', '5_percent', 'gross']
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
    """Returns a name in ASCII letters and digits, joined by underscores; signs become words."""
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
    """Returns a text as a word, from which `unescaped` recovers it.

    >>> escaped("a b_1"), unescaped(escaped("<5")), unescaped("5")
    ('_a_20_b_5F_1', '<5', None)
    """
    return "_" + re.sub(r"[^A-Za-z0-9-]", lambda match: f"_{ord(match[0]):X}_", original)


def unescaped(word: str) -> str | None:
    """Returns the text behind a word of `escaped`; None for other words."""
    pieces = word[1:].split("_")
    if not word.startswith("_") or len(pieces) % 2 == 0:
        return None
    try:
        text = "".join(chr(int(piece, 16)) if i % 2 else piece for i, piece in enumerate(pieces))
        return text.encode().decode()  # refuses half a surrogate pair
    except (ValueError, OverflowError):
        return None
