"""Queries of discrete models: of a junction tree, a feature tree, a mixture, or a Bayesian network."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from jtsolve.errors import ChoiceError
from jtsolve.models import ancestral
from jtsolve.models import components as of_component
from jtsolve.models import mixture as of_mixture
from jtsolve.models.columns import codes_of
from jtsolve.models.directed import columns_of
from jtsolve.models.features import queries as of_features
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.inference import information as of_information
from jtsolve.models.inference import mpe as of_mpe
from jtsolve.models.layout import require_room
from jtsolve.models.mixture import Mixture, log_sum
from jtsolve.models.relevance import Posterior, explanation, posterior, require_targets
from jtsolve.networks.network import Network
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.models.columns import Column
    from jtsolve.models.inference.evidence import Conditioned, Evidence
    from jtsolve.models.inference.mpe import Configuration
    from jtsolve.models.model import JunctionTreeModel
    from jtsolve.tables.table import Codes

    StateModel: TypeAlias = JunctionTreeModel | FeatureTree | Mixture
    Asked: TypeAlias = StateModel | Network


def log_likelihood(model: Asked, rows: DataTable | Codes) -> NDArray[np.float64]:
    """Returns ln P(row) for every row, in nats; see `likelihood.log_likelihood`."""
    if isinstance(model, Network):
        codes = codes_of(columns_of(model), rows) if isinstance(rows, DataTable) else rows
        return ancestral.log_likelihood(model, codes)
    if isinstance(model, Mixture):
        return of_mixture.log_likelihood(model, rows)
    return of_component.log_likelihood(model, rows)


_BLOCK = 1 << 18
"""Likelihoods, rows × states, computed at a time."""


def state_log_probabilities(model: Asked, rows: Codes, v: int) -> NDArray[np.float64]:
    """Returns ln P(state of v | the rest of the row), shape (rows, states); NaN where the rest is impossible.

    Args:
        model: the distribution.
        rows: codes as for `log_likelihood`; those of v do not count.
        v: the position of a variable.
    """
    states = columns_of_states(model)[v].arity
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


def columns_of_states(model: Asked) -> tuple[Column, ...]:
    """Returns the variables of a model of states or of a Bayesian network."""
    return columns_of(model) if isinstance(model, Network) else model.columns


def answers(
    model: Asked,
    groups: Sequence[Sequence[str]],
    evidence: Evidence,
    *,
    memory: int | None = None,
    run: Run | None = None,
) -> Posterior:
    """Returns the joint distribution of each group of variables given evidence.

    Names and sizes are checked first. Of a Bayesian network, only the part that the answer depends on is
    triangulated; see `relevance.posterior`, which has the arguments.

    Raises:
        InputError: a variable or state is unknown, a group names none or one twice, or the evidence is
            impossible.
        LimitError: the tables do not fit in memory.
    """
    if isinstance(model, Network):
        return posterior(model, groups, evidence, memory=memory, run=run)
    for group in groups:
        require_targets(group, model.names, [column.arity for column in model.columns])
    _require_copies(model, memory)
    if run is not None:
        run.progress(note="passing messages")
    known = condition(model, evidence)
    single = dict(zip(model.names, marginals(known.model), strict=True))
    tables = [single[group[0]] if len(group) == 1 else marginal(known.model, group) for group in groups]
    return Posterior(tuple(tables), known.log_probability)


def explanations(
    model: StateModel | Network,
    evidence: Evidence,
    k: int = 1,
    *,
    memory: int | None = None,
    run: Run | None = None,
) -> tuple[list[Configuration], float]:
    """Returns the k most probable configurations given evidence, best first, and ln P(evidence).

    Args:
        model: the distribution. In the tables of a Bayesian network, evidence takes no room.
        evidence: hard and soft.
        k: at least 1.
        memory: see `answers`.
        run: see `answers`.

    Raises:
        ChoiceError: the model is a mixture, or k below 1.
        InputError: a variable or state is unknown, or the evidence is impossible.
        LimitError: the tables or the lists of configurations do not fit in memory.
    """
    if isinstance(model, Network):
        return explanation(model, evidence, k, memory=memory, run=run)
    if run is not None:
        run.progress(note="passing messages")
    _require_copies(model, memory)
    known = condition(model, evidence)
    if run is not None:
        run.progress(note="following the maxima")
    return most_probable(known.model, k), known.log_probability


def _require_copies(model: StateModel, memory: int | None) -> None:
    """Checks that there is room for the tables with evidence."""
    trees = model.components if isinstance(model, Mixture) else (model,)
    cells = sum(tree.cells if isinstance(tree, FeatureTree) else tree.layout.cells for tree in trees)
    require_room(cells, "the tables with the evidence", "a smaller model", limit=memory)


def condition(
    model: StateModel, evidence: Evidence
) -> Conditioned[JunctionTreeModel] | Conditioned[FeatureTree] | Conditioned[Mixture]:
    """Returns the model given evidence, and ln P(evidence); see `evidence.condition`."""
    if isinstance(model, Mixture):
        return of_mixture.condition(model, evidence)
    return of_component.condition(model, evidence)


def marginals(model: StateModel) -> tuple[NDArray[np.float64], ...]:
    """Returns P(v) for every variable; see `marginals.marginals`."""
    if isinstance(model, Mixture):
        return of_mixture.marginals(model)
    return of_component.marginals(model)


def marginal(model: StateModel, names: Sequence[str]) -> NDArray[np.float64]:
    """Returns the joint marginal of some variables; see `marginals.marginal`."""
    if isinstance(model, Mixture):
        return of_mixture.marginal(model, names)
    return of_component.marginal(model, names)


def sample_given(model: Asked, evidence: Evidence, rows: int, seed: int = 0) -> Codes:
    """Returns independent rows given evidence as codes, shape (variables, rows).

    A Bayesian network is not triangulated, but for the ancestors of the evidence; see `ancestral.sample`.
    """
    if isinstance(model, Network):
        return ancestral.sample(model, evidence, rows, seed)
    return sample(condition(model, evidence).model, rows, seed)


def sample(model: StateModel, rows: int, seed: int = 0) -> Codes:
    """Returns independent rows as codes, shape (variables, rows); see `sampling.sample`."""
    if isinstance(model, Mixture):
        return of_mixture.sample(model, rows, seed)
    return of_component.sample(model, rows, seed)


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
