"""The splits of g, many tables at once: the (max, +) closure that dominates the running time.

For a table G over the subsets U of k elements, computes

    G(U) = max over {R, U∖R}, the largest element of U in R, of G(R) + G(U∖R),

where G is final for smaller sets. Two arrangements make it fast:

- *Lanes.* The loop over (U, R) is the same for every table with the same k, so LANES tables lie side by side:
  element (U, lane) is at U·LANES + lane, and the innermost loop is one vector addition and maximum.
- *Cubes.* The lowest q ≤ 3 elements are split off: U = (Uʰ, Uˡ). For each pair (Rʰ, Uʰ∖Rʰ) the two blocks of
  2^q rows are read once and give all 3^q sums of (Rˡ, Uˡ∖Rˡ), so each value loaded enters several additions.
"""

from __future__ import annotations

from numba import uint64

from jtsolve.backends.dp.plan import LANES
from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty


@kernel(inline="always")
def _cube(table, left, right, best, rows):
    """best(x) = max(best(x), max_{r ⊆ x} table(left + r) + table(right + x∖r)) for the x < rows = 2^q.

    `rows` is a literal at every call, so that the loops over x and r unroll and only the lanes remain.
    """
    number = table.dtype.type
    for lane in range(LANES):
        for x in range(rows):
            highest = best[x * LANES + lane]
            for r in range(rows):
                if r & x == r:
                    total = number(
                        table[left + uint64(r * LANES + lane)] + table[right + uint64((x ^ r) * LANES + lane)]
                    )
                    highest = total if total > highest else highest
            best[x * LANES + lane] = highest


@kernel
def best_splits(table, base, elements, bits, first_group, last_group, high_sets, lowest):
    """G(U) = max G(R) + G(U∖R) over the splits with both Rʰ and Uʰ∖Rʰ non-empty, for each Uʰ given.

    Args:
        table: shape (size,), float64 or int32: G of all tables.
        base: where the tables of this class begin.
        elements: k, the number of elements of the tables of this class.
        bits: q, the number of elements in a cube, 0 to 3.
        first_group: of the groups of LANES tables to process.
        last_group: one past the last of them.
        high_sets: shape (count,), int64: the Uʰ, non-empty, as bit masks over the k - q high elements.
        lowest: represents -inf; written where there is no split.
    """
    rows = 1 << bits
    best = empty(8 * LANES, table.dtype)
    for group in range(first_group, last_group):
        start = base + group * (LANES << elements)
        for high in high_sets:
            top = 1
            while top <= high >> 1:
                top <<= 1
            rest = high ^ top  # Rʰ holds the largest element, so that each split is formed once
            best[: rows * LANES] = lowest
            part = rest
            while part:
                part = (part - 1) & rest  # Rʰ = top | part: every proper subset of the rest
                left = uint64(start + ((top | part) << bits) * LANES)
                right = uint64(start + ((rest ^ part) << bits) * LANES)
                if bits == 3:
                    _cube(table, left, right, best, 8)
                elif bits == 2:
                    _cube(table, left, right, best, 4)
                elif bits == 1:
                    _cube(table, left, right, best, 2)
                else:
                    _cube(table, left, right, best, 1)
            goal = start + (high << bits) * LANES
            for element in range(rows * LANES):
                table[goal + element] = best[element]
