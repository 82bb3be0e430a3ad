"""From factors to a calibrated junction tree: moralisation, triangulation, message passing.

The variables of each factor are made adjacent, and the graph is triangulated (`core.triangulation`). Each
factor is multiplied into a clique that contains it, and messages (`messages.propagate`) turn the
tables into marginals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.triangulation import triangulated
from jtsolve.core.varset import varset
from jtsolve.errors import InputError
from jtsolve.models.answers import Conditioned
from jtsolve.models.layout import host_cliques, spread, table_layout
from jtsolve.models.messages import propagate
from jtsolve.models.model import array_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.columns import Column
    from jtsolve.models.model import JunctionTreeModel


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A non-negative function of some variables.

    Attributes:
        variables: distinct, in the order of the axes.
        table: its values, one axis for each variable.
    """

    variables: tuple[int, ...]
    table: NDArray[np.float64]


def calibrated(
    columns: Sequence[Column],
    factors: Sequence[Factor],
    *,
    tree: JunctionTree | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Conditioned[JunctionTreeModel]:
    """Returns the distribution proportional to a product of factors, and ln of the partition function.

    Args:
        columns: of the model.
        factors: non-negative.
        tree: a junction tree whose cliques contain the factors; None to triangulate their graph.
        provenance: of the model.

    Raises:
        InputError: the product is 0 everywhere.
        LimitError: the tables do not fit in memory.
        ValueError: a factor lies within no clique.
    """
    arities = tuple(column.arity for column in columns)
    scopes = [varset(factor.variables) for factor in factors]
    tree = triangulated(arities, scopes) if tree is None else tree
    layout = table_layout(tree, arities)
    values = np.zeros(layout.cells)
    hosts = host_cliques(scopes, [varset(clique) for clique in layout.cliques])
    with np.errstate(divide="ignore"):
        for place, factor in zip(hosts, factors, strict=True):
            view = layout.table(values, place)
            view += np.log(spread(factor.table, factor.variables, layout.cliques[place]))
    log_sum = propagate(values, layout)
    if log_sum == -np.inf:
        raise InputError("network", "factors", "their product is 0 everywhere", "correct the tables")
    return Conditioned(array_model(columns, tree, layout.normalised(values), provenance), float(log_sum))
