"""Message passing on clique tables stored in one array, in logarithms.

The table of each clique follows that of its parent, the root first; within a table the last member varies
fastest. Loops over a table carry an odometer of the members' states and the matching cell of a separator, so
that no index map is stored.

Messages are those of Jensen, Lauritzen and Olesen (Computational Statistics Quarterly 4, 1990): up to the
root, then down, divided by the message that went up. Each is scaled by its largest entry, whose logarithm is
accumulated, so that products of a thousand small messages neither underflow nor lose digits.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from jtsolve.core.compiling import kernel

Shape = namedtuple(
    "Shape",
    [
        "parent",  # (m,), int64: of each clique; -1 at the root, which is clique 0
        "offset",  # (m + 1,), int64: start of each table
        "size",  # (m,), int64: number of members
        "member",  # (m, d), int64: the variables, increasing
        "arity",  # (m, d), int64: their numbers of states
        "stride",  # (m, d), int64: their strides in the clique's table
        "separator",  # (m + 1,), int64: start of the table of each separator to the parent
        "own",  # (m, d), int64: strides of the members in the separator's table; 0 outside it
        "above",  # (m, d), int64: strides of the parent's members in the separator's table
    ],
)
"""Layout of the tables of m cliques of at most d members."""


@kernel
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


@kernel
def add_onto(values, start, stop, arity, stride, size, sums, first):
    """Adds the cells start to stop of `values` to their projections, which begin at `first` in `sums`."""
    digits = np.zeros(size, np.int64)
    place = first
    for cell in range(start, stop):
        sums[place] += values[cell]
        place = _step(digits, arity, stride, size, place)


@kernel
def separator_sums(values, shape):
    """Returns the tables of the separators, summed from the cliques below, and from those above."""
    below = np.zeros(shape.separator[-1])
    above = np.zeros(shape.separator[-1])
    for i in range(shape.parent.size):
        first, p = shape.separator[i], shape.parent[i]
        start, stop = shape.offset[i], shape.offset[i + 1]
        add_onto(values, start, stop, shape.arity[i], shape.own[i], shape.size[i], below, first)
        if p >= 0:
            start, stop = shape.offset[p], shape.offset[p + 1]
            add_onto(values, start, stop, shape.arity[p], shape.above[i], shape.size[p], above, first)
        else:
            above[first] = below[first]
    return below, above


@kernel
def families(values, below, shape):
    """Returns ln P(C) - ln P(S) for every cell of every clique; -inf where P(C) is 0."""
    logs = np.empty(values.size)
    for i in range(shape.parent.size):
        digits = np.zeros(shape.size[i], np.int64)
        place = shape.separator[i]
        for cell in range(shape.offset[i], shape.offset[i + 1]):
            logs[cell] = np.log(values[cell] / below[place]) if values[cell] > 0.0 else -np.inf
            place = _step(digits, shape.arity[i], shape.own[i], shape.size[i], place)
    return logs


@kernel
def _fold(values, start, stop, arity, stride, size, out):
    """Writes to out[s] ln Σ exp(values) over the cells that project to s."""
    digits = np.zeros(size, np.int64)
    out[:] = -np.inf
    place = 0
    for cell in range(start, stop):
        out[place] = max(out[place], values[cell])
        place = _step(digits, arity, stride, size, place)
    sums = np.zeros(out.size)
    digits[:] = 0
    place = 0
    for cell in range(start, stop):
        if values[cell] > -np.inf:
            sums[place] += np.exp(values[cell] - out[place])
        place = _step(digits, arity, stride, size, place)
    for s in range(out.size):
        if sums[s] > 0.0:
            out[s] += np.log(sums[s])


@kernel
def _spread(values, start, stop, arity, stride, size, message):
    """Adds message[s] to the cells that project to s."""
    digits = np.zeros(size, np.int64)
    place = 0
    for cell in range(start, stop):
        values[cell] += message[place]
        place = _step(digits, arity, stride, size, place)


@kernel
def propagate(values, shape):
    """Turns log factors, in place, into logarithms of clique marginals; returns ln of the partition function.

    Returns -inf, with undefined values, if the product of the factors is 0 everywhere.
    """
    count = shape.parent.size
    messages = np.empty(shape.separator[-1])
    total = 0.0
    for i in range(count - 1, -1, -1):
        start, stop = shape.offset[i], shape.offset[i + 1]
        message = messages[shape.separator[i] : shape.separator[i + 1]]
        _fold(values, start, stop, shape.arity[i], shape.own[i], shape.size[i], message)
        high = message.max()
        if high == -np.inf:
            return -np.inf
        total += high
        message -= high
        p = shape.parent[i]
        if p >= 0:
            _spread(
                values,
                shape.offset[p],
                shape.offset[p + 1],
                shape.arity[p],
                shape.above[i],
                shape.size[p],
                message,
            )
        else:
            values[start:stop] -= high
    for i in range(1, count):
        p = shape.parent[i]
        message = messages[shape.separator[i] : shape.separator[i + 1]]
        down = np.empty(message.size)
        _fold(
            values, shape.offset[p], shape.offset[p + 1], shape.arity[p], shape.above[i], shape.size[p], down
        )
        for s in range(message.size):
            # The parent's table includes the upward message, which is divided out; 0 / 0 is 0.
            down[s] = down[s] - message[s] if down[s] > -np.inf else -np.inf
        start, stop = shape.offset[i], shape.offset[i + 1]
        _spread(values, start, stop, shape.arity[i], shape.own[i], shape.size[i], down)
        # The upward message was scaled, this table was not.
        values[start:stop] -= _log_sum(values, start, stop)
    return total


@kernel
def _log_sum(values, start, stop):
    """Returns ln Σ exp(values)."""
    high = values[start:stop].max()
    if high == -np.inf:
        return high
    total = 0.0
    for cell in range(start, stop):
        total += np.exp(values[cell] - high)
    return high + np.log(total)


@kernel
def single_marginals(values, shape, home, first, out):
    """Sums the tables at the variables' home cliques to the marginals of the variables.

    Args:
        values: the probabilities.
        shape: see `Shape`.
        home: (n,), a clique that contains each variable.
        first: (n,), start of each variable's marginal in `out`.
        out: zeros.
    """
    for v in range(home.size):
        i = home[v]
        stride = np.zeros(shape.size[i], np.int64)
        for k in range(shape.size[i]):
            if shape.member[i, k] == v:
                stride[k] = 1
        add_onto(
            values, shape.offset[i], shape.offset[i + 1], shape.arity[i], stride, shape.size[i], out, first[v]
        )


@kernel
def first_consistent(codes, r, shape, i, s, cell, steps, free):
    """Returns the first cell of clique i consistent with row r, its place in separator s, and the gaps.

    The positions of the gaps are written to `free`; `steps` are the strides of the members in the separator.
    """
    place = shape.separator[s]
    gaps = 0
    for k in range(shape.size[i]):
        state = np.int64(codes[shape.member[i, k], r])
        if state < 0:
            free[gaps] = k
            gaps += 1
        else:
            cell += state * shape.stride[i, k]
            place += state * steps[s, k]
    return cell, place, gaps


@kernel
def next_consistent(shape, i, s, steps, digits, free, gaps, cell, place):
    """Advances the odometer of the gaps; returns the cell, its place, and whether there was one more."""
    for j in range(gaps - 1, -1, -1):
        k = free[j]
        digits[j] += 1
        cell += shape.stride[i, k]
        place += steps[s, k]
        if digits[j] < shape.arity[i, k]:
            return cell, place, True
        cell -= shape.stride[i, k] * shape.arity[i, k]
        place -= steps[s, k] * shape.arity[i, k]
        digits[j] = 0
    return cell, place, False
