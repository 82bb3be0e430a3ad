"""Places for the vertices of a graph whose distances approximate those in the graph: sparse stress.

The stress has a term (|x_u − x_v| − d)² / d² for each edge, for each pair of a vertex and a pivot, and for
some pairs with a common neighbour, which would coincide otherwise. In small components, every vertex is a
pivot.

References:
    M. Ortmann, M. Klimenta, U. Brandes, A sparse stress model, Journal of Graph Algorithms and Applications
    21, 2017.
    U. Brandes, C. Pich, Eigensolver methods for progressive multidimensional scaling of large data, Graph
    Drawing 2006 (the initial places).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

FEW = 400
"""Vertices of a component up to which all of them are pivots."""
_PIVOTS = 50
"""Pivots of larger components."""
_PAIRS = 6
"""Pairs with a common neighbour, for each vertex and side."""
_MOST_ROUNDS, _MOVES = 200, 1_000_000
"""Limits on rounds, and on the moves of vertices in them: some seconds."""


def component_places(
    edges: Sequence[tuple[int, int]], n: int
) -> list[tuple[NDArray[np.intp], NDArray[np.float64]]]:
    """Returns the vertices of each component with edges, the largest first, and their places.

    Args:
        edges: pairs of vertices.
        n: the number of vertices.

    Returns:
        Vertices, increasing, shape (m,), and places in units of an edge, shape (m, 2), which extend mainly
        from left to right.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    ends = np.array(edges, dtype=np.intp).reshape(-1, 2)
    both = np.concatenate([ends, ends[:, ::-1]])
    graph = coo_matrix((np.ones(len(both)), both.T), shape=(n, n)).tocsr()
    _, part_of = connected_components(graph, directed=False)
    order = np.argsort(part_of, kind="stable")
    parts = [part for part in np.split(order, np.flatnonzero(np.diff(part_of[order])) + 1) if len(part) > 1]
    found = []
    for part in sorted(parts, key=lambda part: -len(part)):
        places = _least_stress(graph[part][:, part])
        centred = places - places.mean(axis=0)
        _, _, axes = np.linalg.svd(centred, full_matrices=False)
        found.append((part, np.asarray(centred @ axes.T)))
    return found


def _least_stress(graph: Any) -> NDArray[np.float64]:
    """Returns places for the vertices of a connected graph, a sparse matrix, shape (n, 2)."""
    from scipy.sparse.csgraph import dijkstra

    n, rng = graph.shape[0], np.random.default_rng(0)
    pivots, distances = [int(np.diff(graph.indptr).argmax())], []
    nearest = np.full(n, np.inf)
    for _ in range(n if n <= FEW else _PIVOTS):  # each is farthest from the earlier ones
        distances.append(dijkstra(graph, unweighted=True, indices=pivots[-1]))
        nearest = np.minimum(nearest, distances[-1])
        pivots.append(int(nearest.argmax()))
    # Beyond the limit, distances count as equal: long chains may curl rather than run off the page.
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
        places = (places + np.array(sums).T / total[:, None]) / 2  # half a step, since all move at once
    return np.asarray(places)


def _terms(
    graph: Any, pivots: Sequence[int], to_pivots: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Returns the terms of the stress: a vertex to move, another vertex, and their distance; shape (m,)."""
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
