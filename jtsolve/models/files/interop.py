"""Conversion of models to and from objects of networkx, pyAgrum and pgmpy.

Numbers keep full precision and names are unchanged. The libraries are optional.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members, varset
from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.columns import Column
from jtsolve.models.model import JunctionTreeModel
from jtsolve.models.network import NetworkModel
from jtsolve.networks.network import Network, NetworkNode
from jtsolve.tables.values import kind_of_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import networkx as nx
    from numpy.typing import NDArray

    from jtsolve.models.protocol import Distribution


def to_networkx(model: JunctionTreeModel) -> nx.Graph:
    """Returns the tree as a graph with a node for each clique and an edge for each separator.

    Nodes have the attributes `members` (names) and `table` (one axis a member), edges `separator` (names),
    and the graph `states` (labels by variable, in the order of the model).
    """
    import networkx as nx

    graph = nx.Graph(states={column.name: column.states for column in model.columns})
    for i, (clique, table) in enumerate(zip(model.tree.cliques, model.tables, strict=True)):
        graph.add_node(i, members=_names(model, clique), table=table)
    for (i, j), separator in zip(model.tree.edges, model.tree.separators, strict=True):
        graph.add_edge(i, j, separator=_names(model, separator))
    return graph


class MbiTree(NamedTuple):
    """A junction tree in the data structures of mbi, which is not imported.

    Attributes:
        domain: the number of states of each attribute, in the order of the columns: `mbi.Domain.fromdict`.
        cliques: tuples of attributes in this order.
        tree: the junction tree, a graph of networkx whose nodes are the cliques.
    """

    domain: dict[str, int]
    cliques: list[tuple[str, ...]]
    tree: nx.Graph


def to_mbi(tree: JunctionTree, names: Sequence[str], states: Sequence[int | None]) -> MbiTree:
    """Returns a junction tree in the data structures of mbi.

    Args:
        tree: over the variables.
        names: of the variables.
        states: their numbers of states; None where unknown, or for real variables.

    Raises:
        ChoiceError: a number of states is unknown.
    """
    import networkx as nx

    domain = dict(zip(names, states, strict=True))
    if unknown := [name for name, count in domain.items() if count is None]:
        raise ChoiceError(
            f"mbi supports discrete variables only, and the number of states of '{unknown[0]}' is not known; "
            "learn from a discrete table"
        )
    cliques = [tuple(names[v] for v in members(clique)) for clique in tree.cliques]
    graph = nx.Graph()
    graph.add_nodes_from(cliques)
    graph.add_edges_from((cliques[i], cliques[j]) for i, j in tree.edges)
    return MbiTree({name: count for name, count in domain.items() if count is not None}, cliques, graph)


def from_networkx(graph: nx.Graph) -> JunctionTreeModel:
    """Returns the model of a graph with the attributes that `to_networkx` sets.

    Raises:
        ValueError: the cliques do not form a junction tree, or the tables are not consistent marginals.
    """
    held = graph.graph["states"].items()
    columns = tuple(Column(name, tuple(states), kind=kind_of_texts(states)) for name, states in held)
    position = {column.name: v for v, column in enumerate(columns)}
    nodes = list(graph.nodes)
    cliques, tables = [], {}
    for node in nodes:
        inside = [position[name] for name in graph.nodes[node]["members"]]
        order = np.argsort(inside)
        cliques.append(varset(inside))
        tables[varset(inside)] = np.transpose(graph.nodes[node]["table"], order)
    place = {node: i for i, node in enumerate(nodes)}
    tree = JunctionTree(len(columns), tuple(cliques), tuple((place[a], place[b]) for a, b in graph.edges))
    return JunctionTreeModel(columns, tree, tuple(tables[clique] for clique in tree.cliques))


def to_pyagrum(network: Network) -> Any:
    """Returns a network as a `pyagrum.BayesNet`.

    Raises:
        ChoiceError: pyAgrum is not installed.
    """
    gum = _library("pyagrum", "pyagrum")
    result = gum.BayesNet(network.name)
    for node in network.nodes:
        result.add(gum.LabelizedVariable(node.name, node.name, list(node.states)))
    for node in network.nodes:
        for parent in node.parents:
            result.addArc(network.nodes[parent].name, node.name)
        dims = [len(network.nodes[p].states) for p in node.parents]
        # pyAgrum orders the axes by `names`, reversed, regardless of the order of the arcs.
        axes = [*(network.nodes[p].name for p in node.parents), node.name]
        places = [axes.index(name) for name in reversed(result.cpt(node.name).names)]
        table = np.transpose(node.table.reshape([*dims, len(node.states)]), places)
        result.cpt(node.name).fillWith(table.ravel().tolist())
    return result


def from_pyagrum(network: Any) -> NetworkModel:
    """Returns the distribution of a `pyagrum.BayesNet`."""
    order = sorted(network.nodes())
    place = {node: i for i, node in enumerate(order)}
    nodes = []
    for node in order:
        variable = network.variable(node)
        parents = [p for p in order if p in network.parents(node)]
        names = list(reversed(network.cpt(node).names))
        table = np.array(network.cpt(node).tolist(), dtype=np.float64)
        places = [names.index(network.variable(p).name()) for p in parents]
        places.append(names.index(variable.name()))
        rows = np.transpose(table, places).reshape(-1, variable.domainSize())
        own = tuple(place[p] for p in parents)
        nodes.append(_node("pyAgrum", variable.name(), tuple(variable.labels()), own, rows))
    return NetworkModel(Network("pyagrum", tuple(nodes)))


def to_pgmpy(network: Network) -> Any:
    """Returns a network as a `pgmpy.models.DiscreteBayesianNetwork`.

    Raises:
        ChoiceError: pgmpy is not installed.
    """
    models, factors = _library("pgmpy.models", "pgmpy"), _library("pgmpy.factors.discrete", "pgmpy")
    result = models.DiscreteBayesianNetwork()
    result.add_nodes_from([node.name for node in network.nodes])
    for node in network.nodes:
        parents = [network.nodes[p] for p in node.parents]
        result.add_edges_from([(parent.name, node.name) for parent in parents])
        result.add_cpds(
            factors.TabularCPD(
                node.name,
                len(node.states),
                node.table.T.tolist(),
                evidence=[parent.name for parent in parents] or None,
                evidence_card=[len(parent.states) for parent in parents] or None,
                state_names={other.name: list(other.states) for other in (node, *parents)},
            )
        )
    return result


def from_pgmpy(network: Any) -> NetworkModel:
    """Returns the distribution of a `DiscreteBayesianNetwork`."""
    names = list(network.nodes())
    nodes = []
    for name in names:
        table = network.get_cpds(name)
        parents = list(table.variables[1:])
        values: NDArray[np.float64] = np.moveaxis(np.asarray(table.values, dtype=np.float64), 0, -1)
        states = tuple(map(str, table.state_names[name]))
        # A table may list the states of a parent in another order than the parent's own table.
        for axis, parent in enumerate(parents):
            own = network.get_cpds(parent).state_names[parent]
            values = np.take(values, [table.state_names[parent].index(state) for state in own], axis=axis)
        places = tuple(names.index(parent) for parent in parents)
        nodes.append(_node("pgmpy", str(name), states, places, values.reshape(-1, len(states))))
    return NetworkModel(Network("pgmpy", tuple(nodes)))


def _node(
    program: str, name: str, states: tuple[str, ...], parents: tuple[int, ...], rows: NDArray[np.float64]
) -> NetworkNode:
    """Returns a node of a program's network; raises InputError if a number is negative or not finite."""
    if not (np.isfinite(rows).all() and (rows >= 0).all()):
        reason = f"the table of '{name}' has numbers that are not finite and non-negative"
        raise InputError(program, f"variable '{name}'", reason, "correct the probabilities")
    return NetworkNode(name, states, parents, rows)


def imported(given: Any) -> Distribution:
    """Returns the distribution of an object of pyAgrum, pgmpy or networkx; see `from_networkx`.

    Raises:
        ChoiceError: it is not a supported object.
    """
    readers: dict[str, Callable[[Any], Distribution]] = {
        "pyagrum": from_pyagrum,
        "pgmpy": from_pgmpy,
        "networkx": from_networkx,
    }
    modules = [kind.__module__.partition(".")[0] for kind in type(given).__mro__]
    for name in modules:
        if name in readers:
            return readers[name](given)
    raise ChoiceError(
        f"a value of type {type(given).__name__} is not a model; give a pyagrum.BayesNet, a "
        "pgmpy.models.DiscreteBayesianNetwork, or a networkx.Graph as `Model.to_networkx` returns it"
    )


def _names(model: JunctionTreeModel, mask: int) -> tuple[str, ...]:
    return tuple(model.columns[v].name for v in members(mask))


def _library(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise ChoiceError(f"{package} is not installed; install it with 'pip install {package}'") from None
