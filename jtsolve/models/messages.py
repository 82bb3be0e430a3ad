"""Message passing on clique tables stored in one array, in logarithms; see `layout.Layout`.

Messages are those of Jensen, Lauritzen and Olesen (Computational Statistics Quarterly 4, 1990): up to the
root, then down, divided by the message that went up. Each is scaled by its largest entry, whose logarithm is
accumulated, so that products of a thousand small messages neither underflow nor lose digits. Members of
cliques and separators increase, so that a message is an array with an axis for each member of the clique, of
length 1 outside the separator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.models.layout import Layout

_LEAST = -np.finfo(np.float64).max
"""A logarithm below all others but -inf."""


def separator_sums(values: NDArray[np.float64], layout: Layout) -> list[NDArray[np.float64]]:
    """Returns the table of each separator to the parent, summed from the clique; of the root, its total."""
    return [
        layout.table(values, place).sum(axis=own.axes, keepdims=True) for place, own in enumerate(layout.own)
    ]


def disagreement(values: NDArray[np.float64], below: Sequence[NDArray[np.float64]], layout: Layout) -> float:
    """Returns the largest difference between `separator_sums` and the same tables summed from the parents."""
    largest = 0.0
    for place in range(1, len(below)):
        above = layout.table(values, layout.parent[place]).sum(axis=layout.above[place].axes)
        largest = max(largest, float(np.abs(below[place].reshape(above.shape) - above).max()))
    return largest


def families(
    values: NDArray[np.float64], below: Sequence[NDArray[np.float64]], layout: Layout
) -> NDArray[np.float64]:
    """Returns ln P(C) - ln P(S) for every cell of every clique; -inf where P(C) is 0."""
    shares = values.copy()
    for place, separator in enumerate(below):
        # 0 / 0 is 0.
        table = layout.table(shares, place)
        np.divide(table, separator, out=table, where=separator > 0)
    with np.errstate(divide="ignore"):
        return np.log(shares, out=shares)


@np.errstate(divide="ignore")
def propagate(values: NDArray[np.float64], layout: Layout) -> float:
    """Turns log factors, in place, into logarithms of clique marginals; returns ln of the partition function.

    Returns -inf, with undefined values, if the product of the factors is 0 everywhere.
    """
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
        up[place] = message
        parent = layout.parent[place]
        if parent >= 0:
            tables[parent] += message.reshape(layout.above[place].dims)
        else:
            tables[place] -= largest
    for place in range(1, len(tables)):
        down = _log_sum(tables[layout.parent[place]], layout.above[place].axes).reshape(up[place].shape)
        # The parent's table includes the upward message, which is divided out; 0 / 0 is 0.
        np.subtract(down, up[place], out=down, where=down > -np.inf)
        tables[place] += down
        # The upward message was scaled, this table was not.
        tables[place] -= _log_sum(tables[place], None)
    return total


def log_sum(logs: NDArray[np.float64], axis: int = 0) -> NDArray[np.float64]:
    """Returns ln Σ exp(logs) over an axis, without underflow; -inf where all terms are.

    >>> log_sum(np.array([[-1000.0, -np.inf], [-1000.0, -np.inf]])).round(6).tolist()
    [-999.306853, -inf]
    """
    with np.errstate(divide="ignore"):
        return _log_sum(logs, (axis,)).squeeze(axis)


def _log_sum(table: NDArray[np.float64], axes: tuple[int, ...] | None) -> NDArray[np.float64]:
    """Returns ln Σ exp(table) over some axes, or all, which stay with length 1; -inf where all terms are."""
    largest = table.max(axis=axes, keepdims=True)
    np.maximum(largest, _LEAST, out=largest)  # -inf - -inf would be NaN
    sums: NDArray[np.float64] = np.log(np.exp(table - largest).sum(axis=axes, keepdims=True))
    sums += largest
    return sums
