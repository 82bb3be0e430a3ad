"""Up-sets of dual ascent that grow, in a lattice of sets.

Sets are positions and families the numbers of their arcs, as in `kernels.cuts`. An up-set is a bitmap: set A
is bit A % 8 of byte A // 8.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel

_NEVER = 1 << 62
"""The reduced cost of a family that is not allowed."""


@kernel
def reduced_costs(values, members, facets, sizes, allowed, best):
    """Returns best(v) − (values(P∪v) − values(P)) of every allowed family (v,P), flat, by arc number."""
    m, width = allowed.shape
    found = np.full(m * width, _NEVER, np.int64)
    for a in range(m):
        for j in range(sizes[a]):
            if allowed[a, j]:
                found[a * width + j] = best[members[a, j]] - (values[a] - values[facets[a, j]])
    return found


@kernel
def _has(inside, a):
    """Tells whether a set is in an up-set."""
    return (inside[a >> 3] >> (a & 7)) & 1 != 0


@kernel
def _join(first, lattice, reduced_cost, little, inside, entering, count, free, queue):
    """Adds a set and its supersets to an up-set, and their families to those that enter; returns their count.

    Families that no longer enter stay in the list; those of little reduced cost are appended to `free`.
    """
    sizes, starts, above, parents, width = lattice
    inside[first >> 3] |= np.uint8(1 << (first & 7))
    queue[0] = first
    head, tail = 0, 1
    while head < tail:
        a = queue[head]
        head += 1
        for k in range(starts[a], starts[a + 1]):
            b = above[k]
            if not _has(inside, b):
                inside[b >> 3] |= np.uint8(1 << (b & 7))
                queue[tail] = b
                tail += 1
        for arc in range(a * width, a * width + sizes[a]):
            if reduced_cost[arc] < _NEVER and not _has(inside, parents[arc]):
                entering[count] = arc
                count += 1
                if reduced_cost[arc] <= little:
                    free.append(np.int32(arc))
    return count


@kernel
def close_up(lattice, reduced_cost, little, inside, entering, generators, free, room, queue):
    """Grows an up-set by the parents of entering families of little reduced cost, until there is none.

    Args:
        lattice: (sizes, starts, the set above each arc up, the parents of each arc number, width), see
            `kernels.cuts.arcs_up`. No arc number is divided here: that took most of the time.
        reduced_cost: shape (m · width,), int64, by arc number (`reduced_costs`).
        little: the reduced cost up to which families count as free.
        inside: shape (at least m / 8,), uint8: the up-set, changed in place.
        entering: int32: the arcs of the families that enter it; none for an empty up-set.
        generators: int32: its minimal sets; the one that joins first if it is empty.
        free: int32: the entering families of little reduced cost.
        room: shape (m · width,), int32, overwritten.
        queue: shape (m,), int32, overwritten.

    Returns:
        Whether ∅ is reached; if not, the families that enter the up-set, and its minimal sets.
    """
    sizes, _, _, parents, width = lattice
    count = entering.size
    room[:count] = entering
    stack = list(free)
    seeds = list(generators)
    if not _has(inside, generators[0]):
        count = _join(generators[0], lattice, reduced_cost, little, inside, room, count, stack, queue)
    while len(stack) > 0:
        p = parents[stack.pop()]
        if p == 0:
            return True, entering[:0].copy(), generators
        if not _has(inside, p):
            count = _join(p, lattice, reduced_cost, little, inside, room, count, stack, queue)
            seeds.append(p)
    left = 0
    for k in range(count):
        arc = room[k]
        if not _has(inside, parents[arc]):
            room[left] = arc
            left += 1
    minimal = [np.int32(0) for _ in range(0)]
    for a in seeds:
        below = False
        for arc in range(a * width, a * width + sizes[a]):
            below = below or _has(inside, parents[arc])
        if not below:
            minimal.append(a)
    return False, room[:left].copy(), np.array(minimal, dtype=np.int32)


@kernel
def least_of(reduced_cost, families):
    """Returns the least reduced cost of some families; without any, that of one that is not allowed."""
    least = np.int64(_NEVER)
    for arc in families:
        least = min(least, reduced_cost[arc])
    return least


@kernel
def lowered(reduced_cost, families, amount, little):
    """Lowers the reduced costs of families in place; returns the families where that leaves little."""
    free = [np.int32(0) for _ in range(0)]
    for arc in families:
        reduced_cost[arc] -= amount
        if reduced_cost[arc] <= little:
            free.append(arc)
    return np.array(free, dtype=np.int32)
