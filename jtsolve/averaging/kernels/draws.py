"""Independent graphs from the posterior: each choice in proportion to its term in the sums."""

from __future__ import annotations

import numpy as np

from jtsolve.averaging.kernels.random import uniform
from jtsolve.averaging.kernels.sums import NO_SEPARATOR, cell_of
from jtsolve.averaging.kernels.words import LANES, exponent_of, mantissa, power
from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.renaming import rename


@kernel
def _product(one, other, layout, exponent):
    """Returns the product of two words divided by 2^exponent."""
    if one == 0 or other == 0:
        return 0.0
    bits, base = layout.bits, layout.base
    shift = exponent_of(one, bits, base) + exponent_of(other, bits, base) - exponent
    return mantissa(one, bits) * mantissa(other, bits) * power(min(shift, 1000))


@kernel
def _part(table, s, r, forced, scale, state, layout, tables):
    """Draws K ⊆ R that holds `forced` in proportion to table(S,K) P(S,R∖K).

    `scale` is an exponent near that of the sum. The total is found in a first pass: it is P(S,R) or B(S,R) up
    to rounding.
    """
    others = ((1 << layout.n) - 1) ^ s
    begins = layout.offset[s]
    whole, low = rename(r, others, layout), rename(forced, others, layout)
    rest = whole ^ low
    total = 0.0
    for turn in range(2):
        left = total * uniform(state) if turn else 0.0
        chosen = -1
        part = rest
        while True:
            one = np.int64(table[begins + LANES * (part | low)])
            other = np.int64(tables.parts[begins + LANES * (rest ^ part)])
            term = _product(one, other, layout, scale)
            if turn == 0:
                total += term
            elif term > 0.0:
                chosen = part | low
                left -= term
                if left < 0.0:
                    break
            if part == 0:
                break
            part = (part - 1) & rest
    # The name of the part is turned back into a set, a member at a time.
    found, place, v = 0, 0, 0
    while chosen >> place:
        if others >> v & 1:
            if chosen >> place & 1:
                found |= 1 << v
            place += 1
        v += 1
    return found


@kernel
def _neighbourhood(s, k, state, layout, weights, tables):
    """Draws Q ⊆ S in proportion to F(Q,K)/s(Q)."""
    bits, base = layout.bits, layout.base
    link = np.int64(tables.links[cell_of(s, k, layout)])
    scale = exponent_of(link, bits, base)
    left = mantissa(link, bits) * uniform(state)
    chosen = 0
    q = s
    while True:
        if layout.offset[q] >= 0 and weights.inverse[q] != 0.0:
            cell = cell_of(q, k, layout)
            word = np.int64(tables.f[cell]) if cell < tables.f.size else 0
            if word:
                shift = exponent_of(word, bits, base) + weights.inverse_exponent[q] - scale
                chosen = q
                left -= mantissa(word, bits) * weights.inverse[q] * power(min(shift, 1000))
                if left < 0.0:
                    break
        if q == 0:
            break
        q = (q - 1) & s
    return chosen


@kernel
def _complete_weight(s, r, layout, weights, tables):
    """Returns c(S) P(S,R), and B(S,R) if S may not be a separator (else 0), with an exponent for both."""
    bits, base = layout.bits, layout.base
    if layout.offset[s] < 0 or weights.clique[s] == 0.0:
        alone, exponent = 0.0, -(1 << 40)
    else:
        word = np.int64(tables.parts[cell_of(s, r, layout)])
        alone = mantissa(word, bits) * weights.clique[s]
        exponent = exponent_of(word, bits, base) + weights.clique_exponent[s] if word else -(1 << 40)
    if layout.offset[s] < 0 or weights.kind[s] != NO_SEPARATOR:
        return alone, 0.0, exponent
    others = ((1 << layout.n) - 1) ^ s
    begins = layout.offset[s]
    whole = rename(r, others, layout)
    highest = exponent
    for turn in range(2):
        full = 0.0
        part = whole
        while part:
            cell = begins + LANES * part
            one = np.int64(tables.f[cell]) if cell < tables.f.size else 0
            other = np.int64(tables.parts[begins + LANES * (whole ^ part)])
            if one and other:
                if turn == 0:
                    highest = max(highest, exponent_of(one, bits, base) + exponent_of(other, bits, base))
                else:
                    full += _product(one, other, layout, highest)
            part = (part - 1) & whole
    return alone * power(max(-1023, exponent - highest)), full, highest


FRESH, PROPOSED, GROWING = 0, 1, 2
"""Stages of a pair (S, R) on the stack, R to be connected with the neighbourhood S.

FRESH: weigh the v ∈ R. PROPOSED: draw v, make it adjacent to S, and partition R ∖ v below S ∪ v. GROWING:
grow the parts, each a pair on the stack; those first of which the number of v ∈ R adjacent to all of S
depends.
"""


@kernel
def _weigh(s, r, alone, full, layout, weights, tables):
    """Writes the sums over the graphs on S ∪ R in which S ∪ v is complete, v ∈ R; only min R if S = ∅."""
    n = layout.n
    shifts = np.zeros(n, np.int64)
    highest = -(1 << 41)
    for v in range(n):
        alone[v] = full[v] = 0.0
        if r >> v & 1 and (s or r & -r == 1 << v):
            alone[v], full[v], shifts[v] = _complete_weight(s | 1 << v, r ^ (1 << v), layout, weights, tables)
            if alone[v] + full[v] > 0.0:
                highest = max(highest, shifts[v])
    for v in range(n):
        factor = power(max(-1023, shifts[v] - highest)) if alone[v] + full[v] > 0.0 else 0.0
        alone[v] *= factor
        full[v] *= factor


