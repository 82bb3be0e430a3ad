"""Mixtures of junction trees, or of feature trees: P(x) = Σ_k w_k P_k(x), each P_k with its own tree.

Queries that are linear in P have the same names and arguments as for a single tree: `log_likelihood`,
`condition`, `marginal`, `marginals`, `sample`. Most probable explanations, entropies and conditional
independences do not decompose over the components and are not offered. Time: that of one tree, times the
number of components. Reference: M. Meilă and M. I. Jordan, Learning with mixtures of trees, Journal of
Machine Learning Research 1, 2000.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import ChoiceError, InputError
from jtsolve.models import components as of_component
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.inference.evidence import Conditioned
from jtsolve.models.inference.marginals import MOST_CELLS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.models.columns import Column
    from jtsolve.models.components import Component
    from jtsolve.models.inference.evidence import Evidence
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.table import Codes, DataTable

_TOLERANCE = 1e-9
"""How far the sum of the weights may be from 1, as in `model.TOLERANCE`."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Mixture:
    """A mixture of junction trees, or of feature trees, over the same columns.

    Args:
        weights: shape (k,), the probabilities of the components.
        components: k models of one kind with equal columns, at least one.
        provenance: remarks on the origin.

    Raises:
        ValueError: the weights are not a distribution, or the columns or kinds of components differ.
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
            raise ValueError("some components are junction trees and others feature trees")

    def __reduce__(self) -> tuple[Any, ...]:
        """Supports copying and pickling: mapping proxies do not."""
        return Mixture, (self.weights, self.components, dict(self.provenance))

    def __repr__(self) -> str:
        return f"Mixture({self.n} variables, {len(self.components)} components, {self.parameters} parameters)"

    @property
    def columns(self) -> tuple[Column, ...]:
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

    def variable(self, name: str) -> int:
        """Returns the position of a variable; see `JunctionTreeModel.variable`."""
        return self.components[0].variable(name)

    def variables(self, names: Iterable[str]) -> tuple[int, ...]:
        """Returns the positions of variables; see `JunctionTreeModel.variable`."""
        return self.components[0].variables(names)

    @property
    def junction_trees(self) -> tuple[JunctionTreeModel, ...]:
        """The components, if they are junction trees; otherwise none."""
        return tuple(one for one in self.components if not isinstance(one, FeatureTree))

    @property
    def feature_trees(self) -> tuple[FeatureTree, ...]:
        """The components, if they are feature trees; otherwise none."""
        return tuple(one for one in self.components if isinstance(one, FeatureTree))

    @property
    def parameters(self) -> int:
        """The number of free parameters: those of the components, and the weights less one."""
        return sum(component.parameters for component in self.components) + len(self.components) - 1


def log_joint(mixture: Mixture, rows: DataTable | Codes) -> NDArray[np.float64]:
    """Returns ln w_k + ln P_k(row), shape (k, rows); for rows, see `likelihood.log_likelihood`."""
    each = np.array([of_component.log_likelihood(one, rows) for one in mixture.components])
    with np.errstate(divide="ignore"):  # a weight of 0 gives -inf
        each += np.log(mixture.weights)[:, None]
    return each


def log_sum(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns ln Σ_k exp(logs[k]) without underflow; -inf where all terms are.

    >>> log_sum(np.array([[-1000.0, -np.inf], [-1000.0, -np.inf]])).round(6).tolist()
    [-999.306853, -inf]
    """
    largest = logs.max(axis=0)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        total: NDArray[np.float64] = np.log(np.exp(logs - shift).sum(axis=0)) + shift
    return total


def log_likelihood(mixture: Mixture, rows: DataTable | Codes) -> NDArray[np.float64]:
    """Returns ln P(row) for every row, in nats; see `likelihood.log_likelihood`."""
    return log_sum(log_joint(mixture, rows))


def condition(mixture: Mixture, evidence: Evidence) -> Conditioned[Mixture]:
    """Returns the mixture given evidence, components reweighted by its likelihood; see `evidence.condition`.

    Raises:
        InputError: a variable or state is unknown, or the evidence is impossible under every component.
    """
    logs, components = [], []
    refused: InputError | None = None
    for weight, component in zip(mixture.weights.tolist(), mixture.components, strict=True):
        try:
            given = of_component.condition(component, evidence)
        except InputError as error:  # impossible here; an unknown name or state fails in every component
            refused = error
            continue
        if weight > 0:
            logs.append(np.log(weight) + given.log_probability)
            components.append(given.model)
    if not components:
        assert refused is not None, "some weight is above 0"
        raise refused
    total = float(log_sum(np.array(logs)[:, None])[0])
    weights = np.exp(np.array(logs) - total)
    return Conditioned(Mixture(weights / weights.sum(), tuple(components), mixture.provenance), total)


def marginals(mixture: Mixture) -> tuple[NDArray[np.float64], ...]:
    """Returns P(v) for every variable; see `marginals.marginals`."""
    each = [of_component.marginals(component) for component in mixture.components]
    return tuple(
        np.tensordot(mixture.weights, np.array(tables), axes=1) for tables in zip(*each, strict=True)
    )


def marginal(mixture: Mixture, names: Sequence[str], *, most_cells: int = MOST_CELLS) -> NDArray[np.float64]:
    """Returns the joint marginal of some variables; see `marginals.marginal`."""
    total = 0.0
    for weight, component in zip(mixture.weights.tolist(), mixture.components, strict=True):
        total = total + weight * of_component.marginal(component, names, most_cells=most_cells)
    return np.asarray(total)


def sample(mixture: Mixture, rows: int, seed: int = 0) -> Codes:
    """Returns independent rows as codes, shape (variables, rows); see `sampling.sample`.

    Raises:
        ChoiceError: a number is negative.
    """
    if rows < 0 or seed < 0:
        raise ChoiceError(f"{rows} rows with the seed {seed} cannot be drawn; give numbers of 0 or more")
    generator = np.random.default_rng(seed)
    which = generator.choice(len(mixture.weights), size=rows, p=mixture.weights)
    seeds = generator.integers(0, 1 << 62, size=len(mixture.weights)).tolist()
    out: Codes = np.zeros((mixture.n, rows), dtype=np.int32)
    for k, (component, own) in enumerate(zip(mixture.components, seeds, strict=True)):
        drawn = of_component.sample(component, int((which == k).sum()), own)
        out = out.astype(drawn.dtype, copy=False)
        out[:, which == k] = drawn
    return out
