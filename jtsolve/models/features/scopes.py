"""The Markov network of a feature tree: which variables have a common factor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.core.varset import VarSet, varset
from jtsolve.models.features.nodes import Split, TableLeaf, TreeLeaf, kids_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.models.features.context import Context
    from jtsolve.models.features.nodes import Node


def common_scopes(nodes: Sequence[Node], contexts: Sequence[Context]) -> list[VarSet]:
    """Returns the sets of variables that have a common factor."""
    above = [0] * len(nodes)
    scopes = [1 << v for v in contexts[0].domains]
    for i, node in enumerate(nodes):
        if isinstance(node, TableLeaf):
            scopes.append(above[i] | varset(node.variables))
        elif isinstance(node, TreeLeaf):
            cliques = node.model.layout.cliques
            scopes += [above[i] | varset(node.variables[v] for v in clique) for clique in cliques]
        here = above[i]
        if isinstance(node, Split):
            left = set(contexts[i].domains)
            for kid in node.kids:
                here |= varset(left - set(contexts[kid].domains))
            here |= varset(v for v, _ in node.feature)
            scopes.append(here)
        for kid in kids_of(node):
            above[kid] = here
    return scopes
