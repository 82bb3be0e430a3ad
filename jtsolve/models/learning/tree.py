"""The model `tree`: the tables of one junction tree, given, or the best of a treewidth, in closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from jtsolve.core.result import require_tree
from jtsolve.errors import ChoiceError
from jtsolve.models.learning.fit import fit, fit_validated
from jtsolve.models.learning.mixed_tree import fit_mixed
from jtsolve.options import SMOOTHING, VALIDATE
from jtsolve.scoring.score import MIXED_SCORE
from jtsolve.scoring.scores.cg import ConditionalGaussian
from jtsolve.solving import findings_of, solve
from jtsolve.tables.table import ContinuousTable, MixedTable

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
        if task.validation is not None and isinstance(table, ContinuousTable | MixedTable):
            raise ChoiceError(f"{VALIDATE} is for models of states; give {SMOOTHING}, or 0 for none")
        if isinstance(table, ContinuousTable | MixedTable):
            score = task.score if isinstance(task.score, ConditionalGaussian) else None
            return fit_mixed(tree, table, ess=task.ess, score=score, run=run)
        if task.validation is not None:
            return fit_validated(tree, table, task.validation, run=run)
        return fit(tree, table, ess=task.ess, run=run)
