"""Queries of discrete models, dispatched to a single tree or a mixture."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from jtsolve.models import mixture as of_mixture
from jtsolve.models.inference import evidence as of_evidence
from jtsolve.models.inference import likelihood as of_likelihood
from jtsolve.models.inference import marginals as of_marginals
from jtsolve.models.inference import sampling as of_sampling
from jtsolve.models.mixture import Mixture, log_sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.models.inference.evidence import Conditioned, Evidence
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.table import Codes, DataTable

    StateModel: TypeAlias = JunctionTreeModel | Mixture


def log_likelihood(model: StateModel, rows: DataTable | Codes) -> NDArray[np.float64]:
    """Returns ln P(row) for every row, in nats; see `likelihood.log_likelihood`."""
    if isinstance(model, Mixture):
        return of_mixture.log_likelihood(model, rows)
    return of_likelihood.log_likelihood(model, rows)


_BLOCK = 1 << 18
"""Likelihoods, rows × states, computed at a time."""


def state_log_probabilities(model: StateModel, rows: Codes, v: int) -> NDArray[np.float64]:
    """Returns ln P(state of v | the rest of the row), shape (rows, states); NaN where the rest is impossible.

    Args:
        model: the distribution.
        rows: codes as for `log_likelihood`; those of v do not count.
        v: the position of a variable.
    """
    states = model.columns[v].arity
    out = np.empty((rows.shape[1], states))
    block = max(1, _BLOCK // states)
    for start in range(0, rows.shape[1], block):
        part = rows[:, start : start + block].astype(np.int32)
        each = np.repeat(part, states, axis=1)
        each[v] = np.tile(np.arange(states, dtype=np.int32), part.shape[1])
        logs = log_likelihood(model, each).reshape(-1, states)
        with np.errstate(invalid="ignore"):
            out[start : start + block] = logs - log_sum(logs.T)[:, None]
    return out


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
