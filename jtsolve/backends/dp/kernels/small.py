"""The dynamic programming for a few variables: LANES small problems at once, in parts of a millisecond.

`fill` has the recurrences of `kernels.recurrence`; the last variable is the root, which no U holds.

The operands of each maximum depend only on the number of variables and the width. A `Schedule` lists them
once (`dp.batch`). Each of its numbers stands for LANES problems side by side, so every step is a vector
operation.

A problem with fewer variables than the schedule has the highest of them; sets with the others have no score.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import uint64

from jtsolve.backends.dp.kernels.lanes import LANES, SHIFT, raise_to, raise_to_splits
from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty, zeros

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
        "shrunk",  # shape (*,), int32: the cells of the pairs (C∖c, U)
        "shrunk_end",  # shape (E,), int64
        "last",  # shape (m + 1,), int32: for each number of variables, the pair ({root}, others)
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


@kernel(inline="always")
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
    own = zeros(variables, np.float64)
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
    return bonus * covered.size - own.sum()


@kernel(allocates=False)
def fill(schedule, clique, separator, F, g):
    """Fills F and g of all pairs, each of shape (E · LANES,); see `lay_out_scores` for the scores.

    f(S,U) = max_{v ∈ U} F(S∪v, U∖v)
    g(C,U) = max(f(C,U) − s(C), max_{c ∈ C} g(C∖c, U), max_{R ⊊ U} g(C,R) + g(C,U∖R)),   g(C,∅) = 0
    F(S,U) = max(f(S,U), s(S) + g(S,U)),   F(S,∅) = s(S)

    R holds the largest member of U; sets C of one member need no splits.
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
            raise_to(F, at, uint64(schedule.grown[i]) << uint64(SHIFT))
        for lane in range(LANES):
            g[goal + lane] = F[(pair << SHIFT) + lane] - separator[scores + lane]
        for i in range(less, schedule.shrunk_end[pair]):
            raise_to(g, uint64(goal), uint64(schedule.shrunk[i]) << uint64(SHIFT))
        mask = schedule.sets[c]
        more, less = schedule.grown_end[pair], schedule.shrunk_end[pair]
        largest = 1
        while largest <= renamed_u >> 1:
            largest <<= 1
        if renamed_u != largest and mask & (mask - 1):
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


@kernel(inline="always")
def trace_cliques(schedule, lane, others, clique, separator, g, cliques, parents):
    """Writes the cliques of an optimal tree and their parents (-1 for the first); returns their number.

    The variables are the root and `others`. Each maximum is recomputed on the way. The first clique attached
    by S = C replaces C. Parents come before their children.
    """
    nodes = empty(2 * schedule.m, np.int64)  # of the parts still to place: the node each is attached to,
    tops = empty(2 * schedule.m, np.int64)  # the set C for which its value was computed,
    parts = empty(2 * schedule.m, np.int64)  # and U
    root = 1 << (schedule.m - 1)
    _, top = _best_clique(schedule, lane, clique, g, root, others, False)
    cliques[0], parents[0] = top, -1
    used = waiting = 1
    nodes[0], tops[0], parts[0] = 0, top, others & ~top
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
        cliques: shape (B, m), int64: written; the cliques as masks over the variables of the schedule.
        parents: shape (B, m), int64: written; see `trace_cliques`.
        counts: shape (B,), int64: written; the number of cliques, 0 where no tree was traced.
    """
    count, pairs = schedule.sets.size, schedule.node.size
    clique, separator = zeros(count * LANES, np.float64), zeros(count * LANES, np.float64)
    F, g = empty(pairs * LANES, np.float64), empty(pairs * LANES, np.float64)
    added = zeros(LANES, np.float64)
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
    fill(schedule, clique, separator, F, g)
    for i in range(sizes.size):
        optima[i] = F[schedule.last[sizes[i]] * LANES + i] - added[i]
        counts[i] = 0
        if optima[i] > targets[i]:
            missing = schedule.m - sizes[i]
            others = ((1 << (schedule.m - 1)) - 1) >> missing << missing
            counts[i] = trace_cliques(schedule, i, others, clique, separator, g, cliques[i], parents[i])
