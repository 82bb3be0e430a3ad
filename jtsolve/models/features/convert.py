"""Junction trees as feature graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from jtsolve.models.features.circuit import separator_first
from jtsolve.models.features.context import Literal
from jtsolve.models.features.nodes import Product, Split
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.layout import strides

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.models.features.nodes import Node
    from jtsolve.models.model import JunctionTreeModel

_Key: TypeAlias = tuple[int, int, tuple[int, ...], int]
"""A node of a feature graph: a clique, a cell of its separator, the states of its first variables, and how
many states of the next one have failed."""


def feature_graph(model: JunctionTreeModel) -> FeatureTree:
    """Returns the feature graph of a junction tree, of O(n · s^(k + 1)) nodes (s states, treewidth k).

    For each clique C and each state of its separator S, a tree of literals branches on the states of C ∖ S;
    its ends are products of the graphs of the cliques below, which depend on their own separators alone and
    are shared. Reference: Gogate, Webb and Domingos, NIPS 2010, section 2.
    """
    layout = model.layout
    steps = [strides(separator, layout.arities) for separator in layout.separators]
    children: list[list[int]] = [[] for _ in layout.order]
    for child in range(1, len(layout.order)):
        children[layout.parent[child]].append(child)
    nodes: dict[_Key, float | None] = {}  # probabilities of splits; by clique, so that kids come later
    variable: dict[_Key, int] = {}
    links: dict[_Key, list[_Key]] = {}

    def emit(key: _Key, masses: NDArray[np.float64], left: list[int], states: dict[int, int]) -> None:
        place, cell, path, failed = key
        if not left:
            nodes[key] = None
            links[key] = [
                (child, sum(step * states[v] for v, step in steps[child].items()), (), 0)
                for child in children[place]
            ]
            return
        v, last = left[0], failed == layout.arities[left[0]] - 2
        totals = masses.reshape(len(masses), -1).sum(axis=1)
        rest = totals[failed:].sum()
        share = totals[failed] / rest if rest > 0 else 0.0
        nodes[key], variable[key] = min(1.0, float(share)), v
        holds = (place, cell, (*path, failed), 0)
        fails = (place, cell, (*path, failed + 1), 0) if last else (place, cell, path, failed + 1)
        links[key] = [fails, holds]
        emit(holds, masses[failed], left[1:], states | {v: failed})
        if last:
            emit(fails, masses[failed + 1], left[1:], states | {v: failed + 1})
        else:
            emit(fails, masses, left, states)

    for place, clique in enumerate(layout.cliques):
        members_ = [clique[k] for k in separator_first(layout, place)]
        outer = members_[: len(layout.separators[place])]
        inner = [v for v in members_[len(outer) :] if layout.arities[v] > 1]
        table = np.transpose(layout.table(model.values, place), separator_first(layout, place))
        table = table.reshape([layout.arities[v] for v in (*outer, *inner)])
        constant = dict.fromkeys(members_[len(outer) :], 0)
        for cell, given in enumerate(np.ndindex(*table.shape[: len(outer)])):
            emit((place, cell, (), 0), table[given], inner, constant | dict(zip(outer, given, strict=True)))
    position = {key: i for i, key in enumerate(nodes)}
    linked: list[Node] = []
    for key, share in nodes.items():
        kids = tuple(position[link] for link in links[key])
        if share is None:
            linked.append(Product(kids))
        else:
            failed = Literal(variable[key], key[3])
            linked.append(Split((failed,), share, (kids[0], kids[1])))
    return FeatureTree(model.columns, tuple(linked), model.provenance)
