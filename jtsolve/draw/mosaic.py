"""Mosaics: tables of counts as tiles, whose areas are the counts and whose colours the residuals.

The first variable splits the page, the second each strip, and so on, alternately across and down. A tile is
blue if its count exceeds the expectation under independence of all variables, and red if it falls below: pale
from a Pearson residual of 2, strong from 4.

References:
    J. A. Hartigan, B. Kleiner, Mosaics for contingency tables, Computer Science and Statistics 1981.
    M. Friendly, Mosaic displays for multi-way contingency tables, JASA 89, 1994 (the shading).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.draw import fonts
from jtsolve.draw.colours import NEGATIVE, POSITIVE
from jtsolve.draw.picture import page, save, write
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

MOST_VARIABLES, MOST_TILES = 4, 1000
"""One variable for each side of the page; and tiles that are still visible."""
_SIDE = 5.0
_GAPS = (0.12, 0.06, 0.03, 0.015)
"""Gaps between the parts of a split, in inches, by depth."""
_POINTS = 9.0
_SHADES = ((4.0, POSITIVE, NEGATIVE), (2.0, "#a9c8ea", "#efb3ac"))
_PLAIN, _OUTLINE = "#f2f2f2", "#3f4a57"

Box = tuple[float, float, float, float]
"""Left, top, width and height, in inches."""


def require_drawable(dims: Sequence[int]) -> None:
    """Checks that a table is small enough for a mosaic.

    Raises:
        ChoiceError: it is not.
    """
    if not 1 <= len(dims) <= MOST_VARIABLES or prod(dims) > MOST_TILES:
        raise ChoiceError(
            f"a mosaic of {len(dims)} variables with {prod(dims)} cells would be unreadable; give at most "
            f"{MOST_VARIABLES} variables with {MOST_TILES} cells"
        )


def draw_mosaic(
    counts: NDArray[np.float64],
    names: Sequence[str],
    states: Sequence[Sequence[str]],
    path: str | Path,
) -> None:
    """Draws a table of counts into a file.

    Args:
        counts: shape (arity, …), an axis for each variable; `require_drawable`; not all 0.
        names: of the variables.
        states: of each variable.
        path: the file to write, atomically: .svg or .png.

    Raises:
        InputError: the file cannot be written.
    """
    labels = [[fonts.printable_name(state) for state in own] for own in states]
    line = _POINTS * 1.6 / 72
    wide = max((fonts.width(label, _POINTS) for own in labels[1::2] for label in own), default=0.0) + 0.1
    left = 2 * line + wide if len(names) > 1 else 0.0
    right = 2 * line + wide if len(names) > 3 else 0.0  # noqa: PLR2004 - the fourth is on the right
    below = 2 * line if len(names) > 2 else 0.0  # noqa: PLR2004 - the third is below
    inner = (left, 2.5 * line, _SIDE, _SIDE)
    remark = "area: count; blue: above independence of the variables, red: below (Pearson residuals 2, 4)"
    extent = (left + _SIDE + right, 2.5 * line + _SIDE + below)
    figure, axes = page(extent, (remark, *fonts.remarks([*names, *(s for own in states for s in own)])))
    residuals = _pearson(counts)
    from matplotlib.patches import Rectangle

    for cell, (x, y, width, height) in _tiles(counts, inner):
        fill = _shade(residuals[cell])
        axes.add_patch(Rectangle((x, y), width, height, facecolor=fill, edgecolor=_OUTLINE, linewidth=0.6))
    middle = (inner[0] + _SIDE / 2, inner[1] + _SIDE / 2)
    for depth, name in enumerate(names):
        across, far = depth % 2 == 0, depth > 1
        spans = _spans(counts, inner, depth)
        places = _apart(spans, [line if not across else fonts.width(one, _POINTS) for one in labels[depth]])
        if across:
            edge = inner[1] + _SIDE + 0.6 * line if far else inner[1] - 0.6 * line
            title = (middle[0], edge + (line if far else -line), 0)
        else:
            edge = inner[0] + _SIDE + 0.08 if far else inner[0] - 0.08
            title = (edge + (wide + line / 2) * (1 if far else -1), middle[1], 90)
        align = {} if across else {"ha": "left" if far else "right"}
        for label, place in zip(labels[depth], places, strict=True):
            x, y = (place, edge) if across else (edge, place)
            write(axes, x, y, [label], _POINTS, **align)
        shown = [fonts.printable_name(name)]
        write(axes, *title[:2], shown, _POINTS, rotation=title[2], fontweight="bold")
    save(figure, path)


def _pearson(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the Pearson residuals from the independence of all variables."""
    total = float(counts.sum())
    expected: NDArray[np.float64] = np.full(counts.shape, total)
    for axis in range(counts.ndim):
        others = tuple(one for one in range(counts.ndim) if one != axis)
        expected = expected * counts.sum(axis=others, keepdims=True) / total
    residuals = np.zeros_like(counts)
    return np.divide(counts - expected, np.sqrt(expected), out=residuals, where=expected > 0)


def _shade(residual: float) -> str:
    for least, above, below in _SHADES:
        if abs(residual) >= least:
            return above if residual > 0 else below
    return _PLAIN


def _tiles(
    counts: NDArray[np.float64], box: Box, cell: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], Box]]:
    """Yields the cells of a table with their tiles in a box."""
    if len(cell) == counts.ndim:
        yield cell, box
        return
    for state, part in enumerate(_split(counts[cell], box, len(cell))):
        yield from _tiles(counts, part, (*cell, state))


def _split(counts: NDArray[np.float64], box: Box, depth: int) -> list[Box]:
    """Returns the parts of a box in proportion to the first axis; an empty table is split evenly."""
    shares = counts.reshape(len(counts), -1).sum(1)
    shares = shares / shares.sum() if shares.any() else np.full(len(shares), 1 / len(shares))
    left, top, width, height = box
    across = depth % 2 == 0
    gap = min(_GAPS[depth], 0.5 * (width if across else height) / len(shares))
    room = (width if across else height) - gap * (len(shares) - 1)
    starts = np.cumsum([0.0, *shares[:-1]]) * room + gap * np.arange(len(shares))
    sizes = shares * room
    if across:
        return [(left + at, top, size, height) for at, size in zip(starts, sizes, strict=True)]
    return [(left, top + at, width, size) for at, size in zip(starts, sizes, strict=True)]


def _spans(counts: NDArray[np.float64], box: Box, depth: int) -> list[tuple[float, float]]:
    """Returns start and size of the tiles of each state of a variable, on its side of the page."""
    cell: tuple[int, ...] = ()
    corner = {0: (), 1: (0,), 2: (0, -1), 3: (-1, 0, -1)}[depth]
    for level, state in enumerate(corner):
        box = _split(counts[cell], box, level)[state]
        cell = (*cell, state)
    parts = _split(counts[cell], box, depth)
    return [(part[0], part[2]) if depth % 2 == 0 else (part[1], part[3]) for part in parts]


def _apart(spans: Sequence[tuple[float, float]], sizes: Sequence[float]) -> list[float]:
    """Returns the middles of labels, shifted so that they do not overlap."""
    places: list[float] = []
    for (start, size), own, before in zip(spans, sizes, [0.0, *sizes], strict=False):
        middle = start + size / 2
        places.append(max(middle, places[-1] + (before + own) / 2 + 0.05) if places else middle)
    return places
