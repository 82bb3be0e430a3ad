"""The lasso with given edges, in two methods for numbers: of a precision matrix, and of regressions.

The graphical lasso has the penalty λ on the candidates, 0 on given edges, and ∞ outside the superset, as in
appendix B of Vats and Nowak. Correlations, not covariances, are penalised. A path warm-starts each λ from the
one before. Neighbourhood selection regresses each vertex on its neighbours in the superset, without a penalty
on given ones. One λ, chosen by the graph as a whole, serves all vertices.

References:
    J. Friedman, T. Hastie, R. Tibshirani, Sparse inverse covariance estimation with the graphical lasso,
    Biostatistics 9, 2008.
    N. Meinshausen, P. Bühlmann, High-dimensional graphs and variable selection with the lasso, Annals of
    Statistics 34, 2006.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jtsolve.selection.choosing import Criterion, Ebic, choose_graph, require_parameter
from jtsolve.selection.gaussian import ON_A_PATH, CovarianceEstimate, graphical_lasso, nearer
from jtsolve.selection.samples import GaussianSample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.selection.method import Decision, Task
    from jtsolve.selection.samples import Sample

_LOWEST = 0.05
"""The smallest λ of a path, as a share of the largest."""
_TOLERANCE = 1e-7


@dataclass(frozen=True, slots=True)
class _Lasso(ABC):
    """What both methods share: λ, and the refusal of states."""

    words: ClassVar[str]
    """The method at the beginning of its refusal."""
    criterion: float | Criterion = Ebic()  # noqa: RUF009 - a frozen value

    def __post_init__(self) -> None:
        require_parameter(self.criterion)

    def objection(self, sample: Sample) -> str | None:
        """See `SelectionMethod`."""
        refusal = f"{self.words} is for numbers, not for states; use pc"
        return None if isinstance(sample, GaussianSample) else refusal

    def decide(self, sample: Sample, task: Task, seed: int) -> Decision:
        """See `SelectionMethod`."""
        assert isinstance(sample, GaussianSample), "checked by `objection`"
        return choose_graph(self, self.criterion, sample, task, seed)

    def span(self, correlation: NDArray[np.float64], task: Task) -> tuple[float, float]:
        """See `PathMethod`."""
        largest = float(np.abs(correlation[task.candidates]).max(initial=0.0))
        return largest, _LOWEST * largest

    @abstractmethod
    def walk(
        self, correlation: NDArray[np.float64], rows: int, task: Task, parameters: Sequence[float]
    ) -> Iterator[NDArray[np.bool_]]:
        """See `PathMethod`."""


@dataclass(frozen=True, slots=True)
class GraphicalLasso(_Lasso):
    """The graphical lasso; for numbers.

    Args:
        criterion: chooses λ; or λ itself, a number above 0.

    Raises:
        ChoiceError: λ is not above 0.
    """

    name: ClassVar[str] = "glasso"
    words: ClassVar[str] = "the graphical lasso"

    def walk(
        self, correlation: NDArray[np.float64], rows: int, task: Task, parameters: Sequence[float]
    ) -> Iterator[NDArray[np.bool_]]:
        """See `PathMethod`."""
        del rows  # the penalty is as given
        penalty = np.where(task.graph, 0.0, np.inf)
        start: CovarianceEstimate | None = None
        before = 0.0
        for value in parameters:
            penalty[task.candidates] = value
            begin = None if start is None else nearer(start, correlation, min(value / before, 1.0))
            start, before = graphical_lasso(correlation, penalty, begin, ON_A_PATH), value
            yield start.support & task.candidates


@dataclass(frozen=True, slots=True)
class NeighbourhoodSelection(_Lasso):
    """Neighbourhood selection; for numbers.

    Args:
        criterion: chooses λ; or λ itself, a number above 0.

    Raises:
        ChoiceError: λ is not above 0.
    """

    name: ClassVar[str] = "neighbourhood"
    words: ClassVar[str] = "neighbourhood selection"

    def walk(
        self, correlation: NDArray[np.float64], rows: int, task: Task, parameters: Sequence[float]
    ) -> Iterator[NDArray[np.bool_]]:
        """See `PathMethod`."""
        from jtsolve.selection.kernels.lasso import regressions

        del rows  # the penalty is as given
        slopes = np.zeros_like(correlation)
        regressed = task.candidates.any(axis=1)
        for value in parameters:
            penalty = np.where(task.candidates, value, 0.0)
            regressions(correlation, task.graph, penalty, regressed, slopes, _TOLERANCE)
            chosen = (slopes != 0) & task.candidates
            yield chosen & chosen.T
