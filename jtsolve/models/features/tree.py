"""Feature trees: a distribution that branches on features (F-nodes) and decomposes (A-nodes).

    P(x) = Π over the splits on the path of x  P(F = f | path) · Π over its leaves  P(x_leaf | path)

This is the locally normalised form of Definition 2 of V. Gogate, W. A. Webb and P. Domingos, Learning
efficient Markov networks, NIPS 2010: it sums to 1 by induction, provided that the parts of a product share
no variable and no clause (with the paper's division by the number of models #(M), a clause across two parts
makes the recursion wrong). As a Markov network it has one log-linear feature a leaf.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.models.columns import position
from jtsolve.models.features.circuit import circuit_of
from jtsolve.models.features.context import Context, Feature
from jtsolve.models.features.nodes import Product, Split, TableLeaf, TreeLeaf, kids_of
from jtsolve.models.model import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jtsolve.models.columns import Column
    from jtsolve.models.features.circuit import Circuit
    from jtsolve.models.features.nodes import Node


@dataclass(frozen=True, eq=False, repr=False)
class FeatureTree:
    """A distribution given by a feature tree, or graph: a node may have several parents.

    Args:
        columns: the variables.
        nodes: the first is the root; kids come later in the list than their parents.
        provenance: remarks on the origin.

    Attributes:
        contexts: of each node; the paths to a shared node leave it the same one.

    Raises:
        ValueError: it is not a distribution: says at which node, by its path, and why.

    >>> from jtsolve.models.columns import Column
    >>> columns = (Column("rain", ("no", "yes")), Column("wet", ("no", "yes")))
    >>> dry, wet = TableLeaf((1,), np.array([1.0, 0.0])), TableLeaf((1,), np.array([0.5, 0.5]))
    >>> FeatureTree(columns, (Split(((0, 1),), 0.25, (1, 2)), dry, wet))
    FeatureTree(2 variables, 1 split, 2 leaves, 3 parameters)
    """

    columns: tuple[Column, ...]
    nodes: tuple[Node, ...]
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    contexts: tuple[Context, ...] = field(init=False)

    def __post_init__(self) -> None:
        if len(set(self.names)) < self.n or not self.columns:
            raise ValueError("there is no column, or two have the same name")
        object.__setattr__(self, "provenance", MappingProxyType(dict(self.provenance)))
        object.__setattr__(self, "contexts", _contexts(self.columns, self.nodes))

    def __reduce__(self) -> tuple[Any, ...]:
        """Supports copying and pickling: derived attributes are recomputed."""
        return FeatureTree, (self.columns, self.nodes, dict(self.provenance))

    def __repr__(self) -> str:
        splits, leaves = len(self.splits), len(self.leaves)
        counted = f"{splits} split{'s' * (splits != 1)}, {leaves} {'leaf' if leaves == 1 else 'leaves'}"
        size = f"{self.n} variables, {counted}, {self.parameters} parameters"
        return f"FeatureTree({size})"

    @cached_property
    def circuit(self) -> Circuit:
        """The same distribution as a circuit, on which all queries run."""
        arities = [column.arity for column in self.columns]
        return circuit_of(arities, self.nodes, self.contexts)

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(column.name for column in self.columns)

    @property
    def splits(self) -> list[Split]:
        """The splits; a shared one counts once."""
        return [node for node in self.nodes if isinstance(node, Split)]

    @property
    def leaves(self) -> list[TableLeaf | TreeLeaf]:
        """The leaves; a shared one counts once."""
        return [node for node in self.nodes if isinstance(node, TableLeaf | TreeLeaf)]

    @property
    def longest_path(self) -> int:
        """The most splits on a path."""
        depth = [0] * len(self.nodes)
        for i in reversed(range(len(self.nodes))):
            below = max((depth[kid] for kid in kids_of(self.nodes[i])), default=0)
            depth[i] = below + isinstance(self.nodes[i], Split)
        return depth[0]

    @property
    def a_nodes(self) -> int:
        """The number of A-nodes: the root, two for each split; in the paper, each of `cells` is one more."""
        return 1 + 2 * len(self.splits)

    @property
    def cells(self) -> int:
        """The number of cells in the tables of all leaves."""
        return sum(_cells(node) for node in self.nodes)

    @property
    def parameters(self) -> int:
        """The number of free parameters: one a split, and those of the leaves."""
        return sum(
            _parameters(node, context) for node, context in zip(self.nodes, self.contexts, strict=True)
        )

    def variable(self, name: str) -> int:
        """Returns the position of a variable; see `columns.position`."""
        return position(self.names, name)

    def variables(self, names: Iterable[str]) -> tuple[int, ...]:
        """Returns the positions of variables; see `variable`."""
        return tuple(self.variable(name) for name in names)


def leaf_columns(columns: tuple[Column, ...], variables: tuple[int, ...], context: Context) -> list[Column]:
    """Returns the columns of a leaf's junction tree: names, and the states left."""
    from jtsolve.models.columns import Column

    return [
        Column(columns[v].name, tuple(columns[v].states[state] for state in context.allowed(v)))
        for v in variables
    ]


