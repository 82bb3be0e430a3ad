"""Gaussian distributions on junction trees: a mean, and the covariance of each clique.

ln p(x) = Σ_C ln p(x_R | x_S), where S is the separator of C to its parent and R = C ∖ S.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jtsolve.core.varset import members
from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.columns import RealColumn, position
from jtsolve.models.documents import column_document, packed, parts_document
from jtsolve.models.inference.gaussian import (
    conditional,
    conditional_means,
    covariance,
    drawn,
    log_densities,
    rooted_cliques,
)
from jtsolve.models.inference.marginals import targets_of
from jtsolve.models.protocol import (
    Conditioned,
    Configuration,
    Description,
    Explanation,
    RealPosterior,
    require_draws,
)
from jtsolve.tables.selection import name_list
from jtsolve.tables.table import ContinuousTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.inference.gaussian import GaussianClique
    from jtsolve.models.protocol import Evidence, Groups


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GaussianTreeModel:
    """A Gaussian distribution of the rows of a table of real numbers.

    Args:
        names: one for each variable of the tree.
        tree: the junction tree.
        mean: shape (n,).
        covariances: for each of `tree.cliques`, of its members in increasing order.
        provenance: remarks on the origin.

    Attributes:
        nodes: the cliques from the root down, each after its parent.

    Raises:
        ValueError: names repeat, a shape is wrong, a number is not finite, or a covariance is not symmetric
            positive definite or disagrees with its neighbour.
    """

    names: tuple[str, ...]
    tree: JunctionTree
    mean: NDArray[np.float64]
    covariances: tuple[NDArray[np.float64], ...]
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    nodes: tuple[GaussianClique, ...] = field(init=False, repr=False)
    is_continuous: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if len(self.names) != self.tree.n or len(set(self.names)) < self.tree.n or not all(self.names):
            raise ValueError(f"{self.tree.n} variables need as many names, all distinct")
        if np.shape(self.mean) != (self.tree.n,) or len(self.covariances) != len(self.tree.cliques):
            raise ValueError("the number of means or covariances does not match the tree")
        for clique, matrix in zip(self.tree.cliques, self.covariances, strict=True):
            size = clique.bit_count()
            if np.shape(matrix) != (size, size) or not np.isfinite(matrix).all():
                raise ValueError(f"a covariance is not a finite matrix of {size} × {size}")
        if not np.isfinite(self.mean).all():
            raise ValueError("a mean is not finite")
        object.__setattr__(self, "mean", _frozen(self.mean))
        object.__setattr__(self, "covariances", tuple(map(_frozen, self.covariances)))
        object.__setattr__(self, "nodes", tuple(rooted_cliques(self.tree, self.covariances)))

    def __repr__(self) -> str:
        size = f"{self.n} variables, {len(self.tree.cliques)} cliques, {self.parameters} parameters"
        return f"GaussianTreeModel({size})"

    def _repr_html_(self) -> str:
        from jtsolve.draw.html import as_html

        return as_html([repr(self)], self.tree, self.names)

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.names)

    @property
    def columns(self) -> tuple[RealColumn, ...]:
        """The variables."""
        return tuple(map(RealColumn, self.names))

    @property
    def parameters(self) -> int:
        """The number of free parameters: a mean and a variance for each variable, and the graph's edges."""
        return 2 * self.n + len(self.tree.graph_edges)

    def covariance(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Returns the covariances of some variables, wherever they lie in the tree.

        Raises:
            InputError: a variable is unknown.
        """
        return covariance(self, [position(self.names, name) for name in names])

    def log_likelihood(self, rows: ContinuousTable | NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the log density of every row, in nats.

        Args:
            rows: a table with the model's columns; or numbers of shape (variables, rows), NaN where
                missing, which are integrated out.

        Raises:
            InputError: a column is missing, the shape is wrong, or a number is infinite.
        """
        if isinstance(rows, ContinuousTable):
            missing = [name for name in self.names if name not in rows.names]
            if missing:
                raise InputError(
                    "table", "columns", f"there is none called {name_list(missing)}", "give every column"
                )
            values = rows.values[[rows.names.index(name) for name in self.names]]
        else:
            values = np.asarray(rows, dtype=np.float64)
        if values.ndim != 2 or values.shape[0] != self.n or np.isinf(values).any():  # noqa: PLR2004 - columns and rows
            reason = f"they are not finite numbers of shape ({self.n}, rows)"
            raise InputError("rows", "", reason, "give numbers, NaN for missing ones")
        return log_densities(self, values)

    def condition(self, evidence: Evidence) -> Conditioned[GaussianTreeModel]:
        """Returns the distribution of the other variables given observed values, and ln of their density.

        Raises:
            InputError: a variable is unknown, a value is not finite, or no variable is left.
        """
        if not evidence:
            return Conditioned(self, 0.0)
        values, observed = np.zeros(self.n), np.zeros(self.n, dtype=np.bool_)
        for name, value in evidence.items():
            v = position(self.names, name)
            observed[v], values[v] = True, RealColumn(name).code(value)
        if observed.all():
            raise InputError("evidence", "", "it observes every variable", "leave some unobserved")
        found = conditional(self, observed, values)
        names = tuple(self.names[v] for v in found.left)
        model = GaussianTreeModel(names, found.tree, found.mean, found.covariances, self.provenance)
        return Conditioned(model, found.log_density)

    def marginals(self) -> tuple[tuple[float, float], ...]:
        """Returns mean and variance of every variable."""
        variances = np.empty(self.n)
        for clique, matrix in zip(self.tree.cliques, self.covariances, strict=True):
            variances[list(members(clique))] = np.diag(matrix)
        return tuple(zip(self.mean.tolist(), variances.tolist(), strict=True))

    def marginal(self, names: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the means and covariances of some variables; see `protocol.Distribution`."""
        targets = list(targets_of(names, self.columns))
        return self.mean[targets], covariance(self, targets)

    def posterior(
        self, groups: Groups, evidence: Evidence, *, memory: int | None = None, run: Run | None = None
    ) -> RealPosterior:
        """Returns means and covariances of each group given evidence; see `protocol.Distribution`."""
        del memory, run
        known = self.condition(evidence)
        each = [known.model.marginal(group) for group in groups]
        return RealPosterior(
            tuple(map(tuple, groups)),
            tuple(mean for mean, _ in each),
            tuple(matrix for _, matrix in each),
            known.log_probability,
        )

    def explain(
        self, evidence: Evidence, k: int = 1, *, memory: int | None = None, run: Run | None = None
    ) -> Explanation:
        """Returns the point of highest density given evidence, the conditional mean.

        Raises:
            ChoiceError: k is not 1.
            InputError: see `condition`.
        """
        del memory, run
        if k != 1:
            raise ChoiceError(
                f"{k} explanations of real numbers are asked for, but there is one, the mean: a density has "
                "no second best point; ask for 1"
            )
        known = self.condition(evidence)
        found = {**dict(zip(known.model.names, known.model.mean.tolist(), strict=True)), **evidence}
        values = tuple(float(found[name]) for name in self.names)
        log_density = float(self.log_likelihood(np.array(values)[:, None])[0])
        best = Configuration(values, log_density - known.log_probability)
        return Explanation([best], known.log_probability)

    def sample(
        self, rows: int, seed: int = 0, evidence: Evidence = MappingProxyType({})
    ) -> NDArray[np.float64]:
        """Returns independent rows, shape (variables, rows); see `protocol.Distribution`."""
        require_draws(rows, seed)
        known = self.condition(evidence).model
        found = dict(zip(known.names, drawn(known, rows, seed), strict=True))
        return np.array(
            [found[name] if name in found else np.full(rows, evidence[name]) for name in self.names]
        )

    def predict(self, rows: NDArray[np.float64], v: int) -> NDArray[np.float64]:
        """Returns the mean of variable v given the rest; see `protocol.Distribution`."""
        return conditional_means(self, v, rows)

    def complete(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns rows whose missing numbers are their means given the others, the most probable ones."""
        filled = rows.copy()
        for v in np.flatnonzero(np.isnan(rows).any(axis=1)).tolist():
            gaps = np.isnan(rows[v])
            filled[v, gaps] = conditional_means(self, v, rows[:, gaps])
        return filled

    def entropy(self) -> float:
        """Returns the differential entropy, in nats."""
        return 0.5 * self.n - sum(node.constant for node in self.nodes)

    def junction_tree(self, what: str) -> NoReturn:
        """Refuses: it has no states."""
        raise ChoiceError(
            f"{what} is for models of states, and this one is of real numbers; fit it with a score of states"
        )

    def network(self, what: str, root: int = 0) -> NoReturn:
        """Refuses; see `junction_tree`."""
        del root
        self.junction_tree(what)

    def structure(self, what: str) -> JunctionTree:
        """Returns the junction tree."""
        del what
        return self.tree

    def describe(self) -> Description:
        """Returns sizes, and the entropy, in nats."""
        sizes = {"variables": self.n, "cliques": len(self.tree.cliques), "treewidth": self.tree.treewidth}
        facts = {**sizes, "parameters": self.parameters, "entropy_nats": self.entropy()}
        return Description(facts, trees=((self.tree, None),))

    def to_document(self) -> dict[str, Any]:
        """Returns the fields of a model file, less format and provenance."""
        return {
            "kind": "gaussian",
            "variables": [column_document(column) for column in self.columns],
            **parts_document(self.tree, self.names, self.covariances),
            "mean": packed(self.mean),
        }


def _frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    copy = np.array(array, dtype=np.float64)
    copy.setflags(write=False)
    return copy
