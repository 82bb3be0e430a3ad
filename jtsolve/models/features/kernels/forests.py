"""Chow–Liu forests on the two sides of a literal: lower bounds of the gain of a split."""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.models.features.kernels.counts import informations, pair_counts


@kernel
def forest_gains(codes, weights, first, counts, literals, price, gains, halt):
    """Writes the gains of splits on some literals over no split, with the best forests at the leaves.

    The log-likelihood of a Chow–Liu forest is that of independent variables plus N I(X; Y) for each edge;
    each parameter costs `price`. C. Chow and C. Liu, IEEE Transactions on Information Theory 14, 1968.

    Args:
        codes: (variables, rows), the rows of the context.
        weights: (rows,).
        first: (variables + 1,), the first literal of each variable.
        counts: see `counts.pair_counts`.
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
    best = np.zeros(n)
    is_in = np.zeros(n, np.bool_)
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
