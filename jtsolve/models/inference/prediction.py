"""Queries of any distribution by its likelihoods, and their checks."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.errors import InputError, LimitError
from jtsolve.models.answers import Normals, Posterior
from jtsolve.models.columns import position
from jtsolve.models.messages import log_sum
from jtsolve.tables.raw import GAP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.models.answers import Rows
    from jtsolve.models.columns import Column, RealColumn

MOST_CELLS = 1 << 26
"""Default limit for the largest table of a marginal: half a gigabyte."""
WITH_EVIDENCE = ("the tables with the evidence", "a smaller model")
"""Arguments of `require_room`: the tables, and the remedy."""
_BLOCK = 1 << 18
"""Likelihoods, rows × states, computed at a time."""
_ROWS = 1 << 14
"""Rows, one for each cell of a joint table, whose likelihoods are computed at a time."""


def require_small(cells: int, variables: int, most_cells: int = MOST_CELLS) -> None:
    """Checks the size of the largest table of a joint marginal.

    Args:
        cells: of the largest table.
        variables: of the marginal.
        most_cells: largest number allowed.

    Raises:
        LimitError: it has more cells than allowed.
    """
    if cells > most_cells:
        raise LimitError(
            f"the joint marginal of {variables} variables needs a table of {cells:.3g} cells, "
            f"{8 * cells / 1e9:.3g} GB, but {most_cells:.3g} cells are allowed. Ways out: fewer "
            "variables, or separate marginals of variables that are close in the tree"
        )


def targets_of(names: Sequence[str], columns: Sequence[Column | RealColumn]) -> tuple[int, ...]:
    """Returns the positions of the variables of a query.

    Raises:
        InputError: there is none, one is unknown, or one is named twice.
    """
    known = [column.name for column in columns]
    targets = tuple(position(known, name) for name in names)
    if not targets or len(set(targets)) < len(targets):
        reason = "there are none, or one is named twice"
        raise InputError("query", "variables", reason, "name at least one, and each once")
    return targets


def joint_table(model: Any, targets: Sequence[int], most_cells: int = MOST_CELLS) -> NDArray[np.float64]:
    """Returns the joint distribution of discrete variables, shape (states, …), axes in the given order.

    Each cell is the probability of a row in which the other variables are missing, so that no table larger
    than the result is needed.

    Args:
        model: the distribution.
        targets: positions of the variables.
        most_cells: largest table allowed.

    Raises:
        LimitError: the table would be larger.
    """
    dims = [len(model.columns[v].states or ()) for v in targets]
    cells = prod(dims)
    require_small(cells, len(targets), most_cells)
    out = np.empty(cells)
    for start in range(0, cells, _ROWS):
        at = np.arange(start, min(start + _ROWS, cells))
        if model.is_continuous:
            rows: Rows = np.full((model.n, at.size), np.nan)
        else:
            rows = np.full((model.n, at.size), GAP, dtype=np.int32)
        rows[list(targets)] = np.unravel_index(at, dims)
        out[at] = np.exp(model.log_likelihood(rows))
    return out.reshape(dims)


def averaged(weights: NDArray[np.float64], each: Sequence[Posterior], log_probability: float) -> Posterior:
    """Returns the posterior of a mixture from those of its components, for the same groups.

    Args:
        weights: of the components given the evidence, shape (components,).
        each: the posteriors of the components.
        log_probability: ln P(evidence).
    """

    def over(name: str) -> list[NDArray[np.float64]]:
        groups = zip(*(getattr(one, name) for one in each), strict=True)
        return [np.tensordot(weights, np.array(own), axes=1) for own in groups]

    means, matrices = over("means"), over("covariances")
    for k, mean in enumerate(means):
        steps = np.array([one.means[k] for one in each]) - mean
        matrices[k] += np.einsum("c,ci,cj->ij", weights, steps, steps)
    margins = tuple(
        tuple(
            Normals(
                np.concatenate([w * one.weights for w, one in zip(weights, own, strict=True)]),
                np.concatenate([one.means for one in own]),
                np.concatenate([one.variances for one in own]),
                own[0].margin,
            )
            for own in zip(*group, strict=True)
        )
        for group in zip(*(one.margins for one in each), strict=True)
    )
    return replace(
        each[0],
        log_probability=log_probability,
        tables=tuple(over("tables")),
        means=tuple(means),
        covariances=tuple(matrices),
        margins=margins,
    )


def state_log_probabilities(model: Any, rows: Rows, v: int) -> NDArray[np.float64]:
    """Returns ln P(state of v | the rest of the row), shape (rows, states); NaN where the rest is impossible.

    Args:
        model: the distribution.
        rows: as for `log_likelihood`; the values of v are ignored.
        v: the position of a discrete variable.
    """
    states = len(model.columns[v].states or ())
    out = np.empty((rows.shape[1], states))
    block = max(1, _BLOCK // states)
    for start in range(0, rows.shape[1], block):
        part = rows[:, start : start + block]
        each = np.repeat(part if part.dtype.kind == "f" else part.astype(np.int32), states, axis=1)
        each[v] = np.tile(np.arange(states, dtype=np.int32), part.shape[1])
        logs = model.log_likelihood(each).reshape(-1, states)
        with np.errstate(invalid="ignore"):
            out[start : start + block] = logs - log_sum(logs, axis=1)[:, None]
    return out
