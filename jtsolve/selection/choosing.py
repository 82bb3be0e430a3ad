"""Choosing the parameter of a method along a path of graphs: EBIC, BIC, StARS, or cross-validation.

The likelihood of a graph is that of covariance selection on it and the given edges: all methods are
compared by one criterion instead of their own biased estimates:

    EBIC = −2 ln L + k ln N + 4 γ k ln m,   k candidates kept, N rows, m columns;   BIC is EBIC with γ = 0

References:
    R. Foygel, M. Drton, Extended Bayesian information criteria for Gaussian graphical models, NIPS 2010.
    H. Liu, K. Roeder, L. Wasserman, Stability approach to regularization selection (StARS), NIPS 2010.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, log, sqrt
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

import numpy as np

from jtsolve.errors import ChoiceError, InputError
from jtsolve.selection.gaussian import ON_A_PATH, covariance_selection
from jtsolve.selection.method import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.selection.method import Task
    from jtsolve.selection.samples import GaussianSample

    Graph = NDArray[np.bool_]

_GRID = 16
"""Parameters of a path; EBIC and cross-validation try as many more between the neighbours of the best."""
_REFINED = 8
_STARS_ROWS = 10.0
"""StARS draws 10 √N rows (Liu, Roeder and Wasserman)."""


@dataclass(frozen=True, slots=True)
class Ebic:
    """The extended Bayesian information criterion.

    Args:
        gamma: weight of the number of graphs, 0 or more; 0 is BIC.
    """

    name: ClassVar[str] = "ebic"
    main: ClassVar[str] = "gamma"
    gamma: float = 0.5

    def __post_init__(self) -> None:
        if not (isfinite(self.gamma) and self.gamma >= 0):
            raise ChoiceError(f"gamma is {self.gamma}; give a number of 0 or more")


@dataclass(frozen=True, slots=True)
class Stars:
    """Stability: the densest graph whose edges vary little between subsamples.

    Args:
        beta: maximum variation, the mean of 2 f (1 − f) over the candidates, f the share of subsamples that
            keep a candidate; above 0 and at most 0.5.
        draws: number of subsamples, at least 2.
    """

    name: ClassVar[str] = "stars"
    main: ClassVar[str] = "beta"
    beta: float = 0.05
    draws: int = 20

    def __post_init__(self) -> None:
        if not 0 < self.beta <= 0.5:  # noqa: PLR2004 - the maximum of 2 f (1 − f)
            raise ChoiceError(f"beta is {self.beta}; give a number above 0 and at most 0.5")
        if self.draws < 2:  # noqa: PLR2004 - one never varies
            raise ChoiceError(f"{self.draws} subsamples; give 2 or more")


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """The likelihood of held-out rows.

    Args:
        folds: number of folds, at least 2.
    """

    name: ClassVar[str] = "cv"
    main: ClassVar[str] = "folds"
    folds: int = 5

    def __post_init__(self) -> None:
        if self.folds < 2:  # noqa: PLR2004 - one to learn from, one to test on
            raise ChoiceError(f"{self.folds} folds; give 2 or more")


Criterion: TypeAlias = Ebic | Stars | CrossValidation


def require_parameter(criterion: float | Criterion, below: float = inf) -> None:
    """Checks that a parameter, where one is given in place of a criterion, is above 0 and below a limit.

    Raises:
        ChoiceError: the parameter is outside these limits.
    """
    if isinstance(criterion, float | int) and not 0 < criterion < below:
        limit = f"above 0 and below {below:g}" if below < inf else "above 0"
        raise ChoiceError(f"the parameter is {criterion}; give a finite number {limit}")


class PathMethod(Protocol):
    """A method with a parameter, from the sparsest graph to the densest."""

    def span(self, correlation: NDArray[np.float64], task: Task) -> tuple[float, float]:
        """Returns the parameters of the empty (or nearly empty) graph and of the densest graph on the path.

        `correlation` has shape (n, n).
        """
        ...

    def walk(
        self, correlation: NDArray[np.float64], rows: int, task: Task, parameters: Sequence[float]
    ) -> Iterator[Graph]:
        """Yields the candidates kept at each parameter, given from the sparsest graph to the densest.

        Args:
            correlation: shape (n, n).
            rows: N.
            task: the candidates and the edges that are given.
            parameters: from the sparsest graph to the densest.
        """
        ...


def choose_graph(
    method: PathMethod, criterion: float | Criterion, moments: GaussianSample, task: Task, seed: int
) -> Decision:
    """Returns the graph of a method at a given parameter, or at the one that a criterion chooses.

    Args:
        method: selects a graph at each parameter.
        criterion: chooses the parameter; or the parameter itself.
        moments: of the columns.
        task: the candidates and the edges that are given.
        seed: seed of subsamples and folds.

    Raises:
        InputError: the criterion needs rows, and there are none or too few.
    """
    correlation, shrinkage = moments.regular(task.given)
    if isinstance(criterion, float | int):
        (kept,) = method.walk(correlation, moments.rows, task, [criterion])
        return Decision(kept, criterion, shrinkage)
    first, last = method.span(correlation, task)
    if not task.candidates.any() or first <= 0:
        return Decision(np.zeros_like(task.candidates), first, shrinkage)
    grid = np.geomspace(first, last, _GRID).tolist()
    if isinstance(criterion, Stars):
        parameter = _most_stable(method, criterion, moments, task, grid=grid, seed=seed)
        (kept,) = method.walk(correlation, moments.rows, task, [parameter])
        return Decision(kept, parameter, shrinkage)
    if isinstance(criterion, CrossValidation):
        return _by_validation(method, criterion, moments, task, grid=grid, seed=seed)
    score = EbicOfGraphs(correlation, moments.rows, task, criterion.gamma)
    parameter, kept = _best(method, correlation, moments.rows, task, grid=grid, score=score)
    return Decision(kept, parameter, shrinkage)


class EbicOfGraphs:
    """EBIC of graphs, each evaluated once, and a lower bound on EBIC by the number of edges."""

    def __init__(self, correlation: NDArray[np.float64], rows: int, task: Task, gamma: float) -> None:
        m = len(correlation)
        self._correlation, self._rows, self._given = correlation, rows, task.given
        self._price = log(rows) + 4 * gamma * log(m)
        self._seen: dict[bytes, float] = {}
        self.least = inf
        # The complete graph has the highest likelihood.
        self._most_likely = self._rows * (float(np.linalg.slogdet(correlation)[1]) + m)

    def __call__(self, kept: Graph) -> float:
        """Returns the EBIC of a graph."""
        key = np.packbits(kept).tobytes()
        value = self._seen.get(key)
        if value is None:
            fit = covariance_selection(self._correlation, self._given | kept, ON_A_PATH)
            deviance = self._rows * (fit.log_determinant + len(self._correlation))
            value = self._seen[key] = deviance + int(kept.sum()) // 2 * self._price
            self.least = min(self.least, value)
        return value

    def is_excluded(self, kept: Graph) -> bool:
        """Returns whether no graph with as many edges can be the best."""
        return self._most_likely + int(kept.sum()) // 2 * self._price > self.least


def _best(
    method: PathMethod,
    correlation: NDArray[np.float64],
    rows: int,
    task: Task,
    *,
    grid: Sequence[float],
    score: EbicOfGraphs,
) -> tuple[float, Graph]:
    """Returns the parameter and graph of the least criterion, on a grid refined once around the best."""
    found: list[tuple[float, int, float, Graph]] = []
    for _ in range(2):
        at, least = 0, inf
        for place, kept in enumerate(method.walk(correlation, rows, task, grid)):
            if score.is_excluded(kept):
                break
            value = score(kept)
            found.append((value, int(kept.sum()), grid[place], kept))
            if value < least:
                at, least = place, value
        ends = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
        grid = np.geomspace(*ends, _REFINED + 2)[1:-1].tolist()
    _, _, parameter, kept = min(found, key=lambda entry: entry[:2])
    return parameter, kept


def _most_stable(
    method: PathMethod,
    criterion: Stars,
    moments: GaussianSample,
    task: Task,
    *,
    grid: Sequence[float],
    seed: int,
) -> float:
    """Returns the parameter of the densest graph of the grid before the variation exceeds β."""
    size = int(_STARS_ROWS * sqrt(moments.rows))
    if size >= moments.rows:
        size = int(0.8 * moments.rows)  # the rule of the R package huge for few rows
    _require_rows(moments, size)
    draw = np.random.default_rng(seed)
    drawn = [draw.choice(moments.rows, size, replace=False) for _ in range(criterion.draws)]
    share = np.zeros((len(grid), *task.candidates.shape))
    for rows in drawn:
        correlation, _ = moments.of_rows(rows).regular(task.given)
        share += np.stack(list(method.walk(correlation, size, task, grid)))
    share /= criterion.draws
    variation = (2 * share * (1 - share))[:, task.candidates].mean(axis=1)
    within = np.maximum.accumulate(variation) <= criterion.beta
    return grid[max(int(within.sum()) - 1, 0)]


def _by_validation(
    method: PathMethod,
    criterion: CrossValidation,
    moments: GaussianSample,
    task: Task,
    *,
    grid: Sequence[float],
    seed: int,
) -> Decision:
    """Returns the graph at the parameter with the highest held-out likelihood of its refitted graphs."""
    _require_rows(moments, moments.rows // criterion.folds)
    order = np.random.default_rng(seed).permutation(moments.rows)
    folds = np.array_split(order, criterion.folds)
    total = np.zeros(len(grid))
    for held in folds:
        total += _held_out(method, moments, task, grid, held)
    correlation, shrinkage = moments.regular(task.given)
    parameter = grid[int(np.argmax(total))]
    (kept,) = method.walk(correlation, moments.rows, task, [parameter])
    return Decision(kept, parameter, shrinkage)


def _held_out(
    method: PathMethod, moments: GaussianSample, task: Task, grid: Sequence[float], held: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Returns twice the log-likelihood of held-out rows at each parameter, up to a constant."""
    assert moments.values is not None, "required"
    part = moments.of_rows(np.setdiff1d(np.arange(moments.rows), held))
    correlation, _ = part.regular(task.given)
    test = moments.values[:, held]
    second = test @ test.T / len(held)
    found = []
    for kept in method.walk(correlation, part.rows, task, grid):
        fit = covariance_selection(correlation, task.given | kept, ON_A_PATH)
        found.append(-len(held) * (fit.log_determinant + float((fit.precision * second).sum())))
    return np.array(found)


def _require_rows(moments: GaussianSample, size: int) -> None:
    if moments.values is None or size < 3:  # noqa: PLR2004 - fewer have no partial correlation
        reason = "too few for the subsamples of stars or the folds of cv"
        raise InputError("table", "rows", reason, "choose the parameter by ebic, or give it")
