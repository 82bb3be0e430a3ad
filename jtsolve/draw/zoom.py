"""Graphs of any size as one self-contained page of HTML, with zoom and a search for variables by name."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.draw.colours import NEGATIVE, POSITIVE, group_fill
from jtsolve.draw.packing import shelves
from jtsolve.draw.stress import component_places
from jtsolve.errors import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_STEP = 90
"""Length of an edge in pixels, before zooming."""


def zoomable(
    edges: Sequence[tuple[int, int]],
    names: Sequence[str],
    title: str = "graph",
    *,
    strengths: Sequence[float] | None = None,
    groups: Sequence[int | None] | None = None,
) -> str:
    """Returns a graph as a page of HTML.

    Args:
        edges: pairs of variables.
        names: of the variables.
        title: of the page.
        strengths: of the edges, from -1 to 1, by colour and width; None for none.
        groups: of the variables, by colour; None for none.
    """
    places = np.rint(_STEP * _places(edges, len(names))).astype(int)
    graph: dict[str, Any] = {
        "names": list(map(printable, names)),
        "x": places[:, 0].tolist(),
        "y": places[:, 1].tolist(),
        "edges": list(map(list, edges)),
    }
    if strengths:
        strongest = max(map(abs, strengths)) or 1.0
        graph["colours"] = [NEGATIVE if value < 0 else POSITIVE for value in strengths]
        graph["widths"] = [round(0.5 + 3.5 * abs(value) / strongest, 1) for value in strengths]
    if groups is not None:
        graph["fills"] = [None if group is None else group_fill(group) for group in groups]
    page = files("jtsolve.draw").joinpath("zoom.html").read_text(encoding="utf-8")
    safe = json.dumps(graph, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    head = printable(title).replace("&", "&amp;").replace("<", "&lt;")
    return page.replace("@TITLE@", head).replace("@GRAPH@", safe)


def _places(edges: Sequence[tuple[int, int]], n: int) -> NDArray[np.float64]:
    """Returns a place for each variable, shape (n, 2), in units of an edge; 0 for isolated ones."""
    places = np.zeros((n, 2))
    parts = component_places(edges, n)
    extents = [(float(wide) + 1, float(high) + 1) for wide, high in (np.ptp(own, axis=0) for _, own in parts)]
    for (part, own), corner in zip(parts, shelves(extents)[0], strict=True):
        places[part] = own - own.min(axis=0) + corner
    return places
