"""Pictures of junction trees: text, the DOT language, and drawings made with matplotlib.

A tree is rooted at its centre, which halves its depth. Drawings are laid out in layers by depth; within a
layer, subtrees are packed as closely as the boxes of their cliques allow.

References:
    Reingold and Tilford, Tidier drawings of trees, IEEE Transactions on Software Engineering, 1981.
"""

from __future__ import annotations

import io
import json
import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from jtsolve.core.files import write_atomically
from jtsolve.core.varset import VarSet, members
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from jtsolve.core.tree import JunctionTree

EMPTY_SET = "∅"

Format = Literal["svg", "png"]


@dataclass(frozen=True, slots=True)
class Notes:
    """Short remarks that stand beside cliques and separators.

    Attributes:
        cliques: a text for each of `tree.cliques`.
        separators: a text for each of `tree.edges`.
    """

    cliques: tuple[str, ...]
    separators: tuple[str, ...]


def tree_text(tree: JunctionTree, names: Sequence[str], notes: Notes | None = None) -> str:
    """Returns the tree as lines of text: each clique, and after "sep" its separator to the clique above.

    Args:
        tree: the tree.
        names: the variables' names; names with signs of the notation are put in quotes.
        notes: remarks beside cliques and separators, or None.

    >>> from jtsolve.core.tree import JunctionTree
    >>> print(tree_text(JunctionTree(3, [0b011, 0b110], [(0, 1)]), "ABC"))
    {A, B}
    └─ {B, C}  sep {B}
    """
    rooted = _Rooted.of(tree)
    lines = []
    stack = [(rooted.root, "", "")]
    while stack:
        i, branch, indent = stack.pop()
        separator = "" if i == rooted.root else f"  sep {_braces(rooted.separator(tree, i), names)}"
        if notes is not None and i != rooted.root:
            separator += f"  {notes.separators[rooted.edge[i]]}"
        remark = "" if notes is None else f"  {notes.cliques[i]}"
        lines.append(f"{branch}{_braces(tree.cliques[i], names)}{remark}{separator}".rstrip())
        children = rooted.children[i]
        for child in reversed(children):
            last = child == children[-1]
            stack.append((child, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  ")))
    return "\n".join(lines)


def tree_dot(tree: JunctionTree, names: Sequence[str], notes: Notes | None = None) -> str:
    """Returns the tree in the DOT language of Graphviz; empty separators are dashed edges."""
    of_cliques = [""] * len(tree.cliques) if notes is None else notes.cliques
    of_edges = [""] * len(tree.edges) if notes is None else notes.separators
    lines = ["graph junction_tree {", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    for i, (clique, note) in enumerate(zip(tree.cliques, of_cliques, strict=True)):
        lines.append(f"  c{i} [label={_dot_label(clique, names, note)}];")
    for (i, j), separator, note in zip(tree.edges, tree.separators, of_edges, strict=True):
        style = "" if separator else ", style=dashed"
        lines.append(f"  c{i} -- c{j} [label={_dot_label(separator, names, note)}{style}];")
    return "\n".join([*lines, "}"])


def _braces(mask: VarSet, names: Sequence[str]) -> str:
    """Returns a set as text."""
    if not mask:
        return EMPTY_SET
    return "{" + ", ".join(_plain(names[v]) for v in members(mask)) + "}"


def _plain(name: str) -> str:
    """Returns a name; in quotes if it could be taken for more than one, or has signs that cannot be shown."""
    if name.isprintable() and name.strip() == name and not set(name) & set('{},"'):
        return name
    return json.dumps(name, ensure_ascii=not name.isprintable())


def _dot_label(mask: VarSet, names: Sequence[str], note: str = "") -> str:
    """Returns a quoted label, a name a line, the note last; a backslash would begin an escape of DOT."""
    label = "\\n".join(
        names[v].replace("\\", "\\\\").replace('"', '\\"').replace("\r", "\\r").replace("\n", "\\n")
        for v in members(mask)
    )
    remark = f"\\n{note}" if note else ""
    return f'"{label or EMPTY_SET}{remark}"'


@dataclass(frozen=True, slots=True)
class _Rooted:
    """A tree seen from its centre: the clique from which the farthest other one is nearest.

    Attributes:
        root: the centre; the first of two.
        parent: by clique; the root is its own parent.
        children: by clique, in increasing order.
        order: the cliques, each after its parent.
        edge: by clique, the position in `tree.edges` of the edge to its parent; -1 at the root.
    """

    root: int
    parent: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    edge: tuple[int, ...]

    @classmethod
    def of(cls, tree: JunctionTree) -> _Rooted:
        count = len(tree.cliques)
        adjacent: list[list[int]] = [[] for _ in range(count)]
        for i, j in tree.edges:
            adjacent[i].append(j)
            adjacent[j].append(i)
        root = _centre(adjacent)
        parent = [root] * count
        order = [root]
        for i in order:
            for j in adjacent[i]:
                if j != parent[i]:
                    parent[j] = i
                    order.append(j)
        children = tuple(tuple(sorted(j for j in adjacent[i] if j != parent[i])) for i in range(count))
        number = {frozenset(edge): k for k, edge in enumerate(tree.edges)}
        edge = tuple(number.get(frozenset((i, parent[i])), -1) for i in range(count))
        return cls(root, tuple(parent), children, tuple(order), edge)

    def separator(self, tree: JunctionTree, i: int) -> VarSet:
        """Returns the separator between a clique and its parent."""
        return tree.cliques[i] & tree.cliques[self.parent[i]]

    def depths(self) -> list[int]:
        """Returns the number of edges to the root, by clique."""
        depth = [0] * len(self.parent)
        for i in self.order[1:]:
            depth[i] = depth[self.parent[i]] + 1
        return depth


def _centre(adjacent: Sequence[Sequence[int]]) -> int:
    """Returns the centre: what is left when the leaves are taken away, round after round."""
    degree = [len(row) for row in adjacent]
    layer = [i for i, d in enumerate(degree) if d <= 1]
    left = len(adjacent)
    while left > 2:  # noqa: PLR2004 - a tree has one centre, or two
        left -= len(layer)
        inner = []
        for i in layer:
            degree[i] = 0
            for j in adjacent[i]:
                degree[j] -= 1
                if degree[j] == 1:
                    inner.append(j)
        layer = inner
    return min(layer)


# Drawings. All lengths are in inches; y grows downwards.

_FONT = "DejaVu Sans"  # comes with matplotlib
_NAME_POINTS = 9.0
_SEPARATOR_POINTS = 7.5
_LINE = 1.35  # height of a line of text, in units of the font size
PADDING = 0.09  # between the text of a clique and its box
_SIBLINGS = 0.16  # between neighbours in a layer
_CURVE = 0.34  # depth that an edge has to swing from a parent to a child
_MARGIN = 0.15
_NARROWEST = 0.75  # no line is broken before
_LONGEST_LINE = 24  # characters of one name in a line; longer names are broken
_BROKEN = "↩"
_ASPECT = 1.5  # width to height that suits screens and pages
_PNG_DPI = 150.0
_PNG_SIDE = 30_000  # pixels; matplotlib draws at most 2^16, and viewers give up earlier
_PNG_LEAST_DPI = 60.0
_LARGEST = 1500  # cliques

_BACKGROUND = "#ffffff"
_CLIQUE_FILL = "#eaf1fb"
_CLIQUE_EDGE = "#3d6ea8"
_TEXT = "#14202e"
_TREE_EDGE = "#6f7f91"
_SEPARATOR_TEXT = "#8a4b08"


def draw_tree(
    tree: JunctionTree,
    names: Sequence[str],
    path: str | Path,
    *,
    format: Format,  # noqa: A002 - the word for it
    notes: Notes | None = None,
) -> None:
    """Draws the tree into a file: cliques as boxes, separators on the edges, empty ones dashed.

    The picture grows with the tree. Equal trees and names give equal SVG bytes under one version of
    matplotlib.

    Args:
        tree: the tree.
        names: the variables' names.
        path: the file to write, whole or not at all.
        format: "svg" or "png".
        notes: remarks beside cliques and separators, or None.

    Raises:
        ChoiceError: the tree is too large for a picture.
        InputError: the file cannot be written.
    """
    if len(tree.cliques) > _LARGEST:
        raise ChoiceError(
            f"a picture of {len(tree.cliques)} cliques cannot be read (the most is {_LARGEST}); "
            "show the tree as text, or give the output of --dot to a viewer that zooms"
        )
    import matplotlib as mpl

    # The salt stands in for random names inside SVG files.
    with mpl.rc_context({"svg.hashsalt": "jtsolve", "svg.fonttype": "path"}):
        write_atomically(path, _render(tree_figure(tree, names, notes), format))


@dataclass(slots=True)
class Box:
    """A clique in the drawing, with the label of its edge to its parent.

    Attributes:
        lines: the text of the clique, its note last if it has one.
        label: the text of the separator, likewise.
        size: width and height of the box.
        label_size: width and height of the label.
        parent: position of the parent's box; its own at the root.
        dashed: whether the separator is empty.
        middle: the place of the middle along its layer.
        start: the distance of its near side from the root, across the layers.
        end: the end of its layer.
        depth: number of edges to the root.
    """

    lines: list[str]
    label: list[str]
    size: tuple[float, float]
    label_size: tuple[float, float]
    parent: int
    dashed: bool
    depth: int
    middle: float = 0.0
    start: float = 0.0
    end: float = 0.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes with places.

    Attributes:
        boxes: by clique.
        across: whether depth grows to the right; else downwards.
        breadth: the extent along the layers.
        length: the extent across the layers.
    """

    boxes: list[Box]
    across: bool
    breadth: float
    length: float
    ratio: float = field(init=False)

    def __post_init__(self) -> None:
        width, height = self.extent
        object.__setattr__(self, "ratio", width / height)

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height."""
        return (self.length, self.breadth) if self.across else (self.breadth, self.length)

    def place(self, along: float, depth: float) -> tuple[float, float]:
        """Returns x and y of a place given along and across the layers."""
        return (depth, along) if self.across else (along, depth)


def arrange(tree: JunctionTree, names: Sequence[str], notes: Notes | None = None) -> Drawing:
    """Returns the drawing downwards or to the right, whichever suits a page better."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    renderer: Any = RendererAgg(1, 1, 72)  # type: ignore[no-untyped-call, unused-ignore]

    def measure(text: str, points: float) -> float:
        font = FontProperties(family=_FONT, size=points)
        return float(renderer.get_text_width_height_descent(text, font, ismath=False)[0]) / 72

    rooted = _Rooted.of(tree)
    drawings = [
        _arranged(_boxes(tree, names, rooted, measure, notes), rooted, across=across)
        for across in (False, True)
    ]
    return min(drawings, key=lambda drawing: abs(math.log(drawing.ratio / _ASPECT)))


def _boxes(
    tree: JunctionTree,
    names: Sequence[str],
    rooted: _Rooted,
    measure: Callable[..., float],
    notes: Notes | None,
) -> list[Box]:
    """Returns the boxes with their texts and sizes, not yet placed."""
    depths = rooted.depths()
    boxes = []
    for i, clique in enumerate(tree.cliques):
        separator = rooted.separator(tree, i)
        of_clique = "" if notes is None else notes.cliques[i]
        of_edge = "" if notes is None or i == rooted.root else notes.separators[rooted.edge[i]]
        lines, size = _wrapped(clique, names, partial(measure, points=_NAME_POINTS), _NAME_POINTS, of_clique)
        label, label_size = _wrapped(
            separator, names, partial(measure, points=_SEPARATOR_POINTS), _SEPARATOR_POINTS, of_edge
        )
        box_size = (size[0] + 2 * PADDING, size[1] + 2 * PADDING)
        boxes.append(
            Box(
                lines=lines,
                label=label,
                size=box_size,
                label_size=label_size,
                parent=rooted.parent[i],
                dashed=not separator,
                depth=depths[i],
            )
        )
    return boxes


def _wrapped(
    mask: VarSet, names: Sequence[str], measure: Callable[[str], float], points: float, note: str = ""
) -> tuple[list[str], tuple[float, float]]:
    """Returns the names of a set in lines, together some three times as wide as high, and their size."""
    shown = [_plain(names[v]) for v in members(mask)] or [EMPTY_SET]
    words = [word for name in shown[:-1] for word in _pieces(f"{name},")] + _pieces(shown[-1])
    height = points * _LINE / 72
    widths = [measure(word) for word in words]
    width = max(*widths, _NARROWEST, math.sqrt(3 * height * sum(widths)))
    lines = [words[0]]
    for word in words[1:]:
        longer = f"{lines[-1]} {word}"
        if measure(longer) <= width and not lines[-1].endswith(_BROKEN):
            lines[-1] = longer
        else:
            lines.append(word)
    if note:
        lines.append(note)
    return lines, (max(map(measure, lines)), len(lines) * height)


def _pieces(name: str) -> list[str]:
    """Returns a long name in pieces, each but the last with a sign that it goes on; cuts between words."""
    pieces = []
    while len(name) > _LONGEST_LINE:
        between = max(name.rfind(sign, 0, _LONGEST_LINE) for sign in "_-. /")
        cut = between + 1 if between >= _LONGEST_LINE // 3 else _LONGEST_LINE
        pieces.append(f"{name[:cut]}{_BROKEN}")
        name = name[cut:]
    return [*pieces, name]


def _arranged(boxes: list[Box], rooted: _Rooted, *, across: bool) -> Drawing:
    """Returns the drawing of the boxes in one of the two directions."""
    along, deep = (1, 0) if across else (0, 1)
    length = _set_depths(boxes, deep)
    breadth = _set_middles(boxes, rooted, along)
    return Drawing(boxes, across, breadth, length)


def _set_depths(boxes: list[Box], deep: int) -> float:
    """Places the layers one after the other, labels between them, and returns the sum of their depths."""
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


def _set_middles(boxes: list[Box], rooted: _Rooted, along: int) -> float:
    """Places the boxes within their layers and returns the breadth of the drawing.

    Children are packed from the first to the last, each as near as the layers of its subtree allow; a parent
    stands in the middle of its first and its last child. Offsets are relative to the parent first.
    """
    offset = [0.0] * len(boxes)
    outlines: dict[int, list[tuple[float, float]]] = {}
    for i in reversed(rooted.order):
        packed: list[tuple[float, float]] = []
        children = rooted.children[i]
        for child in children:
            outline = outlines.pop(child)
            room = zip(packed, outline, strict=False)
            offset[child] = max((left[1] - right[0] + _SIBLINGS for left, right in room), default=0.0)
            packed = _joined(packed, [(a + offset[child], b + offset[child]) for a, b in outline])
        middle = (offset[children[0]] + offset[children[-1]]) / 2 if children else 0.0
        for child in children:
            offset[child] -= middle
        half = max(boxes[i].size[along], boxes[i].label_size[along]) / 2
        outlines[i] = [(-half, half), *((a - middle, b - middle) for a, b in packed)]
    outline = outlines[rooted.root]
    first = min(a for a, _ in outline)
    boxes[rooted.root].middle = -first
    for i in rooted.order[1:]:
        boxes[i].middle = boxes[rooted.parent[i]].middle + offset[i]
    return max(b for _, b in outline) - first


def _joined(left: list[tuple[float, float]], right: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns the outline of two subtrees side by side, layer by layer."""
    both = [(a[0], b[1]) for a, b in zip(left, right, strict=False)]
    return both + left[len(both) :] + right[len(both) :]


def tree_figure(tree: JunctionTree, names: Sequence[str], notes: Notes | None = None) -> Any:
    """Returns the drawing of `draw_tree` as a `matplotlib.figure.Figure`, of any size."""
    from matplotlib.figure import Figure

    drawing = arrange(tree, names, notes)
    width, height = (side + 2 * _MARGIN for side in drawing.extent)
    figure = Figure(figsize=(width, height), facecolor=_BACKGROUND)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(-_MARGIN, width - _MARGIN)
    axes.set_ylim(height - _MARGIN, -_MARGIN)
    axes.set_axis_off()
    for box in drawing.boxes:
        if box.depth:
            _draw_edge(axes, drawing, box)
        _draw_clique(axes, drawing, box)
    return figure


def _render(figure: Any, kind: Format) -> bytes:
    """Returns the bytes of the picture."""
    longest = max(figure.get_size_inches())
    dpi = min(_PNG_DPI, _PNG_SIDE / longest)
    if kind == "png" and dpi < _PNG_LEAST_DPI:
        raise ChoiceError(
            f"the picture would be {longest:.0f} inches long: too large for PNG; draw it as SVG"
        )
    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue()


def _draw_clique(axes: Any, drawing: Drawing, box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    width, height = box.size
    x, y = drawing.place(box.middle, box.start + box.size[0 if drawing.across else 1] / 2)
    rounding = 0.07
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2 + rounding, y - height / 2 + rounding),
            width - 2 * rounding,
            height - 2 * rounding,
            boxstyle=f"round,pad={rounding}",
            facecolor=_CLIQUE_FILL,
            edgecolor=_CLIQUE_EDGE,
            linewidth=1.0,
            zorder=3,
        )
    )
    _write(axes, x, y, box.lines, _NAME_POINTS, color=_TEXT, zorder=4)


def _draw_edge(axes: Any, drawing: Drawing, box: Box) -> None:
    """Draws the edge from the parent: straight to the end of its layer, a curve, straight on to the box."""
    from matplotlib.patches import PathPatch, Rectangle
    from matplotlib.path import Path as Outline

    deep = 0 if drawing.across else 1
    parent = drawing.boxes[box.parent]
    label_depth = box.start - PADDING - box.label_size[deep] / 2
    landing = box.start - PADDING - box.label_size[deep]
    halfway = (parent.end + landing) / 2
    points = [
        (parent.middle, parent.start + parent.size[deep]),
        (parent.middle, parent.end),
        (parent.middle, halfway),
        (box.middle, halfway),
        (box.middle, landing),
        (box.middle, box.start),
    ]
    codes = [Outline.MOVETO, Outline.LINETO, Outline.CURVE4, Outline.CURVE4, Outline.CURVE4, Outline.LINETO]
    axes.add_patch(
        PathPatch(
            Outline([drawing.place(*point) for point in points], codes),
            fill=False,
            edgecolor=_TREE_EDGE,
            linewidth=1.1,
            linestyle=(0, (4, 3)) if box.dashed else "solid",
            zorder=1,
        )
    )
    x, y = drawing.place(box.middle, label_depth)
    width, height = box.label_size
    axes.add_patch(
        Rectangle((x - width / 2, y - height / 2), width, height, facecolor=_BACKGROUND, zorder=1.5)
    )
    _write(axes, x, y, box.label, _SEPARATOR_POINTS, color=_SEPARATOR_TEXT, zorder=2)


def _write(axes: Any, x: float, y: float, lines: Sequence[str], points: float, **style: Any) -> None:
    """Writes lines of text around a place; a dollar sign in a name is a dollar sign."""
    # A text each: matplotlib would place, and not centre, the lines of one text in an SVG that keeps text.
    step = points * _LINE / 72
    for i, line in enumerate(lines):
        below = step * (i - (len(lines) - 1) / 2)
        axes.text(
            x,
            y + below,
            line,
            fontfamily=_FONT,
            fontsize=points,
            ha="center",
            va="center",
            parse_math=False,
            **style,
        )
