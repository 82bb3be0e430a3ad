"""Algorithm 4, FindConsistentTreeDPGreedy, kept up to date while the threshold δ rises.

L is the list of components (S, Q), where S is a set of k variables and Q ⊂ V∖S. (S, Q) is *L-decomposable*
(Definition 8) if for some x ∈ Q, decomposable components (S_i, Q_i) with S_i ⊂ S∪x are disjoint and cover
Q∖x. Algorithm 4 processes L by increasing |Q| and builds covers greedily: the largest component that fits
first. A clique C is a *root* of a tree if components with S_i ⊂ C cover V∖C in the same way.

As δ rises, components split. If (S, Q) vanishes or changes whether it is decomposable, the cover can change
only in the cliques C = S∪v with v ∉ Q: as a root, and as S'∪x for the component of S' ⊂ C that holds Q. There
x is marked *stale*. Only stale x are tried again, by increasing |Q'|: since Q ⊂ Q'∖x, a component affects
only larger ones. The answers are those of Algorithm 4 from scratch.

(S, Q) is stored at [s, q]: s is the colex rank of S, where {a < b < c} has rank C(a,1) + C(b,2) + C(c,3);
q = min Q is the leader of Q, so that a component that does not change stays where it is. Sets of variables
are bit masks in words of 64 bits.

References:
    Chechetka and Guestrin, Efficient principled learning of thin junction trees, NIPS 2007 (Definition 8,
    Algorithm 4, section 5). Arnborg, Corneil and Proskurowski, Complexity of finding embeddings in a k-tree,
    SIAM J. Alg. Disc. Meth. 8, 1987.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from jtsolve.core.compiling import kernel

COMPONENT = np.dtype(
    [("size", np.int64), ("decomposable", np.int64), ("x", np.int64), ("next", np.int64)], align=True
)
"""|Q|, or 0 for no component; whether it is decomposable, and by which x; its link in the agenda."""
CLIQUE = np.dtype([("permitted", np.int64), ("root", np.int64), ("next", np.int64)])
"""Whether it may be a clique; whether it is a root; its link in the agenda."""
PIECE = np.dtype([("s", np.int64), ("q", np.int64), ("size", np.int64), ("side", np.int64)])
"""A candidate (S_i, Q_i) for a cover, stored at [s, q]; S_i is the clique without its member at [side]."""
PROGRESS = np.dtype(
    [
        ("threshold", np.float64),  # δ·N, in nats
        ("edge", np.int64),  # the number of edges removed, in the order of `weakest_first`
        ("rises", np.int64),
        ("roots", np.int64),
        ("covers", np.int64),
    ]
)
END, OUT = -1, -2
"""Links: the last of a list; in no list."""

State = namedtuple(
    "State",
    [
        "sets",  # (count, k) int64: the members of every S, increasing; S in colex order
        "forest",  # (count, m - 1, 2) int64, m = n - k: the edges of every graph Q_S, the weakest first
        "strengths",  # (count, m - 1) float64: of the edges
        "first_edge",  # (count,) int64: the position of the weakest edge above δ
        "weakest_first",  # int64: flat positions in `strengths` by increasing strength
        "leader",  # (count, n) int64: of the component that holds a variable; -1 in S
        "components",  # (count, n) COMPONENT
        "members",  # (count, n, words) int64: Q
        "stale",  # (count, n, words) int64: the stale x in Q
        "cliques",  # (C(n, k + 1),) CLIQUE, in colex order
        "agenda",  # (n + 1,) int64: lists of components with stale x, by size; at 0, of cliques
        "progress",  # (1,) PROGRESS
        "binomial",  # (n + 1, k + 3) int64: C(v, j)
        # Scratch:
        "clique",  # (k + 1,) int64: the members of the clique whose cover is sought
        "around",  # (k + 1,) int64: the ranks of its subsets of k; at [i] that without clique[i]
        "uncovered",  # (words,) int64: the variables left to cover
        "pieces",  # (n·(k + 1),) PIECE: the cover
    ],
)
"""The state of a search: arrays instead of objects, for numba."""


@kernel(allocates=False)
def has(mask, v):
    """Returns whether v is in the mask."""
    return (mask[v >> 6] >> (v & 63)) & 1 != 0


@kernel(allocates=False)
def put(mask, v):
    """Adds v to the mask."""
    mask[v >> 6] |= 1 << (v & 63)


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
def place_clique(state, s, x):
    """Makes S∪x the clique; returns its rank."""
    k = state.sets.shape[1]
    position = 0
    while position < k and state.sets[s, position] < x:
        state.clique[position] = state.sets[s, position]
        position += 1
    state.clique[position] = x
    for i in range(position, k):
        state.clique[i + 1] = state.sets[s, i]
    return set_around(state)


@kernel(allocates=False)
def cover(state):
    """Covers `uncovered` greedily with disjoint decomposable components on the sets `around` the clique.

    The largest that fits comes first; ties go to the set that lacks the lowest member of the clique.

    Returns:
        The number of pieces, or -1 if something is left.
    """
    uncovered, pieces = state.uncovered, state.pieces
    state.progress[0].covers += 1
    count = 0
    for v in range(state.leader.shape[1]):
        if not has(uncovered, v):
            continue
        is_held = False
        for side in range(state.around.size):
            s = state.around[side]
            q = state.leader[s, v]
            if (
                q < 0
                or not state.components[s, q].decomposable
                or not is_subset(state.members[s, q], uncovered)
            ):
                continue
            is_held = True
            if v == q:  # once for each candidate: insert it by size, then by side
                size, position = state.components[s, q].size, count
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
def decompose(state, s, q, x):
    """Decomposes (S, Q) greedily by x; returns the number of pieces, or -1 if they do not cover Q∖x."""
    if not state.cliques[place_clique(state, s, x)].permitted:
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
            put(uncovered, v)
    set_around(state)
    return cover(state)


@kernel(allocates=False)
def add_to_agenda(state, s, q):
    """Adds a component to the agenda unless it is there."""
    component = state.components[s, q]
    if component.next == OUT:
        component.next = state.agenda[component.size]
        state.agenda[component.size] = s * state.leader.shape[1] + q


@kernel(allocates=False)
def mark_stale(state, s, q):
    """Marks the components and cliques that depend on (S, Q) as stale."""
    for v in range(state.leader.shape[1]):
        if state.leader[s, v] < 0 or state.leader[s, v] == q:
            continue
        rank = place_clique(state, s, v)
        root = state.cliques[rank]
        if not root.permitted:
            continue
        if root.next == OUT:
            root.next = state.agenda[0]
            state.agenda[0] = rank
        for i in range(state.clique.size):
            x, other = state.clique[i], state.around[i]
            whole = state.leader[other, x]
            if whole >= 0 and is_subset(state.members[s, q], state.members[other, whole]):
                put(state.stale[other, whole], x)
                add_to_agenda(state, other, whole)


@kernel
def make_components(state, s):
    """Makes the components of S from its edges above δ; known ones keep their state."""
    n = state.leader.shape[1]
    leader = np.empty(n, np.int64)
    size = np.empty(n, np.int64)
    is_new = np.empty(n, np.int64)
    for v in range(n):
        leader[v], size[v], is_new[v] = v, 0, 0
    for edge in range(state.first_edge[s], state.forest.shape[1]):
        u, v = find_leader(leader, state.forest[s, edge, 0]), find_leader(leader, state.forest[s, edge, 1])
        leader[max(u, v)] = min(u, v)
    for v in range(n):
        size[find_leader(leader, v)] += 1
    for v in state.sets[s]:
        size[v] = 0
    for q in range(n):
        component = state.components[s, q]
        # Components only split, or only merge: the same leader and size mean the same component.
        if component.size != size[q]:
            is_new[q] = size[q] > 0
            if component.decomposable:
                mark_stale(state, s, q)
            component.size, component.decomposable = size[q], 0
            for w in range(state.uncovered.size):
                state.members[s, q, w] = 0
                state.stale[s, q, w] = 0
    for v in range(n):
        q = find_leader(leader, v)
        if size[q] > 0:
            state.leader[s, v] = q
        if is_new[q]:
            put(state.members[s, q], v)
            put(state.stale[s, q], v)
            add_to_agenda(state, s, q)


@kernel(allocates=False)
def update(state, s, q):
    """Decides whether (S, Q) is decomposable, by the recorded x unless that is stale, or by another."""
    component, stale = state.components[s, q], state.stale[s, q]
    was, found = component.decomposable, -1
    if was and not has(stale, component.x):
        found = component.x
    for x in range(state.leader.shape[1]):
        if found >= 0:
            break
        # After a recorded decomposition the other x are untried: none of them is known to fail.
        if has(state.members[s, q] if was else stale, x) and decompose(state, s, q, x) >= 0:
            found = x
    for w in range(stale.size):
        stale[w] = 0
    component.x = found
    component.decomposable = found >= 0
    if component.decomposable != was:
        mark_stale(state, s, q)


@kernel(allocates=False)
def update_stale(state, until):
    """Retests the stale components by increasing size, then the cliques; False beyond `until` covers."""
    n, progress = state.leader.shape[1], state.progress[0]
    for size in range(1, n + 1):
        while state.agenda[size] != END:
            if progress.covers > until:
                return False
            s, q = state.agenda[size] // n, state.agenda[size] % n
            component = state.components[s, q]
            state.agenda[size] = component.next
            component.next = OUT
            if component.size == size:
                update(state, s, q)
            elif component.size > 0:  # larger sets have merged it with others
                add_to_agenda(state, s, q)
    while state.agenda[0] != END:
        if progress.covers > until:
            return False
        rank = state.agenda[0]
        clique = state.cliques[rank]
        state.agenda[0] = clique.next
        clique.next = OUT
        progress.roots -= clique.root
        clique.root = decompose_root(state, rank) >= 0
        progress.roots += clique.root
    return True


@kernel(allocates=False)
def remove_weakest_edges(state, budget):
    """Removes the weakest edges, which raises δ to their strength, until there is a root (section 5).

    Args:
        state: see `State`; without edges in `weakest_first`, δ stays.
        budget: approximate number of covers to try.

    Returns:
        True if there is a root or no edge is left; False if the budget is spent.
    """
    progress = state.progress[0]
    until = progress.covers + budget
    while update_stale(state, until):
        if progress.edge == state.weakest_first.size:
            return True
        edge = state.weakest_first[progress.edge]
        s, position = edge // state.strengths.shape[1], edge % state.strengths.shape[1]
        if state.strengths[s, position] > progress.threshold:
            if progress.roots > 0:
                return True
            progress.threshold = state.strengths[s, position]
            progress.rises += 1
        state.first_edge[s] = position + 1
        make_components(state, s)
        progress.edge += 1
        progress.covers += 1
    return False


@kernel(allocates=False)
def best_decompositions(state, items, separator_scores, clique_scores, values):
    """Finds the greedy decompositions of the highest score.

    value(S, Q) = max over x ∈ Q of s(S∪x) − s(S) + Σ value(S_i, Q_i).

    Args:
        state: see `State`; receives the x.
        items: decomposable components as s·n + q, by increasing size.
        separator_scores: s(S), in nats.
        clique_scores: s(C), in nats.
        values: shape (count, n), receives the values in nats.
    """
    n = state.leader.shape[1]
    for item in items:
        s, q = item // n, item % n
        values[s, q] = -np.inf
        for x in range(n):
            if not has(state.members[s, q], x):
                continue
            count = decompose(state, s, q, x)
            if count < 0:
                continue
            value = clique_scores[place_clique(state, s, x)] - separator_scores[s]
            for i in range(count):
                value += values[state.pieces[i].s, state.pieces[i].q]
            if value > values[s, q]:
                values[s, q] = value
                state.components[s, q].x = x
