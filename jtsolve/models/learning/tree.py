"""The model `tree`: the tables of one junction tree, given, or the best of a treewidth, in closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from jtsolve.core.result import require_tree
from jtsolve.models.learning.refit import by_prior, fit_validated
from jtsolve.scoring.score import MIXED_SCORE
from jtsolve.solving import findings_of, solve

if TYPE_CHECKING:
    from jtsolve.core.run import Run
    from jtsolve.models.files.document import AnyModel
    from jtsolve.models.learning.task import FitTask


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
