"""States of the certified sums: families with thresholds, by which each graph is one tree of states.

Sets are positions, families are numbers; `averaging.relaxed` has the definitions and proofs.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import copy_onto, empty, filled, zeros

States = namedtuple("States", ("family", "vertex", "first_slot", "first_child", "child", "full"))
"""States and the tree of introductions that they allow.

`family` and `vertex` have shape (m,): the family (u,S) of each state, and u. The slots of state i are
`first_slot[i]` to `first_slot[i + 1] - 1`, one for each head; those of i = m are the heads of components. The
children of slot s are `child[first_child[s] : first_child[s + 1]]`; `full` tells which have S∪u as parents.
"""


@kernel
def _grown(array, size):
    larger = empty(size, array.dtype)
    copy_onto(larger, array)
    return larger


@kernel
def children_of(vertex, union, slot, members, facets, sizes, first, by_parents, n, most):
    """Returns for each family (u,S) those (x,Q) with u ∈ Q ⊆ S∪u and x ∉ S∪u, as starts and list.

    Beyond `most`, it returns no starts.

    Args:
        vertex: shape (families,): u.
        union: shape (families,): the position of S∪u.
        slot: shape (families,): the place of u among the members of S∪u.
        members: shape (sets, width), int32.
        facets: shape (sets, width), int32: the position of the set without its j-th member.
        sizes: shape (sets,), int32.
        first: shape (sets + 1,): families with the parents Q are by_parents[first[Q] : first[Q + 1]].
        by_parents: shape (families,).
        n: the number of variables.
    """
    families = vertex.size
    starts = zeros(families + 1, np.int64)
    found = empty(1024, np.int64)
    total = 0
    within = zeros(n + 1, np.bool_)
    for f in range(families):
        A, size = union[f], sizes[union[f]]
        for j in range(size):
            within[members[A, j]] = True
        for removed in range(1 << size):
            if removed >> slot[f] & 1:
                continue
            Q = A
            for j in range(size - 1, -1, -1):  # backwards: earlier positions stay valid
                if removed >> j & 1:
                    Q = facets[Q, j]
            for i in range(first[Q], first[Q + 1]):
                if not within[vertex[by_parents[i]]]:
                    if total == found.size:
                        found = _grown(found, 2 * total)
                    found[total] = by_parents[i]
                    total += 1
        for j in range(size):
            within[members[A, j]] = False
        if total > most:
            return starts[:0], found[:0]
        starts[f + 1] = total
    return starts, found[:total]


@kernel
def _place(table, keys, a, b, c):
    """Returns the place of the key (a, b, c) in a hash table of numbers, or the free one for it."""
    key = (a * 0x9E3779B97F4A7C + b) * 0x2545F4914F6CDD1D + c
    key = (key ^ (key >> 29)) * 0x2545F4914F6CDD1D
    h = (key ^ (key >> 32)) & (table.size - 1)
    while table[h] >= 0 and (keys[table[h], 0] != a or keys[table[h], 1] != b or keys[table[h], 2] != c):
        h = (h + 1) & (table.size - 1)
    return h


@kernel
def _numbered(table, keys, count, a, b, c):
    """Returns the number of the key (a, b, c), which is `count` for a new one, and the tables with it."""
    if 2 * count + 2 > table.size:
        table = filled(2 * table.size, np.int64, -1)
        larger = empty((table.size, 3), np.int64)
        for other in range(count):
            for j in range(3):
                larger[other, j] = keys[other, j]
        keys = larger
        for other in range(count):
            table[_place(table, keys, keys[other, 0], keys[other, 1], keys[other, 2])] = other
    h = _place(table, keys, a, b, c)
    if table[h] < 0:
        table[h] = count
        keys[count, 0], keys[count, 1], keys[count, 2] = a, b, c
    return table[h], table, keys


@kernel
def reached(vertex, union, parents, starts, children, masks, rank, root, tops, thresholds, most, room):
    """Returns the states that are reached from the root and from the heads of other components.

    A state is a family with thresholds (S,t): every vertex below it whose parents contain S ranks above t.
    Families, slots and children are returned as in `States`, without the forest.

    Args:
        vertex: shape (families,): u of the family (u,S).
        union: shape (families,): the position of S∪u.
        parents: shape (families,): that of S.
        starts: of `children_of`.
        children: of `children_of`.
        masks: shape (sets,), int64: the sets as bit masks.
        rank: shape (n,): the rank of each vertex, the root's the least.
        root: the family of the root.
        tops: the families (u,∅) of the other vertices.
        thresholds: whether states pass thresholds on; otherwise each family is a state.
        most: maximum number of states; beyond, the result is empty.
        room: maximum number of children.
    """
    # A state is (family, list of thresholds, 0); a list is (the list without its last one, S, t), and list 0
    # is empty.
    table, keys = filled(4096, np.int64, -1), empty((4096, 3), np.int64)
    of_lists, lists = filled(4096, np.int64, -1), filled((4096, 3), np.int64, -1)
    count, known = 0, 1
    first_slot, first_child = empty(1024, np.int64), empty(1024, np.int64)
    child, full = empty(1024, np.int64), empty(1024, np.bool_)
    slots, entries = 0, 0
    own_set, own_rank = empty(64 * 64, np.int64), empty(64 * 64, np.int64)
    kept_set, kept_rank = empty(64 * 64, np.int64), empty(64 * 64, np.int64)
    i = -1
    # i = -1 stands for the forest; its slots are put last.
    while i < count:
        if i < 0:
            candidates, low, high = tops, -1, tops.size
        else:
            f, G = keys[i, 0], keys[i, 1]
            candidates, low, high = children, starts[f], starts[f + 1]
            own = 0
            while G > 0:
                if lists[G, 1] != parents[f]:
                    own_set[own], own_rank[own] = lists[G, 1], lists[G, 2]
                    own += 1
                G = lists[G, 0]
            own_set[own], own_rank[own] = parents[f], rank[vertex[f]]
            own += 1
            while i + 2 > first_slot.size:
                first_slot = _grown(first_slot, 2 * first_slot.size)
            first_slot[i] = slots
        last = -1
        for at in range(low, high):
            g = root if at < 0 else candidates[at]
            kept = 0
            if i < 0:
                if at >= 0 and thresholds:
                    kept_set[0], kept_rank[0] = 0, rank[vertex[g]]
                    kept = 1
            else:
                Q, permitted = masks[parents[g]], True
                for e in range(own):
                    if masks[own_set[e]] & ~Q == 0 and rank[vertex[g]] <= own_rank[e]:
                        permitted = False
                        break
                if not permitted:
                    continue
                if thresholds:
                    for e in range(own):
                        S, t = masks[own_set[e]], own_rank[e]
                        if S & ~Q or t < 0:
                            continue
                        # A threshold implied by that of a subset is redundant.
                        implied = False
                        for d in range(own):
                            R = masks[own_set[d]]
                            if d != e and R & ~S == 0 and own_rank[d] >= t:
                                implied = True
                                break
                        if implied:
                            continue
                        d = kept
                        while d > 0 and kept_set[d - 1] > own_set[e]:
                            kept_set[d], kept_rank[d] = kept_set[d - 1], kept_rank[d - 1]
                            d -= 1
                        kept_set[d], kept_rank[d] = own_set[e], t
                        kept += 1
            G = 0
            for e in range(kept):
                G, of_lists, lists = _numbered(of_lists, lists, known, G, kept_set[e], kept_rank[e])
                known = max(known, G + 1)
            state, table, keys = _numbered(table, keys, count, g, G, 0)
            count = max(count, state + 1)
            if i < 0:
                continue
            if vertex[g] != last:
                last = vertex[g]
                if slots + 1 > first_child.size:
                    first_child = _grown(first_child, 2 * slots)
                first_child[slots] = entries
                slots += 1
            if entries == child.size:
                child, full = _grown(child, 2 * entries), _grown(full, 2 * entries)
            child[entries], full[entries] = state, parents[g] == union[f]
            entries += 1
        if count > most or entries > room:
            count = slots = entries = 0
            break
        i += 1
    return keys[:count, 0], first_slot[:count], first_child[:slots], child[:entries], full[:entries]
