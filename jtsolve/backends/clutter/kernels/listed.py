"""Multipliers of cuts on unlisted families; see `clutter.listed`.

Cuts are numbered chain by chain. Each cut of a chain includes the one before it, and is given by the sets
that it adds. So Σ λ over the cuts of a chain that contain a set runs from the first of them to the last cut.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, filled, zeros


@kernel
def sums_of(amounts, chains):
    """Returns Σ λ of each cut and the later ones of its chain, and the end of each chain.

    Args:
        amounts: shape (cuts,), int64: λ.
        chains: shape (cuts,), int64: the numbers of the chains, never decreasing.
    """
    sums, ends = amounts.copy(), zeros(1 if chains.size == 0 else chains[-1] + 1, np.int64)
    for k in range(amounts.size - 1, -1, -1):
        if k + 1 < amounts.size and chains[k] == chains[k + 1]:
            sums[k] += sums[k + 1]
        else:
            ends[chains[k]] = k + 1
    return sums, ends


@kernel
def grouped(keys, items, count):
    """Returns the first position of each key below `count`, and the items ordered by key."""
    starts, ordered = zeros(count + 1, np.int64), empty(items.size, np.int64)
    for key in keys:
        starts[key + 1] += 1
    starts = np.cumsum(starts)
    free = starts[:-1].copy()
    for i in range(keys.size):
        ordered[free[keys[i]]] = items[i]
        free[keys[i]] += 1
    return starts, ordered


@kernel
def add_cuts(values, arcs, sets, starts, amounts, chains):
    """Adds λ of each cut to the values of its sets, in place.

    Args:
        values: shape (m,), int64.
        arcs: for each set the start of its supersets with one more member, and these supersets.
        sets: the sets that the cuts add.
        starts: shape (cuts + 1,): the first of these sets for each cut.
        amounts: see `sums_of`.
        chains: see `sums_of`.
    """
    up, above = arcs
    last, queue = filled(values.size, np.int64, -1), empty(values.size, np.int32)
    sums, _ = sums_of(amounts, chains)
    for k in range(amounts.size):
        tail = 0
        for i in range(starts[k], starts[k + 1]):
            if last[sets[i]] != chains[k]:
                last[sets[i]] = chains[k]
                queue[tail] = sets[i]
                tail += 1
        head = 0
        while head < tail:
            a = queue[head]
            head += 1
            values[a] += sums[k]
            for i in range(up[a], up[a + 1]):
                if last[above[i]] != chains[k]:
                    last[above[i]] = chains[k]
                    queue[tail] = above[i]
                    tail += 1


@kernel
def limits(vertices, vertex_cuts, pairs, pair_cuts, amounts, chains, n):
    """Returns Σ λ of the cuts that contain both of two vertices, and of those with their pair but neither.

    Both have shape (n, n), int64.

    Args:
        vertices: the single vertices that the cuts add.
        vertex_cuts: the numbers of these cuts, increasing.
        pairs: the pairs u < v that the cuts add, as u n + v.
        pair_cuts: the numbers of these cuts, increasing.
        amounts: see `sums_of`.
        chains: see `sums_of`.
        n: the number of vertices.
    """
    together, linked = zeros((n, n), np.int64), zeros((n, n), np.int64)
    sums, ends = sums_of(amounts, chains)
    chain, joined, members = filled(n, np.int64, -1), zeros(n, np.int64), empty(n, np.int64)
    i, j = 0, 0
    for c in range(ends.size):
        count = 0
        while i < vertices.size and chains[vertex_cuts[i]] == c:
            v, k = vertices[i], vertex_cuts[i]
            i += 1
            chain[v], joined[v], members[count] = c, k, v
            count += 1
            for u in members[:count]:
                together[u, v] += sums[k]
                together[v, u] += sums[k] if u != v else 0
        while j < pairs.size and chains[pair_cuts[j]] == c:
            (u, v), k = divmod(pairs[j], n), pair_cuts[j]
            j += 1
            more = sums[k]
            for w in (u, v):
                if chain[w] == c:  # a later cut adds w, since the pair was a minimal set when it was added
                    more = min(more, sums[k] - sums[joined[w]])
            linked[u, v] += more
            linked[v, u] += more
    return together, linked


@kernel
def lower(families, over, where, amounts, chains):
    """Lowers λ of the cuts that families (v,{a,b}) enter, in place, until none exceeds the maximum of v.

    Args:
        families: shape (count, 3): v, a, b; no cut adds their set.
        over: shape (count,), int64: the excess of each over the maximum without any cuts.
        where: for each vertex, the start of the cuts that add it, shape (n + 1,); the numbers of these cuts;
            and the same for each pair u < v, at u n + v.
        amounts: see `sums_of`.
        chains: see `sums_of`.

    Returns:
        The excess of each family with the multipliers on entry, shape (count,); and the largest excess of a
        family of each vertex with those on return, shape (n,), at least 0; both int64.
    """
    of_vertex, vertex_cuts, of_pair, pair_cuts = where
    n = of_vertex.size - 1
    sums, ends = sums_of(amounts, chains)
    given, excess, left = sums.copy(), over.copy(), zeros(n, np.int64)
    # For each chain, the first cut that contains {a,b}, and the first that contains {v,a,b}; and the last
    # family for which these were set.
    out, enters = empty(ends.size, np.int64), empty(ends.size, np.int64)
    last_out, last_enters = filled(ends.size, np.int64, -1), filled(ends.size, np.int64, -1)
    found = empty(ends.size, np.int64)
    for at in range(len(families)):
        v, a, b = families[at]
        lists = (
            (vertex_cuts, of_vertex[a], of_vertex[a + 1]),
            (vertex_cuts, of_vertex[b], of_vertex[b + 1]),
            (pair_cuts, of_pair[min(a, b) * n + max(a, b)], of_pair[min(a, b) * n + max(a, b) + 1]),
            (vertex_cuts, of_vertex[v], of_vertex[v + 1]),
            (pair_cuts, of_pair[min(a, v) * n + max(a, v)], of_pair[min(a, v) * n + max(a, v) + 1]),
            (pair_cuts, of_pair[min(b, v) * n + max(b, v)], of_pair[min(b, v) * n + max(b, v) + 1]),
        )
        count = 0
        for part in range(6):
            cuts, begin, end = lists[part]
            for i in range(begin, end):
                k = cuts[i]
                c = chains[k]
                if part < 3:  # the subsets of {a,b}
                    out[c] = min(out[c], k) if last_out[c] == at else k
                    last_out[c] = at
                elif last_out[c] < at or k < out[c]:
                    if last_enters[c] < at:
                        found[count] = c
                        count += 1
                    enters[c] = min(enters[c], k) if last_enters[c] == at else k
                    last_enters[c] = at
        rest = over[at]
        for c in found[:count]:
            if last_out[c] < at:
                out[c] = ends[c]
            beyond = out[c] < ends[c]
            excess[at] += given[enters[c]] - (given[out[c]] if beyond else 0)
            rest += sums[enters[c]] - (sums[out[c]] if beyond else 0)
        if rest > 0:
            # The latest chains first: earlier searches have already lowered the others.
            for c in np.sort(found[:count])[::-1]:
                fallen = 0
                k = out[c] - 1
                while k >= 0 and chains[k] == c:
                    if k >= enters[c]:
                        less = min(amounts[k], rest)
                        amounts[k] -= less
                        rest -= less
                        fallen += less
                    sums[k] -= fallen
                    k -= 1
                if rest == 0:
                    break
        left[v] = max(left[v], rest)
    return excess, left
