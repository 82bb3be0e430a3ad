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

from jtsolve.core.lazy_kernels import LazyKernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.models.layout import Layout

_KERNELS = LazyKernels("jtsolve.models.kernels.messages")
_SECONDS_PER_CLIQUE = 2.5e-5
"""Overhead of numpy for each clique; measured on an Intel Xeon (Sapphire Rapids)."""
_SMALL = 1 << 10
"""Average number of cells of a clique above which numpy is as fast."""

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
    if _compiled(layout):
        from jtsolve.models.kernels import messages

        return messages.families(values, layout.shape)  # type: ignore[no-any-return]
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
    if _compiled(layout):
        from jtsolve.models.kernels import messages

        return float(messages.propagate(values, layout.shape))
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


def _compiled(layout: Layout) -> bool:
    """Returns whether to use the compiled kernels: for many small cliques, once they save time."""
    count = len(layout.cliques)
    return layout.cells <= _SMALL * count and not _KERNELS.prefer_numpy(_SECONDS_PER_CLIQUE * count)


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
