"""Bounds of Gaussian trees: the best families, with prices on edges that contradict each other.

A tree scores Σ_v w(v, P_v), with P_v the earlier neighbours of v in a perfect order (`jtsolve.families`). Any
two members of P_v are adjacent, and an edge is in the family of one end only. With x(v, P) = 1 for the
families of the tree and y(ab) = Σ_{P ∋ b} x(a, P) + Σ_{P ∋ a} x(b, P),

    y(ab) ≤ 1,     Σ_{P ∋ a, b} x(v, P) ≤ y(ab)     for all a, b, v.

With multipliers λ(ab), μ(v, ab) ≥ 0 of these rows, no tree scores more than

    Σ_v max_P [ w(v, P) − Σ_{u ∈ P} (λ(uv) − Σ_t μ(t, uv)) − Σ_{a, b ∈ P} μ(v, ab) ] + Σ λ(ab),

less the least loss of a vertex without parents, since one has none. For P with s members, w is at most
c − β ln σ²(v | P), so that the best P minimises the product of σ² and prices; `kernels.families` searches all
sets. The first bound, without prices, is that of the best families. Subgradient steps on the families found
so far then set the prices, and all sets are searched again.

Time of a search: n C(n, s) steps of about a nanosecond. Memory: s n² numbers a thread.

References:
    Held, Wolfe and Crowder, Validation of subgradient optimization, Mathematical Programming 6, 1974.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb, inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.core.threads import Pool
from jtsolve.scoring.scorer import log_least_variances

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from jtsolve.scoring.scorer import GaussianScorer

_NANOSECONDS = 1.0
"""Time of a column and a set, measured with 100 and 452 columns."""
_SEARCHES = 30
"""Maximum number of searches, after which the bound hardly falls."""
_STEPS, _PATIENCE, _SHRINK, _MOMENTUM = 100, 6, 0.75, 0.6
"""Number of subgradient steps between two searches; number of steps without a better bound after which the
length shrinks, and its factor; weight of the last direction."""
_NEAR = 0.4
"""Largest loss of listed families, as a share of the mean gain of a column."""
_ENDED = 1e-3
"""Searches end when new families raise the bound by a smaller share of the gap."""
_FORBIDDING = 1e200
"""A prohibitive price."""
_ROUNDING = 1e-9
"""Relative rounding error of sums of n weights."""


def seconds_of_search(n: int, size: int, workers: int) -> float:
    """Returns the predicted seconds of the first search of `priced_bounds`.

    Args:
        n: number of variables.
        size: size of the largest sets.
        workers: number of threads.
    """
    return 1e-9 * _NANOSECONDS * n * comb(n, size - 1) / workers


def priced_bounds(
    scorer: GaussianScorer, size: int, target: float, workers: int, proceed: Callable[[], object]
) -> Iterator[float]:
    """Yields decreasing upper bounds of all trees with cliques of at most `size` columns, in nats.

    It yields none if columns are linearly dependent and the score is `bge`.

    Args:
        scorer: of the columns.
        size: at least 2.
        target: score of a tree, for the length of steps.
        workers: threads.
        proceed: called several times a second; may raise.
    """
    weights = _Weights.of(scorer, size)
    if weights is None:
        return
    n, single, bound, listed = scorer.table.n, weights.single, inf, -inf
    prices, links = np.zeros((n, n)), _Links(np.zeros(0, dtype=np.int64), np.zeros(0))
    known = _Families(np.zeros((0, size), dtype=np.int64), np.zeros(0))
    step = 1.0  # as a share of Polyak's step to the target
    for _ in range(_SEARCHES):
        gains, found = single.copy(), []
        for s in range(1, size):
            values, sets = weights.search(s, prices, links, workers, proceed)
            first, v = np.nonzero(np.isfinite(values))
            padded = np.full((v.size, size), n)
            padded[:, 0], padded[:, 1 : s + 1] = v, sets[first, v]
            found.append(_Families(padded, values[first, v]))
            np.maximum.at(gains, v, values[first, v])
        total = float(gains.sum() + np.triu(prices, 1).sum() - (gains - single).min())
        bound = min(bound, total + _ROUNDING * float(np.abs(gains).sum()))
        yield bound
        if total - listed < _ENDED * (total - target):
            return
        least = gains - _NEAR * float((gains - single).mean())
        for one in found:
            kept = one.values >= least[one.sets[:, 0]]
            true = one.values + _charges(one.sets, _net(prices, links), links)
            known = known.joined(_Families(one.sets[kept], true[kept]))
        listed, prices, links, step = known.priced(
            single, prices, links, target=target, step=step, proceed=proceed
        )


class _Links(NamedTuple):
    """Positive multipliers μ(v, ab) by increasing keys (v n + a) n + b with a < b."""

    keys: NDArray[np.int64]
    amounts: NDArray[np.float64]

    def of(self, keys: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the multipliers of keys; 0 for others."""
        if not self.keys.size:
            return np.zeros(keys.shape)
        at = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return np.where(self.keys[at] == keys, self.amounts[at], 0.0)

    def relief(self, n: int) -> NDArray[np.float64]:
        """Returns Σ_v μ(v, ab), shape (n, n)."""
        sums = np.zeros(n * n)
        np.add.at(sums, self.keys % n**2, self.amounts)
        square = sums.reshape(n, n)
        return square + square.T


