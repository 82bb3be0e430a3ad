"""Fits the parameters of a given junction tree to weighted rows of any table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.models.learning.fit import fit
from jtsolve.models.learning.mixed_tree import fit_mixed
from jtsolve.scoring.scores.cg import ConditionalGaussian
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.mixture import Component
    from jtsolve.scoring.score import LocalScore
    from jtsolve.tables.table import Table


def refitted(
    tree: JunctionTree, table: Table, ess: float, weights: NDArray[np.float64], score: LocalScore
) -> Component:
    """Returns the model of a junction tree fitted to a table.

    Args:
        tree: over the columns of the table, in their order.
        table: the data, with weights of their own where they have some.
        ess: equivalent sample size of the prior.
        weights: shape (rows,), additional non-negative weights.
        score: says whether cells of real numbers have covariances of their own.
    """
    if isinstance(table, DataTable):
        return fit(tree, table, ess=ess, weights=weights)
    how = score if isinstance(score, ConditionalGaussian) else None
    return fit_mixed(tree, table, ess=ess, score=how, weights=weights)
