"""Minimum cuts in networks of families, for clutter cuts: maximum flows by shortest augmenting paths.

Nodes are the families of the support, with capacities, and the distinct parent sets. A family feeds the
parent sets that it holds, a parent set feeds its families, and ∅ is the source.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_EPSILON = 1e-9
"""Capacity and flow below it count as none."""


@njit(nogil=True, cache=True)
def _subset(inner, outer):
    for k in range(inner.size):  # noqa: SIM110 - the compiler knows no generators
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

    For each sink: a maximum flow from ∅ through families to those that hold the sink, at most 1. If it is
    less, the cut nearest to the source and the one nearest to the sink; the capacities of the families
    across the former are raised to 1, and the flow goes on: up to `depth` times, so that cuts are disjoint.

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
    targets = graph[1]
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
    whose: list[int] = []
    finish: list[int] = []
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
