"""The evidence of queries of distributions, and the form of the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.draw.branching import Box
    from jtsolve.draw.text import Notes
    from jtsolve.models.columns import Column
    from jtsolve.tables.frames import FrameStyle
    from jtsolve.tables.margins import Margin

    Groups: TypeAlias = Sequence[Sequence[str]]
    Rows: TypeAlias = NDArray[Any]

Evidence: TypeAlias = "Mapping[str, Any]"
"""By variable: the label of its state, a non-negative likelihood for each of its states, or a real number."""

Model_co = TypeVar("Model_co", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Conditioned(Generic[Model_co]):
    """A model given evidence.

    Attributes:
        model: P(x | evidence); a discrete model keeps its trees and columns.
        log_probability: ln P(evidence), in nats; for soft evidence, ln of the expected likelihood; for real
            numbers, ln of their density.
    """

    model: Model_co
    log_probability: float


@dataclass(frozen=True, slots=True)
class Configuration:
    """A value for every variable.

    Attributes:
        values: labels of states, or real numbers, by variable.
        log_probability: ln of the probability, or density, of the configuration, in nats.
    """

    values: tuple[Any, ...]
    log_probability: float


class Explanation(NamedTuple):
    """The most probable configurations given evidence.

    Attributes:
        best: the configurations, each with ln P(configuration | evidence), best first.
        log_probability: ln P(evidence), in nats.
    """

    best: list[Configuration]
    log_probability: float


LEVELS = (0.05, 0.5, 0.95)
"""Levels of the quantiles in answers for people and frames."""

FIGURES = ("mean", "deviation", *(f"{level:.0%}" for level in LEVELS))
"""Figures of a real variable in these answers."""

_NODES = 10
"""Nodes of Gauss's rule in each interval."""
_ENDS = (-9, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 9)
"""Ends of its intervals, in standard deviations from the mean of a normal component."""


