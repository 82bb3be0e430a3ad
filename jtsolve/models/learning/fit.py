"""Fits the tables of a given junction tree in closed form, by maximum likelihood or with a prior.

The maximum likelihood estimate is P(C) = N(C) / N (S. L. Lauritzen, Graphical Models, 1996, theorem 4.8 ff.).
The posterior mean under a uniform Dirichlet prior of equivalent sample size a, the prior of BDeu, is
P(C) = (N(C) + a / cells(C)) / (N + a). Its sum over a separator has the same form (hyper-Markov priors: A. P.
Dawid and S. L. Lauritzen, Annals of Statistics 21, 1993), so that the tables of neighbours agree.
Time: rows × Σ |C|.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.columns import columns_of
from jtsolve.models.layout import table_layout
from jtsolve.models.learning.cells import estimate_parameters
from jtsolve.models.model import JunctionTreeModel, array_model
from jtsolve.options import SMOOTHING
from jtsolve.tables.partitions import PartitionedTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.columns import Column
    from jtsolve.models.layout import Layout
    from jtsolve.tables.partitions import AnyTable
    from jtsolve.tables.table import Codes, DataTable


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Weighted counts in the cells of a tree's cliques: sufficient for a model with any prior.

    Attributes:
        columns: of the data.
        tree: the junction tree.
        cells: the counts in one array, as in `Layout`.
        total: sum of the weights.
        provenance: of the data.
    """

    columns: tuple[Column, ...]
    tree: JunctionTree
    cells: NDArray[np.float64]
    total: float
    provenance: Mapping[str, Any]

    def model(self, ess: float) -> JunctionTreeModel:
        """Returns the model with a prior of this equivalent sample size; 0 for maximum likelihood.

        Raises:
            ChoiceError: the size is negative or not finite, or both it and the counts are 0.
        """
        require_ess(ess)
        if self.total + ess <= 0:
            raise ChoiceError(f"no row has a positive weight; give {SMOOTHING} above 0, or other weights")
        layout = table_layout(self.tree, tuple(column.arity for column in self.columns))
        sizes = np.diff(layout.offset)
        values = (self.cells + np.repeat(ess / sizes, sizes)) / (self.total + ess)
        return array_model(self.columns, self.tree, values, {**self.provenance, "smoothing_ess": ess})


def count(
    tree: JunctionTree,
    table: DataTable | PartitionedTable,
    weights: ArrayLike | None = None,
    run: Run | None = None,
) -> Counts:
    """Returns the counts in the cells of the cliques; the expected counts of EM if the table has gaps.

    Args:
        tree: over the columns of the table, in their order.
        table: the data, with its weights; partitions are counted by the workers that hold them.
        weights: shape (rows,), additional non-negative weights; None for 1, as for partitions. With weights,
            the values in gaps count as observed.
        run: its end ends EM; None for no limit.

    Raises:
        InputError: the tree does not match the table, or the weights are invalid.
        LimitError: the tables do not fit in memory.

    >>> from jtsolve.tables.table import DataTable
    >>> from jtsolve.core.tree import JunctionTree
    >>> table = DataTable(("a",), (("no", "yes"),), np.array([[0, 1, 1]]))
    >>> count(JunctionTree(1, [0b1], []), table).model(1.0).tables[0].tolist()
    [0.375, 0.625]
    """
    require_match(tree, table)
    if isinstance(table, PartitionedTable):
        return _by_partitions(tree, table)
    columns = columns_of(table)
    layout = table_layout(tree, tuple(column.arity for column in columns))
    if table.gaps is not None and weights is None:
        found = estimate_parameters(tree, table, run=run)
        tables = {
            tuple(sorted(own.discrete)): np.transpose(sums.counts.reshape(own.dims), np.argsort(own.discrete))
            for own, sums in zip(found.cliques, found.sums, strict=True)
        }
        cells = np.concatenate([tables[tuple(clique)].ravel() for clique in layout.cliques])
        return Counts(columns, tree, cells, float(table.total), {**table.provenance, **found.facts})
    each = _row_weights(table, weights)
    cells = cell_counts(layout, table.codes, each)
    total = float(table.rows if each is None else each.sum())
    return Counts(columns, tree, cells, total, dict(table.provenance))


def _by_partitions(tree: JunctionTree, table: PartitionedTable) -> Counts:
    """Returns the counts of all partitions, whole numbers below 2^53: any order of the sum is exact."""
    with table.cluster.connected() as workers:
        shared = workers.share(tree)
        cells = workers.result(workers.total(table.map_parts(workers, _cells, shared), _added))
    return Counts(columns_of(table), tree, cells, float(table.total), dict(table.provenance))


def _cells(table: DataTable, tree: JunctionTree) -> NDArray[np.float64]:
    """Returns the counts of a partition; called on a worker."""
    return count(tree, table).cells


def _added(several: Sequence[NDArray[np.float64] | None]) -> NDArray[np.float64] | None:
    """Returns the sum of counts; None stands for no rows."""
    present = [one for one in several if one is not None]
    return np.sum(present, axis=0) if present else None


def require_match(tree: JunctionTree, table: AnyTable) -> None:
    """Checks that a tree has as many variables as a table.

    Raises:
        InputError: it has not.
    """
    if tree.n != table.n:
        reason = f"it has {tree.n} variables, but the table has {table.n} columns"
        raise InputError("tree", "", reason, "give the tree of this table")


def require_ess(ess: float) -> None:
    """Checks the equivalent sample size of a prior.

    Raises:
        ChoiceError: it is negative or not finite.
    """
    if not (np.isfinite(ess) and ess >= 0):
        raise ChoiceError(f"the equivalent sample size is {ess}; give a number of 0 or more")


def _row_weights(table: DataTable, weights: ArrayLike | None) -> NDArray[np.float64] | None:
    """Returns the product of the weights of the table and the additional ones, or None for 1."""
    if weights is None:
        return None if table.weights is None else table.weights.astype(np.float64) * table.unit
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (table.rows,) or not np.isfinite(given).all() or given.min() < 0:
        reason = f"they are not {table.rows} finite non-negative numbers"
        raise InputError("weights", "", reason, "give one for each row")
    return given if table.weights is None else given * table.weights * table.unit


def cell_counts(layout: Layout, codes: Codes, weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Returns the weighted counts of all cells, shape (cells,).

    Args:
        layout: of the tables.
        codes: shape (n, rows).
        weights: shape (rows,); None for 1.
    """
    cells = np.empty(layout.cells)
    for place, clique in enumerate(layout.cliques):
        index = np.zeros(codes.shape[1], dtype=np.int64)
        for v, arity in zip(clique, layout.dims(place), strict=True):
            index *= arity
            index += codes[v]
        first, last = layout.offset[place : place + 2]
        cells[first:last] = np.bincount(index, weights, minlength=last - first)
    return cells
