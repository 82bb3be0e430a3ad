"""Evidence as likelihoods of states.

Hard evidence fixes the state of a variable. Soft evidence is virtual evidence (J. Pearl, Probabilistic
Reasoning in Intelligent Systems, 1988, section 2.2.2): the distribution is multiplied by a likelihood of each
state, defined up to a factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.errors import InputError
from jtsolve.models.columns import position
from jtsolve.options import SMOOTHING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from jtsolve.models.answers import Evidence
    from jtsolve.models.columns import Column


def likelihoods(columns: Sequence[Column], evidence: Evidence) -> dict[int, NDArray[np.float64]]:
    """Returns the likelihood of each state, shape (states,), for each variable with evidence, by position."""
    names = [column.name for column in columns]
    at = {position(names, name): what for name, what in evidence.items()}
    return {v: state_likelihoods(columns[v], what) for v, what in at.items()}


def state_likelihoods(column: Column, what: str | Sequence[float]) -> NDArray[np.float64]:
    """Returns the likelihood of each state of a variable, shape (states,); 0 or 1 if it is observed.

    Raises:
        InputError: there is no such state, or the numbers are not a likelihood of its states.
    """
    if isinstance(what, str):
        weight = np.zeros(column.arity)
        weight[column.code(what)] = 1.0
        return weight
    try:
        weight = np.asarray(what, dtype=np.float64)
    except (TypeError, ValueError):
        weight = np.empty(0)  # a list of states, or of lists, is refused like a wrong number of numbers
    if weight.shape != (column.arity,) or not np.isfinite(weight).all() or weight.min() < 0:
        raise InputError(
            "evidence",
            f"'{column.name}'",
            f"a likelihood needs {column.arity} finite non-negative numbers",
            f"give one for each of the states {', '.join(column.states)}",
        )
    return weight


def impossible(
    columns: Sequence[Column],
    single: Sequence[NDArray[np.float64]],
    weights: Mapping[int, NDArray[np.float64]],
    evidence: Evidence,
) -> InputError:
    """Returns the error for evidence of probability 0; it names the observations that are impossible alone.

    Args:
        columns: the variables.
        single: the marginal of each variable, shape (states,).
        weights: the likelihood of each state, for each variable with evidence.
        evidence: as the user gave it.
    """
    alone = [columns[v].name for v, weight in weights.items() if not (weight @ single[v] > 0)]
    listed = ", ".join(f"{name} = {evidence[name]}" for name in alone or evidence)
    reason = f"{listed} is impossible: the model gives it probability 0"
    if not alone:
        reason = f"{listed} are possible singly, but impossible together: the model gives them probability 0"
    remedy = f"check it; a model fitted with {SMOOTHING} above 0 has no impossible states"
    return InputError("evidence", "", reason, remedy)
