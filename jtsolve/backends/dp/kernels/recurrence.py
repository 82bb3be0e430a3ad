"""The recurrences of Kangas, Niinimäki and Koivisto (2014), in logarithms, on one table.

For disjoint C, U with |C| ≤ w, with the letters of the paper (section 3.3):

    f(S,U) = max_{S ⊊ C ⊆ S∪U} s(C) + g(C, U∖C)             the best subtree over S ∪ U below the separator S
    h(C,U) = max_{S ⊊ C} f(S,U) − s(S)                      the best subtree over U attached to the clique C
    g(C,U) = max over partitions {R_i} of U of Σ h(C,R_i)   everything below the clique C

`finish_g` fills g bottom up in the equivalent form with one member at a time (docs/dp.md proves it):

    f(S,U) = max_{v ∈ U} F(S∪v, U∖v)
    g(C,U) = max( f(C,U) − s(C),  max_{c ∈ C} g(C∖c, U),  max_{∅ ⊊ R ⊊ U} g(C,R) + g(C, U∖R) ),   g(C,∅) = 0
    F(S,U) = s(S) + g(S,U)

The last line holds where every subset of a clique may be clique and separator. Otherwise F is a second table,

    F(S,U) = max(f(S,U), s(S) + g(S,U)),   F(S,∅) = s(S).

`dp.ranks` explains how sets and tables are laid out. The splits of U that take most of the time, those in
which both parts reach outside the block of lowest variables, are in `partition`.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from jtsolve.backends.dp.plan import LANES
from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import zeros


@kernel(inline="always")
def _raise(f, table, begins, cell, gain):
    """Raises f to table(begins + cell) + gain, in all lanes."""
    for lane in range(LANES):
        value = f.dtype.type(table[begins[lane] + cell] + gain[lane])
        f[lane] = value if value > f[lane] else f[lane]


@kernel
def finish_g(tables, first_group, last_group, bits, highs, lows, ranks, local, offset, g, F, separate):
    """Finishes g(C,U), and F(C,U) if it has a table, once those of the neighbours are finished.

    Args:
        tables: shape (count,), int64: the C of one class, in order, without the root variable; each is
            processed without the root and, if |C| < w, with it.
        first_group: of the groups of LANES tables to process.
        last_group: one past the last of them.
        bits: number of variables of the block outside C.
        highs: shape (*,), int64: the parts of U outside the block, renamed; of equal size.
        lows: shape (*,), int64: the parts of U in the block, renamed; of equal size.
        ranks: see `RankTables`.
        local: see `LocalTables`.
        offset: shape (2, K): the offset of the table of g(C,·).
        g: all tables of g; the cells to finish hold the best splits of `partition`.
        F: its table, of the shape of g; g itself if it has none.
        separate: whether it has one.
    """
    width, m, position = ranks.width, ranks.m, ranks.position
    number = g.dtype.type
    lowest, threshold = local.lowest, local.threshold
    c = 0
    rest = tables[0]
    while rest:
        rest &= rest - 1
        c += 1
    roots, growing = min(2, width - c + 1), min(2, width - c)
    grown = zeros((2, m - c, LANES), np.uint64)  # where the table of C∪v begins
    gain = zeros((2, m - c, LANES), g.dtype)
    shrunk = zeros((2, c, LANES), np.uint64)  # where the table of C∖c begins
    place = zeros((c, LANES), np.uint64)  # number of variables outside C below the member
    clique, separator = zeros((2, LANES), g.dtype), zeros((2, LANES), g.dtype)
    f, best = zeros(LANES, g.dtype), zeros(LANES, g.dtype)
    for group in range(first_group, last_group):
        lanes = min(LANES, tables.size - group * LANES)
        for lane in range(lanes):
            mask = tables[group * LANES + lane]
            for root in range(roots):
                clique[root, lane] = local.clique[root, position[mask]]
                separator[root, lane] = local.separator[root, position[mask]]
            members = 0
            for e in range(m):
                if mask >> e & 1:
                    place[members, lane] = e - members
                    for root in range(roots):
                        shrunk[root, members, lane] = offset[root, position[mask ^ 1 << e]]
                    members += 1
                else:
                    v = e - members
                    for root in range(growing):
                        other = position[mask | 1 << e]
                        grown[root, v, lane] = offset[root, other]
                        gain[root, v, lane] = number(0) if separate else local.clique[root, other]
        for high in highs:
            for low in lows:
                u = high << bits | low
                for root in range(roots):
                    table = uint64(offset[root, position[tables[group * LANES]]])
                    cell = table + uint64(u * LANES)
                    f[:] = lowest
                    if root < growing:
                        for v in range(m - c):
                            if u >> v & 1:
                                smaller = u >> (v + 1) << v | u & ((1 << v) - 1)
                                _raise(f, F, grown[root, v], uint64(smaller * LANES), gain[root, v])
                    for lane in range(LANES):
                        f[lane] = f[lane] if f[lane] >= threshold else lowest
                        value = number(f[lane] - separator[root, lane])
                        best[lane] = value if root == 0 or value > best[lane] else best[lane]
                    for j in range(c):
                        for lane in range(LANES):
                            p = place[j, lane]
                            wider = uint64(u) >> p << (p + uint64(1)) | uint64(u) & (
                                (uint64(1) << p) - uint64(1)
                            )
                            value = g[shrunk[root, j, lane] + wider * uint64(LANES)]
                            best[lane] = value if value > best[lane] else best[lane]
                    if c + root > 1:  # a part beside another may hang below it if |C| ≤ 1
                        if high & (high - 1):
                            for lane in range(LANES):
                                value = g[cell + uint64(lane)]
                                best[lane] = value if value > best[lane] else best[lane]
                        part = low
                        while part:  # U∖R within the block
                            part = (part - 1) & low
                            if high or part:
                                left = table + uint64((high << bits | part) * LANES)
                                right = table + uint64((low ^ part) * LANES)
                                for lane in range(LANES):
                                    value = number(g[left + uint64(lane)] + g[right + uint64(lane)])
                                    best[lane] = value if value > best[lane] else best[lane]
                    for lane in range(LANES):
                        best[lane] = best[lane] if best[lane] >= threshold else lowest
                        g[cell + uint64(lane)] = best[lane]
                    if separate:
                        for lane in range(LANES):
                            total = number(best[lane] + clique[root, lane])
                            total = total if total > f[lane] else f[lane]
                            F[cell + uint64(lane)] = total if total >= threshold else lowest
