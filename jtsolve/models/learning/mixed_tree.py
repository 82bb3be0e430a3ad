"""Fits conditional Gaussian models of a given tree in closed form.

On a strongly decomposable graph, the estimates of each clique are those of its own table: the probabilities
are (n_i + a/q)/(N + a), as for states; cell i has the mean (Σ x + κ x̄)/(n_i + κ) and the covariance (S_i +
2W)/(n_i + 2) + diag(h²/12), as in the score `cg`, from which the regressions follow. With a score of a common
covariance, W + diag(h²/12) takes its place. Without discrete members, the covariances are those of the data,
times N/(N + a); variances stay.

Reference: S. L. Lauritzen, Graphical Models, Oxford 1996, chapter 6.
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.marks import strongly_rooted
from jtsolve.core.varset import members
from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.columns import mixed_columns_of
from jtsolve.models.inference.mixed import MixedClique, cell_of, shares
from jtsolve.models.mixed import MixedTreeModel
from jtsolve.scoring.score import CellMoments
from jtsolve.scoring.scores.cg import ConditionalGaussian
from jtsolve.tables.table import ContinuousTable, MixedTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree, RootedClique
    from jtsolve.models.columns import Column, RealColumn

_MEAN = 0.5
"""Rows with the overall mean that each cell has besides its own, κ."""


def fit_mixed(
    tree: JunctionTree,
    table: ContinuousTable | MixedTable,
    *,
    ess: float = 1.0,
    score: ConditionalGaussian | None = None,
) -> MixedTreeModel:
    """Returns the conditional Gaussian model of a tree fitted to a table.

    Args:
        tree: over the columns of the table, in their order; its graph is strongly decomposable.
        table: the data.
        ess: equivalent sample size of the prior of the probabilities, and of covariances without discrete
            members, under which the variables are independent; 0 for maximum likelihood.
        score: whether cells have covariances of their own; None for that.

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
    columns = mixed_columns_of(table)
    try:
        root, *others = strongly_rooted(tree, table.real_variables)
    except ValueError:
        raise ChoiceError(
            "the graph of the tree is not strongly decomposable: real variables join discrete ones that are "
            "not adjacent; learn a tree from the table"
        ) from None
    if table.real.behind is not None:  # in points, of which there are not as many
        ess *= table.rows / table.real.total
    values = np.zeros((table.n, table.rows))
    for part, held in ((table.discrete, "codes"), (table.real, "values")):
        if part is not None:
            values[[table.names.index(name) for name in part.names]] = getattr(part, held)
    score, nodes = score or ConditionalGaussian(), [root._replace(parent=-1), *others]
    try:
        cliques = tuple(_fitted(columns, values, node, ess, score) for node in nodes)
        remarks = MappingProxyType({**table.provenance, "smoothing_ess": ess})
        return MixedTreeModel(columns, cliques, remarks)
    except ValueError as error:
        raise InputError(
            "table",
            "",
            f"{error}: {table.rows} rows are too few, or columns are linearly dependent",
            "give more rows, a tree of smaller treewidth, or a prior (ess above 0)",
        ) from None


def _fitted(
    columns: tuple[Column | RealColumn, ...],
    values: NDArray[np.float64],
    node: RootedClique,
    ess: float,
    score: ConditionalGaussian,
) -> MixedClique:
    """Returns a clique with the estimates of its table."""
    clique, separator, parent = node
    above, rest = list(members(separator)), list(members(clique & ~separator))
    discrete = [v for v in (*above, *rest) if columns[v].states is not None]
    real = [v for v in (*rest, *above) if columns[v].states is None]
    shared = sum(columns[v].states is not None for v in above)
    free = sum(columns[v].states is None for v in rest)
    dims = tuple(len(columns[v].states or ()) for v in discrete)
    q, k, rows = prod(dims), len(real), values.shape[1]
    cell = cell_of(values, discrete, dims)
    counts = np.bincount(cell, minlength=q)
    y = values[real].T
    overall = y.mean(axis=0)
    total = np.zeros((q, k))
    np.add.at(total, cell, y)
    own = np.where(counts[:, None] > 0, total / np.maximum(counts, 1)[:, None], overall)
    centred = y - own[cell]
    scatter = np.zeros((q, k, k))
    np.add.at(scatter, cell, centred[:, :, None] * centred[:, None, :])
    smoothing = _MEAN if discrete else 0.0
    means = (counts[:, None] * own + smoothing * overall) / (counts + smoothing)[:, None] if k else own
    if discrete:
        gaps = np.array([np.diff(np.unique(column)).min() for column in y.T])
        moments = CellMoments(counts, scatter, np.empty(0), np.diag(gaps**2 / 12), np.eye(k))
        matrices = np.broadcast_to(score.matrices(moments), (q, k, k))
    else:
        matrices = scatter / (rows + ess * (1 - np.eye(k)))
    slopes = np.zeros((q, free, k - free))
    if free < k and free:
        slopes = np.swapaxes(np.linalg.solve(matrices[:, free:, free:], matrices[:, free:, :free]), 1, 2)
    covariances = matrices[:, :free, :free] - slopes @ matrices[:, free:, :free]
    return MixedClique(
        tuple(discrete),
        tuple(real),
        shared,
        free,
        parent,
        dims,
        shares(counts + ess / q, prod(dims[:shared])),
        means[:, :free] - np.einsum("qij,qj->qi", slopes, means[:, free:]),
        slopes,
        (covariances + np.swapaxes(covariances, 1, 2)) / 2,
    )
