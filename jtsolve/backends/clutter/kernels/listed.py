"""What the cuts of a dual ascent add to families that it has not listed."""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel


@kernel
def shared(starts, vertices, amounts, n):
    """Returns Σ λ of the cuts that hold both of two vertices, shape (n, n), int64.

    Args:
        starts: shape (cuts + 1,), int64: where the vertices of each cut begin.
        vertices: the single vertices among its minimal sets.
        amounts: shape (cuts,), int64: λ.
        n: the number of vertices.
    """
    together = np.zeros((n, n), np.int64)
    for k in range(amounts.size):
        for i in range(starts[k], starts[k + 1]):
            for j in range(starts[k], starts[k + 1]):
                together[vertices[i], vertices[j]] += amounts[k]
    return together


@kernel
def entered(families, of_vertex, of_pair, cuts_of_vertex, cuts_of_pair, amounts, n):
    """Returns Σ λ of the cuts that each family (v,{a,b}) enters, whose set no minimal set equals.

    Args:
        families: shape (count, 3): v, a, b.
        of_vertex: shape (n + 1,): where the cuts that each vertex generates begin.
        of_pair: shape (n² + 1,): the same of the pair u < v, at u n + v.
        cuts_of_vertex: numbers of cuts.
        cuts_of_pair: numbers of cuts.
        amounts: shape (cuts,), int64: λ.
        n: the number of vertices.
    """
    sums = np.zeros(len(families), np.int64)
    seen = np.full(amounts.size, -1, np.int64)  # the last family for which a cut is out, or counted
    for at in range(len(families)):
        v, a, b = families[at]
        pair = min(a, b) * n + max(a, b)
        # {a,b} is in the up-set.
        for u in (a, b):
            for i in range(of_vertex[u], of_vertex[u + 1]):
                seen[cuts_of_vertex[i]] = at
        for i in range(of_pair[pair], of_pair[pair + 1]):
            seen[cuts_of_pair[i]] = at
        # Otherwise {v,a,b} is, if {v}, {v,a} or {v,b} is a minimal set.
        for i in range(of_vertex[v], of_vertex[v + 1]):
            k = cuts_of_vertex[i]
            if seen[k] < at:
                seen[k] = at
                sums[at] += amounts[k]
        for u in (a, b):
            pair = min(u, v) * n + max(u, v)
            for i in range(of_pair[pair], of_pair[pair + 1]):
                k = cuts_of_pair[i]
                if seen[k] < at:
                    seen[k] = at
                    sums[at] += amounts[k]
    return sums
