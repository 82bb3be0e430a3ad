"""Shortest paths in a lattice of sets, from ∅ to the sets that contain a sink; see `potentials`.

Sets are positions, as in `kernels.clutters`; a potential or distance has shape (m,), a cost of families shape
(m, width), all int32. A family (v,P) is an arc from P to P∪v, with a cost, and arcs without cost lead from
every set to its facets. Potentials are less than 2^28.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel

_NEVER = 1 << 30
"""The cost of a family that is not allowed, and the distance of a set that is not reached."""
_MOST = 1 << 29
"""Larger reduced costs count as this: no potential differs by as much."""
_MIX = 14
"""Sixteenths of the new potential in the mean with the old one."""


@kernel
def reduced_costs_in_steps(values, members, facets, sizes, allowed, best, shift):
    """Returns best(v) − (values(P∪v) − values(P)) of families, in steps of 2^shift units, rounded down."""
    found = np.full(allowed.shape, _NEVER, np.int32)
    for a in range(sizes.size):
        for j in range(sizes[a]):
            if allowed[a, j]:
                exact = best[members[a, j]] - (values[a] - values[facets[a, j]])
                found[a, j] = min(exact >> shift, _MOST)
    return found


@kernel
def add_cuts(words, first, amounts, sinks, potentials):
    """Adds cuts to the potentials of their sinks: potentials[sinks[c]] += amounts[c] on the c-th up-set.

    Args:
        words: shape (m,), uint64: the cuts from number `first` on, one in each bit.
        first: see above.
        amounts: shape (cuts,), int64.
        sinks: shape (cuts,), int64: rows of `potentials`; -1 for none.
        potentials: shape (sinks, m), changed in place.
    """
    for c in range(first, min(first + 64, amounts.size)):
        if amounts[c] > 0 and sinks[c] >= 0:
            bit = np.uint64(c - first)
            row = potentials[sinks[c]]
            for a in range(words.size):
                if (words[a] >> bit) & np.uint64(1):
                    row[a] += amounts[c]


@kernel
def _first_largest(sizes):
    """Returns the position of the first set of the largest size."""
    first = sizes.size - 1
    while sizes[first - 1] == sizes[first]:
        first -= 1
    return first


@kernel
def distances_from_empty(cost, facets, sizes, sink, distance):
    """Lowers distances, in place, to those from the sets that have one: ∅, at 0.

    Those that are no less than the sink's may stay too large. Most sets are of the largest size, and one pass
    goes up to them and down again.
    """
    largest = _first_largest(sizes)
    changed = True
    while changed:
        changed, limit = False, distance[sink]
        for a in range(1, sizes.size):
            d = distance[a]
            for j in range(sizes[a]):
                d = min(d, distance[facets[a, j]] + cost[a, j])
            if d < distance[a] and d < limit:
                changed = True
            distance[a] = d
            for j in range(sizes[a]):
                q = facets[a, j]
                if d < distance[q]:
                    distance[q] = d
                    changed = True
        for a in range(largest - 1, 0, -1):
            d = distance[a]
            for j in range(sizes[a]):
                q = facets[a, j]
                if d < distance[q]:
                    distance[q] = d
                    changed = True


@kernel
def distances_to_sink(cost, facets, sizes, distance):
    """Lowers distances, in place, to those to the sets that have one: those that contain the sink, at 0.

    Those that are no less than that of ∅ may stay too large. See `distances_from_empty`.
    """
    largest = _first_largest(sizes)
    changed = True
    while changed:
        changed, limit = False, distance[0]
        for a in range(sizes.size - 1, 0, -1):
            d = distance[a]
            for j in range(sizes[a]):
                d = min(d, distance[facets[a, j]])
            if d < distance[a] and d < limit:
                changed = True
            distance[a] = d
            for j in range(sizes[a]):
                q = facets[a, j]
                x = d + cost[a, j]
                if x < distance[q]:
                    distance[q] = x
                    changed = True
        for a in range(1, largest):
            d = distance[a]
            for j in range(sizes[a]):
                d = min(d, distance[facets[a, j]])
            if d < distance[a] and d < limit:
                changed = True
            distance[a] = d


@kernel
def _release(reduced, potential, facets, sizes, capacity):
    """Writes the reduced costs that a sink finds if its potential is taken away."""
    for a in range(sizes.size):
        for j in range(sizes[a]):
            free = reduced[a, j] + (potential[a] - potential[facets[a, j]])
            capacity[a, j] = min(_NEVER, max(0, free))


@kernel
def _occupy(reduced, potential, facets, sizes, capacity):
    """Writes the reduced costs that a sink's potential leaves."""
    for a in range(sizes.size):
        for j in range(sizes[a]):
            if capacity[a, j] < _NEVER:
                reduced[a, j] = capacity[a, j] - (potential[a] - potential[facets[a, j]])


