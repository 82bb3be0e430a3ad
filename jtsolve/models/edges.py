r"""The edges of a decomposable graph: the test of each against its absence, its cost, and its posterior.

The graph stays decomposable without an edge if and only if the edge lies in exactly one clique. Without the
edge uv of the clique C, u and v are independent given S = C \ {u, v}:
G² = 2 Σ n(C) ln(n(C) n(S) / (n(S, u) n(S, v))), on Σ (r - 1)(c - 1) degrees of freedom, summed over the
strata of S, where r and c are the numbers of states of u and v that occur in the stratum; see `goodness` on
empty cells.

Reference:
    S. L. Lauritzen, Graphical Models, Oxford 1996, lemma 2.19 and section 4.4.
"""

from __future__ import annotations

from math import log, nan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.varset import varset
from jtsolve.errors import InputError
from jtsolve.models.layout import table_layout
from jtsolve.models.learning.fit import count
from jtsolve.tables.table import ContinuousTable, MixedTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.learning.fit import Counts
    from jtsolve.tables.frames import FrameStyle
    from jtsolve.tables.partitions import AnyTable

_ENDS = ("first", "second")
_MOST = 1 << 53
"""Degrees of freedom above which scipy's function fails; no statistic is significant there."""


class Removal(NamedTuple):
    """The test of an edge against its absence.

    Attributes:
        edge: the positions u < v of its variables.
        cliques: the number of cliques that contain it; the other figures are None unless it is 1.
        g2: the deviance of the removal.
        df: its degrees of freedom.
        p: P(chi-squared ≥ g2).
        delta_bic: the BIC without the edge minus that with it: positive if it supports the edge.
    """

    edge: tuple[int, int]
    cliques: int
    g2: float | None = None
    df: int | None = None
    p: float | None = None
    delta_bic: float | None = None


def removals(counts: Counts) -> list[Removal]:
    """Returns the test of each edge, in increasing order."""
    tree = counts.tree
    layout = table_layout(tree, tuple(column.arity for column in counts.columns))
    inside: dict[tuple[int, int], list[int]] = {edge: [] for edge in tree.graph_edges}
    for place, clique in enumerate(layout.cliques):
        for a, u in enumerate(clique):
            for v in clique[a + 1 :]:
                inside[u, v].append(place)
    found = []
    for edge, places in inside.items():
        if len(places) > 1:
            found.append(Removal(edge, len(places)))
            continue
        clique = layout.cliques[places[0]]
        table = layout.table(counts.cells, places[0])
        found.append(
            _removal(edge, np.moveaxis(table, [clique.index(v) for v in edge], [0, 1]), counts.total)
        )
    return found


def _removal(edge: tuple[int, int], table: NDArray[np.float64], total: float) -> Removal:
    """Returns the test of the first two axes given the others."""
    cells = table.reshape(*table.shape[:2], -1)
    rows, columns, strata = cells.sum(1, keepdims=True), cells.sum(0, keepdims=True), cells.sum((0, 1))
    present = cells > 0
    # The ratio of whole products: fractions of unit counts would round.
    ratio = np.divide(cells * strata, rows * columns, out=np.ones_like(cells), where=present)
    g2 = max(0.0, 2 * float(cells[present] @ np.log(ratio[present])))
    free = np.clip(np.count_nonzero(rows, 0) - 1, 0, None) * np.clip(
        np.count_nonzero(columns, 1) - 1, 0, None
    )
    nominal = (cells.shape[0] - 1) * (cells.shape[1] - 1) * cells.shape[2]
    df = int(free.sum())
    return Removal(edge, 1, g2, df, chi_squared_tail(g2, df), g2 - nominal * log(total))


def chi_squared_tail(statistic: float, df: int) -> float:
    """Returns P(chi-squared ≥ statistic); 1 without degrees of freedom."""
    from scipy.special import chdtrc

    return float(chdtrc(float(min(df, _MOST)), statistic)) if df > 0 else 1.0


def edge_frame(
    tree: JunctionTree,
    names: Sequence[str],
    style: FrameStyle,
    *,
    problem: Problem | None = None,
    table: AnyTable | None = None,
    posterior: Any = None,
) -> Any:
    """Returns the edges as a frame; see `Solution.edges`.

    Args:
        tree: with the edges.
        names: of the variables.
        style: of the frame.
        problem: its scores, over the variables in their order; None if they are not known.
        table: the data, over the variables in their order; None if they are not known.
        posterior: of graphs, with the probabilities of edges; None if they are not known.

    Raises:
        InputError: the posterior is over other variables.
    """
    edges = tree.graph_edges
    homes = [[clique for clique in tree.cliques if clique >> u & clique >> v & 1] for u, v in edges]
    columns: dict[str, list[float]] = {}
    if problem is not None:
        score = problem.scores.score
        columns["score_loss"] = [
            score(own[0]) + score(own[0] & ~pair) - score(own[0] & ~(1 << u)) - score(own[0] & ~(1 << v))
            if len(own) == 1
            else nan
            for (u, v), own in zip(edges, homes, strict=True)
            for pair in [varset((u, v))]
        ]
    if table is not None and not isinstance(table, ContinuousTable | MixedTable):
        tests = removals(count(tree, table))
        for name in ("delta_bic", "g2", "df", "p"):
            columns[name] = [nan if (figure := getattr(one, name)) is None else figure for one in tests]
    if posterior is not None:
        if set(posterior.names) != set(names):
            raise InputError("posterior", "", "it is over other variables", "average the same problem")
        place = [posterior.names.index(name) for name in names]
        columns["posterior"] = [float(posterior.edges[place[u], place[v]]) for u, v in edges]
    ends = [style.variables([names[edge[k]] for edge in edges]).rename(end) for k, end in enumerate(_ENDS)]
    removable = style.numbers("removable", np.array([len(own) == 1 for own in homes], dtype=bool))
    figures = (style.numbers(name, np.array(values, dtype=np.float64)) for name, values in columns.items())
    return style.frame([*ends, removable, *figures])
