"""A learner of junction trees: a score and a backend, called with a table.

Estimators and mixtures learn the trees of many tables with one such value.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jtsolve.backends.registry import REGISTRY
from jtsolve.backends.support.starts import Known
from jtsolve.core.problem import Constraints
from jtsolve.core.result import Stop
from jtsolve.core.run import Run
from jtsolve.core.scores import StoppedError
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.scoring.problem import problem_from_table
from jtsolve.scoring.scores.bic import Bic
from jtsolve.solving import solve

if TYPE_CHECKING:
    from jtsolve.core.backend import Backend
    from jtsolve.core.result import Result
    from jtsolve.core.tree import JunctionTree
    from jtsolve.scoring.score import DiscreteScore
    from jtsolve.tables.partitions import PartitionedTable
    from jtsolve.tables.table import DataTable


@dataclass(frozen=True, slots=True)
class Learner:
    """Learns the junction tree of a table.

    Args:
        score: a discrete score.
        backend: searches for the tree; None for the choice of `auto`.
        treewidth: at least 0; values above n - 1 count as n - 1.
        time: seconds for each tree; None for no limit.
        constraints: on every tree, besides the treewidth.

    Raises:
        ChoiceError: the treewidth is negative.

    >>> import numpy as np
    >>> from jtsolve.tables.table import DataTable
    >>> table = DataTable(("a", "b"), (("0", "1"),) * 2, np.array([[0, 0, 0, 0, 1, 1, 1, 1]] * 2))
    >>> Learner(treewidth=1)(table).cliques
    (3,)
    """

    score: DiscreteScore = field(default_factory=Bic)
    backend: Backend | None = field(default_factory=lambda: REGISTRY["forward"])
    treewidth: int = 2
    time: float | None = None
    constraints: Constraints = Constraints()  # noqa: RUF009 - a frozen value

    def __post_init__(self) -> None:
        if self.treewidth < 0:
            raise ChoiceError(f"the treewidth is {self.treewidth}; give a number of 0 or more")

    def __call__(
        self,
        table: DataTable | PartitionedTable,
        run: Run | None = None,
        start: JunctionTree | None = None,
    ) -> JunctionTree:
        """Returns the best tree that the backend finds; see `search`.

        Args:
            table: the data.
            run: see `search`.
            start: a tree that a backend with starts begins with, if it has a use for one.
        """
        backend = self.backend
        if start is not None and backend is not None and isinstance(getattr(backend, "start", None), tuple):
            warm: Any = replace(backend, start=(Known(start), *backend.start))  # type: ignore[type-var, attr-defined]
            return replace(self, backend=warm)(table, run)
        tree = self.search(table, run).tree
        assert tree is not None, "search raises an error"
        return tree

    def search(self, table: DataTable | PartitionedTable, run: Run | None = None) -> Result:
        """Returns the result of the search for the best tree, which has one.

        Args:
            table: the data.
            run: limits and seed; None for the defaults.

        Raises:
            LimitError: no tree was found within the limits.
            RefusedError: the backend does not support the problem.
            StoppedError: the run was interrupted before there was a tree.
        """
        run = run or Run()
        seconds = run.left if self.time is None else min(self.time, run.left)
        if run.left <= 0:
            raise LimitError("the time ended before a tree was learned; allow more time")
        part = run.part(seconds, silent=True)
        problem = problem_from_table(
            table,
            self.score,
            treewidth=self.treewidth,
            constraints=self.constraints,
            run=part,
            backend=self.backend,
        )
        result = solve(problem, self.backend, part)
        if result.tree is None:
            if run.stop is Stop.INTERRUPTED:
                raise StoppedError
            raise LimitError(
                f"backend '{result.backend}' found no tree within {seconds:.3g} s; allow more time, or use a "
                "faster backend, such as forward"
            )
        return result
