"""Ancestral sampling from a Bayesian network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from jtsolve.networks.network import Network, NetworkNode

_BLOCK = 1 << 14
"""Rows drawn at a time: their codes and configurations stay in the cache."""
_FEW_STATES = 16
"""Number of states up to which a comparison with each is as fast as a binary search."""


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
        node, uniform = network.nodes[position], generator.random(rows)
        cumulative = np.cumsum(node.table, axis=1)
        # The last entry must be exactly 1, so that a last state of probability 0 is never drawn.
        cumulative /= cumulative[:, -1:]
        for start in range(0, rows, _BLOCK):
            part, own = codes[:, start : start + _BLOCK], uniform[start : start + _BLOCK]
            part[position] = _drawn(cumulative, configurations(network, node, part, own.size), own)
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


def _drawn(
    cumulative: NDArray[np.float64], configuration: NDArray[np.int64], uniform: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Returns the first state whose cumulative probability exceeds `uniform`, in [0, 1); shape (rows,)."""
    rows, states = cumulative.shape
    if states > _FEW_STATES:  # one search in all rows, each raised by its position
        ends = np.minimum(configuration + uniform, np.nextafter(configuration + 1.0, 0.0))
        raised = (cumulative + np.arange(rows)[:, None]).ravel()
        return np.asarray(np.searchsorted(raised, ends, side="right") - configuration * states)
    drawn = np.zeros(len(uniform), dtype=np.int64)
    for column in np.ascontiguousarray(cumulative.T[:-1]):
        drawn += uniform >= column[configuration]
    return drawn
