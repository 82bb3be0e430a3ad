"""The nodes of feature trees as boxes, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.draw.branching import Box
from jtsolve.draw.text import tree_text
from jtsolve.models.features.nodes import Product, Split, TableLeaf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.models.columns import Column
    from jtsolve.models.features.context import Context
    from jtsolve.models.features.nodes import Node

_MOST_LINES = 12
"""Maximum number of lines of a junction tree in a box."""


def boxes(columns: Sequence[Column], nodes: Sequence[Node], contexts: Sequence[Context]) -> list[Box]:
    """Returns a box for each node: the feature of a split, the cliques or variables of a leaf.

    Args:
        columns: of the model.
        nodes: of the feature tree.
        contexts: of the nodes.
    """
    found = []
    for node, context in zip(nodes, contexts, strict=True):
        if isinstance(node, Split):
            labels = tuple(
                f"{word} {p:.3g}" for word, p in (("no", 1 - node.probability), ("yes", node.probability))
            )
            feature = " ∧ ".join(f"{columns[v].name}={columns[v].states[state]}" for v, state in node.feature)
            found.append(Box((f"{feature}?",), node.kids, labels))
        elif isinstance(node, Product):
            text = "independent parts" if node.kids else "nothing open"
            found.append(Box((text,), node.kids, ("",) * len(node.kids)))
        elif isinstance(node, TableLeaf):
            names = ", ".join(columns[v].name for v in node.variables)
            cells = int(context.is_allowed(node.variables).sum())
            found.append(Box((f"{{{names}}}  {cells} cells",)))
        else:
            lines = tree_text(node.model.tree, node.model.names).splitlines()
            more = [f"… {len(lines) - _MOST_LINES} more cliques"] if len(lines) > _MOST_LINES else []
            found.append(Box((*lines[:_MOST_LINES], *more)))
    return found
