"""Rows drawn from a Bayesian network: ancestral sampling, parents before children."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.files import pack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.networks.bif import Network, Node


def sample(network: Network, rows: int, seed: int) -> NDArray[np.int32]:
    """Returns independent rows as positions of states, shape (rows, nodes), columns in the network's order.

    The same network, number of rows and seed give the same rows (numpy's PCG64). Time: rows × states, summed
    over the nodes.

    Args:
        network: what to draw from.
        rows: at least 0.
        seed: at least 0.
    """
    generator = np.random.default_rng(seed)
    codes = np.zeros((len(network.nodes), rows), dtype=np.int32)
    for position in network.order:
        node = network.nodes[position]
        configuration = _configurations(network, node, codes)
        codes[position] = _draw(node, configuration, generator.random(rows))
    return codes.T


def sample_csv(network: Network, rows: int, seed: int) -> bytes:
    """Returns the rows of `sample` as CSV in UTF-8: a header of names, then labels of states."""
    import polars as pl

    codes = sample(network, rows, seed)
    columns = [
        pl.Series(node.name, node.states, dtype=pl.String).gather(codes[:, i])
        for i, node in enumerate(network.nodes)
    ]
    return pl.DataFrame(columns).write_csv().encode()


def packed_for(name: str, content: bytes) -> bytes:
    """Returns content as a file of this name holds it: packed if the name ends in .gz."""
    return pack(content) if name.endswith(".gz") else content


def _configurations(network: Network, node: Node, codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Returns the row of the node's table for each drawn row; the last parent runs fastest."""
    configuration = np.zeros(codes.shape[1], dtype=np.int64)
    for parent in node.parents:
        configuration *= len(network.nodes[parent].states)
        configuration += codes[parent]
    return configuration


def _draw(node: Node, configuration: NDArray[np.int64], uniform: NDArray[np.float64]) -> NDArray[np.int32]:
    """Returns the states whose cumulative probabilities first exceed `uniform`, which is in [0, 1)."""
    cumulative = np.cumsum(node.table, axis=1)
    # Divided, so that the last sum is 1 exactly, and a state of probability 0 at the end is never drawn.
    cumulative /= cumulative[:, -1:]
    drawn = np.zeros(len(uniform), dtype=np.int32)
    # State by state: no array of rows × states.
    for state in range(len(node.states) - 1):
        drawn += uniform >= cumulative[configuration, state]
    return drawn
