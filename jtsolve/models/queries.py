"""Queries of discrete models, dispatched to a junction tree, a feature tree or a mixture."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from jtsolve.errors import ChoiceError
from jtsolve.models import mixture as of_mixture
from jtsolve.models.features import queries as of_features
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.inference import evidence as of_evidence
from jtsolve.models.inference import information as of_information
from jtsolve.models.inference import likelihood as of_likelihood
from jtsolve.models.inference import marginals as of_marginals
from jtsolve.models.inference import mpe as of_mpe
from jtsolve.models.inference import sampling as of_sampling
from jtsolve.models.mixture import Mixture, log_sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.models.inference.evidence import Conditioned, Evidence
    from jtsolve.models.inference.mpe import Configuration
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.table import Codes, DataTable

    StateModel: TypeAlias = JunctionTreeModel | FeatureTree | Mixture


def log_likelihood(model: StateModel, rows: DataTable | Codes) -> NDArray[np.float64]:
    """Returns ln P(row) for every row, in nats; see `likelihood.log_likelihood`."""
    if isinstance(model, Mixture):
        return of_mixture.log_likelihood(model, rows)
    if isinstance(model, FeatureTree):
        return of_features.log_likelihood(model, rows)
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


def condition(
    model: StateModel, evidence: Evidence
) -> Conditioned[JunctionTreeModel] | Conditioned[FeatureTree] | Conditioned[Mixture]:
    """Returns the model given evidence, and ln P(evidence); see `evidence.condition`."""
    if isinstance(model, Mixture):
        return of_mixture.condition(model, evidence)
    if isinstance(model, FeatureTree):
        return of_features.condition(model, evidence)
    return of_evidence.condition(model, evidence)


def marginals(model: StateModel) -> tuple[NDArray[np.float64], ...]:
    """Returns P(v) for every variable; see `marginals.marginals`."""
    if isinstance(model, Mixture):
        return of_mixture.marginals(model)
    if isinstance(model, FeatureTree):
        return of_features.marginals(model)
    return of_marginals.marginals(model)


def marginal(model: StateModel, names: Sequence[str]) -> NDArray[np.float64]:
    """Returns the joint marginal of some variables; see `marginals.marginal`."""
    if isinstance(model, Mixture):
        return of_mixture.marginal(model, names)
    if isinstance(model, FeatureTree):
        return of_features.marginal(model, names)
    return of_marginals.marginal(model, names)


def sample(model: StateModel, rows: int, seed: int = 0) -> Codes:
    """Returns independent rows as codes, shape (variables, rows); see `sampling.sample`."""
    if isinstance(model, Mixture):
        return of_mixture.sample(model, rows, seed)
    if isinstance(model, FeatureTree):
        return of_features.sample(model, rows, seed)
    return of_sampling.sample(model, rows, seed)


def most_probable(model: StateModel, k: int = 1) -> list[Configuration]:
    """Returns the k most probable configurations; see `mpe.most_probable`.

    Raises:
        ChoiceError: the model is a mixture, or k below 1.
    """
    if isinstance(model, Mixture):
        raise ChoiceError("a mixture, a sum of trees, has no exact best configuration; fit one tree")
    if isinstance(model, FeatureTree):
        return of_features.most_probable(model, k)
    return of_mpe.most_probable(model, k)


def entropy(model: JunctionTreeModel | FeatureTree) -> float:
    """Returns -Σ P ln P, in nats; see `information.entropy`."""
    return of_features.entropy(model) if isinstance(model, FeatureTree) else of_information.entropy(model)
