"""Clutter cuts: up-sets over a collection of sets, set functions with multipliers, and minimum cuts.

Sets are positions; `facets[A, j]` is the position of A without its j-th member, and comes before A.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_EPSILON = 1e-9
"""Capacity and flow below it count as none."""


@njit(nogil=True, cache=True)
def spread_up(words, facets, sizes):
    """words(A) |= words(A∖v) for all v ∈ A, in place: 64 up-sets at once, one a bit.

    Args:
        words: shape (count,), uint64; on entry the bit of an up-set is set at its generators.
        facets: shape (count, width), int32.
        sizes: shape (count,), int32.
    """
    for at in range(words.size):
        word = words[at]
        for j in range(sizes[at]):
            word |= words[facets[at, j]]
        words[at] = word


@njit(nogil=True, cache=True)
def add_weights(total, words, table):
    """total(A) += Σ over the bits of words(A) of their weights.

    Args:
        total: shape (count,), int64.
        words: shape (count,), uint64.
        table: shape (8, 256), int64: for each byte of a word, the sum of the weights of its bits.
    """
    for at in range(words.size):
        word = words[at]
        gain = np.int64(0)
        for byte in range(8):
            gain += table[byte, word & np.uint64(255)]
            word >>= np.uint64(8)
        total[at] += gain


@njit(nogil=True, cache=True)
def add_pairs(total, members, sizes, weights):
    """total(A) += Σ over the pairs u < v of A of weights(u,v).

    Args:
        total: shape (count,), int64.
        members: shape (count, width), int32.
        sizes: shape (count,), int32.
        weights: shape (n, n), int64.
    """
    for at in range(total.size):
        for i in range(sizes[at]):
            for j in range(i + 1, sizes[at]):
                total[at] += weights[members[at, i], members[at, j]]


@njit(nogil=True, cache=True)
def best_values(values, members, facets, sizes, allowed, n, least):
    """Returns of each vertex v the best values(P∪v) − values(P) over its allowed families; shape (n,), int64.

    `least` stands for "no family".
    """
    best = np.full(n, least, np.int64)
    for at in range(values.size):
        for j in range(sizes[at]):
            if allowed[at, j]:
                value = values[at] - values[facets[at, j]]
                v = members[at, j]
                if value > best[v]:
                    best[v] = value
    return best


@njit(nogil=True, cache=True)
def keep_within(allowed, values, members, facets, sizes, best, slack):
    """Returns which allowed families (v,P) have values(P∪v) − values(P) ≥ best(v) − slack."""
    kept = np.zeros_like(allowed)
    for at in range(values.size):
        for j in range(sizes[at]):
            if allowed[at, j]:
                kept[at, j] = values[at] - values[facets[at, j]] >= best[members[at, j]] - slack
    return kept


@njit(nogil=True, cache=True)
def _subset(inner, outer):
    for k in range(inner.size):
        if inner[k] & ~outer[k]:
            return False
    return True


@njit(nogil=True, cache=True)
def network(unions, sources, parent):
    """Returns which parent sets each family can feed, as lists: starts (s+1,), targets, both int32.

    Its own parent set is left out: what it would feed, its giver feeds.

    Args:
        unions: shape (s, words), uint64: P∪v of the families in the support.
        sources: shape (d, words), uint64: the distinct parent sets, without ∅.
        parent: shape (s,), int32: the number of each family's parent set; -1 for ∅.
    """
    starts = np.zeros(unions.shape[0] + 1, np.int32)
    targets = np.empty(unions.shape[0] * sources.shape[0], np.int32)
    filled = 0
    for i in range(unions.shape[0]):
        for q in range(sources.shape[0]):
            if q != parent[i] and _subset(sources[q], unions[i]):
                targets[filled] = q
                filled += 1
        starts[i + 1] = filled
    return starts, targets[:filled].copy()


@njit(nogil=True, cache=True)
def reverse(starts, targets, count):
    """Returns the lists turned around: of each target its origins, and the places of these arcs."""
    begins = np.zeros(count + 1, np.int32)
    for q in targets:
        begins[q + 1] += 1
    for q in range(count):
        begins[q + 1] += begins[q]
    origins = np.empty(targets.size, np.int32)
    places = np.empty(targets.size, np.int32)
    free = begins[:-1].copy()
    for i in range(starts.size - 1):
        for place in range(starts[i], starts[i + 1]):
            q = targets[place]
            origins[free[q]] = i
            places[free[q]] = place
            free[q] += 1
    return begins, origins, places


@njit(nogil=True, cache=True)
def _search(ends, capacity, flow, feed, parent, graph, seen_family, seen_set, came_family, came_set, queue):
    """Breadth-first search for an augmenting path; returns the family that meets the sink, or -1.

    Nodes are families (0..s-1) and parent sets (s..s+d-1). `came_family` is the set from which a family was
    reached (-1: the source; -2 - q: by taking back flow that it feeds to set q); `came_set` is the family.
    """
    starts, targets, begins, origins, places, member_starts, member_list, firsts = graph
    s = capacity.size
    seen_family[:] = False
    seen_set[:] = False
    head = 0
    tail = 0
    for k in range(firsts.size):
        i = firsts[k]
        if capacity[i] - flow[i] > _EPSILON:
            seen_family[i] = True
            came_family[i] = -1
            if ends[i]:
                return i
            queue[tail] = i
            tail += 1
    while head < tail:
        node = queue[head]
        head += 1
        if node < s:
            i = node
            for place in range(starts[i], starts[i + 1]):
                q = targets[place]
                if not seen_set[q]:
                    seen_set[q] = True
                    came_set[q] = i
                    queue[tail] = s + q
                    tail += 1
            q = parent[i]
            if q >= 0 and flow[i] > _EPSILON and not seen_set[q]:
                seen_set[q] = True
                came_set[q] = i
                queue[tail] = s + q
                tail += 1
        else:
            q = node - s
            for k in range(member_starts[q], member_starts[q + 1]):
                i = member_list[k]
                if not seen_family[i] and capacity[i] - flow[i] > _EPSILON:
                    seen_family[i] = True
                    came_family[i] = q
                    if ends[i]:
                        return i
                    queue[tail] = i
                    tail += 1
            for k in range(begins[q], begins[q + 1]):
                i = origins[k]
                if not seen_family[i] and feed[places[k]] > _EPSILON:
                    seen_family[i] = True
                    came_family[i] = -2 - q
                    if ends[i]:
                        return i
                    queue[tail] = i
                    tail += 1
    return -1


@njit(nogil=True, cache=True)
def _place(i, q, starts, targets):
    for place in range(starts[i], starts[i + 1]):
        if targets[place] == q:
            return place
    return -1


@njit(nogil=True, cache=True)
def _augment(last, capacity, flow, feed, parent, graph, came_family, came_set, limit):
    """Sends flow along the path that ends at the family `last`; returns how much.

    From family i to set q there is an arc that feeds q, and one back along q → i if i's parents are q.
    """
    starts, targets = graph[0], graph[1]
    for turn in range(2):
        i = last
        while True:
            q = came_family[i]
            if q >= -1:  # forward: the source or a set gives to i
                if turn == 0:
                    limit = min(limit, capacity[i] - flow[i])
                else:
                    flow[i] += limit
            else:
                q = -2 - q
                place = _place(i, q, starts, targets)
                if turn == 0:
                    limit = min(limit, feed[place])
                else:
                    feed[place] -= limit
            if q < 0:
                break
            giver = came_set[q]
            if parent[giver] == q:  # by taking back what the giver gets
                if turn == 0:
                    limit = min(limit, flow[giver])
                else:
                    flow[giver] -= limit
            elif turn == 1:
                feed[_place(giver, q, starts, targets)] += limit
            i = giver
    return limit


@njit(nogil=True, cache=True)
def _mark_sink_side(ends, capacity, flow, feed, parent, graph, near_family, near_set, queue):
    """Marks the families and sets from which the sink can be reached in what flow leaves."""
    starts, targets, begins, origins, _places, member_starts, member_list, _firsts = graph
    s = capacity.size
    near_set[:] = False
    tail = 0
    for i in range(s):
        near_family[i] = ends[i]
        if ends[i]:
            queue[tail] = i
            tail += 1
    head = 0
    while head < tail:
        node = queue[head]
        head += 1
        if node < s:
            q = parent[node]
            if q >= 0 and not near_set[q] and capacity[node] - flow[node] > _EPSILON:
                near_set[q] = True
                queue[tail] = s + q
                tail += 1
            for place in range(starts[node], starts[node + 1]):
                q = targets[place]
                if not near_set[q] and feed[place] > _EPSILON:
                    near_set[q] = True
                    queue[tail] = s + q
                    tail += 1
        else:
            q = node - s
            for k in range(begins[q], begins[q + 1]):
                i = origins[k]
                if not near_family[i]:
                    near_family[i] = True
                    queue[tail] = i
                    tail += 1
            for k in range(member_starts[q], member_starts[q + 1]):
                i = member_list[k]
                if not near_family[i] and flow[i] > _EPSILON:
                    near_family[i] = True
                    queue[tail] = i
                    tail += 1


@njit(nogil=True, cache=True)
def _write_clutter(chosen, sink, order, sources, out, filled):
    """Writes the minimal sets among the sink and the chosen parent sets, but for the sink; returns the end.

    `order` lists the parent sets by size. Returns -1 if there is no room.
    """
    begin = filled
    for q in order:
        if not chosen[q] or _subset(sink, sources[q]):
            continue
        minimal = True
        for k in range(begin, filled):
            if _subset(sources[out[k]], sources[q]):
                minimal = False
                break
        if minimal:
            if filled == out.size:
                return -1
            out[filled] = q
            filled += 1
    return filled


@njit(nogil=True, cache=True)
def minimum_cuts(unions, sources, order, parent, capacity, graph, sinks, depth, tolerance, out):
    """Finds clutters {sink} ∪ {parent sets on its side} whose cuts are below 1 - tolerance.

    For each sink: a maximum flow from ∅ through families to those that hold the sink, at most 1. If it is less,
    the cut nearest to the source and the one nearest to the sink; the capacities of the families across the
    former are raised to 1, and the flow goes on: up to `depth` times, so that the cuts found are disjoint.

    Args:
        unions: shape (s, words), uint64: P∪v of the families in the support.
        sources: shape (d, words), uint64: the distinct parent sets, without ∅.
        order: shape (d,): the parent sets by size.
        parent: shape (s,), int32: the number of each family's parent set; -1 for ∅.
        capacity: shape (s,), float64.
        graph: lists of arcs, see `network` and `reverse`; the families of each parent set; those of ∅.
        sinks: shape (t, words), uint64.
        depth: at least 1.
        tolerance: cuts have to be below 1 by it.
        out: shape (room,), int32: takes the numbers of parent sets.

    Returns:
        The number of each cut's sink, and where its parent sets end in `out`.
    """
    starts, targets = graph[0], graph[1]
    s = capacity.size
    d = sources.shape[0]
    seen_family = np.zeros(s, np.bool_)
    seen_set = np.zeros(d, np.bool_)
    near_family = np.zeros(s, np.bool_)
    near_set = np.zeros(d, np.bool_)
    came_family = np.zeros(s, np.int32)
    came_set = np.zeros(d, np.int32)
    queue = np.empty(s + d + 1, np.int32)
    ends = np.zeros(s, np.bool_)
    flow = np.zeros(s)
    feed = np.zeros(targets.size)
    whose = []
    finish = []
    filled = 0
    for t in range(sinks.shape[0]):
        sink = sinks[t]
        for i in range(s):
            ends[i] = _subset(sink, unions[i])
        flow[:] = 0.0
        feed[:] = 0.0
        raised = capacity.copy()
        total = 0.0
        for _ in range(depth):
            while total < 1.0 - tolerance:
                last = _search(
                    ends, raised, flow, feed, parent, graph,
                    seen_family, seen_set, came_family, came_set, queue,
                )  # fmt: skip
                if last < 0:
                    break
                total += _augment(last, raised, flow, feed, parent, graph, came_family, came_set, 1.0)
            if total >= 1.0 - tolerance:
                break
            # The search ended without a way: what it has not seen is on the sink's side.
            end = _write_clutter(~seen_set, sink, order, sources, out, filled)
            if end < 0:
                return np.array(whose, dtype=np.int64), np.array(finish, dtype=np.int64)
            whose.append(t)
            finish.append(end)
            filled = end
            _mark_sink_side(ends, raised, flow, feed, parent, graph, near_family, near_set, queue)
            differs = False
            for q in range(d):
                if near_set[q] == seen_set[q]:
                    differs = True
                    break
            if differs:
                end = _write_clutter(near_set, sink, order, sources, out, filled)
                if end < 0:
                    return np.array(whose, dtype=np.int64), np.array(finish, dtype=np.int64)
                whose.append(t)
                finish.append(end)
                filled = end
            for i in range(s):
                if not seen_family[i] and (parent[i] < 0 or seen_set[parent[i]]):
                    raised[i] = 1.0
    return np.array(whose, dtype=np.int64), np.array(finish, dtype=np.int64)


@njit(nogil=True, cache=True)
def best_families(values, members, facets, sizes, allowed, n, least):
    """Returns of each vertex its best value, see `best_values`, and the family: its union and its slot."""
    best = np.full(n, least, np.int64)
    union = np.zeros(n, np.int64)
    slot = np.zeros(n, np.int64)
    for at in range(values.size):
        for j in range(sizes[at]):
            if allowed[at, j]:
                value = values[at] - values[facets[at, j]]
                v = members[at, j]
                if value > best[v]:
                    best[v] = value
                    union[v] = at
                    slot[v] = j
    return best, union, slot


@njit(nogil=True, cache=True)
def add_multipliers(total, words, weights):
    """total(A) += Σ of the weights of the up-sets that hold A.

    Args:
        total: shape (count,), int64.
        words: shape (at least weights/64, count), uint64: up-set c is bit c % 64 of word c // 64.
        weights: shape (up-sets,), int64.
    """
    table = np.zeros((8, 256), np.int64)
    for word in range((weights.size + 63) // 64):
        some = False
        for byte in range(8):
            for pattern in range(1, 256):
                low = pattern & -pattern
                bit = 0
                while low >> bit != 1:
                    bit += 1
                c = 64 * word + 8 * byte + bit
                gain = weights[c] if c < weights.size else 0
                some = some or gain != 0
                table[byte, pattern] = table[byte, pattern ^ low] + gain
        if some:
            add_weights(total, words[word], table)


@njit(nogil=True, cache=True)
def crossings(words, count, union, parents):
    """Returns of each of the first `count` up-sets how many of the families cross it; shape (count,), int64."""
    found = np.zeros(count, np.int64)
    for word in range((count + 63) // 64):
        row = words[word]
        for k in range(union.size):
            left = row[union[k]] & ~row[parents[k]]
            c = 64 * word
            while left:
                if left & np.uint64(1):
                    found[c] += 1
                left >>= np.uint64(1)
                c += 1
    return found


@njit(nogil=True, cache=True)
def weighted_crossings(words, count, union, parents, x):
    """Returns of each of the first `count` up-sets the total x of the families that cross it."""
    found = np.zeros(count, np.float64)
    for word in range((count + 63) // 64):
        row = words[word]
        for k in range(union.size):
            left = row[union[k]] & ~row[parents[k]]
            c = 64 * word
            while left:
                if left & np.uint64(1):
                    found[c] += x[k]
                left >>= np.uint64(1)
                c += 1
    return found


@njit(nogil=True, cache=True)
def grow(members, facets, sizes, allowed, worth, root, n):
    """Builds a perfect order from the root, each time by the family that is worth most; returns its unions, slots.

    Args:
        members: shape (count, width), int32.
        facets: shape (count, width), int32.
        sizes: shape (count,), int32.
        allowed: shape (count, width), bool.
        worth: shape (count, width), float64.
        root: comes first.
        n: the number of variables.

    Returns:
        The positions of P∪v and the slots of v, in order; fewer than n if no family fits at some point.
    """
    placed = np.zeros(n, np.bool_)
    complete = np.zeros(sizes.size, np.bool_)
    complete[0] = True
    union = np.zeros(n, np.int64)
    slot = np.zeros(n, np.int64)
    stack = np.empty(sizes.size, np.int64)
    for step in range(n):
        best = -np.inf
        for at in range(1, sizes.size):
            for j in range(sizes[at]):
                v = members[at, j]
                if (
                    allowed[at, j]
                    and not placed[v]
                    and complete[facets[at, j]]
                    and worth[at, j] > best
                    and (step > 0 or v == root)
                ):
                    best = worth[at, j]
                    union[step] = at
                    slot[step] = j
        if best == -np.inf:
            return union[:step], slot[:step]
        at = union[step]
        placed[members[at, slot[step]]] = True
        complete[at] = True
        stack[0] = at
        top = 1
        while top > 0:
            top -= 1
            at = stack[top]
            for j in range(sizes[at]):
                facet = facets[at, j]
                if not complete[facet]:
                    complete[facet] = True
                    stack[top] = facet
                    top += 1
    return union, slot
