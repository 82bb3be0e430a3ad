"""The validity of feature trees: each node must match the variables, states and clauses left by its path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.models.columns import Column
from jtsolve.models.features.context import Context
from jtsolve.models.features.nodes import Product, Split, TableLeaf, kids_of

if TYPE_CHECKING:
    from jtsolve.models.features.context import Feature
    from jtsolve.models.features.nodes import Node

TOLERANCE = 1e-9
"""Largest distance of the sum of a table from 1, as in `model.TOLERANCE`."""


def leaf_columns(columns: tuple[Column, ...], variables: tuple[int, ...], context: Context) -> list[Column]:
    """Returns the columns of the junction tree of a leaf: names, and the states left.

    Args:
        columns: of the model.
        variables: of the leaf.
        context: the states left.
    """
    return [
        Column(columns[v].name, tuple(columns[v].states[state] for state in context.allowed(v)))
        for v in variables
    ]


def contexts_of(columns: tuple[Column, ...], nodes: tuple[Node, ...]) -> tuple[Context, ...]:
    """Returns the context of each node, after checks of all nodes from the root down.

    Raises:
        ValueError: it is not a distribution; names the node, with its path, and the reason.
    """
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
            if found[kid] is not None:
                raise ValueError(f"node {kid} ({_path(came_by, kid)}): node {i} leads to it, too")
            found[kid], came_by[kid] = given, (i, step)
    return tuple(context for context in found if context is not None)


def _path(came_by: list[tuple[int, str]], i: int) -> str:
    """Returns the path to a node in words."""
    steps = []
    while i >= 0:
        i, step = came_by[i]
        steps.append(step)
    return ", ".join(reversed(steps))


def _mentioned(nodes: tuple[Node, ...]) -> list[frozenset[int]]:
    """Returns for each node the variables of itself and its descendants."""
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
        parts.append((f"part {len(parts)}", context.restricted_to(part)))
    if left:
        raise ValueError(f"no part holds the variables {sorted(left)}")
    return parts


def _words(feature: Feature) -> str:
    return " ∧ ".join(f"[{v}={state}]" for v, state in feature)


def _require_distribution(node: Node, context: Context, columns: tuple[Column, ...]) -> None:
    """Checks the probabilities of a node, and that a leaf has the open variables."""
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
        raise ValueError(
            "a clause binds its variables, which a junction tree cannot represent; write a table"
        )
    own = [(column.name, column.states) for column in node.model.columns]
    if own != [(column.name, column.states) for column in leaf_columns(columns, node.variables, context)]:
        raise ValueError("the columns of its junction tree are not the open variables with the states left")
