"""Tables as text: headings over a rule, numbers right-aligned."""

from __future__ import annotations

import shutil
import sys
import textwrap
from json import dumps
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

from jtsolve.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_BETWEEN = "   "


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> str:
    """Returns a table as text, with numbers right-aligned and control characters escaped.

    >>> print(table(["name", "n"], [["a", 10], ["b", 2.5]]))
     name     n
     ──────────
     a       10
     b      2.5

    Args:
        headings: of the columns.
        rows: a cell per column; see `cell_as_text` for their text.
        title: a line above.
    """
    cells = [[printable(cell_as_text(cell)) for cell in row] for row in rows]
    columns = list(zip(headings, *cells, strict=True))
    widths = [max(map(_width, column)) for column in columns]
    right = [bool(cells) and all(map(_is_number, column[1:])) for column in columns]

    def line(row: Sequence[str]) -> str:
        parts = []
        for cell, width, number in zip(row, widths, right, strict=True):
            space = " " * (width - _width(cell))
            parts.append(space + cell if number else cell + space)
        return f" {_BETWEEN.join(parts)}".rstrip()

    rule = " " + "─" * (sum(widths) + len(_BETWEEN) * (len(widths) - 1))
    return "\n".join([*filter(None, [title]), line(headings), rule, *map(line, cells)]).strip("\n")


def cell_as_text(cell: Any) -> str:
    """Returns a cell as text, a fraction with six digits."""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _width(text: str) -> int:
    """Returns the width of a text in columns of a terminal."""
    return sum(0 if combining(sign) else 2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == ""
    return True


def headed(name: str, facts: Mapping[str, str]) -> list[str]:
    """Returns lines with the name of a problem and facts about it, wrapped on a terminal."""
    name = name or "(without a name)"
    shown = [name if name.isprintable() else dumps(name)]
    for heading, fact in facts.items():
        shown += _wrapped(f"  {heading:<10} {fact}")
    return shown


def _wrapped(line: str) -> list[str]:
    """Returns a line wrapped between words, on a terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        return [line]
    width = max(40, shutil.get_terminal_size().columns - 1)
    return textwrap.wrap(
        line, width, subsequent_indent=" " * 13, break_long_words=False, break_on_hyphens=False
    )
