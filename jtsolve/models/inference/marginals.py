"""Marginals of single variables, and of sets of variables anywhere in the tree.

The marginal of a set Q is computed on the smallest subtree whose cliques cover Q. A message towards its root
is a table over the separator and the members of Q below it, so that a clique C needs a table over C ∪ (Q
below C), whose size is known before anything is allocated (S. L. Lauritzen and D. J. Spiegelhalter, Journal
of the Royal Statistical Society B 50, 1988; section 4.5 for marginals across cliques).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.errors import InputError, LimitError
from jtsolve.models.columns import position
from jtsolve.models.layout import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.models.columns import Column, RealColumn
    from jtsolve.models.layout import CliqueTables, Layout

MOST_CELLS = 1 << 26
"""Default limit for the largest table of a marginal: half a gigabyte."""


def marginals(model: CliqueTables) -> tuple[NDArray[np.float64], ...]:
    """Returns P(v) for every variable v, shape (states,)."""
    layout = model.layout
    found = []
    for v, place in enumerate(layout.home):
        others = tuple(k for k, u in enumerate(layout.cliques[place]) if u != v)
        found.append(layout.table(model.values, place).sum(axis=others))
    return tuple(found)


def marginal(
    model: CliqueTables, names: Sequence[str], *, most_cells: int = MOST_CELLS
) -> NDArray[np.float64]:
    """Returns the joint marginal of some variables, shape (states, …), axes in the given order.

    Args:
        model: the distribution.
        names: distinct variables, at least one.
        most_cells: largest table allowed, for the result and intermediate tables.

    Raises:
        InputError: a variable is unknown or named twice.
        LimitError: a table would be larger; raised before any work.
    """
    wanted = targets_of(names, model.columns)
    layout = model.layout
    plan = _QuerySubtree.of(layout, wanted)
    require_small(plan.cells, len(wanted), most_cells)
    messages: dict[int, tuple[tuple[int, ...], NDArray[np.float64]]] = {}
    for place in reversed(plan.places):
        variables, table = layout.cliques[place], _conditional(model, place, plan.parent[place])
        for child in plan.children[place]:
            variables, table = _product(variables, table, *messages.pop(child))
        kept = set(plan.separator(layout, place)) | set(wanted)
        out = tuple(v for v in variables if v in kept)
        axes = tuple(k for k, v in enumerate(variables) if v not in kept)
        messages[place] = out, table.sum(axis=axes)
    (variables, table) = messages[plan.places[0]]
    return np.ascontiguousarray(np.transpose(table, [variables.index(v) for v in wanted]))


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


@dataclass(frozen=True, slots=True)
class _QuerySubtree:
    """The smallest subtree that covers a query.

    Attributes:
        places: of its cliques, each after its parent.
        parent: of each clique; -1 at the root.
        children: of each clique.
        cells: of the largest table.
    """

    places: tuple[int, ...]
    parent: dict[int, int]
    children: dict[int, list[int]]
    cells: int

    @classmethod
    def of(cls, layout: Layout, wanted: Sequence[int]) -> _QuerySubtree:
        kept = set(range(len(layout.order)))
        children: dict[int, list[int]] = {place: [] for place in kept}
        query = set(wanted)
        for place in range(len(layout.order) - 1, 0, -1):
            # A leaf whose members of Q all belong to its parent is not needed.
            if not children[place] and query.intersection(layout.cliques[place]) <= set(
                layout.separators[place]
            ):
                kept.remove(place)
            else:
                children[layout.parent[place]].append(place)
        root = 0
        while len(children[root]) == 1 and query.intersection(layout.cliques[root]) <= set(
            layout.separators[children[root][0]]
        ):
            kept.remove(root)
            root = children[root][0]
        places = tuple(sorted(kept))
        covered: dict[int, set[int]] = {}
        cells = prod(layout.arities[v] for v in wanted)
        for place in reversed(places):
            below = set[int]().union(*(covered[child] for child in children[place]))
            cells = max(cells, prod(layout.arities[v] for v in below | set(layout.cliques[place])))
            covered[place] = below | query.intersection(layout.cliques[place])
        parent = {place: -1 if place == root else layout.parent[place] for place in places}
        return cls(places, parent, {place: children[place] for place in places}, cells)

    def separator(self, layout: Layout, place: int) -> tuple[int, ...]:
        """Returns the separator of a clique to its parent in the subtree."""
        return () if self.parent[place] < 0 else layout.separators[place]


def _conditional(model: CliqueTables, place: int, parent: int) -> NDArray[np.float64]:
    """Returns P(C | S), S the separator to the parent; P(C) at the root of the subtree."""
    if parent < 0:
        return model.layout.table(model.values, place)
    return np.exp(model.layout.table(model.families, place))


def _product(
    variables: tuple[int, ...],
    table: NDArray[np.float64],
    others: tuple[int, ...],
    other: NDArray[np.float64],
) -> tuple[tuple[int, ...], NDArray[np.float64]]:
    """Returns the product of two tables, over the variables of both."""
    new = tuple(v for v in others if v not in variables)
    joint = variables + new
    return joint, table.reshape(table.shape + (1,) * len(new)) * spread(other, others, joint)
