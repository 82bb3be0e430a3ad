"""Conditional Gaussian distributions on junction trees: discrete and real variables side by side.

Given the discrete variables, the real ones are jointly normal; in place of a column with a margin
(`tables.margins`), its normal score is. The tree is strongly rooted (`core.marks`). In each cell, a clique
has the probabilities of its discrete members outside the separator, and the regressions of its real members
outside the separator on those within: see `inference.mixed`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, pi
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import varset
from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.answers import Conditioned, Configuration, Description, Explanation, Normals, Posterior
from jtsolve.models.columns import Column, RealColumn, inner_knots, position
from jtsolve.models.documents import base64_of, column_document
from jtsolve.models.inference.evidence import state_likelihoods
from jtsolve.models.inference.mixed import (
    CliqueMoments,
    Message,
    MixedClique,
    blocks,
    collect,
    completed,
    components_of,
    conditional_shares,
    covariance_and_precision,
    log_densities,
    maximised,
    moments,
)
from jtsolve.models.inference.prediction import joint_table, targets_of
from jtsolve.models.layout import require_draws
from jtsolve.models.protocol import Distribution

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import NoReturn

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.models.answers import Evidence, Groups
    from jtsolve.tables.margins import Margin

_MOST_CELLS = 1 << 20
"""Largest number of cells of a joint distribution of discrete variables."""


@dataclass(frozen=True, eq=False, repr=False)
class MixedTreeModel(Distribution):
    """A conditional Gaussian distribution of the rows of a table of states and real numbers.

    Args:
        columns: the variables.
        cliques: from the root down, each after its parent.
        provenance: remarks on the origin.

    Attributes:
        tree: the junction tree of the same graph.

    Raises:
        ValueError: the cliques are not a strongly rooted junction tree, a shape is wrong, probabilities do
            not sum to 1, or a covariance is not symmetric positive definite.
    """

    columns: tuple[Column | RealColumn, ...]
    cliques: tuple[MixedClique, ...]
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    tree: JunctionTree = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(set(self.names)) < self.n or not all(self.names):
            raise ValueError("names are not distinct, or one is empty")
        seen: set[int] = set()
        for i, clique in enumerate(self.cliques):
            _require_valid(self.columns, self.cliques, i, seen)
            seen.update(clique.members)
        edges = [(clique.parent, i) for i, clique in enumerate(self.cliques) if i]
        sets = [varset(clique.members) for clique in self.cliques]
        object.__setattr__(self, "tree", JunctionTree.from_nodes(self.n, sets, edges))

    def __repr__(self) -> str:
        real = sum(column.states is None for column in self.columns)
        size = f"{self.n - real} discrete and {real} real variables, {len(self.tree.cliques)} cliques"
        return f"MixedTreeModel({size}, {self.parameters} parameters)"

    @property
    def parameters(self) -> int:
        """The number of free parameters: probabilities, intercepts, slopes, covariances, and inner knots."""
        total = inner_knots(self.columns)
        for clique in self.cliques:
            r, others = clique.free, len(clique.real) - clique.free
            total += clique.cells - clique.shared_cells
            total += clique.cells * (r + r * others + r * (r + 1) // 2)
        return total

    @property
    def cells(self) -> int:
        """The number of cells of all cliques."""
        return sum(clique.cells for clique in self.cliques)

    def log_likelihood(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns ln of the density of every row, in nats; -inf for impossible rows.

        Missing values are summed or integrated out.

        Args:
            rows: shape (variables, rows): codes of states and numbers; NaN, or -1 for a state, where missing.

        Raises:
            InputError: the shape is wrong, a code has no state, or a number is infinite.
        """
        scores = self._checked(rows)
        slopes = np.zeros(scores.shape[1])
        for v, margin in self._margins.items():
            scores[v], own = margin.scored(scores[v])
            slopes += own
        return log_densities(self.cliques, scores) + slopes

    @property
    def _margins(self) -> dict[int, Margin]:
        """The margins of the variables that have one."""
        each = ((v, getattr(column, "margin", None)) for v, column in enumerate(self.columns))
        return {v: margin for v, margin in each if margin is not None}

    def _scored(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns rows with the scores of numbers in their place."""
        found = rows.copy()
        for v, margin in self._margins.items():
            found[v] = margin.to_scores(rows[v])
        return found

    def _valued(self, scores: NDArray[np.float64], known: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns rows with numbers in place of scores: those of `known` where it has them."""
        found = scores.copy()
        for v, margin in self._margins.items():
            found[v] = np.where(np.isnan(known[v]), margin.to_values(scores[v]), known[v])
        return found

    def _log_slopes(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns ln of the ratio of the density of the numbers to that of their scores, for each row."""
        total = np.zeros(scores.shape[1])
        for v, margin in self._margins.items():
            total += margin.log_slopes(scores[v])
        return total

    def _checked(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns rows with NaN for all missing values, after a check of shape and range."""
        found = np.array(rows, dtype=np.float64)
        if found.shape != (self.n, *found.shape[1:2]) or np.isinf(found).any():
            reason = f"they are not finite numbers of shape ({self.n}, rows)"
            raise InputError("rows", "", reason, "give codes and numbers, NaN for missing ones")
        for row, column in zip(found, self.columns, strict=True):
            if column.states is not None:
                row[row == -1] = np.nan
                fits = (row >= 0) & (row < len(column.states)) & (row == np.floor(row))
                if not (fits | np.isnan(row)).all():
                    reason = f"a code of '{column.name}' is not from 0 to {len(column.states) - 1}"
                    raise InputError("rows", "", reason, "give the codes of its states")
        return found

    def condition(self, evidence: Evidence) -> Conditioned[MixedTreeModel]:
        """Returns the distribution given evidence, without the real variables observed, and ln P(evidence).

        Raises:
            InputError: a variable or state is unknown, a number not finite, the evidence impossible, or no
                variable is left.
        """
        if not evidence:
            return Conditioned(self, 0.0)
        row, likelihoods = self._row(evidence)
        row = self._scored(row)
        total, kept = self._collected(row, likelihoods)
        gone = {
            v for v, column in enumerate(self.columns) if column.states is None and not np.isnan(row[v, 0])
        }
        if len(gone) == self.n:
            raise InputError("evidence", "", "it observes every variable", "leave some unobserved")
        left = [v for v in range(self.n) if v not in gone]
        new = {v: k for k, v in enumerate(left)}
        cliques = []
        for clique, message in zip(self.cliques, kept, strict=True):
            r = clique.free
            own = [j for j in range(r) if clique.real[j] in new]
            others = [j for j in range(len(clique.real) - r) if clique.real[r + j] in new]
            covariances = message.spread[0][np.ix_(range(clique.cells), own, own)]
            cliques.append(
                MixedClique(
                    tuple(new[v] for v in clique.discrete),
                    tuple(new[v] for v in clique.real if v in new),
                    clique.shared,
                    len(own),
                    clique.parent,
                    clique.dims,
                    conditional_shares(np.exp(message.own[0]), clique.shared_cells),
                    message.shift[0][:, own],
                    message.slope[0][np.ix_(range(clique.cells), own, others)],
                    (covariances + np.swapaxes(covariances, 1, 2)) / 2,
                )
            )
        model = MixedTreeModel(tuple(self.columns[v] for v in left), tuple(cliques), self.provenance)
        return Conditioned(model, total)

    def _row(self, evidence: Evidence) -> tuple[NDArray[np.float64], list[NDArray[np.float64] | None]]:
        """Returns evidence as a row, shape (n, 1), and the likelihoods of states."""
        row = np.full((self.n, 1), np.nan)
        likelihoods: list[NDArray[np.float64] | None] = [None] * self.n
        for name, value in evidence.items():
            v = position(self.names, name)
            column = self.columns[v]
            if isinstance(column, Column) and not isinstance(value, str):
                likelihoods[v] = state_likelihoods(column, value)
            else:
                row[v] = column.code(value)
        return row, likelihoods

    def _collected(
        self,
        row: NDArray[np.float64],
        likelihoods: Sequence[NDArray[np.float64] | None],
        *,
        maximum: bool = False,
    ) -> tuple[float, Any]:
        """Returns ln of the density of evidence, given as a row of scores, and the messages."""
        total, kept = collect(self.cliques, row, likelihoods, maximum=maximum)
        if not np.isfinite(total[0]):
            raise InputError("evidence", "", "it is impossible under the model", "change a value")
        return float(total[0] + self._log_slopes(row)[0]), kept

    def _moments(self) -> tuple[NDArray[np.float64], list[Message], list[CliqueMoments]]:
        """Returns an empty row, its messages, and the moments of the cliques."""
        row = np.full((self.n, 1), np.nan)
        _, kept = collect(self.cliques, row)
        return row, kept, moments(self.cliques, kept, row)

    def _normals(self, wanted: Iterable[int]) -> dict[int, Normals]:
        """Returns the marginal distributions of real variables."""
        row, kept, given = self._moments()
        found = {}
        for v in wanted:
            weights, means, variances = (part[0] for part in components_of(self.cliques, kept, given, row, v))
            some = weights > 0
            found[v] = Normals(weights[some], means[some], variances[some], self._margins.get(v))
        return found

    def matrices(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the covariance matrix and its inverse, the precision, each of shape (n, n).

        Raises:
            ChoiceError: there are discrete variables, or real ones that are not normal.
        """
        if self._margins or any(column.states is not None for column in self.columns):
            raise ChoiceError(
                "a covariance matrix is for models of normal variables only, and this one has others; query "
                "its real variables"
            )
        return covariance_and_precision(self.cliques, self.n)

    def posterior(self, groups: Groups, evidence: Evidence, *, run: Run | None = None) -> Posterior:
        """Returns the joint distribution of each group; see `protocol.Distribution`.

        A group has discrete variables, or real ones, whose means, covariances and quantiles are exact.

        Raises:
            ChoiceError: a group is of both kinds.
        """
        del run
        for group in groups:
            columns = [self.columns[v] for v in targets_of(group, self.columns)]
            if len({column.states is None for column in columns}) > 1:
                raise ChoiceError(
                    "discrete and real variables have no joint table; query them in separate groups"
                )
            observed = [one.name for one in columns if one.states is None and one.name in evidence]
            if observed:
                raise InputError("targets", f"'{observed[0]}'", "it is observed", "leave it out")
        if not groups:
            row, likelihoods = self._row(evidence)
            return Posterior(self._collected(self._scored(row), likelihoods)[0])
        known = self.condition(evidence)
        model = known.model
        places = [targets_of(group, model.columns) for group in groups]
        discrete = [group for group in places if model.columns[group[0]].states is not None]
        real = [group for group in places if model.columns[group[0]].states is None]
        normals = model._normals({v for group in real for v in group})  # noqa: SLF001 - of the same class
        each = [model._covariances(group, normals) for group in real]  # noqa: SLF001
        return Posterior(
            known.log_probability,
            columns=tuple(tuple(model.columns[v] for v in group) for group in discrete),  # type: ignore[misc]
            tables=tuple(joint_table(model, group, _MOST_CELLS) for group in discrete),
            names=tuple(tuple(model.names[v] for v in group) for group in real),
            means=tuple(mean for mean, _ in each),
            covariances=tuple(matrix for _, matrix in each),
            margins=tuple(tuple(normals[v] for v in group) for group in real),
        )

    def _covariances(
        self, group: Sequence[int], normals: Mapping[int, Normals]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns means and covariances of real variables, E (x − E x)(E[y | x] − E y), x by quadrature."""
        each = [normals[v].moments() for v in group]
        mean, matrix = np.array([one[0] for one in each]), np.diag([one[1] for one in each])
        for i, v in enumerate(group[:-1]):
            nodes, weights = normals[v].nodes()
            margin = normals[v].margin
            steps = weights * ((nodes if margin is None else margin.to_values(nodes)) - mean[i])
            rows = np.full((self.n, nodes.size), np.nan)
            rows[v] = nodes
            for part in blocks(self.cliques, nodes.size):
                _, kept = collect(self.cliques, rows[:, part])
                given = moments(self.cliques, kept, rows[:, part])
                for j, u in enumerate(group[i + 1 :], i + 1):
                    matrix[i, j] += steps[part] @ (self._means(kept, given, rows[:, part], u) - mean[j])
        return mean, np.triu(matrix) + np.triu(matrix, 1).T

    def _means(self, kept: Any, given: Any, scores: NDArray[np.float64], v: int) -> NDArray[np.float64]:
        """Returns the mean of a real variable in each row; it is missing in all of them."""
        weights, means, variances = components_of(self.cliques, kept, given, scores, v)
        if (own := self._margins.get(v)) is not None:
            means, _ = own.moments(means, variances)
        return np.asarray(np.einsum("rq,rq->r", weights, means))

    def explain(self, evidence: Evidence, k: int = 1, *, run: Run | None = None) -> Explanation:
        """Returns the configuration of highest density given evidence; margins count in units of scores.

        Raises:
            ChoiceError: k is not 1.
            InputError: see `condition`.
        """
        del run
        if k != 1:
            raise ChoiceError(
                f"{k} explanations are requested, but a density of real numbers has one highest point; "
                "request 1"
            )
        known, likelihoods = self._row(evidence)
        row = self._scored(known)
        total, _ = self._collected(row, likelihoods)
        best, kept = self._collected(row, likelihoods, maximum=True)
        scores = completed(self.cliques, kept, row, None)
        best += float((self._log_slopes(scores) - self._log_slopes(row))[0])
        values = self._valued(scores, known)[:, 0]
        labels = [
            float(value) if column.states is None else column.states[int(value)]
            for column, value in zip(self.columns, values, strict=True)
        ]
        return Explanation([Configuration(tuple(labels), best - total)], total)

    def sample(
        self, rows: int, seed: int = 0, evidence: Evidence = MappingProxyType({})
    ) -> NDArray[np.float64]:
        """Returns independent rows given evidence, shape (variables, rows); see `protocol.Distribution`."""
        require_draws(rows, seed, self.n, 8)
        known, likelihoods = self._row(evidence)
        row = self._scored(known)
        _, kept = self._collected(row, likelihoods)
        generator = np.random.default_rng(seed)
        found = np.repeat(row, rows, axis=1)
        for part in blocks(self.cliques, rows):
            found[:, part] = completed(self.cliques, kept, found[:, part], generator)
        return self._valued(found, known)

    def predict(self, rows: NDArray[np.float64], v: int) -> NDArray[np.float64]:
        """Returns the most probable state, or the mean, of v given the rest; see `protocol.Distribution`."""
        if self.columns[v].states is not None:
            return super().predict(rows, v)
        scores = self._scored(self._checked(rows))
        scores[v] = np.nan
        found = np.full(rows.shape[1], np.nan)
        for part in blocks(self.cliques, rows.shape[1]):
            total, kept = collect(self.cliques, scores[:, part])
            given = moments(self.cliques, kept, scores[:, part])
            means = self._means(kept, given, scores[:, part], v)
            found[part] = np.where(np.isfinite(total), means, np.nan)
        return found

    def complete(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns rows with their most probable missing values; impossible rows keep their gaps."""
        given = self._checked(rows)
        return self._valued(maximised(self.cliques, self._scored(given)), given)

    def entropy(self) -> float:
        """Returns -E ln of the density, in nats."""
        total = 0.0
        for v, one in self._normals(self._margins).items():
            scores, weights = one.nodes()
            total -= float(weights @ self._margins[v].log_slopes(scores))
        for clique, (weights, _, _) in zip(self.cliques, self._moments()[2], strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.where(weights[0] > 0, np.log(clique.weights), 0.0)
            spreads = np.linalg.slogdet(clique.covariances)[1] + clique.free * (1 + log(2 * pi))
            total += float(weights[0] @ (0.5 * spreads - logs))
        return total

    def junction_tree(self, what: str) -> NoReturn:
        """Refuses: there are real variables."""
        raise ChoiceError(
            f"{what} is for discrete models, and this one has real variables; cut them into ranges, and use "
            "a score of discrete variables"
        )

    def structure(self, what: str) -> JunctionTree:
        """Returns the junction tree."""
        del what
        return self.tree

    def describe(self) -> Description:
        """Returns sizes, and the entropy, in nats."""
        tree = self.tree
        real = sum(column.states is None for column in self.columns)
        sizes = {"variables": self.n, "real_variables": real, "cliques": len(tree.cliques)}
        knots = {"inner_knots": found} if (found := inner_knots(self.columns)) else {}
        facts = {"treewidth": tree.treewidth, "parameters": self.parameters, "entropy_nats": self.entropy()}
        return Description({**sizes, **knots, **facts}, trees=((tree, None),))

    def to_document(self) -> dict[str, Any]:
        """Returns the fields of a model file except format and provenance."""
        names = self.names
        return {
            "kind": "mixed",
            "variables": [column_document(column) for column in self.columns],
            "cliques": [
                {
                    "discrete": [names[v] for v in clique.discrete],
                    "real": [names[v] for v in clique.real],
                    "shared": clique.shared,
                    "free": clique.free,
                    "parent": clique.parent,
                    **{
                        key: base64_of(getattr(clique, key))
                        for key in ("weights", "intercepts", "slopes", "covariances")
                    },
                }
                for clique in self.cliques
            ],
        }


def _require_valid(
    columns: Sequence[Column | RealColumn], cliques: Sequence[MixedClique], i: int, seen: set[int]
) -> None:
    """Raises ValueError unless a clique is valid after those before it, whose members are `seen`."""
    clique = cliques[i]
    r, k, q = clique.free, len(clique.real), clique.cells
    states = [columns[v].states for v in clique.discrete]
    if clique.dims != tuple(len(own or ()) for own in states) or any(
        columns[v].states is not None for v in clique.real
    ):
        raise ValueError(f"clique {i} lists a variable under the wrong kind")
    shapes = (q,), (q, r), (q, r, k - r), (q, r, r)
    arrays = clique.weights, clique.intercepts, clique.slopes, clique.covariances
    if (
        not 0 <= r <= k
        or not 0 <= clique.shared <= len(states)
        or not all(
            array.shape == shape and np.isfinite(array).all()
            for array, shape in zip(arrays, shapes, strict=True)
        )
    ):
        raise ValueError(f"an array of clique {i} has the wrong shape, or holds a number that is not finite")
    separator = {*clique.discrete[: clique.shared], *clique.real[r:]}
    if (clique.parent < 0) != (i == 0) or clique.parent >= i:
        raise ValueError(f"clique {i} does not come after its parent")
    above = set(cliques[clique.parent].members) if i else set()
    if separator != seen.intersection(clique.members) or not separator <= above:
        raise ValueError(f"clique {i} does not share its separator with its parent alone")
    if r < k and clique.shared < len(clique.discrete):
        raise ValueError(f"clique {i} is not strongly rooted")
    sums = clique.weights.reshape(clique.shared_cells, -1).sum(axis=1)
    if (clique.weights < 0).any() or (np.abs(sums - 1) > 1e-9).any():  # noqa: PLR2004 - rounding
        raise ValueError(f"the probabilities of clique {i} are negative or do not sum to 1")
    if not np.allclose(clique.covariances, np.swapaxes(clique.covariances, 1, 2), rtol=1e-9, atol=0):
        raise ValueError(f"a covariance of clique {i} is not symmetric")
    try:
        np.linalg.cholesky(clique.covariances)
    except np.linalg.LinAlgError:
        raise ValueError(f"a covariance of clique {i} is not positive definite") from None
