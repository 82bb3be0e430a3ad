"""Log-likelihoods of rows of states, and sampling of rows.

For the tables, see `layout.LayoutArrays`. codes[v, r] is the state of variable v in row r. Complete rows are
processed in blocks, clique by clique, so that the inner loops run along the rows.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel

BLOCK = 512
"""Rows at a time: 4 kB of cell indices stay in the L1 cache."""


@kernel
def first_consistent(codes, r, shape, i, s, cell, steps, free):
    """Returns the first cell of clique i consistent with row r, its position in separator s, and the gaps.

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
    """Advances the odometer of the gaps; returns the next cell, its position, and whether there is one."""
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


@kernel
def complete_rows(codes, families, shape, out):
    """Writes ln P(row) to `out` for complete rows.

    Args:
        codes: (n, rows).
        families: ln P(C) - ln P(S) for every cell.
        shape: see `layout.LayoutArrays`.
        out: (rows,).
    """
    cells = np.empty(BLOCK, np.int64)
    for start in range(0, out.size, BLOCK):
        count = min(BLOCK, out.size - start)
        out[start : start + count] = 0.0
        for i in range(shape.parent.size):
            cells[:count] = shape.offset[i]
            for k in range(shape.size[i]):
                column = codes[shape.member[i, k]]
                stride = shape.stride[i, k]
                for r in range(count):
                    cells[r] += stride * np.int64(column[start + r])
            for r in range(count):
                out[start + r] += families[cells[r]]


@kernel
def partial_rows(codes, families, shape, out):
    """Writes ln P(observed values) to `out` for rows with missing values, which are negative codes.

    Messages go up as in `messages.propagate`, but only over cells consistent with the row. A fully observed
    clique has one such cell; a clique with a fully observed separator sends a constant.
    """
    count = shape.parent.size
    widest = shape.member.shape[1]
    scratch = np.empty(families.size)
    messages = np.empty(shape.separator[-1])
    sums = np.empty(shape.separator[-1])
    digits = np.zeros(widest, np.int64)
    free = np.empty(widest, np.int64)
    for r in range(out.size):
        for i in range(count):
            for k in range(shape.size[i]):
                if codes[shape.member[i, k], r] < 0:
                    scratch[shape.offset[i] : shape.offset[i + 1]] = families[
                        shape.offset[i] : shape.offset[i + 1]
                    ]
                    break
        total = 0.0
        for i in range(count - 1, -1, -1):
            cell, place, gaps = first_consistent(codes, r, shape, i, i, shape.offset[i], shape.own, free)
            if gaps == 0:
                total += families[cell]
                continue
            first, last = shape.separator[i], shape.separator[i + 1]
            messages[first:last] = -np.inf
            sums[first:last] = 0.0
            for sweep in range(2):
                more = True
                while more:
                    value = scratch[cell]
                    if sweep == 0:
                        messages[place] = max(messages[place], value)
                    elif value > -np.inf:
                        sums[place] += np.exp(value - messages[place])
                    cell, place, more = next_consistent(
                        shape, i, i, shape.own, digits, free, gaps, cell, place
                    )
            high = -np.inf
            for s in range(first, last):
                if sums[s] > 0.0:
                    messages[s] += np.log(sums[s])
                high = max(high, messages[s])
            total += high
            if high == -np.inf:
                break
            is_open = False
            for j in range(gaps):
                is_open = is_open or shape.own[i, free[j]] > 0
            if is_open:
                _send(codes, r, shape, i, scratch, messages, high, digits, free)
        out[r] = total


@kernel
def _send(codes, r, shape, i, scratch, messages, high, digits, free):
    """Adds the message of clique i to the cells of its parent that are consistent with row r."""
    p = shape.parent[i]
    cell, place, gaps = first_consistent(codes, r, shape, p, i, shape.offset[p], shape.above, free)
    more = True
    while more:
        scratch[cell] += messages[place] - high
        cell, place, more = next_consistent(shape, p, i, shape.above, digits, free, gaps, cell, place)


@kernel
def draw(uniform, cumulative, offset, member, arity, own, size, out):
    """Draws rows clique by clique, from the root down.

    Args:
        uniform: (m, rows), in [0, 1).
        cumulative: for each clique and cell of its separator, cumulative probabilities of the other members'
            states, the last member varying fastest; the last sum is 1, or all are 0.
        offset: (m + 1,), start of each clique in `cumulative`.
        member: (m, d), the members, separator first.
        arity: (m, d), their numbers of states.
        own: (m,), sizes of the separators.
        size: (m,), sizes of the cliques.
        out: (n, rows), the drawn codes.
    """
    for i in range(size.size):
        cells = 1
        for k in range(own[i], size[i]):
            cells *= arity[i, k]
        for r in range(uniform.shape[1]):
            place = np.int64(0)
            for k in range(own[i]):
                place = place * arity[i, k] + np.int64(out[member[i, k], r])
            start = offset[i] + place * cells
            low, high = 0, cells - 1
            while low < high:
                middle = (low + high) // 2
                if cumulative[start + middle] > uniform[i, r]:
                    high = middle
                else:
                    low = middle + 1
            for k in range(size[i] - 1, own[i] - 1, -1):
                out[member[i, k], r] = low % arity[i, k]
                low //= arity[i, k]
