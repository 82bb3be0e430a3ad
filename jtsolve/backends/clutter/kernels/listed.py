"""What the cuts of dual ascents add to families that these have not listed.

Cuts are numbered chain by chain: each of a chain includes the last, and is given by the sets that join it. So
Σ λ of the cuts of a chain with a set is that of the first and all later ones.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel


@kernel
def sums_of(amounts, chains):
    """Returns for each cut Σ λ of it and the later ones of its chain, and for the chains where each ends.

    Args:
        amounts: shape (cuts,), int64: λ.
        chains: shape (cuts,), int64: the number of the chain, never less than that of the last cut.
    """
    sums, ends = amounts.copy(), np.zeros(1 if chains.size == 0 else chains[-1] + 1, np.int64)
    for k in range(amounts.size - 1, -1, -1):
        if k + 1 < amounts.size and chains[k] == chains[k + 1]:
            sums[k] += sums[k + 1]
        else:
            ends[chains[k]] = k + 1
    return sums, ends


@kernel
def grouped(keys, items, count):
    """Returns where the items of each key below `count` begin, and the items ordered by key."""
    starts, ordered = np.zeros(count + 1, np.int64), np.empty(items.size, np.int64)
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
        arcs: where the sets above each begin, and the sets with one more member.
        sets: those that join the cuts.
        starts: shape (cuts + 1,): where those of each cut begin.
        amounts: see `sums_of`.
        chains: see `sums_of`.
    """
    up, above = arcs
    last, queue = np.full(values.size, -1, np.int64), np.empty(values.size, np.int32)
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
    """Returns Σ λ of the cuts with both of two vertices, and of those with their pair, but neither of them.

    Both have shape (n, n), int64.

    Args:
        vertices: the single vertices that join the cuts.
        vertex_cuts: the numbers of these cuts, increasing.
        pairs: the pairs u < v that join the cuts, as u n + v.
        pair_cuts: the numbers of these cuts, increasing.
        amounts: see `sums_of`.
        chains: see `sums_of`.
        n: the number of vertices.
    """
    together, linked = np.zeros((n, n), np.int64), np.zeros((n, n), np.int64)
    sums, ends = sums_of(amounts, chains)
    chain, joined, members = np.full(n, -1, np.int64), np.zeros(n, np.int64), np.empty(n, np.int64)
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
                if chain[w] == c:  # it joins later, since the pair is a minimal set when it does
                    more = min(more, sums[k] - sums[joined[w]])
            linked[u, v] += more
            linked[v, u] += more
    return together, linked


@kernel
def lower(families, over, where, amounts, chains):
    """Lowers λ of the cuts that families (v,{a,b}) enter, in place, until none exceeds the maximum of v.

    Args:
        families: shape (count, 3): v, a, b, whose set joins no cut.
        over: shape (count,), int64: by how much each exceeds the maximum if it enters no cut.
        where: shape (n + 1,): where the cuts that each vertex joins begin; the numbers of these cuts; and the
            same of the pair u < v, at u n + v.
        amounts: see `sums_of`.
        chains: see `sums_of`.

    Returns:
        By how much each exceeds it with the multipliers on entry, shape (count,); and by how much a family of
        each vertex does with those on return, shape (n,), at least 0; both int64.
    """
    of_vertex, vertex_cuts, of_pair, pair_cuts = where
    n = of_vertex.size - 1
    sums, ends = sums_of(amounts, chains)
    given, excess, left = sums.copy(), over.copy(), np.zeros(n, np.int64)
    # The cut of each chain from which on {a,b} is in them, and that from which on {v,a,b} is; and the last
    # family for which this is so.
    out, enters = np.empty(ends.size, np.int64), np.empty(ends.size, np.int64)
    last_out, last_enters = np.full(ends.size, -1, np.int64), np.full(ends.size, -1, np.int64)
    found = np.empty(ends.size, np.int64)
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
                if part < 3:  # those of {a,b}
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
            # The last chains first: families of earlier searches exceed nothing by the others.
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
