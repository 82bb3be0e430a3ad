"""Mixtures of junction trees, also of mixed tables: P(x) = Σ_k w_k P_k(x), each P_k with its own tree.

Queries that are linear in P are answered by the components. Most probable explanations, entropies and
conditional independences do not decompose over the components and are refused. Time: that of one tree, times
the number of components. Reference: M. Meilă and M. I. Jordan, Learning with mixtures of trees, Journal of
Machine Learning Research 1, 2000.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.columns import inner_knots
from jtsolve.models.documents import column_document
from jtsolve.models.inference.marginals import MOST_CELLS
from jtsolve.models.inference.prediction import averaged, group_posteriors, predicted
from jtsolve.models.messages import log_sum
from jtsolve.models.protocol import (
    Conditioned,
    Description,
    require_draws,
    undrawable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.models.mixed import MixedTreeModel
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.models.protocol import Evidence, Groups, Posterior
    from jtsolve.tables.table import DataTable

    Component = JunctionTreeModel | MixedTreeModel

_TOLERANCE = 1e-9
"""How far the sum of the weights may be from 1, as in `model.TOLERANCE`."""


class _Given(NamedTuple):
    """The components under which evidence is possible, with their models given it, and their weights then."""

    weights: NDArray[np.float64]
    components: list[tuple[Any, Any]]
    log_probability: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Mixture:
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
    def _parts(self) -> list[Any]:
        """The components, of either kind."""
        return list(self.components)

    @property
    def is_continuous(self) -> bool:
        """Whether there are real variables."""
        return self.components[0].is_continuous

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns of every component."""
        return self.components[0].columns

    @property
    def n(self) -> int:
        """The number of variables."""
        return self.components[0].n

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.components[0].names

    @property
    def parameters(self) -> int:
        """The number of free parameters: of the components, with their margins once, and weights less one."""
        others = len(self.components) - 1
        each = sum(component.parameters for component in self.components)
        return each + others - others * inner_knots(self.columns)

    @property
    def cells(self) -> int:
        """The number of cells of all tables."""
        return sum(part.cells for part in self._parts)

    def log_joint(self, rows: DataTable | NDArray[Any]) -> NDArray[np.float64]:
        """Returns ln w_k + ln P_k(row), shape (k, rows)."""
        each = np.array([one.log_likelihood(rows) for one in self._parts])
        with np.errstate(divide="ignore"):  # a weight of 0 gives -inf
            each += np.log(self.weights)[:, None]
        return each

    def log_likelihood(self, rows: DataTable | NDArray[Any]) -> NDArray[np.float64]:
        """Returns ln P(row) for every row, in nats; see `inference.likelihood.log_likelihood`."""
        return log_sum(self.log_joint(rows))

    def condition(self, evidence: Evidence) -> Conditioned[Mixture]:
        """Returns the mixture given evidence, components reweighted by its likelihood.

        Raises:
            InputError: a variable or state is unknown, or the evidence is impossible under every component.
        """
        known = self._given(evidence)
        models = tuple(model for _, model in known.components)
        return Conditioned(Mixture(known.weights, models, self.provenance), known.log_probability)

    def _given(self, evidence: Evidence) -> _Given:
        """Returns the components under which evidence is possible; raises as `condition`."""
        logs, components = [], []
        refused: InputError | None = None
        for weight, component in zip(self.weights.tolist(), self.components, strict=True):
            try:
                given = component.condition(evidence)
            except InputError as error:  # impossible here; an unknown name or state fails in every component
                refused = error
                continue
            if weight > 0:
                logs.append(np.log(weight) + given.log_probability)
                components.append((component, given.model))
        if not components:
            assert refused is not None, "some weight is above 0"
            raise refused
        total = float(log_sum(np.array(logs)))
        weights = np.exp(np.array(logs) - total)
        return _Given(weights / weights.sum(), components, total)

    def marginals(self) -> tuple[Any, ...]:
        """Returns P(v) for every variable v, one entry a state; mean and variance of a real one."""
        found = []
        for own in zip(*[part.marginals() for part in self._parts], strict=True):
            parts = np.array(own)
            entry: Any = np.tensordot(self.weights, parts, axes=1)
            if isinstance(own[0], tuple):
                mean, variance = entry.tolist()
                entry = mean, variance + float(self.weights @ (parts[:, 0] - mean) ** 2)
            found.append(entry)
        return tuple(found)

    def marginal(self, names: Sequence[str], *, most_cells: int = MOST_CELLS) -> Any:
        """Returns the joint marginal of some variables of states; see that of the components."""
        each = [part.marginal(names, most_cells=most_cells) for part in self._parts]
        return np.tensordot(self.weights, np.array(each), axes=1)

    def posterior(
        self, groups: Groups, evidence: Evidence, *, memory: int | None = None, run: Run | None = None
    ) -> Posterior:
        """Returns the joint distribution of each group given evidence; see `protocol.Distribution`."""
        if self.is_continuous:
            known = self._given(evidence)
            each = [one.posterior(groups, evidence, memory=memory, run=run) for one, _ in known.components]
            found: Posterior = averaged(known.weights, each, known.log_probability)
            return found
        return group_posteriors(self, groups, evidence, memory=memory, run=run)

    def explain(
        self, evidence: Evidence, k: int = 1, *, memory: int | None = None, run: Run | None = None
    ) -> NoReturn:
        """Refuses: a maximum of a sum does not decompose."""
        del evidence, k, memory, run
        raise self._undrawable("the most probable explanation")

    def sample(self, rows: int, seed: int = 0, evidence: Evidence = MappingProxyType({})) -> Any:
        """Returns independent rows, shape (variables, rows); see `protocol.Distribution`."""
        require_draws(rows, seed)
        known = self._given(evidence)
        generator = np.random.default_rng(seed)
        which = generator.choice(len(known.weights), size=rows, p=known.weights)
        seeds = generator.integers(0, 1 << 62, size=len(known.weights)).tolist()
        out: Any = np.zeros((self.n, rows), dtype=np.int32)
        for k, ((component, _), own) in enumerate(zip(known.components, seeds, strict=True)):
            drawn = component.sample(int((which == k).sum()), own, evidence)
            out = out.astype(drawn.dtype, copy=False)
            out[:, which == k] = drawn
        return out

    def predict(self, rows: Any, v: int) -> Any:
        """Returns the most probable state, or the mean, of v given the rest; see `protocol.Distribution`."""
        if not self.is_continuous:
            return predicted(self, rows, v)
        if self.columns[v].states is not None:
            codes = predicted(self, rows, v).astype(np.float64)
            return np.where(codes < 0, np.nan, codes)
        rest = np.array(rows, dtype=np.float64)
        rest[v] = np.nan
        logs = self.log_joint(rest)
        with np.errstate(invalid="ignore"):  # NaN where the rest is impossible
            shares = np.exp(logs - log_sum(logs))
        means = np.array([component.predict(rows, v) for component in self.components])
        return np.where(shares > 0, shares * means, shares).sum(axis=0)

    def complete(self, rows: Any) -> NoReturn:
        """Refuses: a maximum of a sum does not decompose."""
        del rows
        raise self._undrawable("the completion of rows")

    def entropy(self) -> NoReturn:
        """Refuses: the logarithm of a sum does not decompose."""
        raise self._undrawable("the entropy")

    def junction_tree(self, what: str) -> NoReturn:
        """Refuses: the components have different trees."""
        raise self._undrawable(what)

    def network(self, what: str, root: int = 0) -> NoReturn:
        """Refuses; see `junction_tree`."""
        del root
        self.junction_tree(what)

    structure = junction_tree

    def _undrawable(self, what: str) -> ChoiceError:
        parts = len(self.components)
        return undrawable(
            what,
            f"a mixture: a sum of {parts} trees has no junction tree",
            "fit one tree",
        )

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
        """Returns the fields of a model file, less format and provenance; of components, less that, too."""
        each = [component.to_document() for component in self.components]
        kept = ("cliques",) if self.is_continuous else ("cliques", "tree_edges", "tables")
        return {
            "kind": "mixed-mixture" if self.is_continuous else "mixture",
            "variables": [column_document(column) for column in self.columns],
            "weights": self.weights.tolist(),
            "components": [{key: one[key] for key in kept} for one in each],
        }
