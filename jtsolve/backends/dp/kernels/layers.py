"""One layer of the DP for junction trees: from the finished smaller sets to f(S,U), h(C,U) and g(C,U).

A set over all variables is a pair (ρ, c): ρ tells whether the root variable is in it, c is a bit mask over
the m others. U is a bit mask over those m: the root is never in it.

Sets c of at most w members are kept by size, and within a size in increasing order of the masks (colex). The
colex rank of a set of s members does not depend on how many variables there are: the sets of s of k variables
have the ranks 0 to C(k,s) - 1, for every k. So one set of rank tables serves every U, after the variables
outside U are renamed 0, 1, 2, …: only the number of smaller sets, first[k,s], changes.

- F lies by U: F(S,U) at start[U] + ρ·first[k,w+1] + first[k,s] + rank, k = m - |U|, s = |c|, S renamed. With
  the root there are only sets c of at most w - 1 members.
- g lies by C (see `partition`): g(C,U) at offset[ρ, first[m,s] + rank of c] + LANES·(U renamed).
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from jtsolve.backends.dp.kernels.partition import LANES
from jtsolve.core.compiling import kernel

PIECE = 9
"""Bits of one look-up when a mask is renamed: 512 × 512 entries of two bytes, of which a row is in use."""

Ranks = namedtuple(
    "Ranks",
    [
        "width",  # w
        "block",  # the number of lowest variables that form the cubes of `partition`
        "first",  # shape (m + 1, w + 2): [k, s] is the number of sets of less than s of k variables
        "masks",  # shape (K,): the sets in order, K = first[m, w + 1]
        "position",  # shape (2^m,): where a mask is in `masks`; -1 above w members
        "parent",  # shape (K,): the rank without the largest member
        "top",  # shape (K,): the largest member
        "insert",  # shape (m, first[m, w]): the rank with a member put in at a place, the others making room
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


@kernel(inline="always")
def rename(mask, among, squeeze, ones):
    """Returns `mask`, a subset of `among`, with the members of `among` renamed 0, 1, 2, …; up to 27 bits."""
    low, middle = among & 511, (among >> PIECE) & 511
    below = ones[low]
    return (
        squeeze[mask & 511, low]
        | squeeze[(mask >> PIECE) & 511, middle] << below
        | squeeze[mask >> (2 * PIECE), among >> (2 * PIECE)] << (below + ones[middle])
    )


@kernel(inline="always")
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


@kernel(inline="always")
def _grow(f, begin, source, start, k, sizes, first, row):
    """f(S) = max(f(S), source(S∪v)) for the sets S of less than `sizes` of k variables; `row` puts v in."""
    m = first.shape[0] - 1
    for s in range(sizes):
        here, there, table = begin + first[k, s], start + first[k + 1, s + 1], first[m, s]
        for i in range(first[k, s + 1] - first[k, s]):
            value = source[there + row[table + i]]
            f[here + i] = value if value > f[here + i] else f[here + i]


@kernel
def sweep(sets, combine, ranks, local, offset, start, before, within, current, g):
    """Finishes F(·,U) and g(·,U) for the sets U given, once those of all smaller sets are finished.

        f(S,U) = max_{v ∈ U} F(S∪v, U∖v)              (a clique C ⊋ S roots the subtree over S ∪ U)
        H(C,U) = max(f(C,U) − s(C), max_{c ∈ C} H(C∖c, U))      (S ⊆ C: S = C is contracted afterwards)
        g(C,U) = max(H(C,U), max_{R ⊊ U} g(C,R) + g(C,U∖R))     (H or a better partition)
        F(S,U) = max(f(S,U), s(S) + g(S,U))

    A separator S of the part U must hold every required neighbour of U that is outside U: the two ends of a
    required edge would otherwise never meet in a clique.

    Args:
        sets: shape (count,), int64: sets U with equally many members outside the block, and inside it.
        combine: whether g holds the best splits into parts that both have members outside the block.
        ranks: see `Ranks`.
        local: see `Local`.
        offset: shape (2, K): where the table of g(C,·) begins; -1 where there is none (C = ∅, or too large).
        start: shape (2^m,): where F(·,U) begins in its array.
        before: F for the sets with one member less outside the block.
        within: F for the sets with one member less in the block.
        current: F for these sets.
        g: all tables of g.
    """
    width, block, first = ranks.width, ranks.block, ranks.first
    m = first.shape[0] - 1
    full = (1 << m) - 1
    in_block = (1 << block) - 1
    lowest, threshold = local.lowest, local.threshold
    number = g.dtype.type
    rows = first[m - 1, width + 1]
    outside = np.empty(m, np.int64)  # the variables outside U, in order
    mask_of = np.empty(rows, np.int64)  # the renamed set as it is: renamed back
    position_of = np.empty(rows, np.int64)  # and its position among all sets
    reach = np.empty(2 * rows, g.dtype)  # H(C,U) for the two ρ

    for u in sets:
        complement = full ^ u
        k = 0
        for v in range(m):
            if complement >> v & 1:
                outside[k] = v
                k += 1
        with_root = first[k, width + 1]  # where the sets with the root begin
        mask_of[0] = 0
        position_of[0] = 0
        for s in range(1, width + 1):
            for i in range(first[k, s + 1] - first[k, s]):
                j, table = first[k, s] + i, first[m, s] + i
                shorter = mask_of[first[k, s - 1] + ranks.parent[table]]
                mask_of[j] = shorter | 1 << outside[ranks.top[table]]
                position_of[j] = ranks.position[mask_of[j]]

        # First f(S,U).
        f = current[start[u] : start[u] + with_root + first[k, width]]
        f[:] = lowest
        for v in range(m):
            if u >> v & 1:
                place = 0
                while place < k and outside[place] < v:
                    place += 1
                source = within if v < block else before
                begin = start[u ^ 1 << v]
                row = ranks.insert[place]
                _grow(f, 0, source, begin, k, width, first, row)
                begin += first[k + 1, width + 1]
                _grow(f, with_root, source, begin, k, width - 1, first, row)

        # Then H(C,U).
        needed = outer_neighbours(u, local.required)
        for s in range(width + 1):
            for i in range(first[k, s + 1] - first[k, s]):
                j, table = first[k, s] + i, first[m, s] + i
                own = position_of[j]
                value = lowest
                if needed & ~mask_of[j] == 0:
                    value = max(lowest, number(f[j] - local.separator[0, own]))
                for one in range(s):
                    value = max(value, reach[first[k, s - 1] + ranks.remove[table, one]])
                reach[j] = value
                if s == width:
                    continue
                if needed & ~(mask_of[j] | 1 << m) == 0:
                    value = max(value, number(f[with_root + j] - local.separator[1, own]))
                for one in range(s):
                    value = max(value, reach[with_root + first[k, s - 1] + ranks.remove[table, one]])
                reach[with_root + j] = value

        # Then g(C,U) and F(C,U).
        high = (u >> block) != 0
        for j in range(with_root):
            among = full ^ mask_of[j]
            renamed = rename(u, among, ranks.squeeze, ranks.ones)
            cube = (1 << ranks.ones[among & in_block]) - 1
            inner, outer = renamed & cube, renamed & ~cube
            for root in range(2):
                table = offset[root, position_of[j]]
                if table < 0:
                    continue
                cell = table + renamed * LANES
                value = reach[root * with_root + j]
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
                total = number(value + local.clique[root, position_of[j]])
                total = total if total >= threshold else lowest
                f[root * with_root + j] = max(f[root * with_root + j], total)


@kernel
def set_to_zero(g, cells):
    """Sets the cells given, g(C,∅), to 0: the first touch of most of g, when the system clears its pages."""
    for cell in cells:
        g[cell] = 0


@kernel
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
    m = ranks.first.shape[0] - 1
    full = (1 << m) - 1
    best, best_members = local.lowest, 0
    members = u
    while True:
        c = inside | members
        own = ranks.position[c]
        if own >= 0 and offset[root, own] >= 0 and (members or not proper):
            place = rename(u ^ members, full ^ c, ranks.squeeze, ranks.ones)
            value = g[offset[root, own] + place * LANES] + local.clique[root, own]
            if value > best:
                best, best_members = value, members
        if members == 0:
            return best, best_members
        members = (members - 1) & u


@kernel
def best_attachment(root, c, u, ranks, local, offset, g):
    """Returns h(C,U) = max over S ⊆ C of f(S,U) − s(S), with ρ and c of S, and its clique's members of U.

    See `best_clique` for the arguments; (root, c) is C.
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
    """Returns max over R ⊊ U that hold the largest member of U of g(C,R) + g(C,U∖R), and the R.

    See `best_clique` for the arguments; (root, c) is C.
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
        one = g[table + rename(largest | part, among, ranks.squeeze, ranks.ones) * LANES]
        two = g[table + rename(rest ^ part, among, ranks.squeeze, ranks.ones) * LANES]
        if one + two > best:
            best, best_part = one + two, largest | part
    return best, best_part
