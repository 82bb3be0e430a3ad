"""The recurrences of Kangas, Niinimäki and Koivisto (2014), in logarithms: bottom up, and back to the tree.

For disjoint C, U with |C| ≤ w, with the letters of the paper (section 3.3):

    f(S,U) = max_{S ⊊ C ⊆ S∪U} s(C) + g(C, U∖C)             the best subtree over S ∪ U below the separator S
    h(C,U) = max_{S ⊊ C} f(S,U) − s(S)                      the best subtree over U attached to the clique C
    g(C,U) = max over partitions {R_i} of U of Σ h(C,R_i)   everything below the clique C

`sweep` fills the tables bottom up in the equivalent form with one member at a time (docs/dp.md proves it):

    f(S,U) = max_{v ∈ U} F(S∪v, U∖v)                                      `_subtrees`
    H(C,U) = max(f(C,U) − s(C), max_{c ∈ C} H(C∖c, U))                    `_attachments`
    g(C,U) = max(H(C,U), max_{∅ ⊊ R ⊊ U} g(C,R) + g(C, U∖R))              `_partitions`
    F(S,U) = max(f(S,U), s(S) + g(S,U)),   F(S,∅) = s(S),   g(C,∅) = 0

`best_clique`, `best_attachment` and `best_split` are the paper's f, h and g again, each with its maximiser;
they follow an optimal path down through the finished g, so nothing but g has to be kept.

`ranks` explains how sets and tables are laid out. The splits of U that take nearly all the time, those in
which both parts reach outside the block of lowest variables, are in `partition`.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from jtsolve.backends.dp.kernels.partition import LANES
from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.renaming import rename

LocalTables = namedtuple(
    "LocalTables",
    [
        "clique",  # shape (2, K): s(C), `lowest` where C may not be a clique
        "separator",  # shape (2, K): s(S), minus `lowest` where S may not be a separator
        "required",  # shape (m,): the required neighbours of each variable; the root is bit m
        "lowest",  # stands for -inf
        "threshold",  # a sum below it contains `lowest`, and is reset to it
    ],
)
"""The local scores in the number type of g, and the constraints."""


@kernel(inline="always")
def outer_neighbours(mask, required):
    """Returns the required neighbours of the members of `mask` that lie outside it."""
    union = 0
    rest = mask
    v = 0
    while rest:
        if rest & 1:
            union |= required[v]
        rest >>= 1
        v += 1
    return union & ~mask


@kernel(inline="always")
def _sets_outside(u, ranks, outside, mask_of, position_of):
    """Writes the k variables outside U and, by rank, the mask and position of each set of them; returns k."""
    first = ranks.first
    m = first.shape[0] - 1
    k = 0
    for v in range(m):
        if not u >> v & 1:
            outside[k] = v
            k += 1
    mask_of[0] = 0
    position_of[0] = 0
    for s in range(1, ranks.width + 1):
        for i in range(first[k, s + 1] - first[k, s]):
            j, table = first[k, s] + i, first[m, s] + i
            shorter = mask_of[first[k, s - 1] + ranks.parent[table]]
            mask_of[j] = shorter | 1 << outside[ranks.top[table]]
            position_of[j] = ranks.position[mask_of[j]]
    return k


@kernel(inline="always")
def _grow(f, begin, source, start, k, sizes, first, row):
    """f(S) = max(f(S), source(S∪v)) for the sets S of less than `sizes` of k variables; `row` inserts v."""
    m = first.shape[0] - 1
    for s in range(sizes):
        here, there, table = begin + first[k, s], start + first[k + 1, s + 1], first[m, s]
        for i in range(first[k, s + 1] - first[k, s]):
            value = source[there + row[table + i]]
            f[here + i] = value if value > f[here + i] else f[here + i]


@kernel(inline="always")
def _subtrees(u, k, ranks, outside, start, before, within, f):
    """f(S,U) = max_{v ∈ U} F(S∪v, U∖v): a clique C ⊋ S is the root of the subtree over S ∪ U."""
    width, first = ranks.width, ranks.first
    with_root = first[k, width + 1]
    for v in range(first.shape[0] - 1):
        if u >> v & 1:
            place = 0
            while place < k and outside[place] < v:
                place += 1
            source = within if v < ranks.block else before
            begin = start[u ^ 1 << v]
            row = ranks.insert[place]
            _grow(f, 0, source, begin, k, width, first, row)
            begin += first[k + 1, width + 1]
            _grow(f, with_root, source, begin, k, width - 1, first, row)


@kernel(inline="always")
def _attachments(u, k, ranks, local, mask_of, position_of, f, H):
    """H(C,U) = max(f(C,U) − s(C), max_{c ∈ C} H(C∖c, U)): some S ⊆ C; S = C is contracted afterwards.

    A separator S above U must hold every required neighbour of U outside U: the two ends of a required edge
    would otherwise never meet in a clique.
    """
    width, first = ranks.width, ranks.first
    m = first.shape[0] - 1
    lowest = local.lowest
    number = H.dtype.type
    with_root = first[k, width + 1]
    needed = outer_neighbours(u, local.required)
    for s in range(width + 1):
        for i in range(first[k, s + 1] - first[k, s]):
            j, table = first[k, s] + i, first[m, s] + i
            own = position_of[j]
            value = lowest
            if needed & ~mask_of[j] == 0:
                value = max(lowest, number(f[j] - local.separator[0, own]))
            for one in range(s):
                value = max(value, H[first[k, s - 1] + ranks.remove[table, one]])
            H[j] = value
            if s == width:
                continue
            if needed & ~(mask_of[j] | 1 << m) == 0:
                value = max(value, number(f[with_root + j] - local.separator[1, own]))
            for one in range(s):
                value = max(value, H[with_root + first[k, s - 1] + ranks.remove[table, one]])
            H[with_root + j] = value


@kernel(inline="always")
def _partitions(u, k, combine, ranks, local, offset, mask_of, position_of, H, g, F):
    """g(C,U) = max(H(C,U), max_{∅ ⊊ R ⊊ U} g(C,R) + g(C, U∖R));  F(C,U) = max(f(C,U), s(C) + g(C,U)).

    F holds f on entry. If `combine`, g(C,U) holds the best split of `partition`; the other splits, at most
    seven, have R or U∖R within the block.
    """
    width, block, first = ranks.width, ranks.block, ranks.first
    full = (1 << (first.shape[0] - 1)) - 1
    in_block = (1 << block) - 1
    lowest, threshold = local.lowest, local.threshold
    number = g.dtype.type
    with_root = first[k, width + 1]
    high = (u >> block) != 0
    for j in range(with_root):
        among = full ^ mask_of[j]
        renamed = rename(u, among, ranks)
        cube = (1 << ranks.ones[among & in_block]) - 1
        inner, outer = renamed & cube, renamed & ~cube
        for root in range(2):
            table = offset[root, position_of[j]]
            if table < 0:
                continue
            cell = table + renamed * LANES
            value = H[root * with_root + j]
            if combine:
                value = max(value, g[cell])
            part = inner
            while part:  # U∖R within the block: R = outer ∪ part
                part = (part - 1) & inner
                if high or part:
                    one = g[table + (outer | part) * LANES]
                    two = g[table + (inner ^ part) * LANES]
                    value = max(value, number(one + two))
            # In fixed point, sums of sums with `lowest` would overflow.
            value = value if value >= threshold else lowest
            g[cell] = value
            total = number(value + local.clique[root, position_of[j]])
            total = total if total >= threshold else lowest
            F[root * with_root + j] = max(F[root * with_root + j], total)


@kernel
def sweep(sets, combine, ranks, local, offset, start, before, within, current, g):
    """Finishes F(·,U) and g(·,U) for the sets U given, once those of all smaller sets are finished.

    Args:
        sets: shape (count,), int64: sets U with equally many members outside the block, and inside it.
        combine: whether g holds the best splits into parts that both have members outside the block.
        ranks: see `RankTables`.
        local: see `LocalTables`.
        offset: shape (2, K): where the table of g(C,·) begins; -1 where there is none (C = ∅, or too large).
        start: shape (2^m,): where F(·,U) begins in its array.
        before: F for the sets with one member less outside the block.
        within: F for the sets with one member less in the block.
        current: F for these sets.
        g: all tables of g.
    """
    width, first = ranks.width, ranks.first
    m = first.shape[0] - 1
    rows = first[m - 1, width + 1]
    outside = np.empty(m, np.int64)
    mask_of = np.empty(rows, np.int64)
    position_of = np.empty(rows, np.int64)
    H = np.empty(2 * rows, g.dtype)
    for u in sets:
        k = _sets_outside(u, ranks, outside, mask_of, position_of)
        # f and then F of one U: f(S,U) is read only here, so both share the place.
        F = current[start[u] : start[u] + first[k, width + 1] + first[k, width]]
        F[:] = local.lowest
        _subtrees(u, k, ranks, outside, start, before, within, F)
        _attachments(u, k, ranks, local, mask_of, position_of, F, H)
        _partitions(u, k, combine, ranks, local, offset, mask_of, position_of, H, g, F)


@kernel
def set_to_zero(g, cells):
    """Sets the cells given, g(C,∅), to 0: the first touch of most of g, when the system clears its pages."""
    for cell in cells:
        g[cell] = 0


@kernel
def best_clique(root, inside, u, proper, ranks, local, offset, g):
    """f(S,U) = max_{S ⊊ C ⊆ S∪U} s(C) + g(C, U∖C), and C ∩ U; F(S,U), with C = S too, unless `proper`.

    Args:
        root: ρ of S.
        inside: c of S.
        u: U.
        proper: whether C = S is excluded.
        ranks: see `RankTables`.
        local: see `LocalTables`.
        offset: see `sweep`.
        g: all tables of g, finished.
    """
    m = ranks.first.shape[0] - 1
    full = (1 << m) - 1
    best, best_members = local.lowest, 0
    members = u
    while True:
        c = inside | members
        own = ranks.position[c]
        if own >= 0 and offset[root, own] >= 0 and (members or not proper):
            place = rename(u ^ members, full ^ c, ranks)
            value = g[offset[root, own] + place * LANES] + local.clique[root, own]
            if value > best:
                best, best_members = value, members
        if members == 0:
            return best, best_members
        members = (members - 1) & u


@kernel
def best_attachment(root, c, u, ranks, local, offset, g):
    """h(C,U) = max_{S ⊆ C} f(S,U) − s(S), with ρ and c of S, and the members of U in the clique below S.

    (root, c) is C; for the other arguments see `best_clique`.
    """
    m = ranks.first.shape[0] - 1
    needed = outer_neighbours(u, local.required)
    best, best_root, best_inside, best_members = local.lowest, 0, 0, 0
    for with_root in range(root + 1):
        inside = c
        while True:
            if needed & ~(inside | with_root << m) == 0:
                cost = local.separator[with_root, ranks.position[inside]]
                value, members = best_clique(with_root, inside, u, True, ranks, local, offset, g)
                if value - cost > best:
                    best, best_root, best_inside, best_members = value - cost, with_root, inside, members
            if inside == 0:
                break
            inside = (inside - 1) & c
    return best, best_root, best_inside, best_members


@kernel
def best_split(root, c, u, ranks, local, offset, g):
    """max_{R ⊊ U} g(C,R) + g(C, U∖R), and R, which holds the largest member of U.

    (root, c) is C; for the other arguments see `best_clique`.
    """
    m = ranks.first.shape[0] - 1
    among = ((1 << m) - 1) ^ c
    table = offset[root, ranks.position[c]]
    largest = 1
    while largest <= u >> 1:
        largest <<= 1
    rest = u ^ largest
    best, best_part = local.lowest, 0
    part = rest
    while part:
        part = (part - 1) & rest
        one = g[table + rename(largest | part, among, ranks) * LANES]
        two = g[table + rename(rest ^ part, among, ranks) * LANES]
        if one + two > best:
            best, best_part = one + two, largest | part
    return best, best_part
