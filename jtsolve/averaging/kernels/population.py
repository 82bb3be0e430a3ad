"""The sums over all decomposable graphs for many candidates at once; see `averaging.population`.

A number of `averaging.sums` is a row here: one for each candidate, times a power of 2 that the row shares.
The pair (S, R) of disjoint sets is row start[V∖S] + R of F, L and P, R being renamed within V∖S, and row
start[S∪R] + S of X, S being renamed within S ∪ R: the terms of a sum lie side by side.
"""

from __future__ import annotations

from math import frexp, ldexp

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty
from jtsolve.core.kernels.renaming import rename, unname

EMPTY = -(1 << 40)
"""The exponent of a row of zeros."""
NEGLIGIBLE = -1000
"""Terms smaller than the sum by more bits are left out."""


@kernel(allocates=False)
def _set(out, a, i, factor):
    """Sets a row to factor · a[i]."""
    for t in range(out.shape[1]):
        out[0, t] = factor * a[i, t]


@kernel(allocates=False)
def _add(out, exponent, a, i, b, j, added, sign):
    """Adds sign · a[i] · b[j] · 2^added to the row out[0] · 2^exponent, and returns its new exponent."""
    if added > exponent:
        factor = ldexp(1.0, exponent - added) if exponent - added > NEGLIGIBLE else 0.0
        for t in range(out.shape[1]):
            out[0, t] *= factor
        exponent = added
    if added - exponent > NEGLIGIBLE:
        factor = sign * ldexp(1.0, added - exponent)
        i, j = np.uint64(i), np.uint64(j)  # unsigned indices let the loop vectorise
        for t in range(np.uint64(out.shape[1])):
            out[0, t] += factor * a[i, t] * b[j, t]
    return exponent


@kernel(allocates=False)
def _store(table, exponents, row, sums, exponent):
    """Writes a row, its largest number between 1/2 and 1."""
    largest = 0.0
    for t in range(sums.shape[1]):
        largest = max(largest, abs(sums[0, t]))
    if largest == 0.0:
        exponents[row] = EMPTY
        for t in range(sums.shape[1]):
            table[row, t] = 0.0
        return
    _, shift = frexp(largest)
    factor = ldexp(1.0, -shift)
    for t in range(sums.shape[1]):
        table[row, t] = sums[0, t] * factor
    exponents[row] = exponent + shift


@kernel(allocates=False)
def _row(start, part, whole, names):
    """Returns the row of a part of a set."""
    return start[whole] + rename(part, whole, names)


@kernel
def sum_layer(size, start, sizes, names, local, powers, inverse, tables, exponents, ones, sums):
    """Fills the rows of all R of one size, after those of the smaller ones; see `averaging.sums`.

    Args:
        size: |R|, at least 1.
        start: shape (2^n,): see above.
        sizes: shape (2^n,): |A|.
        names: see `RenamingTables`.
        local: shape (2^n, candidates): s(A) over 2^powers[A].
        powers: shape (2^n,).
        inverse: 1/local.
        tables: F, L, P and X, each of shape (3^n, candidates); those with R = ∅ are filled.
        exponents: of the rows of each.
        ones: shape (1, candidates).
        sums: shape (2^n, 1, candidates), for the rows in work.
    """
    f, connected, p, x = tables
    fe, le, pe, xe = exponents
    row = sums[0]
    everything = start.size - 1
    # B(S,R) = Σ_{∅≠D⊆R} X(S∪D, R∖D), in the place of X(S,R)
    for union in range(start.size):
        full = (1 << sizes[union]) - 1
        for s in range(full + 1):
            if sizes[full ^ s] != size:
                continue
            _set(row, row, 0, 0.0)
            e = EMPTY
            d = full ^ s
            while d:
                cell = start[union] + (s | d)
                e = _add(row, e, x, cell, ones, 0, xe[cell], 1.0)
                d = (d - 1) & (full ^ s)
            _store(x, xe, start[union] + s, row, e)
    # F(S,R) = B(S,R) − Σ_{∅≠K⊊R} F(S,K) P(S,R∖K)
    for s in range(start.size):
        outside = everything ^ s
        begin = start[outside]
        for r in range(1 << sizes[outside]):
            if sizes[r] != size:
                continue
            cell = _row(start, s, s | unname(r, outside, names), names)
            _set(row, x, cell, 1.0)
            e = xe[cell]
            k = (r - 1) & r
            while k:
                part, rest = begin + k, begin + (r ^ k)
                e = _add(row, e, f, part, p, rest, fe[part] + pe[rest], -1.0)
                k = (k - 1) & r
            _store(f, fe, begin + r, row, e)
    # L(S,R) = Σ_{Q⊆S} F(Q,R)/s(Q), variable by variable
    own = empty(start.size, np.int64)
    for r in range(start.size):
        if sizes[r] != size:
            continue
        outside = everything ^ r
        count = 1 << sizes[outside]
        for place in range(count):
            q = unname(place, outside, names)
            cell = _row(start, r, everything ^ q, names)
            _set(sums[place], sums[place], 0, 0.0)
            own[place] = _add(sums[place], EMPTY, f, cell, inverse, q, fe[cell] - powers[q], 1.0)
        bit = 1
        while bit < count:
            for place in range(count):
                if place & bit:
                    less = place ^ bit
                    own[place] = _add(sums[place], own[place], sums[less], 0, ones, 0, own[less], 1.0)
            bit <<= 1
        for place in range(count):
            cell = _row(start, r, everything ^ unname(place, outside, names), names)
            _store(connected, le, cell, sums[place], own[place])
    for s in range(start.size):
        outside = everything ^ s
        begin = start[outside]
        for r in range(1 << sizes[outside]):
            if sizes[r] != size:
                continue
            # P(S,R) = Σ_{K⊆R, K∋min R} L(S,K) P(S,R∖K)
            _set(row, row, 0, 0.0)
            e = EMPTY
            others = r & (r - 1)
            k = others
            while True:
                part, rest = begin + (r ^ others | k), begin + (others ^ k)
                e = _add(row, e, connected, part, p, rest, le[part] + pe[rest], 1.0)
                if k == 0:
                    break
                k = (k - 1) & others
            _store(p, pe, begin + r, row, e)
            # X(S,R) = s(S) P(S,R) − B(S,R)
            cell = _row(start, s, s | unname(r, outside, names), names)
            _set(row, x, cell, -1.0)
            e = xe[cell]
            e = _add(row, e, local, s, p, begin + r, powers[s] + pe[begin + r], 1.0)
            _store(x, xe, cell, row, e)
