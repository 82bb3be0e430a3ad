"""Feature trees for other programs: log-linear features, arithmetic circuits.

The log-linear form is the Markov network of the paper: one feature for each leaf, the conjunction M of the
assumptions on its path and of a cell of its table, with the logarithm of its probability as weight; and one
for each side of a split. P(x) is the exponential of the sum of the weights of the features that hold in x.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jtsolve.errors import LimitError
from jtsolve.models.features.boxes import words
from jtsolve.models.features.nodes import Product, Split, TableLeaf, TreeLeaf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.models.features.tree import FeatureTree

MOST_FEATURES = 1_000_000
"""Default limit for a log-linear list: a graph has one feature a path, and may have too many."""


def log_linear(tree: FeatureTree, most: int = MOST_FEATURES) -> Iterator[tuple[str, float]]:
    """Yields the log-linear features, in words, with their weights; without those of weight 0.

    A failed conjunction is written "!(a=1 & b=0)". A weight is -inf where the probability is 0.

    Raises:
        LimitError: there are more than `most`, counted before the first is yielded.
    """
    paths = [0] * len(tree.nodes)
    paths[0] = 1
    total = 0
    for i, node in enumerate(tree.nodes):
        cells = node.model.layout.cells if isinstance(node, TreeLeaf) else 2
        total += paths[i] * (node.values.size if isinstance(node, TableLeaf) else cells)
        for kid in node.kids if isinstance(node, Split | Product) else ():
            paths[kid] += paths[i]
    if total > most:
        raise LimitError(
            f"the log-linear form has {total:.3g} features, and {most:.3g} are allowed. Ways out: export the "
            "circuit, which shares what several paths share"
        )
    return _log_linear(tree)


def _log_linear(tree: FeatureTree) -> Iterator[tuple[str, float]]:
    stack: list[tuple[int, tuple[str, ...]]] = [(0, ())]
    while stack:
        i, path = stack.pop()
        node = tree.nodes[i]
        if isinstance(node, Product):
            stack += [(kid, path) for kid in reversed(node.kids)]
        elif isinstance(node, Split):
            holds = words(tree.columns, node.feature, " & ")
            sides = [(f"!({holds})", 1 - node.probability), (holds, node.probability)]
            for kid, (side, _) in reversed(list(zip(node.kids, sides, strict=True))):
                stack.append((kid, (*path, side)))
            for side, share in sides:
                yield " & ".join((*path, side)), _log(share)
        elif isinstance(node, TableLeaf):
            allowed = tree.contexts[i].is_allowed(node.variables)
            for cell in np.argwhere(allowed):
                states = [tree.contexts[i].allowed(v)[k] for v, k in zip(node.variables, cell, strict=True)]
                yield (
                    " & ".join((*path, *_cell(tree, node.variables, states))),
                    _log(node.values[tuple(cell)]),
                )
        else:
            yield from _of_tree(node, path)


def _of_tree(node: TreeLeaf, path: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    layout = node.model.layout
    for place, clique in enumerate(layout.cliques):
        table = layout.table(node.model.families, place)
        names = [node.model.columns[v] for v in clique]
        for cell in np.ndindex(*table.shape):
            held = [f"{column.name}={column.states[k]}" for column, k in zip(names, cell, strict=True)]
            yield " & ".join((*path, *held)), float(table[cell])


def _cell(tree: FeatureTree, variables: Sequence[int], states: Sequence[int]) -> list[str]:
    pairs = zip(variables, states, strict=True)
    return [f"{tree.names[v]}={tree.columns[v].states[state]}" for v, state in pairs]


def _log(probability: float | np.float64) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log(probability))


def log_linear_text(tree: FeatureTree) -> str:
    """Returns the log-linear form, a line for each feature: weight, tab, feature."""
    return "".join(f"{weight!r}\t{feature}\n" for feature, weight in log_linear(tree))


def circuit_text(tree: FeatureTree) -> str:
    """Returns the arithmetic circuit, a line for each node, kids before parents, the root last.

    `v NAME STATE` is an indicator: 1 if the variable may have the state, else 0. `c NUMBER` is a constant;
    `*` and `+` are followed by their number of kids and the positions of these among the lines, from 0.
    The value at the root is the probability of the states whose indicators are 1 (A. Darwiche, Journal of the
    ACM 50, 2003). Names are JSON strings.
    """
    import json

    circuit, arrays = tree.circuit, tree.circuit.arrays
    lines = [
        f"v {json.dumps(column.name)} {json.dumps(state)}"
        for column in tree.columns
        for state in column.states
    ]
    line = [0] * circuit.nodes
    weights: NDArray[np.float64] = np.exp(circuit.log_weight)
    for i in reversed(range(circuit.nodes)):
        terms = []
        for b in range(int(arrays.branch[i]), int(arrays.branch[i + 1])):
            if weights[b] == 0:
                continue
            lines.append(f"c {float(weights[b])!r}")
            factors = [len(lines) - 1]
            factors += arrays.literals[arrays.literal[b] : arrays.literal[b + 1]].tolist()
            factors += [line[kid] for kid in arrays.kids[arrays.kid[b] : arrays.kid[b + 1]]]
            lines.append(f"* {len(factors)} {' '.join(map(str, factors))}")
            terms.append(len(lines) - 1)
        lines.append(" ".join(["+", str(len(terms)), *map(str, terms)]))
        line[i] = len(lines) - 1
    return "\n".join(["jtsolve-circuit 1", str(len(lines)), *lines]) + "\n"
