"""From factors to a calibrated junction tree: moralisation, elimination, message passing.

The variables of each factor are made adjacent, and the graph is triangulated by eliminating greedily the
variable with the fewest missing edges among its neighbours (min-fill) or the fewest neighbours (min-degree);
ties go to the smaller table, then to the lower number. Both are good heuristics (U. Kjærulff, Triangulation
of graphs, Aalborg 1990). Each factor is multiplied into a clique that contains it, and messages
(`messages.propagate`) turn the tables into marginals.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, prod
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, members, varset
from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.layout import layout_of
from jtsolve.models.messages import propagate
from jtsolve.models.model import JunctionTreeModel, model_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from jtsolve.models.columns import Column

Heuristic: TypeAlias = Literal["min-fill", "min-degree"]
HEURISTICS: tuple[str, ...] = get_args(Heuristic)


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


def triangulated(
    arities: Sequence[int], scopes: Sequence[VarSet], heuristic: Heuristic = "min-fill"
) -> JunctionTree:
    """Returns the junction tree of a triangulation, in which each scope lies within a clique.

    Args:
        arities: number of states of each variable, for breaking ties.
        scopes: sets of variables.
        heuristic: the elimination order.

    Raises:
        ChoiceError: there is no such heuristic.

    >>> square = [0b0011, 0b0110, 0b1100, 0b1001]
    >>> triangulated([2, 2, 2, 2], square).treewidth
    2
    """
    if heuristic not in HEURISTICS:
        raise ChoiceError(f"there is no heuristic '{heuristic}'; there are {', '.join(HEURISTICS)}")
    neighbours = [0] * len(arities)
    for scope in scopes:
        for v in members(scope):
            neighbours[v] |= scope & ~(1 << v)
    weight = [log(arity) for arity in arities]

    def cost(v: int) -> tuple[int, float, int]:
        around = neighbours[v]
        table = sum(weight[u] for u in members(around))
        if heuristic == "min-degree":
            return around.bit_count(), table, v
        missing = sum((around & ~neighbours[u]).bit_count() - 1 for u in members(around))
        return missing // 2, table, v

    costs = {v: cost(v) for v in range(len(arities))}
    families: list[tuple[int, VarSet]] = []
    while costs:
        v = min(costs, key=costs.__getitem__)
        del costs[v]
        around = neighbours[v]
        families.append((v, around))
        changed = around
        for u in members(around):
            added = around & ~neighbours[u] & ~(1 << u)
            if heuristic == "min-fill":
                for w in members(added):  # a new edge {u, w} changes the fill-in of their common neighbours
                    changed |= neighbours[u] & neighbours[w]
            neighbours[u] = (neighbours[u] | around) & ~(1 << u) & ~(1 << v)
        # Eliminated variables are in no neighbourhood any more.
        costs.update((u, cost(u)) for u in members(changed & ~(1 << v)))
    return JunctionTree.from_families(reversed(families))


def minimally_triangulated(neighbours: Sequence[VarSet]) -> JunctionTree:
    """Returns the junction tree of a minimal triangulation, by maximum cardinality search M (MCS-M).

    Vertices are numbered from the last to be eliminated. The next one has the largest weight; every vertex
    that it reaches through vertices of smaller weight than that vertex's own becomes a neighbour, and one
    heavier. No proper part of the fill makes the graph chordal. Time O(n × edges).

    Args:
        neighbours: of each vertex.

    Reference:
        A. Berry, J. Blair, P. Heggernes, B. Peyton, Maximum cardinality search for computing minimal
        triangulations of graphs, Algorithmica 39, 2004.

    >>> minimally_triangulated([0b1010, 0b0101, 0b1010, 0b0101]).treewidth
    2
    """
    n = len(neighbours)
    weight = [0] * n
    left = (1 << n) - 1
    filled = [0] * n
    families: list[tuple[int, VarSet]] = []
    while left:
        v = max(members(left), key=lambda u: (weight[u], -u))
        left &= ~(1 << v)
        families.append((v, filled[v]))
        for u in members(_reached(v, neighbours, weight, left)):
            weight[u] += 1
            filled[u] |= 1 << v
    return JunctionTree.from_families(families)


def _reached(v: int, neighbours: Sequence[VarSet], weight: Sequence[int], left: VarSet) -> VarSet:
    """Returns the vertices of `left` that v reaches through others of it of smaller weight than they have."""
    # Vertices wait to be passed through, by the largest weight on the way with their own, plus one.
    at: list[VarSet] = [0] * (len(neighbours) + 1)
    seen = reached = neighbours[v] & left
    for u in members(seen):
        at[weight[u] + 1] |= 1 << u
    for level in range(len(at)):
        while at[level]:
            u = (at[level] & -at[level]).bit_length() - 1
            at[level] &= ~(1 << u)
            for w in members(neighbours[u] & left & ~seen):
                seen |= 1 << w
                if weight[w] >= level:
                    reached |= 1 << w
                at[max(level, weight[w] + 1)] |= 1 << w
    return reached


def calibrated(
    columns: Sequence[Column],
    factors: Sequence[Factor],
    *,
    heuristic: Heuristic = "min-fill",
    provenance: Mapping[str, Any] | None = None,
) -> Calibrated:
    """Returns the distribution proportional to the product of factors, on a triangulation of their graph.

    Raises:
        InputError: a factor does not fit the columns or is not finite and non-negative, or the product is 0.
        ChoiceError: there is no such heuristic.
        LimitError: the tables do not fit in memory.
    """
    arities = tuple(column.arity for column in columns)
    for number, factor in enumerate(factors):
        _require_fit(number, factor, arities)
    tree = triangulated(arities, [varset(factor.variables) for factor in factors], heuristic)
    return calibrated_on(tree, columns, factors, provenance=provenance)


def calibrated_on(
    tree: JunctionTree,
    columns: Sequence[Column],
    factors: Sequence[Factor],
    *,
    provenance: Mapping[str, Any] | None = None,
) -> Calibrated:
    """Returns the distribution proportional to the product of factors, each within a clique of the tree.

    Raises:
        InputError: the product is 0 everywhere.
        LimitError: the tables do not fit in memory.
        ValueError: a factor lies within no clique.
    """
    layout = layout_of(tree, tuple(column.arity for column in columns))
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
    return Calibrated(model_of(columns, tree, layout.normalised(values), provenance), float(log_sum))


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
