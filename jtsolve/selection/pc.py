"""The PC algorithm for undirected graphs: Algorithm 4 of Vats and Nowak, without its dependence on order.

    for k = 0..η, for each candidate ij left: S_ij ← the neighbours of i or of j, whichever are fewer;
        delete ij if some S ⊆ S_ij of k vertices has X_i ⫫ X_j | X_S

Neighbours are fixed at the start of each k (PC-stable), so that the result does not depend on the order of
the columns; in Algorithm 4, they shrink as edges are deleted.

Tests at level α: Fisher's z of numbers; for states the G test, over the strata s of S, with o observed and e
expected counts,

    G = 2 Σ o ln(o / e),   degrees of freedom Σ_s (rows_s − 1)(columns_s − 1),

where empty rows and columns of a stratum are left out.

References:
    R. A. Fisher, On the probable error of a coefficient of correlation, Metron 1, 1921.
    P. Spirtes, C. Glymour, R. Scheines, Causation, Prediction, and Search, 2nd edition, MIT 2000 (G²).
    P. Spirtes, C. Glymour, An algorithm for fast recovery of sparse causal graphs, 1991.
    D. Colombo, M. Maathuis, Order-independent constraint-based causal structure learning, JMLR 15, 2014.
    M. Kalisch, P. Bühlmann, Estimating high-dimensional directed acyclic graphs with the PC-algorithm, JMLR
    8, 2007.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import sqrt, tanh
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jtsolve.errors import ChoiceError
from jtsolve.selection.choosing import choose_graph, require_parameter
from jtsolve.selection.method import Decision, Task
from jtsolve.selection.samples import GaussianSample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.selection.choosing import Criterion
    from jtsolve.selection.samples import DiscreteSample, Sample

_LARGEST_LEVEL = 0.2
_LEAST_LEVEL = 1e-8
"""Range of the levels α from which a criterion chooses."""


@dataclass(frozen=True, slots=True)
class PC:
    """The PC algorithm; for numbers and states.

    Args:
        depth: η, the largest |S|.
        criterion: the level α of the tests, above 0 and below 1; for numbers, or a criterion that chooses α.

    Raises:
        ChoiceError: the depth is negative, or the level is not between 0 and 1.
    """

    name: ClassVar[str] = "pc"
    depth: int = 2
    criterion: float | Criterion = 0.01

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise ChoiceError(f"the depth is {self.depth}; give a number of 0 or more")
        require_parameter(self.criterion, below=1.0)

    def objection(self, sample: Sample) -> str | None:
        """See `SelectionMethod`."""
        if not isinstance(sample, GaussianSample) and not isinstance(self.criterion, float | int):
            return "for states, pc needs a level of its tests, such as pc:criterion=0.01"
        return None

    def decide(self, sample: Sample, task: Task, seed: int) -> Decision:
        """See `SelectionMethod`."""
        if not isinstance(sample, GaussianSample):
            return self._states(sample, task)
        if isinstance(self.criterion, float | int):  # tests need no regular matrix, and so no shrinkage
            (kept,) = self.walk(sample.correlation, sample.rows, task, [self.criterion])
            return Decision(kept, self.criterion)
        return choose_graph(self, self.criterion, sample, task, seed)

    def span(self, correlation: NDArray[np.float64], task: Task) -> tuple[float, float]:
        """See `PathMethod`."""
        del correlation, task  # the levels are the same for all data
        return _LEAST_LEVEL, _LARGEST_LEVEL

    def walk(
        self, correlation: NDArray[np.float64], rows: int, task: Task, parameters: Sequence[float]
    ) -> Iterator[NDArray[np.bool_]]:
        """See `PathMethod`."""
        from jtsolve.selection.kernels.independence import prune_candidates

        for value in parameters:
            left = task.candidates.copy()
            limits = thresholds(value, rows, self._deepest(len(left)))
            prune_candidates(correlation, task.graph.copy(), left, limits)
            yield left

    def _states(self, sample: DiscreteSample, task: Task) -> Decision:
        """Decides by tests of states."""
        level = self.criterion
        assert isinstance(level, float | int), "checked by `objection`"
        graph, left = task.graph.copy(), task.candidates.copy()
        for size in range(self._deepest(sample.n) + 1):
            if size >= graph.sum(axis=0).max(initial=0):
                break
            seen = graph.copy()
            for i, j in np.argwhere(np.triu(left)).tolist():
                end = min((i, j), key=lambda end: int(seen[end].sum()))
                around = [v for v in np.flatnonzero(seen[end]).tolist() if v not in (i, j)]
                if any(are_independent(sample, i, j, given, level) for given in combinations(around, size)):
                    left[i, j] = left[j, i] = graph[i, j] = graph[j, i] = False
        return Decision(left, level)

    def _deepest(self, n: int) -> int:
        """Returns the largest |S| among n columns."""
        return min(self.depth, max(n - 2, 0))


def thresholds(level: float, rows: int, depth: int) -> NDArray[np.float64]:
    """Returns the critical values of |ρ_ij|S| for |S| = 0..depth: smaller ones count as independence.

    The result has shape (depth + 1,).

    Args:
        level: α.
        rows: N.
        depth: the largest |S|.
    """
    from scipy.special import ndtri

    quantile = -float(ndtri(level / 2))
    # Fisher's z needs more rows than |S| + 3; without them, no correlation is significant.
    return np.array(
        [tanh(quantile / sqrt(rows - size - 3)) if rows > size + 3 else 1.5 for size in range(depth + 1)]
    )


def are_independent(sample: DiscreteSample, i: int, j: int, given: Sequence[int], level: float) -> bool:
    """Returns whether the G test accepts the independence of X_i and X_j given X_S.

    Args:
        sample: the columns.
        i: first vertex.
        j: second vertex.
        given: S.
        level: α.
    """
    from scipy.special import chdtrc

    codes = sample.codes
    stratum = np.zeros(codes.shape[1], dtype=np.int64)
    for v in given:
        stratum = stratum * int(sample.arities[v]) + codes[v]
    if len(given):
        _, stratum = np.unique(stratum, return_inverse=True)
    a, b = int(sample.arities[i]), int(sample.arities[j])
    strata = int(stratum.max()) + 1
    cells = (stratum * a + codes[i]) * b + codes[j]
    observed = np.bincount(cells, sample.weights, minlength=strata * a * b).reshape(strata, a, b)
    of_i, of_j = observed.sum(axis=2), observed.sum(axis=1)
    freedom = int((((of_i > 0).sum(axis=1) - 1) * ((of_j > 0).sum(axis=1) - 1)).sum())
    if freedom == 0:
        return True
    expected = of_i[:, :, None] * of_j[:, None, :] / of_i.sum(axis=1)[:, None, None]
    inside = observed > 0
    statistic = float(2 * (observed[inside] * np.log(observed[inside] / expected[inside])).sum())
    return level <= float(chdtrc(freedom, statistic))
