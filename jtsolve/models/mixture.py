"""Mixtures of discrete or mixed junction trees: P(x) = Σ_k w_k P_k(x), each P_k with its own tree.

The components answer the queries that are linear in P. Most probable explanations, entropies and conditional
independences do not decompose over the components and are refused. Time: that of one tree, times the number
of components. Reference: M. Meilă and M. I. Jordan, Learning with mixtures of trees, Journal of
Machine Learning Research 1, 2000.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import InputError
from jtsolve.models.answers import Conditioned, Description
from jtsolve.models.columns import inner_knots
from jtsolve.models.documents import column_document
from jtsolve.models.inference.prediction import averaged
from jtsolve.models.layout import require_draws
from jtsolve.models.messages import log_sum
from jtsolve.models.protocol import Distribution

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.models.answers import Evidence, Groups, Posterior
    from jtsolve.models.mixed import MixedTreeModel
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.table import DataTable

    Component = JunctionTreeModel | MixedTreeModel

_TOLERANCE = 1e-9
"""Largest distance of the sum of the weights from 1, as in `model.TOLERANCE`."""


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(Distribution):
    """A mixture of junction trees over the same columns.

    Args:
        weights: shape (k,), the probabilities of the components.
        components: k models with equal columns, at least one.
        provenance: remarks on the origin.

    Raises:
        ValueError: the weights are not a distribution, or the columns of components differ.
    """

    weights: NDArray[np.float64]
    components: tuple[Component, ...]
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        weights.setflags(write=False)
        object.__setattr__(self, "provenance", MappingProxyType(dict(self.provenance)))
        object.__setattr__(self, "weights", weights)
        if not self.components or weights.shape != (len(self.components),):
            raise ValueError(f"{len(self.components)} components and weights of shape {weights.shape}")
        if not (np.isfinite(weights).all() and weights.min() >= 0 and abs(weights.sum() - 1) <= _TOLERANCE):
            raise ValueError(f"the weights {weights.tolist()} are not probabilities that sum to 1")
        if any(component.columns != self.columns for component in self.components):
            raise ValueError("the components have different columns")
        if len({type(component) for component in self.components}) > 1:
            raise ValueError("the components are of different kinds")

    def __reduce__(self) -> tuple[Any, ...]:
        """Supports copying and pickling: mapping proxies do not."""
        return Mixture, (self.weights, self.components, dict(self.provenance))

    def __repr__(self) -> str:
        return f"Mixture({self.n} variables, {len(self.components)} components, {self.parameters} parameters)"

    @property
    def kind(self) -> str:
        """What it is, in refusals."""
        return f"a mixture: a sum of {len(self.components)} trees has no junction tree"

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns of every component."""
        return self.components[0].columns

    @property
    def parameters(self) -> int:
        """The number of free parameters: of the components, with their margins once, and weights less one."""
        others = len(self.components) - 1
        each = sum(component.parameters for component in self.components)
        return each + others - others * inner_knots(self.columns)

    @property
    def cells(self) -> int:
        """The number of cells of all tables."""
        return sum(component.cells for component in self.components)

    def log_joint(self, rows: Any) -> NDArray[np.float64]:
        """Returns ln w_k + ln P_k(row), shape (k, rows)."""
        each = np.array([one.log_likelihood(rows) for one in self.components])
        with np.errstate(divide="ignore"):  # a weight of 0 gives -inf
            each += np.log(self.weights)[:, None]
        return each

    def log_likelihood(self, rows: DataTable | NDArray[Any]) -> NDArray[np.float64]:
        """Returns ln P(row) for every row, in nats; see `JunctionTreeModel.log_likelihood`."""
        return log_sum(self.log_joint(rows))

    def condition(self, evidence: Evidence) -> Conditioned[Mixture]:
        """Returns the mixture given evidence, its components weighted by the likelihoods of the evidence.

        Raises:
            InputError: a variable or state is unknown, or the evidence is impossible under every component.
        """
        weights, known, total = self._given(lambda one: one.condition(evidence))
        models = tuple(given.model for _, given in known)
        return Conditioned(Mixture(weights, models, self.provenance), total)

    def _given(self, ask: Callable[[Any], Any]) -> tuple[NDArray[np.float64], list[tuple[Any, Any]], float]:
        """Returns the components under which evidence is possible, and the answers of a query to each.

        Args:
            ask: the query, with the evidence; its answer has `log_probability`.

        Returns:
            The posterior weights of these components, shape (components,); each component with its answer;
            and ln P(evidence).

        Raises:
            InputError: see `condition`.
        """
        logs, known = [], []
        refused: InputError | None = None
        for weight, component in zip(self.weights.tolist(), self.components, strict=True):
            try:
                answer = ask(component)
            except InputError as error:  # impossible here; an unknown name or state fails in every component
                refused = error
                continue
            if weight > 0:
                logs.append(np.log(weight) + answer.log_probability)
                known.append((component, answer))
        if not known:
            assert refused is not None, "some weight is above 0"
            raise refused
        total = float(log_sum(np.array(logs)))
        weights = np.exp(np.array(logs) - total)
        return weights / weights.sum(), known, total

    def posterior(self, groups: Groups, evidence: Evidence, *, run: Run | None = None) -> Posterior:
        """Returns the joint distribution of each group given evidence; see `protocol.Distribution`."""
        weights, known, total = self._given(lambda one: one.posterior(groups, evidence, run=run))
        return averaged(weights, [answer for _, answer in known], total)

    def sample(self, rows: int, seed: int = 0, evidence: Evidence = MappingProxyType({})) -> Any:
        """Returns independent rows, shape (variables, rows); see `protocol.Distribution`."""
        require_draws(rows, seed, self.n)
        weights, known, _ = self._given(lambda one: one.condition(evidence))
        generator = np.random.default_rng(seed)
        which = generator.choice(len(weights), size=rows, p=weights)
        seeds = generator.integers(0, 1 << 62, size=len(weights)).tolist()
        out: Any = np.zeros((self.n, rows), dtype=np.int32)
        for k, ((component, _), own) in enumerate(zip(known, seeds, strict=True)):
            drawn = component.sample(int((which == k).sum()), own, evidence)
            out = out.astype(drawn.dtype, copy=False)
            out[:, which == k] = drawn
        return out

    def predict(self, rows: Any, v: int) -> Any:
        """Returns the most probable state, or the mean, of v given the rest; see `protocol.Distribution`."""
        if self.columns[v].states is not None:
            return super().predict(rows, v)
        rest = np.array(rows, dtype=np.float64)
        rest[v] = np.nan
        logs = self.log_joint(rest)
        with np.errstate(invalid="ignore"):  # NaN where the rest is impossible
            shares = np.exp(logs - log_sum(logs))
        means = np.array([component.predict(rows, v) for component in self.components])
        return np.where(shares > 0, shares * means, shares).sum(axis=0)

    def describe(self) -> Description:
        """Returns the weights, and the description of each component."""
        each = [component.describe() for component in self.components]
        parts = tuple(
            {"weight": weight, **{key: fact for key, fact in one.facts.items() if key != "variables"}}
            for weight, one in zip(self.weights.tolist(), each, strict=True)
        )
        facts = {
            "variables": self.n,
            "components": len(parts),
            "treewidth": max(part["treewidth"] for part in parts),
            "parameters": self.parameters,
        }
        return Description(facts, parts, tuple(tree for one in each for tree in one.trees))

    def to_document(self) -> dict[str, Any]:
        """Returns the fields of a model file except format and provenance."""
        each = [component.to_document() for component in self.components]
        kept = ("cliques",) if self.is_continuous else ("cliques", "tree_edges", "tables")
        return {
            "kind": "mixed-mixture" if self.is_continuous else "mixture",
            "variables": [column_document(column) for column in self.columns],
            "weights": self.weights.tolist(),
            "components": [{key: one[key] for key in kept} for one in each],
        }
