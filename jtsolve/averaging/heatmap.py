"""The heat map of edge probabilities, drawn with matplotlib."""

from __future__ import annotations

import io
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jtsolve.core.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.averaging.posterior import GraphPosterior

_MOST_WITH_NUMBERS = 15
"""Variables up to which the cells hold their number."""
_DARK = 0.55
"""Probabilities above it are written in white."""


def draw_heat_map(posterior: GraphPosterior, path: Path, kind: Literal["svg", "png"]) -> None:
    """Writes the heat map to a file.

    Under one version of matplotlib, equal posteriors give identical SVG files.

    Raises:
        InputError: the file cannot be written.
    """
    import matplotlib as mpl

    figure = heat_map(posterior)
    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with mpl.rc_context({"svg.hashsalt": "jtsolve", "svg.fonttype": "none"}):
        figure.savefig(buffer, format=kind, metadata=metadata, dpi=150, bbox_inches="tight")
    write_atomically(path, buffer.getvalue())


def heat_map(posterior: GraphPosterior) -> Any:
    """Returns the heat map as a `matplotlib.figure.Figure`; rings mark the edges of the best tree."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle

    n = posterior.n
    order = seriation(posterior.edges)
    names = [posterior.names[v] for v in order]
    side = min(12.0, 1.5 + 0.45 * n)
    figure = Figure(figsize=(side + 0.8, side))
    axes = figure.add_subplot()
    shown = posterior.edges[np.ix_(order, order)].copy()
    np.fill_diagonal(shown, np.nan)
    image = axes.imshow(shown, cmap="Blues", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(n), names, rotation=90)
    axes.set_yticks(range(n), names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.7)
    bar.outline.set_visible(False)
    bar.set_label("probability of the edge")
    if n <= _MOST_WITH_NUMBERS:
        for i, j in combinations(range(n), 2):
            for row, column in ((i, j), (j, i)):
                p = shown[row, column]
                colour = "white" if p > _DARK else "black"
                axes.text(column, row, f"{p:.2f}", ha="center", va="center", color=colour, fontsize=7)
    if posterior.best is not None:
        place = {v: i for i, v in enumerate(order)}
        for u, v in posterior.best.graph_edges:
            for row, column in ((place[u], place[v]), (place[v], place[u])):
                axes.add_patch(Circle((column, row), 0.44, fill=False, edgecolor="tab:orange", linewidth=1.4))
    if not posterior.converged:
        axes.set_title("NOT CONVERGED", color="tab:red")
    return figure


def seriation(edges: NDArray[np.float64]) -> list[int]:
    """Returns the variables in an order that puts likely neighbours side by side.

    They are sorted by the eigenvector of the second smallest eigenvalue of the Laplacian, within each of the
    components of the edges that are not negligible (Atkins, Boman, Hendrickson: A spectral algorithm for
    seriation and the consecutive ones problem, SIAM J. Comput. 28, 1998).
    """
    n = len(edges)
    near = np.where(edges > 1e-6, edges, 0.0)  # noqa: PLR2004 - negligible
    left = set(range(n))
    order: list[int] = []
    while left:
        part, stack = set(), [min(left)]
        while stack:
            v = stack.pop()
            if v not in part:
                part.add(v)
                stack += np.flatnonzero(near[v]).tolist()
        own = sorted(part)
        weights = near[np.ix_(own, own)]
        _, vectors = np.linalg.eigh(np.diag(weights.sum(axis=0)) - weights)
        along = np.round(vectors[:, min(1, len(own) - 1)], 9)
        first = next((x for x in along.tolist() if x), 1.0)  # an eigenvector has either sign
        order += [own[i] for i in np.argsort(along * (1 if first > 0 else -1), kind="stable")]
        left -= part
    return order
