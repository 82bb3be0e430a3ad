"""One layer of the DP for junction trees: from the finished smaller sets to f(S,U), h(C,U) and g(C,U).

A set over all variables is a pair (ρ, c): ρ tells whether the root variable is in it, c is a bit mask over
the m others. U is a bit mask over those m: the root is never in it. A set c of at most w members is known by
its rank among all such sets in increasing order of the masks (colex). The subsets of any k variables, renamed
0..k-1, have the ranks below count[k] whatever k is, so one set of rank tables serves every U, after the
variables outside U are renamed.

- F lies by U: F(S,U) at start[U] + ρ·count[k] + rank, where k = m - |U|, and the rank is of S renamed.
- g lies by C (see `partition`): g(C,U) at offset[ρ, rank of c] + LANES·(U renamed), C's own rank unrenamed.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit

from jtsolve.kernels.partition import LANES

PIECE = 9
"""Bits of one look-up when a mask is renamed: 512 × 512 entries of two bytes, of which a row is in use."""

Ranks = namedtuple(
    "Ranks",
    [
        "width",  # w
        "block",  # the number of lowest variables that form the cubes of `partition`
        "count",  # shape (m + 1,): the number of sets of at most w of k variables
        "masks",  # shape (K,): the sets in increasing order, K = count[m]
        "rank",  # shape (2^m,): the rank of a mask
        "parent",  # shape (K,): the rank without the largest member
        "top",  # shape (K,): the largest member
        "size",  # shape (K,): the number of members
        "insert",  # shape (m, count[m - 1]): the rank with a member put in at a position; -1 above w members
        "remove",  # shape (K, w): the ranks without the first, second, … member
        "squeeze",  # shape (512, 512): [x, y] is x ∩ y renamed within y
        "ones",  # shape (512,): the number of members
    ],
)
"""The rank tables of the sets of at most w of m variables."""

Local = namedtuple(
    "Local",
    [
        "clique",  # shape (2, K): s(C), `lowest` where C may not be a clique
        "separator",  # shape (2, K): s(S), minus `lowest` where S may not be a separator
        "required",  # shape (m,): the required neighbours of each variable; the root is bit m
        "lowest",  # stands for -inf
        "threshold",  # a value below it has met `lowest` on its way, and is set to it
    ],
)
"""The local scores, in the type of g, and the conditions."""


@njit(nogil=True, cache=True, inline="always")
def rename(mask, among, squeeze, ones):
    """Returns `mask`, a subset of `among`, with the members of `among` renamed 0, 1, 2, …; up to 27 bits."""
    low, middle = among & 511, (among >> PIECE) & 511
    below = ones[low]
    return (
        squeeze[mask & 511, low]
        | squeeze[(mask >> PIECE) & 511, middle] << below
        | squeeze[mask >> (2 * PIECE), among >> (2 * PIECE)] << (below + ones[middle])
    )


@njit(nogil=True, cache=True, inline="always")
def outer_neighbours(mask, required):
    """Returns the required neighbours of the members of `mask` that are outside of it."""
    union = 0
    rest = mask
    v = 0
    while rest:
        if rest & 1:
            union |= required[v]
        rest >>= 1
        v += 1
    return union & ~mask


@njit(nogil=True, cache=True)
def sweep(sets, combine, ranks, local, offset, start, before, current, g):
    """Finishes F(·,U) and g(·,U) for the sets U given, once those of all smaller sets are finished.

        f(S,U) = max_{v ∈ U} F(S∪v, U∖v)              (a clique C ⊋ S roots the subtree over S ∪ U)
        H(C,U) = max(f(C,U) − s(C), max_{c ∈ C} H(C∖c, U))      (S ⊆ C: S = C is contracted afterwards)
        g(C,U) = max(H(C,U), max_{R ⊊ U} g(C,R) + g(C,U∖R))     (H or a better partition)
        F(S,U) = max(f(S,U), s(S) + g(S,U))

    A separator S of the part U must hold every required neighbour of U that is outside U: the two ends of a
    required edge would otherwise never meet in a clique.

    Args:
        sets: shape (count,), int64: sets U of one layer, all with as many members in the block.
        combine: whether g holds the best splits into parts that both have members outside the block.
        ranks: see `Ranks`.
        local: see `Local`.
        offset: shape (2, K): where the table of g(C,·) begins; -1 for C = ∅, which has none.
        start: shape (2^m,): where F(·,U) begins in its layer.
        before: F of the layer before (U without a member outside the block).
        current: F of this layer.
        g: all tables of g.
    """
    width, block, count = ranks.width, ranks.block, ranks.count
    m = count.size - 1
    full = (1 << m) - 1
    in_block = (1 << block) - 1
    lowest, threshold = local.lowest, local.threshold
    number = g.dtype.type
    rows = count[m - 1]
    outside = np.empty(m, np.int64)  # the variables outside U, in order
    mask_of = np.empty(rows, np.int64)  # the set that a rank stands for, renamed back
    rank_of = np.empty(rows, np.int64)  # and its own rank
    reach = np.empty(2 * rows, g.dtype)  # H(C,U) for the two ρ

    for u in sets:
        complement = full ^ u
        k = 0
        for v in range(m):
            if complement >> v & 1:
                outside[k] = v
                k += 1
        here = count[k]
        after = count[k + 1]
        mask_of[0] = 0
        rank_of[0] = 0
        for j in range(1, here):
            mask_of[j] = mask_of[ranks.parent[j]] | 1 << outside[ranks.top[j]]
            rank_of[j] = ranks.rank[mask_of[j]]

        # First f(S,U).
        f = current[start[u] : start[u] + 2 * here]
        f[:] = lowest
        for v in range(m):
            if u >> v & 1:
                position = 0
                while position < k and outside[position] < v:
                    position += 1
                source = current if v < block else before
                begin = start[u ^ 1 << v]
                row = ranks.insert[position]
                for j in range(here):
                    to = row[j]
                    value = source[begin + max(to, 0)]
                    value = value if to >= 0 else lowest
                    f[j] = max(f[j], value)
                begin += after
                for j in range(here):
                    to = row[j]
                    value = source[begin + max(to, 0)]
                    value = value if to >= 0 and ranks.size[j] < width - 1 else lowest
                    f[here + j] = max(f[here + j], value)

        # Then H(C,U).
        needed = outer_neighbours(u, local.required)
        high = (u >> block) != 0
        for j in range(here):
            own = rank_of[j]
            value = lowest
            if needed & ~mask_of[j] == 0:
                value = max(lowest, number(f[j] - local.separator[0, own]))
            other = lowest
            if needed & ~(mask_of[j] | 1 << m) == 0:
                other = max(lowest, number(f[here + j] - local.separator[1, own]))
            for i in range(ranks.size[j]):
                without = ranks.remove[j, i]
                value = max(value, reach[without])
                other = max(other, reach[here + without])
            reach[j] = value
            reach[here + j] = max(value, other)

        for j in range(here):
            among = full ^ mask_of[j]
            renamed = rename(u, among, ranks.squeeze, ranks.ones)
            cube = (1 << ranks.ones[among & in_block]) - 1
            inner, outer = renamed & cube, renamed & ~cube
            for root in range(2):
                table = offset[root, rank_of[j]]
                if table < 0:
                    continue
                cell = table + renamed * LANES
                value = reach[root * here + j]
                if combine:
                    value = max(value, g[cell])
                part = inner
                while part:
                    part = (part - 1) & inner
                    if high or part:
                        one = g[table + (outer | part) * LANES]
                        two = g[table + (inner ^ part) * LANES]
                        value = max(value, number(one + two))
                value = value if value >= threshold else lowest
                g[cell] = value
                total = number(value + local.clique[root, rank_of[j]])
                total = total if total >= threshold else lowest
                f[root * here + j] = max(f[root * here + j], total)


@njit(nogil=True, cache=True)
def set_to_zero(g, cells):
    """Sets the cells given, g(C,∅), to 0: the first touch of most of g, when the system clears its pages."""
    for cell in cells:
        g[cell] = 0


@njit(nogil=True, cache=True)
def best_clique(root, inside, u, proper, ranks, local, offset, g):
    """Returns max over the cliques C with S ⊆ C ⊆ S ∪ U of s(C) + g(C, U∖C), and the members of C in U.

    Args:
        root: ρ of S.
        inside: c of S.
        u: U.
        proper: whether C = S is excluded: then the value is f(S,U), else F(S,U).
        ranks: see `Ranks`.
        local: see `Local`.
        offset: see `sweep`.
        g: all tables of g, finished.
    """
    m = ranks.count.size - 1
    full = (1 << m) - 1
    best, best_members = local.lowest, 0
    members = u
    while True:
        c = inside | members
        own = ranks.rank[c]
        if own >= 0 and offset[root, own] >= 0 and (members or not proper):
            place = rename(u ^ members, full ^ c, ranks.squeeze, ranks.ones)
            value = g[offset[root, own] + place * LANES] + local.clique[root, own]
            if value > best:
                best, best_members = value, members
        if members == 0:
            return best, best_members
        members = (members - 1) & u


@njit(nogil=True, cache=True)
def best_attachment(root, c, u, ranks, local, offset, g):
    """Returns h(C,U) = max over S ⊆ C of f(S,U) − s(S), with ρ and c of S, and its clique's members of U.

    See `best_clique` for the arguments; (root, c) is C.
    """
    m = ranks.count.size - 1
    needed = outer_neighbours(u, local.required)
    best, best_root, best_inside, best_members = local.lowest, 0, 0, 0
    for with_root in range(root + 1):
        inside = c
        while True:
            if needed & ~(inside | with_root << m) == 0:
                cost = local.separator[with_root, ranks.rank[inside]]
                value, members = best_clique(with_root, inside, u, True, ranks, local, offset, g)
                if value - cost > best:
                    best, best_root, best_inside, best_members = value - cost, with_root, inside, members
            if inside == 0:
                break
            inside = (inside - 1) & c
    return best, best_root, best_inside, best_members


@njit(nogil=True, cache=True)
def best_split(root, c, u, ranks, local, offset, g):
    """Returns max over R ⊊ U that hold the largest member of U of g(C,R) + g(C,U∖R), and the R.

    See `best_clique` for the arguments; (root, c) is C.
    """
    m = ranks.count.size - 1
    among = ((1 << m) - 1) ^ c
    table = offset[root, ranks.rank[c]]
    largest = 1
    while largest <= u >> 1:
        largest <<= 1
    rest = u ^ largest
    best, best_part = local.lowest, 0
    part = rest
    while part:
        part = (part - 1) & rest
        one = g[table + rename(largest | part, among, ranks.squeeze, ranks.ones) * LANES]
        two = g[table + rename(rest ^ part, among, ranks.squeeze, ranks.ones) * LANES]
        if one + two > best:
            best, best_part = one + two, largest | part
    return best, best_part
