"""Bounds of Gaussian trees: the best families, with prices on what contradicts each other in them.

A tree scores Σ_v w(v, P_v), with P_v the earlier neighbours of v in a perfect order (`jtsolve.families`) from
any root. The first column of a set S, a *cluster*, has no parent in S, and any two members of P_v are
adjacent. So with x(v, P) = 1 for the families of the tree,

    Σ_{v ∈ S} Σ_{P: P ∩ S ≠ ∅} x(v, P) ≤ |S| − 1      for every cluster S,
    Σ_{P ∋ a, b} x(v, P) ≤ Σ_{P ∋ b} x(a, P) + Σ_{P ∋ a} x(b, P)      for every *link* v, a, b.

With multipliers λ(S), μ(v, ab) ≥ 0 of these rows, no tree scores more than

    Σ_v max_P [ w(v, P) − Σ_{S ∋ v: P ∩ S ≠ ∅} λ(S) − Σ_{a, b ∈ P} μ(v, ab) + Σ_{u ∈ P} Σ_t μ(t, uv) ]
    + Σ_S (|S| − 1) λ(S).

The root has no parents and is in no cluster. For P with s members, w is at most c − β ln σ²(v | P), so that
the best P minimises the product of σ² and prices; `kernels.families` searches all sets. The first bound,
without prices, is that of the best families. Then, in turns, subgradient steps on the families found so far
set the prices, rows that their average violates are added (`family_lp`), and the sets of the most promising
columns are searched; after a few turns, all sets are.

Time of a search: n C(n, s) steps of about a nanosecond. Memory: s n² numbers a thread, and a few hundred
families of each column, with about as many rows each.

References:
    Jaakkola, Sontag, Globerson and Meila, Learning Bayesian network structure using LP relaxations, AISTATS
    2010 (clusters and their multipliers). Cussens, Bayesian network learning with cutting planes, UAI 2011.
    Held, Wolfe and Crowder, Validation of subgradient optimization, Mathematical Programming 6, 1974.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.core.threads import Pool
from jtsolve.scoring.family_lp import Families, Rows
from jtsolve.scoring.scorer import log_least_variances

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from jtsolve.scoring.scorer import GaussianScorer

_NANOSECONDS = 1.0
"""Time of a column and a set, measured with 100 and 452 columns."""
_SEARCHES, _TURNS = 30, 8
"""Maximum numbers of searches of all sets, and of turns between two."""
_PROMISING = 80
"""Number of columns whose sets are searched in turns, for each column."""
_NEAR, _FAR = 0.6, 4.0
"""Largest loss of families that are listed, and of those that stay, as shares of the mean gap of a column. In
short lists multipliers overfit."""
_LEVEL = 0.4
"""Share of the gap that turns close before all sets are searched again."""
_ENDED = 1e-3
"""Searches end when the bound changes by a smaller share of the gap."""
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
    root = int(np.square(weights.correlation).sum(axis=0).argmax())
    known = Families.without_parents(weights.single, size)
    dual = _Dual(weights, root, target, workers, proceed, Rows.none(scorer.table.n), known)
    bound = before = inf
    # With a target, the first turns are in the most correlated columns: they cost little.
    columns = None if target == -inf else _most(np.abs(weights.correlation))
    for _ in range(_SEARCHES):
        values = dual.known.values(dual.rows)
        found = dual.search(dual.known.best(values), columns)
        if found.total == inf:  # dependent columns
            return
        gap = found.total - target
        if columns is None:
            bound = min(bound, found.total + _ROUNDING * found.magnitude)
            yield bound
            if gap <= 0 or abs(before - found.total) < _ENDED * gap:
                return
            before = found.total
        near = dual.listed(values, found, gap)
        for _ in range(_TURNS):
            if dual.turn(near) < target + _LEVEL * gap:
                break
        columns = None


class _Found(NamedTuple):
    """Families that a search found, their values, and the best value of each column.

    Attributes:
        sets: sorted by column, padded with n.
        values: weights less prices.
        best: shape (n,).
        total: the bound, if all sets were searched.
        magnitude: of the numbers in it.
    """

    sets: NDArray[np.int64]
    values: NDArray[np.float64]
    best: NDArray[np.float64]
    total: float
    magnitude: float


@dataclass(slots=True, eq=False)
class _Dual:
    """The LP over listed families, and the searches that extend the list."""

    weights: _Weights
    root: int
    target: float
    workers: int
    proceed: Callable[[], object]
    rows: Rows
    known: Families
    near: float = inf
    step: float = 1.0

    def search(self, best: NDArray[np.float64], columns: NDArray[np.int64] | None) -> _Found:
        """Searches families better than the best listed ones, or near them; see `_Weights.search`."""
        floor = best - self.near
        floor[self.root] = inf
        sets, values = self.weights.search(self.rows, floor, columns, self._run)
        best = best.copy()
        np.maximum.at(best, sets[:, 0], values)
        amounts, limits = self.rows.multipliers, self.rows.limits
        total = float(best.sum() + amounts @ limits)
        return _Found(sets, values, best, total, float(np.abs(best).sum() + amounts @ (limits + 1)))

    def _run(self, task: Callable[[int], None]) -> None:
        def polled(at: int) -> None:
            self.proceed()
            task(at)

        with Pool(self.workers) as pool:
            list(pool.map(polled, range(len(self.weights.logs))))

    def listed(self, values: NDArray[np.float64], found: _Found, gap: float) -> NDArray[np.int64]:
        """Lists the families near the best ones, and returns the most promising columns for each column.

        Args:
            values: of the listed families.
            found: by a search of all sets.
            gap: between its total and the target.
        """
        sets, n = self.known.sets, len(found.best)
        self.near = _NEAR * gap / n
        columns = _promising(sets, values, found)
        self.known = self.known.kept(values >= found.best[sets[:, 0]] - _FAR * self.near)
        near = found.values >= found.best[found.sets[:, 0]] - self.near
        self.known = self.known.joined(found.sets[near], found.values[near], self.rows)
        return columns

    def turn(self, columns: NDArray[np.int64]) -> float:
        """Improves the multipliers, adds families and rows, and returns the total of a search in columns."""
        self.rows, best, shares, self.step = self.known.ascended(
            self.rows, self.target, self.step, self.proceed
        )
        found = self.search(best, columns)
        rows = self.rows.separated(self.known.sets, shares, self.root)
        self.known = self.known.joined(found.sets, found.values, self.rows)
        self.rows = rows
        return found.total


def _promising(known: NDArray[np.int64], values: NDArray[np.float64], found: _Found) -> NDArray[np.int64]:
    """Returns each column and, in order, those in its best families, shape (n, columns)."""
    n = len(found.best)
    best = np.full((n, n + 1), np.finfo(np.float64).min)
    for sets, worth in ((known, values), (found.sets, found.values)):
        for j in range(1, sets.shape[1]):
            np.maximum.at(best, (sets[:, 0], sets[:, j]), worth)
    return _most(best[:, :n])


def _most(worth: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns each column and, in order, those of the greatest worth for it, shape (n, columns)."""
    n = len(worth)
    np.fill_diagonal(worth, -inf)
    chosen = np.sort(np.argsort(-worth, axis=1, kind="stable")[:, : min(n - 1, _PROMISING)], axis=1)
    return np.hstack([np.arange(n)[:, None], chosen])


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
        rows: Rows,
        floor: NDArray[np.float64],
        columns: NDArray[np.int64] | None,
        run: Callable[[Callable[[int], None]], None],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Searches families with larger values, weights less prices, than a floor.

        Args:
            rows: their multipliers give the prices.
            floor: shape (n,); inf for a column without parents.
            columns: each column followed by its possible parents, increasing; None for all sets.
            run: calls a function with all numbers below n, in any order.

        Returns:
            The best family of each column, number of parents and first parent, sorted by column and padded
            with n, and the values; inf if columns are dependent.
        """
        n, size = len(self.logs), len(self.slopes) + 1
        families, values = [np.zeros((0, size), dtype=np.int64)], [np.zeros(0)]
        for s in range(1, size):
            slope, constant = self.slopes[s - 1], self.constants[s - 1]
            with np.errstate(over="ignore"):
                limits = np.exp((constant - floor) / slope - self.logs)
            least, chosen = self._least(s, rows, limits, columns, run)
            better, at = np.nonzero(least < limits[:, None])
            padded = np.full((len(better), size), n)
            padded[:, 0], padded[:, 1 : s + 1] = better, chosen[better, at]
            families.append(padded)
            with np.errstate(divide="ignore"):
                logs = np.log(np.maximum(least[better, at], 0.0))
            values.append(constant - slope * (self.logs[better] + logs))
        sets, found = np.concatenate(families), np.concatenate(values)
        order = np.argsort(sets[:, 0], kind="stable")
        return sets[order], found[order]

    def _least(
        self,
        s: int,
        rows: Rows,
        limits: NDArray[np.float64],
        columns: NDArray[np.int64] | None,
        run: Callable[[Callable[[int], None]], None],
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Returns the least products of variance and prices below limits, by column and first parent."""
        from jtsolve.scoring.kernels.families import search_all, search_near

        n, prices = len(limits), rows.prices(self.slopes[s - 1])
        if columns is None:
            least, chosen = np.tile(limits, (n, 1)), np.zeros((n, n, s), dtype=np.int64)
            run(lambda at: search_all(self.correlation, *prices, at, least[at], chosen[at]))
            return least.T, chosen.transpose(1, 0, 2)
        least = np.tile(limits[:, None], columns.shape[1])
        chosen = np.zeros((*least.shape, s), dtype=np.int64)
        run(lambda at: search_near(self.correlation, columns[at], *prices, least[at], chosen[at]))
        return least, chosen
