"""Queries of what mixtures are made of: junction trees, and feature trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from jtsolve.models.features import queries as of_features
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.inference import evidence as of_evidence
from jtsolve.models.inference import likelihood as of_likelihood
from jtsolve.models.inference import marginals as of_marginals
from jtsolve.models.inference import sampling as of_sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from jtsolve.models.inference.evidence import Conditioned, Evidence
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.table import Codes, DataTable

    Component: TypeAlias = JunctionTreeModel | FeatureTree


def log_likelihood(model: Component, rows: DataTable | Codes) -> NDArray[np.float64]:
    """Returns ln P(row) for every row, in nats; see `likelihood.log_likelihood`."""
    if isinstance(model, FeatureTree):
        return of_features.log_likelihood(model, rows)
    return of_likelihood.log_likelihood(model, rows)


def condition(
    model: Component, evidence: Evidence
) -> Conditioned[JunctionTreeModel] | Conditioned[FeatureTree]:
    """Returns the model given evidence, and ln P(evidence); see `evidence.condition`."""
    if isinstance(model, FeatureTree):
        return of_features.condition(model, evidence)
    return of_evidence.condition(model, evidence)


def marginals(model: Component) -> tuple[NDArray[np.float64], ...]:
    """Returns P(v) for every variable; see `marginals.marginals`."""
    return of_features.marginals(model) if isinstance(model, FeatureTree) else of_marginals.marginals(model)


def marginal(
    model: Component, names: Sequence[str], *, most_cells: int = of_marginals.MOST_CELLS
) -> NDArray[np.float64]:
    """Returns the joint marginal of some variables; see `marginals.marginal`."""
    if isinstance(model, FeatureTree):
        return of_features.marginal(model, names, most_cells=most_cells)
    return of_marginals.marginal(model, names, most_cells=most_cells)


def sample(model: Component, rows: int, seed: int = 0) -> Codes:
    """Returns independent rows as codes, shape (variables, rows); see `sampling.sample`."""
    if isinstance(model, FeatureTree):
        return of_features.sample(model, rows, seed)
    return of_sampling.sample(model, rows, seed)