class Normals(NamedTuple):
    """A real variable whose score is a mixture of normal distributions.

    Attributes:
        weights: of the components, shape (components,).
        means: shape (components,).
        variances: shape (components,).
        margin: the map from the variable to the score; None if they are equal.
    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    margin: Margin | None = None

    def moments(self) -> tuple[float, float]:
        """Returns the mean and the variance of the variable."""
        means, variances = self.means, self.variances
        if self.margin is not None:
            means, variances = self.margin.moments(means, variances)
        mean = float(self.weights @ means)
        return mean, float(self.weights @ (variances + (means - mean) ** 2))

    def nodes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns nodes (scores) and weights of a quadrature for expectations, shape (nodes,) each.

        Gauss's rule between the knots and around the components; the integrand must be smooth there.
        """
        deviations = np.sqrt(self.variances)
        ends = np.add.outer(_ENDS, np.zeros(len(deviations))) * deviations + self.means
        inner = np.array([] if self.margin is None else self.margin.scores)
        inner = inner[(ends.min() < inner) & (inner < ends.max())]
        ends = np.unique(np.append(ends, inner))
        points, weights = np.polynomial.legendre.leggauss(_NODES)
        half = np.diff(ends)[:, None] / 2
        scores = (ends[:-1, None] + half * (1 + points)).ravel()
        steps = (scores[:, None] - self.means) / deviations
        density = np.exp(-0.5 * steps * steps) @ (self.weights / deviations) / np.sqrt(2 * np.pi)
        return scores, (half * weights).ravel() * density

    def quantile(self, level: float) -> float:
        """Returns the quantile of a level between 0 and 1, to rounding, by bisection.

        Raises:
            ChoiceError: the level is not between 0 and 1.
        """
        from scipy.special import ndtr, ndtri

        if not 0 < level < 1:
            raise ChoiceError(f"the level of a quantile is {level}; give a number between 0 and 1")
        deviations = np.sqrt(self.variances)
        each = self.means + ndtri(level) * deviations
        low, high = float(each.min()), float(each.max())  # it lies between those of the components
        while low < (middle := low + (high - low) / 2) < high:
            if self.weights @ ndtr((middle - self.means) / deviations) < level:
                low = middle
            else:
                high = middle
        return high if self.margin is None else float(self.margin.to_values(np.array(high)))


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Joint distributions of groups of variables given evidence.

    Attributes:
        log_probability: ln P(evidence), or of its density, in nats; None if its tables do not fit in memory.
            The answers then assume that the evidence is possible.
        refusal: why `log_probability` is None; otherwise empty.
        columns: the variables of each group of discrete ones.
        tables: of each of these groups, P(group | evidence), one axis for each variable.
        names: the names in each group of real variables.
        means: of each of these groups, shape (members,).
        covariances: of each of these groups, shape (members, members).
        margins: of each of these groups, the distribution of each variable.
    """

    log_probability: float | None
    refusal: str = ""
    columns: tuple[tuple[Column, ...], ...] = ()
    tables: tuple[NDArray[np.float64], ...] = ()
    names: tuple[tuple[str, ...], ...] = ()
    means: tuple[NDArray[np.float64], ...] = ()
    covariances: tuple[NDArray[np.float64], ...] = ()
    margins: tuple[tuple[Normals, ...], ...] = ()

    def quantiles(self, levels: Sequence[float] = LEVELS) -> tuple[NDArray[np.float64], ...]:
        """Returns the exact quantiles of each real variable: for each group, shape (members, levels).

        Raises:
            ChoiceError: a level is not between 0 and 1.
        """
        return tuple(
            np.array([[one.quantile(level) for level in levels] for one in own]) for own in self.margins
        )

    def _labelled(self) -> list[tuple[list[str], list[tuple[str, ...]], list[float]]]:
        """Returns the names of each discrete group, its configurations, and their probabilities."""
        from itertools import product

        return [
            (
                [one.name for one in group],
                list(product(*(one.states for one in group))),
                table.ravel().tolist(),
            )
            for group, table in zip(self.columns, self.tables, strict=True)
        ]

    def _figures(self) -> NDArray[np.float64]:
        """Returns `FIGURES` of each real variable."""
        each = zip(self.means, self.covariances, self.quantiles(), strict=True)
        parts = [np.column_stack([mean, np.sqrt(np.diag(matrix)), own]) for mean, matrix, own in each]
        return np.concatenate([np.empty((0, len(FIGURES))), *parts])

    def facts(self) -> dict[str, Any]:
        """Returns the answer as JSON values."""
        targets: list[dict[str, Any]] = [
            {"variables": names, "states": labels, "probabilities": numbers}
            for names, labels, numbers in self._labelled()
        ]
        each = zip(self.names, self.means, self.covariances, self.quantiles(), strict=True)
        for names, mean, matrix, own in each:
            quantiles = {str(level): one.tolist() for level, one in zip(LEVELS, own.T, strict=True)}
            figures = {"mean": mean.tolist(), "covariance": matrix.tolist(), "quantiles": quantiles}
            targets.append({"variables": list(names), **figures})
        what = "density" if self.names else "probability"
        return {f"log_{what}_of_evidence": self.log_probability, "targets": targets}

    def printed(self) -> list[tuple[list[str], list[list[Any]]]]:
        """Returns tables for people, headings and rows: one for each discrete group, one for real variables.

        Groups of several real variables have their covariances in further columns.
        """
        found = [
            ([*names, "P"], [[*label, number] for label, number in zip(labels, numbers, strict=True)])
            for names, labels, numbers in self._labelled()
        ]
        if not self.names:
            return found
        widest = max(map(len, self.names))
        widest = widest if widest > 1 else 0
        headings = ["variable", *FIGURES, *(f"cov {k + 1}" for k in range(widest))]
        figures = iter(self._figures().tolist())
        rows = []
        for group, matrix in zip(self.names, self.covariances, strict=True):
            for name, own in zip(group, matrix.tolist(), strict=True):
                row = [name, *next(figures), *(own if len(group) > 1 else [])]
                rows.append([*row, *[""] * (len(headings) - len(row))])
        return [*found, (headings, rows)]

    def frame(self, style: FrameStyle) -> Any:
        """Returns the answer about one group as a frame.

        It has a row for each combination of states, or a row for each real variable, as in `listed`.
        """
        if not self.columns:
            return self.listed(style)
        (group,), (table,) = self.columns, self.tables
        codes = np.indices(table.shape).reshape(len(group), -1)
        columns = [column.series(style, row) for column, row in zip(group, codes, strict=True)]
        name = unused("probability", [column.name for column in group])
        return style.frame([*columns, style.numbers(name, table.ravel())])

    def listed(self, style: FrameStyle) -> Any:
        """Returns the answer about single variables as a frame.

        It has a row for each state of a discrete variable, and one for each real variable, with its mean,
        deviation and quantiles.
        """
        states = [
            (name, label[0], p) for (name,), *rest in self._labelled() for label, p in zip(*rest, strict=True)
        ]
        real = [name for group in self.names for name in group]
        columns = [style.variables([*(one[0] for one in states), *real])]
        if self.columns or not self.names:
            columns.append(style.words("state", [*(one[1] for one in states), *[""] * len(real)]))
            shares = np.array([*(one[2] for one in states), *[np.nan] * len(real)])
            columns.append(style.numbers("probability", shares))
        if self.names:
            gaps = np.full((len(states), len(FIGURES)), np.nan)
            each = zip(FIGURES, np.concatenate([gaps, self._figures()]).T, strict=True)
            columns += [style.numbers(*one) for one in each]
        return style.frame(columns)


@dataclass(frozen=True, slots=True)
class Description:
    """Figures and drawings of a model, for people.

    Attributes:
        facts: sizes and information measures, as JSON values; lists are for programs only.
        parts: facts of each component of a mixture.
        trees: the junction trees of the model or its components, each with notes or None.
        boxes: the nodes of the feature tree of the model or its components.
        remark: a sentence, or empty.
    """

    facts: dict[str, Any]
    parts: tuple[dict[str, Any], ...] = ()
    trees: tuple[tuple[JunctionTree, Notes | None], ...] = ()
    boxes: tuple[list[Box], ...] = ()
    remark: str = ""


def unused(name: str, names: Container[str]) -> str:
    """Returns the name of an additional column, with underscores appended while it is that of another."""
    while name in names:
        name += "_"
    return name
