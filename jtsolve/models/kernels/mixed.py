"""The densities of rows under conditional Gaussian models, one row after the other; see `inference.mixed`.

Only the cells that agree with the observed states of a row are visited; missing real members are eliminated
one by one.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from jtsolve.core.compiling import kernel

Places = namedtuple(
    "Places",
    [
        "sizes",  # shape (cliques, 6): discrete, real and free real members; parent; cells and shared cells
        "begins",  # shape (cliques, 6): where the lists of a clique begin in each of the others
        "discrete",
        "dims",  # of `discrete`
        "real",
        "at",  # the position of a real member in the parent; of those of separators
        "above",  # the separator's cell of each cell of the parent
        "g",  # ln p = g + hᵀy − yᵀKy/2 in each cell
        "h",
        "matrix",
    ],
)


@kernel(allocates=False)
def sum_rows(places, rows, g, h, matrix, cells, counts, message, found):
    """Writes ln of the density of each row, in nats.

    Args:
        places: of the cliques, from the root down.
        rows: shape (rows, variables): codes of states and numbers, NaN where missing.
        g, h, matrix: as of the places; written.
        cells: shape (cells,): those that agree with the row, by clique; written.
        counts: shape (cliques,): their numbers; written.
        message: shape (shared cells of a clique,); written.
        found: shape (rows,); written.
    """
    sizes, begins = places.sizes, places.begins
    for nth in range(len(rows)):
        row = rows[nth]
        for i in range(len(sizes)):
            first, last = begins[i, 0], begins[i, 0] + sizes[i, 0]
            cell = begins[i, 3]
            counts[i] = _list_cells(places.discrete[first:last], places.dims[first:last], row, cells[cell:])
            k = sizes[i, 1]
            real = places.real[begins[i, 1] : begins[i, 1] + k]
            for c in cells[cell : cell + counts[i]]:
                at, corner = begins[i, 4] + c * k, begins[i, 5] + c * k * k
                total = places.g[cell + c]
                for a in range(k):
                    rest = places.h[at + a]
                    for b in range(k):
                        y = row[real[b]]
                        if y == y:  # noqa: PLR0124 - no NaN
                            rest -= places.matrix[corner + a * k + b] * y
                        else:
                            matrix[corner + a * k + b] = places.matrix[corner + a * k + b]
                    y = row[real[a]]
                    if y == y:  # noqa: PLR0124 - no NaN
                        total += 0.5 * y * (places.h[at + a] + rest)
                    h[at + a] = rest
                g[cell + c] = total
        for i in range(len(sizes) - 1, -1, -1):
            k, r, parent = sizes[i, 1], sizes[i, 2], sizes[i, 3]
            cell = begins[i, 3]
            real = places.real[begins[i, 1] : begins[i, 1] + k]
            sums = message
            if k > r:
                sums = g[cell : cell + sizes[i, 4]]
            else:
                message[: sizes[i, 5]] = -np.inf
            for c in cells[cell : cell + counts[i]]:
                at, corner = begins[i, 4] + c * k, begins[i, 5] + c * k * k
                for v in range(r):
                    if row[real[v]] == row[real[v]]:
                        continue
                    pivot = matrix[corner + v * k + v]
                    mean = h[at + v] / pivot
                    g[cell + c] += 0.5 * (np.log(2 * np.pi / pivot) + h[at + v] * mean)
                    for a in range(v + 1, k):
                        if row[real[a]] != row[real[a]]:
                            share = matrix[corner + a * k + v]
                            h[at + a] -= share * mean
                            for b in range(v + 1, k):
                                matrix[corner + a * k + b] -= share * matrix[corner + v * k + b] / pivot
                if k == r:  # the separator is discrete
                    shared = c // (sizes[i, 4] // sizes[i, 5])
                    one, other = sums[shared], g[cell + c]
                    high, low = max(one, other), min(one, other)
                    sums[shared] = high if low == -np.inf else high + np.log1p(np.exp(low - high))
            if parent < 0:
                found[nth] = message[0]
                continue
            own = begins[parent, 3]
            for c in cells[own : own + counts[parent]]:
                s = places.above[begins[i, 2] + c]
                g[own + c] += sums[s]
                for a in range(r, k):
                    if row[real[a]] == row[real[a]]:
                        continue
                    to, wide = places.at[begins[i, 1] + a], sizes[parent, 1]
                    h[begins[parent, 4] + c * wide + to] += h[begins[i, 4] + s * k + a]
                    for b in range(r, k):
                        place = begins[parent, 5] + (c * wide + to) * wide + places.at[begins[i, 1] + b]
                        matrix[place] += matrix[begins[i, 5] + (s * k + a) * k + b]


@kernel(allocates=False)
def _list_cells(discrete, dims, row, cells):
    """Writes the cells that agree with the observed states of a row, in order; returns their number."""
    count = 1
    cells[0] = 0
    for d in range(len(dims)):
        state, states = row[discrete[d]], dims[d]
        if state == state:  # noqa: PLR0124 - no NaN
            for c in range(count):
                cells[c] = cells[c] * states + np.int64(state)
            continue
        for c in range(count - 1, -1, -1):
            begin = cells[c] * states
            for s in range(states - 1, -1, -1):
                cells[c * states + s] = begin + s
        count *= states
    return count
