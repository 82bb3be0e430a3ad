"""Minimum cuts in a lattice of sets, for clutter inequalities: maximum flows by Dinic's algorithm.

Nodes are the sets of a collection closed downwards, by size, ∅ first. A family (v,P) is an arc from P to P∪v
with a capacity, and arcs of infinite capacity lead from every set down to each facet. So the sets on the
sink's side of a minimum cut are an up-set, and the families across the cut are those that enter it.

P and P∪v are joined by one arc each way. The residual capacity upwards, `residual`, grows by the flow sent
down; downwards it is always infinite.

Reference: Dinic, Algorithm for solution of a problem of maximum flow in networks with power estimation,
Soviet Math. Doklady 1970.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, zeros

_EPSILON = 1e-9
"""Residual capacities up to this count as 0."""


@kernel
def arcs_up(facets, sizes):
    """Returns the arcs up: the start of those from each set, shape (m + 1,), and the arcs, both int32.

    The arc to the set A from its facet without the j-th member has the number A·width + j.

    Args:
        facets: shape (m, width), int32: the position of each set without its j-th member.
        sizes: shape (m,), int32.
    """
    m, width = facets.shape
    # Counting sort of the arcs by the set at which they begin.
    starts = zeros(m + 1, np.int32)
    for a in range(1, m):
        for j in range(sizes[a]):
            starts[facets[a, j] + 1] += 1
    for a in range(m):
        starts[a + 1] += starts[a]
    arcs = empty(starts[m], np.int32)
    free = starts[:-1].copy()
    for a in range(1, m):
        for j in range(sizes[a]):
            p = facets[a, j]
            arcs[free[p]] = a * width + j
            free[p] += 1
    return starts, arcs


@kernel
def _find_levels(sink, lattice, residual, level, queue):
    """Writes the distance of each set from ∅ in arcs, or -1; returns whether the sink is reachable.

    If it is, sets that are not closer than the sink may keep -1.
    """
    facets, sizes, starts, arcs = lattice
    width = facets.shape[1]
    # Breadth-first search in the residual network; arcs down have infinite capacity.
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
            if level[above] < 0 and residual[arcs[k]] > _EPSILON:
                level[above] = level[a] + 1
                queue[tail] = above
                tail += 1
    return level[sink] >= 0


@kernel
def _send(sink, lattice, residual, level, current, path, most):
    """Sends a blocking flow of at most `most` along shortest paths to the sink; returns its value.

    A path is a list of arcs: the number of an arc up, or -1 - number of an arc down.
    """
    facets, sizes, starts, arcs = lattice
    width = facets.shape[1]
    # Dinic's blocking flow, depth first without recursion: `path` leads to a, and a dead arc is never tried
    # again, so that a phase takes O(sets · arcs).
    current[:] = 0  # the current arc of each set, first those down; all before it are dead
    sent = 0.0
    length = 0
    a = np.int32(0)
    while True:
        if a == sink:
            # Augment: arcs down are never the bottleneck, and flow on them restores capacity upwards.
            amount = most - sent
            for k in range(length):
                if path[k] >= 0:
                    amount = min(amount, residual[path[k]])
            full = -1
            for k in range(length):
                if path[k] < 0:
                    residual[-1 - path[k]] += amount
                else:
                    residual[path[k]] -= amount
                    if full < 0 and residual[path[k]] <= _EPSILON:
                        full = k
            sent += amount
            if sent >= most - _EPSILON or full < 0:
                return sent
            # Continue from the tail of the first saturated arc.
            length = full
            a = facets[path[full] // width, path[full] % width]
            continue
        ahead = False
        while current[a] < sizes[a] + starts[a + 1] - starts[a]:
            if current[a] < sizes[a]:
                arc = -1 - (a * width + current[a])
                goal = facets[a, current[a]]
            else:
                arc = arcs[starts[a] + current[a] - sizes[a]]
                goal = np.int32(arc // width)
            if level[goal] == level[a] + 1 and (arc < 0 or residual[arc] > _EPSILON):
                ahead = True
                path[length] = arc
                length += 1
                a = goal
                break
            current[a] += 1
        if not ahead:
            if length == 0:
                return sent
            # A dead end: step back to the next arc of the set before.
            length -= 1
            arc = path[length]
            a = facets[arc // width, arc % width] if arc >= 0 else np.int32((-1 - arc) // width)
            current[a] += 1


@kernel
def _mark_sink_side(sink, lattice, residual, inside, queue):
    """Marks the sets from which the sink is reachable in the residual network."""
    facets, sizes, starts, arcs = lattice
    width = facets.shape[1]
    # Backwards from the sink: along arcs down, to supersets, and along arcs up with residual capacity.
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
            if not inside[p] and residual[a * width + j] > _EPSILON:
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
    """Finds up-sets that contain a sink and are entered by families of total capacity below 1 − tolerance.

    For each sink, a maximum flow from ∅ gives the minimum cuts nearest to ∅ and nearest to the sink. Then the
    capacities across the former are raised by 1 and the flow is continued, up to `depth` times: the cuts
    nearest to ∅ have no family with a capacity in common.

    Args:
        lattice: (facets, sizes, starts, arcs), see `arcs_up`.
        capacity: shape (m · width,), float64, of the families by the numbers of their arcs.
        sinks: shape (t,), positions.
        depth: maximum number of cuts nearest to ∅ for each sink, at least 1.
        tolerance: of the violation.

    Returns:
        The minimal sets of the up-sets, int32, concatenated, and the end of each up-set, int64.
    """
    facets, sizes, _, _ = lattice
    m, width = facets.shape
    level = empty(m, np.int32)
    queue = empty(m, np.int32)
    current = empty(m, np.int32)
    path = empty(m, np.int32)
    outer = empty(m, np.bool_)
    inner = empty(m, np.bool_)
    generators = [np.int32(0) for _ in range(0)]
    ends = [0 for _ in range(0)]
    for sink in sinks:
        residual = capacity.copy()
        total = 0.0
        for _ in range(depth):
            # Phases of Dinic's algorithm until the flow is 1 − tolerance, and no cut is violated, or the sink
            # is unreachable.
            reached = True
            while reached and total < 1.0 - tolerance:
                reached = _find_levels(sink, lattice, residual, level, queue)
                if reached:
                    total += _send(sink, lattice, residual, level, current, path, 1.0 - total)
            if reached:
                break
            for a in range(m):
                # The minimum cut nearest to ∅, with the largest up-set: all sets not reachable from ∅.
                outer[a] = level[a] < 0
            _add_minimal(outer, lattice, generators)
            ends.append(len(generators))
            # The minimum cut nearest to the sink, with the smallest up-set: all sets that still reach it.
            _mark_sink_side(sink, lattice, residual, inner, queue)
            if (inner != outer).any():
                _add_minimal(inner, lattice, generators)
                ends.append(len(generators))
            # Nested cuts (Koch and Martin): families across this cut get capacity, so that the next cut has
            # none of them.
            for a in range(1, m):
                if outer[a]:
                    for j in range(sizes[a]):
                        if not outer[facets[a, j]] and capacity[a * width + j] > 0:
                            residual[a * width + j] += 1.0
    return np.array(generators, dtype=np.int32), np.array(ends, dtype=np.int64)
