"""The leaves of context trees: their rows, log-likelihoods on training and held-out rows, and pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import renumbered, varset
from jtsolve.models.features.validity import leaf_columns
from jtsolve.models.layout import subtree, table_layout
from jtsolve.models.learning.fit import cell_counts
from jtsolve.models.learning.validation import PRIORS
from jtsolve.models.messages import separator_sums
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.models.columns import Column
    from jtsolve.models.features.context import Context
    from jtsolve.models.layout import Layout
    from jtsolve.models.learning.fit import Counts
    from jtsolve.tables.table import Codes


def max_likelihood(counts: Counts) -> tuple[float, int]:
    """Returns the maximum log-likelihood of a junction tree, and its number of parameters."""
    layout = table_layout(counts.tree, tuple(column.arity for column in counts.columns))
    value = _entropy_sum(counts.cells) - _entropy_sum(_separators(counts.cells, layout))
    return value, layout.cells - layout.separator_cells


def held_out(counts: Counts, codes: Codes, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the log-likelihood of held-out, complete rows for each of `PRIORS`, shape (priors,).

    Args:
        counts: of the training rows.
        codes: of the held-out rows, shape (n, rows).
        weights: of these rows, shape (rows,).
    """
    layout = table_layout(counts.tree, tuple(column.arity for column in counts.columns))
    found = np.zeros(len(PRIORS))
    inside, outside = counts.cells, cell_counts(layout, codes, weights)
    for sign, offset in ((1, layout.offset), (-1, layout.inward.firsts)):
        if sign < 0:
            inside, outside = (_separators(cells, layout) for cells in (inside, outside))
        seen = outside > 0
        size = np.repeat(np.diff(offset), np.diff(offset))[seen]
        for k, ess in enumerate(PRIORS):
            logs = np.log((inside[seen] + ess / size) / (counts.total + ess))
            found[k] += sign * float(outside[seen] @ logs)
    return found


def _separators(cells: NDArray[np.float64], layout: Layout) -> NDArray[np.float64]:
    """Returns the counts of all separators side by side."""
    return np.concatenate([table.ravel() for table in separator_sums(cells, layout)])


def _entropy_sum(counts: NDArray[np.float64]) -> float:
    positive = counts[counts > 0]
    return float(positive @ np.log(positive))


def codes_in(codes: Codes, rows: NDArray[np.int64], columns: Sequence[Column], context: Context) -> Codes:
    """Returns rows of a context, coded by the states left to its open variables, shape (variables, m).

    Args:
        codes: shape (n, rows).
        rows: positions of the rows in the context, shape (m,).
        columns: of the table.
        context: the states left.
    """
    variables = sorted(context.domains)
    out = np.empty((len(variables), rows.size), dtype=codes.dtype)
    for k, v in enumerate(variables):
        out[k] = context.ranks(v, columns[v].arity)[codes[v, rows]]
    return out


def context_rows(
    table: DataTable, columns: Sequence[Column], context: Context, rows: NDArray[np.int64]
) -> DataTable:
    """Returns the rows of a context as a table of its open variables with the states left.

    Args:
        table: the data.
        columns: of the table.
        context: the states left.
        rows: positions of its rows, shape (m,).
    """
    own = leaf_columns(tuple(columns), tuple(sorted(context.domains)), context)
    weights = None if table.weights is None else table.weights[rows]
    names, states = tuple(column.name for column in own), tuple(column.states for column in own)
    return DataTable(names, states, codes_in(table.codes, rows, columns, context), weights)


def pieces(tree: JunctionTree) -> list[tuple[list[int], JunctionTree]]:
    """Returns the variables and the junction tree of each connected component; none if there is only one."""
    found: list[int] = []
    for clique in tree.cliques:
        apart = [component for component in found if not component & clique]
        for component in found:
            if component & clique:
                clique |= component  # noqa: PLW2901 - it absorbs the components that it meets
        found = [*apart, clique]
    if len(found) == 1:
        return []
    return [
        subtree(tree, [c for c, own in enumerate(tree.cliques) if own & component])
        for component in sorted(found, key=lambda component: component & -component)
    ]


def tree_on(tree: JunctionTree, variables: Sequence[int]) -> JunctionTree:
    """Returns the junction tree of the subgraph on some variables."""
    kept = varset(variables)
    place = {v: k for k, v in enumerate(variables)}
    nodes = [renumbered(clique & kept, place) for clique in tree.cliques]
    return JunctionTree.from_nodes(len(variables), nodes, tree.edges)
