"""The PC algorithm for undirected graphs: Algorithm 4 of Vats and Nowak, without its dependence on order.

    for k = 0..η, for each candidate ij left: S_ij ← the neighbours of i or of j, whichever are fewer;
        delete ij if some S ⊆ S_ij of k vertices has X_i ⫫ X_j | X_S

The neighbours are those at the beginning of each k (PC-stable), so that the order of the columns does not
matter; in Algorithm 4, they shrink as edges are deleted.

References:
    P. Spirtes, C. Glymour, An algorithm for fast recovery of sparse causal graphs, 1991.
    D. Colombo, M. Maathuis, Order-independent constraint-based causal structure learning, JMLR 15, 2014.
    M. Kalisch, P. Bühlmann, Estimating high-dimensional directed acyclic graphs with the PC-algorithm, JMLR
    8, 2007.
    J. Ramsey, Improving accuracy and scalability of the PC algorithm by maximizing p-value, arXiv 1610.00378,
    2016 (which separating set).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jtsolve.core.varset import varset
from jtsolve.errors import ChoiceError
from jtsolve.selection.choosing import choose, require_parameter
from jtsolve.selection.independence import NUMBER_TESTS, STATE_TESTS, TESTS, Test, dependence, thresholds
from jtsolve.selection.method import Decision, Task
from jtsolve.selection.samples import GaussianSample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.graph import Edge
    from jtsolve.core.varset import VarSet
    from jtsolve.selection.choosing import Criterion
    from jtsolve.selection.samples import DiscreteSample, Sample

_DEPTH = 2
"""The largest |S|, unless it is given or the edges are to be directed."""
_LARGEST_LEVEL = 0.2
_LEAST_LEVEL = 1e-8
"""The levels α between which a criterion chooses: from hardly any edges to a fifth of the false ones."""
_LEAST_THRESHOLD = 0.05


@dataclass(frozen=True, slots=True)
class PC:
    """The PC algorithm; for numbers and states.

    Args:
        depth: η, the largest |S|; None for 2, or with `direct` for as many as there are neighbours.
        direct: whether the graph is the skeleton of a Bayesian network, to be directed as far as it can be.
            Then S is sought among the neighbours of either end: the parents of one need not be neighbours of
            the other.
        test: fisher-z, correlation or bic for numbers, g, chi2 or bic for states; None for fisher-z and g.
        criterion: the level α, or the threshold of the test correlation, above 0 and below 1; or for numbers
            what chooses it.

    Raises:
        ChoiceError: there is no such test, the depth is negative, or a level is given that is none.
    """

    name: ClassVar[str] = "pc"
    depth: int | None = None
    direct: bool = False
    test: Test | None = None
    criterion: float | Criterion = 0.01

    def __post_init__(self) -> None:
        if self.test is not None and self.test not in TESTS:
            raise ChoiceError(f"there is no test '{self.test}'; there are {', '.join(TESTS)}")
        if self.depth is not None and self.depth < 0:
            raise ChoiceError(f"the depth is {self.depth}; give a number of 0 or more")
        require_parameter(self.criterion, below=1.0)

    def objection(self, sample: Sample) -> str | None:
        """See `SelectionMethod`."""
        if isinstance(sample, GaussianSample):
            if self.test not in (None, *NUMBER_TESTS):
                return f"the test {self.test} is for states; there are {', '.join(NUMBER_TESTS)} for numbers"
            return None
        if self.test not in (None, *STATE_TESTS):
            return f"the test {self.test} is for numbers; there are {', '.join(STATE_TESTS)} for states"
        if not isinstance(self.criterion, float | int) and self.test != "bic":
            return "the level of a test of states is not chosen but given, such as pc:criterion=0.01"
        return None

    def decide(self, sample: Sample, task: Task, seed: int) -> Decision:
        """See `SelectionMethod`."""
        if not isinstance(sample, GaussianSample):
            return self._states(sample, task)
        if self._test == "bic":
            (kept,) = self.walk(sample.correlation, sample.rows, task, [1.0])
            return Decision(kept)
        if isinstance(self.criterion, float | int):  # no regular matrix is needed, so that none is shrunk
            (kept,) = self.walk(sample.correlation, sample.rows, task, [self.criterion])
            return Decision(kept, self.criterion)
        return choose(self, self.criterion, sample, task, seed)

    @property
    def _test(self) -> str:
        return self.test or "fisher-z"

    def span(self, correlation: NDArray[np.float64], task: Task) -> tuple[float, float]:
        """See `PathMethod`."""
        if self._test == "correlation":
            largest = float(np.abs(correlation[task.candidates]).max(initial=0.0))
            return largest, min(_LEAST_THRESHOLD, largest)
        return _LEAST_LEVEL, _LARGEST_LEVEL

    def walk(
        self, correlation: NDArray[np.float64], rows: int, task: Task, parameters: Sequence[float]
    ) -> Iterator[NDArray[np.bool_]]:
        """See `PathMethod`."""
        from jtsolve.selection.kernels.independence import prune

        for value in parameters:
            left = task.candidates.copy()
            limits = thresholds(self._test, value, rows, self._deepest(len(left)))
            prune(correlation, task.graph.copy(), left, limits, self.direct)
            yield left

    def _states(self, sample: DiscreteSample, task: Task) -> Decision:
        """Decides by tests of states."""
        test = self.test or "g"
        level = self.criterion if isinstance(self.criterion, float | int) else 0.0
        graph, left = task.graph.copy(), task.candidates.copy()
        for size in range(self._deepest(sample.n) + 1):
            if size >= graph.sum(axis=0).max(initial=0):
                break
            seen = graph.copy()
            for i, j in np.argwhere(np.triu(left)).tolist():
                if any(
                    dependence(sample, i, j, given, test, level) <= 0
                    for around in self._around(seen, i, j)
                    for given in combinations(around, size)
                ):
                    left[i, j] = left[j, i] = graph[i, j] = graph[j, i] = False
        return Decision(left, None if test == "bic" else level)

    def _deepest(self, n: int) -> int:
        """Returns the largest |S| among n columns."""
        every = max(n - 2, 0)
        if self.depth is None:
            return every if self.direct else min(_DEPTH, every)
        return min(self.depth, every)

    def separator(self, sample: Sample, graph: NDArray[np.bool_], level: float, pair: Edge) -> VarSet:
        """Returns the set that separates two vertices which a graph does not join.

        It is the set of neighbours of either given which they depend least (Ramsey): the order of the columns
        does not matter, and weak dependences mislead it less than the first set that passes a test.

        Args:
            sample: the columns.
            graph: bool, shape (n, n).
            level: α, or the threshold of the test correlation.
            pair: the two.
        """
        i, j = pair
        sides = [np.flatnonzero(graph[end]).tolist() for end in pair]
        largest = min(self._deepest(sample.n), max(map(len, sides)))
        sets = (combinations(around, size) for size in range(largest + 1) for around in sides)
        found = (
            (dependence(sample, i, j, given, self.test, level), varset(given))
            for given in chain.from_iterable(sets)
        )
        return min(found)[1]

    def _around(self, graph: NDArray[np.bool_], i: int, j: int) -> list[list[int]]:
        """Returns S_ij, or the neighbours of both ends if edges are to be directed."""
        ends = sorted((i, j), key=lambda end: int(graph[end].sum()))
        sides = [[v for v in np.flatnonzero(graph[end]).tolist() if v not in (i, j)] for end in ends]
        return sides if self.direct else sides[:1]
