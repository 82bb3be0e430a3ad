"""Marginals of single variables, and of sets of variables wherever they lie in the tree.

The marginal of a set Q needs the smallest subtree whose cliques hold Q. Messages go through it to its root,
each a table over the separator and the members of Q behind it: the cells at a clique C are those of C ∪ (Q
behind C). That number is known before anything is allocated (S. L. Lauritzen and D. J. Spiegelhalter, Journal
of the Royal Statistical Society B 50, 1988, and section 4.5 there for marginals across cliques).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.errors import InputError, LimitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.models.layout import Layout
    from jtsolve.models.model import JunctionTreeModel

MOST_CELLS = 1 << 26
"""Cells of the largest table that a marginal may need, unless the caller allows more: half a gigabyte."""


def marginals(model: JunctionTreeModel) -> tuple[NDArray[np.float64], ...]:
    """Returns P(v) for every variable, each an array with an entry for each state."""
    from jtsolve.models.kernels.cliques import single_marginals

    layout = model.layout
    first = layout.first_states
    out = np.zeros(first[-1])
    single_marginals(model.values, layout.shape, np.array(layout.home), first, out)
    return tuple(out[start:stop] for start, stop in pairwise(first.tolist()))


def marginal_cells(model: JunctionTreeModel, names: Sequence[str]) -> int:
    """Returns the number of cells of the largest table that `marginal` needs."""
    return _Plan.of(model.layout, _positions(model, names)).cells


def marginal(
    model: JunctionTreeModel, names: Sequence[str], *, most_cells: int = MOST_CELLS
) -> NDArray[np.float64]:
    """Returns the joint marginal of some variables, an axis for each in the order given.

    Args:
        model: the distribution.
        names: different variables, at least one.
        most_cells: the most cells that a table may have, the result and those on the way.

    Raises:
        InputError: a variable is unknown, or named twice.
        LimitError: a table would have more cells; said before any work.
    """
    wanted = _positions(model, names)
    layout = model.layout
    plan = _Plan.of(layout, wanted)
    if plan.cells > most_cells:
        raise LimitError(
            f"the joint marginal of {len(wanted)} variables needs a table of {plan.cells:.3g} cells, "
            f"{8 * plan.cells / 1e9:.3g} GB, but {most_cells:.3g} cells are allowed. Ways out: fewer "
            "variables, or several marginals of those near one another in the tree"
        )
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


def _positions(model: JunctionTreeModel, names: Sequence[str]) -> tuple[int, ...]:
    wanted = model.variables(names)
    if not wanted or len(set(wanted)) < len(wanted):
        raise InputError("query", "variables", "there are none, or one is named twice", "name each one once")
    return wanted


@dataclass(frozen=True, slots=True)
class _Plan:
    """The subtree that a marginal needs.

    Attributes:
        places: of its cliques, the root first, each after its parent.
        parent: of each of them; -1 at the root.
        children: of each of them.
        cells: of the largest table.
    """

    places: tuple[int, ...]
    parent: dict[int, int]
    children: dict[int, list[int]]
    cells: int

    @classmethod
    def of(cls, layout: Layout, wanted: Sequence[int]) -> _Plan:
        kept = set(range(len(layout.order)))
        children: dict[int, list[int]] = {place: [] for place in kept}
        query = set(wanted)
        for place in range(len(layout.order) - 1, 0, -1):
            # A leaf whose part of Q is in its parent too adds nothing.
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
        behind: dict[int, set[int]] = {}
        cells = prod(layout.arities[v] for v in wanted)
        for place in reversed(places):
            below = set[int]().union(*(behind[child] for child in children[place]))
            cells = max(cells, prod(layout.arities[v] for v in below | set(layout.cliques[place])))
            behind[place] = below | query.intersection(layout.cliques[place])
        parent = {place: -1 if place == root else layout.parent[place] for place in places}
        return cls(places, parent, {place: children[place] for place in places}, cells)

    def separator(self, layout: Layout, place: int) -> tuple[int, ...]:
        """Returns the members that a clique shares with its parent in the subtree."""
        return () if self.parent[place] < 0 else layout.separators[place]


def _conditional(model: JunctionTreeModel, place: int, parent: int) -> NDArray[np.float64]:
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
    order = sorted(range(len(others)), key=lambda k: joint.index(others[k]))
    dims = dict(zip(others, other.shape, strict=True))
    shape = [dims.get(v, 1) for v in joint]
    return joint, table.reshape(table.shape + (1,) * len(new)) * np.transpose(other, order).reshape(shape)
