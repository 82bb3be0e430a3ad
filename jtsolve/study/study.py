"""One study: read, check, score. Every door (shell, Python, scikit-learn) calls this.

For example: `problem, study, table = Study(Data("survey.csv"), Bic(), treewidth=2).prepared(run)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

from jtsolve.core.result import Stop
from jtsolve.core.scores import StoppedError
from jtsolve.core.varset import largest_within
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.problem import largest_scored, plan_scores, require_marks, tabulation_for
from jtsolve.scoring.score import score_for
from jtsolve.study.restrictions import Restrictions
from jtsolve.tables.table import ContinuousTable, MixedTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Run
    from jtsolve.scoring.problem import ScoringPlan, Tabulation
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.study.data import Data
    from jtsolve.tables.partitions import AnyTable


@dataclass(frozen=True, slots=True)
class Study:
    """What to learn: data, the score of their columns, and the trees admitted.

    Args:
        data: where rows come from.
        score: of the columns.
        treewidth: a bound besides that of the restrictions; None for none.
        restrictions: constraints on the tree, by names.
        backend: searches; None for the choice of `auto`. It decides which sets are scored, and when.
        max_size: of the scored sets; None for the largest that the backend reads at the treewidth.
    """

    data: Data
    score: ScoreFunction
    treewidth: int | None = None
    restrictions: Restrictions = Restrictions()  # noqa: RUF009 - a frozen value
    backend: Backend | None = None
    max_size: int | None = None

    @property
    def size(self) -> int | None:
        """The size of the largest scored sets; None for any."""
        if self.max_size is not None:
            return self.max_size
        bound = self.restrictions.treewidth if self.treewidth is None else self.treewidth
        return None if bound is None else largest_scored(self.backend, bound)

    def read(self, run: Run, *, impute: bool = True) -> AnyTable:
        """Returns the table of the data; see `Data.read`."""
        return self.data.read(self.score, run, self.size, impute=impute)

    def settled(self, table: AnyTable) -> Study:
        """Returns the study with the score of the table; see `score_for`."""
        return replace(self, score=score_for(self.score, table))

    def prepared(
        self, run: Run, rule: Callable[[int, int], Tabulation] | None = None
    ) -> tuple[Problem, Study, AnyTable]:
        """Returns the problem of the data, the study with the score of their table, and this table.

        Args:
            run: limits and progress.
            rule: when to tabulate the scores, by the number of columns and the largest size; None for the
                rule of the backend.

        Raises:
            LimitError: a table of scores is required and does not fit the limits.
        """
        table = self.read(run)
        study = self.settled(table)
        tabulation = None if rule is None else rule(table.n, study.size or table.n)
        plan = study.plan(table, run, tabulation)
        run.say(forecast(plan))
        return study.scored(plan, run), study, table

    def plan(self, table: AnyTable, run: Run, tabulation: Tabulation | None = None) -> ScoringPlan:
        """Returns how the scores of a table will be provided, after a check of the restrictions.

        Args:
            table: the data.
            run: limits and progress.
            tabulation: when to tabulate all scores; None for the rule of the backend.

        Raises:
            ChoiceError: nothing bounds the size of the scored sets.
            InputError: the restrictions do not fit the columns, or the table does not allow the score.
        """
        size, cells = self.size, self.restrictions.of(table.names).max_clique_cells
        if size is None and cells is not None and not isinstance(table, ContinuousTable | MixedTable):
            size = largest_within(table.arities.tolist(), cells)
        with run.phase("planning the scores"):
            rule = tabulation or tabulation_for(self.backend)
            return plan_scores(table, self.score, size, run, tabulation=rule)

    def scored(self, plan: ScoringPlan, run: Run) -> Problem:
        """Returns the problem of a plan, under the restrictions and the treewidth.

        Raises:
            KeyboardInterrupt: a signal came before a table that is required.
        """
        note = "scores on demand" if plan.obstacle else f"{plan.cost.sets} sets by {self.score.name}"
        began = perf_counter()
        with run.phase(note), run.interruptible():
            try:
                problem = plan.problem(name=self.data.title)
            except StoppedError:
                raise KeyboardInterrupt from None
        if plan.obstacle is None:
            seconds = perf_counter() - began
            if isinstance(problem.scores, DataScores):
                cause = "an interruption" if run.stop is Stop.INTERRUPTED else "the time limit"
                run.say(f"{cause} ended the scoring after {seconds:.2f} s; scores are computed on demand")
            else:
                run.say(f"scored in {seconds:.2f} s")
        require_marks(plan.scorer.table, self.restrictions.of(problem.names))
        return self.restrictions.on(problem).with_treewidth(self.treewidth)


def forecast(plan: ScoringPlan) -> str:
    """Returns the size of the data, and the predicted time of a table of scores, or why there is none."""
    table = plan.scorer.table
    rows = f"{table.total:.6g}" if isinstance(table.total, float) else table.total
    size = f"{rows} rows of {table.n} variables"
    if plan.obstacle is not None:
        return f"{size}; scores are computed on demand: a table would need {plan.obstacle}"
    seconds = plan.cost.seconds
    duration = "less than a second" if seconds < 1 else f"about {seconds:.2g} s"
    return f"{size}; {plan.cost.sets} sets, {duration}"
