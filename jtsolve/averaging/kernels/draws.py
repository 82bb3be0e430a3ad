"""Independent graphs from the posterior: each choice in proportion to its term in the sums.

The choices of a pair (S, R), with the sums of their terms up to each, are kept: the next draw that comes to
the pair looks its choice up. In a posterior of few likely graphs, nearly all do.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from jtsolve.averaging.kernels.random import uniform
from jtsolve.averaging.kernels.sums import NO_SEPARATOR, cell_of
from jtsolve.averaging.kernels.words import LANES, exponent_of, mantissa, power
from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.renaming import rename, unname

PART, FULL_PART, NEIGHBOURHOOD, VERTEX = 0, 1, 2, 3
"""What is chosen for a pair (S, R): see `_list`."""

SLOTS = 1 << 15
"""Pairs whose choices are kept."""

NEGLIGIBLE = 2.0**-60
"""Choices of a smaller share, of the scale of their sum, are left out."""

Memory = namedtuple(
    "Memory",
    [
        "keys",  # shape (SLOTS,): a pair and what is chosen, plus 1; 0 for none
        "begins",  # shape (SLOTS,): its first choice
        "ends",  # shape (SLOTS + 1,): behind its last; last, the beginning of the list that is being made
        "choices",  # shape (entries,)
        "sums",  # shape (entries,): of the terms up to a choice's own
        "used",  # [slots, entries]
    ],
)


@kernel
def _product(one, other, layout, exponent):
    """Returns the product of two words divided by 2^exponent."""
    if one == 0 or other == 0:
        return 0.0
    bits, base = layout.bits, layout.base
    shift = exponent_of(one, bits, base) + exponent_of(other, bits, base) - exponent
    return mantissa(one, bits) * mantissa(other, bits) * power(min(shift, 1000))


@kernel
def _note(choice, term, memory):
    """Appends a choice to the list that is being made, the last."""
    if term < NEGLIGIBLE:
        return
    at = memory.used[1]
    before = memory.sums[at - 1] if at > memory.ends[-1] else 0.0
    memory.choices[at], memory.sums[at] = choice, before + term
    memory.used[1] = at + 1


@kernel
def _list_parts(table, s, r, forced, scale, layout, tables, memory):
    """Lists the K ⊆ R that hold `forced`, renamed within V ∖ S, with table(S,K) P(S,R∖K) / 2^scale."""
    others = ((1 << layout.n) - 1) ^ s
    begins = layout.offset[s]
    whole, low = rename(r, others, layout), rename(forced, others, layout)
    rest = whole ^ low
    part = rest
    while True:
        cell = begins + LANES * (part | low)
        one = np.int64(table[cell]) if cell < table.size else 0
        other = np.int64(tables.parts[begins + LANES * (rest ^ part)])
        _note(part | low, _product(one, other, layout, scale), memory)
        if part == 0:
            break
        part = (part - 1) & rest


@kernel
def _list_neighbourhoods(s, k, layout, weights, tables, memory):
    """Lists the Q ⊆ S, with F(Q,K)/s(Q) divided by about L(S,K)."""
    bits, base = layout.bits, layout.base
    scale = exponent_of(np.int64(tables.links[cell_of(s, k, layout)]), bits, base)
    q = s
    while True:
        if layout.offset[q] >= 0 and weights.inverse[q] != 0.0:
            cell = cell_of(q, k, layout)
            word = np.int64(tables.f[cell]) if cell < tables.f.size else 0
            if word:
                shift = exponent_of(word, bits, base) + weights.inverse_exponent[q] - scale
                _note(q, mantissa(word, bits) * weights.inverse[q] * power(min(shift, 1000)), memory)
        if q == 0:
            break
        q = (q - 1) & s


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


@kernel
def _list_vertices(s, r, layout, weights, tables, memory):
    """Lists the v ∈ R, with the sum over the graphs on S ∪ R in which S ∪ v is complete; only min R if S = ∅.

    The choice is 2v, and 2v + 1 for those of the graphs in which S ∪ v, no separator, has a full part.
    """
    highest = -(1 << 41)
    for turn in range(2):
        for v in range(layout.n):
            if r >> v & 1 and (s or r & -r == 1 << v):
                alone, full, exponent = _complete_weight(s | 1 << v, r ^ (1 << v), layout, weights, tables)
                if alone + full == 0.0:
                    continue
                if turn == 0:
                    highest = max(highest, exponent)
                else:
                    factor = power(max(-1023, exponent - highest))
                    _note(2 * v, alone * factor, memory)
                    _note(2 * v + 1, full * factor, memory)


@kernel
def _list(kind, s, r, layout, weights, tables, memory):
    """Lists the choices for a pair.

    PART: a K ⊆ R that holds min R, of a partition of R below S. FULL_PART: a K ⊆ R with the neighbourhood S,
    one of the full ones. NEIGHBOURHOOD: a Q ⊆ S, of the connected R. VERTEX: see `_list_vertices`.
    """
    if kind == PART:
        word = np.int64(tables.parts[cell_of(s, r, layout)])
        scale = exponent_of(word, layout.bits, layout.base)
        _list_parts(tables.links, s, r, r & -r, scale, layout, tables, memory)
    elif kind == FULL_PART:
        _, _, scale = _complete_weight(s, r, layout, weights, tables)
        _list_parts(tables.f, s, r, 0, scale, layout, tables, memory)
    elif kind == NEIGHBOURHOOD:
        _list_neighbourhoods(s, r, layout, weights, tables, memory)
    else:
        _list_vertices(s, r, layout, weights, tables, memory)


@kernel
def _choose(kind, s, r, state, layout, weights, tables, memory):
    """Draws a choice for a pair in proportion to its term."""
    if 2 * memory.used[0] > SLOTS or memory.used[1] + (2 << layout.n) > memory.choices.size:
        memory.keys[:] = 0
        memory.used[:] = 0
    key = ((s << layout.n | r) << 2 | kind) + 1
    slot = (key * 691752902764108185 >> 20) & (SLOTS - 1)
    while memory.keys[slot] and memory.keys[slot] != key:
        slot = (slot + 1) & (SLOTS - 1)
    if memory.keys[slot] == 0:
        memory.begins[slot] = memory.ends[-1] = memory.used[1]
        _list(kind, s, r, layout, weights, tables, memory)
        memory.keys[slot], memory.ends[slot] = key, memory.used[1]
        memory.used[0] += 1
    begin, end = memory.begins[slot], memory.ends[slot]
    aim = memory.sums[end - 1] * uniform(state)
    chosen = memory.choices[min(end - 1, begin + np.searchsorted(memory.sums[begin:end], aim, side="right"))]
    if kind <= FULL_PART:
        return unname(chosen, ((1 << layout.n) - 1) ^ s, layout)
    return chosen


FRESH, PROPOSED, GROWING = 0, 1, 2
"""Stages of a pair (S, R) on the stack, R to be connected with the neighbourhood S; FRESH at first.

