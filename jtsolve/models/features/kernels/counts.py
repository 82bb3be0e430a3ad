"""Counts of pairs of states in the rows of a context, the information in them, and Chow–Liu forests.

Literals are numbered through the variables of the context: those of variable i begin at first[i].
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import zeros


@kernel
def pair_counts(codes, weights, first, halt):
    """Returns the weight of the rows in which two literals hold, shape (literals, literals).

    Args:
        codes: (variables, rows), those of the context.
        weights: (rows,).
        first: (variables + 1,), the first literal of each variable, and their number.
        halt: see `threads.run_kernel`; likewise in the other kernels.
    """
    counts = zeros((first[-1], first[-1]), np.float64)
    for i in range(codes.shape[0]):
        if halt[0]:
            break
        for r in range(codes.shape[1]):
            at = first[i] + np.int64(codes[i, r])
            counts[at, at] += weights[r]
        for j in range(i):
            for r in range(codes.shape[1]):
                counts[first[i] + np.int64(codes[i, r]), first[j] + np.int64(codes[j, r])] += weights[r]
    for i in range(counts.shape[0]):
        for j in range(i):
            counts[j, i] = max(counts[i, j], counts[j, i])
            counts[i, j] = counts[j, i]
    return counts


@kernel
def literal_gains(counts, total, first):
    """Returns for each literal F the sum of total × I(F; X) over the other variables X, in nats.

    Args:
        counts: see `pair_counts`.
        total: the weight of all rows.
        first: see `pair_counts`.
    """
    gains = zeros(first[-1], np.float64)
    for v in range(first.size - 1):
        for F in range(first[v], first[v + 1]):
            holds = counts[F, F]
            fails = total - holds
            if holds <= 0.0 or fails <= 0.0:
                continue
            for u in range(first.size - 1):
                if u == v:
                    continue
                for s in range(first[u], first[u + 1]):
                    both, state = counts[F, s], counts[s, s]
                    if both > 0.0:
                        gains[F] += both * np.log(both * total / (holds * state))
                    if state > both:
                        gains[F] += (state - both) * np.log((state - both) * total / (fails * state))
    return gains


@kernel
def informations(counts, total, first):
    """Returns the mutual information of each pair of variables, in nats, shape (variables, variables)."""
    n = first.size - 1
    out = zeros((n, n), np.float64)
    for i in range(n):
        for j in range(i):
            value = 0.0
            for a in range(first[i], first[i + 1]):
                for b in range(first[j], first[j + 1]):
                    both = counts[a, b]
                    if both > 0.0:
                        value += both * np.log(both * total / (counts[a, a] * counts[b, b]))
            out[i, j] = out[j, i] = max(0.0, value / total)
    return out


@kernel
def forest_gains(codes, weights, first, counts, literals, price, gains, halt):
    """Writes the gains of splits on some literals over no split, with the best forests at the leaves.

    The log-likelihood of a Chow–Liu forest is that of independent variables plus N I(X; Y) for each edge;
    each parameter costs `price`. C. Chow and C. Liu, IEEE Transactions on Information Theory 14, 1968.

    Args:
        codes: (variables, rows), the rows of the context.
        weights: (rows,).
        first: (variables + 1,), the first literal of each variable.
        counts: see `pair_counts`.
        literals: of the splits to evaluate.
        price: of a parameter, in nats.
        gains: (literals,), the gain in log-likelihood of each split with independent variables; receives that
            with forests.
        halt: see `threads.run_kernel`.
    """
    total = weights.sum()
    without = _forest(counts, total, first, np.int64(-1), price)
    parameters = 0
    for u in range(first.size - 1):
        parameters += _states(counts, first, u) - 1
    for F in literals:
        if halt[0]:
            return
        v = np.searchsorted(first, F, side="right") - 1
        holds = codes[v] == F - first[v]
        inside = pair_counts(codes[:, holds], weights[holds], first, halt)
        met = weights[holds].sum()
        gains[F] += _forest(inside, met, first, v, price)
        gains[F] += _forest(np.maximum(counts - inside, 0.0), total - met, first, v, price)
        others = parameters - _states(counts, first, v) + 1
        gains[F] -= without + price * others


@kernel
def _forest(counts, total, first, split, price):
    """Returns the weight of a maximum spanning forest of all variables but `split`, if it is not negative."""
    n = first.size - 1
    strength = informations(counts, total, first)
    best = zeros(n, np.float64)
    is_in = zeros(n, np.bool_)
    left = n
    if split >= 0:
        is_in[split] = True
        left -= 1
    weight = 0.0
    for _ in range(left):
        nearest = -1
        for u in range(n):
            if not is_in[u] and (nearest < 0 or best[u] > best[nearest]):
                nearest = u
        is_in[nearest] = True
        weight += best[nearest]
        for u in range(n):
            degrees = (_states(counts, first, nearest) - 1) * (_states(counts, first, u) - 1)
            best[u] = max(best[u], strength[nearest, u] * total - price * degrees)
    return weight


@kernel
def _states(counts, first, v):
    """Returns the number of states of a variable that occur."""
    found = 0
    for s in range(first[v], first[v + 1]):
        if counts[s, s] > 0.0:
            found += 1
    return max(found, 1)
