"""Trees of boxes with several lines, as text, in the DOT language, and as SVG or PNG: feature trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jtsolve.core.files import write_atomically
from jtsolve.core.formats import PICTURE
from jtsolve.draw import fonts
from jtsolve.draw.colours import BACKGROUND, EDGE, EDGE_TEXT
from jtsolve.draw.layout import LINE, NAME_POINTS, PADDING, SEPARATOR_POINTS
from jtsolve.draw.picture import draw_box, page, save, svg_element, write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MOST = 60
"""Boxes of a picture: beyond, nobody can read it, and deeper ones are counted in place of being drawn."""
_ACROSS = 0.2
"""Space between the boxes of a layer, in inches."""
_DOWN = 0.55
"""Space between layers, in inches."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a branching.

    Attributes:
        lines: of its text.
        kids: positions of the boxes below, later in the list.
        labels: one for each kid.
    """

    lines: tuple[str, ...]
    kids: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()


def branching_text(boxes: Sequence[Box]) -> str:
    """Returns the boxes as lines of text, the first box as the root.

    >>> print(branching_text([Box(("rain?",), (1, 2), ("no", "yes")), Box(("dry",)), Box(("wet",))]))
    rain?
    ├─ no: dry
    └─ yes: wet
    """
    lines = []
    stack = [(0, "", "")]
    while stack:
        i, branch, indent = stack.pop()
        first, *others = boxes[i].lines
        lines.append(f"{branch}{first}")
        bar = "│ " if boxes[i].kids else "  "
        lines += [f"{indent}{bar if others else ''}{line}" for line in others]
        pairs = list(zip(boxes[i].kids, boxes[i].labels, strict=True))
        for k, (kid, label) in reversed(list(enumerate(pairs))):
            last = k == len(pairs) - 1
            words = f"{label}: " if label else ""
            sign, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
            stack.append((kid, indent + sign + words, indent + below))
    return "\n".join(lines)


def branching_dot(boxes: Sequence[Box]) -> str:
    """Returns the boxes in the DOT language of Graphviz."""
    lines = ["digraph feature_tree {", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    for i, box in enumerate(boxes):
        lines.append(f"  n{i} [label={_quoted(box.lines)}];")
        for kid, label in zip(box.kids, box.labels, strict=True):
            lines.append(f"  n{i} -> n{kid} [label={_quoted([label])}];")
    return "\n".join([*lines, "}"])


def draw_branching(boxes: Sequence[Box], path: str | Path) -> None:
    """Draws the boxes into a file, the first on top; of more than 60, the deepest are counted instead.

    Raises:
        ChoiceError: the suffix is not .svg, .png or .dot, or the picture is too large for a PNG file.
        InputError: the file cannot be written.
    """
    if PICTURE.format_to_write(path) == "dot":
        write_atomically(path, branching_dot(boxes).encode())
    else:
        save(_figure(_pruned(boxes)), path)


def branching_svg(boxes: Sequence[Box]) -> str:
    """Returns the drawing of `draw_branching` as an SVG element, to put into HTML."""
    return svg_element(_figure(_pruned(boxes)))


def _quoted(lines: Sequence[str]) -> str:
    """Returns lines as a label of DOT."""
    plain = [line.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "\\r") for line in lines]
    return '"' + "\\n".join(line.replace("\n", "\\n") for line in plain) + '"'


def _pruned(boxes: Sequence[Box]) -> list[Box]:
    """Returns a tree of the topmost boxes."""
    out: list[Box] = []
    queue = [0]  # positions in `boxes`; those in `out` are the same
    for i in queue:  # the list grows during the iteration
        box = boxes[i]
        if len(queue) + len(box.kids) > _MOST:
            below = _below(boxes, i)
            out.append(Box((f"… {below} more" if below else box.lines[0], *box.lines[1:])))
        else:
            kids = tuple(len(queue) + k for k in range(len(box.kids)))
            queue.extend(box.kids)
            out.append(Box(box.lines, kids, box.labels))
    return out


def _below(boxes: Sequence[Box], i: int) -> int:
    """Returns the number of boxes below one."""
    count, stack = 0, list(boxes[i].kids)
    while stack:
        count += 1
        stack += boxes[stack.pop()].kids
    return count


def _figure(boxes: Sequence[Box]) -> Any:
    """Returns the picture of a tree of boxes: each above the middle of its kids."""
    lines = [line for box in boxes for line in (*box.lines, *box.labels)]
    texts = [[fonts.shown(line) for line in box.lines] for box in boxes]
    step = NAME_POINTS * LINE / 72
    widths = [max(fonts.width(line, NAME_POINTS) for line in text) + 2 * PADDING for text in texts]
    heights = [step * len(text) + 2 * PADDING for text in texts]
    depth = [0] * len(boxes)
    for i, box in enumerate(boxes):
        for kid in box.kids:
            depth[kid] = depth[i] + 1
    tops = [0.0]
    for layer in range(max(depth) + 1):
        tallest = max(height for height, own in zip(heights, depth, strict=True) if own == layer)
        tops.append(tops[-1] + tallest + _DOWN)
    span = list(widths)  # of each subtree
    for i in reversed(range(len(boxes))):
        below = sum(span[kid] + _ACROSS for kid in boxes[i].kids) - _ACROSS
        span[i] = max(span[i], below)
    left = [0.0] * len(boxes)
    for i, box in enumerate(boxes):
        below = sum(span[kid] + _ACROSS for kid in box.kids) - _ACROSS
        at = left[i] + (span[i] - below) / 2
        for kid in box.kids:
            left[kid] = at
            at += span[kid] + _ACROSS
    figure, axes = page((span[0], tops[-1] - _DOWN), fonts.remarks(lines))
    middle = [x + width / 2 for x, width in zip(left, span, strict=True)]
    for i, box in enumerate(boxes):
        bottom = tops[depth[i]] + heights[i]
        for kid, label in zip(box.kids, box.labels, strict=True):
            top = tops[depth[kid]]
            axes.plot([middle[i], middle[kid]], [bottom, top], color=EDGE, linewidth=1.1, zorder=1)
            share = 0.62
            x, y = middle[i] + (middle[kid] - middle[i]) * share, bottom + (top - bottom) * share
            shown = [fonts.shown(label)]
            style = {"color": EDGE_TEXT, "backgroundcolor": BACKGROUND}
            write(axes, x, y, shown, SEPARATOR_POINTS, zorder=2, **style)
        y = tops[depth[i]] + heights[i] / 2
        draw_box(axes, middle[i], y, (widths[i], heights[i]))
        lined = len(texts[i]) > 1  # a tree of cliques: its branches have to stay below each other
        x = middle[i] - widths[i] / 2 + PADDING if lined else middle[i]
        style = {"ha": "left"} if lined else {}
        write(axes, x, y, texts[i], NAME_POINTS, zorder=4, **style)
    return figure
