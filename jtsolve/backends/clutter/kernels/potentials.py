"""Shortest paths in a lattice of sets, from ∅ to the sets that contain a sink; see `potentials`.

Sets are positions, as in `kernels.clutters`. Potentials and distances have shape (m,), costs of families
shape (width, m), all int32. A family (v,P) is an arc from P to P∪v with a cost, and arcs without cost lead
from every set to its facets. Potentials are at most 2^28.

Sets that differ only in their least member are consecutive, and so are their facets, except the first, which
they share. A *run* is a range of such sets: (x,b,c,d) for consecutive x, with the facets (b,c,d), (x,c,d),
(x,b,d) and (x,b,c). Inner loops go over the sets of a run, so that compilers vectorise them; positions are
unsigned, so that no index counts from the end of an array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, filled, zeros

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEVER = np.int32((1 << 30) - 1)
"""Cost of a family that is not allowed, and distance of an unreached set; twice this fits an int32."""
LARGEST = 1 << 28
"""Upper limit of the potentials."""
_FOUR = 4
"""Size of the largest sets at treewidth 3, for which loops are unrolled. Sinks are smaller, so that the
largest sets only link their facets, and their own distances are needed at the end only."""
_NOTHING = np.int32(0)
_MOST = 1 << 29
"""Cap on reduced costs: potentials differ by less."""
_ONE = 1 << 20
"""A slope of 1 in integers."""
_STEEPEST = 1 << 10
"""Cap on slopes, so that products fit 64 bits."""
_KEPT = 3
"""Weight of the old potential in the mean with the new one: 2^−3."""


class Runs(NamedTuple):
    """The runs of a lattice, ∅ first.

    Attributes:
        first: shape (runs,), uint64: the position of the first set.
        length: shape (runs,), uint64: the number of sets.
        size: shape (runs,), int32: the size of the sets.
        facets: shape (runs, width), uint64: the positions of the facets of the first set.
        of: shape (runs, width), int32: the runs of these facets.
    """

    first: NDArray[np.uint64]
    length: NDArray[np.uint64]
    size: NDArray[np.int32]
    facets: NDArray[np.uint64]
    of: NDArray[np.int32]


def runs_of(facets: NDArray[np.int32], sizes: NDArray[np.int32]) -> Runs:
    """Returns the longest runs of a lattice whose j-th facets lie in one run, for each j."""
    # A set continues the run of its predecessor if its facets follow those of the predecessor.
    goes_on = np.append(False, (sizes[1:] == sizes[:-1]) & (facets[1:, 0] == facets[:-1, 0]))
    for j in range(1, facets.shape[1]):
        goes_on[1:] &= (facets[1:, j] == facets[:-1, j] + 1) | (sizes[1:] <= j)
    # By size: a run ends where the run of a facet ends.
    for size in range(2, facets.shape[1] + 1):
        a, end = np.searchsorted(sizes, [size, size + 1])
        goes_on[a:end] &= goes_on[facets[a:end, 1:size]].all(axis=1)
    first = np.flatnonzero(~goes_on)
    length = np.diff(np.append(first, sizes.size))
    run = np.repeat(np.arange(first.size, dtype=np.int32), length)
    return Runs(
        first.astype(np.uint64),
        length.astype(np.uint64),
        sizes[first],
        facets[first].astype(np.uint64),
        run[facets[first]],
    )


@kernel
def reduced_costs_in_steps(values, members, facets, sizes, allowed, best, shift):
    """Returns reduced costs best(v) − (values(P∪v) − values(P)), in steps of 2^shift units, rounded down."""
    found = filled(allowed.shape[::-1], np.int32, NEVER)
    for a in range(sizes.size):
        for j in range(sizes[a]):
            if allowed[a, j]:
                exact = best[members[a, j]] - (values[a] - values[facets[a, j]])
                # Rounding down keeps the exact reduced costs ≥ 0 after any charge up to this.
                found[j, a] = min(exact >> shift, _MOST)
    return found


@kernel
def add_potential(values, potential, facets, sizes, shift):
    """Adds a potential, in steps of 2^shift units, to values of sets; returns whether it is monotone."""
    rises = potential[0] == 0
    for a in range(1, sizes.size):
        values[a] += np.int64(potential[a]) << shift
        for j in range(sizes[a]):
            # Monotone along all arcs of the lattice, it is a sum of indicators of up-sets.
            rises &= potential[facets[a, j]] <= potential[a]
    return rises


@kernel
def add_cuts(words, first, amounts, sinks, potentials):
    """Adds cuts to the potentials of their sinks: potentials[sinks[c]] += amounts[c] on the c-th up-set.

    Args:
        words: shape (m,), uint64: the cuts from number `first` on, one in each bit.
        amounts: shape (cuts,), int64.
        sinks: shape (cuts,), int64: rows of `potentials`; -1 for none.
        potentials: shape (sinks, m), changed in place.
    """
    for c in range(first, min(first + 64, amounts.size)):
        if amounts[c] > 0 and sinks[c] >= 0:
            bit, amount, row = np.uint64(c - first), np.int32(amounts[c]), potentials[sinks[c]]
            for a in range(words.size):
                row[a] += np.int32((words[a] >> bit) & np.uint64(1)) * amount


@kernel(allocates=False)
def _is_noted(fell, runs, r):
    """Returns whether a run has a facet in a run of `fell`."""
    found = False
    for j in range(runs.size[r]):
        found |= fell[runs.of[r, j]]
    return found


@kernel(allocates=False)
def _climb(cost, distance, runs, largest, fell):
    """Relaxes all arcs from facets to sets, and from each set to its facets, from small sets to large ones.

    Of the largest sets, only runs with a facet in a run of `fell`.
    """
    unrolls = runs.size[-1] == _FOUR
    for r in range(1, largest if unrolls else runs.size.size):
        if r >= largest and not _is_noted(fell, runs, r):
            continue
        a, length, size = runs.first[r], runs.length[r], runs.size[r]
        # The first facet is one set for the whole run: its distance is a scalar, and its minimum a reduction.
        common, c = distance[runs.facets[r, 0]], cost[0]
        for i in range(length):
            distance[a + i] = min(distance[a + i], np.int32(common + c[a + i]))
        for j in range(1, size):
            f, c = runs.facets[r, j], cost[j]
            for i in range(length):
                distance[a + i] = min(distance[a + i], np.int32(distance[f + i] + c[a + i]))
        for i in range(length):
            common = min(common, distance[a + i])
        distance[runs.facets[r, 0]] = common
        for j in range(1, size):
            f = runs.facets[r, j]
            for i in range(length):
                distance[f + i] = min(distance[f + i], distance[a + i])
    if unrolls:
        _climb_four(cost, distance, runs, largest, fell)


@kernel(allocates=False)
def _climb_four(cost, distance, runs, largest, fell):
    """Does the same among the facets of the largest sets, where these have four members."""
    c0, c1, c2, c3 = cost[0], cost[1], cost[2], cost[3]
    for r in range(largest, runs.size.size):
        of, facets = runs.of[r], runs.facets[r]
        if not (fell[of[0]] | fell[of[1]] | fell[of[2]] | fell[of[3]]):
            continue
        a, f0, f1, f2, f3 = runs.first[r], facets[0], facets[1], facets[2], facets[3]
        common = least = distance[f0]
        for i in range(runs.length[r]):
            d1, d2, d3 = distance[f1 + i], distance[f2 + i], distance[f3 + i]
            low = min(np.int32(common + c0[a + i]), np.int32(d1 + c1[a + i]))
            low = min(low, np.int32(d2 + c2[a + i]), np.int32(d3 + c3[a + i]))
            least = min(least, low)
            distance[f1 + i], distance[f2 + i], distance[f3 + i] = min(d1, low), min(d2, low), min(d3, low)
        distance[f0] = least


@kernel(allocates=False)
def _lower_facets(distance, runs, largest):
    """Relaxes the arcs without cost from sets to their facets, from large sets to small ones, forwards."""
    for r in range(largest - 1, 0, -1):
        a, length = runs.first[r], runs.length[r]
        common = distance[runs.facets[r, 0]]
        for i in range(length):
            common = min(common, distance[a + i])
        distance[runs.facets[r, 0]] = common
        for j in range(1, runs.size[r]):
            f = runs.facets[r, j]
            for i in range(length):
                distance[f + i] = min(distance[f + i], distance[a + i])


@kernel(allocates=False)
def _descend(cost, distance, runs, largest, fell):
    """Relaxes all arcs backwards, for distances to a sink, from large sets to small ones; see `_climb`."""
    unrolls = runs.size[-1] == _FOUR
    if unrolls:
        _descend_four(cost, distance, runs, largest, fell)
    for r in range((largest if unrolls else runs.size.size) - 1, 0, -1):
        if r >= largest and not _is_noted(fell, runs, r):
            continue
        a, length, size = runs.first[r], runs.length[r], runs.size[r]
        common, c = distance[runs.facets[r, 0]], cost[0]
        for i in range(length):
            distance[a + i] = min(distance[a + i], common)
        for j in range(1, size):
            f = runs.facets[r, j]
            for i in range(length):
                distance[a + i] = min(distance[a + i], distance[f + i])
        for i in range(length):
            common = min(common, np.int32(distance[a + i] + c[a + i]))
        distance[runs.facets[r, 0]] = common
        for j in range(1, size):
            f, c = runs.facets[r, j], cost[j]
            for i in range(length):
                distance[f + i] = min(distance[f + i], np.int32(distance[a + i] + c[a + i]))


@kernel(allocates=False)
def _descend_four(cost, distance, runs, largest, fell):
    """Does the same among the facets of the largest sets, where these have four members."""
    c0, c1, c2, c3 = cost[0], cost[1], cost[2], cost[3]
    for r in range(runs.size.size - 1, largest - 1, -1):
        of, facets = runs.of[r], runs.facets[r]
        if not (fell[of[0]] | fell[of[1]] | fell[of[2]] | fell[of[3]]):
            continue
        a, f0, f1, f2, f3 = runs.first[r], facets[0], facets[1], facets[2], facets[3]
        common = least = distance[f0]
        for i in range(runs.length[r]):
            d1, d2, d3 = distance[f1 + i], distance[f2 + i], distance[f3 + i]
            low = min(common, d1, d2, d3)
            least = min(least, np.int32(low + c0[a + i]))
            distance[f1 + i] = min(d1, np.int32(low + c1[a + i]))
            distance[f2 + i] = min(d2, np.int32(low + c2[a + i]))
            distance[f3 + i] = min(d3, np.int32(low + c3[a + i]))
        distance[f0] = least


@kernel(allocates=False)
def _lower_to_facets(distance, runs, largest):
    """Relaxes the arcs without cost backwards, from small sets to large ones."""
    for r in range(1, largest):
        a, length = runs.first[r], runs.length[r]
        common = distance[runs.facets[r, 0]]
        for i in range(length):
            distance[a + i] = min(distance[a + i], common)
        for j in range(1, runs.size[r]):
            f = runs.facets[r, j]
            for i in range(length):
                distance[a + i] = min(distance[a + i], distance[f + i])


@kernel(allocates=False)
def _first_largest(runs):
    """Returns the first run of the largest sets."""
    first = runs.size.size - 1
    while runs.size[first - 1] == runs.size[first]:
        first -= 1
    return first


@kernel(allocates=False)
def _note_falls(distance, before, limit, runs, largest, fell):
    """Marks the runs where a distance fell below a limit since the last call; returns whether any did.

    Runs of the largest sets are left out.
    """
    some = False
    for r in range(largest):
        first, last = runs.first[r], runs.first[r] + runs.length[r]
        found = False
        for a in range(first, last):
            found |= (distance[a] < before[a]) & (distance[a] < limit)
        for a in range(first, last):
            before[a] = distance[a]
        # The next pass skips those of the largest sets whose facets are all in runs without a change.
        fell[r] = found
        some |= found
    return some


@kernel
def distances_from_empty(cost, runs, sink, distance):
    """Lowers distances from ∅, in place, until they are the lengths of shortest paths.

    On entry, only ∅ has a finite distance, 0. Distances of at least that of the sink may stay too large. Each
    pass goes up to the largest sets and down again. The largest sets only link others: a pass skips them
    where the others have not changed.
    """
    largest = _first_largest(runs)
    before = distance[: runs.first[largest]].copy()
    fell = filled(largest, np.bool_, True)
    goes_on = True
    while goes_on:
        _climb(cost, distance, runs, largest, fell)
        _lower_facets(distance, runs, largest)
        goes_on = _note_falls(distance, before, distance[sink], runs, largest, fell)
    for r in range(largest, runs.size.size):
        a, length = runs.first[r], runs.length[r]
        for j in range(runs.size[r]):
            f, step, c = runs.facets[r, j], np.uint64(j > 0), cost[j]
            for i in range(length):
                distance[a + i] = min(distance[a + i], np.int32(distance[f + step * i] + c[a + i]))


@kernel
def distances_to_sink(cost, runs, distance):
    """Lowers distances to the sets that contain the sink, in place; see `distances_from_empty`.

    On entry, only these have a finite distance, 0. Distances of at least that of ∅ may stay too large.
    """
    largest = _first_largest(runs)
    before = distance[: runs.first[largest]].copy()
    fell = filled(largest, np.bool_, True)
    goes_on = True
    while goes_on:
        _descend(cost, distance, runs, largest, fell)
        _lower_to_facets(distance, runs, largest)
        goes_on = _note_falls(distance, before, distance[0], runs, largest, fell)
    for r in range(largest, runs.size.size):
        a, length = runs.first[r], runs.length[r]
        for j in range(runs.size[r]):
            f, step = runs.facets[r, j], np.uint64(j > 0)
            for i in range(length):
                distance[a + i] = min(distance[a + i], distance[f + step * i])


@kernel
def exchange(reduced, charged, refunded, runs):
    """Charges one potential to the reduced costs, and refunds another.

    Args:
        reduced: reduced costs of families, changed in place; values below 0, by rounding, become 0.
        charged: the first potential.
        refunded: the other.
        runs: of the lattice.
    """
    for r in range(1, runs.size.size):
        a, length = runs.first[r], runs.length[r]
        for j in range(runs.size[r]):
            f, step, cost = runs.facets[r, j], np.uint64(j > 0), reduced[j]
            for i in range(length):
                charge = np.int32(charged[a + i] - charged[f + step * i])
                refund = np.int32(refunded[a + i] - refunded[f + step * i])
                left = np.int32(max(_NOTHING, np.int32(cost[a + i] - charge)) + refund)
                cost[a + i] = NEVER if cost[a + i] == NEVER else left


@kernel
def _write_charges(potential, runs, held):
    """Writes the charge of a potential to each family: max(0, potential(P∪v) − potential(P))."""
    for r in range(1, runs.size.size):
        a, length = runs.first[r], runs.length[r]
        for j in range(runs.size[r]):
            f, step, cost = runs.facets[r, j], np.uint64(j > 0), held[j]
            for i in range(length):
                cost[a + i] = max(_NOTHING, np.int32(potential[a + i] - potential[f + step * i]))


@kernel
def update_potential(free, potential, inside, from_empty, runs, room):
    """Maximises the potential of one sink, given the others, with its cuts near ∅ or near the sink.

    If it is no larger than before at the sink, the result is a weighted mean of the old and new potentials,
    which is as large and leaves other sinks the slack of both.

    Args:
        free: the reduced costs of families without the potential.
        potential: of the sink, changed in place.
        inside: int32: the sets that contain the sink, the sink first.
        from_empty: whether to put the cuts near ∅.
        runs: of the lattice.
        room: (an array of costs, one of distances), overwritten.
    """
    held, distance = room
    before = potential[inside[0]]  # which the bound subtracts
    distance[:] = NEVER
    if from_empty:
        distance[0] = 0
        distances_from_empty(free, runs, inside[0], distance)
        # The length of the shortest path is the largest π_a(a), given the others.
        total = min(LARGEST, distance[inside[0]])
        # Of the charges of these distances, only those on shortest paths to the sink are kept.
        for a in range(distance.size):
            distance[a] = min(total, distance[a])
        _write_charges(distance, runs, held)
        distance[:] = NEVER
        distance[inside] = 0
        distances_to_sink(held, runs, distance)
    else:
        distance[inside] = 0
        distances_to_sink(free, runs, distance)
        total = min(LARGEST, distance[0])
    # Without a gain, the old potential is optimal too, and means of both lie inside the face of optima (the
    # relative interior rule), where other sinks can gain.
    keeps = np.int32(total <= before)
    for a in range(distance.size):
        new = np.int32(total - min(total, distance[a]))
        potential[a] = np.int32(new + keeps * (np.int32(potential[a] - new) >> _KEPT))


@kernel
def add_stretched(potentials, bits, ends, slopes, total):
    """total(A) += Σ_u φ_u(potentials[u](A)), φ_u continuous with a slope for each interval of length 2^bits.

    Args:
        potentials: shape (sinks, m).
        bits: see above; intervals begin at 0.
        ends: shape (sinks + 1,), int64: slopes ends[u] to ends[u + 1] belong to u.
        slopes: shape (ends[-1],), float64.
        total: shape (m,), float64, changed in place.
    """
    log = np.uint32(bits)
    for u in range(ends.size - 1):
        slope = slopes[ends[u] : ends[u + 1]]
        base = zeros(slope.size, np.float64)  # φ(z) = base[k] + slope[k] · z on the k-th interval
        for k in range(1, slope.size):
            base[k] = base[k - 1] + (slope[k - 1] - slope[k]) * (k << bits)
        potential = potentials[u]
        for a in range(total.size):
            at = np.uint32(potential[a])  # unsigned, so that compilers vectorise
            total[a] += base[at >> log] + slope[at >> log] * at


@kernel
def stretch(potential, bits, slope):
    """Replaces a potential by φ(potential), φ as in `add_stretched`, rounded but still monotone."""
    base = zeros(slope.size, np.int64)
    exact = empty(slope.size, np.int64)
    for k in range(slope.size):
        exact[k] = np.int64(min(slope[k], _STEEPEST) * _ONE)
        if k > 0:
            # φ is continuous with slopes ≥ 0: it stays monotone when it is rounded down.
            base[k] = min(base[k - 1] + (exact[k - 1] << bits), LARGEST * _ONE)
    for a in range(potential.size):
        z = potential[a]
        k = z >> bits
        potential[a] = min((base[k] + exact[k] * (z - (k << bits))) // _ONE, LARGEST)


@kernel
def gathered(share, facets):
    """Returns for each set A the shares of families with P∪v = A, less those of families with P = A."""
    found = zeros(share.shape[0], np.float64)
    for a in range(share.shape[0]):
        for j in range(share.shape[1]):
            if share[a, j] > 0:
                found[a] += share[a, j]
                found[facets[a, j]] -= share[a, j]
    return found


@kernel
def covered(potentials, bits, ends, amounts):
    """Returns Σ_A amounts(A) · |[0, π(A)] ∩ interval| for each interval of each sink.

    Args:
        potentials, bits, ends: see `add_stretched`.
        amounts: shape (m,), float64.
    """
    found = zeros(ends[-1], np.float64)
    some = np.flatnonzero(amounts)
    for u in range(ends.size - 1):
        part = found[ends[u] : ends[u + 1]]
        last = zeros(part.size, np.float64)  # the amounts of the sets whose potential ends in the interval
        for a in some:
            z = potentials[u, a]
            if z > 0:
                k = z >> bits
                last[k] += amounts[a]
                part[k] += amounts[a] * (z - (k << bits))
        # From the last interval down: sets whose potential ends in a later one cover the whole interval.
        beyond = 0.0
        for k in range(part.size - 1, -1, -1):
            part[k] += beyond * (1 << bits)
            beyond += last[k]
    return found
