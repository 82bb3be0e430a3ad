"""Conditioning on evidence: the result is again a model, so that every query applies to it.

Hard evidence fixes the state of a variable. Soft evidence is virtual evidence (J. Pearl, Probabilistic
Reasoning in Intelligent Systems, 1988, section 2.2.2): a likelihood of each state, defined up to a factor, by
which the distribution is multiplied. Time and memory: linear in the cells of the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import numpy as np

from jtsolve.errors import InputError
from jtsolve.models.columns import position
from jtsolve.models.inference.marginals import marginals
from jtsolve.models.messages import propagate
from jtsolve.models.model import JunctionTreeModel, model_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.models.columns import Column

Evidence: TypeAlias = "Mapping[str, str | Sequence[float]]"
"""By variable: the label of its state, or a non-negative likelihood for each of its states."""

Model = TypeVar("Model")


@dataclass(frozen=True, slots=True, eq=False)
class Conditioned(Generic[Model]):
    """A model given evidence.

    Attributes:
        model: P(x | evidence), on the same trees and columns.
        log_probability: ln P(evidence), in nats; of soft evidence, ln of the expected likelihood.
    """

    model: Model
    log_probability: float


def condition(model: JunctionTreeModel, evidence: Evidence) -> Conditioned[JunctionTreeModel]:
    """Returns the distribution given evidence.

    Raises:
        InputError: a variable or state is unknown, a likelihood is invalid, or the evidence is impossible.

    >>> from jtsolve.models.columns import Column
    >>> from jtsolve.core.tree import JunctionTree
    >>> columns = (Column("rain", ("no", "yes")), Column("wet", ("no", "yes")))
    >>> tables = (np.array([[0.5, 0.25], [0.0, 0.25]]),)
    >>> model = JunctionTreeModel(columns, JunctionTree(2, (0b11,), ()), tables)
    >>> condition(model, {"wet": "yes"}).model.tables[0][:, 1].tolist()
    [0.5, 0.5]
    """
    weights = likelihoods(model.columns, evidence)
    if not weights:
        return Conditioned(model, 0.0)
    layout = model.layout
    values = model.families.copy()
    with np.errstate(divide="ignore"):
        for v, weight in weights.items():
            place = layout.home[v]
            shape = [-1 if u == v else 1 for u in layout.cliques[place]]
            view = layout.table(values, place)
            view += np.log(weight).reshape(shape)
    log_probability = propagate(values, layout)
    if log_probability == -np.inf:
        raise impossible(model.names, marginals(model), weights, evidence)
    probabilities = layout.normalised(values)
    given = model_of(model.columns, model.tree, probabilities, model.provenance)
    return Conditioned(given, float(log_probability))


def likelihoods(columns: Sequence[Column], evidence: Evidence) -> dict[int, NDArray[np.float64]]:
    """Returns the likelihood of each state of the variables with evidence, by their positions."""
    names = [column.name for column in columns]
    at = {position(names, name): what for name, what in evidence.items()}
    return {v: likelihood(columns[v], what) for v, what in at.items()}


def likelihood(column: Column, what: str | Sequence[float]) -> NDArray[np.float64]:
    """Returns the likelihood of each state of a variable: of the one given, 1.

    Raises:
        InputError: there is no such state, or the numbers are no likelihood of its states.
    """
    if isinstance(what, str):
        weight = np.zeros(column.arity)
        weight[column.code(what)] = 1.0
        return weight
    weight = np.asarray(what, dtype=np.float64)
    if weight.shape != (column.arity,) or not np.isfinite(weight).all() or weight.min() < 0:
        raise InputError(
            "evidence",
            f"'{column.name}'",
            f"a likelihood needs {column.arity} finite non-negative numbers",
            f"give one for each of the states {', '.join(column.states)}",
        )
    return weight


def impossible(
    names: Sequence[str],
    single: Sequence[NDArray[np.float64]],
    weights: Mapping[int, NDArray[np.float64]],
    evidence: Evidence,
) -> InputError:
    """Returns the error for evidence of probability 0; names the variables that are impossible alone.

    Args:
        names: of the variables.
        single: the marginal of each one.
        weights: the likelihood of each state, of the variables with evidence.
        evidence: as the user gave it.
    """
    alone = [names[v] for v, weight in weights.items() if not (weight @ single[v] > 0)]
    listed = ", ".join(f"{name} = {evidence[name]}" for name in alone or evidence)
    reason = f"{listed} is impossible: the model gives it probability 0"
    if not alone:
        reason = f"{listed} are possible one by one, but impossible together: their probability is 0"
    remedy = "check it; with a prior (ess above 0), a fitted model has no impossible states"
    return InputError("evidence", "", reason, remedy)
