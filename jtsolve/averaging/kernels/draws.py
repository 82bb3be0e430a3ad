"""Independent graphs from the posterior: each choice in proportion to its term in the sums.

Before the first draw, the tables are rearranged so that the terms of one choice lie side by side: parts of R
by the clique C below which they are, neighbourhoods Q by the part K, cliques by S ∪ R.

A choice with a known total is found by a scan of its terms, small and large sets in turn. Once the scans of a
pair (S, R) have read as many terms as it has, its terms are listed with cumulative sums for later choices.
In a posterior of few likely graphs, nearly all choices use lists. In one of many, most pairs are new, and
listing the cliques of S ∪ R that contain S costs half of the time.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import int64, uint64

from jtsolve.averaging.kernels.random import uniform
from jtsolve.averaging.kernels.sums import cell_at, divide_properly, mask_size
from jtsolve.averaging.kernels.words import LANES, exponent_of, mantissa, power, to_word
from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import copy_onto, empty, zeros
from jtsolve.core.kernels.renaming import rename, unname

PART, NEIGHBOURHOOD, CLIQUE = 0, 1, 2
"""Kinds of choices for a pair (S, R): see `_scan` and `_list_cliques`."""

SLOTS = 1 << 14
"""Capacity of the table of pairs."""

KEY, BEGIN, END, SPENT = 0, 1, 2, 3
"""A pair and its kind of choice, plus 1, or 0 for none; the first entry of its list, or 0 without a list; the
end of the list; the number of terms read so far."""

NEGLIGIBLE = 2.0**-60
"""Choices of a smaller share, of the scale of their sum, are left out of lists."""

UNLIKELY = 1e-15
"""Groups of sets without a clique of this probability are never drawn."""

Terms = namedtuple(
    "Terms",
    [
        "links",  # L°(C,K), at part_offset[C] + K renamed within V ∖ C; L(∅,K)
        "parts",  # P°(C,R), likewise; P(∅,R)
        "part_offset",  # shape (2^n,)
        "joints",  # F(Q,K)/s(Q), at joint_offset[K] + position of Q renamed within V ∖ K
        "joint_offset",  # shape (2^n,)
        "small",  # shape (2^n,): the position of a set among those of less than w members, by mask
        "cliques",  # c(C) P°(C,R), at clique_offset[C ∪ R] + position of C renamed within C ∪ R
        "clique_offset",  # shape (2^n,)
        "bounded",  # shape (2^n,): the position of a set among those of at most w members; -1 of others
    ],
)
"""The words of the terms, by kind of choice."""

Memory = namedtuple(
    "Memory",
    [
        "slots",  # shape (SLOTS, 4), of pairs: see `KEY`
        "choices",  # shape (entries,)
        "sums",  # shape (entries,): of the terms up to a choice's own
        "found",  # shape (2^n,): words, while a list is made
        "used",  # [slots, entries]; the first entry belongs to no list
    ],
)


@kernel
def arrange_parts(size, first_group, last_group, total, layout, weights, tables, terms):
    """Puts L°(C,·) and P°(C,·) in the place of L and P, for groups of sets C of one size; see `Terms`.

    `total` is (number, exponent) of Z. P° is 0 for C that are hardly ever cliques.
    """
    n, bits, base = layout.n, layout.bits, layout.base
    begins = layout.first[n, size]
    sets = layout.first[n, size + 1] - begins
    count = 1 << (n - size)
    cells = LANES * count
    proper, none = zeros(cells, np.uint64), zeros(cells, np.uint64)
    for group in range(first_group, last_group):
        start = layout.offset[layout.masks[begins + group * LANES]]
        links, parts = terms.links[start : start + cells], terms.parts[start : start + cells]
        # A clique is complete: groups without a set that is likely to be complete need no P°.
        highest = 0.0
        for lane in range(min(LANES, sets - group * LANES)):
            s = layout.masks[begins + group * LANES + lane]
            word = np.int64(parts[cells - LANES + lane])
            exponent = exponent_of(word, bits, base) + weights.clique_exponent[s] - total[1]
            share = mantissa(word, bits) * weights.clique[s] / total[0] * power(min(exponent, 64))
            highest = max(highest, share)
        if size == 0:
            copy_onto(proper, links)
            copy_onto(none, parts)
        elif highest > UNLIKELY:
            divide_properly(size, group, False, layout, weights, tables, proper, none)
        else:
            none[:] = 0
        # From lanes side by side to one set after the other, in the same place.
        for lane in range(LANES):
            copy_onto(links[lane * count :], proper[lane::LANES])
            copy_onto(parts[lane * count :], none[lane::LANES])


@kernel
def arrange_joints(first, last, layout, weights, tables, joints, joint_offset, small):
    """Writes F(Q,K)/s(Q) for the K from `first` to `last` - 1; see `Terms`."""
    bits, base, lowest = layout.bits, layout.base, layout.lowest
    everything = (1 << layout.n) - 1
    for k in range(max(1, first), last):
        others = everything ^ k
        q = 0
        for name in range(1 << mask_size(others, layout)):
            if mask_size(name, layout) < layout.width:
                word = np.int64(tables.f[cell_at(q, k, layout)])
                exponent = exponent_of(word, bits, base) + weights.inverse_exponent[q]
                number = mantissa(word, bits) * weights.inverse[q]
                joints[joint_offset[k] + small[name]] = uint64(to_word(number, exponent, bits, base, lowest))
            q = (q - others) & others


@kernel
def arrange_cliques(size, first, last, layout, weights, terms):
    """Writes c(C) P°(C,·) for the sets C of one size from `first` to `last` - 1; see `Terms`."""
    n, bits, base, lowest = layout.n, layout.bits, layout.base, layout.lowest
    everything = (1 << n) - 1
    for nth in range(first, last):
        c = layout.masks[layout.first[n, size] + nth]
        begins = terms.part_offset[c]
        factor, shift = weights.clique[c], weights.clique_exponent[c]
        if terms.parts[begins] == 0 or factor == 0.0:
            continue
        others = everything ^ c
        r = 0
        for name in range(1 << (n - size)):
            word = np.int64(terms.parts[begins + name])
            word = to_word(
                mantissa(word, bits) * factor, exponent_of(word, bits, base) + shift, bits, base, lowest
            )
            whole = c | r
            terms.cliques[terms.clique_offset[whole] + terms.bounded[rename(c, whole, layout)]] = uint64(word)
            r = (r - others) & others


@kernel(allocates=False)
def _around(kind, s, r, layout):
    """Returns the set within which a choice is renamed."""
    if kind == CLIQUE:
        return s | r
    return ((1 << layout.n) - 1) ^ (s if kind == PART else r)


@kernel(allocates=False)
def _total(kind, s, r, layout, terms):
    """Returns the number of choices for a pair, and the word of the sum of their terms."""
    at = terms.part_offset[s] + rename(r, ((1 << layout.n) - 1) ^ s, layout)
    if kind == NEIGHBOURHOOD:
        return 1 << mask_size(s, layout), np.int64(terms.links[at])
    return 1 << (mask_size(r, layout) - 1), np.int64(terms.parts[at])


@kernel(allocates=False)
def _scan(kind, s, r, aim, scale, layout, terms, memory):
    """Lists the choices for a pair if `aim` is negative; otherwise scans until the sum of terms exceeds it.

    PART: a K ⊆ R that contains min R, in a partition of R below S: L°(S,K) P°(S,R∖K), or L(∅,K) P(∅,R∖K).
    NEIGHBOURHOOD: a Q ⊊ S, of the connected R: F(Q,R)/s(Q). Terms are divided by 2^scale.

    Returns:
        The choice, and the number of terms read.
    """
    bits, base = layout.bits, layout.base
    links, parts, joints, small = terms.links, terms.parts, terms.joints, terms.small
    choices, sums = memory.choices, memory.sums
    listing = aim < 0.0
    at, total, found = memory.used[1], 0.0, 0
    among = rename(r if kind == PART else s, _around(kind, s, r, layout), layout)
    begins = terms.part_offset[s] if kind == PART else terms.joint_offset[r]
    low = among & -among if kind == PART else 0
    rest = among ^ low
    count = 1 << mask_size(rest, layout)
    # `part` counts up through the subsets of `rest`, and its complement down: small and large sets in turn.
    part = 0
    for nth in range(count):
        choice = low | (rest ^ part if nth & 1 else part)
        if nth & 1:
            part = (part - rest) & rest
        if kind == PART:
            first, second = np.int64(links[begins + choice]), np.int64(parts[begins + (among ^ choice)])
        elif choice != among:
            first, second = np.int64(joints[begins + small[choice]]), np.int64(-base) << bits  # times 1
        else:
            continue
        if first == 0 or second == 0:
            continue
        exponent = exponent_of(first, bits, base) + exponent_of(second, bits, base) - scale
        term = mantissa(first, bits) * mantissa(second, bits) * power(min(exponent, 1000))
        if listing:
            if term >= NEGLIGIBLE:
                total += term
                choices[at], sums[at] = choice, total
                at += 1
        elif term > 0.0:
            found = choice
            aim -= term
            if aim < 0.0:
                return found, nth + 1
    if listing:
        memory.used[1] = at
    return found, count  # by rounding


@kernel(allocates=False)
def _list_cliques(s, r, layout, terms, memory):
    """Lists the C = S ∪ D, ∅ ≠ D ⊆ R, D ∋ min R if S = ∅, renamed within S ∪ R, and c(C) P°(C,R∖D)."""
    bits = layout.bits
    choices, sums, found = memory.choices, memory.sums, memory.found
    cliques, bounded = terms.cliques, terms.bounded
    whole = s | r
    own = rename(s or r & -r, whole, layout)
    rest = rename(whole, whole, layout) ^ own
    row = terms.clique_offset[whole]
    begin = at = memory.used[1]
    highest, part = np.int64(0), rest
    while True:
        clique = own | part
        position = bounded[clique]
        if position >= 0 and (part or not s):
            word = np.int64(cliques[row + position])
            if word:
                choices[at], found[at - begin] = clique, word
                highest = max(highest, word)
                at += 1
        if part == 0:
            break
        part = (part - 1) & rest
    # Terms are scaled by the largest, and the negligible ones dropped from the list.
    total, kept, reference = 0.0, begin, highest >> bits
    for i in range(begin, at):
        word = found[i - begin]
        term = mantissa(word, bits) * power(max(-1023, (word >> bits) - reference))
        if term >= NEGLIGIBLE:
            total += term
            choices[kept], sums[kept] = choices[i], total
            kept += 1
    memory.used[1] = kept


@kernel(allocates=False)
def _choose(kind, s, r, state, layout, terms, memory):
    """Draws a choice for a pair in proportion to its term."""
    if kind == PART and r & (r - 1) == 0:
        return r
    if 2 * memory.used[0] > SLOTS or memory.used[1] + (2 << layout.n) > memory.choices.size:
        memory.slots[:], memory.used[0], memory.used[1] = 0, 0, 1
    # An open hash table of the pairs met so far.
    slots, sums = memory.slots, memory.sums
    key = ((s << layout.n | r) << 2 | kind) + 1
    at = (key * 691752902764108185 >> 20) & (SLOTS - 1)
    while slots[at, KEY] and slots[at, KEY] != key:
        at = (at + 1) & (SLOTS - 1)
    if slots[at, KEY] == 0:
        slots[at, KEY] = key
        memory.used[0] += 1
    if slots[at, BEGIN] == 0:
        begin = memory.used[1]
        if kind == CLIQUE:
            _list_cliques(s, r, layout, terms, memory)
        else:
            count, word = _total(kind, s, r, layout, terms)
            # Scans until they have read as many terms as the pair has; then a list pays.
            aim = mantissa(word, layout.bits) * uniform(state) if slots[at, SPENT] < count else -1.0
            scale = exponent_of(word, layout.bits, layout.base)
            found, terms_read = _scan(kind, s, r, aim, scale, layout, terms, memory)
            if aim >= 0.0:
                slots[at, SPENT] += terms_read
                return unname(found, _around(kind, s, r, layout), layout)
        slots[at, BEGIN], slots[at, END] = begin, memory.used[1]
    low, high = slots[at, BEGIN], slots[at, END] - 1
    aim = sums[high] * uniform(state)
    while low < high:  # the first sum above it
        middle = (low + high) >> 1
        if sums[middle] > aim:
            high = middle
        else:
            low = middle + 1
    return unname(memory.choices[low], _around(kind, s, r, layout), layout)


@kernel(allocates=False)
def _partition(c, r, s, mark, luck, parts, seps, state, layout, terms, memory):
    """Partitions R below the clique C, and draws the neighbourhood of each part; returns how many there are.

    Returns -1 as soon as a neighbourhood is within `s`, or more cliques hold `mark` than `luck` allows. Parts
    with a clique that holds `mark` come first; the second value is their number.
    """
    count, front = 0, 0
    while r:
        # int64(…): numba compiles a variant for each constant.
        k, q = _choose(int64(PART), c, r, state, layout, terms, memory), 0
        if c:
            q = _choose(int64(NEIGHBOURHOOD), c, k, state, layout, terms, memory)
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
the stack; first those that determine the number of cliques that contain S.
"""


