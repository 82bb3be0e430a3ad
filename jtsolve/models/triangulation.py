"""From factors to a calibrated junction tree: moralisation, triangulation, message passing.

The variables of each factor are made adjacent, and the graph is triangulated (`core.triangulation`). Each
factor is multiplied into a clique that contains it, and messages (`messages.propagate`) turn the
tables into marginals.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.triangulation import triangulated
from jtsolve.core.varset import varset
from jtsolve.errors import InputError
from jtsolve.models.layout import table_layout
from jtsolve.models.messages import propagate
from jtsolve.models.model import JunctionTreeModel, array_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.columns import Column


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A non-negative function of some variables.

    Attributes:
        variables: distinct, in the order of the axes.
        table: its values, one axis a variable.
    """

    variables: tuple[int, ...]
    table: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Calibrated:
    """The distribution proportional to a product of factors.

    Attributes:
        model: the distribution.
        log_sum: ln of the partition function, in nats.
    """

    model: JunctionTreeModel
    log_sum: float


def calibrated(
    columns: Sequence[Column],
    factors: Sequence[Factor],
    *,
    provenance: Mapping[str, Any] | None = None,
) -> Calibrated:
    """Returns the distribution proportional to the product of factors, on a triangulation of their graph.

    Args:
        columns: of the model.
        factors: not negative.
        provenance: of the model.

    Raises:
        InputError: a factor does not fit the columns or is not finite and non-negative, or the product is 0.
        LimitError: the tables do not fit in memory.
    """
    arities = tuple(column.arity for column in columns)
    for number, factor in enumerate(factors):
        _require_fit(number, factor, arities)
    tree = triangulated(arities, [varset(factor.variables) for factor in factors])
    return calibrated_on(tree, columns, factors, provenance=provenance)


def calibrated_on(
    tree: JunctionTree,
    columns: Sequence[Column],
    factors: Sequence[Factor],
    *,
    provenance: Mapping[str, Any] | None = None,
) -> Calibrated:
    """Returns the distribution proportional to the product of factors, each within a clique of the tree.

    Args:
        tree: the junction tree.
        columns: of the model.
        factors: each within a clique.
        provenance: of the model.

    Raises:
        InputError: the product is 0 everywhere.
        LimitError: the tables do not fit in memory.
        ValueError: a factor lies within no clique.
    """
    layout = table_layout(tree, tuple(column.arity for column in columns))
    holding: list[list[int]] = [[] for _ in columns]
    for place, clique in enumerate(layout.cliques):
        for v in clique:
            holding[v].append(place)
    masks = [varset(clique) for clique in layout.cliques]
    values = np.zeros(layout.cells)
    log_sum = 0.0
    with np.errstate(divide="ignore"):
        for factor in factors:
            scope = varset(factor.variables)
            rarest = min(factor.variables, key=lambda v: len(holding[v]), default=None)
            places = [0] if rarest is None else [p for p in holding[rarest] if not scope & ~masks[p]]
            if not places:
                raise ValueError(f"no clique contains the factor over {factor.variables}")
            view = layout.table(values, places[0])
            order = np.argsort(factor.variables)
            shape = [layout.arities[v] if scope >> v & 1 else 1 for v in layout.cliques[places[0]]]
            view += np.log(np.transpose(factor.table, order).reshape(shape))
    log_sum = propagate(values, layout)
    if log_sum == -np.inf:
        raise InputError("network", "factors", "their product is 0 everywhere", "correct the tables")
    return Calibrated(array_model(columns, tree, layout.normalised(values), provenance), float(log_sum))


def _require_fit(number: int, factor: Factor, arities: Sequence[int]) -> None:
    inside = all(0 <= v < len(arities) for v in factor.variables)
    if (
        not inside
        or len(set(factor.variables)) < len(factor.variables)
        or factor.table.shape != tuple(arities[v] for v in factor.variables)
    ):
        raise InputError(
            "network",
            f"factor {number + 1}",
            f"a table of shape {factor.table.shape} does not fit the variables {list(factor.variables)}",
            "give distinct variables, and one axis of states for each",
        )
    if not np.isfinite(factor.table).all() or (factor.table.size and factor.table.min() < 0):
        raise InputError(
            "network",
            f"factor {number + 1}",
            f"its {prod(factor.table.shape)} numbers are not all finite and non-negative",
            "correct the table",
        )
