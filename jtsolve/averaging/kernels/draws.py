"""Independent graphs from the posterior: each choice in proportion to its term in the sums.

A choice of which the total is known is looked for term by term, those that are often large first. Once as
many terms have been looked at as a pair (S, R) has, they are listed with the sums of all up to each, and
looked up from then on: in a posterior of few likely graphs, nearly all are. In one of many, most pairs are
new; then the time goes into the cliques C of S ∪ R that hold S, whose words therefore lie side by side.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import int64, uint64

from jtsolve.averaging.kernels.random import uniform
from jtsolve.averaging.kernels.sums import NO_SEPARATOR, cell_of, divide_properly, proper_link, size_of
from jtsolve.averaging.kernels.words import LANES, exponent_of, mantissa, pack, power
from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.renaming import rename, unname

PART, NEIGHBOURHOOD, CLIQUE = 0, 1, 2
"""Kinds of choices for a pair (S, R): see `_scan` and `_list_cliques`."""

SLOTS = 1 << 15
"""Pairs that are remembered."""

KEY, BEGIN, END, SPENT = 0, 1, 2, 3
"""A pair and what is chosen, plus 1, or 0 for none; its first choice, or 0 if they are not listed; behind its
last; how many terms have been looked at."""

NEGLIGIBLE = 2.0**-60
"""Choices of a smaller share, of the scale of their sum, are left out of lists."""

UNLIKELY = 1e-15
"""Groups of sets of which none is a clique with this probability are never drawn."""

Alone = namedtuple("Alone", ["words", "begins"])
"""The words of c(S) P°(S,R), by S ∪ R, then by S renamed within it as in `layout.masks`; shape (2^n,): where
those of a union begin."""

Memory = namedtuple(
    "Memory",
    [
        "slots",  # shape (SLOTS, 4), of pairs: see `KEY`
        "choices",  # shape (entries,)
        "sums",  # shape (entries,): of the terms up to a choice's own
        "found",  # shape (2^n,): words, while a list is made
        "used",  # [slots, entries]; the first entry is of no list
        "order",  # shape (2^(n+1),): at 2^m, the subsets of m, the smallest and the largest first
    ],
)


@kernel
def _place_of(s, r, layout, none):
    """Returns where c(S) P°(S,R) is."""
    whole = s | r
    within = layout.first[size_of(whole, layout), size_of(s, layout)]
    return none.begins[whole] + within + layout.rank[rename(s, whole, layout)]


@kernel
def prepare(size, first_group, last_group, total, layout, weights, tables, none):
    """Writes c(S) P°(S,·) of the S of one size to `none`; see `divide_properly`.

    `total` is (number, exponent) of Z. Of S that are hardly ever cliques, it is left 0.
    """
    n, bits, base, lowest = layout.n, layout.bits, layout.base, layout.lowest
    begins = layout.first[n, size]
    sets = layout.first[n, size + 1] - begins
    everything = (1 << n) - 1
    cells = LANES << (n - size)
    proper, parts = np.zeros(cells, np.uint64), np.zeros(cells, np.uint64)
    for group in range(first_group, last_group):
        start = layout.offset[layout.masks[begins + group * LANES]]
        highest = 0.0
        for lane in range(min(LANES, sets - group * LANES)):
            s = layout.masks[begins + group * LANES + lane]
            word = np.int64(tables.parts[start + cells - LANES + lane])
            exponent = exponent_of(word, bits, base) + weights.clique_exponent[s] - total[1]
            share = mantissa(word, bits) * weights.clique[s] / total[0] * power(min(exponent, 64))
            highest = max(highest, share)
        if highest > UNLIKELY:
            divide_properly(size, group, layout, weights, tables, proper, parts)
            for lane in range(min(LANES, sets - group * LANES)):
                s = layout.masks[begins + group * LANES + lane]
                factor, shift = weights.clique[s], weights.clique_exponent[s]
                for part in range(1 << (n - size)):
                    word = np.int64(parts[LANES * part + lane])
                    word = pack(
                        mantissa(word, bits) * factor,
                        exponent_of(word, bits, base) + shift,
                        bits,
                        base,
                        lowest,
                    )
                    none.words[_place_of(s, unname(part, everything ^ s, layout), layout, none)] = uint64(
                        word
                    )


@kernel
def _proper(s, cell, layout, weights, tables):
    """Returns L°(S,K) as a number and an exponent, K by its cell."""
    own = np.int64(tables.f[cell]) if cell < tables.f.size else 0
    return proper_link(np.int64(tables.links[cell]), own, s, layout, weights)


@kernel
def _total(kind, s, r, layout, weights, tables, none):
    """Returns the number of choices for a pair, and the sum of their terms as a number and an exponent."""
    if kind == NEIGHBOURHOOD:
        number, exponent = _proper(s, cell_of(s, r, layout), layout, weights, tables)
        return 1 << size_of(s, layout), number, exponent
    word = np.int64(none.words[_place_of(s, r, layout, none)] if s else tables.parts[cell_of(s, r, layout)])
    return (
        1 << (size_of(r, layout) - 1),
        mantissa(word, layout.bits),
        exponent_of(word, layout.bits, layout.base),
    )


@kernel
def _scan(kind, s, r, aim, scale, layout, weights, tables, none, memory):
    """Lists the choices for a pair, if `aim` is negative; else goes on until their terms exceed it.

    PART: a K ⊆ R that holds min R, of a partition of R below S: c(S) L°(S,K) P°(S,R∖K), or L(∅,K) P(∅,R∖K).
    NEIGHBOURHOOD: a Q ⊊ S, of the connected R: F(Q,R)/s(Q). Terms are divided by 2^scale.

    Returns:
        The choice, and how many terms were looked at.
    """
    bits, base = layout.bits, layout.base
    listing = aim < 0.0
    at, total, found = memory.used[1], 0.0, 0
    low = r & -r if kind == PART else 0
    among = r ^ low if kind == PART else s
    count = 1 << size_of(among, layout)
    others, begins = ((1 << layout.n) - 1) ^ s, layout.offset[s]
    for nth in range(count):
        choice = low | unname(memory.order[count + nth], among, layout)
        number, exponent, word = 0.0, 0, np.int64(0)
        if kind == NEIGHBOURHOOD:
            if choice != s and weights.inverse[choice] != 0.0:
                number, exponent = weights.inverse[choice], weights.inverse_exponent[choice]
                word = np.int64(tables.f[cell_of(choice, r, layout)])
        elif s:
            word = np.int64(none.words[_place_of(s, r ^ choice, layout, none)])
            if word:
                cell = begins + LANES * rename(choice, others, layout)
                number, exponent = _proper(s, cell, layout, weights, tables)
        else:
            word, link = np.int64(tables.parts[LANES * (r ^ choice)]), np.int64(tables.links[LANES * choice])
            number, exponent = mantissa(link, bits), exponent_of(link, bits, base)
        if word == 0 or number == 0.0:
            continue
        exponent += exponent_of(word, bits, base) - scale
        term = number * mantissa(word, bits) * power(min(exponent, 1000))
        if listing:
            if term >= NEGLIGIBLE:
                total += term
                memory.choices[at], memory.sums[at] = choice, total
                at += 1
        elif term > 0.0:
            found = choice
            aim -= term
            if aim < 0.0:
                return found, nth + 1
    if listing:
        memory.used[1] = at
    return found, count  # by rounding


@kernel
def _list_cliques(s, r, layout, none, memory):
    """Lists the C = S ∪ D, ∅ ≠ D ⊆ R, D ∋ min R if S = ∅, renamed within S ∪ R, and c(C) P°(C,R∖D)."""
    bits = layout.bits
    whole = s | r
    own = rename(s or r & -r, whole, layout)
    rest = rename(whole, whole, layout) ^ own
    first = layout.first[size_of(whole, layout)]
    row = none.words[none.begins[whole] : none.begins[whole] + first[layout.width + 1]]
    begin = at = memory.used[1]
    highest, part = np.int64(0), rest
    while True:
        clique = own | part
        size = size_of(clique, layout)
        if size <= layout.width and (part or not s):
            word = np.int64(row[first[size] + layout.rank[clique]])
            if word:
                memory.choices[at], memory.found[at - begin] = clique, word
                highest = word if word > highest else highest
                at += 1
        if part == 0:
            break
        part = (part - 1) & rest
    total, kept, reference = 0.0, begin, highest >> bits
    for i in range(begin, at):
        word = memory.found[i - begin]
        term = mantissa(word, bits) * power(max(-1023, (word >> bits) - reference))
        if term >= NEGLIGIBLE:
            total += term
            memory.choices[kept], memory.sums[kept] = memory.choices[i], total
            kept += 1
    memory.used[1] = kept


@kernel
def _choose(kind, s, r, state, layout, weights, tables, none, memory):
    """Draws a choice for a pair in proportion to its term."""
    if kind == PART and r & (r - 1) == 0:
        return r
    if 2 * memory.used[0] > SLOTS or memory.used[1] + (2 << layout.n) > memory.choices.size:
        memory.slots[:], memory.used[0], memory.used[1] = 0, 0, 1
    key = ((s << layout.n | r) << 2 | kind) + 1
    at = (key * 691752902764108185 >> 20) & (SLOTS - 1)
    while memory.slots[at, KEY] and memory.slots[at, KEY] != key:
        at = (at + 1) & (SLOTS - 1)
    slot = memory.slots[at]
    if slot[KEY] == 0:
        slot[KEY] = key
        memory.used[0] += 1
    if slot[BEGIN] == 0:
        begin = memory.used[1]
        if kind == CLIQUE:
            _list_cliques(s, r, layout, none, memory)
        else:
            count, number, scale = _total(kind, s, r, layout, weights, tables, none)
            aim = number * uniform(state) if slot[SPENT] < count else -1.0
            found, looked = _scan(kind, s, r, aim, scale, layout, weights, tables, none, memory)
            if aim >= 0.0:
                slot[SPENT] += looked
                return found
        slot[BEGIN], slot[END] = begin, memory.used[1]
    begin, end = slot[BEGIN], slot[END]
    aim = memory.sums[end - 1] * uniform(state)
    found = memory.choices[min(end - 1, begin + np.searchsorted(memory.sums[begin:end], aim, side="right"))]
    return unname(found, s | r, layout) if kind == CLIQUE else found


@kernel
def _partition(c, r, s, mark, luck, parts, seps, state, layout, weights, tables, none, memory):
    """Partitions R below the clique C, and draws the neighbourhood of each part; returns how many there are.

    Returns -1 as soon as a neighbourhood is within `s`, or more cliques hold `mark` than `luck` allows. The
    parts of which some cliques hold `mark` come first; second, their number.
    """
    count, front = 0, 0
    while r:
        # int64(…): numba compiles a variant for each constant.
        k, q = _choose(int64(PART), c, r, state, layout, weights, tables, none, memory), 0
        if c:
            q = _choose(int64(NEIGHBOURHOOD), c, k, state, layout, weights, tables, none, memory)
            if q & ~s == 0:
                return -1, 0
        parts[count], seps[count] = k, q
        if c and q & mark == mark:
            parts[count], seps[count] = parts[front], seps[front]
            parts[front], seps[front] = k, q
            front += 1
            if luck * (1 + front) >= 1.0:
                return -1, 0
        count += 1
        r &= ~k
    return count, front


PROPOSING, GROWING = 0, 1
"""Stages of a pair (S, R) on the stack, R to be connected with the neighbourhood S.