@kernel
def renew(reduced, potential, inside, from_empty, lattice, room):
    """Gives a sink the largest potential that the others leave it, with the cuts near ∅ or near the sink.

    Where that is no more than it had, the result is a mean of old and new: both are as large, and what either
    does not need of a family is left to the others.

    Args:
        reduced: reduced costs of families, changed in place.
        potential: of the sink, changed in place.
        inside: int32: the sets that contain the sink.
        from_empty: whether the cuts are to be near ∅.
        lattice: (facets, sizes).
        room: (two arrays of costs, one of distances), overwritten.
    """
    facets, sizes = lattice
    capacity, held, distance = room
    before = potential[inside[0]]
    _release(reduced, potential, facets, sizes, capacity)
    distance[:] = _NEVER
    if from_empty:
        distance[0] = 0
        distances_from_empty(capacity, facets, sizes, inside[0], distance)
        total = distance[inside[0]]
        # Of what these distances take, only what is on the way to the sink is kept.
        for a in range(sizes.size):
            distance[a] = min(total, distance[a])
        for a in range(sizes.size):
            for j in range(sizes[a]):
                held[a, j] = max(0, distance[a] - distance[facets[a, j]])
        distance[:] = _NEVER
        distance[inside] = 0
        distances_to_sink(held, facets, sizes, distance)
    else:
        distance[inside] = 0
        distances_to_sink(capacity, facets, sizes, distance)
        total = distance[0]
    new = 16 if total > before else _MIX
    for a in range(sizes.size):
        potential[a] = (new * (total - min(total, distance[a])) + (16 - new) * potential[a]) >> 4
    _occupy(reduced, potential, facets, sizes, capacity)


@kernel
def add_stretched(potentials, steps, ends, slopes, total):
    """total(A) += Σ_u φ_u(potentials[u](A)), φ_u continuous with a slope for every interval of steps[u].

    Args:
        potentials: shape (sinks, m).
        steps: shape (sinks,), float64: the lengths of the intervals, which begin at 0.
        ends: shape (sinks + 1,), int64: slopes ends[u] to ends[u + 1] are those of u.
        slopes: shape (ends[-1],), float64.
        total: shape (m,), float64, changed in place.
    """
    for u in range(steps.size):
        slope = slopes[ends[u] : ends[u + 1]]
        base = np.zeros(slope.size)
        for k in range(1, slope.size):
            base[k] = base[k - 1] + slope[k - 1] * steps[u]
        for a in range(total.size):
            z = potentials[u, a]
            if z > 0:
                k = min(int(z / steps[u]), slope.size - 1)
                total[a] += base[k] + slope[k] * (z - k * steps[u])


@kernel
def covered(potentials, steps, ends, union, parents, share):
    """Returns how much of every interval families cover: Σ share · |[π(P), π(P∪v)] ∩ interval|.

    Args:
        potentials: see `add_stretched`, as are `steps` and `ends`.
        steps: see above.
        ends: see above.
        union: shape (families,), int64: the positions of P∪v.
        parents: shape (families,), int64: the positions of P.
        share: shape (families,), float64.
    """
    found = np.zeros(ends[-1])
    for u in range(steps.size):
        length, part = steps[u], found[ends[u] : ends[u + 1]]
        whole = np.zeros(part.size + 1)  # differences of what covers whole intervals
        for i in range(union.size):
            low, high = potentials[u, parents[i]], potentials[u, union[i]]
            if low < high:
                first = min(int(low / length), part.size - 1)
                last = min(int(high / length), part.size - 1)
                if first == last:
                    part[first] += share[i] * (high - low)
                else:
                    part[first] += share[i] * ((first + 1) * length - low)
                    part[last] += share[i] * (high - last * length)
                    whole[first + 1] += share[i] * length
                    whole[last] -= share[i] * length
        running = 0.0
        for k in range(part.size):
            running += whole[k]
            part[k] += running
    return found
