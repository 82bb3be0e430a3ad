"""The tables of a junction tree from data, in closed form: relative frequencies, with or without a prior.

Maximum likelihood is P(C) = N(C) / N (Lauritzen, Graphical Models, 1996, theorem 4.8 ff.). The expectation
under a Dirichlet prior of equivalent sample size a, spread evenly, is P(C) = (N(C) + a / cells(C)) / (N + a):
sums over a clique have the same form in the separator (hyper-Markov priors: Dawid and Lauritzen, Annals of
Statistics 21, 1993), so that the tables of two cliques agree. It is the prior of the BDeu score. Time: rows ×
Σ |C|.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.columns import codes_of, columns_of
from jtsolve.models.inference.likelihood import log_likelihood
from jtsolve.models.layout import layout_of
from jtsolve.models.model import JunctionTreeModel, model_of
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.columns import Column
    from jtsolve.models.layout import Layout
    from jtsolve.tables.table import Codes

CANDIDATES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""Equivalent sample sizes that `fit_validated` tries: half a decade apart, from nearly none to a thousand
rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Weighted counts of the cells of a tree's cliques, from which models with any prior follow.

    Attributes:
        columns: of the data.
        tree: the junction tree.
        cells: the counts, side by side as `Layout` has them.
        total: the sum of the weights.
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
            ChoiceError: the size is negative or not finite, or it and the counts are both 0.
        """
        if not (np.isfinite(ess) and ess >= 0):
            raise ChoiceError(f"an equivalent sample size of {ess} is none; give a number of 0 or more")
        if self.total + ess <= 0:
            raise ChoiceError(
                "without rows of positive weight there is nothing to fit; give a prior (ess above 0)"
            )
        layout = layout_of(self.tree, tuple(column.arity for column in self.columns))
        sizes = np.diff(layout.offset)
        values = (self.cells + np.repeat(ess / sizes, sizes)) / (self.total + ess)
        return model_of(self.columns, self.tree, values, {**self.provenance, "smoothing_ess": ess})


def count(tree: JunctionTree, table: DataTable, weights: ArrayLike | None = None) -> Counts:
    """Returns the counts of the cells of the cliques.

    Args:
        tree: over the columns of the table, in their order.
        table: the data; its own weights count.
        weights: shape (rows,), real numbers of 0 or more, by which the rows count besides; None for 1.

    Raises:
        InputError: the tree is over another number of variables, or the weights are not as said.
        LimitError: the tables need more memory than there is.
    """
    if tree.n != table.n:
        raise InputError(
            "tree",
            "",
            f"it has {tree.n} variables, and the table {table.n} columns",
            "give the tree of this table",
        )
    columns = columns_of(table)
    layout = layout_of(tree, tuple(column.arity for column in columns))
    each = _row_weights(table, weights)
    cells = _count(layout, table.codes, each)
    total = float(table.rows if each is None else each.sum())
    return Counts(columns, tree, cells, total, dict(table.provenance))


def fit(
    tree: JunctionTree, table: DataTable, *, ess: float = 1.0, weights: ArrayLike | None = None
) -> JunctionTreeModel:
    """Returns the model of a tree with tables fitted to data.

    Args:
        tree: over the columns of the table, in their order.
        table: the data; its own weights count.
        ess: the equivalent sample size of the Dirichlet prior; 0 for maximum likelihood.
        weights: shape (rows,), real numbers of 0 or more, by which the rows count besides; None for 1.

    Raises:
        InputError: the tree is over another number of variables, or the weights are not as said.
        ChoiceError: the equivalent sample size is not as said.
        LimitError: the tables need more memory than there is.

    >>> from jtsolve.tables.table import DataTable
    >>> from jtsolve.core.tree import JunctionTree
    >>> table = DataTable(("a",), (("no", "yes"),), np.array([[0, 1, 1]]))
    >>> fit(JunctionTree(1, [0b1], []), table, ess=1.0).tables[0].tolist()
    [0.375, 0.625]
    """
    return count(tree, table, weights).model(ess)


def fit_validated(
    tree: JunctionTree,
    table: DataTable,
    validation: DataTable | Codes,
    *,
    candidates: Sequence[float] = CANDIDATES,
    weights: ArrayLike | None = None,
) -> JunctionTreeModel:
    """Returns the model with the prior under which the validation rows are likeliest.

    Of equals, the first candidate is taken. The choice is in the model's provenance.

    Args:
        tree: over the columns of the table, in their order.
        table: the data to fit to.
        validation: other rows of the same columns; a table, or codes as `log_likelihood` takes them.
        candidates: equivalent sample sizes to try, at least one.
        weights: see `fit`.

    Raises:
        InputError, ChoiceError, LimitError: as `fit`.
    """
    if not candidates:
        raise ChoiceError("there is no candidate for the equivalent sample size; give at least one")
    counts = count(tree, table, weights)
    own = validation.weights if isinstance(validation, DataTable) else None
    codes = codes_of(counts.columns, validation) if isinstance(validation, DataTable) else validation
    best, likelihood = candidates[0], -np.inf
    for ess in candidates:
        each = log_likelihood(counts.model(ess), codes)
        mean = float(np.average(each, weights=own))
        if mean > likelihood:
            best, likelihood = ess, mean
    model = counts.model(best)
    facts = {"smoothing_candidates": list(candidates), "validation_log_likelihood": likelihood}
    return model_of(model.columns, tree, model.values, {**model.provenance, **facts})


def _row_weights(table: DataTable, weights: ArrayLike | None) -> NDArray[np.float64] | None:
    """Returns how much each row counts, or None for once each."""
    if weights is None:
        return None if table.weights is None else table.weights.astype(np.float64)
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (table.rows,) or not np.isfinite(given).all() or given.min() < 0:
        raise InputError(
            "weights", "", f"they are not {table.rows} finite numbers of 0 or more", "give one for each row"
        )
    return given if table.weights is None else given * table.weights


def _count(layout: Layout, codes: Codes, weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Returns the weighted counts of all cells, side by side."""
    cells = np.empty(layout.cells)
    for place, clique in enumerate(layout.cliques):
        index = np.zeros(codes.shape[1], dtype=np.int64)
        for v, arity in zip(clique, layout.dims(place), strict=True):
            index *= arity
            index += codes[v]
        first, last = layout.offset[place : place + 2]
        cells[first:last] = np.bincount(index, weights, minlength=last - first)
    return cells
