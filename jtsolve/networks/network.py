"""Bayesian networks of discrete variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class NetworkNode:
    """A variable of a network with its conditional distribution.

    Attributes:
        name: unique in the network.
        states: labels, at least one, unique.
        parents: positions of the parents in the network, in the order of the table.
        table: probabilities, shape (parent configurations, states), read-only; the last parent varies
            fastest, and each row sums to 1.
    """

    name: str
    states: tuple[str, ...]
    parents: tuple[int, ...]
    table: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Network:
    """A Bayesian network.

    Attributes:
        name: any text.
        nodes: at least one, with unique names.
        order: positions of the nodes, parents before children.

    Raises:
        CycleError: the arcs have a cycle.
        ValueError: there is no node, a name occurs twice, or a table does not fit the states.
    """

    name: str
    nodes: tuple[NetworkNode, ...]
    order: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not self.nodes or len({node.name for node in self.nodes}) < len(self.nodes):
            raise ValueError("a network needs nodes with unique names")
        for node in self.nodes:
            shape = (prod(len(self.nodes[parent].states) for parent in node.parents), len(node.states))
            if node.table.shape != shape:
                raise ValueError(f"the table of '{node.name}' has shape {node.table.shape}, not {shape}")
        arcs = {i: node.parents for i, node in enumerate(self.nodes)}
        object.__setattr__(self, "order", tuple(TopologicalSorter(arcs).static_order()))

    def __repr__(self) -> str:
        return f"Network('{self.name}': {len(self.nodes)} variables, {self.arc_count} arcs)"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(node.name for node in self.nodes)

    @property
    def arities(self) -> tuple[int, ...]:
        """The numbers of states of the nodes."""
        return tuple(len(node.states) for node in self.nodes)

    @property
    def arc_count(self) -> int:
        """The number of arcs."""
        return sum(len(node.parents) for node in self.nodes)

    @property
    def parameter_count(self) -> int:
        """The number of free parameters: states less one for each row of a table."""
        return sum(node.table.shape[0] * (node.table.shape[1] - 1) for node in self.nodes)
