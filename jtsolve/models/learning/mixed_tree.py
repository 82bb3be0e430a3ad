"""Fits conditional Gaussian models of a given tree, by the estimates of `cells`, and chooses margins."""

from __future__ import annotations

from math import inf, log
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from jtsolve.errors import InputError
from jtsolve.models.columns import RealColumn, variables_of
from jtsolve.models.learning.cells import estimate_parameters
from jtsolve.models.learning.fit import require_ess, require_match
from jtsolve.models.mixed import MixedTreeModel
from jtsolve.options import SMOOTHING, TREEWIDTH
from jtsolve.scoring.score import is_mixed
from jtsolve.scoring.scores.cg import ConditionalGaussian
from jtsolve.tables.margins import Margin
from jtsolve.tables.table import ContinuousTable, MixedTable, stacked_columns, with_cells

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.columns import Column
    from jtsolve.scoring.score import ScoreFunction

    Columns = tuple[Column | RealColumn, ...]

_SEGMENTS = tuple(1 << k for k in range(9))
"""Numbers of segments of the margins, among which BIC chooses."""


def with_margins(
    table: ContinuousTable | MixedTable,
    score: ScoreFunction | None,
    fitted: Callable[[Columns], Any],
) -> Columns:
    """Returns the columns of a table, the real ones with margins if the score uses normal scores.

    BIC chooses the number of knots, which is the same for all columns, or no margins: the numbers are normal
    then. A table without discrete columns has no margins: its model is the multivariate normal distribution.

    Args:
        table: the data.
        score: of the tree; None for raw columns.
        fitted: returns a model with given columns; raises InputError or ValueError if there is none.
    """
    plain = variables_of(table)
    by_ranks = score is not None and is_mixed(score) and score.columns == "normal-scores"
    if not by_ranks or getattr(table, "discrete", None) is None:
        return plain
    rows = stacked_columns(table)
    if table.gaps is not None:
        rows = np.where(table.gaps, np.nan, rows)
    best, most = plain, -inf
    for segments in _SEGMENTS:
        try:
            columns = tuple(
                RealColumn(one.name, Margin.of(row[~np.isnan(row)], segments)) if one.states is None else one
                for one, row in zip(plain, rows, strict=True)
            )
            with np.errstate(over="ignore", invalid="ignore"):  # squares of raw numbers
                model = fitted(columns)
        except (InputError, ValueError):  # if no choice can be fitted, the final fit raises the error
            continue
        value = float(model.log_likelihood(rows).sum()) - log(table.rows) / 2 * model.parameters
        if value > most:
            best, most = columns, value
    return best


def columns_for(
    tree: JunctionTree,
    table: ContinuousTable | MixedTable,
    score: ScoreFunction | None,
    weights: NDArray[np.float64] | None = None,
) -> Columns:
    """Returns the columns of the model of a tree; see `with_margins`.

    Args:
        tree: over the columns of the table.
        table: the data.
        score: of the tree; None for raw columns.
        weights: shape (rows,); see `fit_mixed`.
    """

    def fitted(columns: Columns) -> MixedTreeModel:
        found = estimate_parameters(
            tree, _scored(table, columns), ess=1.0, score=_of(score), weights=weights, steps=0
        )
        return MixedTreeModel(columns, found.cliques)

    return with_margins(table, score, fitted)


def fit_mixed(
    tree: JunctionTree,
    table: ContinuousTable | MixedTable,
    *,
    ess: float = 1.0,
    score: ScoreFunction | None = None,
    run: Run | None = None,
    weights: NDArray[np.float64] | None = None,
    columns: Columns | None = None,
) -> MixedTreeModel:
    """Returns the conditional Gaussian model of a tree fitted to a table; by EM if the table has gaps.

    Args:
        tree: over the columns of the table, in their order; its graph is strongly decomposable.
        table: the data.
        ess: equivalent sample size of the prior of the probabilities, and of the covariances of cliques
            without discrete members, under which the variables are independent; 0 for maximum likelihood.
        score: decides whether cells have covariances of their own; None if they do.
        run: its end ends EM; None for no limit.
        weights: shape (rows,), non-negative weights of the rows, whose values in gaps count as observed; None
            for 1.
        columns: of the model; None for those of the table, without margins.

    Raises:
        InputError: the tree does not match the table, or columns are linearly dependent.
        ChoiceError: `ess` is negative or not finite, or the graph is not strongly decomposable.
    """
    require_match(tree, table)
    require_ess(ess)
    if isinstance(table, ContinuousTable):
        table = MixedTable(table.names, None, table, table.provenance)
    if table.real.rows_behind is not None:  # the points of a covariance share the rows behind it
        weights = np.full(table.rows, table.real.rows_behind / table.rows)
    try:
        columns = columns or variables_of(table)
        scored = _scored(table, columns)
        found = estimate_parameters(tree, scored, ess=ess, score=_of(score), run=run, weights=weights)
        remarks = MappingProxyType({**table.provenance, **found.facts, "smoothing_ess": ess})
        return MixedTreeModel(columns, found.cliques, remarks)
    except ValueError as error:
        raise InputError(
            "table",
            "",
            f"{error}: {table.real.total:g} rows are too few, or columns are linearly dependent",
            f"give more rows, a smaller {TREEWIDTH}, or {SMOOTHING} above 0",
        ) from None


def _of(score: ScoreFunction | None) -> ConditionalGaussian | None:
    """Returns the score if it decides on the covariances, otherwise None."""
    return score if isinstance(score, ConditionalGaussian) else None


def _scored(table: ContinuousTable | MixedTable, columns: Columns) -> ContinuousTable | MixedTable:
    """Returns a table with the scores of columns with margins in place of their values."""
    cells = stacked_columns(table)
    if all(getattr(column, "margin", None) is None for column in columns):
        return table
    for row, column in zip(cells, columns, strict=True):
        if (margin := getattr(column, "margin", None)) is not None:
            row[...] = margin.to_scores(row)
    return cast("MixedTable", with_cells(table, cells))
