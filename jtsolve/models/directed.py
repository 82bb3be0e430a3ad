"""Bayesian networks of models and models of Bayesian networks.

A junction tree rooted at any clique is a Bayesian network without v-structures: within the root each variable
has those before it as parents, and in every other clique each new variable has the separator and the new ones
before it. The other way round, a network is moralised and triangulated (`triangulation`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.varset import members
from jtsolve.errors import ChoiceError
from jtsolve.models.columns import Column
from jtsolve.models.triangulation import Factor, Heuristic, calibrated
from jtsolve.networks.bif import Network, Node

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.models.model import JunctionTreeModel


def to_network(model: JunctionTreeModel, root: int = 0, name: str = "jtsolve") -> Network:
    """Returns the model as a Bayesian network, its nodes in the order of the model's columns.

    Where parents are in a configuration of probability 0, a row of the table is uniform.

    Args:
        model: the distribution.
        root: position in `model.tree.cliques` of the clique without parents.
        name: of the network.

    Raises:
        ChoiceError: there is no such clique.
    """
    tree = model.tree
    if not 0 <= root < len(tree.cliques):
        raise ChoiceError(f"there is no clique {root}; there are 0 to {len(tree.cliques) - 1}")
    adjacent: list[list[int]] = [[] for _ in tree.cliques]
    for i, j in tree.edges:
        adjacent[i].append(j)
        adjacent[j].append(i)
    nodes: dict[int, Node] = {}
    stack = [(root, root)]
    while stack:
        clique, above = stack.pop()
        parents = [] if clique == root else list(members(tree.cliques[clique] & tree.cliques[above]))
        for v in members(tree.cliques[clique]):
            if v not in parents and v not in nodes:
                nodes[v] = _node(model, clique, v, parents)
                parents.append(v)
        stack.extend((other, clique) for other in adjacent[clique] if other != above)
    return Network(name, tuple(nodes[v] for v in range(model.n)))


def _node(model: JunctionTreeModel, clique: int, v: int, parents: list[int]) -> Node:
    inside = list(members(model.tree.cliques[clique]))
    kept = [u for u in inside if u == v or u in parents]
    table = model.tables[clique].sum(axis=tuple(k for k, u in enumerate(inside) if u not in kept))
    column = model.columns[v]
    rows = np.transpose(table, [kept.index(u) for u in (*parents, v)]).reshape(-1, column.arity)
    totals = rows.sum(axis=1, keepdims=True)
    conditional = np.full_like(rows, 1 / column.arity)
    np.divide(rows, totals, out=conditional, where=totals > 0)
    conditional.setflags(write=False)
    return Node(column.name, column.states, tuple(parents), conditional)


def from_network(network: Network, heuristic: Heuristic = "min-fill") -> JunctionTreeModel:
    """Returns the distribution of a Bayesian network on a junction tree of its moralised graph.

    Raises:
        ChoiceError: there is no such heuristic.
        LimitError: the tables need more memory than there is.
    """
    columns = [Column(node.name, node.states) for node in network.nodes]
    factors = [Factor((*node.parents, i), _factor(network, node)) for i, node in enumerate(network.nodes)]
    provenance = {"network": network.name, "triangulation": heuristic}
    return calibrated(columns, factors, heuristic=heuristic, provenance=provenance).model


def _factor(network: Network, node: Node) -> NDArray[np.float64]:
    """Returns the table of a node with an axis for each parent, and one for the node."""
    return node.table.reshape([*(len(network.nodes[p].states) for p in node.parents), len(node.states)])
