"""Maxima of vertices over their families, smoothed by log-sum-exp; see `potentials`.

Sets are positions, as in `kernels.clutters`.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import filled, zeros

_NOTHING = -14.0
"""Smaller exponents, with shares below 10^-6, are left out: the time of gradients is linear in the shares."""


@kernel
def smoothed_maxima(values, members, facets, sizes, allowed, n, temperature):
    """Returns τ ln Σ_P exp((values(P∪v) − values(P)) / τ) for every vertex v, and the families' shares x.

    Args:
        values: shape (count,), float64.
        members: shape (count, width), int32.
        facets: shape (count, width), int32.
        sizes: shape (count,), int32.
        allowed: shape (count, width), bool.
        n: the number of vertices; the maximum of one without a family is -inf.
        temperature: τ > 0.

    Returns:
        Shape (n,), and shape (count, width) with sum 1 for each vertex that has a family.
    """
    # First the maxima: exponents relative to them are at most 0, and cannot overflow.
    most = filled(n, np.float64, -np.inf)
    share = zeros(allowed.shape, np.float64)
    for at in range(values.size):
        for j in range(sizes[at]):
            if allowed[at, j]:
                v = members[at, j]
                most[v] = max(most[v], values[at] - values[facets[at, j]])
    total = zeros(n, np.float64)
    for at in range(values.size):
        for j in range(sizes[at]):
            if allowed[at, j]:
                v = members[at, j]
                # A family that attains the maximum has share 1 before normalisation, so that totals are ≥ 1.
                exponent = (values[at] - values[facets[at, j]] - most[v]) / temperature
                if exponent > _NOTHING:
                    share[at, j] = np.exp(exponent)
                    total[v] += share[at, j]
    for at in range(values.size):
        for j in range(sizes[at]):
            if share[at, j] > 0:
                share[at, j] /= total[members[at, j]]
    return most + temperature * np.log(np.maximum(total, 1.0)), share
