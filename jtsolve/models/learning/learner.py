"""A learner of junction trees: a score, a backend and limits, called with a table.

Estimators and mixtures learn the trees of many tables with one such value.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import monotonic  # not the module: the field `time` hides it in the class body
from typing import TYPE_CHECKING, Any

from jtsolve.backends.registry import REGISTRY
from jtsolve.backends.support.starts import Known
from jtsolve.core.backend import Backend, Limits
from jtsolve.core.problem import Constraints
from jtsolve.core.result import Status, Stop
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.scoring.problem import problem_from_table
from jtsolve.scoring.scores.bic import Bic
from jtsolve.solving import solve

if TYPE_CHECKING:
    from jtsolve.core.result import Result
    from jtsolve.core.tree import JunctionTree
    from jtsolve.scoring.score import LocalScore
    from jtsolve.solving import Listener
    from jtsolve.tables.table import DataTable, Table


@dataclass(frozen=True, slots=True)
class Learner:
    """Learns the junction tree of a table.

    Args:
        score: of the columns.
        backend: searches for the tree; None for the choice of `auto`.
        treewidth: at least 0; values above n - 1 count as n - 1.
        time: seconds for each tree; None for no limit.
        threads: see `Limits`.
        seed: see `Limits`.
        memory: see `Limits`.
        constraints: on every tree, besides the treewidth.

    Raises:
        ChoiceError: the treewidth is negative.

    >>> import numpy as np
    >>> from jtsolve.tables.table import DataTable
    >>> table = DataTable(("a", "b"), (("0", "1"),) * 2, np.array([[0, 0, 0, 0, 1, 1, 1, 1]] * 2))
    >>> Learner(treewidth=1)(table).cliques
    (3,)
    """

    score: LocalScore = field(default_factory=Bic)
    backend: Backend | None = field(default_factory=lambda: REGISTRY["forward"])
    treewidth: int = 2
    time: float | None = None
    threads: int | None = None
    seed: int = 0
    memory: int | None = None
    constraints: Constraints = Constraints()  # noqa: RUF009 - a frozen value

    def __post_init__(self) -> None:
        if self.treewidth < 0:
            raise ChoiceError(f"the treewidth is {self.treewidth}; give a number of 0 or more")

    def __call__(
        self,
        table: DataTable,
        deadline: float | None = None,
        start: JunctionTree | None = None,
    ) -> JunctionTree:
        """Returns the best tree that the backend finds; see `search`.

        Args:
            table: the data.
            deadline: see `search`.
            start: a tree that a backend with starts begins with, if it has a use for one.
        """
        backend = self.backend
        if start is not None and backend is not None and isinstance(getattr(backend, "start", None), tuple):
            warm: Any = replace(backend, start=(Known(start), *backend.start))  # type: ignore[type-var, attr-defined]
            return replace(self, backend=warm)(table, deadline)
        tree = self.search(table, deadline).tree
        assert tree is not None, "search raises an error"
        return tree

    def search(self, table: Table, deadline: float | None = None, listener: Listener | None = None) -> Result:
        """Returns the result of the search for the best tree, which has one.

        Args:
            table: the data.
            deadline: of `time.monotonic()`, at which to stop in any case.
            listener: receives progress.

        Raises:
            ChoiceError: no tree meets the constraints.
            LimitError: no tree was found within the limits.
            RefusedError: the backend does not support the problem.
            KeyboardInterrupt: Ctrl-C, passed on to callers that learn several trees.
        """
        seconds = self.seconds(deadline)
        limits = Limits(time=seconds, memory=self.memory, threads=self.threads, seed=self.seed)
        problem = problem_from_table(
            table,
            self.score,
            treewidth=self.treewidth,
            constraints=self.constraints,
            limits=limits,
            backend=self.backend,
        )
        result = solve(problem, self.backend, limits, listener)
        if result.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if result.status is Status.INFEASIBLE:
            raise ChoiceError("no tree meets the constraints; leave some out")
        if result.tree is None:
            raise LimitError(
                f"backend '{result.backend}' found no tree within {seconds} s; allow more time, or use a "
                "faster backend, such as forward"
            )
        return result

    def seconds(self, deadline: float | None) -> float | None:
        """Returns the time limit of the next tree; None for no limit.

        Raises:
            LimitError: the deadline has passed.
        """
        if deadline is None:
            return self.time
        left = deadline - monotonic()
        if left <= 0:
            raise LimitError("the time ended before a tree was learned; allow more time")
        return left if self.time is None else min(self.time, left)
