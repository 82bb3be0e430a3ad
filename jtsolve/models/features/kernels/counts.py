"""Counts of pairs of states in the rows of a context, and the information in them.

Literals are numbered through the variables of the context: those of variable i begin at first[i].
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel


@kernel
def pair_counts(codes, weights, first, halt):
    """Returns the weight of the rows in which two literals hold, shape (literals, literals).

    Args:
        codes: (variables, rows), those of the context.
        weights: (rows,).
        first: (variables + 1,), the first literal of each variable, and their number.
        halt: see `threads.run_kernel`; likewise in the other kernels.
    """
    counts = np.zeros((first[-1], first[-1]))
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
    gains = np.zeros(first[-1])
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
    out = np.zeros((n, n))
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
