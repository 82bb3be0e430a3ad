"""Queries of discrete models, dispatched to a single tree or a mixture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.models import mixture as of_mixture
from jtsolve.models.inference import evidence as of_evidence
from jtsolve.models.inference import likelihood as of_likelihood
from jtsolve.models.inference import marginals as of_marginals
from jtsolve.models.inference import sampling as of_sampling
from jtsolve.models.mixture import Mixture

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from jtsolve.models.inference.evidence import Conditioned, Evidence
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.table import Codes, DataTable

    StateModel = JunctionTreeModel | Mixture


def log_likelihood(model: StateModel, rows: DataTable | Codes) -> NDArray[np.float64]:
    """Returns ln P(row) for every row, in nats; see `likelihood.log_likelihood`."""
    if isinstance(model, Mixture):
        return of_mixture.log_likelihood(model, rows)
    return of_likelihood.log_likelihood(model, rows)


def condition(model: StateModel, evidence: Evidence) -> Conditioned[JunctionTreeModel] | Conditioned[Mixture]:
    """Returns the model given evidence, and ln P(evidence); see `evidence.condition`."""
    if isinstance(model, Mixture):
        return of_mixture.condition(model, evidence)
    return of_evidence.condition(model, evidence)


def marginals(model: StateModel) -> tuple[NDArray[np.float64], ...]:
    """Returns P(v) for every variable; see `marginals.marginals`."""
    return of_mixture.marginals(model) if isinstance(model, Mixture) else of_marginals.marginals(model)


def marginal(model: StateModel, names: Sequence[str]) -> NDArray[np.float64]:
    """Returns the joint marginal of some variables; see `marginals.marginal`."""
    if isinstance(model, Mixture):
        return of_mixture.marginal(model, names)
    return of_marginals.marginal(model, names)


def sample(model: StateModel, rows: int, seed: int = 0) -> Codes:
    """Returns independent rows as codes, shape (variables, rows); see `sampling.sample`."""
    if isinstance(model, Mixture):
        return of_mixture.sample(model, rows, seed)
    return of_sampling.sample(model, rows, seed)
