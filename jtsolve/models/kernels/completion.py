"""The most probable completion of rows with missing values: max-product messages, row by row.

For the layout of the tables, see `cliques.Shape`. Messages go up as in `rows.partial_rows`, over the cells
consistent with the row, with the maximum in place of the sum; each cell of a separator remembers its best
cell below, which is followed from the root down.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel


@kernel
def complete(codes, families, shape):
    """Fills the missing values of rows, negative codes, in place; ties go to the first cells.

    A row whose observed values are impossible is left as it is.

    Args:
        codes: (n, rows).
        families: ln P(C) - ln P(S) for every cell.
        shape: see `cliques.Shape`.
    """
    count = shape.parent.size
    widest = shape.member.shape[1]
    scratch = np.empty(families.size)
    messages = np.empty(shape.separator[-1])
    best = np.empty(shape.separator[-1], np.int64)
    digits = np.zeros(widest, np.int64)
    free = np.empty(widest, np.int64)
    for r in range(codes.shape[1]):
        for i in range(count):
            start, stop = shape.offset[i], shape.offset[i + 1]
            scratch[start:stop] = families[start:stop]
        possible = True
        for i in range(count - 1, -1, -1):
            first, last = shape.separator[i], shape.separator[i + 1]
            messages[first:last] = -np.inf
            best[first:last] = -1
            cell, place, gaps = _consistent(codes, r, shape, i, i, shape.offset[i], shape.own, free)
            more = True
            while more:
                if scratch[cell] > messages[place]:
                    messages[place], best[place] = scratch[cell], cell
                cell, place, more = _next(shape, i, i, shape.own, digits, free, gaps, cell, place)
            if messages[first:last].max() == -np.inf:
                possible = False
                break
            p = shape.parent[i]
            if p < 0:
                continue
            cell, place, gaps = _consistent(codes, r, shape, p, i, shape.offset[p], shape.above, free)
            more = True
            while more:
                scratch[cell] += messages[place]
                cell, place, more = _next(shape, p, i, shape.above, digits, free, gaps, cell, place)
        if not possible:
            continue
        for i in range(count):
            # The members of the separator are known by now: the parent came first.
            place = shape.separator[i]
            for k in range(shape.size[i]):
                if shape.own[i, k] > 0:
                    place += np.int64(codes[shape.member[i, k], r]) * shape.own[i, k]
            for k in range(shape.size[i]):
                if codes[shape.member[i, k], r] < 0:
                    codes[shape.member[i, k], r] = (
                        (best[place] - shape.offset[i]) // shape.stride[i, k] % shape.arity[i, k]
                    )


@kernel
def _consistent(codes, r, shape, i, s, cell, steps, free):
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
def _next(shape, i, s, steps, digits, free, gaps, cell, place):
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