PROPOSED: draw v, make it adjacent to S, and partition R ∖ v below S ∪ v. GROWING: grow the parts, each a
pair on the stack; those first of which the number of v ∈ R adjacent to all of S depends.
"""


@kernel
def _adjoin(v, s, r, rows):
    """Clears R, and makes v ∈ R adjacent to S."""
    for u in range(rows.size):
        if r >> u & 1:
            rows[u] = 0
        elif s >> u & 1:
            rows[u] = (rows[u] & ~r) | 1 << v
    rows[v] = s


@kernel
def _partition(s, r, must, one_full, parts, seps, state, layout, weights, tables, memory):
    """Partitions R below a complete S, and draws the neighbourhood of each part; returns how many there are.

    Returns -1 as soon as a neighbourhood does not hold `must`, a set. `one_full`: the first part has the
    neighbourhood S.
    """
    count = 0
    while r:
        kind = FULL_PART if one_full else PART  # a variable: for constants numba compiles variants
        k = _choose(kind, s, r, state, layout, weights, tables, memory)
        q = s
        if not one_full:
            q = _choose(NEIGHBOURHOOD, s, k, state, layout, weights, tables, memory)
        one_full = False
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
    frames = np.zeros((6, depth), np.int64)
    stage, first, second, counts, checked, following = frames
    parts, seps = np.zeros((depth, n), np.int64), np.zeros((depth, n), np.int64)
    luck = np.zeros(depth)
    entries = (1 << 20) + (8 << n)
    memory = Memory(
        np.zeros(SLOTS, np.int64),
        np.zeros(SLOTS, np.int64),
        np.zeros(SLOTS + 1, np.int64),
        np.empty(entries, np.int64),
        np.empty(entries),
        np.zeros(2, np.int64),
    )
    for i in range(graphs.shape[0]):
        rows = graphs[i]
        rows[:] = 0
        top, everything = 0, (1 << n) - 1
        first[0], second[0], checked[0], following[0] = 0, everything, 0, 0
        stage[0] = FRESH
        if weights.kind[0] != NO_SEPARATOR:
            stage[0] = GROWING
            counts[0] = _partition(
                first[0],
                second[0],
                checked[0],
                False,
                parts[0],
                seps[0],
                state,
                layout,
                weights,
                tables,
                memory,
            )
        while top >= 0:
            s, r = first[top], second[top]
            if stage[top] == FRESH:
                proposals[1] += 1
                stage[top] = PROPOSED
            if stage[top] == PROPOSED:
                proposals[0] += 1
                choice = _choose(VERTEX, s, r, state, layout, weights, tables, memory)
                v = choice >> 1
                _adjoin(v, s, r, rows)
                below = s | 1 << v
                counts[top] = _partition(
                    below,
                    r ^ (1 << v),
                    1 << v,
                    choice & 1 == 1,
                    parts[top],
                    seps[top],
                    state,
                    layout,
                    weights,
                    tables,
                    memory,
                )
                if counts[top] < 0:
                    continue
                stage[top], following[top] = GROWING, 0
                luck[top] = uniform(state)
                checked[top] = _full_first(below, counts[top], parts[top], seps[top]) if s else 0
            if following[top] <= checked[top] and s:
                adjacent = checked[top] - following[top]  # one at least in each
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
