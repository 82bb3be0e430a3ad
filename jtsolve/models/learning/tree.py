"""The model `tree`: the parameters of one junction tree, given or the best of a treewidth, with any prior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.core.result import require_tree
from jtsolve.models.learning.fit import count
from jtsolve.models.learning.mixed_tree import columns_for, fit_mixed
from jtsolve.models.learning.validation import PRIORS
from jtsolve.scoring.score import MIXED_SCORE
from jtsolve.solving import findings_of, solve
from jtsolve.tables.table import ContinuousTable, DataTable, MixedTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.answers import Rows
    from jtsolve.models.files.document import AnyModel
    from jtsolve.models.learning.mixed_tree import Columns
    from jtsolve.models.learning.task import FitTask
    from jtsolve.models.mixture import Component
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.tables.partitions import AnyTable


@dataclass(frozen=True, slots=True)
class Tree:
    """One junction tree: a given one, or the best one of a treewidth."""

    name: ClassVar[str] = "tree"
    uses: ClassVar[frozenset[str]] = frozenset({"treewidth", "backend", "constraints", "tree"})
    default_score: ClassVar[str] = MIXED_SCORE

    def fit(self, task: FitTask, run: Run) -> AnyModel:
        """See `ModelKind`; validation rows choose the prior."""
        tree, facts = task.tree, dict[str, Any]()
        if tree is None:
            task.width(self.name)
            problem = task.problem(run)
            with run.phase("searching for a tree"):
                result = solve(problem, task.backend, run)
            tree = require_tree(result)
            run.warn("check of the answer", findings_of(problem, tree))
            facts = task.searched(result.backend) | {
                "status": result.status.value,
                "tree_score": result.score,
                "bound": result.bound,
                **{name: result.stats[name] for name in ("independence",) if name in result.stats},
                "seed": run.seed,
            }
        table = replace(task.table, provenance=MappingProxyType({**task.table.provenance, **facts}))
        if task.validation is not None:
            model: AnyModel = fit_validated(tree, table, task.validation, score=task.score, run=run)
            return model
        return by_prior(tree, table, task.score, run=run)(task.ess)


def by_prior(
    tree: JunctionTree,
    table: AnyTable,
    score: ScoreFunction | None = None,
    weights: NDArray[np.float64] | None = None,
    run: Run | None = None,
    *,
    columns: Columns | None = None,
) -> Callable[[float], Component]:
    """Returns the models of a junction tree fitted to a table, by the equivalent sample size of their prior.

    Args:
        tree: over the columns of the table, in their order.
        table: the data, with their weights, if any.
        score: decides whether cells have covariances of their own, and whether real columns have margins;
            None for separate covariances and no margins.
        weights: shape (rows,), additional non-negative weights; None for 1. With weights, the values in gaps
            count as observed.
        run: its end ends EM; None for no limit.
        columns: of a model with real variables; None to choose their margins.

    Raises:
        InputError, ChoiceError, LimitError: as `fit`; with real variables, as `fit_mixed`, by the returned
            function.
    """
    if isinstance(table, ContinuousTable | MixedTable):
        own = columns or columns_for(tree, table, score, weights)
        return lambda ess: fit_mixed(tree, table, ess=ess, score=score, run=run, weights=weights, columns=own)
    return count(tree, table, weights, run).model


def fit_validated(
    tree: JunctionTree,
    table: AnyTable,
    validation: DataTable | Rows,
    *,
    score: ScoreFunction | None = None,
    run: Run | None = None,
) -> Any:
    """Returns the model with the prior, among `PRIORS`, that maximises the likelihood of validation rows.

    Ties go to the smallest prior. The provenance of the model has the choice.

    Args:
        tree: see `by_prior`.
        table: the training data.
        validation: other rows of the same columns: a discrete table, or codes and numbers of shape (columns,
            rows); see `protocol.Distribution`.
        score: see `by_prior`.
        run: see `by_prior`.

    Raises:
        InputError, ChoiceError, LimitError: as `by_prior`.
    """
    models = by_prior(tree, table, score, run=run)
    own = validation.weights if isinstance(validation, DataTable) else None
    best: Any = None
    most = -inf
    for ess in PRIORS:
        model: Any = models(ess)
        mean = float(np.average(model.log_likelihood(validation), weights=own))
        if best is None or mean > most:
            best, most = model, mean
    facts = {"smoothing_candidates": list(PRIORS), "validation_log_likelihood": most}
    return replace(best, provenance=MappingProxyType({**best.provenance, **facts}))
