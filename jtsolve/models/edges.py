"""The edges of a decomposable graph: the cost of removing each, and its posterior."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.varset import varset
from jtsolve.errors import InputError
from jtsolve.models.learning.fit import count
from jtsolve.models.removals import removals
from jtsolve.tables.table import ContinuousTable, MixedTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree
    from jtsolve.tables.frames import FrameStyle
    from jtsolve.tables.partitions import AnyTable

_ENDS = ("first", "second")


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