@kernel
def _propose(s, r, alone, full, rows, state):
    """Draws v, makes it adjacent to S, and clears R; returns v, and whether a part must be full."""
    left = (alone.sum() + full.sum()) * uniform(state)
    v = -1
    for u in range(alone.size):
        if alone[u] + full[u] > 0.0:
            v = u
            left -= alone[u] + full[u]
            if left < 0.0:
                break
    for u in range(alone.size):
        if r >> u & 1:
            rows[u] = 0
        elif s >> u & 1:
            rows[u] = (rows[u] & ~r) | 1 << v
    rows[v] = s
    return v, full[v] > 0.0 and (full[v] + alone[v]) * uniform(state) < full[v]


@kernel
def _partition(s, r, must, one_full, parts, seps, state, layout, weights, tables):
    """Partitions R below a complete S, and draws the neighbourhood of each part; returns how many there are.

    Returns -1 as soon as a neighbourhood does not hold `must`, a set. `one_full`: the first part has the
    neighbourhood S.
    """
    count = 0
    while r:
        if one_full:
            _, _, scale = _complete_weight(s, r, layout, weights, tables)
            k = _part(tables.f, s, r, 0, scale, state, layout, tables)
            q = s
            one_full = False
        else:
            word = np.int64(tables.parts[cell_of(s, r, layout)])
            scale = exponent_of(word, layout.bits, layout.base)
            k = _part(tables.links, s, r, r & -r, scale, state, layout, tables)
            q = _neighbourhood(s, k, state, layout, weights, tables)
        if must & ~q:
            return -1
        parts[count], seps[count] = k, q
        count += 1
        r &= ~k
    return count


@kernel
def _full_first(s, count, parts, seps):
    """Moves the parts with the neighbourhood S to the front; returns how many they are."""
    front = 0
    for i in range(count):
        if seps[i] == s:
            k, q = parts[i], seps[i]
            parts[i], seps[i] = parts[front], seps[front]
            parts[front], seps[front] = k, q
            front += 1
    return front


@kernel
def draw_graphs(state, layout, weights, tables, graphs):
    """Draws graphs; returns the proposals for connected parts, and the number of such parts.

    R is connected iff every part of R ∖ v has v in its neighbourhood, which shows before the parts are grown.
    Of the vertices of R, only v and some in the parts with the neighbourhood S ∪ v are adjacent to all of S:
    the others are grown after a proposal is accepted.

    Args:
        state: see `random`.
        layout: see `sums`; as weights and tables. No set may be a separator that may not be a clique.
        weights: see there.
        tables: see there.
        graphs: shape (count, n), int64: the neighbours of each vertex; written.
    """
    n = layout.n
    proposals = np.zeros(2, np.int64)
    depth = n + 2
    frames = np.zeros((7, depth), np.int64)
    stage, first, second, counts, checked, following, chosen = frames
    parts, seps = np.zeros((depth, n), np.int64), np.zeros((depth, n), np.int64)
    alone, full, luck = np.zeros((depth, n)), np.zeros((depth, n)), np.zeros(depth)
    for i in range(graphs.shape[0]):
        rows = graphs[i]
        rows[:] = 0
        top, everything = 0, (1 << n) - 1
        first[0], second[0], checked[0], following[0] = 0, everything, 0, 0
        stage[0] = FRESH
        if weights.kind[0] != NO_SEPARATOR:
            stage[0] = GROWING
            counts[0] = _partition(0, everything, 0, False, parts[0], seps[0], state, layout, weights, tables)
        while top >= 0:
            s, r = first[top], second[top]
            if stage[top] == FRESH:
                _weigh(s, r, alone[top], full[top], layout, weights, tables)
                proposals[1] += 1
                stage[top] = PROPOSED
            if stage[top] == PROPOSED:
                proposals[0] += 1
                v, one_full = _propose(s, r, alone[top], full[top], rows, state)
                below = s | 1 << v
                counts[top] = _partition(
                    below,
                    r ^ (1 << v),
                    1 << v,
                    one_full,
                    parts[top],
                    seps[top],
                    state,
                    layout,
                    weights,
                    tables,
                )
                if counts[top] < 0:
                    continue
                stage[top], following[top], chosen[top] = GROWING, 0, v
                luck[top] = uniform(state)
                checked[top] = _full_first(below, counts[top], parts[top], seps[top]) if s else 0
            if 0 < following[top] <= checked[top]:
                adjacent = 0
                for u in range(n):
                    if r >> u & 1 and rows[u] & s == s:
                        adjacent += 1
                if luck[top] * adjacent >= 1.0:
                    stage[top] = PROPOSED
                    continue
            if following[top] == counts[top]:
                top -= 1
                continue
            nth = following[top]
            following[top] += 1
            top += 1
            stage[top], first[top], second[top] = FRESH, seps[top - 1, nth], parts[top - 1, nth]
    return proposals
