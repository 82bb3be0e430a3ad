"""The closure of families: the sets that may still be complete after some families are dropped.

A set is a row with the positions of its facets, as in `families`; subsets come before supersets.
"""

from __future__ import annotations

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import empty


@kernel
def close_down(allowed, facets, sizes):
    """Drops families in place, by rules (a) to (c) of `families`, until nothing changes; returns the sets.

    Args:
        allowed: shape (m, width), bool: whether the j-th member, with the rest of the set as its parents, is
            a family.
        facets: shape (m, width): the position of each set without its j-th member.
        sizes: shape (m,).

    Returns:
        Shape (m,), bool: the sets that may be complete. ∅ and single vertices always are.
    """
    m = sizes.size
    alive = empty(m, np.bool_)
    goes_on = True
    while goes_on:
        last = allowed.copy()  # last[A, j]: some allowed (v,Q) with A∖v ⊆ Q, v the j-th member
        for a in range(m - 1, -1, -1):  # (a)
            alive[a] = sizes[a] <= 1
            for j in range(sizes[a]):
                if last[a, j]:
                    alive[a] = True
                    for gone in range(sizes[a]):
                        if gone != j:
                            last[facets[a, gone], j - (gone < j)] = True
        goes_on = False
        for a in range(m):
            if sizes[a] > 1:  # (b)
                for j in range(sizes[a]):
                    alive[a] &= alive[facets[a, j]]
            if not alive[a]:  # (c)
                for j in range(sizes[a]):
                    goes_on |= allowed[a, j]
                    allowed[a, j] = False
    return alive
