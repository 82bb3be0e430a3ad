"""Drawings of the chordal graph: variables as nodes, an edge between two that share a clique.

Distances on the page approximate those in the graph (stress majorisation), component by component; then
nodes that overlap push each other apart.

Reference:
    E. R. Gansner, Y. Koren, S. North, Graph drawing by stress majorization, Graph Drawing 2004.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.draw import fonts
from jtsolve.draw.text import quoted_name
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree

POINTS = 9.0
PADDING = 0.08
_HEIGHT = POINTS * 1.35 / 72 + 2 * PADDING
_BETWEEN = 0.18
"""Least space between two nodes."""
_COMPONENTS = 0.4
"""Space between components."""
_ASPECT = 1.5
_LARGEST = 400
"""Most variables in a drawing: beyond, nobody can read it."""
_ROUNDS = 150
_PUSHES = 500
"""Rounds of pushing nodes apart; more gain little room for 400 nodes."""
_PUSH = 0.7
"""Share of an overlap that a round removes: chains of overlaps settle instead of swinging."""
_ROOM = 4.0
"""Area of a component before nodes push each other, in units of that of its nodes."""


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Placed nodes; lengths in inches, y grows downwards.

    Attributes:
        labels: by variable.
        centres: shape (n, 2).
        sizes: width and height of each node, shape (n, 2).
        edges: pairs of variables.
        extent: width and height.
        remarks: lines to print below.
    """

    labels: tuple[str, ...]
    centres: NDArray[np.float64]
    sizes: NDArray[np.float64]
    edges: tuple[tuple[int, int], ...]
    extent: tuple[float, float]
    remarks: tuple[str, ...]


def arrange_graph(tree: JunctionTree, names: Sequence[str]) -> GraphLayout:
    """Returns the layout of the tree's chordal graph.

    Raises:
        ChoiceError: there are more than 400 variables.
    """
    if tree.n > _LARGEST:
        raise ChoiceError(
            f"a picture of {tree.n} variables would be unreadable (the limit is {_LARGEST}); draw the tree "
            "without --graph, or open the output of --graph --dot in a viewer that zooms"
        )
    return arrange_edges(tree.graph_edges, names)


def arrange_edges(edges: Sequence[tuple[int, int]], names: Sequence[str]) -> GraphLayout:
    """Returns the layout of a graph over the names.

    Raises:
        ChoiceError: there are more than 400 variables.
    """
    n = len(names)
    if n > _LARGEST:
        raise ChoiceError(
            f"a picture of {n} variables would be unreadable (the limit is {_LARGEST}); open the output of "
            "--dot in a viewer that zooms"
        )
    import networkx as nx

    labels = tuple(quoted_name(fonts.shown(name)) for name in names)
    sizes = np.array([[fonts.width(label, POINTS) + 2 * PADDING, _HEIGHT] for label in labels])
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges)
    centres = np.zeros((n, 2))
    parts = [sorted(part) for part in nx.connected_components(graph)]
    extents = []
    for part in parts:
        rows = dict(nx.all_pairs_shortest_path_length(graph.subgraph(part)))
        distances = np.array([[rows[u][v] for v in part] for u in part], dtype=np.float64)
        placed = _spread(_turned(_least_stress(distances)), sizes[part])
        low = (placed - sizes[part] / 2).min(axis=0)
        centres[part] = placed - low
        extents.append((placed + sizes[part] / 2).max(axis=0) - low)
    extent = _pack(parts, extents, centres)
    return GraphLayout(labels, centres, sizes, tuple(sorted(edges)), extent, fonts.remarks(names))


def _least_stress(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns places whose distances are near those given, weighted by d^-2, from classical scaling."""
    n = len(distances)
    if n == 1:
        return np.zeros((1, 2))
    # Beyond this, distances count as equal: long chains may curl rather than run off the page.
    distances = np.minimum(distances, 1.0 + math.sqrt(n))
    squares = distances**2
    inner = -(squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()) / 2
    values, vectors = np.linalg.eigh(inner)
    places = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-3))
    # Twins, which have the same neighbours, would stay together.
    places = places + 0.05 * np.random.default_rng(0).normal(size=places.shape)
    weights = 1 / np.where(squares > 0, squares, np.inf)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    for _ in range(_ROUNDS):
        steps = places[:, None] - places[None]
        lengths = np.sqrt((steps**2).sum(axis=2))
        ratio = np.where(lengths > 0, weights * distances / np.maximum(lengths, 1e-9), 0.0)
        places = inverse @ (ratio.sum(axis=1)[:, None] * places - ratio @ places)
    return np.asarray(places)


def _turned(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the places turned so that they are widest from left to right."""
    centred = places - places.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ axes.T) if len(places) > 1 else centred


def _spread(places: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns places at which no two nodes overlap.

    Nodes that overlap push each other apart along the axis on which less is needed; overlaps left after the
    last round go by scaling.
    """
    first, second = np.triu_indices(len(places), 1)
    if not len(first):
        return places
    needed = (sizes[first] + sizes[second]) / 2 + _BETWEEN
    area = (sizes + _BETWEEN).prod(axis=1).sum()
    span = np.maximum(np.ptp(places, axis=0), 1e-3)  # all on one line have no area
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


def _pack(
    parts: Sequence[Sequence[int]], extents: Sequence[NDArray[np.float64]], centres: NDArray[np.float64]
) -> tuple[float, float]:
    """Moves the components, largest first, into rows; returns the extent of all."""
    area = sum(float((wide + _COMPONENTS) * (high + _COMPONENTS)) for wide, high in extents)
    width = max(math.sqrt(_ASPECT * area), *(float(wide) for wide, _ in extents), 0.0)
    x = y = height = right = 0.0
    for k in sorted(range(len(parts)), key=lambda k: (-len(parts[k]), k)):
        wide, high = map(float, extents[k])
        if x and x + wide > width:
            x, y, height = 0.0, y + height + _COMPONENTS, 0.0
        centres[parts[k]] += (x, y)
        right, height = max(right, x + wide), max(height, high)
        x += wide + _COMPONENTS
    return right, y + height
