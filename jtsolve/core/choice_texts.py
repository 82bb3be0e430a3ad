"""The texts of choices, split into names and options: `core.choices` gives the grammar."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAIN = ""
"""The key of an item without one."""


def split_choice(text: str) -> tuple[str, dict[str, str]]:
    """Returns the name and the unconverted options in a text such as "lns:exact=dp,seed=3".

    Raises:
        ChoiceError: an option is not a `key=value` pair, or is given twice.

    >>> split_choice("lns:exact=dp,seed=3")
    ('lns', {'exact': 'dp', 'seed': '3'})
    >>> split_choice("mixture(components=1,2)")
    ('mixture', {'components': '1,2'})
    """
    mark = re.search("[:(]", text)
    if mark is None:
        return text, {}
    name, options = text[: mark.start()], text[mark.end() :]
    if mark[0] == "(":
        if not options.endswith(")"):
            raise ChoiceError(f"'{text}' does not end with a closing parenthesis; add it")
        options = options[:-1]
    if not options:
        raise _not_a_pair(options)
    return name, split_options(options)


def split_options(text: str) -> dict[str, str]:
    """Returns the options in a text such as "exact=dp,seed=3" by key; that of an item without one is "".

    Raises:
        ChoiceError: an option has no key, or is given twice.
    """
    items: list[str] = []
    for item in parts(text, ","):
        if items and not _has_key(item):
            items[-1] += f",{item}"  # it continues the value before it
        else:
            items.append(item)
    if items and not _has_key(items[0]):
        return {MAIN: items[0], **key_values(items[1:])}
    return key_values(items)


def key_values(items: Iterable[str]) -> dict[str, str]:
    """Returns `key=value` pairs as a dictionary.

    Raises:
        ChoiceError: one is not such a pair, or a key is given twice.

    >>> key_values(["seed=3", "start=forward"])
    {'seed': '3', 'start': 'forward'}
    """
    options: dict[str, str] = {}
    for pair in items:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise _not_a_pair(pair)
        if key in options:
            raise ChoiceError(f"the option '{key}' is given twice; give it once")
        options[key] = value
    return options


def parts(text: str, marks: str) -> list[str]:
    """Returns the parts of a text between the marks outside parentheses; none of an empty text.

    Raises:
        ChoiceError: a parenthesis is not closed.

    >>> parts("forward+lns(steps=4,start=none)", "+,")
    ['forward', 'lns(steps=4,start=none)']
    """
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter in marks and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    if depth:
        raise ChoiceError(f"the parentheses in '{text}' are not balanced")
    return found if text else []


def _has_key(item: str) -> bool:
    """Returns whether an item is "key=value", not a value such as "forward(start=none)"."""
    return "=" in item.partition("(")[0]


def _not_a_pair(item: str) -> ChoiceError:
    return ChoiceError(f"the option '{item}' is not a key=value pair; write for example seed=3")
