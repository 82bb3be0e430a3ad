"""The parts of model files as JSON values: columns, the tables of a junction tree, and arrays as base64."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.core.varset import members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.tree import JunctionTree
    from jtsolve.models.columns import Column, RealColumn


def parts_document(
    tree: JunctionTree, names: Sequence[str], tables: Sequence[NDArray[np.float64]]
) -> dict[str, Any]:
    """Returns the fields of a tree and its tables.

    Args:
        tree: the junction tree.
        names: of the variables.
        tables: of its cliques, shape (arity, …) each.
    """
    return {
        "cliques": [[names[v] for v in members(clique)] for clique in tree.cliques],
        "tree_edges": [list(edge) for edge in tree.edges],
        "tables": [base64_of(table) for table in tables],
    }


def column_document(column: Column | RealColumn) -> dict[str, Any]:
    """Returns a column as JSON values; a real one has its name and the knots of its margin."""
    if column.states is None:
        margin = column.margin
        knots = {} if margin is None else {"knots": list(zip(margin.values, margin.scores, strict=True))}
        return {"name": column.name, **knots}
    cuts = {} if column.cuts is None else {"cuts": list(column.cuts)}
    kind = {} if column.kind == "text" else {"kind": column.kind}
    marks = {mark: True for mark in ("hidden", "gap") if getattr(column, mark)}
    return {"name": column.name, "states": list(column.states), **cuts, **kind, **marks}


def base64_of(array: NDArray[np.float64]) -> str:
    """Returns an array of any shape as base64 of little-endian 64-bit floats."""
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode("ascii")
