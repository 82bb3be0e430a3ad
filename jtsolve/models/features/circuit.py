"""The circuit of a feature tree: one kind of node, on which every query is a single pass.

A node has *branches*, which exclude each other. A branch has a probability given the node, fixes the states
of some variables, and continues at its kids, which share no variable. A split is a node of two branches, a
table one with a branch a cell; a product is no node, but several kids of one branch. A junction tree has a
node for each clique C and state s of its separator S, with a branch for each state of C ∖ S: so a junction
tree of treewidth k is a circuit of O(n · 2^k).

The circuit is deterministic (branches have disjoint supports) and decomposable (kids share no variable):
A. Darwiche, A differential approach to inference in Bayesian networks, Journal of the ACM 50, 2003.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.models.features.nodes import Product, Split, TableLeaf, TreeLeaf
from jtsolve.models.layout import require_room, strides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.models.features.context import Context, Feature
    from jtsolve.models.features.nodes import Node
    from jtsolve.models.layout import Layout

BYTES_PER_BRANCH = 80
"""Memory for each branch of a circuit: its arrays, and those of a query."""


@dataclass(frozen=True, slots=True, eq=False)
class Circuit:
    """A feature tree as arrays.

    Attributes:
        arrays: see `kernels.circuits.Arrays`.
        log_weight: shape (branches,), ln of the probability of each branch, given its node; -inf for 0.
        place: of each node of the feature tree, its node in the circuit; of a junction tree, the one of its
            root clique, which those of the other cliques follow. Products have the next one.
        visits: the largest number of nodes that one row visits.
        first: shape (n + 1,), start of each variable in an array of all variables' states, and the end.
    """

    arrays: Any
    log_weight: NDArray[np.float64]
    place: tuple[int, ...]
    visits: int
    first: NDArray[np.int64]

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.arrays.branch) - 1

    def best(self, k: int) -> list[tuple[list[int], float]]:
        """Returns the codes of the k most probable configurations, best first, each with ln P.

        There are fewer if the others are impossible.
        """
        from jtsolve.models.features.kernels.circuits import best, trace_entry

        slots = len(self.arrays.kids)
        require_room((slots + 2 * self.nodes) * k, f"the {k} best configurations", "a smaller k", 16)
        joined = np.zeros((slots, k, 2), dtype=np.int64)
        own = np.zeros((self.nodes, k, 2), dtype=np.int64)
        sizes = np.zeros(self.nodes, dtype=np.int64)
        values = np.empty((self.nodes, k))
        best(self.log_weight, self.arrays, k, joined, own, sizes, values)
        found = []
        for rank in range(int(sizes[0])):
            codes = np.zeros(len(self.first) - 1, dtype=np.int64)
            trace_entry(rank, self.arrays, joined, own, self.first, codes)
            found.append((codes.tolist(), float(values[0, rank])))
        return found


def circuit_of(arities: Sequence[int], nodes: Sequence[Node], contexts: Sequence[Context]) -> Circuit:
    """Returns the circuit of a feature tree.

    Args:
        arities: number of states of each variable.
        nodes: of the feature tree.
        contexts: of the nodes.

    Raises:
        LimitError: it does not fit in memory.
    """
    from jtsolve.models.features.kernels.circuits import visits

    branches = 1 + sum(branches_of(node) for node in nodes)
    require_room(branches, "the circuit of the feature tree", "smaller leaves", BYTES_PER_BRANCH)
    place, tops = _places(nodes)
    first = np.concatenate([[0], np.cumsum(arities, dtype=np.int64)])
    builder = _CircuitBuilder(first)
    constants = [(v, 0) for v, arity in enumerate(arities) if arity == 1]
    builder.add_branches([0.0], [constants], [tops[0]])
    for i, node in enumerate(nodes):
        context = contexts[i]
        if isinstance(node, Split):
            with np.errstate(divide="ignore"):
                logs = np.log([1 - node.probability, node.probability])
            fixed = [context.assume(node.feature, holds=holds)[1] for holds in (False, True)]
            builder.add_branches(logs, fixed, [tops[kid] for kid in node.kids])
            builder.select_feature(node.feature)
        elif isinstance(node, TableLeaf):
            with np.errstate(divide="ignore"):
                logs = np.log(node.values.ravel())
            builder.add_cells(logs, node.variables, context, np.zeros((logs.size, 0), dtype=np.int64))
        elif isinstance(node, TreeLeaf):
            _add_tree(builder, node, context, place[i])
    arrays, log_weight = builder.finished()
    return Circuit(arrays, log_weight, tuple(place), int(visits(arrays)), first)


def branches_of(node: Node) -> int:
    """Returns the number of branches of a node in the circuit."""
    if isinstance(node, TreeLeaf):
        return node.model.layout.cells
    if isinstance(node, TableLeaf):
        return node.values.size
    return 2 if isinstance(node, Split) else 0


def clique_nodes(layout: Layout) -> NDArray[np.int64]:
    """Returns the first node of each clique of a leaf, from its root's on, and the end, shape (m + 1,)."""
    return np.asarray(layout.shape.separator)


