"""Components of a picture side by side in rows, and the list of isolated variables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jtsolve.draw import fonts
from jtsolve.draw.text import quoted_name

if TYPE_CHECKING:
    from collections.abc import Sequence

ASPECT = 1.5
"""Preferred ratio of width to height, as of screens and pages."""
_BETWEEN = 0.4
"""Space between components, in inches."""
_NARROWEST = 4.0
"""Lines of a list are at least this wide, in inches."""
BROKEN = "↩"
"""The end of a piece of a name that is too long for a line."""


def shelves(extents: Sequence[tuple[float, float]]) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """Returns the upper left corners of components packed in rows, and the total extent.

    Args:
        extents: width and height of each, the largest first.

    >>> shelves([(3.0, 1.0), (1.0, 1.0), (1.0, 1.0)])
    ([(0.0, 0.0), (0.0, 1.4), (1.4, 1.4)], (3.0, 2.4))
    """
    area = sum((wide + _BETWEEN) * (high + _BETWEEN) for wide, high in extents)
    width = max([math.sqrt(ASPECT * area), *(wide for wide, _ in extents)])
    corners = []
    x = y = height = right = 0.0
    for wide, high in extents:
        if x and x + wide > width:
            x, y, height = 0.0, y + height + _BETWEEN, 0.0
        corners.append((x, y))
        right, height = max(right, x + wide), max(height, high)
        x += wide + _BETWEEN
    return corners, (right, y + height)


def isolated_lines(names: Sequence[str], width: float, points: float) -> tuple[str, ...]:
    """Returns the list of isolated variables in lines; nothing if there are none.

    Args:
        names: of the variables.
        width: of the picture, in inches.
        points: size of the font.
    """
    if not names:
        return ()
    words = [f"{quoted_name(fonts.printable_name(name))}," for name in names]
    words = ["isolated:", *words[:-1], words[-1][:-1]]
    return tuple(filled_lines(words, max(width, _NARROWEST), points))


def filled_lines(words: Sequence[str], width: float, points: float) -> list[str]:
    """Returns words in lines of at most a width, in inches; a word that ends with `BROKEN` ends its line.

    Args:
        words: at least one.
        width: of the lines; longer words have a line each.
        points: size of the font.
    """
    lines = [words[0]]
    for word in words[1:]:
        longer = f"{lines[-1]} {word}"
        if fonts.width(longer, points) <= width and not lines[-1].endswith(BROKEN):
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
