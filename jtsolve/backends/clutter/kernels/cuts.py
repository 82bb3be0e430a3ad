"""Minimum cuts in a lattice of sets, for clutter inequalities: maximum flows by Dinic's algorithm.

Nodes are the sets of a collection closed downwards, by size, ∅ first. A family (v,P) is an arc from P to P∪v
with a capacity, and an arc of infinite capacity leads from every set down to each facet. So the sets on the
sink's side of a minimum cut are an up-set, and the families across the cut are those that enter it.

P and P∪v are joined by one arc each way. The residual capacity upwards, `room`, grows by the flow sent down;
downwards it is always infinite.

Reference: Dinic, Algorithm for solution of a problem of maximum flow in networks with power estimation,
Soviet Math. Doklady 1970.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel

_EPSILON = 1e-9
"""Residual capacities below it count as 0."""


@kernel
def arcs_up(facets, sizes):
    """Returns the arcs up from each set P to the sets P∪v: starts (m+1,), arcs, both int32.

    The arc to the set A from its facet without the j-th member has the number A·width + j.

    Args:
        facets: shape (m, width), int32: the position of each set without its j-th member.
        sizes: shape (m,), int32.
    """
    m, width = facets.shape
    # Counting sort of the arcs by the set at which they begin.
    starts = np.zeros(m + 1, np.int32)
    for a in range(1, m):
        for j in range(sizes[a]):
            starts[facets[a, j] + 1] += 1
    for a in range(m):
        starts[a + 1] += starts[a]
    arcs = np.empty(starts[m], np.int32)
    free = starts[:-1].copy()
    for a in range(1, m):
        for j in range(sizes[a]):
            p = facets[a, j]
            arcs[free[p]] = a * width + j
            free[p] += 1
    return starts, arcs


@kernel
def _find_levels(sink, lattice, room, level, queue):
    """Writes the distance of each set from ∅ in arcs, -1 if unreached; returns whether the sink is reached.

    If it is, sets at its distance or farther may be left out.
    """
    facets, sizes, starts, arcs = lattice
    width = facets.shape[1]
    # Breadth-first search in the residual network; arcs down have infinite capacity, and need no test.
    level[:] = -1
    level[0] = 0
    queue[0] = 0
    head, tail = 0, 1
    while head < tail:
        a = queue[head]
        head += 1
        # Sets as far as the sink are on no shortest path to it.
        if level[sink] >= 0 and level[a] >= level[sink]:
            break
        for j in range(sizes[a]):
            p = facets[a, j]
            if level[p] < 0:
                level[p] = level[a] + 1
                queue[tail] = p
                tail += 1
        for k in range(starts[a], starts[a + 1]):
            above = arcs[k] // width
            if level[above] < 0 and room[arcs[k]] > _EPSILON:
                level[above] = level[a] + 1
                queue[tail] = above
                tail += 1
    return level[sink] >= 0


@kernel
def _send(sink, lattice, room, level, turn, path, most):
    """Sends a blocking flow of at most `most` along shortest paths to the sink; returns its value.

    A path is a list of arcs: the number for one up, -1 - number for one down.
    """
    facets, sizes, starts, arcs = lattice
    width = facets.shape[1]
    # Dinic's blocking flow, depth first without recursion: `path` is the way to a, and an arc that leads
    # nowhere is never tried again in this phase, so a phase takes O(sets · arcs).
    turn[:] = 0  # how many arcs of each set lead nowhere, counted from those down
    sent = 0.0
    length = 0
    a = np.int32(0)
    while True:
        if a == sink:
            # Augment: arcs down are never the bottleneck, and their flow becomes capacity of the arc up.
            amount = most - sent
            for k in range(length):
                if path[k] >= 0:
                    amount = min(amount, room[path[k]])
            full = -1
            for k in range(length):
                if path[k] < 0:
                    room[-1 - path[k]] += amount
                else:
                    room[path[k]] -= amount
                    if full < 0 and room[path[k]] <= _EPSILON:
                        full = k
            sent += amount
            if sent >= most - _EPSILON or full < 0:
                return sent
            # Go on from the tail of the first saturated arc: the path before it is still good.
            length = full
            a = facets[path[full] // width, path[full] % width]
            continue
        ahead = False
        while turn[a] < sizes[a] + starts[a + 1] - starts[a]:
            if turn[a] < sizes[a]:
                arc = -1 - (a * width + turn[a])
                goal = facets[a, turn[a]]
            else:
                arc = arcs[starts[a] + turn[a] - sizes[a]]
                goal = np.int32(arc // width)
            if level[goal] == level[a] + 1 and (arc < 0 or room[arc] > _EPSILON):
                ahead = True
                path[length] = arc
                length += 1
                a = goal
                break
            turn[a] += 1
        if not ahead:
            if length == 0:
                return sent
            # A dead end: step back, and have the set before try its next arc.
            length -= 1
            arc = path[length]
            a = facets[arc // width, arc % width] if arc >= 0 else np.int32((-1 - arc) // width)
            turn[a] += 1


@kernel
def _mark_sink_side(sink, lattice, room, inside, queue):
    """Marks the sets from which the sink can be reached."""
    facets, sizes, starts, arcs = lattice
    width = facets.shape[1]
    # Backwards from the sink: a set joins if it can still send flow to one that is inside, through an arc
    # down of infinite capacity (a superset of one inside) or an arc up with capacity left.
    inside[:] = False
    inside[sink] = True
    queue[0] = sink
    head, tail = 0, 1
    while head < tail:
        a = queue[head]
        head += 1
        for k in range(starts[a], starts[a + 1]):
            above = arcs[k] // width
            if not inside[above]:
                inside[above] = True
                queue[tail] = above
                tail += 1
        for j in range(sizes[a]):
            p = facets[a, j]
            if not inside[p] and room[a * width + j] > _EPSILON:
                inside[p] = True
                queue[tail] = p
                tail += 1


@kernel
def _add_minimal(inside, lattice, generators):
    """Appends the minimal sets of an up-set."""
    facets, sizes, _, _ = lattice
    for a in range(1, sizes.size):
        if inside[a]:
            minimal = True
            for j in range(sizes[a]):
                if inside[facets[a, j]]:
                    minimal = False
                    break
            if minimal:
                generators.append(np.int32(a))


@kernel
def minimum_cuts(lattice, capacity, sinks, depth, tolerance):
    """Finds up-sets that contain a sink and are entered by families of total capacity below 1 - tolerance.

    For each sink, a maximum flow from ∅ of at most 1 is found. If it is less, the minimum cuts nearest to ∅
    and nearest to the sink are taken. Then the capacities across the former are raised by 1 and the flow is
    continued, up to `depth` times: the cuts nearest to ∅ have no family with a capacity in common.

    Args:
        lattice: (facets, sizes, starts, arcs), see `arcs_up`.
        capacity: shape (m · width,), float64, of the families by the numbers of their arcs.
        sinks: shape (t,), positions.
        depth: at least 1.
        tolerance: how far below 1 cuts have to be.

    Returns:
        The minimal sets of the up-sets, int32, concatenated, and where each up-set ends, int64.
    """
    facets, sizes, _, _ = lattice
    m, width = facets.shape
    level = np.empty(m, np.int32)
    queue = np.empty(m, np.int32)
    turn = np.empty(m, np.int32)
    path = np.empty(m, np.int32)
    outer = np.empty(m, np.bool_)
    inner = np.empty(m, np.bool_)
    generators = [np.int32(0) for _ in range(0)]
    ends = [0 for _ in range(0)]
    for sink in sinks:
        room = capacity.copy()
        total = 0.0
        for _ in range(depth):
            # Phases of Dinic's algorithm until the flow is 1 − tolerance, where no cut is violated enough, or
            # the sink is cut off.
            reached = True
            while reached and total < 1.0 - tolerance:
                reached = _find_levels(sink, lattice, room, level, queue)
                if reached:
                    total += _send(sink, lattice, room, level, turn, path, 1.0 - total)
            if reached:
                break
            for a in range(m):
                # The sets not reached from ∅: the minimum cut nearest to ∅, whose up-set is the largest.
                outer[a] = level[a] < 0
            _add_minimal(outer, lattice, generators)
            ends.append(len(generators))
            # The sets that still reach the sink: the minimum cut nearest to it, whose up-set is the smallest.
            _mark_sink_side(sink, lattice, room, inner, queue)
            if (inner != outer).any():
                _add_minimal(inner, lattice, generators)
                ends.append(len(generators))
            # Nested cuts (Koch and Martin): families across the cut found become free, so that the next one
            # has none of them in common with it.
            for a in range(1, m):
                if outer[a]:
                    for j in range(sizes[a]):
                        if not outer[facets[a, j]] and capacity[a * width + j] > 0:
                            room[a * width + j] += 1.0
    return np.array(generators, dtype=np.int32), np.array(ends, dtype=np.int64)