def separator_first(layout: Layout, place: int) -> tuple[int, ...]:
    """Returns the axes of a clique's table in the order of its branches: those of the separator first."""
    inner = set(layout.separators[place])
    clique = layout.cliques[place]
    return tuple(sorted(range(len(clique)), key=lambda k: (clique[k] not in inner, k)))


def _places(nodes: Sequence[Node]) -> tuple[list[int], list[list[int]]]:
    """Returns the first circuit node of each node, and the circuit nodes at which each one begins."""
    place, end = [], 1
    for node in nodes:
        place.append(end)
        if isinstance(node, TreeLeaf):
            end += int(clique_nodes(node.model.layout)[-1])
        elif not isinstance(node, Product):
            end += 1
    tops: list[list[int]] = [[]] * len(place)
    for i in reversed(range(len(place))):
        node = nodes[i]
        kids = node.kids if isinstance(node, Product) else ()
        tops[i] = [top for kid in kids for top in tops[kid]] if isinstance(node, Product) else [place[i]]
    return place, tops


def _add_tree(builder: _CircuitBuilder, node: TreeLeaf, context: Context, first: int) -> None:
    """Adds the nodes of a leaf's junction tree, clique by clique from its root."""
    layout = node.model.layout
    bases = first + clique_nodes(layout)
    children: list[list[int]] = [[] for _ in layout.order]
    for child in range(1, len(layout.order)):
        children[layout.parent[child]].append(child)
    for i, clique in enumerate(layout.cliques):
        axes = separator_first(layout, i)
        logs = np.transpose(layout.table(node.model.families, i), axes).ravel()
        codes = np.indices([layout.dims(i)[k] for k in axes]).reshape(len(axes), -1)
        member = [clique[k] for k in axes]
        kids = np.empty((logs.size, len(children[i])), dtype=np.int64)
        for k, child in enumerate(children[i]):
            steps = strides(layout.separators[child], layout.arities)
            kids[:, k] = bases[child]
            for v, row in zip(member, codes, strict=True):
                kids[:, k] += steps.get(v, 0) * row
        own = tuple(node.variables[v] for v in member[len(layout.separators[i]) :])
        builder.add_cells(logs, own, context, kids)


