"""Lifting: the best tree of one more treewidth that adds a variable to each clique of a junction tree.

Good trees of treewidth 3 have hubs: on plants, two or three variables have 18 to 23 neighbours each, while in
the best tree of treewidth 2 none has more than 8. A local search that widens a tree a few cliques at a time
mostly ends with poor hubs; a lift chooses the hubs for all cliques at once.

Let each clique C_i have a label: no variable, or one outside it. The sets with their labels have running
intersection if and only if, for every variable v, the nodes that contain v or are labelled v are connected.
Those that contain it are; hence, on the path from a node labelled v to those that contain v, the next node
contains v or is labelled v. This condition involves two neighbours only, and so does their separator:
C_i ∩ C_j with each label that the other clique contains or has too. Hence dynamic programming from the leaves
of the tree to a root finds the best labels.

Two labels, neither in the other node, add to the separator only if they are equal, so that all pairs
of labels of two neighbours need a time linear in n. Time: n scores and some operations on arrays of n for
each clique; 10 ms for 69 variables. Ours.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.tree import JunctionTree, adjacency
from jtsolve.core.varset import VarSet, members

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.core.scores import LocalScores


def lifted(scores: LocalScores, tree: JunctionTree, largest: int) -> JunctionTree:
    """Returns the tree of the best labels; its score is -inf if no labels give every set a score.

    Args:
        scores: of sets of up to `largest` variables.
        tree: the tree to lift.
        largest: the size of the largest cliques; a clique of that size has no label.
    """
    n, sets = tree.n, tree.cliques
    neighbours = adjacency(len(sets), tree.edges)
    order, parent, below = [0], [-1] * len(sets), list(sets)
    for i in order:
        for j in neighbours[i]:
            if j != parent[i]:
                parent[j] = i
                order.append(j)
    best = [_extended(scores, one, largest) for one in sets]  # of the subtree below, by label
    chosen: list[NDArray[np.intp]] = [np.empty(0, dtype=np.intp)] * len(sets)  # by label of the parent
    # From the leaves to the root. Invariant: best[i] covers i and the children of i that are done.
    for j in reversed(order[1:]):
        i = parent[j]
        gain, chosen[j] = _child(scores, sets[i], sets[j], below[j], best[j])
        best[i] = best[i] + gain
        below[i] |= below[j]
    # Back from the root: each child gets its best label, given that of its parent.
    labels = [int(best[0].argmax())] * len(sets)
    for j in order[1:]:
        labels[j] = int(chosen[j][labels[parent[j]]])
    joined = [one | 1 << label if label < n else one for one, label in zip(sets, labels, strict=True)]
    return JunctionTree.from_nodes(n, joined, tree.edges)


def _child(
    scores: LocalScores, upper: VarSet, lower: VarSet, below: VarSet, best: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Returns, by label of a node, the most that a child adds and the child's label; label n is none.

    Args:
        scores: of the sets.
        upper: the set of the node.
        lower: that of the child.
        below: the variables of the child and its descendants.
        best: the best score of the child and its descendants, by label of the child.
    """
    n = scores.n
    every = np.arange(n + 1)
    joint = upper & lower
    shared = _extended(scores, joint, scores.max_size)
    # A label that the other node contains is in the separator. Where the nodes that contain a label are
    # beyond the other node, the other node must have the label, too.
    in_upper, in_lower, in_below = (_indicator(n, one) for one in (upper, lower, below))
    separators = np.where(in_upper & ~_indicator(n, joint), shared, shared[n])
    may_differ = in_upper | in_below
    may_differ[n] = True
    gains = np.where(may_differ, _difference(best, separators), -inf)
    other = int(gains.argmax())
    found = np.where(in_below & ~in_lower, -inf, gains[other])
    labels = np.full(n + 1, other, dtype=np.intp)
    same = _difference(best, shared)
    same[n] = -inf
    labels = np.where(same > found, every, labels)
    found = np.maximum(same, found)
    for label in members(lower & ~upper):
        bigger = np.full(n + 1, shared[label])
        for v in members(upper & ~lower):
            bigger[v] = scores.score(joint | 1 << label | 1 << v) if best[v] > -inf else -inf
        gains = np.where(may_differ, _difference(best, bigger), -inf)
        labels[label] = int(gains.argmax())
        found[label] = gains[labels[label]]
    return found, labels


def _indicator(n: int, mask: VarSet) -> NDArray[np.bool_]:
    """Returns which of n variables are in a set, and False for none."""
    inside = np.zeros(n + 1, dtype=np.bool_)
    inside[list(members(mask))] = True
    return inside


def _difference(upper: NDArray[np.float64], lower: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the difference; -inf where either has no score."""
    known = (upper > -inf) & (lower > -inf)
    return np.where(known, np.where(known, upper, 0.0) - np.where(known, lower, 0.0), -inf)


def _extended(scores: LocalScores, mask: VarSet, largest: int) -> NDArray[np.float64]:
    """Returns the scores of a set with each variable added, and of the set itself; shape (n+1,).

    -inf for variables within, and for all if the set has the largest size.
    """
    n, size = scores.n, mask.bit_count()
    found = np.full(n + 1, -inf)
    found[n] = scores.score(mask)
    if size < largest:
        inside = list(members(mask))
        others = np.delete(np.arange(n), inside)
        rows = np.empty((others.size, size + 1), dtype=np.intp)
        rows[:, :size], rows[:, size] = inside, others
        found[others] = scores.batch(np.sort(rows, axis=1))
    return found
