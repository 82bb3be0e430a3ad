"""Graphs of any size as one page of HTML that zooms, needs no other file, and finds variables by name.

Places are by stress majorisation as in `graph`. For large components, the stress is sparse: of edges, of
distances to pivots, and of pairs with a common neighbour, which would coincide otherwise.

References:
    M. Ortmann, M. Klimenta, U. Brandes, A sparse stress model, Journal of Graph Algorithms and Applications
    21, 2017.
    U. Brandes, C. Pich, Eigensolver methods for progressive multidimensional scaling of large data, Graph
    Drawing 2006 (the places to begin with).
"""

from __future__ import annotations

import json
import math
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.draw.colours import NEGATIVE, POSITIVE, group_fill
from jtsolve.draw.graph import least_stress, turned
from jtsolve.draw.packing import shelves
from jtsolve.errors import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_STEP = 90
"""Length of an edge in pixels, before zooming."""
_EXACT = 300
"""Variables of a component up to which all distances count."""
_PIVOTS = 50
_PAIRS = 6
"""Pairs with a common neighbour, for each variable and side."""
_MOST_ROUNDS, _MOVES = 200, 1_000_000
"""Most rounds, and most moves of variables in them: some seconds."""


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
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components, dijkstra

    ends = np.array(edges, dtype=np.intp).reshape(-1, 2)
    ones = np.ones(2 * len(ends))
    both = np.concatenate([ends, ends[:, ::-1]])
    graph = coo_matrix((ones, (both[:, 0], both[:, 1])), shape=(n, n)).tocsr()
    _, part_of = connected_components(graph, directed=False)
    order = np.argsort(part_of, kind="stable")
    parts = [part for part in np.split(order, np.flatnonzero(np.diff(part_of[order])) + 1) if len(part) > 1]
    parts.sort(key=lambda part: -len(part))
    places, extents = np.zeros((n, 2)), []
    for part in parts:
        own = graph[part][:, part]
        if len(part) <= _EXACT:
            found = least_stress(dijkstra(own, unweighted=True))
        else:
            found = _least_sparse_stress(own)
        found = turned(found)
        found -= found.min(axis=0)
        places[part] = found
        extents.append((float(np.ptp(found[:, 0])), float(np.ptp(found[:, 1]))))
    corners, _ = shelves([(wide + 1, high + 1) for wide, high in extents])
    for part, corner in zip(parts, corners, strict=True):
        places[part] += corner
    return places


def _least_sparse_stress(graph: Any) -> NDArray[np.float64]:
    """Returns places of a connected graph, given as a sparse matrix, whose distances approximate its own."""
    from scipy.sparse.csgraph import dijkstra

    n, rng = graph.shape[0], np.random.default_rng(0)
    pivots, distances = [int(np.diff(graph.indptr).argmax())], []
    for _ in range(_PIVOTS):  # each farthest from those before
        distances.append(dijkstra(graph, unweighted=True, indices=pivots[-1]))
        pivots.append(int(np.min(distances, axis=0).argmax()))
    to_pivots = np.minimum(np.array(distances).T, 1 + math.sqrt(n))
    squares = to_pivots**2
    inner = squares.mean(axis=0) + squares.mean(axis=1)[:, None] - squares - squares.mean()
    _, vectors = np.linalg.eigh(inner.T @ inner)
    places = inner @ vectors[:, -2:]
    places *= squares.mean() ** 0.5 / max(1e-9, float(np.sqrt((places**2).sum(axis=1).mean())))
    places += 0.3 * rng.normal(size=places.shape)

    first, second, ideal = _terms(graph, pivots[:-1], to_pivots, rng)
    weights = ideal**-2.0
    total = np.bincount(first, weights, n)
    for _ in range(min(_MOST_ROUNDS, _MOVES // n + 1)):
        steps = places[first] - places[second]
        lengths = np.maximum(np.hypot(*steps.T), 1e-9)
        aims = places[second] + steps * (ideal / lengths)[:, None]
        sums = [np.bincount(first, weights * aims[:, axis], n) for axis in range(2)]
        places = (places + np.array(sums).T / total[:, None]) / 2  # half a step: all move at once
    return np.asarray(places)


def _terms(
    graph: Any, pivots: Sequence[int], to_pivots: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Returns pairs of vertices, the first to move, and their distances."""
    n = graph.shape[0]
    source = graph.tocoo()
    near = np.repeat(np.arange(n), _PAIRS)
    degree = np.diff(graph.indptr)

    def neighbour(of: NDArray[np.intp]) -> NDArray[np.intp]:
        return np.asarray(graph.indices[graph.indptr[of] + rng.integers(0, degree[of])], dtype=np.intp)

    far = neighbour(neighbour(near))
    adjacent = np.isin(near * n + far, source.row.astype(np.int64) * n + source.col)
    apart = (near != far) & ~adjacent
    near, far = near[apart], far[apart]
    every, whose = np.repeat(np.arange(n), len(pivots)), np.tile(np.array(pivots), n)
    known = to_pivots.ravel()
    kept = known > 0
    first = np.concatenate([source.row, near, far, every[kept]])
    second = np.concatenate([source.col, far, near, whose[kept]])
    twos = np.full(2 * len(near), 2.0)
    return first, second, np.concatenate([np.ones(len(source.row)), twos, known[kept]])
