"""Junction tree models as Bayesian networks.

A junction tree rooted at any clique is a Bayesian network without v-structures: the parents of a variable
that a clique adds to its separator are the separator and the variables added before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.varset import members
from jtsolve.errors import ChoiceError
from jtsolve.models.inference.information import clique_marginal
from jtsolve.models.layout import rooted
from jtsolve.networks.network import Network, NetworkNode

if TYPE_CHECKING:
    from jtsolve.models.layout import CliqueTables


def to_network(model: CliqueTables, root: int = 0) -> Network:
    """Returns the model as a Bayesian network, with the nodes in the order of its columns.

    Rows for parent configurations of probability 0 are uniform.

    Args:
        model: the distribution.
        root: index in `model.tree.cliques` of the root clique.

    Raises:
        ChoiceError: there is no such clique.
    """
    tree = model.tree
    if not 0 <= root < len(tree.cliques):
        raise ChoiceError(f"there is no clique {root}; there are 0 to {len(tree.cliques) - 1}")
    nodes: dict[int, NetworkNode] = {}
    order, parent = rooted(tree, root)
    for clique, above in zip(order, parent, strict=True):
        separator = tree.cliques[clique] & tree.cliques[order[above]] if above >= 0 else 0
        parents = list(members(separator))
        for v in members(tree.cliques[clique] & ~separator):
            nodes[v] = _node(model, clique, v, parents)
            parents.append(v)
    return Network("jtsolve", tuple(nodes[v] for v in range(tree.n)))


def _node(model: CliqueTables, clique: int, v: int, parents: list[int]) -> NetworkNode:
    column = model.columns[v]
    rows = clique_marginal(model, clique, (*parents, v)).reshape(-1, column.arity)
    totals = rows.sum(axis=1, keepdims=True)
    conditional = np.full_like(rows, 1 / column.arity)
    np.divide(rows, totals, out=conditional, where=totals > 0)
    conditional.setflags(write=False)
    return NetworkNode(column.name, column.states, tuple(parents), conditional)
