"""Growing up-sets of dual ascent in a lattice of sets.

Sets are positions, arcs up are numbered as in `kernels.cuts`, and families vertex by vertex (`numbered`). An
up-set is a bitmap: set A is bit A % 8 of byte A // 8.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import copy_onto, empty, filled, zeros

_NEVER = 1 << 62
"""Least reduced cost over no families."""


@kernel
def numbered(values, members, facets, sizes, allowed, best):
    """Numbers the allowed families vertex by vertex; returns the numbers, the parents and the reduced costs.

    Most families that enter an up-set belong to few vertices, so that their reduced costs and parents are
    close together in memory.

    Returns:
        The number of the family of each arc, or -1 if it is not allowed, shape (m · width,), int32; and of
        each family (v,P) the position of P, int32, and best(v) − (values(P∪v) − values(P)), int64.
    """
    m, width = allowed.shape
    # Counting sort by vertex: first[v] is the next number of a family of v.
    first = zeros(best.size + 1, np.int32)
    for a in range(m):
        for j in range(sizes[a]):
            if allowed[a, j]:
                first[members[a, j] + 1] += 1
    for v in range(best.size):
        first[v + 1] += first[v]
    numbers = filled(m * width, np.int32, -1)
    parents = empty(first[best.size], np.int32)
    found = empty(first[best.size], np.int64)
    for a in range(m):
        for j in range(sizes[a]):
            if allowed[a, j]:
                v = members[a, j]
                numbers[a * width + j] = first[v]
                parents[first[v]] = facets[a, j]
                found[first[v]] = best[v] - (values[a] - values[facets[a, j]])
                first[v] += 1
    return numbers, parents, found


@kernel
def _has(inside, a):
    """Returns whether an up-set contains a set."""
    return (inside[a >> 3] >> (a & 7)) & 1 != 0


@kernel(inline="always")
def _join(first, lattice, reduced_cost, threshold, inside, entering, count, free, queue):
    """Adds a set and its supersets to an up-set, and their families to `entering`; returns the new count.

    Families that no longer enter stay in `entering`. Parents of families of small reduced cost are added to
    `free`.
    """
    sizes, starts, above, facets, numbers, _, width = lattice
    # Breadth first over the supersets outside the up-set.
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
        # The families (v,P) with P∪v = a and P outside enter the up-set.
        for arc in range(a * width, a * width + sizes[a]):
            if numbers[arc] >= 0 and not _has(inside, facets[arc]):
                entering[count] = numbers[arc]
                count += 1
                if reduced_cost[numbers[arc]] <= threshold:
                    free.append(facets[arc])
    return count


@kernel
def close_up(lattice, reduced_cost, threshold, inside, entering, generators, free, scratch, queue):
    """Grows an up-set by the parents of entering families of small reduced cost, until there are none.

    Args:
        lattice: (sizes, starts, the set above each arc up, the facet of each arc number, the numbers and the
            parents of the families (`numbered`), width), see `kernels.cuts.arcs_up`. Set and facet are stored
            since the divisions of arc numbers dominated the time.
        reduced_cost: shape (families,), int64 (`numbered`).
        threshold: the reduced cost up to which families count as free.
        inside: shape (at least m / 8,), uint8: the up-set, changed in place.
        entering: int32: the numbers of the families that enter it; none for an empty up-set.
        generators: int32: its minimal sets; for an empty up-set the sink.
        free: int32: the parents of the entering families of small reduced cost.
        scratch: shape (families,), int32, overwritten.
        queue: shape (m,), int32, overwritten.

    Returns:
        Whether ∅ is reached; if not, the families that enter the up-set, and its minimal sets.
    """
    sizes, _, _, facets, _, parents, width = lattice
    # Invariant: scratch[:count] has all entering families, and some whose parent has been added meanwhile;
    # `stack` has the parents of free families, to be added.
    count = entering.size
    copy_onto(scratch, entering)
    stack = list(free)
    seeds = list(generators)
    if not _has(inside, generators[0]):  # an empty up-set: the sink comes first
        stack.append(seeds.pop())
    while len(stack) > 0:
        p = stack.pop()
        if p == 0:  # a path of free families leads from ∅ to the sink
            return True, entering[:0].copy(), generators
        if not _has(inside, p):
            count = _join(p, lattice, reduced_cost, threshold, inside, scratch, count, stack, queue)
            seeds.append(p)
    # Families that no longer enter are dropped in one pass.
    left = 0
    for k in range(count):
        if not _has(inside, parents[scratch[k]]):
            scratch[left] = scratch[k]
            left += 1
    # A set is minimal iff none of its facets is inside; only generators and added parents can be minimal.
    minimal = [np.int32(0) for _ in range(0)]
    for a in seeds:
        below = False
        for arc in range(a * width, a * width + sizes[a]):
            below = below or _has(inside, facets[arc])
        if not below:
            minimal.append(a)
    return False, scratch[:left].copy(), np.array(minimal, dtype=np.int32)


@kernel
def raise_cut(reduced_cost, parents, entering, threshold, otherwise):
    """Raises the multiplier of an up-set: the reduced costs of entering families fall by the least, in place.

    Args:
        reduced_cost: see `close_up`.
        parents: of the families (`numbered`).
        entering: the families that enter.
        threshold: the raise is 0 if the least reduced cost is at most this.
        otherwise: the raise if no family enters.

    Returns:
        The raise, and the parents of the families whose reduced cost is at most `threshold` after it.
    """
    # The largest raise with all reduced costs ≥ 0: Δ, the least of those of entering families.
    least = np.int64(_NEVER)
    for family in entering:
        least = min(least, reduced_cost[family])
    amount = 0 if least <= threshold else otherwise if least == _NEVER else least
    # Only entering families lose Δ, since t rises by Δ on the up-set.
    free = [np.int32(0) for _ in range(0)]
    for family in entering:
        reduced_cost[family] -= amount
        if reduced_cost[family] <= threshold:
            free.append(parents[family])
    return amount, np.array(free, dtype=np.int32)
