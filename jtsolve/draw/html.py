"""Values in notebooks: facts, the graph of the variables, and the junction tree as text in a fold."""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from jtsolve.draw.branching import branching_text
from jtsolve.draw.picture import edges_figure, render
from jtsolve.draw.text import tree_text
from jtsolve.draw.zoom import zoomable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.tree import JunctionTree
    from jtsolve.draw.branching import Box
    from jtsolve.draw.text import Notes

    Line = str | tuple[str, str]

_READABLE = 150
"""Maximum number of variables of a picture without zoom."""
_ZOOMABLE = 3000
"""Maximum number of variables of a picture with zoom: the layout of more is too slow for a notebook."""
_LONGEST_TEXT = 1000
"""Maximum number of cliques of a text."""


def as_html(
    lines: Sequence[Line],
    tree: JunctionTree | None = None,
    names: Sequence[str] = (),
    notes: Notes | None = None,
) -> str:
    """Returns lines of text, and a tree, as HTML.

    Args:
        lines: of text; pairs form a table.
        tree: its graph is drawn, and it is shown as text; None without one.
        names: of its variables.
        notes: beside its cliques and separators.

    >>> as_html(["a < b", ("rows", "40")])
    '<div><p>a &lt; b</p><table><tr><th>rows</th><td>40</td></tr></table></div>'
    """
    if tree is None:
        return _page(lines, "")
    text = f"{len(tree.cliques)} cliques"
    if len(tree.cliques) <= _LONGEST_TEXT:
        text = tree_text(tree, names, notes)
    below = f"<details><summary>junction tree</summary><pre>{escape(text)}</pre></details>"
    return graph_html(lines, tree.graph_edges, names, below=below)


def graph_html(
    lines: Sequence[Line],
    edges: Sequence[tuple[int, int]],
    names: Sequence[str],
    strengths: Sequence[float] | None = None,
    *,
    below: str = "",
) -> str:
    """Returns lines of text and a graph as HTML; a large graph can be zoomed.

    Args:
        lines: above the graph.
        edges: see `picture.edges_figure`.
        names: see `picture.edges_figure`.
        strengths: see `picture.edges_figure`.
        below: HTML below the graph.
    """
    count = len({v for edge in edges for v in edge})
    if count <= _READABLE:
        text = render(edges_figure(edges, names, strengths), "svg").decode()
        picture = text[text.index("<svg") :]
    elif count <= _ZOOMABLE:
        page = escape(zoomable(edges, names, strengths=strengths))
        picture = f'<iframe srcdoc="{page}" style="width: 100%; height: 600px; border: 0"></iframe>'
    else:
        picture = f"<p>{count} variables with edges are too many to draw here; use show('graph.html')</p>"
    return _page(lines, picture + below)


def branching_html(lines: Sequence[Line], boxes: Sequence[Box]) -> str:
    """Returns lines of text, and the boxes of a branching, as HTML."""
    return _page(lines, f"<pre>{escape(branching_text(boxes))}</pre>")


def _page(lines: Sequence[Line], picture: str) -> str:
    said = []
    for kind, group in groupby(lines, type):
        shown = [
            f"<p>{escape(line)}</p>"
            if isinstance(line, str)
            else f"<tr><th>{escape(line[0])}</th><td>{escape(line[1])}</td></tr>"
            for line in group
        ]
        said += shown if kind is str else ["<table>", *shown, "</table>"]
    return f"<div>{''.join(said)}{picture}</div>"