PROPOSING: draw a clique C ⊋ S, and partition the rest of R below it. GROWING: grow the parts, each a pair on
the stack; those first of which the number of cliques depends that hold S.
"""


@kernel
def draw_graphs(state, layout, weights, tables, none, order, graphs):
    """Draws graphs; returns the proposals for connected parts, and the number of such parts.

    R is connected iff no part of R ∖ C has its neighbourhood within S.

    Args:
        state: see `random`.
        layout: see `sums`; as weights and tables.
        weights: see there.
        tables: see there.
        none: see `Alone`; as `prepare` wrote it.
        order: see `Memory`.
        graphs: shape (count, n), int64: the neighbours of each vertex, 0 as yet; written.
    """
    n = layout.n
    proposals = np.zeros(2, np.int64)
    depth = n + 2
    frames = np.zeros((7, depth), np.int64)
    stage, first, second, counts, checked, following, begins = frames
    parts, seps = np.zeros((depth, n), np.int64), np.zeros((depth, n), np.int64)
    luck = np.zeros(depth)
    cliques = np.zeros(n + 1, np.int64)
    entries = (1 << 20) + (4 << n)
    memory = Memory(
        np.zeros((SLOTS, 4), np.int64),
        np.empty(entries, np.int64),
        np.empty(entries),
        np.empty(1 << n, np.int64),
        np.array([0, 1]),
        order,
    )
    everything = (1 << n) - 1
    for i in range(graphs.shape[0]):
        top, size = 0, 0
        stage[0], following[0], counts[0] = GROWING, 0, 1
        parts[0, 0], seps[0, 0] = everything, 0
        if weights.kind[0] != NO_SEPARATOR:
            no = int64(0)
            counts[0], _ = _partition(
                no, everything, no, no, 0.0, parts[0], seps[0], state, layout, weights, tables, none, memory
            )
        while top >= 0:
            s, r = first[top], second[top]
            mark = s or r & -r
            if stage[top] == PROPOSING:
                proposals[0] += 1
                clique = _choose(int64(CLIQUE), s, r, state, layout, weights, tables, none, memory)
                size = begins[top] + 1
                cliques[size - 1] = clique
                luck[top] = uniform(state)
                counts[top], checked[top] = _partition(
                    clique,
                    r & ~clique,
                    s,
                    mark,
                    luck[top],
                    parts[top],
                    seps[top],
                    state,
                    layout,
                    weights,
                    tables,
                    none,
                    memory,
                )
                if counts[top] < 0:
                    continue
                stage[top], following[top] = GROWING, 0
            if top and 0 < following[top] <= checked[top]:
                holding = checked[top] - following[top]  # one at least in each
                for j in range(begins[top], size):
                    holding += cliques[j] & mark == mark
                if luck[top] * holding >= 1.0:
                    stage[top] = PROPOSING
                    continue
            if following[top] == counts[top]:
                top -= 1
                continue
            s, r = seps[top, following[top]], parts[top, following[top]]
            following[top] += 1
            if r & (r - 1) == 0:  # one vertex
                cliques[size] = s | r
                size += 1
                continue
            top += 1
            proposals[1] += 1
            stage[top], first[top], second[top], begins[top] = PROPOSING, s, r, size
        for j in range(size):
            for u in range(n):
                if cliques[j] >> u & 1:
                    graphs[i, u] |= cliques[j] & ~(1 << u)
    return proposals