@dataclass(slots=True)
class _CircuitBuilder:
    """The arrays of a circuit under construction: pieces in the order of the nodes."""

    states: NDArray[np.int64]  # start of each variable among all variables' states
    branches: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    literal_counts: list[Any] = field(default_factory=list)
    literals: list[Any] = field(default_factory=list)
    kid_counts: list[Any] = field(default_factory=list)
    kids: list[Any] = field(default_factory=list)
    selectors: list[tuple[int, int, int]] = field(default_factory=list)  # first, last, features' length
    lookups: list[tuple[int, int]] = field(default_factory=list)  # variable, start in `steps`
    steps: list[Any] = field(default_factory=list)
    step_count: int = 0

    def add_branches(
        self, logs: Sequence[float] | NDArray[np.float64], fixed: Sequence[Any], kids: Sequence[list[int]]
    ) -> None:
        """Adds a node of few branches."""
        self.branches.append([len(logs)])
        self.weights.append(logs)
        self.literal_counts.append([len(one) for one in fixed])
        self.literals.append([self.states[v] + state for one in fixed for v, state in one])
        self.kid_counts.append([len(one) for one in kids])
        self.kids.append([kid for one in kids for kid in one])
        if len(logs) == 1:
            self.selectors.append((len(self.lookups), len(self.lookups), 0))

    def select_feature(self, feature: Feature) -> None:
        """Lets the last node choose its second branch where a feature holds."""
        first = len(self.lookups)
        for v, state in feature:
            self._add_lookup(v, np.arange(self.states[v + 1] - self.states[v]) == state)
        self.selectors.append((first, len(self.lookups), len(feature)))

    def add_cells(
        self,
        logs: NDArray[np.float64],
        variables: tuple[int, ...],
        context: Context,
        kids: NDArray[np.int64],
    ) -> None:
        """Adds nodes with a branch for each joint state of some variables, the last one varying fastest.

        Args:
            logs: shape (nodes × cells,), ln of the branches' probabilities; as many nodes as needed.
            variables: that the branches fix.
            context: the states left to them.
            kids: shape (nodes × cells, kids), of each branch.
        """
        dims = context.dims(variables)
        cells = prod(dims)
        nodes = logs.size // cells
        self.branches.append(np.full(nodes, cells))
        self.weights.append(logs)
        allowed = [np.array(context.allowed(v)) for v in variables]
        codes = np.indices(dims).reshape(len(dims), cells)
        fixed = np.empty((cells, len(variables)), dtype=np.int64)
        for k, v in enumerate(variables):
            fixed[:, k] = self.states[v] + allowed[k][codes[k]]
        self.literal_counts.append(np.full(logs.size, len(variables)))
        self.literals.append(np.tile(fixed, (nodes, 1)).ravel())
        self.kid_counts.append(np.full(logs.size, kids.shape[1]))
        self.kids.append(kids.ravel())
        first, stride = len(self.lookups), cells
        for v, states in zip(variables, allowed, strict=True):
            stride //= len(states)
            steps = np.zeros(self.states[v + 1] - self.states[v], dtype=np.int64)
            steps[states] = np.arange(len(states)) * stride
            self._add_lookup(v, steps)
        self.selectors.extend([(first, len(self.lookups), 0)] * nodes)

    def _add_lookup(self, v: int, steps: NDArray[Any]) -> None:
        self.lookups.append((v, self.step_count))
        self.steps.append(steps)
        self.step_count += len(steps)

    def finished(self) -> tuple[Any, NDArray[np.float64]]:
        """Returns the arrays, and the logarithms of the branches' probabilities."""
        from jtsolve.models.features.kernels.circuits import Arrays

        def joined(pieces: Sequence[Any]) -> NDArray[np.int64]:
            return np.concatenate([np.asarray(piece, dtype=np.int64) for piece in (*pieces, [])])

        def starts(pieces: Sequence[Any]) -> NDArray[np.int64]:
            return np.concatenate([[0], np.cumsum(joined(pieces))]).astype(np.int64)

        selectors = np.array(self.selectors, dtype=np.int64).reshape(-1, 3)
        lookups = np.array(self.lookups, dtype=np.int64).reshape(-1, 2)
        arrays = Arrays(
            starts(self.branches),
            starts(self.literal_counts),
            joined(self.literals),
            starts(self.kid_counts),
            joined(self.kids),
            np.ascontiguousarray(selectors),
            np.ascontiguousarray(lookups),
            joined(self.steps),
        )
        return arrays, np.concatenate([np.asarray(logs, dtype=np.float64) for logs in self.weights])
