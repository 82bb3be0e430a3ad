"""Fits the tables of a given model to weighted rows: of a junction tree, or of a feature tree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from jtsolve.models.features.nodes import Product, Split, TableLeaf, kids_of
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.layout import layout_of
from jtsolve.models.learning.fit import Counts, cell_counts, fit
from jtsolve.models.learning.leaves import codes_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.features.nodes import Node
    from jtsolve.models.mixture import Component
    from jtsolve.tables.table import Codes, DataTable

    Structure: TypeAlias = JunctionTree | FeatureTree


def refitted(structure: Structure, table: DataTable, ess: float, weights: NDArray[np.float64]) -> Component:
    """Returns the model of a junction tree, or a feature tree with the same nodes, fitted to a table.

    Args:
        structure: over the columns of the table, in their order.
        table: the data, with its weights.
        ess: equivalent sample size of the prior of every table and split, above 0.
        weights: shape (rows,), additional non-negative weights.
    """
    if not isinstance(structure, FeatureTree):
        return fit(structure, table, ess=ess, weights=weights)
    each = weights if table.weights is None else weights * table.weights
    inside: list[list[NDArray[np.int64]]] = [[] for _ in structure.nodes]
    inside[0].append(np.arange(table.rows))
    nodes: list[Node] = []
    for i, node in enumerate(structure.nodes):
        rows = np.concatenate([*inside[i], np.zeros(0, dtype=np.int64)]).astype(np.int64)
        kids = kids_of(node)
        if isinstance(node, Split):
            holds = np.ones(len(rows), dtype=np.bool_)
            for v, state in node.feature:
                holds &= table.codes[v, rows] == state
            parts = [rows[~holds], rows[holds]]
            share = (each[parts[1]].sum() + ess / 2) / (each[rows].sum() + ess)
            nodes.append(replace(node, probability=float(share)))
        else:
            parts = [rows] * len(kids)
            nodes.append(_leaf(structure, i, table.codes[:, rows], each[rows], ess))
        for kid, part in zip(kids, parts, strict=True):
            inside[kid].append(part)
    return FeatureTree(structure.columns, tuple(nodes), structure.provenance)


def _leaf(tree: FeatureTree, i: int, codes: Codes, weights: NDArray[np.float64], ess: float) -> Node:
    """Returns a leaf fitted to its rows; a product as it is."""
    node, context = tree.nodes[i], tree.contexts[i]
    if isinstance(node, Product | Split):
        return node
    own, total = codes_in(codes, tree.columns, context), float(weights.sum())
    if isinstance(node, TableLeaf):
        allowed, dims = context.is_allowed(node.variables), context.dims(node.variables)
        at = np.ravel_multi_index(tuple(own), dims) if len(dims) else np.zeros(0, dtype=np.int64)
        counts = np.bincount(at, weights, minlength=allowed.size).reshape(dims)
        values = np.where(allowed, (counts + ess / allowed.sum()) / (total + ess), 0.0)
        return replace(node, values=values)
    model = node.model
    cells = cell_counts(layout_of(model.tree, tuple(c.arity for c in model.columns)), own, weights)
    return replace(node, model=Counts(model.columns, model.tree, cells, total, {}).model(ess))
