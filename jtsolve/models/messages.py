"""Message passing on clique tables stored in one array, in logarithms; see `layout.Layout`.

Messages are those of Jensen, Lauritzen and Olesen (Computational Statistics Quarterly 4, 1990): up to the
root, then down, divided by the upward message. Each is scaled by its largest entry, whose logarithm is
accumulated, so that products of a thousand small messages neither underflow nor lose digits. The members of
cliques and separators are sorted. A message is therefore an array with one axis for each member of the
clique, of length 1 outside the separator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.models.layout import CellGroups, Layout

_SMALL = 1 << 10
"""Average number of cells of a clique below which all cliques at a distance from the root are processed at a
time; above, one clique after the other is as fast, and needs no positions of cells."""

_LEAST = -np.finfo(np.float64).max
"""A logarithm below all others but -inf."""


def separator_sums(values: NDArray[np.float64], layout: Layout) -> list[NDArray[np.float64]]:
    """Returns the table of each separator to the parent, summed from the clique, and the total for the root.

    `values` has shape (cells,).
    """
    return [
        layout.table(values, place).sum(axis=own.axes, keepdims=True) for place, own in enumerate(layout.own)
    ]


def families(values: NDArray[np.float64], layout: Layout) -> tuple[NDArray[np.float64], float]:
    """Returns the tables of a junction tree as factors, and their largest disagreement.

    Args:
        values: the marginals of the cliques, shape (cells,).
        layout: of the tables.

    Returns:
        ln P(C) - ln P(S) for every cell of every clique, -inf where P(C) is 0, where the table of the
        separator S to the parent is summed from C; and its largest difference from the same table summed from
        the parent.
    """
    if is_fine(layout):
        cells, sizes = layout.inward.between(0, len(layout.cliques))
        sums, others = (sums_of(values, one) for one in (layout.inward, layout.outward))
        shares, whole = values[cells], np.repeat(sums, sizes)
        np.divide(shares, whole, out=shares, where=whole > 0)  # 0 / 0 is 0
        logs = np.empty_like(values)
        with np.errstate(divide="ignore"):
            logs[cells] = np.log(shares)
        return logs, float(np.abs(sums - others)[1:].max(initial=0.0))
    shares = values.copy()
    largest = 0.0
    for place, separator in enumerate(separator_sums(values, layout)):
        table = layout.table(shares, place)
        np.divide(table, separator, out=table, where=separator > 0)  # 0 / 0 is 0
        if place:
            above = layout.table(values, layout.parent[place]).sum(axis=layout.above[place].axes)
            largest = max(largest, float(np.abs(separator.reshape(above.shape) - above).max()))
    with np.errstate(divide="ignore"):
        return np.log(shares, out=shares), largest


@np.errstate(divide="ignore")
def propagate(values: NDArray[np.float64], layout: Layout) -> float:
    """Turns log factors, in place, into logarithms of clique marginals; returns ln of the partition function.

    `values` has shape (cells,). Each table sums to 1 up to rounding. Returns -inf, with undefined values, if
    the product of the factors is 0 everywhere.
    """
    if is_fine(layout):
        return _propagate_by_levels(values, layout)
    tables = [layout.table(values, place) for place in range(len(layout.cliques))]
    up: list[NDArray[np.float64]] = [np.empty(0)] * len(tables)
    total = 0.0
    for place in reversed(range(len(tables))):
        message = _log_sum(tables[place], layout.own[place].axes)
        largest = float(message.max())
        if largest == -np.inf:
            return largest
        total += largest
        message -= largest
        tables[place] -= largest
        up[place] = message
        if place:
            tables[layout.parent[place]] += message.reshape(layout.above[place].dims)
    for place in range(1, len(tables)):
        down = _log_sum(tables[layout.parent[place]], layout.above[place].axes).reshape(up[place].shape)
        # The parent's table includes the upward message, which is divided out; 0 / 0 is 0.
        np.subtract(down, up[place], out=down, where=down > -np.inf)
        tables[place] += down
    return total


def is_fine(layout: Layout) -> bool:
    """Returns whether there are many small cliques at the same distance from the root."""
    count = len(layout.cliques)
    return layout.cells <= _SMALL * count and 2 * len(layout.levels) <= count


def _propagate_by_levels(values: NDArray[np.float64], layout: Layout) -> float:
    """See `propagate`: the same messages, those of a level at a time."""
    up, total = np.empty(layout.inward.sizes.size), 0.0
    for a, b in reversed(layout.levels):
        firsts, offset = layout.inward.firsts[a : b + 1], layout.offset[a : b + 1]
        message = _log_sums(values, layout.inward, a, b)
        largest = np.maximum.reduceat(message, firsts[:-1] - firsts[0])
        if largest.min() == -np.inf:
            return -np.inf
        total += float(largest.sum())
        message -= np.repeat(largest, np.diff(firsts))
        values[offset[0] : offset[-1]] -= np.repeat(largest, np.diff(offset))
        up[firsts[0] : firsts[-1]] = message
        if a:
            cells, sizes = layout.outward.between(a, b)
            np.add.at(values, cells, np.repeat(message, sizes))
    for a, b in layout.levels[1:]:
        down, firsts = _log_sums(values, layout.outward, a, b), layout.inward.firsts
        np.subtract(down, up[firsts[a] : firsts[b]], out=down, where=down > -np.inf)
        cells, sizes = layout.inward.between(a, b)
        values[cells] += np.repeat(down, sizes)
    return total


def sums_of(values: NDArray[np.float64], groups: CellGroups) -> NDArray[np.float64]:
    """Returns the sum of each group of cells, shape (groups,), of `values` of shape (cells,)."""
    return np.add.reduceat(values[groups.cells], np.cumsum(groups.sizes) - groups.sizes)


def _log_sums(values: NDArray[np.float64], groups: CellGroups, a: int, b: int) -> NDArray[np.float64]:
    """Returns ln Σ exp of the cells in each group of some separators."""
    cells, sizes = groups.between(a, b)
    logs, starts = values[cells], np.cumsum(sizes) - sizes
    largest = np.maximum(np.maximum.reduceat(logs, starts), _LEAST)
    sums = np.add.reduceat(np.exp(logs - np.repeat(largest, sizes)), starts)
    return np.asarray(np.log(sums) + largest)


def log_sum(logs: NDArray[np.float64], axis: int = 0) -> NDArray[np.float64]:
    """Returns ln Σ exp(logs) over an axis, without underflow; -inf where all terms are.

    >>> log_sum(np.array([[-1000.0, -np.inf], [-1000.0, -np.inf]])).round(6).tolist()
    [-999.306853, -inf]

    The result has the shape of `logs` without the axis.
    """
    with np.errstate(divide="ignore"):
        return _log_sum(logs, (axis,)).squeeze(axis)


def _log_sum(table: NDArray[np.float64], axes: tuple[int, ...] | None) -> NDArray[np.float64]:
    """Returns ln Σ exp(table) over some axes, or all, kept with length 1; -inf where all terms are."""
    largest = table.max(axis=axes, keepdims=True)
    np.maximum(largest, _LEAST, out=largest)  # -inf - -inf would be NaN
    sums: NDArray[np.float64] = np.log(np.exp(table - largest).sum(axis=axes, keepdims=True))
    sums += largest
    return sums
