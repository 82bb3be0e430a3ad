"""Queries of any distribution of states, by its likelihoods and marginals."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.models.inference.marginals import require_small, targets_of
from jtsolve.models.layout import require_room
from jtsolve.models.messages import log_sum
from jtsolve.models.protocol import MixedPosterior, Normals, RealPosterior, StatePosterior
from jtsolve.tables.raw import GAP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.run import Run
    from jtsolve.models.protocol import Distribution, Evidence, Rows, StateDistribution
    from jtsolve.tables.table import Codes

WITH_EVIDENCE = ("the tables with the evidence", "a smaller model")
"""What needs memory, and the way out, for `require_room`."""
_BLOCK = 1 << 18
"""Likelihoods, rows × states, computed at a time."""


def group_posteriors(
    model: StateDistribution,
    groups: Sequence[Sequence[str]],
    evidence: Evidence,
    *,
    memory: int | None,
    run: Run | None,
) -> StatePosterior:
    """Returns the joint distribution of each group of variables; see `protocol.Distribution.posterior`.

    Args:
        model: of states.
        groups: names of variables, for each joint distribution.
        evidence: hard or soft.
        memory: limit in bytes.
        run: receives progress.
    """
    wanted = [targets_of(group, model.columns) for group in groups]
    for targets in wanted:
        require_small(prod(model.columns[v].arity for v in targets), len(targets))
    require_room(model.cells, *WITH_EVIDENCE, limit=memory)
    if run is not None:
        run.progress(note="passing messages")
    known = model.condition(evidence)
    single = known.model.marginals()
    tables = [
        single[targets[0]] if len(targets) == 1 else known.model.marginal(group)
        for group, targets in zip(groups, wanted, strict=True)
    ]
    columns = tuple(tuple(model.columns[v] for v in targets) for targets in wanted)
    return StatePosterior(columns, tuple(tables), known.log_probability)


def averaged(weights: NDArray[np.float64], each: Sequence[Any], log_probability: float) -> Any:
    """Returns the posterior of a mixture from those of its components, for the same groups.

    Args:
        weights: of the components given the evidence, shape (components,).
        each: the posteriors of the components.
        log_probability: ln P(evidence).
    """
    first = each[0]
    if isinstance(first, MixedPosterior):
        parts = [
            averaged(weights, [getattr(one, part) for one in each], log_probability)
            for part in ("states", "numbers")
        ]
        return MixedPosterior(*parts)

    def over(name: str) -> list[NDArray[np.float64]]:
        groups = zip(*(getattr(one, name) for one in each), strict=True)
        return [np.tensordot(weights, np.array(own), axes=1) for own in groups]

    if isinstance(first, StatePosterior):
        return replace(first, tables=tuple(over("tables")), log_probability=log_probability)
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
    return RealPosterior(first.groups, tuple(means), tuple(matrices), log_probability, margins)


def state_log_probabilities(model: Distribution, rows: Rows, v: int) -> NDArray[np.float64]:
    """Returns ln P(state of v | the rest of the row), shape (rows, states); NaN where the rest is impossible.

    Args:
        model: the distribution.
        rows: codes as for `log_likelihood`; those of v do not count.
        v: the position of a variable of states.
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


def predicted(model: StateDistribution, rows: Codes, v: int) -> Codes:
    """Returns the most probable state of a variable given the rest of each row, shape (rows,).

    -1 where the rest is impossible.

    Args:
        model: of states.
        rows: codes, shape (n, rows).
        v: the variable.
    """
    logs = state_log_probabilities(model, rows, v)
    return np.where(np.isnan(logs).any(axis=1), GAP, np.argmax(logs, axis=1))
