"""The most probable completion of rows with missing values: max-product messages, row by row.

For the tables, see `layout.LayoutArrays`. Messages go up as in `rows.partial_rows`, over the cells
consistent with the row, with the maximum in place of the sum; each cell of a separator remembers its best
cell below, which is followed from the root down. Time for a row: all cells once, plus those consistent with
it twice.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.copying import copy_onto
from jtsolve.models.kernels.rows import first_consistent, next_consistent


@kernel
def complete(codes, families, shape):
    """Fills the missing values of rows, negative codes, in place; ties go to the first cells.

    A row whose observed values are impossible is left as it is.

    Args:
        codes: (n, rows).
        families: ln P(C) - ln P(S) for every cell.
        shape: see `layout.LayoutArrays`.
    """
    count = shape.parent.size
    widest = shape.member.shape[1]
    scratch = np.empty(families.size)
    messages = np.empty(shape.separator[-1])
    best = np.empty(shape.separator[-1], np.int64)
    digits = np.zeros(widest, np.int64)
    free = np.empty(widest, np.int64)
    for r in range(codes.shape[1]):
        copy_onto(scratch, families)
        possible = True
        for i in range(count - 1, -1, -1):
            first, last = shape.separator[i], shape.separator[i + 1]
            messages[first:last] = -np.inf
            best[first:last] = -1
            cell, place, gaps = first_consistent(codes, r, shape, i, i, shape.offset[i], shape.own, free)
            more = True
            while more:
                if scratch[cell] > messages[place]:
                    messages[place], best[place] = scratch[cell], cell
                cell, place, more = next_consistent(shape, i, i, shape.own, digits, free, gaps, cell, place)
            if messages[first:last].max() == -np.inf:
                possible = False
                break
            p = shape.parent[i]
            if p < 0:
                continue
            cell, place, gaps = first_consistent(codes, r, shape, p, i, shape.offset[p], shape.above, free)
            more = True
            while more:
                scratch[cell] += messages[place]
                cell, place, more = next_consistent(shape, p, i, shape.above, digits, free, gaps, cell, place)
        if not possible:
            continue
        for i in range(count):
            # The members of the separator are known: the parent came first.
            place = shape.separator[i]
            for k in range(shape.size[i]):
                if shape.own[i, k] > 0:
                    place += np.int64(codes[shape.member[i, k], r]) * shape.own[i, k]
            for k in range(shape.size[i]):
                if codes[shape.member[i, k], r] < 0:
                    codes[shape.member[i, k], r] = (
                        (best[place] - shape.offset[i]) // shape.stride[i, k] % shape.arity[i, k]
                    )
