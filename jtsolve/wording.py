"""Names in words of a command line, and advice in the words of its reader.

Messages name options of the command; who calls from Python reads keywords in their place. In a message an
option is followed by its value or by punctuation: `--missing state`, `--drop 'a b',c`, "leave it out with
--drop, or …". The option of a command that is named, as in `jtsolve score --max-size`, stays.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from jtsolve.errors import ChoiceError, InputError, JtsolveError, on_one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LEARNING: Mapping[str, str] = MappingProxyType(
    {
        "class": "class_column",
        "max-size": "treewidth",
        "memory-limit": "memory",
        "missing-values": "gaps",
        "no-header": "header=False",
        "time-limit": "time",
    }
)
"""Keywords of `jt.learn` and its siblings where they differ from the options."""

ESTIMATORS: Mapping[str, str] = MappingProxyType(
    {
        **LEARNING,
        "drop": "X.drop(columns=…)",
        "ess": "smoothing",
        "missing-values": "missing_values",
        "score": "local_score",
        "seed": "random_state",
    }
)
"""The same for the estimators, which leave columns to their caller."""

_LISTS = frozenset({"columns", "drop", "missing-values", "states"})
_OPTION = re.compile(
    r"(?<!\S)(?P<before>[(`']*)(?P<command>jtsolve [a-z-]+ )?--(?P<name>[a-z]+(?:-[a-z]+)*)(?![A-Za-z])"
    r"(?: (?P<value>(?:'[^']*'|\"[^\"]*\"|[\w…]|[:,.=+-](?=[\w'\"…]))+))?"
)


def names_as_words(names: Sequence[str]) -> str:
    """Returns names as one word of a command line, with commas between them.

    >>> names_as_words(["a", "b c", "d,e"])
    'a,b c,"d,e"'
    """
    stream = io.StringIO()
    csv.writer(stream, lineterminator="").writerow(names)
    return stream.getvalue()


def quoted(names: Sequence[str]) -> str:
    """Returns names as the value of an option in a message: as a shell takes them, its end plain to see.

    >>> print("--drop", quoted(["a", "b c"]))
    --drop 'a,b c'
    """
    word = names_as_words(names)
    return word if re.fullmatch(r"[\w,]*\w", word) else "'" + word.replace("'", "'\"'\"'") + "'"


def names_in(text: str) -> tuple[str, ...]:
    """Returns the words between commas; a word in double quotes may contain commas.

    >>> names_in('a, b,"c,d"')
    ('a', 'b', 'c,d')
    """
    rows = csv.reader([text], skipinitialspace=True)
    try:
        return tuple(name.strip() for name in next(rows, [])) or ("",)
    except csv.Error as error:
        raise ChoiceError(
            f"'{on_one_line(text, 100)}' is not a list of names ({error}); join names by commas, without "
            "line breaks"
        ) from None


def in_python(text: str, keywords: Mapping[str, str] = LEARNING) -> str:
    """Returns a text with keywords in place of the options of the command.

    >>> in_python("give --missing state, or leave them out with --drop 'my age,Town'")
    'give missing="state", or leave them out with drop=["my age", "Town"]'
    >>> in_python("a larger --memory-limit, or `jtsolve score --max-size 3`")
    'a larger memory=, or `jtsolve score --max-size 3`'
    """

    def reworded(found: re.Match[str]) -> str:
        option, value = found["name"], found["value"]
        if found["command"]:
            return found[0]
        name = keywords.get(option, option.replace("-", "_"))
        if "=" not in name:
            name += "=…"
        return found["before"] + name.replace("…", "" if value is None else _literal(option, value))

    return _OPTION.sub(reworded, text)


def _literal(option: str, value: str) -> str:
    """Returns the value of an option as Python writes it."""
    if value.isdecimal():
        return value
    word = "".join(shlex.split(value))
    names = names_in(word) if option in _LISTS else (word,)
    return json.dumps(names if len(names) > 1 else names[0], ensure_ascii=False)


@contextmanager
def python_words(keywords: Mapping[str, str] = LEARNING) -> Iterator[None]:
    """Rewords the errors that leave a block; see `in_python`."""
    try:
        yield
    except JtsolveError as error:
        if isinstance(error, InputError):  # for another process, which makes its message again
            error.reason, error.remedy = (in_python(part, keywords) for part in (error.reason, error.remedy))
        error.args = (in_python(str(error), keywords),)
        raise
