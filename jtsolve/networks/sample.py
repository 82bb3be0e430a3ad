"""Ancestral sampling from a Bayesian network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from jtsolve.networks.network import Network, NetworkNode


def sample(network: Network, rows: int, seed: int) -> NDArray[np.int32]:
    """Returns independent rows of state codes, shape (rows, nodes), columns in the network's order.

    Network, number of rows and seed determine them (numpy's PCG64). Time: rows × states, summed over nodes.

    Args:
        network: the distribution.
        rows: at least 0.
        seed: at least 0.
    """
    return sample_codes(network, rows, np.random.default_rng(seed), {}).T


def sample_codes(
    network: Network,
    rows: int,
    generator: np.random.Generator,
    known: Mapping[int, NDArray[np.integer[Any]]],
) -> NDArray[np.int32]:
    """Returns rows of state codes, shape (nodes, rows), each node drawn given its parents.

    Args:
        network: the distribution.
        rows: at least 0.
        generator: of uniform numbers.
        known: codes of nodes that are not drawn, by position; with each node, its parents.
    """
    codes = np.zeros((len(network.nodes), rows), dtype=np.int32)
    for position in network.order:
        if position in known:
            codes[position] = known[position]
            continue
        node = network.nodes[position]
        configuration = configurations(network, node, codes, rows)
        codes[position] = _draw(node, configuration, generator.random(rows))
    return codes


def configurations(
    network: Network,
    node: NetworkNode,
    codes: Mapping[int, NDArray[np.integer[Any]]] | NDArray[np.int32],
    rows: int,
) -> NDArray[np.int64]:
    """Returns the row of a node's table for each row of codes, shape (rows,); the last parent varies fastest.

    Args:
        network: to which the node belongs.
        node: the states of its parents determine the row.
        codes: of all nodes, shape (nodes, rows), or of some by position, shape (rows,) each.
        rows: their number.
    """
    configuration = np.zeros(rows, dtype=np.int64)
    for parent in node.parents:
        configuration *= len(network.nodes[parent].states)
        configuration += codes[parent]
    return configuration


def _draw(
    node: NetworkNode, configuration: NDArray[np.int64], uniform: NDArray[np.float64]
) -> NDArray[np.int32]:
    """Returns the first state whose cumulative probability exceeds `uniform`, in [0, 1); shape (rows,)."""
    cumulative = np.cumsum(node.table, axis=1)
    # The last entry must be exactly 1, so that a last state of probability 0 is never drawn.
    cumulative /= cumulative[:, -1:]
    drawn = np.zeros(len(uniform), dtype=np.int32)
    # State by state, to avoid an array of rows × states.
    for state in range(len(node.states) - 1):
        drawn += uniform >= cumulative[configuration, state]
    return drawn
