"""The model `average`: the predictive density of the posterior over trees, a mixture of drawn trees.

P(row | data) = Σ_G P(G | data) P(row | G, data), by Monte Carlo over draws G. Where the scores are BDeu, the
tables of a tree under the same equivalent sample size are its exact P(row | G, data). Time: that of a fit for
each distinct tree. Reference: D. Madigan and A. E. Raftery, Model selection and accounting for model
uncertainty in graphical models using Occam's window, Journal of the American Statistical Association 89,
1994.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.errors import ChoiceError
from jtsolve.models.learning.tree import by_prior
from jtsolve.models.mixture import Mixture
from jtsolve.options import SMOOTHING, VALIDATE
from jtsolve.scoring.score import MARGINAL_SCORE

if TYPE_CHECKING:
    from jtsolve.core.run import Run
    from jtsolve.models.learning.task import FitTask
    from jtsolve.models.mixture import Component


@dataclass(frozen=True, slots=True)
class AveragedTrees:
    """A mixture of junction trees drawn from the posterior, each weighted by its share of the draws.

    Args:
        draws: number of trees; equal ones become one component.

    Raises:
        ChoiceError: there are no draws.
    """

    draws: int = 32

    name: ClassVar[str] = "average"
    main: ClassVar[str] = "draws"
    uses: ClassVar[frozenset[str]] = frozenset({"treewidth", "constraints"})
    default_score: ClassVar[str] = MARGINAL_SCORE

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ChoiceError(f"{self.draws} draws make no sample; give at least 1")

    def fit(self, task: FitTask, run: Run) -> Component | Mixture:
        """Returns the mixture; of one distinct tree, its model.

        Raises:
            ChoiceError: validation rows are given, or no graph meets the constraints.
            NotConvergedError: exact draws do not fit, and the chains disagree.
            LimitError: the limits are too small.
        """
        from jtsolve.averaging.average import draw_trees
        from jtsolve.averaging.method import remark_on_scores
        from jtsolve.averaging.registry import METHODS

        table = task.rows(self.name)
        size = task.width(self.name) + 1
        if task.validation is not None:
            raise ChoiceError(
                f"the model 'average' has the prior of its score; leave out {VALIDATE}, or give {SMOOTHING}"
            )
        how = METHODS["auto"]
        rule = how.tabulation(table.n, size, run.limits, drawn=True)
        problem = task.problem(run, rule)
        if (remark := remark_on_scores(problem)) is not None:
            run.warn("weights of the drawn trees", [remark])
        draws = draw_trees(problem, self.draws, method=how, run=run)
        if draws is None:
            raise ChoiceError("no graph meets the constraints; leave some out")
        shares = Counter(draws.trees)
        remarks = {
            **table.provenance,
            "score": task.score.name,
            "treewidth_allowed": task.treewidth,
            "draws": self.draws,
            "drawn_by": draws.method,
            "seed": run.seed,
            "smoothing_ess": task.ess,
        }
        table = replace(table, provenance=MappingProxyType(remarks))
        trees, counts = zip(*shares.most_common(), strict=True)
        once, models = np.ones(table.rows), list[Any]()
        for tree in trees:  # real columns have the margins of the most frequent tree
            columns = models[0].columns if models and models[0].is_continuous else None
            models.append(by_prior(tree, table, task.score, once, columns=columns)(task.ess))
        if len(models) == 1:
            only: Component = models[0]
            return only
        return Mixture(np.array(counts) / len(draws.trees), tuple(models), MappingProxyType(remarks))
