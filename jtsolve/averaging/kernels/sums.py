"""The sums over decomposable graphs, a layer at a time: see `jtsolve.averaging.sums` for the recurrence.

F(S,·), L(S,·) and P(S,·) lie by S: the loop over (R, K ⊆ R) is the same for all S of one size if R is renamed
within V ∖ S, so LANES such S lie side by side: (S, R) is at offset[S] + LANES · (R renamed). X lies by
U = S ∪ R without the last variable z, since B sums over one S ∪ R: first the S without z, then those with it,
each by size, and within a size in increasing order of the masks, a rank that does not depend on how many
variables there are.

All R without z come first, then those with it: X(S,R∪z) takes the place of X(S,R), which no other sum needs.
While a layer is under way, X(S,R) holds B(S,R) until P(S,R) is known.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import uint64

from jtsolve.averaging.kernels.words import (
    LANES,
    add,
    exponent_of,
    mantissa,
    power,
    sum_listed,
    sum_products,
    sum_products_below,
    to_word,
)
from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, zeros
from jtsolve.core.kernels.renaming import rename, unname
from jtsolve.core.renaming import PIECE

NOWHERE, IN_S, IN_R = 0, 1, 2
"""The side of the last variable."""

Layout = namedtuple(
    "Layout",
    [
        "n",
        "width",  # w, the largest size of a clique
        "bits",  # see `words`
        "base",
        "lowest",  # every non-zero number is at least 2^lowest
        "masks",  # shape (K,): the sets of at most w variables by size, then by mask
        "first",  # shape (n + 1, w + 2): [m, k] is the number of sets of less than k of m variables
        "rank",  # shape (2^n,): the position of a set among those of its size
        "offset",  # shape (2^n,): where the words of S begin in F, L, P; -1 above w members
        "across",  # shape (n,): where the words of the U with m members begin in X
        "squeeze",  # see `renaming_tables`
        "spread",
        "ones",
    ],
)

Weights = namedtuple(
    "Weights",
    [
        "clique",  # shape (2^n,): c(A) = clique · 2^clique_exponent
        "clique_exponent",
        "inverse",  # shape (2^n,): 1/s(A), likewise
        "inverse_exponent",
        "required",  # shape (n,): the required neighbours of each variable
    ],
)

Tables = namedtuple("Tables", ["f", "links", "parts", "x"])
"""The words of F, L, P and X."""


@kernel(inline="always")
def mask_size(mask, layout):
    """Returns |mask|."""
    return (
        layout.ones[mask & 511]
        + layout.ones[(mask >> PIECE) & 511]
        + layout.ones[(mask >> (2 * PIECE)) & 511]
    )


@kernel(inline="always")
def cell_at(s, r, layout):
    """Returns the position of F(S,R), L(S,R) and P(S,R)."""
    everything = (1 << layout.n) - 1
    return layout.offset[s] + LANES * rename(r, everything ^ s, layout)


@kernel(inline="always")
def across_of(s, size, r, members, layout):
    """Returns the position of X(S,R); `size` = |S|, `members` = |R|."""
    z = layout.n - 1
    below = (1 << z) - 1
    own, whole = s & below, (s | r) & below
    with_last = (s >> z) & 1
    k = size - with_last
    m = k + members - ((r >> z) & 1)
    row = layout.first[m, layout.width + 1] + layout.first[m, layout.width]
    rank = layout.rank[whole]
    place = layout.first[m, k] + layout.rank[rename(own, whole, layout)]  # of S in the row of U
    place += with_last * layout.first[m, layout.width + 1]
    return layout.across[m] + (rank // LANES) * (LANES * row) + rank % LANES + LANES * place


@kernel(inline="always")
def _misses_required(s, r, weights):
    """Returns whether some required neighbour of R is neither in R nor in S."""
    rest, v = r, 0
    outside = ~(s | r)
    while rest:
        if rest & 1 and weights.required[v] & outside:
            return True
        rest >>= 1
        v += 1
    return False


@kernel
def begin(size, first_group, last_group, layout, weights, tables):
    """Sets P(S,∅) = 1 and X(S,∅) = c(S) for the groups of sets S of one size."""
    sets = layout.first[layout.n, size + 1] - layout.first[layout.n, size]
    for nth in range(first_group * LANES, min(last_group * LANES, sets)):
        s = layout.masks[layout.first[layout.n, size] + nth]
        tables.parts[layout.offset[s]] = uint64(to_word(1.0, 0, layout.bits, layout.base, layout.lowest))
        x = to_word(weights.clique[s], weights.clique_exponent[s], layout.bits, layout.base, layout.lowest)
        tables.x[across_of(s, size, 0, 0, layout)] = uint64(x & ~1)


@kernel
def count_full(m, size, last, first_group, last_group, first_set, last_set, layout, tables):
    """B(S,R) = Σ_{∅≠D⊆R} X(S∪D, R∖D) for |S| < w; B is stored in the place of X.

    Without the last variable z, S ∪ R has m members and S has `size`; of these S within m members, those from
    first_set to last_set - 1 are done. `last` is the side of z: NOWHERE, IN_S or IN_R.
    """
    everything = (1 << m) - 1
    with_last = layout.first[m, layout.width + 1]  # where the S with z begin in a row
    row = with_last + layout.first[m, layout.width]
    begins = with_last if last == IN_S else 0
    largest = layout.width - 1 if last == IN_S else layout.width
    positions = empty(2 << (m - size), np.int32)
    sums, codes = empty(LANES, np.float64), empty(LANES, np.int64)
    for nth in range(first_set, last_set):
        s = layout.masks[layout.first[layout.n, size] + nth]
        rest = everything ^ s
        # All U of m members have the same positions of X(S∪D, R∖D) in a row: listed once.
        count = 0
        part = rest
        while True:
            bigger = size + mask_size(part, layout)
            if bigger <= layout.width:
                position = layout.first[m, bigger] + layout.rank[s | part]
                if part and bigger <= largest:
                    positions[count] = begins + position
                    count += 1
                if last == IN_R and bigger < layout.width:  # D = part ∪ z
                    positions[count] = with_last + position
                    count += 1
            if part == 0:
                break
            part = (part - 1) & rest
        listed = positions[:count][::-1].copy()
        for group in range(first_group, last_group):
            start = layout.across[m] // LANES + group * row
            sum_listed(tables.x, uint64(start), listed, uint64(count), uint64(layout.bits), sums, codes)
            goal = LANES * (start + begins + layout.first[m, size] + nth)
            for lane in range(LANES):
                word = to_word(sums[lane], codes[lane] + layout.base, layout.bits, layout.base, layout.lowest)
                tables.x[goal + lane] = uint64(word & ~1)


@kernel
def connect(size, phase, first_group, last_group, parts, layout, weights, tables):
    """F(S,R) = B(S,R) − Σ_{∅≠K⊊R} F(S,K) P(S,R∖K), |S| = size, for the renamed R given, all of one size.

    Only for the R with the last variable, if `phase` is 1, or without it, if it is 0. F(S,R) and B(S,R)
    are 0 if a required neighbour of R is outside S ∪ R.
    """
    n, bits, base, lowest = layout.n, layout.bits, layout.base, layout.lowest
    everything = (1 << n) - 1
    begins = layout.first[n, size]
    sets = layout.first[n, size + 1] - begins
    sums, codes = empty(LANES, np.float64), empty(LANES, np.int64)
    words, none = zeros(LANES, np.int64), 3 * (lowest - base)
    for group in range(first_group, last_group):
        start = layout.offset[layout.masks[begins + group * LANES]] // LANES
        lanes = min(LANES, sets - group * LANES)
        for part in parts:
            codes[:] = none  # above that of any product of a zero
            for lane in range(lanes):
                s = layout.masks[begins + group * LANES + lane]
                r = unname(part, everything ^ s, layout)
                words[lane] = 0
                if (r >> (n - 1)) & 1 != phase:
                    continue
                here = across_of(s, size, r, mask_size(r, layout), layout)
                if _misses_required(s, r, weights):
                    tables.x[here] = uint64(0)
                words[lane] = np.int64(tables.x[here])
                if words[lane]:
                    codes[lane] = exponent_of(words[lane], bits, base) - 2 * base
            # F(S,∅) and F(S,R) are 0 as yet: the sum may run over all K ⊆ R. It is at most B(S,R).
            at = uint64(start)
            sum_products_below(tables.f, tables.parts, at, at, uint64(part), uint64(bits), sums, codes)
            for lane in range(lanes):
                number = mantissa(words[lane], bits)
                left = number - sums[lane]
                if words[lane] and left > number * 1e-15:  # smaller values are rounding errors
                    exponent = exponent_of(words[lane], bits, base)
                    tables.f[LANES * (start + part) + lane] = uint64(
                        to_word(left, exponent, bits, base, lowest)
                    )


@kernel
def attach(sets, layout, weights, tables):
    """L(S,R) = Σ_{Q⊆S} F(Q,R) / s(Q) for the R given and all S of at most w members disjoint from R."""
    n, width, bits, base, lowest = layout.n, layout.width, layout.bits, layout.base, layout.lowest
    everything = (1 << n) - 1
    for r in sets:
        others = everything ^ r
        count = n - mask_size(r, layout)
        numbers = zeros(1 << count, np.float64)
        exponents = zeros(1 << count, np.int64)
        for name in range(1 << count):
            if mask_size(name, layout) >= width:
                continue
            s = unname(name, others, layout)
            if weights.inverse[s] == 0.0:
                continue
            word = np.int64(tables.f[cell_at(s, r, layout)])
            if word:
                numbers[name] = mantissa(word, bits) * weights.inverse[s]
                exponents[name] = exponent_of(word, bits, base) + weights.inverse_exponent[s]
        # Sums over subsets (zeta transform): after v, each cell has the sum over the subsets that differ in
        # variables up to v only.
        for v in range(count):
            step = 1 << v
            for high in range(0, 1 << count, 2 * step):
                for low in range(high, high + step):
                    number, exponent = numbers[low], exponents[low]
                    if number != 0.0:
                        numbers[low | step], exponents[low | step] = add(
                            numbers[low | step], exponents[low | step], number, exponent
                        )
        for name in range(1 << count):
            if numbers[name] != 0.0 and mask_size(name, layout) <= width:
                s = unname(name, others, layout)
                word = to_word(numbers[name], exponents[name], bits, base, lowest)
                tables.links[cell_at(s, r, layout)] = uint64(word)


@kernel
def _net(weight, weight_exponent, parts, full, bits, base, lowest):
    """Returns weight · parts − full as a word whose last bit is the sign; `parts` and `full` are words."""
    number, exponent = mantissa(parts, bits) * weight, exponent_of(parts, bits, base) + weight_exponent
    number, exponent = add(number, exponent, -mantissa(full, bits), exponent_of(full, bits, base))
    if number < 0.0:
        return to_word(-number, exponent, bits, base, lowest) | 1
    return to_word(number, exponent, bits, base, lowest) & ~1


@kernel
def divide(size, phase, first_group, last_group, parts, layout, weights, tables):
    """P(S,R) = Σ_{K⊆R, K∋min R} L(S,K) P(S,R∖K) and X(S,R) for |S| = size, R as in `connect`.

    X = c P − B, and c P where S is no separator.
    """
    n, bits, base, lowest = layout.n, layout.bits, layout.base, layout.lowest
    everything = (1 << n) - 1
    begins = layout.first[n, size]
    sets = layout.first[n, size + 1] - begins
    sums, codes = empty(LANES, np.float64), empty(LANES, np.int64)
    for group in range(first_group, last_group):
        start = layout.offset[layout.masks[begins + group * LANES]] // LANES
        for part in parts:
            low = part & -part
            rest = part ^ low
            sum_products(
                tables.links,
                tables.parts,
                uint64(start + low),
                uint64(start),
                uint64(rest),
                uint64(bits),
                sums,
                codes,
            )
            for lane in range(min(LANES, sets - group * LANES)):
                s = layout.masks[begins + group * LANES + lane]
                r = unname(part, everything ^ s, layout)
                if (r >> (n - 1)) & 1 != phase:
                    continue
                word = to_word(sums[lane], codes[lane] + 2 * base, bits, base, lowest)
                tables.parts[LANES * (start + part) + lane] = uint64(word)
                here = across_of(s, size, r, mask_size(r, layout), layout)
                bounded = weights.inverse[s] == 0.0 or size == layout.width  # no full component: B = 0
                full = 0 if bounded else np.int64(tables.x[here])
                x = _net(weights.clique[s], weights.clique_exponent[s], word, full, bits, base, lowest)
                tables.x[here] = uint64(x)


@kernel
def divide_properly(size, group, star, layout, weights, tables, proper, none):
    """Writes L°(S,·) = (L − F/s)(S,·) and P°(S,R) = Σ_{K∋min R} L°(S,K) P°(S,R∖K) for a group of sets S.

    P° sums the partitions without a full component. `proper` and `none` are of LANES · 2^(n-|S|) words. If
    the last variable is the star of marks, `star`, it does not count: S = A ∪ star has the components of A.
    """
    n, bits, base, lowest = layout.n, layout.bits, layout.base, layout.lowest
    begins = layout.first[n, size]
    lanes = min(LANES, layout.first[n, size + 1] - begins - group * LANES)
    start = layout.offset[layout.masks[begins + group * LANES]] // LANES
    sums, codes = empty(LANES, np.float64), empty(LANES, np.int64)
    # P°(S,∅) = 1; R in increasing order, so that P°(S,R∖K) is known for every K.
    for lane in range(lanes):
        none[lane] = uint64(to_word(1.0, 0, bits, base, lowest))
    for part in range(1, 1 << (n - size)):
        for lane in range(lanes):
            s = layout.masks[begins + group * LANES + lane]
            at = LANES * (start + part) + lane
            link = np.int64(tables.links[at])
            if star and (s >> (n - 1)) & 1:
                r = unname(part, ((1 << n) - 1) ^ s, layout)
                if not r & weights.required[n - 1]:  # all real: F(A ∪ star,K) = 0, and K may be full for A
                    s ^= 1 << (n - 1)
                    at = layout.offset[s] + LANES * part
            own = np.int64(tables.f[at]) if mask_size(s, layout) < layout.width else 0
            number, exponent = proper_link(link, own, s, layout, weights)
            proper[LANES * part + lane] = uint64(to_word(number, exponent, bits, base, lowest))
        low = part & -part
        rest = part ^ low
        sum_products(proper, none, uint64(low), uint64(0), uint64(rest), uint64(bits), sums, codes)
        for lane in range(lanes):
            none[LANES * part + lane] = uint64(
                to_word(sums[lane], codes[lane] + 2 * base, bits, base, lowest)
            )


@kernel
def proper_link(link, own, s, layout, weights):
    """Returns L°(S,K) = L − F/s as a number and an exponent, from the words of L and F."""
    bits, base = layout.bits, layout.base
    highest = exponent_of(link, bits, base)
    number, exponent = add(
        mantissa(link, bits),
        highest,
        -mantissa(own, bits) * weights.inverse[s],
        exponent_of(own, bits, base) + weights.inverse_exponent[s],
    )
    # The difference of equal numbers is a rounding error.
    if link and number * power(max(-1022, exponent - highest)) > 1e-13:
        return number, exponent
    return 0.0, 0