def _net(prices: NDArray[np.float64], links: _Links) -> NDArray[np.float64]:
    """Returns the price of each parent, shape (n + 1, n + 1), 0 for the padding."""
    n = len(prices)
    net = np.zeros((n + 1, n + 1))
    net[:n, :n] = prices - links.relief(n)
    return net


def _keys(sets: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Returns the keys of the links of families, shape (pairs, count); -1 for pairs with padding."""
    v, parents = sets[:, 0], sets[:, 1:]  # increasing, the padding last
    pairs = combinations(range(parents.shape[1]), 2)
    keys = [np.where(parents[:, j] < n, (v * n + parents[:, i]) * n + parents[:, j], -1) for i, j in pairs]
    return np.array(keys, dtype=np.int64).reshape(-1, len(sets))


def _charges(sets: NDArray[np.int64], net: NDArray[np.float64], links: _Links) -> NDArray[np.float64]:
    """Returns the sum of the prices of each family."""
    paid: NDArray[np.float64] = net[sets[:, :1], sets[:, 1:]].sum(axis=1)
    linked: NDArray[np.float64] = links.of(_keys(sets, len(net) - 1)).sum(axis=0)
    return paid + linked


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """Upper bounds w(v, P) ≤ c(s) − β(s) ln σ²(v | P) for P of size s.

    Attributes:
        correlation: of the columns.
        logs: shape (n,), ln of the variances.
        single: shape (n,), the scores of single columns.
        constants: c(1), c(2), …
        slopes: β(1), β(2), …
    """

    correlation: NDArray[np.float64]
    logs: NDArray[np.float64]
    single: NDArray[np.float64]
    constants: tuple[float, ...]
    slopes: tuple[float, ...]

    @classmethod
    def of(cls, scorer: GaussianScorer, size: int) -> _Weights | None:
        """Returns the bounds of families with fewer than `size` parents, or None if there are none."""
        n, rows = scorer.table.n, scorer.table.total
        logs = np.log(np.diag(scorer.matrix))
        least = np.cumsum(np.sort(log_least_variances(scorer.matrix)))

        def value(log_determinant: float, s: int) -> float:
            return float(scorer.score.value(np.array([log_determinant]), s, rows, n)[0])

        constants, slopes = [], []
        for s in range(1, size):  # if w depends on ln det of P, its least value gives the bound
            own, parents = value(0.0, s + 1), value(0.0, s)
            slope, before = own - value(1.0, s + 1), parents - value(1.0, s)
            beyond = slope - before if slope - before > _ROUNDING * slope else 0.0
            if beyond and not np.isfinite(least[s - 1]):
                return None
            shift = beyond * float(least[s - 1]) if beyond else 0.0
            constants.append(own - parents - shift)
            slopes.append(slope)
        single = scorer.score.value(logs, 1, rows, n)
        deviations = np.exp(logs / 2)
        correlation = scorer.matrix / np.outer(deviations, deviations)
        return cls(correlation, logs, single, tuple(constants), tuple(slopes))

    def search(
        self,
        s: int,
        prices: NDArray[np.float64],
        links: _Links,
        workers: int,
        proceed: Callable[[], object],
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Returns the best families of s parents, less prices, by their first parent and the column.

        Returns:
            The values, shape (n, n), -inf for none, and the parents, shape (n, n, s), increasing.
        """
        from jtsolve.scoring.kernels.families import least_priced

        n, slope = len(self.logs), self.slopes[s - 1]
        factors = np.exp(_net(prices, links)[:n, :n] / slope)
        np.fill_diagonal(factors, _FORBIDDING)
        pairs, at = np.unique(links.keys % n**2, return_inverse=True)
        rank = np.zeros(n * n, dtype=np.int64)
        rank[pairs] = np.arange(1, pairs.size + 1)
        place = rank.reshape(n, n) + rank.reshape(n, n).T
        pair_prices = np.ones((pairs.size + 1, n))
        pair_prices[at + 1, links.keys // n**2] = np.exp(links.amounts / slope)
        least, sets = np.full((n, n), inf), np.zeros((n, n, s), dtype=np.int64)

        def task(first: int) -> None:
            proceed()
            least_priced(self.correlation, factors, place, pair_prices, s, first, least[first], sets[first])

        with Pool(workers) as pool:
            list(pool.map(task, range(n)))
        if not (least > 0).all():  # dependent columns, up to rounding
            return np.full((n, n), inf), sets
        with np.errstate(divide="ignore"):
            values = self.constants[s - 1] - slope * (self.logs + np.log(least))
        return values, sets


@dataclass(frozen=True, slots=True, eq=False)
class _Families:
    """Families as columns followed by their increasing parents, padded with n; and their weights."""

    sets: NDArray[np.int64]
    values: NDArray[np.float64]

    def joined(self, other: _Families) -> _Families:
        """Returns the union, sorted."""
        sets = np.concatenate([self.sets, other.sets])
        sets, at = np.unique(sets, axis=0, return_index=True)
        return _Families(sets, np.concatenate([self.values, other.values])[at])

    def priced(
        self,
        single: NDArray[np.float64],
        prices: NDArray[np.float64],
        links: _Links,
        *,
        target: float,
        step: float,
        proceed: Callable[[], object],
    ) -> tuple[float, NDArray[np.float64], _Links, float]:
        """Returns the least bound over these families by subgradient steps, its prices, and the last step."""
        n = single.size
        owner, parents = self.sets[:, 0], self.sets[:, 1:]
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        keys, place = np.unique(_keys(self.sets, n), return_inverse=True)
        place = place.reshape(-1, len(owner))
        amounts, real = links.of(keys), keys >= 0
        ends = np.where(real, keys % n**2, n * n)
        best, kept = inf, (prices, amounts)
        stalled = 0
        move: tuple[NDArray[np.float64], NDArray[np.float64]] = np.zeros((n, n)), np.zeros(keys.size)
        for _ in range(_STEPS):
            proceed()
            net = _net(prices, _Links(keys[real], amounts[real]))
            values = self.values - net[owner[:, None], parents].sum(axis=1) - amounts[place].sum(axis=0)
            top = np.maximum.reduceat(values, starts)
            gains = single.copy()
            gains[owner[starts]] = np.maximum(gains[owner[starts]], top)
            bound = float(gains.sum() + np.triu(prices, 1).sum() - (gains - single).min())
            if bound < best:
                best, kept, stalled = bound, (prices, amounts), 0
            elif (stalled := stalled + 1) > _PATIENCE:
                step, stalled = step * _SHRINK, 0
            # The first of the best families of each column.
            at = np.flatnonzero(values >= gains[owner])
            at = at[np.diff(owner[at], prepend=-1) > 0]
            arcs = np.zeros((n + 1, n + 1))
            arcs[owner[at, None], parents[at]] = 1.0
            edges = (arcs + arcs.T)[:n, :n]
            excess = np.where((prices > 0) | (edges > 1), edges - 1, 0.0)
            np.fill_diagonal(excess, 0.0)
            used = np.bincount(place[:, at].ravel(), minlength=keys.size)
            lack = np.where(real, used - np.append(edges, 0.0)[ends], 0.0)
            lack[(amounts <= 0) & (lack < 0)] = 0.0
            move = excess + _MOMENTUM * move[0], lack + _MOMENTUM * move[1]
            norm = float(np.square(move[0]).sum() / 2 + np.square(move[1]).sum())
            if norm == 0:
                break
            length = step * max(bound - target, 1.0) / norm
            prices = np.maximum(0.0, prices + length * move[0])
            amounts = np.where(real, np.maximum(0.0, amounts + length * move[1]), 0.0)
        prices, amounts = kept
        return best, prices, _Links(keys[amounts > 0], amounts[amounts > 0]), step
