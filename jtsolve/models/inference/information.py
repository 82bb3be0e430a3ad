"""Entropies and divergences, in nats, and what is independent of what.

    H(P) = Σ over cliques of H(C) - Σ over separators of H(S);  KL(P‖Q) = -H(P) - Σ over Q's cliques of E_P ln
    Q(C | S)

A junction tree says: the variables on one side of an edge are independent of those on the other, given its
separator (S. L. Lauritzen, Graphical Models, 1996, section 3.2). All other statements of the graph follow
from separation.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.core.varset import VarSet, members, varset
from jtsolve.errors import InputError
from jtsolve.models.inference.marginals import MOST_CELLS, marginal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.model import JunctionTreeModel


def entropy(model: JunctionTreeModel) -> float:
    """Returns -Σ P ln P over all configurations, in nats. Time: the cells of the cliques."""
    return -_expectation(model.values, model.families)


def divergence(p: JunctionTreeModel, q: JunctionTreeModel, *, most_cells: int = MOST_CELLS) -> float:
    """Returns the Kullback-Leibler divergence KL(p‖q) = E_p ln(p/q) in nats; inf where q excludes what p has.

    The models may have different trees. The marginals of p on the cliques of q are computed, of at most
    `most_cells` cells each.

    Raises:
        InputError: the models have different variables, or states.
        LimitError: a marginal would have more cells.
    """
    if set(p.names) != set(q.names):
        raise InputError(
            "models", "", "they have different variables", "compare models of the same variables"
        )
    crossed = 0.0
    for place, clique in enumerate(q.layout.cliques):
        table = marginal(p, [q.columns[v].name for v in clique], most_cells=most_cells)
        for axis, v in enumerate(clique):
            table = _aligned(table, axis, p, q, v)
        crossed += _expectation(table, q.layout.table(q.families, place))
    return inf if crossed == -inf else max(0.0, -entropy(p) - crossed)


def _expectation(probabilities: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Returns Σ p·v over the cells with p > 0."""
    possible = probabilities > 0
    return float(probabilities[possible] @ values[possible])


def _aligned(
    table: NDArray[np.float64], axis: int, p: JunctionTreeModel, q: JunctionTreeModel, v: int
) -> NDArray[np.float64]:
    """Returns a table of p with the states of an axis in the order that q has them in."""
    column = q.columns[v]
    mine = p.columns[p.variable(column.name)].states
    if mine == column.states:
        return table
    if set(mine) != set(column.states):
        raise InputError(
            "models",
            f"column '{column.name}'",
            "it has different states in the two",
            "fit both to data with the same states (--schema)",
        )
    return np.take(table, [mine.index(label) for label in column.states], axis=axis)


class Across(NamedTuple):
    """What passes an edge of the tree, in nats.

    Attributes:
        separator: H(S): what the two sides, each with S, tell one another, since they share S and no more.
        neighbours: I(A; B), A and B the members of the two cliques that are not in S: what they tell one
            another if S is not seen; None if that needs too large a table.
    """

    separator: float
    neighbours: float | None


def across_separators(model: JunctionTreeModel, *, most_cells: int = 1 << 20) -> list[Across]:
    """Returns what passes each edge of `model.tree.edges`; joint tables of at most `most_cells` cells."""
    found = []
    for (i, j), separator in zip(model.tree.edges, model.tree.separators, strict=True):
        left, right = (list(members(model.tree.cliques[c] & ~separator)) for c in (i, j))
        inner = list(members(separator))
        table = _onto(model, i, inner)
        arities = [model.columns[v].arity for v in (*left, *right, *inner)]
        information = None
        if np.prod(arities, dtype=np.float64) <= most_cells:
            a = _onto(model, i, left + inner).reshape(-1, table.size)
            b = _onto(model, j, right + inner).reshape(-1, table.size)
            with np.errstate(divide="ignore", invalid="ignore"):
                joint = a @ np.where(table.ravel() > 0, b / table.ravel(), 0.0).T
            information = max(0.0, _entropy(a.sum(1)) + _entropy(b.sum(1)) - _entropy(joint))
        found.append(Across(max(0.0, _entropy(table)), information))
    return found


def _onto(model: JunctionTreeModel, clique: int, variables: list[int]) -> NDArray[np.float64]:
    """Returns the marginal of members of a clique, in this order."""
    inside = list(members(model.tree.cliques[clique]))
    axes = tuple(k for k, v in enumerate(inside) if v not in variables)
    left = [v for v in inside if v in variables]
    return np.transpose(model.tables[clique].sum(axis=axes), [left.index(v) for v in variables])


def _entropy(table: NDArray[np.float64]) -> float:
    positive = table[table > 0]
    return -float(positive @ np.log(positive))


class Independence(NamedTuple):
    """Variables `left` are independent of `right` given `given`; all by name."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    given: tuple[str, ...]


def independences(model: JunctionTreeModel) -> list[Independence]:
    """Returns the statement of each edge of the tree, in order: one side is independent of the other."""
    tree = model.tree
    adjacent: list[list[int]] = [[] for _ in tree.cliques]
    for i, j in tree.edges:
        adjacent[i].append(j)
        adjacent[j].append(i)
    everything = (1 << tree.n) - 1

    def named(mask: VarSet) -> tuple[str, ...]:
        return tuple(model.columns[v].name for v in members(mask))

    found = []
    for (i, j), separator in zip(tree.edges, tree.separators, strict=True):
        side, stack, seen = 0, [i], {i, j}
        while stack:
            clique = stack.pop()
            side |= tree.cliques[clique]
            new = [other for other in adjacent[clique] if other not in seen]
            seen.update(new)
            stack.extend(new)
        found.append(Independence(named(side & ~separator), named(everything & ~side), named(separator)))
    return found


def are_independent(
    model: JunctionTreeModel, left: Iterable[str], right: Iterable[str], given: Iterable[str] = ()
) -> bool:
    """Tells whether the tree makes two sets of variables independent given a third: whether it separates.

    If False, they may still be independent in the tables.

    Raises:
        InputError: a variable is unknown, or the sets share one.
    """
    a, b, s = (varset(model.variables(names)) for names in (left, right, given))
    if a & b or a & s or b & s:
        raise InputError("query", "variables", "the three sets share some", "name each one once")
    return not _reached(model.tree, a, s) & b


def _reached(tree: JunctionTree, start: VarSet, blocked: VarSet) -> VarSet:
    """Returns the variables that paths from `start` lead to without passing `blocked`."""
    reached = start
    while True:
        wider = reached
        for clique in tree.cliques:
            if clique & wider & ~blocked:
                wider |= clique & ~blocked
        if wider == reached:
            return reached
        reached = wider
