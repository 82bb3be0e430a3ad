"""Entropy and mutual information across separators, in nats."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.varset import members
from jtsolve.models.answers import Description

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.draw.text import Notes
    from jtsolve.models.columns import Column


class EdgeInformation(NamedTuple):
    """Information across an edge of the tree with separator S, in nats.

    Attributes:
        separator: H(S), which is the mutual information of the two sides, each including S.
        neighbours: I(A; B) of the members A and B of the two cliques outside S, with S unobserved; None if
            its table is too large.
    """

    separator: float
    neighbours: float | None


def across_separators(
    tree: JunctionTree, tables: Sequence[NDArray[np.float64]], *, most_cells: int = 1 << 20
) -> list[EdgeInformation]:
    """Returns the information across each edge of a tree.

    Args:
        tree: the junction tree.
        tables: the marginals of its cliques, shape (states, …) each.
        most_cells: largest joint table.
    """
    found = []
    for (i, j), separator in zip(tree.edges, tree.separators, strict=True):
        left, right = (list(members(tree.cliques[c] & ~separator)) for c in (i, j))
        inner = list(members(separator))
        table = clique_marginal(tree, tables, i, inner)
        information = None
        if tables[i].size * tables[j].size / table.size <= most_cells:
            a = clique_marginal(tree, tables, i, left + inner).reshape(-1, table.size)
            b = clique_marginal(tree, tables, j, right + inner).reshape(-1, table.size)
            with np.errstate(divide="ignore", invalid="ignore"):
                joint = a @ np.where(table.ravel() > 0, b / table.ravel(), 0.0).T
            information = max(0.0, _entropy(a.sum(1)) + _entropy(b.sum(1)) - _entropy(joint))
        found.append(EdgeInformation(max(0.0, _entropy(table)), information))
    return found


def clique_marginal(
    tree: JunctionTree, tables: Sequence[NDArray[np.float64]], clique: int, variables: Sequence[int]
) -> NDArray[np.float64]:
    """Returns the joint marginal of some members of a clique, shape (states, …), in the given order.

    Args:
        tree: the junction tree.
        tables: the marginals of its cliques, shape (states, …) each.
        clique: index in `tree.cliques`.
        variables: members of the clique.
    """
    inside = list(members(tree.cliques[clique]))
    axes = tuple(k for k, v in enumerate(inside) if v not in variables)
    left = [v for v in inside if v in variables]
    return np.transpose(tables[clique].sum(axis=axes), [left.index(v) for v in variables])


def _entropy(table: NDArray[np.float64]) -> float:
    positive = table[table > 0]
    return -float(positive @ np.log(positive))


def described(
    tree: JunctionTree,
    columns: Sequence[Column],
    tables: Sequence[NDArray[np.float64]],
    figures: dict[str, Any],
) -> Description:
    """Returns sizes, and the information across each separator, for people.

    Args:
        tree: the junction tree.
        columns: the variables.
        tables: the marginals of the cliques, shape (states, …) each.
        figures: of the whole model, shown among the sizes.
    """
    edges: list[dict[str, Any]] = []
    texts = []
    across = across_separators(tree, tables)
    for pair, separator, passed in zip(tree.edges, tree.separators, across, strict=True):
        inner = [columns[v].name for v in members(separator)]
        known = {"entropy": passed.separator, "mutual_information": passed.neighbours}
        edges.append({"cliques": list(pair), "separator": inner, **known})
        neighbours = "?" if passed.neighbours is None else f"{passed.neighbours:.3f}"
        texts.append(f"H {passed.separator:.3f}, I {neighbours}")
    sizes, notes = sizes_of(tree, columns)
    counts = {"variables": len(columns), "cliques": len(tree.cliques), "treewidth": tree.treewidth}
    facts = {**counts, **figures, **sizes, "separators": edges}
    return Description(facts, trees=((tree, replace(notes, separators=tuple(texts))),))


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
