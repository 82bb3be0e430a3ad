"""SVG and PNG files of junction trees, drawn with matplotlib."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtsolve.core.files import write_atomically
from jtsolve.core.formats import PICTURE, RASTER
from jtsolve.draw import fonts
from jtsolve.draw.colours import BACKGROUND, EDGE, EDGE_TEXT, NEGATIVE, POSITIVE, TEXT, group_fill
from jtsolve.draw.graph import arrange_edges
from jtsolve.draw.layout import LINE, NAME_POINTS, PADDING, SEPARATOR_POINTS, best_layout
from jtsolve.draw.text import edges_dot, tree_dot
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.tree import JunctionTree
    from jtsolve.draw.layout import CliqueBox, TreeLayout
    from jtsolve.draw.text import Notes

_MARGIN = 0.15
_PNG_DPI = 150.0
_PNG_SIDE = 30_000
"""Maximum number of pixels of a side: matplotlib draws up to 2^16, but many viewers fewer."""
_PNG_LEAST_DPI = 60.0

_CLIQUE_FILL = "#eaf1fb"
_CLIQUE_EDGE = "#3d6ea8"
_FADED = 0.35
"""Opacity of an edge that passes behind a node."""


def draw_tree(
    tree: JunctionTree,
    names: Sequence[str],
    path: str | Path,
    *,
    notes: Notes | None = None,
) -> None:
    """Draws the tree into a file: cliques as boxes, separators on the edges, components apart.

    Characters that the font lacks are escaped. Under one version of matplotlib, equal trees and names give
    identical SVG files.

    Args:
        tree: the tree.
        names: of the variables.
        path: the file to write, atomically: .svg, .png or .dot; .html draws the graph of the variables, see
            `zoom`.
        notes: remarks beside cliques and separators, or None.

    Raises:
        ChoiceError: the suffix is unknown, there are more than 150 cliques, or the picture is too large for
            PNG.
        InputError: the file cannot be written.
    """
    kind = PICTURE.format_to_write(path)
    if kind == "html":
        draw_graph(tree, names, path)
    elif kind == "dot":
        write_atomically(path, tree_dot(tree, names, notes).encode())
    else:
        save(tree_figure(tree, names, notes), path)


def draw_graph(
    tree: JunctionTree,
    names: Sequence[str],
    path: str | Path,
) -> None:
    """Draws the chordal graph of a junction tree into a file.

    Args:
        tree: variables are adjacent if a clique has both.
        names: of the variables.
        path: the file to write, atomically; see `draw_edges` for formats and errors.
    """
    draw_edges(sorted(tree.graph_edges), names, path)


def draw_edges(
    edges: Sequence[tuple[int, int]],
    names: Sequence[str],
    path: str | Path,
    *,
    strengths: Sequence[float] | None = None,
    groups: Sequence[int | None] | None = None,
) -> None:
    """Draws any graph into a file.

    Args:
        edges: see `edges_figure`.
        names: see `edges_figure`.
        strengths: see `edges_figure`.
        groups: see `edges_figure`.
        path: the file to write, atomically: .svg, .png, .dot or .html.

    Raises:
        ChoiceError: the suffix is unknown, or an .svg or .png would have more than 400 variables with edges.
        InputError: the file cannot be written.
    """
    kind = PICTURE.format_to_write(path)
    if kind == "html":
        from jtsolve.draw.zoom import zoomable

        page = zoomable(edges, names, Path(path).stem, strengths=strengths, groups=groups)
        write_atomically(path, page.encode())
    elif kind == "dot":
        write_atomically(path, edges_dot(edges, names, strengths).encode())
    else:
        save(edges_figure(edges, names, strengths, groups), path)


def edges_figure(
    edges: Sequence[tuple[int, int]],
    names: Sequence[str],
    strengths: Sequence[float] | None = None,
    groups: Sequence[int | None] | None = None,
) -> Any:
    """Returns the drawing of a graph as a `matplotlib.figure.Figure`.

    Args:
        edges: pairs of variables, increasing.
        names: of the variables.
        strengths: of each edge, from -1 to 1: blue if positive, red if negative, wider if stronger.
        groups: of each variable, which determine its colour; None for none.
    """
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    strongest = max(map(abs, strengths or ()), default=0.0) or 1.0
    layout = arrange_edges(edges, names)
    remarks = layout.remarks
    if strengths:
        remarks = (f"blue: positive, red: negative; the widest line is {strongest:.2f} in size", *remarks)
    figure, axes = page(layout.extent, remarks)
    routes = dict(zip(layout.edges, layout.routes, strict=True))
    for k, (u, v) in enumerate(edges):
        colour, width = EDGE, 1.1
        if strengths is not None:
            colour = POSITIVE if strengths[k] >= 0 else NEGATIVE
            width = 0.5 + 3.5 * abs(strengths[k]) / strongest
        course = routes[u, v]
        outline = Outline(course.points, [Outline.MOVETO, Outline.CURVE3, Outline.CURVE3])
        faded = _FADED if course.behind else 1.0
        style = {"edgecolor": colour, "linewidth": width, "alpha": faded, "zorder": 1}
        axes.add_patch(PathPatch(outline, fill=False, **style))
    for v in layout.drawn:
        group = None if groups is None else groups[v]
        fill = _CLIQUE_FILL if group is None else group_fill(group)
        x, y = layout.centres[v]
        draw_box(axes, x, y, layout.sizes[v], fill)
        write(axes, x, y, [layout.labels[v]], NAME_POINTS, zorder=4)
    return figure


def tree_figure(tree: JunctionTree, names: Sequence[str], notes: Notes | None = None) -> Any:
    """Returns the drawing of `draw_tree` as a `matplotlib.figure.Figure`.

    Args:
        tree: the junction tree.
        names: of the variables.
        notes: a text for each clique and separator.
    """
    layout = best_layout(tree, names, notes)
    figure, axes = page(layout.extent, layout.remarks)
    for box in layout.boxes:
        if box.depth:
            _draw_edge(axes, layout, box)
        x, y = layout.place(box.middle, box.start + box.size[0 if layout.across else 1] / 2)
        draw_box(axes, x, y, box.size)
        write(axes, x, y, box.lines, NAME_POINTS, zorder=4)
    return figure


def page(extent: tuple[float, float], remarks: Sequence[str]) -> tuple[Any, Any]:
    """Returns a figure, with the remarks at the bottom, and its axes, in inches."""
    from matplotlib.figure import Figure

    width, height = (side + 2 * _MARGIN for side in extent)
    step = SEPARATOR_POINTS * LINE / 72
    width = max([width, *(fonts.width(line, SEPARATOR_POINTS) + 2 * _MARGIN for line in remarks)])
    height += step * len(remarks)
    figure = Figure(figsize=(width, height), facecolor=BACKGROUND)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(-_MARGIN, width - _MARGIN)
    axes.set_ylim(height - _MARGIN, -_MARGIN)
    axes.set_axis_off()
    for k, line in enumerate(reversed(remarks)):
        place = (0.0, height - _MARGIN - step * k)
        write(axes, *place, [line], SEPARATOR_POINTS, ha="left", va="bottom")
    return figure, axes


def render(figure: Any, kind: str) -> bytes:
    """Returns the bytes of the picture.

    Raises:
        ChoiceError: the picture is too large for PNG.
    """
    longest = max(figure.get_size_inches())
    dpi = min(_PNG_DPI, _PNG_SIDE / longest)
    if kind == "png" and dpi < _PNG_LEAST_DPI:
        raise ChoiceError(
            f"the picture would be {longest:.0f} inches long: too large for PNG; draw it as SVG"
        )
    import matplotlib as mpl

    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    # The salt makes the ids inside SVG files reproducible.
    with mpl.rc_context({"svg.hashsalt": "jtsolve", "svg.fonttype": "path"}):
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue()


def save(figure: Any, path: str | Path) -> None:
    """Writes a picture to a file, atomically, in the format of its suffix.

    Raises:
        ChoiceError: the suffix is unknown.
    """
    write_atomically(path, render(figure, RASTER.format_to_write(path)))


def draw_box(axes: Any, x: float, y: float, size: Sequence[float], fill: str = _CLIQUE_FILL) -> None:
    """Draws a box with round corners centred at a point.

    Args:
        axes: of matplotlib, in inches.
        x: the centre.
        y: the centre.
        size: width and height.
        fill: colour.
    """
    from matplotlib.patches import FancyBboxPatch

    width, height = size
    rounding = 0.07
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2 + rounding, y - height / 2 + rounding),
            width - 2 * rounding,
            height - 2 * rounding,
            boxstyle=f"round,pad={rounding}",
            facecolor=fill,
            edgecolor=_CLIQUE_EDGE,
            linewidth=1.0,
            zorder=3,
        )
    )


def _draw_edge(axes: Any, layout: TreeLayout, box: CliqueBox) -> None:
    """Draws the edge from the parent: straight to the end of its layer, curved, and straight to the box."""
    from matplotlib.patches import PathPatch, Rectangle
    from matplotlib.path import Path as Outline

    deep = 0 if layout.across else 1
    parent = layout.boxes[box.parent]
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
            Outline([layout.place(*point) for point in points], codes),
            fill=False,
            edgecolor=EDGE,
            linewidth=1.1,
            zorder=1,
        )
    )
    x, y = layout.place(box.middle, label_depth)
    width, height = box.label_size
    axes.add_patch(
        Rectangle((x - width / 2, y - height / 2), width, height, facecolor=BACKGROUND, zorder=1.5)
    )
    write(axes, x, y, box.label, SEPARATOR_POINTS, color=EDGE_TEXT, zorder=2)


def write(axes: Any, x: float, y: float, lines: Sequence[str], points: float, **style: Any) -> None:
    """Writes lines of text centred at a point; dollar signs do not start mathematics.

    Args:
        axes: of matplotlib, in inches.
        x: the centre.
        y: the centre.
        lines: from top to bottom.
        points: font size.
        style: passed to `axes.text`.
    """
    # One text per line: matplotlib does not centre the lines of a single text in SVG files with text.
    step = points * LINE / 72
    for i, line in enumerate(lines):
        below = step * (i - (len(lines) - 1) / 2)
        axes.text(
            x,
            y + below,
            line,
            fontfamily=fonts.FAMILY,
            fontsize=points,
            parse_math=False,
            **{"ha": "center", "va": "center", "color": TEXT, **style},
        )
