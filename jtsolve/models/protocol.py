"""The questions that every distribution answers, and the form of the answers.

Junction trees of states and of real numbers, feature trees, mixtures and Bayesian networks are distributions.
Those that a question does not suit refuse it with a `ChoiceError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.draw.branching import Box
    from jtsolve.draw.text import Notes
    from jtsolve.models.columns import Column, RealColumn
    from jtsolve.networks.network import Network
    from jtsolve.tables.frames import FrameStyle
    from jtsolve.tables.margins import Margin
    from jtsolve.tables.table import Codes, DataTable

    Groups: TypeAlias = Sequence[Sequence[str]]
    Posterior: TypeAlias = "StatePosterior | RealPosterior | MixedPosterior"
    Rows: TypeAlias = NDArray[Any]

Evidence: TypeAlias = "Mapping[str, Any]"
"""By variable: the label of its state, a non-negative likelihood for each of its states, or a real number."""

Model_co = TypeVar("Model_co", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Conditioned(Generic[Model_co]):
    """A model given evidence.

    Attributes:
        model: P(x | evidence); of states, on the same trees and columns.
        log_probability: ln P(evidence), in nats; of soft evidence, ln of the expected likelihood; of real
            numbers, ln of their density.
    """

    model: Model_co
    log_probability: float


@dataclass(frozen=True, slots=True)
class Configuration:
    """A value for every variable.

    Attributes:
        values: labels of states, or real numbers, by variable.
        log_probability: ln P of the configuration, or of its density, in nats.
    """

    values: tuple[Any, ...]
    log_probability: float


class Explanation(NamedTuple):
    """The most probable configurations given evidence.

    Attributes:
        best: with ln P(configuration | evidence), best first.
        log_probability: ln P(evidence), in nats.
    """

    best: list[Configuration]
    log_probability: float


@dataclass(frozen=True, slots=True, eq=False)
class StatePosterior:
    """Probabilities of states.

    Attributes:
        groups: the variables of each group.
        tables: of each group, P(group | evidence), one axis each.
        log_probability: ln P(evidence), in nats; None if its tables do not fit in memory. The answers then
            assume that the evidence is possible.
        refusal: why it is None; otherwise empty.
    """

    groups: tuple[tuple[Column, ...], ...]
    tables: tuple[NDArray[np.float64], ...]
    log_probability: float | None
    refusal: str = ""

    def _labelled(self) -> list[tuple[list[str], list[tuple[str, ...]], list[float]]]:
        """Returns the names of each group, its configurations, and their probabilities."""
        from itertools import product

        return [
            (
                [one.name for one in group],
                list(product(*(one.states for one in group))),
                table.ravel().tolist(),
            )
            for group, table in zip(self.groups, self.tables, strict=True)
        ]

    def facts(self) -> dict[str, Any]:
        """Returns the answer as JSON values."""
        targets = [
            {"variables": names, "states": labels, "probabilities": numbers}
            for names, labels, numbers in self._labelled()
        ]
        return {"log_probability_of_evidence": self.log_probability, "targets": targets}

    def printed(self) -> list[tuple[list[str], list[list[Any]]]]:
        """Returns tables for people, headings and rows each: one for each group."""
        return [
            ([*names, "P"], [[*label, number] for label, number in zip(labels, numbers, strict=True)])
            for names, labels, numbers in self._labelled()
        ]

    def frame(self, style: FrameStyle) -> Any:
        """Returns the answer about a single group as a frame: a row for each combination of states."""
        (group,), (table,) = self.groups, self.tables
        codes = np.indices(table.shape).reshape(len(group), -1)
        columns = [column.series(style, row) for column, row in zip(group, codes, strict=True)]
        name = unused("probability", [column.name for column in group])
        return style.frame([*columns, style.numbers(name, table.ravel())])

    def listed(self, style: FrameStyle) -> Any:
        """Returns the answer about single variables as a frame: a row for each state."""
        found = [
            (name, label[0], p) for (name,), *rest in self._labelled() for label, p in zip(*rest, strict=True)
        ]
        words = (
            style.variables([one[0] for one in found]),
            style.words("state", [one[1] for one in found]),
        )
        return style.frame([*words, style.numbers("probability", np.array([one[2] for one in found]))])


LEVELS = (0.05, 0.5, 0.95)
"""Levels of the quantiles in answers for people and frames."""

FIGURES = ("mean", "deviation", *(f"{level:.0%}" for level in LEVELS))
"""Figures of a real variable in these answers."""


_NODES = 10
"""Of Gauss's rule, between two ends."""
_ENDS = (-9, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 9)
"""In deviations from the mean of a normal distribution."""


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

    def moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the mean of the variable, shape (1,), and its variance, shape (1, 1)."""
        means, variances = self.means, self.variances
        if self.margin is not None:
            means, variances = self.margin.moments(means, variances)
        mean = self.weights @ means
        variance = self.weights @ (variances + (means - mean) ** 2)
        return np.array([mean]), np.array([[variance]])

    def nodes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns scores and weights whose sums are expectations, shape (nodes,) each, by quadrature.

        Gauss's rule between the knots, and around the components: of functions that are smooth there.
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
        """Returns the number below which a share of the mass lies, to rounding, by bisection.

        Raises:
            ChoiceError: the level is not between 0 and 1.
        """
        from scipy.special import ndtr, ndtri

        if not 0 < level < 1:
            raise ChoiceError(f"the level of a quantile is {level}; give a number between 0 and 1")
        deviations = np.sqrt(self.variances)
        each = self.means + ndtri(level) * deviations
        low, high = float(each.min()), float(each.max())  # the mixture's lies between its components'
        while low < (middle := low + (high - low) / 2) < high:
            if self.weights @ ndtr((middle - self.means) / deviations) < level:
                low = middle
            else:
                high = middle
        return high if self.margin is None else float(self.margin.to_values(np.array(high)))


@dataclass(frozen=True, slots=True, eq=False)
class RealPosterior:
    """Means, covariances and quantiles of real numbers.

    Attributes:
        groups: the names of each group.
        means: of each group.
        covariances: of each group, shape (members, members).
        log_probability: ln of the density of the evidence, in nats.
        margins: of each group, the distribution of each variable.
    """

    groups: tuple[tuple[str, ...], ...]
    means: tuple[NDArray[np.float64], ...]
    covariances: tuple[NDArray[np.float64], ...]
    log_probability: float
    margins: tuple[tuple[Normals, ...], ...]
    refusal: str = ""

    def quantiles(self, levels: Sequence[float] = LEVELS) -> tuple[NDArray[np.float64], ...]:
        """Returns the quantiles of each variable, exactly: of each group, shape (members, levels).

        Raises:
            ChoiceError: a level is not between 0 and 1.
        """
        return tuple(
            np.array([[one.quantile(level) for level in levels] for one in own]) for own in self.margins
        )

    def facts(self) -> dict[str, Any]:
        """Returns the answer as JSON values."""
        targets = [
            {
                "variables": list(group),
                "mean": mean.tolist(),
                "covariance": matrix.tolist(),
                "quantiles": {str(level): own.tolist() for level, own in zip(LEVELS, each.T, strict=True)},
            }
            for group, mean, matrix, each in zip(
                self.groups, self.means, self.covariances, self.quantiles(), strict=True
            )
        ]
        return {"log_density_of_evidence": self.log_probability, "targets": targets}

    def printed(self) -> list[tuple[list[str], list[list[Any]]]]:
        """Returns one table for people, headings and rows, with the covariances of groups of several."""
        rows = []
        figures = iter(self._figures())
        for group, matrix in zip(self.groups, self.covariances, strict=True):
            for k, name in enumerate(group):
                more = matrix[k].tolist() if len(group) > 1 else []
                rows.append([name, *next(figures).tolist(), *more])
        first = ["variable", *FIGURES]
        widest = max(map(len, rows), default=len(first))
        headings = [*first, *(f"cov {k + 1}" for k in range(widest - len(first)))]
        return [(headings, [[*row, *[""] * (widest - len(row))] for row in rows])]

    def _figures(self) -> NDArray[np.float64]:
        """Returns `FIGURES` of each variable."""
        each = zip(self.means, self.covariances, self.quantiles(), strict=True)
        parts = [np.column_stack([mean, np.sqrt(np.diag(matrix)), own]) for mean, matrix, own in each]
        return np.concatenate([np.empty((0, len(FIGURES))), *parts])

    def frame(self, style: FrameStyle) -> Any:
        """Returns the answer as a frame: a row for each variable, with mean, deviation and quantiles."""
        figures = zip(FIGURES, self._figures().T, strict=True)
        names = [name for group in self.groups for name in group]
        return style.frame([style.variables(names), *(style.numbers(*one) for one in figures)])

    listed = frame


@dataclass(frozen=True, slots=True, eq=False)
class MixedPosterior:
    """Probabilities of states, and figures of real numbers.

    Attributes:
        states: of the groups of discrete variables.
        numbers: of the others.
    """

    states: StatePosterior
    numbers: RealPosterior
    refusal: str = ""

    @property
    def log_probability(self) -> float:
        """Ln of the density of the evidence, in nats."""
        return self.numbers.log_probability

    def facts(self) -> dict[str, Any]:
        """Returns the answer as JSON values."""
        own = self.numbers.facts()
        return {**own, "targets": [*self.states.facts()["targets"], *own["targets"]]}

    def printed(self) -> list[tuple[list[str], list[list[Any]]]]:
        """Returns tables for people, headings and rows each."""
        return [*self.states.printed(), *self.numbers.printed()]

    def listed(self, style: FrameStyle) -> Any:
        """Returns the answer about single variables as a frame: a row for each state, or real variable."""
        rows = [
            (name, label[0], p, *[np.nan] * len(FIGURES))
            for (name,), *rest in self.states._labelled()  # noqa: SLF001 - of the same module
            for label, p in zip(*rest, strict=True)
        ]
        each = zip(self.numbers.groups, self.numbers._figures().tolist(), strict=True)  # noqa: SLF001
        rows += [(name, "", np.nan, *own) for (name,), own in each]
        names, labels, *figures = zip(*rows, strict=True)
        columns = [style.variables(list(names)), style.words("state", list(labels))]
        for name, values in zip(("probability", *FIGURES), figures, strict=True):
            columns.append(style.numbers(name, np.array(values)))
        return style.frame(columns)

    frame = listed


@dataclass(frozen=True, slots=True)
class Description:
    """A model for people.

    Attributes:
        facts: sizes and informations, as JSON values; lists are for programs only.
        parts: facts of each component of a mixture.
        trees: of the model or its parts, with notes or None.
        boxes: the nodes of feature trees, of the model or its parts.
        remark: a sentence, or empty.
    """

    facts: dict[str, Any]
    parts: tuple[dict[str, Any], ...] = ()
    trees: tuple[tuple[JunctionTree, Notes | None], ...] = ()
    boxes: tuple[list[Box], ...] = ()
    remark: str = ""


class Distribution(Protocol):
    """A distribution of the rows of a table.

    Rows are arrays of shape (variables, rows): codes of states, -1 for a missing value; or real numbers, NaN
    for a missing value.
    """

    @property
    def columns(self) -> tuple[Column | RealColumn, ...]:
        """The variables."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""

    @property
    def n(self) -> int:
        """The number of variables."""

    @property
    def parameters(self) -> int:
        """The number of free parameters."""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Remarks on the origin."""

    @property
    def is_continuous(self) -> bool:
        """Whether the variables are real numbers; probabilities are then densities."""

    def log_likelihood(self, rows: Rows) -> NDArray[np.float64]:
        """Returns ln P(row) for every row, in nats, shape (rows,); -inf for impossible rows.

        Missing values are summed out.
        """

    def condition(self, evidence: Evidence) -> Conditioned[Distribution]:
        """Returns the model given evidence; raises InputError if it is unknown or impossible."""

    def marginals(self) -> tuple[Any, ...]:
        """Returns the distribution of every variable: a probability a state, or mean and variance."""

    def posterior(
        self, groups: Groups, evidence: Evidence, *, memory: int | None = None, run: Run | None = None
    ) -> Posterior:
        """Returns the joint distribution of each group of variables given evidence.

        Names and sizes are checked first.

        Args:
            groups: names, at least one a group.
            evidence: see `Evidence`.
            memory: most bytes of tables; None for the free memory.
            run: shows progress; None for none.

        Raises:
            InputError: a variable or state is unknown, a group names none or one twice, or the evidence is
                impossible.
            LimitError: the tables do not fit in memory; raised before they are built.
        """

    def explain(
        self, evidence: Evidence, k: int = 1, *, memory: int | None = None, run: Run | None = None
    ) -> Explanation:
        """Returns the k most probable configurations given evidence; fewer if the others are impossible.

        Args:
            evidence: hard or soft.
            k: number of configurations.
            memory: limit in bytes.
            run: receives progress.

        Raises:
            ChoiceError: k is below 1, or more than the model can tell.
            InputError, LimitError: see `posterior`.
        """

    def sample(self, rows: int, seed: int = 0, evidence: Evidence = ...) -> Rows:
        """Returns independent rows given evidence, reproducible by model, number of rows and seed.

        Args:
            rows: their number.
            seed: of the draws.
            evidence: hard or soft.

        Raises:
            ChoiceError: a number is negative.
            InputError: see `condition`.
            LimitError: the rows do not fit in memory.
        """

    def predict(self, rows: Rows, v: int) -> Rows:
        """Returns the best value of variable v given the rest of each row; missing if that is impossible.

        Of states the most probable one, of real numbers the mean.
        """

    def complete(self, rows: Rows) -> Rows:
        """Returns rows with the most probable missing values; impossible rows keep their gaps."""

    def entropy(self) -> float:
        """Returns -E ln P, in nats."""

    def junction_tree(self, what: str) -> Any:
        """Returns the distribution as a junction tree of states; `what` names the request in the refusal."""

    def network(self, what: str, root: int = 0) -> Network:
        """Returns the same distribution as a Bayesian network; `what` names the request in the refusal.

        Args:
            what: name of the request in the refusal.
            root: the root clique of a junction tree, by its position.

        Raises:
            ChoiceError: there is no such clique, or no junction tree of states.
        """

    def structure(self, what: str) -> JunctionTree:
        """Returns the junction tree without tables; `what` names the request in the refusal."""

    def describe(self) -> Description:
        """Returns sizes, informations and drawings."""

    def to_document(self) -> dict[str, Any]:
        """Returns the fields of a model file, less format and provenance."""


class StateDistribution(Distribution, Protocol):
    """A distribution of states.

    Attributes:
        cells: the number of cells of all tables.
    """

    @property
    def cells(self) -> int: ...  # noqa: D102

    @property
    def columns(self) -> tuple[Column, ...]:
        """The variables."""

    def log_likelihood(self, rows: DataTable | Codes) -> NDArray[np.float64]:
        """See `Distribution`; rows may be a table with the columns of the model."""

    def condition(self, evidence: Evidence) -> Conditioned[StateDistribution]:
        """See `Distribution`."""

    def marginals(self) -> tuple[NDArray[np.float64], ...]:
        """See `Distribution`."""

    def marginal(self, names: Sequence[str], *, most_cells: int = ...) -> NDArray[np.float64]:
        """Returns the joint distribution of variables, shape (states, …), up to `most_cells` cells."""

    def junction_tree(self, what: str) -> StateDistribution:
        """See `Distribution`."""


def unused(name: str, names: Sequence[str]) -> str:
    """Returns the name of a further column, with an underscore if a variable has it."""
    return name if name not in names else f"{name}_"


def require_draws(rows: int, seed: int) -> None:
    """Checks the number of rows to draw, and the seed.

    Raises:
        ChoiceError: one is negative.
    """
    if rows < 0 or seed < 0:
        raise ChoiceError(f"{rows} rows with the seed {seed} cannot be drawn; give numbers of 0 or more")


def undrawable(what: str, kind: str, way: str) -> ChoiceError:
    """Returns the error for requests that need a single junction tree.

    Args:
        what: the request.
        kind: of the model.
        way: what to do.
    """
    return ChoiceError(f"{what} is for models of one junction tree, and this one is {kind}; {way}")
