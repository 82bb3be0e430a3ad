"""A junction tree as inline SVG: the layout of `jtsolve.draw.layout`, text as text, colours of the page.

Each line of text is told its length, so that it fits its box whatever font the reader has.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from jtsolve.compare.reporting.svg import picture
from jtsolve.draw.layout import LINE, NAME_POINTS, PADDING, SEPARATOR_POINTS, Box, TreeLayout, arrange
from jtsolve.io.result import tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.io.result import ResultDocument

LARGEST = 150
"""Cliques; a larger tree cannot be read on a page."""
_UNIT = 96.0
"""Units of the picture to an inch."""


def tree_svg(result: ResultDocument, title: str) -> str:
    """Returns the tree of a verified result as SVG; empty if there is none, or too large a one."""
    if not 0 < len(result.cliques) <= LARGEST:
        return ""
    drawing = arrange(*tree_of(result, title))
    margin = 0.1
    width, height = (side + 2 * margin for side in drawing.extent)
    parts = [f'<g transform="translate({margin * _UNIT:.1f} {margin * _UNIT:.1f})">']
    parts += [part for box in drawing.boxes if box.depth for part in _edge(drawing, box)]
    parts += [part for box in drawing.boxes for part in _clique(drawing, box)]
    return picture(title, round(width * _UNIT), round(height * _UNIT), [*parts, "</g>"], "tree")


def _clique(drawing: TreeLayout, box: Box) -> list[str]:
    width, height = (side * _UNIT for side in box.size)
    x, y = _at(drawing, box.middle, box.start + box.size[0 if drawing.across else 1] / 2)
    frame = (
        f'<rect class="clique" x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" '
        f'width="{width:.1f}" height="{height:.1f}" rx="6"/>'
    )
    return [frame, *_lines((x, y), box.lines, box.widths, NAME_POINTS, "name")]


def _edge(drawing: TreeLayout, box: Box) -> list[str]:
    deep = 0 if drawing.across else 1
    parent = drawing.boxes[box.parent]
    landing = box.start - PADDING - box.label_size[deep]
    halfway = (parent.end + landing) / 2
    depths = (parent.start + parent.size[deep], parent.end, halfway, halfway, landing, box.start)
    alongs = (parent.middle, parent.middle, parent.middle, box.middle, box.middle, box.middle)
    spots = [f"{x:.1f} {y:.1f}" for x, y in map(_at, [drawing] * 6, alongs, depths)]
    path = f"M{spots[0]}L{spots[1]}C{spots[2]} {spots[3]} {spots[4]}L{spots[5]}"
    kind = "edge dashed" if box.dashed else "edge"
    x, y = _at(drawing, box.middle, box.start - PADDING - box.label_size[deep] / 2)
    width, height = (side * _UNIT for side in box.label_size)
    backing = (
        f'<rect class="backing" x="{x - width / 2 - 2:.1f}" y="{y - height / 2:.1f}" '
        f'width="{width + 4:.1f}" height="{height:.1f}"/>'
    )
    label = _lines((x, y), box.label, box.label_widths, SEPARATOR_POINTS, "separator")
    return [f'<path class="{kind}" d="{path}"/>', backing, *label]


def _at(drawing: TreeLayout, along: float, depth: float) -> tuple[float, float]:
    x, y = drawing.place(along, depth)
    return x * _UNIT, y * _UNIT


def _lines(
    place: tuple[float, float], lines: Sequence[str], widths: Sequence[float], points: float, kind: str
) -> list[str]:
    """Returns lines of text around a place."""
    x, y = place
    step = points * LINE / 72 * _UNIT
    size = points / 72 * _UNIT
    first = y - step * (len(lines) - 1) / 2 + size * 0.35
    return [
        f'<text class="{kind}" x="{x:.1f}" y="{first + step * i:.1f}" font-size="{size:.1f}" '
        f'text-anchor="middle" textLength="{width * _UNIT:.1f}" lengthAdjust="spacingAndGlyphs">'
        f"{escape(line)}</text>"
        for i, (line, width) in enumerate(zip(lines, widths, strict=True))
    ]