def _cells(node: Node) -> int:
    if isinstance(node, TreeLeaf):
        return node.model.layout.cells
    return node.values.size if isinstance(node, TableLeaf) else 0


def _parameters(node: Node, context: Context) -> int:
    if isinstance(node, Split):
        return 1
    if isinstance(node, TreeLeaf):
        return node.model.parameters
    return int(context.is_allowed(node.variables).sum()) - 1 if isinstance(node, TableLeaf) else 0


def _contexts(columns: tuple[Column, ...], nodes: tuple[Node, ...]) -> tuple[Context, ...]:
    """Returns the context of each node; checks everything, from the root down."""
    if not nodes:
        raise ValueError("there is no node")
    mentioned = _mentioned(nodes)
    found: list[Context | None] = [None] * len(nodes)
    came_by: list[tuple[int, str]] = [(-1, "the root")] * len(nodes)  # parent, and the step from it
    found[0] = Context.of([column.arity for column in columns])
    for i, node in enumerate(nodes):
        context = found[i]
        if context is None:
            raise ValueError(f"node {i}: no node leads to it")
        try:
            after = _after(node, context, mentioned)
            _require_distribution(node, context, columns)
        except ValueError as error:
            raise ValueError(f"node {i} ({_path(came_by, i)}): {error}") from None
        for kid, (step, given) in zip(kids_of(node), after, strict=True):
            earlier = found[kid]
            if earlier is None:
                found[kid], came_by[kid] = given, (i, step)
            elif earlier != given:
                raise ValueError(
                    f"node {kid} ({_path(came_by, kid)}): another path, over node {i}, leaves it other "
                    "variables, states or clauses"
                )
    return tuple(context for context in found if context is not None)


def _path(came_by: list[tuple[int, str]], i: int) -> str:
    """Returns the path to a node in words."""
    steps = []
    while i >= 0:
        i, step = came_by[i]
        steps.append(step)
    return ", ".join(reversed(steps))


def _mentioned(nodes: tuple[Node, ...]) -> list[frozenset[int]]:
    """Returns for each node the variables that it or a descendant names."""
    out: list[frozenset[int]] = [frozenset()] * len(nodes)
    for i in reversed(range(len(nodes))):
        node = nodes[i]
        if any(not i < kid < len(nodes) for kid in kids_of(node)):
            raise ValueError(f"node {i}: its kids {list(kids_of(node))} are not later nodes of the list")
        own = (v for v, _ in node.feature) if isinstance(node, Split) else getattr(node, "variables", ())
        out[i] = frozenset(own).union(*(out[kid] for kid in kids_of(node)))
    return out


def _after(node: Node, context: Context, mentioned: list[frozenset[int]]) -> list[tuple[str, Context]]:
    """Returns the context of each kid, with the step to it in words."""
    if isinstance(node, Split):
        return [
            (f"{_words(node.feature)} {words}", context.assume(node.feature, holds=holds)[0])
            for holds, words in ((False, "fails"), (True, "holds"))
        ]
    if not isinstance(node, Product):
        return []
    parts: list[tuple[str, Context]] = []
    left = set(context.domains)
    groups = context.groups()
    for kid in node.kids:
        part = frozenset[int]().union(*(group for group in groups if group & mentioned[kid]))
        if not part <= left:
            raise ValueError("its parts share a variable, or a clause ties them together")
        left -= part
        parts.append((f"part {len(parts)}", context.onto(part)))
    if left:
        raise ValueError(f"no part holds the variables {sorted(left)}")
    return parts


def _words(feature: Feature) -> str:
    return " ∧ ".join(f"[{v}={state}]" for v, state in feature)


def _require_distribution(node: Node, context: Context, columns: tuple[Column, ...]) -> None:
    """Checks the probabilities of a node, and that a leaf holds the open variables."""
    if isinstance(node, Split):
        if not 0 <= node.probability <= 1:
            raise ValueError(f"the probability of its feature is {node.probability}")
        return
    if isinstance(node, Product):
        return
    if node.variables != tuple(sorted(context.domains)):
        raise ValueError(
            f"its variables are {list(node.variables)}, but the path leaves {sorted(context.domains)} open"
        )
    if isinstance(node, TableLeaf):
        if node.values.shape != context.dims(node.variables):
            raise ValueError(
                f"its table has the shape {node.values.shape}, but the path leaves "
                f"{context.dims(node.variables)} states"
            )
        if not (np.isfinite(node.values).all() and node.values.min() >= 0):
            raise ValueError("its table has an entry that is not a probability")
        if abs(node.values.sum() - 1) > TOLERANCE:
            raise ValueError(f"its table sums to {node.values.sum():.12g}, not 1")
        if node.values[~context.is_allowed(node.variables)].any():
            raise ValueError("its table gives a probability to a cell that a clause forbids")
        return
    if context.clauses:
        raise ValueError("a clause binds its variables, which a junction tree cannot heed; write a table")
    own = [(column.name, column.states) for column in node.model.columns]
    if own != [(column.name, column.states) for column in leaf_columns(columns, node.variables, context)]:
        raise ValueError("the columns of its junction tree are not the open variables with the states left")
