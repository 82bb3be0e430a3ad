"""The recurrences of `kernels.recurrence` in numpy, for few variables: the same g, to the bit.

All pairs (C,U) with the same |C| and |U| are finished at once, in arrays with an axis for U and one for the C
outside it. There are no blocks: every split is formed; and F always has a table, with the layout of g.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.backends.dp.plan import LANES
from jtsolve.core.lazy_kernels import LazyKernels
from jtsolve.core.renaming import rename, renaming_tables, subsets_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from jtsolve.backends.dp.plan import TablePlan
    from jtsolve.backends.dp.ranks import RankTables
    from jtsolve.backends.dp.scores import LocalTables

KERNELS = LazyKernels("jtsolve.backends.dp.kernels.recurrence")
_SECONDS_PER_STEP, _SECONDS_PER_CELL, _SECONDS_PER_SPLIT = 1.5e-4, 3e-7, 5e-9
"""Measured on one core of an Intel Xeon (Sapphire Rapids)."""
_AT_ONCE = 1 << 18
"""Maximum number of splits formed at once."""


def seconds(plan: TablePlan) -> float:
    """Returns the predicted processor seconds of `layers`."""
    tables = [(entry.roots * entry.tables, entry.elements) for entry in plan.classes]
    splits = sum(count * 3.0**elements for count, elements in tables) / 2
    cells = sum(count * 2.0**elements for count, elements in tables)
    steps = plan.m * min(plan.m, plan.width)
    return _SECONDS_PER_STEP * steps + _SECONDS_PER_CELL * cells + _SECONDS_PER_SPLIT * splits


def layers(
    ranks: RankTables, local: LocalTables, offset: NDArray[np.int64], g: NDArray[Any]
) -> Iterator[int]:
    """Fills g by the size of U; yields each size once it is finished.

    Args:
        ranks: of the sets.
        local: the scores.
        offset: the offset of g(C,·), see `table_offsets`; -1 for sets that are not cliques.
        g: shape (cells,), filled here.
    """
    m = ranks.m
    F = np.empty_like(g)
    known = offset >= 0
    g[offset[known]] = 0  # g(C,∅) = 0
    F[offset[known]] = local.clique[known]  # F(S,∅) = s(S)
    everything = np.arange(1 << m, dtype=np.int64)
    for size in range(1, m + 1):
        us = everything[np.bitwise_count(everything) == size]
        most = us.size * min(ranks.masks.size, 1 << m - size) << size
        for some in np.array_split(us, -(-most // _AT_ONCE)):
            order = np.argsort(~some[:, None] >> np.arange(m) & 1, axis=1, kind="stable")
            inside, outside = order[:, :size], order[:, size:]
            # g(C∖c, U) comes before g(C,U).
            for width in range(min(ranks.width, m - size) + 1):
                chosen = np.array(list(combinations(range(m - size), width)), np.int64)
                _finish(some[:, None], inside, outside[:, chosen], ranks, local, offset, g, F)
        yield size


def _finish(  # noqa: PLR0917 - as a kernel
    us: NDArray[np.int64],
    inside: NDArray[np.int64],
    members: NDArray[np.int64],
    ranks: RankTables,
    local: LocalTables,
    offset: NDArray[np.int64],
    g: NDArray[Any],
    F: NDArray[Any],
) -> None:
    """Finishes g(C,U) and F(C,U) for N sets U and R sets C outside each of them, with the root and without.

    Args:
        us: shape (N, 1): U.
        inside: shape (N, |U|): the members of U, increasing.
        members: shape (N, R, |C|): the members of C, increasing.
        ranks: see `RankTables`.
        local: see `LocalTables`.
        offset: see `table_offsets`.
        g: see `kernels.recurrence`.
        F: the same.
    """
    position, lowest = ranks.position, local.lowest
    sets = np.bitwise_or.reduce(1 << members, axis=2)
    width = members.shape[2]
    renamed = rename(us, ~sets & (1 << ranks.m) - 1, renaming_tables())
    best = np.full(sets.shape, lowest, g.dtype)
    for root in range(min(2, ranks.width - width + 1)):  # g(C,U) ≥ g(C∖root, U)
        own = position[sets]
        table = offset[root, own]
        f = np.full(sets.shape, lowest, g.dtype)
        rest = renamed
        for v in inside.T[:, :, None] if width + root < ranks.width else ():
            lower = (rest & -rest) - 1
            cell = renamed >> 1 & ~lower | renamed & lower  # U∖v, renamed outside C∪v
            np.maximum(f, F[offset[root, position[sets | 1 << v]] + cell * LANES], out=f)
            rest = rest & rest - 1
        np.maximum(best, f - local.separator[root, own], out=best)
        for nth in range(width):
            c = members[:, :, nth]
            lower = (1 << c - nth) - 1
            cell = (renamed & ~lower) << 1 | renamed & lower  # U, renamed outside C∖c
            np.maximum(best, g[offset[root, position[sets ^ 1 << c]] + cell * LANES], out=best)
        if width + root > 1:
            _raise_to_splits(best, table, renamed, inside.shape[1], g)
        best[best < local.threshold] = lowest
        g[table + renamed * LANES] = best
        total = np.maximum(best + local.clique[root, own], f)
        F[table + renamed * LANES] = np.where(total < local.threshold, lowest, total)


def _raise_to_splits(
    best: NDArray[Any], table: NDArray[np.int64], renamed: NDArray[np.int64], size: int, g: NDArray[Any]
) -> None:
    """Raises best to max_{∅ ⊊ R ⊊ U} g(C,R) + g(C, U∖R), the largest of the |U| members in R."""
    parts = subsets_of(renamed, size - 1)[1:]  # U∖R
    if parts.size:
        splits = g[table + parts * LANES] + g[table + (renamed ^ parts) * LANES]
        np.maximum(best, splits.max(axis=0), out=best)
