"""The LP over listed families of columns, with multipliers; see `scoring.priced`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    Arrays = tuple[NDArray[np.generic], ...]

_STEPS, _PATIENCE, _SHRINK, _MOMENTUM, _AVERAGED = 15, 6, 0.75, 0.6, 0.1
"""Number of subgradient steps; number of steps without a better bound after which their length shrinks, and
its factor; weights of the last direction, and of a new solution in the average."""
_VIOLATED, _LEAST_SHARE = 0.02, 1e-3
"""Least violation of a row that is added, and least average of a family that counts."""
_GROWTH = 12
"""Maximum number of columns of a cluster."""
_MOST = 200.0
"""Largest exponent of a price: no family gains as much, and products of four do not overflow."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Clusters and links with multipliers.

    Attributes:
        clusters: shape (clusters, n + 1), the members; False in the last column, for the padding of families.
        links: shape (links, 3): v, a and b with a < b.
        multipliers: of the clusters, then of the links; at least 0.
    """

    clusters: NDArray[np.bool_]
    links: NDArray[np.int64]
    multipliers: NDArray[np.float64]

    @classmethod
    def none(cls, n: int) -> Rows:
        """Returns no rows."""
        return cls(np.zeros((0, n + 1), dtype=bool), np.zeros((0, 3), dtype=np.int64), np.zeros(0))

    @property
    def limits(self) -> NDArray[np.float64]:
        """The right-hand sides, shape (rows,)."""
        return np.append(self.clusters.sum(axis=1) - 1.0, np.zeros(len(self.links)))

    def coefficients(self, sets: NDArray[np.int64]) -> csr_array:
        """Returns the coefficients of families, shape (families, size), sorted by column."""
        from scipy.sparse import csr_array  # loads in a fifth of a second

        m, n = len(self.clusters), self.clusters.shape[1] - 1
        of, one, two = self.links.T
        ends = np.searchsorted(sets[:, 0], np.arange(n + 1))
        parts = []
        for v in range(n):
            parents = sets[ends[v] : ends[v + 1], 1:]
            has = np.zeros((len(parents), n + 1), dtype=np.int8)
            np.put_along_axis(has, parents, 1, axis=1)
            around = np.flatnonzero(self.clusters[:, v])
            own, at = np.flatnonzero(of == v), np.flatnonzero((one == v) | (two == v))
            met = self.clusters[around].T[parents].any(axis=1)
            block = np.hstack([met, has[:, one[own]] * has[:, two[own]], -has[:, one[at] + two[at] - v]])
            family, row = np.nonzero(block)
            columns = np.concatenate([around, m + own, m + at])
            parts.append((block[family, row].astype(float), family + ends[v], columns[row]))
        data, families, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
        return csr_array((data, (families, columns)), shape=(len(sets), m + len(self.links)))

    def prices(self, slope: float) -> tuple[NDArray[np.float64], Arrays, Arrays]:
        """Returns factors of variances, shape (n, n), of clusters and of links; see `kernels.families`."""
        m, n = len(self.clusters), self.clusters.shape[1] - 1
        inside, charges, fees = (
            self.clusters[:, :n],
            self.multipliers[:m] / slope,
            self.multipliers[m:] / slope,
        )
        v, a, b = self.links.T
        sums = (inside.T * charges) @ inside
        np.subtract.at(sums, (np.append(a, b), np.append(b, a)), np.append(fees, fees))
        sizes = inside.sum(axis=1)
        members = np.full((m, _GROWTH), -1)
        members[np.arange(_GROWTH) < sizes[:, None]] = np.nonzero(inside)[1]
        keys = members[:, :, None] * n + members[:, None]
        real = (members[:, :, None] >= 0) & (members[:, None] >= 0)
        of_clusters = _listed(n, keys[real], np.nonzero(real)[0])
        of_links = _listed(n, np.append(v * n + a, v * n + b), np.append(b, a), np.exp(np.append(fees, fees)))
        return np.exp(np.minimum(sums, _MOST)), (members, np.exp(-charges), *of_clusters), of_links

    def separated(self, sets: NDArray[np.int64], shares: NDArray[np.float64], root: int) -> Rows:
        """Returns the rows with positive multipliers, and rows that a fractional solution violates.

        Args:
            sets: families, shape (families, size), sorted by column.
            shares: the solution, shape (families,).
            root: a column that is in no cluster.
        """
        used, m = self.multipliers > 0, len(self.clusters)
        counts = shares > _LEAST_SHARE
        sets, shares = sets[counts], shares[counts]
        clusters, links = self.clusters[used[:m]], self.links[used[m:]]
        new = _violated_clusters(sets, shares, root, self.clusters.shape[1] - 1)
        seen = {one.tobytes() for one in clusters}
        new = new[np.array([one.tobytes() not in seen for one in new], dtype=bool)]
        broken = _violated_links(sets, shares, links, self.clusters.shape[1] - 1)
        amounts = [self.multipliers[:m][used[:m]], np.zeros(len(new))]
        amounts += [self.multipliers[m:][used[m:]], np.zeros(len(broken))]
        return Rows(np.concatenate([clusters, new]), np.concatenate([links, broken]), np.concatenate(amounts))


def _listed(n: int, keys: NDArray[np.int64], *values: NDArray[np.generic]) -> Arrays:
    """Returns the ends of the values of each key below n², and the values, sorted by key."""
    order = np.argsort(keys, kind="stable")
    return np.searchsorted(keys[order], np.arange(n * n + 1)), *(one[order] for one in values)


def _violated_clusters(
    sets: NDArray[np.int64], shares: NDArray[np.float64], root: int, n: int
) -> NDArray[np.bool_]:
    """Returns clusters that `kernels.clusters` finds, shape (clusters, n + 1)."""
    from jtsolve.scoring.kernels.clusters import grow_clusters

    owner, parents = sets[:, 0].copy(), sets[:, 1:].copy()
    order = np.argsort(parents, axis=None, kind="stable")
    ends = np.searchsorted(parents.ravel()[order], np.arange(n + 1))
    found = np.zeros((n, _GROWTH, n + 1), dtype=bool)
    grow_clusters(owner, parents, shares, ends, order // parents.shape[1], root, _VIOLATED, found)
    return np.unique(found[found.any(axis=2)], axis=0)


def _violated_links(
    sets: NDArray[np.int64], shares: NDArray[np.float64], known: NDArray[np.int64], n: int
) -> NDArray[np.int64]:
    """Returns links that are violated and not known, shape (links, 3)."""
    edges, radix = np.zeros((n + 1, n + 1)), np.array([n * n, n, 1])
    np.add.at(edges, (sets[:, :1], sets[:, 1:]), shares[:, None])
    pairs = combinations(range(1, sets.shape[1]), 2)
    triples = np.concatenate([sets[:0, :1].repeat(3, axis=1), *(sets[:, [0, i, j]] for i, j in pairs)])
    real = triples[:, 2] < n
    keys, at = np.unique(triples[real] @ radix, return_inverse=True)
    mass = np.bincount(at, np.tile(shares, len(triples) // len(sets))[real], minlength=keys.size)
    links = keys[:, None] // radix % n
    one, two = links[:, 1], links[:, 2]
    broken: NDArray[np.bool_] = mass > edges[one, two] + edges[two, one] + _VIOLATED
    new: NDArray[np.int64] = links[broken & ~np.isin(keys, known @ radix)]
    return new


@dataclass(frozen=True, slots=True, eq=False)
class Families:
    """Families as columns followed by their increasing parents, padded with n; sorted, without repetition.

    Attributes:
        sets: shape (families, size); each column has a family without parents.
        weights: w(v, P).
    """

    sets: NDArray[np.int64]
    weights: NDArray[np.float64]

    @classmethod
    def without_parents(cls, weights: NDArray[np.float64], size: int) -> Families:
        """Returns a family for each column; `weights` has shape (n,)."""
        sets = np.full((weights.size, size), weights.size)
        sets[:, 0] = np.arange(weights.size)
        return cls(sets, weights)

    def kept(self, kept: NDArray[np.bool_]) -> Families:
        """Returns the families that are kept, shape (families,), and those without parents."""
        kept = kept | (self.sets[:, 1] == self.sets[-1, 1])  # the padding
        return Families(self.sets[kept], self.weights[kept])

    def joined(self, sets: NDArray[np.int64], values: NDArray[np.float64], rows: Rows) -> Families:
        """Adds families.

        Args:
            sets: shape (families, size), sorted by column.
            values: weights less prices, shape (families,).
            rows: their multipliers give the prices.
        """
        weights = np.append(self.weights, values + rows.coefficients(sets) @ rows.multipliers)
        joined, at = np.unique(np.concatenate([self.sets, sets]), axis=0, return_index=True)
        return Families(joined, weights[at])

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """Returns the weights less prices, shape (families,)."""
        values: NDArray[np.float64] = self.weights - rows.coefficients(self.sets) @ rows.multipliers
        return values

    def best(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the largest of the values, shape (families,), of each column, shape (n,)."""
        best: NDArray[np.float64] = np.maximum.reduceat(
            values, np.flatnonzero(np.diff(self.sets[:, 0], prepend=-1))
        )
        return best

    def ascended(
        self, rows: Rows, target: float, step: float, proceed: Callable[[], object]
    ) -> tuple[Rows, NDArray[np.float64], NDArray[np.float64], float]:
        """Returns the rows with the best multipliers that subgradient steps find.

        Args:
            rows: the start.
            target: score of a tree.
            step: the length, as a share of Polyak's step to the target.
            proceed: called at each step; may raise.

        Returns:
            The rows; the best value of each column, shape (n,); the average of the solutions, shape
            (families,); and the last step.
        """
        owner, coefficients, limits = self.sets[:, 0], rows.coefficients(self.sets), rows.limits
        amounts, move, averaged = rows.multipliers, np.zeros(limits.size), np.zeros(owner.size)
        least, best, stalled = np.inf, (amounts, np.zeros(0)), 0
        for _ in range(_STEPS):
            proceed()
            values = self.weights - coefficients @ amounts
            top = self.best(values)
            bound = float(top.sum() + amounts @ limits)
            if bound < least:
                least, best, stalled = bound, (amounts, top), 0
            elif (stalled := stalled + 1) > _PATIENCE:
                step, stalled = step * _SHRINK, 0
            # The first of the best families of each column.
            at = np.flatnonzero(values >= top[owner])
            at = at[np.diff(owner[at], prepend=-1) > 0]
            averaged *= 1 - _AVERAGED if averaged.any() else 0
            averaged[at] += 1 - averaged.sum() / top.size
            excess = coefficients[at].sum(axis=0) - limits
            excess[(amounts <= 0) & (excess < 0)] = 0.0
            move = excess + _MOMENTUM * move
            norm = float(np.square(move).sum())
            if norm == 0:
                break
            amounts = np.maximum(0.0, amounts + step * max(bound - target, 1.0) / norm * move)
        return replace(rows, multipliers=best[0]), best[1], averaged, step
