"""Pictures of a posterior, drawn with matplotlib: heat map, graph, bars of cliques, traces of chains."""

from __future__ import annotations

import io
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.draw import fonts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    Pair = tuple[int, int]

_MOST_WITH_NUMBERS = 15
"""Variables up to which the cells of a heat map hold their number."""
_DARK = 0.55
"""Probabilities above it are written in white."""
_LEAST_DRAWN = 0.05
"""Edges less probable are left out of the graph."""
_WIDE = 0.01
"""Wider intervals of probabilities are shown as intervals."""
_MOST_BARS = 20
_LONGEST = 48
"""Characters of a name beside a bar."""
_BEST = "tab:orange"
_OTHER = "#3d6ea8"


def render(figure: Any, kind: str) -> bytes:
    """Returns the bytes of a picture; under one version of matplotlib, equal figures give equal SVG."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with mpl.rc_context({"svg.hashsalt": "jtsolve", "svg.fonttype": "none"}):
        figure.savefig(buffer, format=kind, metadata=metadata, dpi=150, bbox_inches="tight")
    return buffer.getvalue()


class Pairs(NamedTuple):
    """The edges of a posterior.

    Attributes:
        names: of the variables.
        edges: shape (n, n): the probability of each edge.
        best: the edges of the best tree.
        title: a warning, or "".
        widths: shape (n, n): of the interval of each edge.
    """

    names: Sequence[str]
    edges: NDArray[np.float64]
    best: Collection[Pair]
    title: str
    widths: NDArray[np.float64]


def heat_map(pairs: Pairs) -> Any:
    """Returns the heat map as a `matplotlib.figure.Figure`.

    Variables are in the order of `seriation`; edges of the best tree are ringed, wide intervals hatched.
    """
    from matplotlib.patches import Circle, Rectangle

    names, edges, best, title, widths = pairs
    n = len(names)
    order = seriation(edges)
    side = min(12.0, 1.5 + 0.45 * n)
    axes = _axes(side + 0.8, side, title)
    shown = edges[np.ix_(order, order)].copy()
    np.fill_diagonal(shown, np.nan)
    image = axes.imshow(shown, cmap="Blues", vmin=0.0, vmax=1.0)
    labels = [fonts.printable_name(names[v]) for v in order]
    axes.set_xticks(range(n), labels, rotation=90, family=fonts.FAMILY, parse_math=False)
    axes.set_yticks(range(n), labels, family=fonts.FAMILY, parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.7)
    bar.outline.set_visible(False)
    bar.set_label("probability of the edge")
    if n <= _MOST_WITH_NUMBERS:
        for i, j in combinations(range(n), 2):
            for row, column in ((i, j), (j, i)):
                p = shown[row, column]
                colour = "white" if p > _DARK else "black"
                axes.text(column, row, f"{p:.2f}", ha="center", va="center", color=colour, fontsize=7)
    for row, column in np.argwhere(widths[np.ix_(order, order)] > _WIDE).tolist():
        corner = (column - 0.5, row - 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, hatch="///", edgecolor="grey", linewidth=0))
    place = {v: i for i, v in enumerate(order)}
    for u, v in best:
        for row, column in ((place[u], place[v]), (place[v], place[u])):
            axes.add_patch(Circle((column, row), 0.44, fill=False, edgecolor=_BEST, linewidth=1.4))
    return axes.figure


def graph(pairs: Pairs) -> Any:
    """Returns the graph as a `matplotlib.figure.Figure`: an edge is as wide as it is probable.

    Likely neighbours are put near each other (T. Kamada and S. Kawai, An algorithm for drawing general
    undirected graphs, Information Processing Letters 31, 1989). The edges of the best tree have a colour of
    their own; those that are not probable are dotted, those with a wide interval dashed.
    """
    import networkx as nx
    from matplotlib.patches import FancyArrowPatch

    names, edges, best, title, widths = pairs
    n = len(names)
    whole = nx.complete_graph(n)
    distances = {u: {v: 0.0 if u == v else 1.0 / (0.3 + edges[u, v]) for v in whole} for u in whole}
    places = nx.kamada_kawai_layout(whole, dist=distances) if n > 1 else {0: np.zeros(2)}
    side = min(16.0, 2.5 + 1.1 * n**0.5)
    axes = _axes(1.3 * side, side, title)
    axes.set_axis_off()
    low, high = (bound(list(places.values()), axis=0) for bound in (np.min, np.max))
    room = 0.12 * (high - low).max() + 0.1
    axes.set_xlim(low[0] - room, high[0] + room)
    axes.set_ylim(low[1] - room, high[1] + room)
    for u, v in sorted(combinations(range(n), 2), key=lambda pair: float(edges[pair])):
        p, chosen = float(edges[u, v]), (u, v) in best
        if p >= _LEAST_DRAWN or chosen:
            ends = [(float(places[w][0]), float(places[w][1])) for w in (u, v)]
            axes.add_patch(
                FancyArrowPatch(
                    ends[0],
                    ends[1],
                    arrowstyle="-",
                    connectionstyle="arc3,rad=0.12",  # straight edges hide each other
                    linestyle="--" if widths[u, v] > _WIDE else "-" if p >= _LEAST_DRAWN else ":",
                    linewidth=max(0.8, 6.0 * p),
                    color=_BEST if chosen else _OTHER,
                    alpha=0.3 + 0.7 * p,
                    zorder=1,
                )
            )
    box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": _OTHER}
    for v, name in enumerate(names):
        axes.text(
            *places[v],
            fonts.printable_name(name),
            ha="center",
            va="center",
            fontsize=9,
            bbox=box,
            family=fonts.FAMILY,
            parse_math=False,
            zorder=2,
        )
    _legend(axes, "width: probability")
    return axes.figure


def clique_bars(
    cliques: Sequence[tuple[Sequence[str], float]], best: Iterable[Sequence[str]], title: str
) -> Any:
    """Returns bars of the likeliest cliques as a `matplotlib.figure.Figure`.

    Args:
        cliques: names and probabilities, in decreasing order.
        best: the cliques of the best tree, drawn in a separate colour.
        title: a warning, or "".
    """
    shown = cliques[:_MOST_BARS]
    labels = [_short(", ".join(members)) for members, _ in shown]
    axes = _axes(7.0, 1.0 + 0.3 * len(shown), title)
    chosen = set(map(tuple, best))
    colours = [_BEST if tuple(members) in chosen else _OTHER for members, _ in shown]
    axes.barh(range(len(shown)), [p for _, p in shown], color=colours, height=0.7)
    axes.set_yticks(
        range(len(shown)), list(map(fonts.printable_name, labels)), family=fonts.FAMILY, parse_math=False
    )
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("probability of the maximal clique")
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    _legend(axes, "cliques")
    return axes.figure


def traces(
    rounds: Sequence[int],
    lines: Mapping[str, Sequence[Sequence[float]]],
    differences: Sequence[tuple[str, float]],
    most: float,
    title: str,
) -> Any:
    """Returns the traces of chains as a `matplotlib.figure.Figure`.

    Args:
        rounds: the rounds of the traces.
        lines: by traced quantity, a line for each chain.
        differences: names of pairs of variables, and by how much their probabilities differ between chains.
        most: by how much they may.
        title: a warning, or "".
    """
    from matplotlib.figure import Figure

    shown = sorted(differences, key=lambda pair: -pair[1])[:_MOST_BARS]
    figure = Figure(figsize=(8.0, 2.0 * len(lines) + 1.2 + 0.22 * len(shown)), layout="constrained")
    rows = [2.0] * len(lines) + [1.2 + 0.22 * len(shown)]
    panels = figure.subplots(len(rows), 1, height_ratios=rows, squeeze=False)[:, 0]
    for axes, (heading, chains) in zip(panels, lines.items(), strict=False):
        for k, values in enumerate(chains, start=1):
            axes.plot(rounds, values, linewidth=0.7, alpha=0.8, label=f"chain {k}")
        axes.set_ylabel(heading)
        axes.spines[["top", "right"]].set_visible(False)
    panels[-2].set_xlabel("round")
    panels[0].legend(loc="lower right", ncols=4, fontsize=7, frameon=False)
    axes = panels[-1]
    axes.barh(range(len(shown)), [value for _, value in shown], color=_OTHER, height=0.7)
    labels = [fonts.printable_name(_short(name)) for name, _ in shown]
    axes.set_yticks(range(len(shown)), labels, fontsize=7, family=fonts.FAMILY, parse_math=False)
    axes.invert_yaxis()
    axes.axvline(most, color=_BEST, linewidth=1.2)
    axes.set_xlabel(
        "largest difference of an edge's probability between two chains; the line: the most allowed"
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, color="tab:red")
    return figure


def size_figure(
    sizes: NDArray[np.int64], probabilities: NDArray[np.float64], interval: tuple[int, int]
) -> Any:
    """Returns the posterior of a population's size, its interval shaded, as a `matplotlib.figure.Figure`.

    Args:
        sizes: shape (m,), increasing.
        probabilities: shape (m,).
        interval: the credible interval.
    """
    axes = _axes(7.0, 3.5, "")
    within = (sizes >= interval[0]) & (sizes <= interval[1])
    axes.fill_between(sizes[within], probabilities[within], color=_OTHER, alpha=0.3, linewidth=0)
    axes.plot(sizes, probabilities, color=_OTHER)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("size of the population; shaded: 95 %")
    axes.set_ylabel("posterior probability")
    axes.spines[["top", "right"]].set_visible(False)
    return axes.figure


def _axes(width: float, height: float, title: str) -> Any:
    """Returns the axes of a new figure; a warning is its title."""
    from matplotlib.figure import Figure

    axes = Figure(figsize=(width, height)).add_subplot()
    axes.set_title(title, color="tab:red")
    return axes


def _legend(axes: Any, title: str) -> None:
    from matplotlib.patches import Patch

    colours = {"in the best tree": _BEST, "in others only": _OTHER}
    handles = [Patch(color=colour, label=label) for label, colour in colours.items()]
    axes.legend(
        handles=handles, title=title, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def seriation(edges: NDArray[np.float64]) -> list[int]:
    """Returns the variables in an order that puts likely neighbours side by side.

    They are sorted by the eigenvector of the second smallest eigenvalue of the Laplacian, within each of the
    components of the edges that are not negligible (Atkins, Boman, Hendrickson: A spectral algorithm for
    seriation and the consecutive ones problem, SIAM J. Comput. 28, 1998).

    `edges` has shape (n, n): probabilities.
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
