"""Greedy separation of clusters."""

from __future__ import annotations

from math import inf

import numpy as np

from jtsolve.core.compiling import kernel
from jtsolve.core.kernels.arrays import zeros


@kernel
def grow_clusters(owner, parents, shares, ends, by_parent, root, violated, found):
    """Grows a cluster from each column by the member that leaves the least share without a parent in it.

    Args:
        owner: shape (families,), int64, sorted: the columns of families.
        parents: shape (families, size), int64, padded with n.
        shares: shape (families,), float64: of a column, they sum to 1.
        ends: shape (n + 1,), int64: the families with parent u are `by_parent[ends[u] : ends[u + 1]]`.
        by_parent: int64.
        root: a column that is in no cluster.
        violated: the least violation.
        found: shape (n, steps, n + 1), bool, False on entry: receives the violated clusters.
    """
    n = found.shape[0]
    for seed in range(n):
        if seed == root:
            continue
        inside = zeros(n + 1, np.bool_)
        hit = zeros(owner.size, np.bool_)
        # Shares without a parent inside, by column; and of members, by each other parent.
        free, reach = zeros(n, np.float64), zeros(n + 1, np.float64)
        for f in range(owner.size):
            free[owner[f]] += shares[f]
        entering, u = 0.0, seed
        for step in range(found.shape[1]):
            entering += free[u] - reach[u]
            inside[u] = True
            for at in range(ends[u], ends[u + 1]):
                f = by_parent[at]
                if hit[f]:
                    continue
                hit[f] = True
                free[owner[f]] -= shares[f]
                if inside[owner[f]]:
                    for p in parents[f]:
                        reach[p] -= shares[f]
            for f in range(np.searchsorted(owner, u), np.searchsorted(owner, u, side="right")):
                if not hit[f]:
                    for p in parents[f]:
                        reach[p] += shares[f]
            if entering < 1.0 - violated:
                found[seed, step] = inside
            least, u = inf, -1
            for v in range(n):
                if not inside[v] and v != root and free[v] - reach[v] < least:
                    least, u = free[v] - reach[v], v
            if least > 0.3:  # a violated cluster has less than 1 in all
                break
