"""Algorithm 4, FindConsistentTreeDPGreedy, at one threshold δ, with the score of every decomposition.

L is the list of components (S, Q), where S is a set of k variables and Q ⊂ V∖S. (S, Q) is *L-decomposable*
(Definition 8) if for some x ∈ Q, decomposable components (S_i, Q_i) with S_i ⊂ S∪x are disjoint and cover
Q∖x. Algorithm 4 processes L by increasing |Q| and builds covers greedily: the largest component that fits
first. A clique C is a *root* of a tree if components with S_i ⊂ C cover V∖C in the same way. Of the x that
decompose (S, Q), the one of the highest score is kept:

    value(S, Q) = max over x ∈ Q of s(S∪x) − s(S) + Σ value(S_i, Q_i),    −∞ if there is none.

(S, Q) is stored at [s, q]: s is the colex rank of S, where {a < b < c} has rank C(a,1) + C(b,2) + C(c,3);
q = min Q is the leader of Q. Sets of variables are bit masks in words of 64 bits.

References:
    Chechetka and Guestrin, Efficient principled learning of thin junction trees, NIPS 2007 (Definition 8,
    Algorithm 4). Arnborg, Corneil and Proskurowski, Complexity of finding embeddings in a k-tree,
    SIAM J. Alg. Disc. Meth. 8, 1987.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty

PIECE = np.dtype([("s", np.int64), ("q", np.int64), ("size", np.int64), ("side", np.int64)])
"""A candidate (S_i, Q_i) for a cover, stored at [s, q]; S_i is the clique without its member at [side]."""

State = namedtuple(
    "State",
    [
        "sets",  # (count, k) int64: the members of every S, increasing; S in colex order
        "permitted",  # (C(n, k + 1),) bool: whether a set may be a clique, in colex order
        "separator_scores",  # (count,) float64: s(S), in nats
        "clique_scores",  # (C(n, k + 1),) float64: s(C), in nats
        "binomial",  # (n + 1, k + 3) int64: C(v, j)
        "leader",  # (count, n) int64: of the component that holds a variable; -1 in S
        "size",  # (count, n) int64: |Q|, or 0 for no component
        "members",  # (count, n, words) int64: Q
        "value",  # (count, n) float64: see the module
        "x",  # (count, n) int64: the x of the value
        # Scratch:
        "clique",  # (k + 1,) int64: the members of the clique whose cover is sought
        "around",  # (k + 1,) int64: the ranks of its subsets of k; at [i] that without clique[i]
        "uncovered",  # (words,) int64: the variables left to cover
        "pieces",  # (n·(k + 1),) PIECE: the cover
    ],
)
"""The components at a threshold: arrays instead of objects, for numba."""


@kernel(allocates=False)
def has(mask, v):
    """Returns whether v is in the mask."""
    return (mask[v >> 6] >> (v & 63)) & 1 != 0


@kernel(allocates=False)
def is_subset(inner, outer):
    """Returns whether a mask is a subset of another."""
    outside = 0
    for w in range(inner.size):
        outside |= inner[w] & ~outer[w]
    return outside == 0


@kernel(allocates=False)
def find_leader(leader, v):
    """Returns the leader of v, and shortens the path to it."""
    while leader[v] != v:
        leader[v] = leader[leader[v]]
        v = leader[v]
    return v


@kernel
def make_components(state, separators, forest, first_edge):
    """Makes the components of some separators.

    Args:
        state: receives the components.
        separators: their ranks.
        forest: shape (count, m - 1, 2): the edges of every graph Q_S.
        first_edge: shape (count,): the position of the first edge above δ.
    """
    n = state.leader.shape[1]
    leader = empty(n, np.int64)
    for s in separators:
        for v in range(n):
            leader[v] = v
            state.size[s, v] = 0
            for w in range(state.uncovered.size):
                state.members[s, v, w] = 0
        for edge in range(first_edge[s], forest.shape[1]):
            u, v = find_leader(leader, forest[s, edge, 0]), find_leader(leader, forest[s, edge, 1])
            leader[max(u, v)] = min(u, v)
        for v in state.sets[s]:
            leader[v] = -1
        for v in range(n):
            q = state.leader[s, v] = leader[v] if leader[v] < 0 else find_leader(leader, v)
            if q >= 0:
                state.size[s, q] += 1
                state.members[s, q, v >> 6] |= 1 << (v & 63)


@kernel(allocates=False)
def set_around(state):
    """Writes the ranks of the sets of k `around` the clique; returns the rank of the clique."""
    clique, binomial, above = state.clique, state.binomial, 0
    for i in range(clique.size - 1, -1, -1):
        state.around[i] = above
        above += binomial[clique[i], i]
    below = 0
    for i in range(clique.size):
        state.around[i] += below
        below += binomial[clique[i], i + 1]
    return below


@kernel(allocates=False)
def cover(state):
    """Covers `uncovered` greedily with disjoint decomposable components on the sets `around` the clique.

    The largest that fits comes first; ties go to the set that lacks the lowest member of the clique.

    Returns:
        The number of pieces, or -1 if something is left.
    """
    uncovered, pieces = state.uncovered, state.pieces
    count = 0
    for v in range(state.leader.shape[1]):
        if not has(uncovered, v):
            continue
        is_held = False
        for side in range(state.around.size):
            s = state.around[side]
            q = state.leader[s, v]
            if q < 0 or state.value[s, q] == -np.inf or not is_subset(state.members[s, q], uncovered):
                continue
            is_held = True
            if v == q:  # once for each candidate: insert it by size, then by side
                size, position = state.size[s, q], count
                while position > 0:
                    other = pieces[position - 1]
                    if other.size > size or (other.size == size and other.side <= side):
                        break
                    pieces[position] = other
                    position -= 1
                piece = pieces[position]
                piece.s, piece.q, piece.size, piece.side = s, q, size, side
                count += 1
        if not is_held:  # no candidate contains v; most attempts fail here, at one of the first v
            return -1
    used = 0
    for i in range(count):
        mask = state.members[pieces[i].s, pieces[i].q]
        if is_subset(mask, uncovered):
            for w in range(mask.size):
                uncovered[w] &= ~mask[w]
            pieces[used] = pieces[i]
            used += 1
    for w in range(uncovered.size):
        if uncovered[w] != 0:
            return -1
    return used


@kernel(allocates=False)
def total(state, count):
    """Returns the sum of the values of the pieces of a cover, -inf if there is none."""
    value = 0.0 if count >= 0 else -np.inf
    for i in range(count):
        value += state.value[state.pieces[i].s, state.pieces[i].q]
    return value


@kernel(allocates=False)
def decompose(state, s, q, x):
    """Decomposes (S, Q) greedily by x; returns the number of pieces, or -1 if they do not cover Q∖x."""
    k = state.sets.shape[1]
    position = 0
    while position < k and state.sets[s, position] < x:
        state.clique[position] = state.sets[s, position]
        position += 1
    state.clique[position] = x
    for i in range(position, k):
        state.clique[i + 1] = state.sets[s, i]
    if not state.permitted[set_around(state)]:
        return -1
    for w in range(state.uncovered.size):
        state.uncovered[w] = state.members[s, q, w]
    state.uncovered[x >> 6] &= ~(1 << (x & 63))
    return cover(state)


@kernel(allocates=False)
def decompose_root(state, rank):
    """Covers the variables outside a clique greedily; returns the number of pieces, or -1 if it fails."""
    clique, binomial, uncovered = state.clique, state.binomial, state.uncovered
    for w in range(uncovered.size):
        uncovered[w] = 0
    v = binomial.shape[0] - 1
    size = clique.size
    while v > 0:
        v -= 1
        if size > 0 and binomial[v, size] <= rank:
            rank -= binomial[v, size]
            size -= 1
            clique[size] = v
        else:
            uncovered[v >> 6] |= 1 << (v & 63)
    set_around(state)
    return cover(state)


@kernel(allocates=False)
def evaluate_components(state, items, best):
    """Finds greedy decompositions of components.

    Args:
        state: receives their values and x.
        items: the components as s·n + q, those of all smaller ones done.
        best: whether to find the best one of each, or any, which takes less time.
    """
    n = state.leader.shape[1]
    for item in items:
        s, q = item // n, item % n
        state.value[s, q] = -np.inf
        for x in range(n):
            if not has(state.members[s, q], x):
                continue
            value = total(state, decompose(state, s, q, x))
            if value > -np.inf:
                # The rank of the clique S∪x, whose sets of k are `around` it.
                value += state.clique_scores[set_around(state)] - state.separator_scores[s]
            if value > state.value[s, q]:
                state.value[s, q], state.x[s, q] = value, x
                if not best:
                    break


@kernel(allocates=False)
def evaluate_roots(state, ranks, values):
    """Writes the score of the tree from each of some cliques, -inf for none; both have shape (count,)."""
    for i in range(ranks.size):
        values[i] = total(state, decompose_root(state, ranks[i])) + state.clique_scores[ranks[i]]
