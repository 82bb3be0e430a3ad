"""Layout of a drawing of a tree: layers by depth, with subtrees as close as their boxes allow.

Components are placed side by side; isolated variables are listed below. All lengths are in inches; y grows
downwards.

Reference:
    E. M. Reingold, J. S. Tilford, Tidier drawings of trees, IEEE Transactions on Software Engineering, 1981.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jtsolve.core.varset import VarSet, members
from jtsolve.draw import fonts
from jtsolve.draw.packing import ASPECT, BROKEN, filled_lines, isolated_lines, shelves
from jtsolve.draw.rooted import RootedForest
from jtsolve.draw.text import quoted_name
from jtsolve.errors import ChoiceError
from jtsolve.options import PAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.tree import JunctionTree
    from jtsolve.draw.text import Notes

NAME_POINTS = 9.0
SEPARATOR_POINTS = 7.5
LINE = 1.35
"""Line height, in units of the font size."""
PADDING = 0.09
"""Space between the text of a clique and its box."""
_SIBLINGS = 0.16
"""Space between neighbours in a layer."""
_CURVE = 0.34
"""Depth of the curved part of an edge."""
_NARROWEST = 0.75
"""Lines up to this width are not broken."""
_LONGEST_LINE = 24
"""Maximum number of characters of a name on a line; longer names are broken, marked by `BROKEN`."""
LARGEST = 150
"""Maximum number of cliques in a drawing that is readable on one page."""
ZOOMABLE = f"draw its graph as a page that zooms, with {PAGE('graph.html')}"
"""The remedy for a tree or graph too large for a picture."""


@dataclass(slots=True)
class CliqueBox:
    """A clique in the layout, with the label of the edge to its parent.

    Attributes:
        lines: text of the clique; a note comes last.
        label: text of the separator; a note comes last.
        size: width and height of the box.
        label_size: width and height of the label.
        parent: index of the box of the parent; a root is its own parent.
        depth: number of edges to the root.
        middle: position of the centre along the layer.
        start: position of the near side across the layers, which begin at the root.
        end: position of the end of the layer.
    """

    lines: list[str]
    label: list[str]
    size: tuple[float, float]
    label_size: tuple[float, float]
    parent: int
    depth: int
    middle: float = 0.0
    start: float = 0.0
    end: float = 0.0


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """Placed boxes.

    Attributes:
        boxes: of the cliques, each after its parent.
        across: whether depth grows to the right; otherwise downwards.
        extent: width and height.
        remarks: lines to print below.
    """

    boxes: list[CliqueBox]
    across: bool
    extent: tuple[float, float]
    remarks: tuple[str, ...]

    @property
    def distortion(self) -> float:
        """The logarithm of the aspect ratio, relative to that of a page, in size."""
        width, height = self.extent
        return abs(math.log(width / height / ASPECT)) if width and height else 0.0

    def place(self, along: float, depth: float) -> tuple[float, float]:
        """Returns x and y of a point given along and across the layers."""
        return (depth, along) if self.across else (along, depth)


def best_layout(tree: JunctionTree, names: Sequence[str], notes: Notes | None = None) -> TreeLayout:
    """Returns the layout of a junction tree, downwards or to the right, whichever fits a page better.

    Args:
        tree: edges with empty separators are left out.
        names: of the variables.
        notes: a text for each clique and separator.

    Raises:
        ChoiceError: there are more than 150 cliques.
    """
    if len(tree.cliques) > LARGEST:
        raise ChoiceError(
            f"a picture of {len(tree.cliques)} cliques would be unreadable (the limit is {LARGEST}); "
            f"{ZOOMABLE}"
        )
    forest = RootedForest.of(tree)
    printable = list(map(fonts.printable_name, names))

    def component(order: Sequence[int], *, across: bool) -> tuple[list[CliqueBox], tuple[float, float]]:
        """Returns the placed boxes of a component, and its extent."""
        boxes = _boxes(tree, printable, forest, order, notes)
        length, breadth = _set_depths(boxes, 1 - across), _set_middles(boxes, int(across))
        return boxes, (length, breadth) if across else (breadth, length)

    layouts = []
    for across in (False, True):
        parts = [component(order, across=across) for order in forest.orders]
        layouts.append(_side_by_side(parts, across=across))
    best = min(layouts, key=lambda layout: layout.distortion)
    alone = [names[tree.cliques[i].bit_length() - 1] for i in forest.isolated]
    listed = isolated_lines(alone, best.extent[0], SEPARATOR_POINTS)
    return replace(best, remarks=(*listed, *fonts.remarks(names)))


def _side_by_side(
    parts: Sequence[tuple[list[CliqueBox], tuple[float, float]]], *, across: bool
) -> TreeLayout:
    """Returns the layout of components in rows."""
    corners, extent = shelves([size for _, size in parts])
    together: list[CliqueBox] = []
    for (boxes, _), (x, y) in zip(parts, corners, strict=True):
        aside, down = (y, x) if across else (x, y)
        together += [
            replace(
                box,
                parent=box.parent + len(together),
                middle=box.middle + aside,
                start=box.start + down,
                end=box.end + down,
            )
            for box in boxes
        ]
    return TreeLayout(together, across, extent, ())


def _boxes(
    tree: JunctionTree,
    names: Sequence[str],
    forest: RootedForest,
    order: Sequence[int],
    notes: Notes | None,
) -> list[CliqueBox]:
    """Returns the boxes of a component in its order, with texts and sizes, but without positions."""
    boxes: list[CliqueBox] = []
    place = {i: k for k, i in enumerate(order)}
    for i in order:
        parent = place[forest.parent[i]]
        separator = forest.separator(tree, i)
        of_clique = "" if notes is None else notes.cliques[i]
        of_edge = "" if notes is None or i == order[0] else notes.separators[forest.edge[i]]
        lines, size = _wrapped(tree.cliques[i], names, NAME_POINTS, of_clique)
        label, label_size = _wrapped(separator, names, SEPARATOR_POINTS, of_edge)
        boxes.append(
            CliqueBox(
                lines=lines,
                label=label,
                size=(size[0] + 2 * PADDING, size[1] + 2 * PADDING),
                label_size=label_size,
                parent=parent,
                depth=boxes[parent].depth + 1 if boxes else 0,
            )
        )
    return boxes


def _wrapped(
    mask: VarSet, names: Sequence[str], points: float, note: str
) -> tuple[list[str], tuple[float, float]]:
    """Returns the names of a set as lines, about three times as wide as high, and the extent of the lines."""
    shown = [quoted_name(names[v]) for v in members(mask)]
    words = [word for name in shown[:-1] for word in _pieces(f"{name},")] + _pieces(shown[-1])
    height = points * LINE / 72
    widths = [fonts.width(word, points) for word in words]
    width = max(*widths, _NARROWEST, math.sqrt(3 * height * sum(widths)))
    lines = filled_lines(words, width, points)
    if note:
        lines.append(note)
    return lines, (max(fonts.width(line, points) for line in lines), len(lines) * height)


def _pieces(name: str) -> list[str]:
    """Returns a long name in pieces, cut between words; all but the last end with `BROKEN`."""
    pieces = []
    while len(name.removesuffix(",")) > _LONGEST_LINE:
        between = max(name.rfind(sign, 0, _LONGEST_LINE) for sign in "_-. /")
        cut = between + 1 if between >= _LONGEST_LINE // 3 else _LONGEST_LINE
        pieces.append(f"{name[:cut]}{BROKEN}")
        name = name[cut:]
    return [*pieces, name]


def _set_depths(boxes: list[CliqueBox], deep: int) -> float:
    """Sets the positions of the layers, with labels between them, and returns their total depth."""
    layers = max(box.depth for box in boxes) + 1
    position = 0.0
    for layer in range(layers):
        inside = [box for box in boxes if box.depth == layer]
        if layer:
            position += _CURVE + max(box.label_size[deep] for box in inside) + PADDING
        end = position + max(box.size[deep] for box in inside)
        for box in inside:
            box.start, box.end = position, end
        position = end
    return position


def _set_middles(boxes: list[CliqueBox], along: int) -> float:
    """Sets the positions of the boxes within their layers and returns the breadth of the layout.

    Children are packed from first to last, each as close as the outlines of the subtrees allow; a parent is
    centred over its first and last child. Offsets are relative to the parent; the second pass adds them up.
    """
    children: list[list[int]] = [[] for _ in boxes]
    for i, box in enumerate(boxes[1:], start=1):
        children[box.parent].append(i)
    offset = [0.0] * len(boxes)
    outlines: dict[int, list[tuple[float, float]]] = {}
    for i in reversed(range(len(boxes))):  # a box comes after its parent
        packed: list[tuple[float, float]] = []
        for child in children[i]:
            outline = outlines.pop(child)
            room = zip(packed, outline, strict=False)
            offset[child] = max((left[1] - right[0] + _SIBLINGS for left, right in room), default=0.0)
            packed = _joined(packed, [(a + offset[child], b + offset[child]) for a, b in outline])
        middle = (offset[children[i][0]] + offset[children[i][-1]]) / 2 if children[i] else 0.0
        for child in children[i]:
            offset[child] -= middle
        half = max(boxes[i].size[along], boxes[i].label_size[along]) / 2
        outlines[i] = [(-half, half), *((a - middle, b - middle) for a, b in packed)]
    outline = outlines[0]
    first = min(a for a, _ in outline)
    boxes[0].middle = -first
    for i, box in enumerate(boxes[1:], start=1):
        box.middle = boxes[box.parent].middle + offset[i]
    return max(b for _, b in outline) - first


def _joined(left: list[tuple[float, float]], right: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns the outline, layer by layer, of two subtrees side by side."""
    both = [(a[0], b[1]) for a, b in zip(left, right, strict=False)]
    return both + left[len(both) :] + right[len(both) :]
