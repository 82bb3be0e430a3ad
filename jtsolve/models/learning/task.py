"""What every kind of model is fitted to, and the protocol of the kinds: `kind.fit(task, run)`.

A kind of model (`tree`, `mixture`, `hidden`, `features`, `lem`, `average`) is a frozen value whose fields are
its options. The data, the prior and the search, which all kinds share, are the task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from jtsolve.core.problem import Constraints
from jtsolve.errors import ChoiceError
from jtsolve.scoring.score import is_discrete
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.core.backend import Backend
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.scoring.problem import Tabulation
    from jtsolve.scoring.score import DiscreteScore, LocalScore
    from jtsolve.tables.partitions import AnyTable
    from jtsolve.tables.table import Codes


@dataclass(frozen=True, slots=True, eq=False)
class FitTask:
    """Data, prior and search of a fit.

    Args:
        table: the training data, with their weights and provenance.
        score: by which trees are learned.
        problem: returns the problem of the table, scored by a rule (`scoring.problem.Tabulation`; None for that
            of the backend), under the constraints.
        ess: equivalent sample size of the prior of all tables; 0 for maximum likelihood.
        validation: codes of rows that choose among candidates, shape (columns, rows); None for none.
        treewidth: of the trees; None where none is given.
        backend: learns the trees; None for the default of the kind.
        constraints: on every tree.
        tree: the junction tree to fit, or to begin with; None to search for one.
    """

    table: AnyTable
    score: LocalScore
    problem: Callable[[Tabulation | None], Problem]
    ess: float = 1.0
    validation: Codes | None = None
    treewidth: int | None = None
    backend: Backend | None = None
    constraints: Constraints = Constraints()  # noqa: RUF009 - a frozen value
    tree: JunctionTree | None = None

    def states(self, kind: str) -> tuple[DataTable, DiscreteScore]:
        """Returns the table and the score of a kind that is for states, in one place.

        Raises:
            ChoiceError: the columns are numbers, or lie in partitions.
        """
        if not is_discrete(self.score):
            raise ChoiceError(
                f"the model '{kind}' is of states, and the score '{self.score.name}' is of real numbers; take "
                "another, such as bic, with --discretise where columns are continuous"
            )
        if not isinstance(self.table, DataTable):
            raise ChoiceError(f"the model '{kind}' takes all rows in one place; leave --executor out")
        return self.table, self.score

    def width(self, kind: str) -> int:
        """Returns the treewidth of a kind that learns trees.

        Raises:
            ChoiceError: none is given.
        """
        if self.treewidth is None:
            raise ChoiceError(f"the model '{kind}' learns its trees; give --treewidth K")
        return self.treewidth


class ModelKind(Protocol):
    """A kind of model: a frozen value whose fields are its options.

    Attributes:
        name: in the registry.
        searches: whether it may search for trees, so that a treewidth, a backend and constraints have a meaning.
        takes_tree: whether it can begin with a given junction tree.
    """

    name: ClassVar[str]
    searches: ClassVar[bool]
    takes_tree: ClassVar[bool]

    def fit(self, task: FitTask, run: Run) -> Any:
        """Returns the fitted model; its provenance names the options, and why the fit ended.

        Ctrl-C and the time limit end the fit with the best model so far.

        Raises:
            ChoiceError: an option does not fit the task.
            LimitError: the limits ended the work before there was a model.
        """
        ...
