"""Scores of mixed tables: of discrete columns, of real columns, and of real columns within discrete cells.

For each set d of discrete columns, the moments of the real columns within its cells are computed once for all
real sets c; ln det of the submatrices share the rows of their Cholesky factors.

Time: with m real columns, O(N m) for each d that is scored with single real columns, O(N m²) for each d with
sets of several; and O(k²) for each cell of each set of k real columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations, islice
from math import comb, inf, log
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.core.threads import Pool
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.scoring.colex import ColexOrder
from jtsolve.scoring.score import CellMoments
from jtsolve.scoring.scorer import LEAST_PIVOT
from jtsolve.tables.margins import normal_scores
from jtsolve.tables.table import ContinuousTable, MixedTable, dependent

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.scoring.score import MixedScore
    from jtsolve.scoring.scorer import CountingScorer, GaussianScorer

_SPARSE = 4
"""Cells per row above which the occupied ones are found by sorting."""
_GROUPS = 64
"""Sets of discrete columns per thread between two reports of progress."""


def scored_columns(table: MixedTable, score: MixedScore) -> ContinuousTable:
    """Returns the real columns, transformed as the score requires."""
    real = table.real
    real.require_rows(f"the score '{score.name}'")
    if score.columns == "normal-scores":
        values = normal_scores(real.values)
    elif score.standardised:
        centred = real.values - real.values.mean(axis=1, keepdims=True)
        values = centred / centred.std(axis=1, keepdims=True)
    else:
        return real
    return ContinuousTable(real.names, values, real.provenance)


@dataclass(frozen=True, slots=True, eq=False)
class MixedScorer:
    """Scores of discrete and real columns; see `Scorer`.

    Args:
        table: the data.
        score: of the columns.
        discrete: the scorer of the discrete columns; None if there are none.
        gaussian: the scorer of the real columns.
        max_size: size of the largest sets.
    """

    table: MixedTable
    score: MixedScore
    discrete: CountingScorer | None
    gaussian: GaussianScorer
    max_size: int
    place: NDArray[np.int64]
    """Shape (n,): the position of each column among those of its kind."""
    real: NDArray[np.int64]
    """The real columns, increasing."""
    values_by_row: NDArray[np.float64]
    """Shape (rows, m): the transformed real columns, centred, in standard deviations."""
    own: NDArray[np.float64]
    """Shape (m,): the term of each real column for its unit, in nats."""
    rounding: NDArray[np.float64]
    """Shape (m,): h²/12, with h the least gap between two values of a column."""

    @classmethod
    def of(
        cls,
        table: MixedTable,
        score: MixedScore,
        discrete: CountingScorer | None,
        gaussian: GaussianScorer,
        max_size: int,
    ) -> MixedScorer:
        """Returns the scorer of a table, given the scorers of its parts.

        Args:
            table: of states and numbers.
            score: to compute.
            discrete: scorer of the states; None without any.
            gaussian: scorer of the numbers.
            max_size: size of the largest sets.
        """
        numbers = gaussian.table.values
        mean = numbers.mean(axis=1, keepdims=True)
        unit = np.ones_like(mean) if score.standardised else numbers.std(axis=1, keepdims=True)
        standard = (numbers - mean) / unit
        gaps = np.array([np.diff(np.unique(column)).min() for column in standard])
        states = np.array([states is None for states in table.states])
        place = np.where(states, np.cumsum(states), np.cumsum(~states)) - 1
        return cls(
            table,
            score,
            discrete,
            gaussian,
            max_size,
            place.astype(np.int64),
            np.flatnonzero(states),
            np.ascontiguousarray(standard.T),
            -table.rows * np.log(unit[:, 0]),
            gaps**2 / 12,
        )

    @property
    def nanoseconds(self) -> float:
        """See `Scorer`; the average over all sets."""
        p, m, rows = self.table.n - self.real.size, self.real.size, self.table.rows
        total = 0.0
        for j in range(min(p, self.max_size) + 1):
            k = min(self.max_size - j, m)
            each = 0.0 if k < 1 or j == 0 else rows * (3 + m * (0.4 if k == 1 else 0.12 * m))
            inner = sum(comb(m, s) for s in range(1, k + 1)) * 100
            total += comb(p, j) * (each + inner + 500 + 0.8 * rows * (j > 0))
        return total / count_bounded_subsets(self.table.n, self.max_size)

    def ceilings(self) -> NDArray[np.float64]:
        """See `Scorer`; densities have no bound."""
        return np.full(self.table.n, inf)

    def extremes(self, max_size: int) -> tuple[float, float]:
        """See `Scorer`; determinants lie between products of least pivots and of diagonals."""
        low, high = self.gaussian.extremes(max_size)
        if self.discrete is None:
            return low, high
        states = self.discrete.extremes(min(max_size, self.discrete.table.n))
        rows, q = self.table.rows, float(np.sort(self.discrete.arities)[-max_size:].astype(float).prod())
        widest = np.abs(self.values_by_row).max() ** 2
        logs = log(max(LEAST_PIVOT * self.rounding.min(), 1e-300)), log(4 * rows * (widest + 1) + 4)
        ends = [low, high, *states]
        for size in range(1, max_size):
            for counts in (np.ones(rows, dtype=np.int64), np.array([rows])):
                weight = float(self.score.weights(counts, size).sum()) * size
                rest = self.score.constant(counts, size, min(q, 1e90))
                units = float(np.abs(self.own).max()) * size
                ends += [weight * one + rest + other for one in logs for other in (-units, units)]
        return states[0] + min(ends), states[1] + max(ends)

    def values(self, sets: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `Scorer`.

        Raises:
            InputError: the columns of a set are linearly dependent.
        """
        members = sets >= 0
        is_real = np.zeros(self.table.n + 1, dtype=np.bool_)
        is_real[self.real] = True
        real = is_real[sets] & members
        local = np.where(members, self.place[sets], -1)
        sizes, numbers = members.sum(axis=1), real.sum(axis=1)
        found = np.zeros(len(sets))
        if (at := np.flatnonzero((numbers == 0) & (sizes > 0))).size:
            assert self.discrete is not None, "there are discrete columns"
            found[at] = self.discrete.values(local[at])
        if (at := np.flatnonzero((numbers == sizes) & (sizes > 0))).size:
            found[at] = self.gaussian.values(local[at])
        at = np.flatnonzero((numbers > 0) & (numbers < sizes))
        groups: dict[bytes, list[int]] = {}
        discrete = _gathered(local[at], (members & ~real)[at])
        for i, row in zip(at.tolist(), discrete, strict=True):
            groups.setdefault(row.tobytes(), []).append(i)
        for key, positions in groups.items():
            given = np.frombuffer(key, dtype=np.int64)
            own = _gathered(local[positions], real[positions])
            found[positions] = self.values_with(given[given >= 0], own[:, : own.max(axis=0).argmin() or None])
        return found

    def values_with(self, discrete: NDArray[np.int64], sets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns s(d, c) of one set d of discrete columns and several sets c of real ones.

        Args:
            discrete: positions among the discrete columns, in decreasing order, at least one.
            sets: shape (count, width): positions among the real columns, in decreasing order, then -1; at
                least one in each set.

        Raises:
            InputError: columns are linearly dependent.
        """
        from jtsolve.scoring.kernels.cells import (
            scatters,
            variances,
            weighted_log_determinants,
            weighted_logs,
        )

        assert self.discrete is not None, "there are discrete columns"
        used = np.unique(sets[sets >= 0])
        renumbered = np.searchsorted(used, sets)
        renumbered[sets < 0] = -1
        values = self.values_by_row
        if used.size < self.real.size:
            values = np.ascontiguousarray(values[:, used])
        arities = self.discrete.arities[discrete]
        cell, counts = self._cells(discrete, arities)
        q, width = float(arities.astype(float).prod()), sets.shape[1]
        single = width == 1
        mean, scatter = (variances if single else scatters)(cell, counts, values)
        rounding = self.rounding[used]
        cells = CellMoments(
            counts,
            scatter,
            mean**2 if single else mean[:, :, None] * mean[:, None, :],
            rounding if single else np.diag(rounding),
            np.ones(used.size) if single else np.eye(used.size),
        )
        matrices = self.score.matrices(cells)
        weights = np.zeros((len(matrices), width + 1))
        rest = np.zeros(width + 1)
        for size in range(1, width + 1):
            weights[:, size] = self.score.weights(counts, size)
            rest[size] = self.score.constant(counts, size, q)
        if single:
            logs = weighted_logs(matrices, weights[:, 1])[renumbered[:, 0]]
        else:
            logs = weighted_log_determinants(renumbered, np.ascontiguousarray(matrices), weights, LEAST_PIVOT)
        if np.isnan(logs).any():
            bad = sets[int(np.argmax(np.isnan(logs)))]
            names = [self.discrete.table.names[v] for v in discrete[::-1]]
            raise dependent([*names, *(self.table.real.names[v] for v in bad[::-1] if v >= 0)])
        own = np.append(self.own, 0.0)[sets].cumsum(axis=1)[:, -1]  # in order for any width
        alone = self.discrete.values(discrete[None, :])[0]
        return np.asarray(alone + rest[(sets >= 0).sum(axis=1)] + own + logs)

    def _cells(
        self, discrete: NDArray[np.int64], arities: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the occupied cell of each row, and the number of rows of each."""
        assert self.table.discrete is not None, "there are discrete columns"
        codes = self.table.discrete.codes
        cell = codes[discrete[0]].astype(np.int64)
        q = int(arities[0])
        for v, arity in zip(discrete[1:].tolist(), arities[1:].tolist(), strict=True):
            if q * arity > _SPARSE * self.table.rows:
                cell = np.unique(cell, return_inverse=True)[1].astype(np.int64)
                q = int(cell.max()) + 1
            cell = cell * arity + codes[v]
            q *= arity
        if q > _SPARSE * self.table.rows:
            _, cell, counts = np.unique(cell, return_inverse=True, return_counts=True)
            return cell.astype(np.int64), counts.astype(np.int64)
        counts = np.bincount(cell, minlength=q)
        return np.cumsum(counts > 0)[cell] - 1, counts[counts > 0]


def _gathered(local: NDArray[np.int64], chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the chosen members of sets in their order, padded with -1 to the same shape."""
    order = np.argsort(~chosen, axis=1, kind="stable")
    return np.take_along_axis(np.where(chosen, local, -1), order, axis=1)


def fill_mixed(
    scorer: MixedScorer, max_size: int, workers: int, proceed: Callable[[float], object]
) -> NDArray[np.float64]:
    """Returns the scores of all sets of at most `max_size` columns in colex order, shape (K,).

    The values are those of `MixedScorer.values`, bit for bit.

    Args:
        scorer: of the sets.
        max_size: size of the largest sets.
        workers: threads.
        proceed: called with the fraction done; raises an error to stop.
    """
    table = scorer.table
    n, m = table.n, scorer.real.size
    states = np.setdiff1d(np.arange(n), scorer.real)
    whole = ColexOrder(n, max_size)
    found = np.zeros(whole.count)

    def sets_of(columns: int, size: int) -> NDArray[np.int64]:
        order = ColexOrder(columns, min(size, columns))
        return order.sets(1, order.count - 1)

    def variables(columns: NDArray[np.int64], sets: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.append(columns, -1)[sets]

    real_sets = {k: sets_of(m, k) for k in range(1, max_size + 1)}
    real = {k: variables(scorer.real, sets) for k, sets in real_sets.items()}
    found[whole.ranks(real[max_size])] = scorer.gaussian.values(real_sets[max_size])
    if scorer.discrete is None:
        return found
    own = sets_of(states.size, max_size)
    found[whole.ranks(variables(states, own))] = scorer.discrete.values(own)
    groups = chain.from_iterable(
        combinations(range(states.size - 1, -1, -1), j) for j in range(1, min(max_size - 1, states.size) + 1)
    )
    total = count_bounded_subsets(states.size, max_size - 1)

    def work(some: list[tuple[int, ...]]) -> int:
        for group in some:
            discrete = np.array(group, dtype=np.int64)
            k = max_size - len(group)
            members = np.empty((len(real[k]), len(group) + real[k].shape[1]), np.int64)
            members[:, : len(group)], members[:, len(group) :] = states[discrete], real[k]
            members.sort(axis=1)
            found[whole.ranks(members[:, ::-1])] = scorer.values_with(discrete, real_sets[k])
        return len(some)

    done = 1
    with Pool(workers) as pool:
        while some := list(islice(groups, _GROUPS * workers)):
            parts = [some[i::workers] for i in range(workers)]
            done += sum(pool.map(work, parts))
            proceed(done / total)
    return found
