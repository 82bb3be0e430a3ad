"""Drawings of the chordal graph: variables as nodes, an edge between two that share a clique.

Components are placed by `stress` and packed side by side; overlapping nodes push each other apart, and edges
bend round nodes in their way. Isolated variables are listed below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.draw import fonts
from jtsolve.draw.layout import LINE, NAME_POINTS, SEPARATOR_POINTS, ZOOMABLE
from jtsolve.draw.packing import isolated_lines, shelves
from jtsolve.draw.stress import FEW, component_places
from jtsolve.draw.text import quoted_name
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_PADDING = 0.08
_HEIGHT = NAME_POINTS * LINE / 72 + 2 * _PADDING
_BETWEEN = 0.18
"""Least space between two nodes."""
_PUSHES = 500
"""Rounds of pushing nodes apart; more rounds save little space for 400 nodes."""
_PUSH = 0.7
"""Share of an overlap that a round removes: below 1, chains of overlaps converge instead of oscillating."""
_ROOM = 4.0
"""Area of a component before nodes push each other, relative to the area of its nodes."""
_BENDS = (0.0, 0.3, -0.3, 0.6, -0.6, 1.0, -1.0, 1.6, -1.6)
"""Offsets of the middle of an edge that are tried, in inches."""
_CLEAR = 0.03
"""Least distance of an edge from a node that it passes."""
_STEPS = np.linspace(0.0, 1.0, 65)
"""Positions on an edge that are tested."""


@dataclass(frozen=True, slots=True)
class Route:
    """The course of an edge: a quadratic Bézier curve.

    Attributes:
        points: start, control point and end, shape (3, 2).
        behind: whether it still passes behind a node.
    """

    points: NDArray[np.float64]
    behind: bool

    def at(self, share: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Returns points by their share of the course, shape (..., 2)."""
        t = np.asarray(share)[..., None]
        start, control, end = self.points
        return np.asarray((1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end)


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Placed nodes; lengths in inches, y grows downwards.

    Attributes:
        drawn: variables with edges.
        labels: by variable.
        centres: shape (n, 2).
        sizes: width and height of each node, shape (n, 2).
        edges: pairs of variables.
        routes: of the edges.
        extent: width and height.
        remarks: lines to print below.
    """

    drawn: tuple[int, ...]
    labels: tuple[str, ...]
    centres: NDArray[np.float64]
    sizes: NDArray[np.float64]
    edges: tuple[tuple[int, int], ...]
    routes: tuple[Route, ...]
    extent: tuple[float, float]
    remarks: tuple[str, ...]


def arrange_edges(edges: Sequence[tuple[int, int]], names: Sequence[str]) -> GraphLayout:
    """Returns the layout of a graph over the names.

    Raises:
        ChoiceError: there are more than 400 variables with edges.
    """
    drawn = tuple(sorted({v for edge in edges for v in edge}))
    if len(drawn) > FEW:
        raise ChoiceError(
            f"a picture of {len(drawn)} variables would be unreadable (the limit is {FEW}); {ZOOMABLE}"
        )
    n = len(names)
    labels = tuple(quoted_name(fonts.printable_name(name)) for name in names)
    sizes = np.array([[fonts.width(label, NAME_POINTS) + 2 * _PADDING, _HEIGHT] for label in labels])
    centres = np.zeros((n, 2))
    parts = component_places(edges, n)
    extents: list[tuple[float, float]] = []
    for part, places in parts:
        placed = _spread(places, sizes[part])
        low = (placed - sizes[part] / 2).min(axis=0)
        centres[part] = placed - low
        wide, high = (placed + sizes[part] / 2).max(axis=0) - low
        extents.append((float(wide), float(high)))
    corners, extent = shelves(extents)
    for (part, _), corner in zip(parts, corners, strict=True):
        centres[part] += corner
    alone = [name for v, name in enumerate(names) if v not in drawn]
    remarks = (*isolated_lines(alone, extent[0], SEPARATOR_POINTS), *fonts.remarks(names))
    ordered = tuple(sorted(edges))
    routes = tuple(_route(centres, sizes, edge, drawn) for edge in ordered)
    return GraphLayout(drawn, labels, centres, sizes, ordered, routes, extent, remarks)


def _route(
    centres: NDArray[np.float64], sizes: NDArray[np.float64], edge: tuple[int, int], drawn: Sequence[int]
) -> Route:
    """Returns the least bent course of an edge that passes no other node, or the fewest nodes."""
    start, end = centres[list(edge)]
    others = np.array([v for v in drawn if v not in edge], dtype=np.intp)
    low, high = np.minimum(start, end) - max(_BENDS), np.maximum(start, end) + max(_BENDS)
    near = others[((centres[others] > low) & (centres[others] < high)).all(axis=1)]
    half = sizes[near] / 2 + _CLEAR
    across = np.array([start[1] - end[1], end[0] - start[0]]) / max(1e-9, float(np.hypot(*(end - start))))
    best, fewest = None, len(drawn)
    for bend in _BENDS:
        route = Route(np.array([start, (start + end) / 2 + 2 * bend * across, end]), behind=False)
        inside = (np.abs(route.at(_STEPS)[:, None] - centres[near]) < half).all(axis=2)
        passed = int(inside.any(axis=0).sum())
        if passed == 0:
            return route
        if passed < fewest:
            best, fewest = replace(route, behind=True), passed
    assert best is not None, "no edge passes all nodes"
    return best


def _spread(places: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns places without overlaps of nodes, shape (m, 2).

    Overlapping nodes push each other apart along the axis of the smaller overlap; scaling removes the
    overlaps that remain after the last round.
    """
    first, second = np.triu_indices(len(places), 1)
    if not len(first):
        return places
    needed = (sizes[first] + sizes[second]) / 2 + _BETWEEN
    area = (sizes + _BETWEEN).prod(axis=1).sum()
    span = np.maximum(np.ptp(places, axis=0), 1e-3)  # points on one line span no area
    places = places * np.sqrt(_ROOM * area / span.prod())
    for _ in range(_PUSHES):
        steps = places[first] - places[second]
        overlaps = needed - np.abs(steps)
        pairs = np.flatnonzero((overlaps > 0).all(axis=1))
        if not len(pairs):
            break
        axis = overlaps[pairs].argmin(axis=1)
        push = np.where(steps[pairs, axis] < 0, -1, 1) * (overlaps[pairs, axis] / 2 + 1e-6) * _PUSH
        np.add.at(places, (first[pairs], axis), push)
        np.add.at(places, (second[pairs], axis), -push)
    apart = np.abs(places[first] - places[second])
    with np.errstate(divide="ignore"):
        scale = max(1.0, (needed / apart).min(axis=1).max())
    return np.asarray(places * scale)