@kernel(allocates=False)
def _draw(state, connected, layout, terms, memory, frames, pieces, luck, cliques):
    """Writes the cliques of one graph; returns their number."""
    stage, first, second, counts, checked, following, begins = frames
    parts, seps = pieces
    everything = (1 << layout.n) - 1
    top, size = 0, 0
    stage[0], following[0], counts[0] = GROWING, 0, 1
    parts[0, 0], seps[0, 0] = everything, 0
    if not connected:
        no = int64(0)
        counts[0], _ = _partition(
            no, everything, no, no, 0.0, parts[0], seps[0], state, layout, terms, memory
        )
    while top >= 0:
        s, r = first[top], second[top]
        mark = s or r & -r
        if stage[top] == PROPOSING:
            clique = _choose(int64(CLIQUE), s, r, state, layout, terms, memory)
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
                terms,
                memory,
            )
            if counts[top] < 0:
                continue
            stage[top], following[top] = GROWING, 0
        # Counts the cliques that hold S: those so far and at least one for each part that may have one. Once
        # they exceed 1 / luck, the proposal is rejected.
        if top and 0 < following[top] <= checked[top]:
            holding = checked[top] - following[top]  # at least one in each
            for j in range(begins[top], size):
                holding += cliques[j] & mark == mark
            if luck[top] * holding >= 1.0:
                stage[top] = PROPOSING
                continue
        if following[top] == counts[top]:  # all parts are grown: the pair is done
            top -= 1
            continue
        s, r = seps[top, following[top]], parts[top, following[top]]
        following[top] += 1
        if r & (r - 1) == 0:  # one vertex
            cliques[size] = s | r
            size += 1
            continue
        top += 1
        stage[top], first[top], second[top], begins[top] = PROPOSING, s, r, size
    return size


@kernel
def draw_graphs(state, connected, layout, terms, graphs):
    """Draws graphs.

    R is connected iff no part of R ∖ C has its neighbourhood within S.

    Args:
        state: see `random`.
        connected: whether all graphs are connected.
        layout, terms: see `sums`.
        graphs: shape (count, n), int64: the neighbours of each vertex, 0 as yet; written.
    """
    n = layout.n
    depth = n + 2
    frames, pieces = zeros((7, depth), np.int64), zeros((2, depth, n), np.int64)
    luck, cliques = zeros(depth, np.float64), zeros(n + 1, np.int64)
    entries = (1 << 17) + (4 << n)
    memory = Memory(
        zeros((SLOTS, 4), np.int64),
        empty(entries, np.int64),
        empty(entries, np.float64),
        empty(1 << n, np.int64),
        np.array([0, 1]),
    )
    for i in range(graphs.shape[0]):
        size = _draw(state, connected, layout, terms, memory, frames, pieces, luck, cliques)
        for j in range(size):
            for u in range(n):
                if cliques[j] >> u & 1:
                    graphs[i, u] |= cliques[j] & ~(1 << u)
