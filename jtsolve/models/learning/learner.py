"""A learner of junction trees: a score, a backend and constraints, called with a table and a run.

Mixtures, feature trees, bootstraps and estimators learn the trees of many tables with one learner.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jtsolve.backends.registry import REGISTRY
from jtsolve.backends.support.starts import KnownTree
from jtsolve.core.marks import with_star
from jtsolve.core.problem import Constraints
from jtsolve.core.result import require_tree
from jtsolve.errors import ChoiceError
from jtsolve.scoring.problem import problem_from_table
from jtsolve.scoring.scores.bic import Bic
from jtsolve.solving import solve

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend
    from jtsolve.core.result import Result
    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.scoring.score import ScoreFunction
    from jtsolve.tables.partitions import AnyTable


@dataclass(frozen=True, slots=True)
class Learner:
    """Learns the junction tree of a table.

    Args:
        score: of the columns.
        backend: searches for the tree; None for the choice of `auto`.
        treewidth: at least 0; values above n - 1 count as n - 1.
        constraints: on every tree, besides the treewidth.

    Raises:
        ChoiceError: the treewidth is negative.

    >>> import numpy as np
    >>> from jtsolve.core.run import Run
    >>> from jtsolve.tables.table import DataTable
    >>> table = DataTable(("a", "b"), (("0", "1"),) * 2, np.array([[0, 0, 0, 0, 1, 1, 1, 1]] * 2))
    >>> Learner(treewidth=1)(table, Run()).cliques
    (3,)
    """

    score: ScoreFunction = field(default_factory=Bic)
    backend: Backend | None = field(default_factory=lambda: REGISTRY["forward"])
    treewidth: int = 2
    constraints: Constraints = Constraints()  # noqa: RUF009 - a frozen value

    def __post_init__(self) -> None:
        if self.treewidth < 0:
            raise ChoiceError(f"the treewidth is {self.treewidth}; give a number of 0 or more")

    def __call__(self, table: AnyTable, run: Run, start: JunctionTree | None = None) -> JunctionTree:
        """Returns the best tree that the backend finds; see `search`.

        Args:
            table: the data.
            run: see `search`.
            start: an initial tree, for backends that use one.
        """
        return require_tree(self.search(table, run, start))

    def search(self, table: AnyTable, run: Run, start: JunctionTree | None = None) -> Result:
        """Returns the result of the search, which has a tree.

        Args:
            table: the data.
            run: its end or interruption ends the search with the best tree so far.
            start: see `__call__`.

        Raises:
            ChoiceError: no tree meets the constraints.
            LimitError: no tree was found within the limits.
            StoppedError: the run was interrupted before there was a tree.
            RefusedError: the backend does not support the problem.
        """
        backend: Any = self.backend
        problem = problem_from_table(
            table,
            self.score,
            treewidth=self.treewidth,
            constraints=self.constraints,
            run=run,
            backend=backend,
        )
        if start is not None and isinstance(getattr(backend, "start", None), tuple):
            real = problem.constraints.real_variables
            known = with_star(start, real) if problem.with_star().star else start
            backend = replace(backend, start=(KnownTree(known), *backend.start))
        result = solve(problem, backend, run)
        require_tree(result)
        return result
