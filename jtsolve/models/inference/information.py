"""Entropy and mutual information, in nats.

H(P) = Σ_C H(C) - Σ_S H(S)
"""

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
    from jtsolve.models.layout import CliqueTables


def entropy(model: CliqueTables) -> float:
    """Returns -Σ P ln P over all configurations, in nats. Time: linear in the cells of the cliques."""
    possible = model.values > 0
    return -float(model.values[possible] @ model.families[possible])


class EdgeInformation(NamedTuple):
    """Information across an edge of the tree with separator S, in nats.

    Attributes:
        separator: H(S), which is the mutual information of the two sides, each including S.
        neighbours: I(A; B) of the members A and B of the two cliques outside S, with S unobserved; None if
            its table is too large.
    """

    separator: float
    neighbours: float | None


def across_separators(model: CliqueTables, *, most_cells: int = 1 << 20) -> list[EdgeInformation]:
    """Returns the information across each of `model.tree.edges`; joint tables have up to `most_cells`."""
    found = []
    for (i, j), separator in zip(model.tree.edges, model.tree.separators, strict=True):
        left, right = (list(members(model.tree.cliques[c] & ~separator)) for c in (i, j))
        inner = list(members(separator))
        table = clique_marginal(model, i, inner)
        arities = [model.columns[v].arity for v in (*left, *right, *inner)]
        information = None
        if np.prod(arities, dtype=np.float64) <= most_cells:
            a = clique_marginal(model, i, left + inner).reshape(-1, table.size)
            b = clique_marginal(model, j, right + inner).reshape(-1, table.size)
            with np.errstate(divide="ignore", invalid="ignore"):
                joint = a @ np.where(table.ravel() > 0, b / table.ravel(), 0.0).T
            information = max(0.0, _entropy(a.sum(1)) + _entropy(b.sum(1)) - _entropy(joint))
        found.append(EdgeInformation(max(0.0, _entropy(table)), information))
    return found


def clique_marginal(model: CliqueTables, clique: int, variables: Sequence[int]) -> NDArray[np.float64]:
    """Returns the joint marginal of some members of a clique, shape (states, …), in the given order.

    Args:
        model: the distribution.
        clique: index in `model.tree.cliques`.
        variables: members of the clique.
    """
    inside = list(members(model.tree.cliques[clique]))
    axes = tuple(k for k, v in enumerate(inside) if v not in variables)
    left = [v for v in inside if v in variables]
    return np.transpose(model.tables[clique].sum(axis=axes), [left.index(v) for v in variables])


def _entropy(table: NDArray[np.float64]) -> float:
    positive = table[table > 0]
    return -float(positive @ np.log(positive))


def described(model: CliqueTables) -> Description:
    """Returns sizes, and the information across each separator, for people."""
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
