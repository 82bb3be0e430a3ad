"""Least cuts of small sets, and the tests of LTCI that rest on them.

For a separator S and a set A of the other variables, the strength of A is

    strength_S(A) = min over ∅ ⊊ X ⊊ A of I(X; A∖X | S),
    I(X; Y | S) = s(S∪X∪Y) + s(S) − s(S∪X) − s(S∪Y).

Sets of local elements {0..u-1} are in colex order: the rank of {a < b < c} is C(a,1) + C(b,2) + C(c,3).

References:
    Queyranne, Minimizing symmetric submodular functions, Mathematical Programming 82, 1998.
    Chechetka and Guestrin, Efficient principled learning of thin junction trees, NIPS 2007 (Algorithm 2).
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel


@kernel
def least_cut_by_enumeration(gain, size, threshold):
    """Returns min over ∅ ⊊ X ⊊ A of cut(X) = gain(A) + gain(∅) − gain(X) − gain(A∖X), for any gain.

    Args:
        gain: shape (2^size,), a value for each subset of A, as a bit mask.
        size: |A|, at least 2.
        threshold: the search may end with any cut that is not above it.
    """
    full = (1 << size) - 1
    whole = gain[full] + gain[0]
    best = np.inf
    for x in range(1, 1 << (size - 1)):  # the sides without the last element: each cut once
        cut = whole - gain[x] - gain[full ^ x]
        if cut < best:
            best = cut
            if best <= threshold:
                break
    return best


@kernel
def least_cut_by_queyranne(gain, size, threshold):
    """As `least_cut_by_enumeration`, in O(size³) looks at the gain, if the cut is submodular.

    Orders the elements so that the last two, t and u, are a pendent pair: {u} is a least cut that separates
    them. Then t and u are one element, and so on. Where the cut is not submodular, the value is that of some
    cut, so it is no less than the least.
    """
    full = (1 << size) - 1
    whole = gain[full] + gain[0]
    blocks = np.empty(size, np.int64)  # merged elements, as bit masks
    for i in range(size):
        blocks[i] = 1 << i
    best = np.inf
    for count in range(size, 1, -1):
        inside = blocks[0]  # W, the beginning of the order
        for place in range(1, count):
            chosen, key = place, np.inf
            for i in range(place, count):
                joint, block = inside | blocks[i], blocks[i]
                # cut(W∪u) − cut(u); the constant `whole` cancels
                value = gain[block] + gain[full ^ block] - gain[joint] - gain[full ^ joint]
                if value < key:
                    chosen, key = i, value
            blocks[place], blocks[chosen] = blocks[chosen], blocks[place]
            inside |= blocks[place]
        last = blocks[count - 1]
        cut = whole - gain[last] - gain[full ^ last]
        if cut < best:
            best = cut
            if best <= threshold:
                break
        blocks[count - 2] |= last
    return best


@kernel
def next_set(chosen, size, count):
    """Steps a set of `size` of {0..count-1}, members increasing, in colex order; False after the last."""
    for i in range(size):
        above = chosen[i + 1] if i + 1 < size else count
        if chosen[i] + 1 < above:
            chosen[i] += 1
            for j in range(i):
                chosen[j] = j
            return True
    return False


@kernel
def rows_with(separator, others, chosen, size, rows):
    """Writes S∪B as increasing rows for the sets B of `size` of the others, from `chosen` on in colex order.

    Args:
        separator: shape (k,), the members of S, increasing.
        others: shape (u,), increasing, none of them in S.
        chosen: shape (size,), where to begin, as positions in `others`; stepped to where it ended.
        size: |B|.
        rows: shape (most, k + size).

    Returns:
        How many rows were written.
    """
    k = separator.size
    for row in range(rows.shape[0]):
        i, j = 0, 0
        while i < k or j < size:
            if j == size or (i < k and separator[i] < others[chosen[j]]):
                rows[row, i + j] = separator[i]
                i += 1
            else:
                rows[row, i + j] = others[chosen[j]]
                j += 1
        if not next_set(chosen, size, others.size):
            return row + 1
    return rows.shape[0]


@kernel
def find_hyperedges(
    chosen, size, count, values, offsets, binomial, labels, threshold, enumerate_cuts, most, edges, strengths
):
    """Tests sets A of `size` elements, from `chosen` on, and joins the components that strong ones cross.

    A set within one component is not tested: it could join nothing.

    Args:
        chosen: shape (size,), where to begin; stepped to where it ended.
        size: |A|.
        count: u, the number of elements.
        values: for every set B of at most `size` elements, s(S∪B), at offsets[|B|] + the rank of B.
        offsets: see there.
        binomial: C(v, j) at [v, j].
        labels: shape (u,), the component of each element; changed.
        threshold: δ times the number of rows; only sets that are stronger join.
        enumerate_cuts: True for enumeration, False for Queyranne's algorithm.
        most: how many sets to look at.
        edges: shape (u, size), takes the sets that joined something.
        strengths: shape (u,), takes their strengths.

    Returns:
        (how many joined, how many were tested, whether sets are left).
    """
    gain = np.empty(1 << size)
    rank = np.zeros(1 << size, np.int64)
    found, tested = 0, 0
    for _ in range(most):
        crosses = False
        for i in range(1, size):
            if labels[chosen[i]] != labels[chosen[0]]:
                crosses = True
        if crosses:
            tested += 1
            gain[0] = values[0]
            for subset in range(1, 1 << size):
                # Without its highest member, the set has the rank less one binomial coefficient.
                top = 0
                while subset >> (top + 1):
                    top += 1
                members = 0
                rest = subset
                while rest:
                    rest &= rest - 1
                    members += 1
                rank[subset] = rank[subset ^ (1 << top)] + binomial[chosen[top], members]
                gain[subset] = values[offsets[members] + rank[subset]]
            if enumerate_cuts:
                strength = least_cut_by_enumeration(gain, size, threshold)
            else:
                strength = least_cut_by_queyranne(gain, size, threshold)
            if strength > threshold:
                for i in range(size):
                    edges[found, i] = chosen[i]
                strengths[found] = strength
                found += 1
                for i in range(1, size):
                    old, new = labels[chosen[i]], labels[chosen[0]]
                    for v in range(count):
                        if labels[v] == old:
                            labels[v] = new
        if not next_set(chosen, size, count):
            return found, tested, False
    return found, tested, True


@kernel
def strongest_forests(first, last, separators, levels, starts, binomial, required, forest, weights):
    """Writes, for each separator, a maximum spanning tree of the others under the strengths of pairs.

    The components at a threshold δ are those of the tree's edges above δ: all that pairs say, in m − 1 edges.
    By Prim's algorithm.

    Args:
        first: separators first to last - 1 are done.
        last: see there.
        separators: shape (count, k), increasing rows in colex order.
        levels: scores of all sets of k, k + 1 and k + 2 variables, each in colex order.
        starts: where each of the three begins.
        binomial: C(v, j) at [v, j].
        required: shape (n, n), True where a required edge joins two variables: a pair of infinite strength.
        forest: shape (count, m - 1, 2), takes the edges, in no order.
        weights: shape (count, m - 1), takes their strengths in nats.
    """
    n, k = required.shape[0], separators.shape[1]
    m = n - k
    others = np.empty(m, np.int64)
    single = np.empty(m)
    best = np.empty(m)
    parent = np.empty(m, np.int64)
    for index in range(first, last):
        separator = separators[index]
        place, at = 0, 0
        for v in range(n):
            if place < k and separator[place] == v:
                place += 1
            else:
                others[at] = v
                at += 1
        for i in range(m):
            single[i] = levels[starts[1] + rank_with(separator, others[i], n, binomial)]
            best[i] = -np.inf
            parent[i] = -1
        left = m
        current = 0
        while left > 1:
            # The current element leaves: it changes places with the last of those that are left.
            left -= 1
            others[current], others[left] = others[left], others[current]
            single[current], single[left] = single[left], single[current]
            best[current], parent[current] = best[left], parent[left]
            v, chosen = others[left], 0
            for i in range(left):
                u = others[i]
                low, high = (u, v) if u < v else (v, u)
                if required[u, v]:
                    strength = np.inf
                else:
                    joint = levels[starts[2] + rank_with(separator, low, high, binomial)]
                    strength = joint + levels[starts[0] + index] - single[left] - single[i]
                if parent[i] < 0 or strength > best[i]:
                    best[i], parent[i] = strength, v
                if best[i] > best[chosen]:
                    chosen = i
            forest[index, left - 1, 0], forest[index, left - 1, 1] = others[chosen], parent[chosen]
            weights[index, left - 1] = best[chosen]
            current = chosen


@kernel
def rank_with(separator, low, high, binomial):
    """Returns the colex rank of S ∪ {low, high}, low < high, neither in S; high = n for S ∪ {low}."""
    rank, size, n = 0, 0, binomial.shape[0] - 1
    for v in separator:
        while low < v:
            size += 1
            rank += binomial[low, size]
            low, high = high, n
        size += 1
        rank += binomial[v, size]
    while low < n:
        size += 1
        rank += binomial[low, size]
        low, high = high, n
    return rank


@kernel
def strongest_tree(ends, order, n):
    """Returns the positions of a maximum spanning forest of weighted edges, the weakest first (Kruskal).

    Args:
        ends: shape (count, 2).
        order: shape (count,), the positions of the edges, the strongest first.
        n: the number of variables.
    """
    leader = np.arange(n)
    kept = np.empty(order.size, np.int64)
    count = 0
    for edge in order:
        u, v = ends[edge, 0], ends[edge, 1]
        while leader[u] != u:
            u = leader[u]
        while leader[v] != v:
            v = leader[v]
        if u != v:
            leader[u] = v
            kept[count] = edge
            count += 1
    return kept[:count][::-1].copy()
