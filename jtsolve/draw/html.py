"""Values in notebooks: a line of text, and below it the tree as inline SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from jtsolve.draw.branching import branching_svg
from jtsolve.draw.layout import LARGEST
from jtsolve.draw.picture import tree_svg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.tree import JunctionTree
    from jtsolve.draw.branching import Box


def as_html(lines: Sequence[str], tree: JunctionTree | None = None, names: Sequence[str] = ()) -> str:
    """Returns lines of text, and a tree that is not too large, as HTML.

    >>> as_html(["a < b"])
    '<div><p>a &lt; b</p></div>'
    """
    picture = ""
    if tree is not None and len(tree.cliques) <= LARGEST:
        picture = tree_svg(tree, names)
    elif tree is not None:
        picture = f"<p>{len(tree.cliques)} cliques are too many for a picture; draw the graph</p>"
    return _page(lines, picture)


def branching_html(lines: Sequence[str], boxes: Sequence[Box]) -> str:
    """Returns lines of text, and the boxes of a branching, as HTML."""
    return _page(lines, branching_svg(boxes))


def _page(lines: Sequence[str], picture: str) -> str:
    said = "".join(f"<p>{escape(line)}</p>" for line in lines)
    return f"<div>{said}{picture}</div>"
