"""Probabilities of single sets, from the finished tables."""

from __future__ import annotations

import numpy as np
from numba import uint64

from jtsolve.averaging.kernels.sums import divide_properly
from jtsolve.averaging.kernels.words import LANES, exponent_of, mantissa, power, sum_products
from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, zeros


@kernel
def describe_sets(size, first_group, last_group, negligible, star, total, layout, weights, tables, out):
    """Writes P(S complete), P(S maximal clique), E(multiplicity of S as separator) for S of one size.

    With R = V ∖ S: A/Z, c P°/Z and (B − (A − c P°))/Z, where P°(S,R) = Σ_{K∋min R} (L − F/s)(S,K) P°(S,R∖K)
    and B = Σ_{∅≠K⊆R} F(S,K) P(S,R∖K).

    *The star of marks.* Without it, a discrete A is a maximal clique iff A ∪ star is one and no real
    component is full for A; so the P° of A ∪ star sums the partitions without these. With q the probability
    of such a clique, the multiplicity of A as a separator is the sum of B − A/Z for A, as the component of
    the star is always full, and B − (A/Z − q) for A ∪ star.

    Args:
        size: |S|, at least 1.
        first_group, last_group: groups first_group to last_group - 1 are done.
        negligible: a group in which no S is complete with this probability is skipped: zeros.
        star: whether the last variable is the star of marks, without which the S that hold it are described.
        total: (number, exponent) of Z.
        layout, weights, tables: see `sums`.
        out: shape (3, K): the probabilities, by position in `layout.masks`; written.
    """
    n, bits, base = layout.n, layout.bits, layout.base
    begins = layout.first[n, size]
    sets = layout.first[n, size + 1] - begins
    everything = (1 << (n - size)) - 1
    proper = zeros(LANES << (n - size), np.uint64)
    none = zeros(LANES << (n - size), np.uint64)
    sums, codes = empty(LANES, np.float64), empty(LANES, np.int64)
    full = empty(LANES, np.float64)
    for group in range(first_group, last_group):
        lanes = min(LANES, sets - group * LANES)
        start = layout.offset[layout.masks[begins + group * LANES]] // LANES
        # B/Z: the expected number of full components of S. Sets of w members have none.
        full[:] = 0.0
        if size < layout.width:
            at = uint64(start)
            sum_products(tables.f, tables.parts, at, at, uint64(everything), uint64(bits), sums, codes)
            for lane in range(lanes):
                full[lane] = sums[lane] / total[0] * power(min(codes[lane] + 2 * base - total[1], 64))
        # A/Z, A = c P(S, V∖S): S is complete.
        highest = 0.0
        for lane in range(lanes):
            i = begins + group * LANES + lane
            s = layout.masks[i]
            word = np.int64(tables.parts[LANES * (start + everything) + lane])
            complete = (
                mantissa(word, bits)
                * weights.clique[s]
                / total[0]
                * power(min(exponent_of(word, bits, base) + weights.clique_exponent[s] - total[1], 64))
            )
            if weights.inverse[s] == 0.0:  # P has no full component: a maximal clique; B adds those with one
                out[1, i] = complete
                complete += full[lane]
            out[0, i] = complete
            highest = max(highest, complete)
        if highest < negligible:
            out[:, begins + group * LANES : begins + group * LANES + lanes] = 0.0
            continue
        # c P°: no full component, so S is a maximal clique. S occurs max(full − 1, 0) times as a separator: B
        # less the share of graphs with a full component, A − c P°.
        divide_properly(size, group, star, layout, weights, tables, proper, none)
        for lane in range(lanes):
            i = begins + group * LANES + lane
            s = layout.masks[i]
            if weights.inverse[s] == 0.0:
                continue
            word = np.int64(none[LANES * everything + lane])
            alone = (
                mantissa(word, bits)
                * weights.clique[s]
                / total[0]
                * power(min(exponent_of(word, bits, base) + weights.clique_exponent[s] - total[1], 64))
            )
            out[1, i] = min(alone, out[0, i])
            out[2, i] = full[lane] - (out[0, i] - out[1, i])
            if not star:
                out[2, i] = max(0.0, out[2, i])


@kernel
def expected_components(total, layout, tables):
    """Returns the expected number of components: Σ_{∅≠K⊆V} F(∅,K) P(∅,V∖K) / Z."""
    sums, codes = empty(LANES, np.float64), empty(LANES, np.int64)
    everything = uint64((1 << layout.n) - 1)
    nothing = uint64(0)
    sum_products(tables.f, tables.parts, nothing, nothing, everything, uint64(layout.bits), sums, codes)
    return sums[0] / total[0] * power(min(codes[0] + 2 * layout.base - total[1], 64))
