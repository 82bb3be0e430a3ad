"""Fits conditional Gaussian models of a given tree: the estimates are those of `cells`."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.columns import variables_of
from jtsolve.models.learning.cells import estimated
from jtsolve.models.mixed import MixedTreeModel
from jtsolve.tables.table import ContinuousTable, MixedTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.scoring.scores.cg import ConditionalGaussian


def fit_mixed(
    tree: JunctionTree,
    table: ContinuousTable | MixedTable,
    *,
    ess: float = 1.0,
    score: ConditionalGaussian | None = None,
    run: Run | None = None,
    weights: NDArray[np.float64] | None = None,
) -> MixedTreeModel:
    """Returns the conditional Gaussian model of a tree fitted to a table; by EM if the table has gaps.

    Args:
        tree: over the columns of the table, in their order; its graph is strongly decomposable.
        table: the data.
        ess: equivalent sample size of the prior of the probabilities, and of covariances without discrete
            members, under which the variables are independent; 0 for maximum likelihood.
        score: whether cells have covariances of their own; None for that.
        run: its end ends EM; None for no end.
        weights: shape (rows,), non-negative weights of the rows, whose values in gaps count as observed; None
            for 1.

    Raises:
        InputError: the tree does not match the table, or columns are linearly dependent.
        ChoiceError: `ess` is negative or not finite, or the graph is not strongly decomposable.
    """
    if tree.n != table.n:
        reason = f"it has {tree.n} variables, but the table has {table.n} columns"
        raise InputError("tree", "", reason, "give the tree of this table")
    if not (np.isfinite(ess) and ess >= 0):
        raise ChoiceError(f"the equivalent sample size is {ess}; give a number of 0 or more")
    if isinstance(table, ContinuousTable):
        table = MixedTable(table.names, None, table, table.provenance)
    if table.real.behind is not None:  # its points share the rows
        weights = np.full(table.rows, table.real.behind / table.rows)
    try:
        found = estimated(tree, table, ess=ess, score=score, run=run, weights=weights)
        remarks = MappingProxyType({**table.provenance, **found.facts, "smoothing_ess": ess})
        return MixedTreeModel(variables_of(table), found.cliques, remarks)
    except ValueError as error:
        raise InputError(
            "table",
            "",
            f"{error}: {table.real.total:g} rows are too few, or columns are linearly dependent",
            "give more rows, a tree of smaller treewidth, or a prior (ess above 0)",
        ) from None
