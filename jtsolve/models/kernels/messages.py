"""`models.messages` for many small cliques, where the overhead of calls of numpy dominates.

Loops over a table advance an odometer of the members' states and the corresponding cell of a separator, so
that no index map is stored. For the layout of the tables, see `layout.LayoutArrays`.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel


@kernel(allocates=False)
def _step(digits, arity, stride, size, place):
    """Advances the odometer by one cell and returns the index given by the strides."""
    for k in range(size - 1, -1, -1):
        digits[k] += 1
        place += stride[k]
        if digits[k] < arity[k]:
            return place
        place -= stride[k] * arity[k]
        digits[k] = 0
    return place


@kernel(allocates=False)
def _sum_onto(values, shape, i, strides, sums, first, digits):
    """Adds the cells of clique i to their projections, which begin at `first` in `sums`."""
    place = first
    for cell in range(shape.offset[i], shape.offset[i + 1]):
        sums[place] += values[cell]
        place = _step(digits, shape.arity[i], strides, shape.size[i], place)


@kernel(allocates=False)
def _log_sum_onto(values, shape, i, strides, logs, scratch, first, last, digits):
    """Writes ln Σ exp of the cells of clique i to their projections, from `first` to `last` in `logs`."""
    for s in range(first, last):
        logs[s], scratch[s] = -np.inf, 0.0
    place = first
    for cell in range(shape.offset[i], shape.offset[i + 1]):
        logs[place] = max(logs[place], values[cell])
        place = _step(digits, shape.arity[i], strides, shape.size[i], place)
    place = first
    for cell in range(shape.offset[i], shape.offset[i + 1]):
        if values[cell] > -np.inf:
            scratch[place] += np.exp(values[cell] - logs[place])
        place = _step(digits, shape.arity[i], strides, shape.size[i], place)
    for s in range(first, last):
        if scratch[s] > 0.0:
            logs[s] += np.log(scratch[s])


@kernel(allocates=False)
def _spread(values, shape, i, strides, logs, first, digits):
    """Adds logs to the cells of clique i that project to them."""
    place = first
    for cell in range(shape.offset[i], shape.offset[i + 1]):
        values[cell] += logs[place]
        place = _step(digits, shape.arity[i], strides, shape.size[i], place)


@kernel
def families(values, shape):
    """See `messages.families`."""
    below, above = np.zeros(shape.separator[-1]), np.zeros(shape.separator[-1])
    digits = np.zeros(shape.arity.shape[1], np.int64)
    logs = np.empty(values.size)
    for i in range(shape.parent.size):
        first, parent = shape.separator[i], shape.parent[i]
        _sum_onto(values, shape, i, shape.own[i], below, first, digits)
        if parent >= 0:
            _sum_onto(values, shape, parent, shape.above[i], above, first, digits)
        place = first
        for cell in range(shape.offset[i], shape.offset[i + 1]):
            logs[cell] = np.log(values[cell] / below[place]) if values[cell] > 0.0 else -np.inf
            place = _step(digits, shape.arity[i], shape.own[i], shape.size[i], place)
    largest = 0.0
    for s in range(shape.separator[1], below.size):
        largest = max(largest, abs(below[s] - above[s]))
    return logs, largest


@kernel
def propagate(values, shape):
    """See `messages.propagate`."""
    cells = shape.separator[-1]
    up, down, scratch = np.empty(cells), np.empty(cells), np.empty(cells)
    digits = np.zeros(shape.arity.shape[1], np.int64)
    total = 0.0
    for i in range(shape.parent.size - 1, -1, -1):
        first, last, parent = shape.separator[i], shape.separator[i + 1], shape.parent[i]
        _log_sum_onto(values, shape, i, shape.own[i], up, scratch, first, last, digits)
        largest = -np.inf
        for s in range(first, last):
            largest = max(largest, up[s])
        if largest == -np.inf:
            return largest
        total += largest
        for s in range(first, last):
            up[s] -= largest
        for cell in range(shape.offset[i], shape.offset[i + 1]):
            values[cell] -= largest
        if parent >= 0:
            _spread(values, shape, parent, shape.above[i], up, first, digits)
    for i in range(1, shape.parent.size):
        first, last, parent = shape.separator[i], shape.separator[i + 1], shape.parent[i]
        _log_sum_onto(values, shape, parent, shape.above[i], down, scratch, first, last, digits)
        for s in range(first, last):
            if down[s] > -np.inf:  # 0 / 0 is 0
                down[s] -= up[s]
        _spread(values, shape, i, shape.own[i], down, first, digits)
    return total
