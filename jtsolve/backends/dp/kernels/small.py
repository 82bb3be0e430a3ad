"""The dynamic programming for a few variables: LANES small problems at once, in parts of a millisecond.

`fill` has the recurrences of `kernels.recurrence`; the last variable is the root, which no U holds.

The operands of each maximum depend only on the number of variables and the width. A `Schedule` lists them
once, and each of its numbers stands for LANES problems side by side, so every step is a vector operation.

A problem with fewer variables than the schedule is padded with lowest variables that score 0 alone and have
no score together with others: each is a clique by itself.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import uint64

from jtsolve.backends.dp.kernels.lanes import LANES, SHIFT, raise_to, raise_to_splits
from jtsolve.core.compiling import kernel

Schedule = namedtuple(
    "Schedule",
    [
        "m",  # the number of variables
        "sets",  # shape (K,), int64: the sets of at most `width` variables as masks, increasing: colex order
        "rank",  # shape (2^m,), int64: the position of a set in `sets`; -1 for a larger one
        "base",  # shape (K,), int64: where g(C,·) begins; U is renamed, see `renamed`
        "node",  # shape (E,), int64: for each pair (C,U), in the order of |U|, C, U, the position of C
        "cell",  # shape (E,), int64: the position of its g(C,U); that of U = ∅ is the first of g(C,·)
        "grown",  # shape (*,), int32: the pairs (C∪v, U∖v)
        "grown_end",  # shape (E,), int64: the end of those of a pair, and the beginning of those of the next
        "shrunk",  # shape (*,), int32: the pairs (C∖c, U)
        "shrunk_end",  # shape (E,), int64
        "last",  # the pair ({root}, all others), whose F is the optimum
    ],
)


@kernel
def renamed(u, c, m):
    """Returns U, a subset of the m variables outside C, with those variables renamed 0, 1, 2, …."""
    name, result = 0, 0
    for v in range(m):
        if not c >> v & 1:
            result |= (u >> v & 1) << name
            name += 1
    return result


@kernel
def _size(mask):
    size = 0
    while mask:
        mask &= mask - 1
        size += 1
    return size


@kernel
def schedule(m, width):
    """Returns the schedule for m ≥ 1 variables and cliques of at most `width`."""
    rank = np.full(1 << m, -1, np.int64)
    sets = np.empty(1 << m, np.int64)
    count = 0
    for mask in range(1 << m):
        if _size(mask) <= width:
            rank[mask] = count
            sets[count] = mask
            count += 1
    sets = sets[:count].copy()
    free = 1 << (m - 1)  # the masks U are below it
    base = np.empty(count, np.int64)
    pairs = 0
    for c in range(count):
        base[c] = pairs
        pairs += free >> _size(sets[c] & (free - 1))
    number = np.full((count, free), -1, np.int32)
    node, cell, rest = np.empty(pairs, np.int64), np.empty(pairs, np.int64), np.empty(pairs, np.int64)
    done = 0
    for layer in range(m):
        for c in range(count):
            for u in range(free):
                if u & sets[c] == 0 and _size(u) == layer:
                    node[done], rest[done] = c, u
                    cell[done] = base[c] + renamed(u, sets[c], m - 1)
                    number[c, u] = done
                    done += 1
    grown, grown_end = np.empty(pairs * m, np.int32), np.empty(pairs, np.int64)
    shrunk, shrunk_end = np.empty(pairs * width, np.int32), np.empty(pairs, np.int64)
    more = less = 0
    for pair in range(pairs):
        mask, u = sets[node[pair]], rest[pair]
        for v in range(m):
            if mask >> v & 1:
                shrunk[less] = number[rank[mask ^ 1 << v], u]
                less += 1
            elif u >> v & 1 and _size(mask) < width:
                grown[more] = number[rank[mask | 1 << v], u ^ 1 << v]
                more += 1
        grown_end[pair], shrunk_end[pair] = more, less
    last = number[rank[free], free - 1]
    return Schedule(
        m,
        sets,
        rank,
        base,
        node,
        cell,
        grown[:more].copy(),
        grown_end,
        shrunk[:less].copy(),
        shrunk_end,
        last,
    )


@kernel
def lay_out_scores(lane, schedule, order, variables, values, covered, clique, separator):
    """Writes a problem's scores into a lane; returns the amount added to the score of every covering tree.

    s(v) is subtracted from s(A) for each v ∈ A, and a bonus larger than the difference of any two trees is
    added for each covered set within A.

    Args:
        lane: the lane of the problem.
        schedule: see `Schedule`.
        order: shape (K',), int64: the masks of the problem's own sets, increasing.
        variables: their number, at most that of the schedule.
        values: shape (K',): s(A), -inf for no score.
        covered: masks of the sets that some clique of the tree must contain.
        clique: shape (K · LANES,), written: s(C), -inf for no score.
        separator: shape (K · LANES,), written: s(S), inf for no score.
    """
    shift = schedule.m - variables
    own = np.zeros(variables)
    for v in range(variables):
        for a in range(order.size):
            if order[a] == 1 << v and values[a] > -np.inf:
                own[v] = values[a]
    for c in range(schedule.sets.size):
        clique[c * LANES + lane] = -np.inf
        separator[c * LANES + lane] = np.inf
    high = 0.0
    for a in range(order.size):
        value = values[a]
        if value > -np.inf:
            for v in range(variables):
                if order[a] >> v & 1:
                    value -= own[v]
            high = max(high, abs(value))
            at = schedule.rank[order[a] << shift] * LANES + lane
            clique[at] = separator[at] = value
    bonus = 4 * variables * high + 1.0
    for mask in covered:
        for c in range(schedule.sets.size):
            if schedule.sets[c] & (mask << shift) == mask << shift:
                clique[c * LANES + lane] += bonus
                separator[c * LANES + lane] += bonus  # inf stays inf, and -inf above stays -inf
    for v in range(shift):
        at = schedule.rank[1 << v] * LANES + lane
        clique[at] = separator[at] = 0.0
    return bonus * covered.size - own.sum()


@kernel(allocates=False)
def fill(schedule, clique, separator, F, H, g):
    """Fills F, H and g of all pairs, each of shape (E · LANES,); see `lay_out_scores` for the scores.

    f(S,U) = max_{v ∈ U} F(S∪v, U∖v)
    H(C,U) = max(f(C,U) − s(C), max_{c ∈ C} H(C∖c, U))
    g(C,U) = max(H(C,U), max_{R ⊊ U} g(C,R) + g(C,U∖R)),   R holds the largest member of U
    F(S,U) = max(f(S,U), s(S) + g(S,U)),   F(S,∅) = s(S),   g(C,∅) = 0
    """
    more = less = 0
    for pair in range(schedule.node.size):
        at = uint64(pair) << uint64(SHIFT)
        c = schedule.node[pair]
        scores = c << SHIFT
        cell = schedule.cell[pair]
        renamed_u = cell - schedule.base[c]
        goal = cell << SHIFT
        for lane in range(LANES):
            F[(pair << SHIFT) + lane] = -np.inf if renamed_u else clique[scores + lane]
        if renamed_u == 0:
            for lane in range(LANES):
                g[goal + lane] = 0.0
            more, less = schedule.grown_end[pair], schedule.shrunk_end[pair]
            continue
        for i in range(more, schedule.grown_end[pair]):
            raise_to(F, at, F, uint64(schedule.grown[i]) << uint64(SHIFT))
        for lane in range(LANES):
            H[(pair << SHIFT) + lane] = F[(pair << SHIFT) + lane] - separator[scores + lane]
        for i in range(less, schedule.shrunk_end[pair]):
            raise_to(H, at, H, uint64(schedule.shrunk[i]) << uint64(SHIFT))
        more, less = schedule.grown_end[pair], schedule.shrunk_end[pair]
        if c == 0:
            continue  # ∅ is not a clique
        for lane in range(LANES):
            g[goal + lane] = H[(pair << SHIFT) + lane]
        largest = 1
        while largest <= renamed_u >> 1:
            largest <<= 1
        if renamed_u != largest:
            rest = uint64(renamed_u ^ largest)
            raise_to_splits(g, uint64(goal), uint64(schedule.base[c]), uint64(largest), rest)
        for lane in range(LANES):
            total = clique[scores + lane] + g[goal + lane]
            F[(pair << SHIFT) + lane] = max(F[(pair << SHIFT) + lane], total)


@kernel(allocates=False)
def _part_value(schedule, lane, g, top, u):
    """Returns g(C,U) in a lane."""
    cell = schedule.base[schedule.rank[top]] + renamed(u, top, schedule.m - 1)
    return g[cell * LANES + lane]


@kernel(allocates=False)
def _best_clique(schedule, lane, clique, g, base, u, proper):
    """Returns max over S ⊆ C ⊆ S ∪ U (S ⊊ C if `proper`) of s(C) + g(C, U∖C), and C."""
    best, found = -np.inf, 0
    members = u
    while True:
        c = schedule.rank[base | members]
        if c > 0 and (members or not proper):
            value = clique[c * LANES + lane] + _part_value(schedule, lane, g, base | members, u ^ members)
            if value > best:
                best, found = value, base | members
        if members == 0:
            return best, found
        members = (members - 1) & u


@kernel
def trace_cliques(schedule, lane, clique, separator, g, cliques, parents):
    """Writes the cliques of an optimal tree and their parents (-1 for the first); returns their number.

    Each maximum is recomputed on the way. The first clique attached by S = C replaces C. Parents come before
    their children.
    """
    nodes = np.empty(2 * schedule.m, np.int64)  # of the parts still to place: the node each is attached to,
    tops = np.empty(2 * schedule.m, np.int64)  # the set C for which its value was computed,
    parts = np.empty(2 * schedule.m, np.int64)  # and U
    root = 1 << (schedule.m - 1)
    _, top = _best_clique(schedule, lane, clique, g, root, root - 1, False)
    cliques[0], parents[0] = top, -1
    used = waiting = 1
    nodes[0], tops[0], parts[0] = 0, top, (root - 1) & ~top
    while waiting:
        waiting -= 1
        node, top, u = nodes[waiting], tops[waiting], parts[waiting]
        if u == 0:
            continue
        best, base, below = -np.inf, 0, 0
        inside = top
        while True:
            value, found = _best_clique(schedule, lane, clique, g, inside, u, True)
            value -= separator[schedule.rank[inside] * LANES + lane]
            if value > best:
                best, base, below = value, inside, found
            if inside == 0:
                break
            inside = (inside - 1) & top
        largest = 1
        while largest <= u >> 1:
            largest <<= 1
        rest = u ^ largest
        cut = 0
        part = rest
        while part:
            part = (part - 1) & rest
            value = _part_value(schedule, lane, g, top, largest | part)
            value += _part_value(schedule, lane, g, top, rest ^ part)
            if value > best:
                best, cut = value, largest | part
        if cut:
            nodes[waiting], tops[waiting], parts[waiting] = node, top, cut
            nodes[waiting + 1], tops[waiting + 1], parts[waiting + 1] = node, top, u ^ cut
            waiting += 2
            continue
        if base == top == cliques[node]:
            cliques[node] = below
        else:
            cliques[used], parents[used] = below, node
            node = used
            used += 1
        nodes[waiting], tops[waiting], parts[waiting] = node, below, u & ~below
        waiting += 1
    return used


@kernel
def solve_lanes(schedule, sizes, orders, values, covered, targets, optima, cliques, parents, counts):
    """Solves at most LANES problems; traces a tree only where the optimum exceeds a target.

    Args:
        schedule: for as many variables as the largest problem.
        sizes: shape (B,), int64: the number of variables of each.
        orders: shape (B, K), int64: the masks of each problem's sets, increasing, padded with -1.
        values: shape (B, K): their scores in nats; -inf for no score.
        covered: shape (B, *), int64: masks of the sets that some clique must contain, padded with 0.
        targets: shape (B,), float64: in nats.
        optima: shape (B,), float64: written; in nats, without the bonus; -inf where there is no tree.
        cliques: shape (B, m), int64: written; the cliques as masks, shifted by the padding.
        parents: shape (B, m), int64: written; see `trace_cliques`.
        counts: shape (B,), int64: written; the number of cliques, 0 where no tree was traced.
    """
    count, pairs = schedule.sets.size, schedule.node.size
    clique, separator = np.zeros(count * LANES), np.zeros(count * LANES)
    F, H, g = np.empty(pairs * LANES), np.empty(pairs * LANES), np.empty(pairs * LANES)
    added = np.zeros(LANES)
    for i in range(sizes.size):
        known, needed = 0, 0
        while known < orders.shape[1] and orders[i, known] >= 0:
            known += 1
        while needed < covered.shape[1] and covered[i, needed]:
            needed += 1
        added[i] = lay_out_scores(
            i,
            schedule,
            orders[i, :known],
            sizes[i],
            values[i, :known],
            covered[i, :needed],
            clique,
            separator,
        )
    fill(schedule, clique, separator, F, H, g)
    for i in range(sizes.size):
        optima[i] = F[schedule.last * LANES + i] - added[i]
        counts[i] = 0
        if optima[i] > targets[i]:
            counts[i] = trace_cliques(schedule, i, clique, separator, g, cliques[i], parents[i])
