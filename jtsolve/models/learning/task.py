"""The task of a fit, and the protocol of the kinds of models: `kind.fit(task, run)`.

A kind of model (`tree`, `mixture`, `hidden`, `features`, `lem`, `average`) is a frozen value whose fields are
its options. The task holds what all kinds share: data, prior and search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from jtsolve.core.problem import Constraints
from jtsolve.core.version import __version__
from jtsolve.errors import ChoiceError
from jtsolve.models.learning.learner import Learner
from jtsolve.options import EXECUTOR, SMOOTHING, TREEWIDTH
from jtsolve.scoring.problem import problem_from_table
from jtsolve.scoring.score import is_discrete
from jtsolve.tables.options import DISCRETISE
from jtsolve.tables.table import ContinuousTable, DataTable, MixedTable

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.files.document import AnyModel
    from jtsolve.models.learning.validation import HeldOut
    from jtsolve.scoring.problem import Tabulation
    from jtsolve.scoring.score import DiscreteScore, ScoreFunction
    from jtsolve.tables.partitions import AnyTable
    from jtsolve.tables.table import Table


@dataclass(frozen=True, slots=True, eq=False)
class FitTask:
    """Data, prior and search of a fit.

    Args:
        table: the training data, with their weights and provenance.
        score: by which trees are learned.
        treewidth: of the trees; None if unset.
        backend: learns the trees; None for the default of the kind.
        constraints: on every tree.
        smoothing: equivalent sample size of the prior of all tables, 0 for maximum likelihood; None for that
            of the score, if it has one, else 1 for discrete variables and 0 for real ones.
        validation: rows that choose among candidates, in the coding of the table; or None.
        tree: the junction tree to fit, or to begin with; None to search for one.
    """

    table: AnyTable
    score: ScoreFunction
    treewidth: int | None = None
    backend: Backend | None = None
    constraints: Constraints = Constraints()  # noqa: RUF009 - a frozen value
    smoothing: float | None = None
    validation: HeldOut | None = None
    tree: JunctionTree | None = None

    @property
    def ess(self) -> float:
        """The equivalent sample size of the prior of all tables."""
        if self.smoothing is not None:
            return self.smoothing
        table = self.table
        if isinstance(table, ContinuousTable) or (isinstance(table, MixedTable) and table.discrete is None):
            return 0.0
        return getattr(self.score, "ess", 1.0)

    def require_prior(self, model: str) -> None:
        """Checks that there is a prior; `model` names what needs it.

        Raises:
            ChoiceError: there is none.
        """
        if self.ess <= 0:
            raise ChoiceError(
                f"{model} needs a prior, so that no row is impossible; give {SMOOTHING} above 0"
            )

    def states(self, kind: str) -> tuple[DataTable, DiscreteScore]:
        """Returns the table and the score for a kind of discrete model.

        Raises:
            ChoiceError: there are real columns, the table is partitioned, or weights are fractions.
        """
        if not is_discrete(self.score):
            raise ChoiceError(
                f"the model '{kind}' is discrete, and the score '{self.score.name}' is for real numbers; use "
                f"another score, such as bic, with {DISCRETISE} for continuous columns"
            )
        if not isinstance(self.table, DataTable):
            raise ChoiceError(f"the model '{kind}' needs all rows in one place; leave out {EXECUTOR}")
        self.table.require_whole_weights(f"the model '{kind}'")
        return self.table, self.score

    def rows(self, kind: str) -> Table:
        """Returns the table for a kind of junction tree model, discrete or mixed.

        Raises:
            ChoiceError: see `states`; or there is only a covariance.
        """
        table = self.table
        if isinstance(table, ContinuousTable | MixedTable):
            (table.real if isinstance(table, MixedTable) else table).require_rows(f"the model '{kind}'")
            return table
        return self.states(kind)[0]

    def width(self, kind: str) -> int:
        """Returns the treewidth, for a kind that learns trees.

        Raises:
            ChoiceError: it is unset.
        """
        if self.treewidth is None:
            raise ChoiceError(f"the model '{kind}' learns its trees; give {TREEWIDTH}")
        return self.treewidth

    def learner(self, kind: str) -> Learner:
        """Returns the learner for a kind that learns many trees, by default with `forward`."""
        of = Learner(self.score, treewidth=self.width(kind), constraints=self.constraints)
        return of if self.backend is None else Learner(self.score, self.backend, of.treewidth, of.constraints)

    def problem(self, run: Run, tabulation: Tabulation | None = None) -> Problem:
        """Returns the problem of the table, tabulated by a rule; None for the rule of the backend."""
        return problem_from_table(
            self.table,
            self.score,
            treewidth=self.treewidth,
            constraints=self.constraints,
            run=run,
            backend=self.backend,
            tabulation=tabulation,
        )

    def searched(self, backend: str) -> dict[str, Any]:
        """Returns the facts of a search for the provenance of a model."""
        return {
            "score": self.score.name,
            "treewidth_allowed": self.treewidth,
            "backend": backend,
            "jtsolve": __version__,
        }


class ModelKind(Protocol):
    """A kind of model: a frozen value whose fields are its options."""

    @property
    def name(self) -> str:
        """Its name in the registry."""
        ...

    @property
    def uses(self) -> frozenset[str]:
        """The fields of a task that the kind uses, among treewidth, backend, constraints and tree."""
        ...

    def fit(self, task: FitTask, run: Run) -> AnyModel:
        """Returns the fitted model; its provenance has the options, and the reason for the end of the fit.

        An interruption or the end of the run ends the fit with the best model so far.

        Raises:
            ChoiceError: an option does not fit the task.
            LimitError: the run ended before there was a model.
            StoppedError: the run was interrupted before there was a model.
        """
        ...
