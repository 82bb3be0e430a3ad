"""The model `tree`: the parameters of one junction tree, given or the best of a treewidth, with any prior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from jtsolve.core.result import require_tree
from jtsolve.models.learning.fit import count
from jtsolve.models.learning.mixed_tree import columns_for, fit_mixed
from jtsolve.models.learning.validation import PRIORS, likeliest
from jtsolve.scoring.score import MIXED_SCORE
from jtsolve.solving import findings_of, solve
from jtsolve.tables.table import ContinuousTable, MixedTable

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
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
        model = by_prior(tree, table, task.score, run=run)
        if task.validation is None:
            return model(task.ess)
        best, mean = likeliest(map(model, PRIORS), *task.validation)
        chosen = {"smoothing_candidates": list(PRIORS), "validation_log_likelihood": mean}
        return replace(best, provenance=MappingProxyType({**best.provenance, **chosen}))


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
