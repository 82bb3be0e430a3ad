"""Entropy, divergence and mutual information, in nats, and conditional independences.

    H(P) = Σ_C H(C) - Σ_S H(S)
    KL(P‖Q) = -H(P) - Σ_C E_P ln Q(C | S)   (C over the cliques of Q, S the separator to the parent)

In a junction tree, the variables on the two sides of an edge are independent given its separator
(S. L. Lauritzen, Graphical Models, 1996, section 3.2).
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.varset import VarSet, members, varset
from jtsolve.errors import InputError
from jtsolve.models.columns import position
from jtsolve.models.inference.marginals import MOST_CELLS, marginal
from jtsolve.models.layout import rooted
from jtsolve.models.protocol import Description
from jtsolve.tables.options import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.draw.text import Notes
    from jtsolve.models.columns import Column
    from jtsolve.models.layout import CliqueTables


def entropy(model: CliqueTables) -> float:
    """Returns -Σ P ln P over all configurations, in nats. Time: linear in the cells of the cliques."""
    return -_expectation(model.values, model.families)


def divergence(p: CliqueTables, q: CliqueTables, *, most_cells: int = MOST_CELLS) -> float:
    """Returns KL(p‖q) = E_p ln(p/q), in nats; inf if p has support outside that of q.

    The trees may differ: the marginals of p on the cliques of q are computed, in tables of at most
    `most_cells` cells.

    Raises:
        InputError: the models have different variables or states.
        LimitError: a marginal needs a larger table.
    """
    mine = [column.name for column in p.columns]
    if set(mine) != {column.name for column in q.columns}:
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
    table: NDArray[np.float64], axis: int, p: CliqueTables, q: CliqueTables, v: int
) -> NDArray[np.float64]:
    """Returns a table of p with the states of an axis in q's order."""
    column = q.columns[v]
    mine = next(one.states for one in p.columns if one.name == column.name)
    if mine == column.states:
        return table
    if set(mine) != set(column.states):
        raise InputError(
            "models",
            f"column '{column.name}'",
            "its states differ between the models",
            f"fit both to data with the same states; declare them with {SCHEMA}",
        )
    return np.take(table, [mine.index(label) for label in column.states], axis=axis)


class EdgeInformation(NamedTuple):
    """Information across an edge of the tree with separator S, in nats.

    Attributes:
        separator: H(S), which is the mutual information of the two sides, each including S.
        neighbours: I(A; B) of the members A and B of the two cliques outside S, with S unobserved; None if it
            needs too large a table.
    """

    separator: float
    neighbours: float | None


def across_separators(model: CliqueTables, *, most_cells: int = 1 << 20) -> list[EdgeInformation]:
    """Returns the information across each of `model.tree.edges`; joint tables have up to `most_cells`."""
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
        found.append(EdgeInformation(max(0.0, _entropy(table)), information))
    return found


def _onto(model: CliqueTables, clique: int, variables: list[int]) -> NDArray[np.float64]:
    """Returns the marginal of some members of a clique, in this order."""
    inside = list(members(model.tree.cliques[clique]))
    axes = tuple(k for k, v in enumerate(inside) if v not in variables)
    left = [v for v in inside if v in variables]
    return np.transpose(model.tables[clique].sum(axis=axes), [left.index(v) for v in variables])


def _entropy(table: NDArray[np.float64]) -> float:
    positive = table[table > 0]
    return -float(positive @ np.log(positive))


def described(model: CliqueTables) -> Description:
    """Returns sizes, and the information at each separator, for people."""
    edges: list[dict[str, Any]] = []
    texts = []
    across = across_separators(model)
    for pair, separator, passed in zip(model.tree.edges, model.tree.separators, across, strict=True):
        inner = [model.columns[v].name for v in members(separator)]
        known = {"entropy": passed.separator, "mutual_information": passed.neighbours}
        edges.append({"cliques": list(pair), "separator": inner, **known})
        neighbours = "?" if passed.neighbours is None else f"{passed.neighbours:.3f}"
        texts.append(f"H {passed.separator:.3f}, I {neighbours}")
    sizes, notes = sizes_of(model.tree, model.columns)
    facts = {
        "variables": len(model.columns),
        "cliques": len(model.tree.cliques),
        "treewidth": model.tree.treewidth,
        "parameters": model.layout.cells - model.layout.separator_cells,
        "entropy_nats": entropy(model),
        **sizes,
        "separators": edges,
    }
    return Description(facts, trees=((model.tree, replace(notes, separators=tuple(texts))),))


def sizes_of(tree: JunctionTree, columns: Sequence[Column]) -> tuple[dict[str, Any], Notes]:
    """Returns the sizes of the tables of a tree, as facts and as notes."""
    from jtsolve.draw.text import Notes

    cliques = [[columns[v] for v in members(clique)] for clique in tree.cliques]
    cells = [prod(column.arity for column in clique) for clique in cliques]
    tables = [
        {"clique": [column.name for column in clique], "cells": size}
        for clique, size in zip(cliques, cells, strict=True)
    ]
    notes = tuple(f"{size} cell{'s' * (size > 1)}" for size in cells)
    return {"cells": sum(cells), "tables": tables}, Notes(notes, ("",) * len(tree.edges))


class ConditionalIndependence(NamedTuple):
    """Variables `left` are independent of `right` given `given`; all by name."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    given: tuple[str, ...]


def independences(model: CliqueTables) -> list[ConditionalIndependence]:
    """Returns one statement for each edge of the tree: its sides are independent given the separator."""
    tree = model.tree
    everything = (1 << tree.n) - 1

    def named(mask: VarSet) -> tuple[str, ...]:
        return tuple(model.columns[v].name for v in members(mask))

    order, parent = rooted(tree)
    position = {i: place for place, i in enumerate(order)}
    below = [tree.cliques[i] for i in order]  # the variables of each clique's subtree
    for place in range(len(order) - 1, 0, -1):
        below[parent[place]] |= below[place]
    found = []
    for (i, j), separator in zip(tree.edges, tree.separators, strict=True):
        child = max(position[i], position[j])
        outside, inside = everything & ~below[child], below[child] & ~separator
        left, right = (inside, outside) if position[i] == child else (outside, inside)
        found.append(ConditionalIndependence(named(left), named(right), named(separator)))
    return found


def are_independent(
    model: CliqueTables, left: Iterable[str], right: Iterable[str], given: Iterable[str] = ()
) -> bool:
    """Tells whether `given` separates `left` and `right` in the graph.

    If False, they may still be independent by coincidence of the tables.

    Raises:
        InputError: a variable is unknown, or the sets overlap.
    """
    known = [column.name for column in model.columns]
    a, b, s = (varset(position(known, name) for name in names) for names in (left, right, given))
    if a & b or a & s or b & s:
        raise InputError("query", "variables", "the three sets overlap", "name each variable once")
    return not _reached(model.tree, a, s) & b


def _reached(tree: JunctionTree, start: VarSet, blocked: VarSet) -> VarSet:
    """Returns the variables reachable from `start` by paths that avoid `blocked`."""
    reached = start
    while True:
        wider = reached
        for clique in tree.cliques:
            if clique & wider & ~blocked:
                wider |= clique & ~blocked
        if wider == reached:
            return reached
        reached = wider
