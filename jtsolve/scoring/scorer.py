"""Batch evaluation of s(A) from a table and a score, for tabulated scores and scores on demand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, lgamma, log
from typing import TYPE_CHECKING, Protocol

import numpy as np

from jtsolve.core.lazy_kernels import LazyKernels
from jtsolve.errors import InputError
from jtsolve.options import SCORE
from jtsolve.scoring import counting
from jtsolve.scoring.partitions import proceed_always, require_keys, sums_over_partitions
from jtsolve.scoring.score import Dirichlet, Marginal
from jtsolve.tables.distinct import ONCE, merged_rows
from jtsolve.tables.partitions import PartitionedTable
from jtsolve.tables.table import dependent

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.scoring.score import DiscreteScore, GaussianScore, ScoreFunction
    from jtsolve.tables.partitions import AnyTable
    from jtsolve.tables.table import ContinuousTable, DataTable

_WORD = 64
"""Bits of a word of a bit set."""
WIDEST = 8
"""Size of the largest sets counted by bits, with 2^size cells."""

_LOG_LARGEST = 90 * log(10)
"""ln of the most cells of a marginal table: with more, a penalty could exceed the largest valid score,
10^100."""

_KERNELS = LazyKernels("jtsolve.scoring.kernels.counting")
LEAST_PIVOT = 1e-10
"""A set is singular if the others leave less than this share of the variance of a column: rounding errors are
about 10^-16 times the condition number."""


class Scorer(Protocol):
    """Computes local scores in batches; immutable and thread-safe."""

    @property
    def table(self) -> AnyTable:
        """The data."""
        ...

    @property
    def score(self) -> ScoreFunction:
        """The score."""
        ...

    @property
    def nanoseconds(self) -> float:
        """Predicted nanoseconds for a set, fitted to `benchmarks/score_speed.py`."""
        ...

    def extremes(self, max_size: int) -> tuple[float, float]:
        """Returns lower and upper bounds of s(A), in nats, over sets of at most `max_size`."""
        ...

    def ceilings(self) -> NDArray[np.float64]:
        """Returns upper bounds of s(P ∪ v) − s(P) over all P ≠ ∅, for each v, shape (n,); inf if unknown."""
        ...

    def values(self, sets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns s(A) in nats.

        Args:
            sets: shape (count, width): the members of each set in decreasing order, then -1. Consecutive sets
                that share prefixes are faster.
        """
        ...


@dataclass(frozen=True, eq=False)
class BitColumns:
    """Binary columns as bit sets; see `kernels.bitcounting`.

    Args:
        codes: shape (n, rows), 0 or 1.
        entropy: whether the score has entropy terms.
        width: size of the largest sets.
    """

    codes: NDArray[np.integer]
    entropy: bool
    width: int

    @cached_property
    def columns(self) -> NDArray[np.uint64]:
        """The bit sets, shape (n, words)."""
        n, rows = self.codes.shape
        bits = np.zeros((n, -(-rows // _WORD) * _WORD // 8), np.uint8)
        for v, column in enumerate(self.codes):
            packed = np.packbits(column.astype(bool), bitorder="little")
            bits[v, : packed.size] = packed
        return bits.view("<u8").astype(np.uint64, copy=False)

    @cached_property
    def terms(self) -> NDArray[np.float64]:
        """The term m ln m of every count m, shape (rows + 1,); empty without entropy terms."""
        from jtsolve.scoring.kernels.bitcounting import entropy_terms

        return entropy_terms(self.codes.shape[1] if self.entropy else -1)  # type: ignore[no-any-return]

    @property
    def nanoseconds(self) -> float:
        """See `Scorer`; for sets of the largest size."""
        return _bit_nanoseconds(-(-self.codes.shape[1] // _WORD), self.width)


def _bit_nanoseconds(words: int, width: int) -> float:
    """Returns the predicted nanoseconds for a set, by words and cells."""
    each = 25.0 if width < 4 else 50.0  # noqa: PLR2004 - sorting the counts starts to dominate
    return 100 + (0.4 * words + each) * float(1 << (width - 1))


def _bits(table: DataTable, score: DiscreteScore, max_size: int, by_rows: float) -> BitColumns | None:
    """Returns the columns as bit sets if all are binary, and counts predicted to take less than by rows."""
    two_valued = int(table.arities.max()) <= 2  # noqa: PLR2004
    if not two_valued or table.weights is not None or max_size > WIDEST:
        return None
    if _bit_nanoseconds(-(-table.rows // _WORD), max_size) >= by_rows:
        return None
    entropy = not isinstance(score.cell_terms, Dirichlet)
    return BitColumns(table.codes, entropy, max_size)


@dataclass(frozen=True, slots=True, eq=False)
class CountingScorer:
    """Scores of discrete data: counts, and a sum over the cells."""

    table: DataTable | PartitionedTable
    score: DiscreteScore
    counted: DataTable | PartitionedTable
    """The rows to count: the distinct ones if these are far fewer."""
    arities: NDArray[np.int64]
    """Those of the table, computed once."""
    bits: BitColumns | None = None
    """The columns as bit sets, if these are faster."""
    proceed: Callable[[float], object] = proceed_always
    """Called with the fraction of a pass over partitions that is done; raises an error to stop."""
    unit: float = 1.0
    """Weight u of a count: with m = u m' and N = u N', Σ m ln m = u Σ m' ln m' + N ln u."""

    @property
    def nanoseconds(self) -> float:
        """See `Scorer`."""
        if isinstance(self.counted, PartitionedTable):
            return 500 + 1.0 * self.counted.total
        return 500 + 0.8 * self.counted.rows if self.bits is None else self.bits.nanoseconds

    def values(self, sets: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `Scorer`."""
        sums, cells = self._sums(sets)
        return _with_rest(sets, self.unit * sums, cells, self._rest)

    def _sums(self, sets: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the sums over the cells, and the numbers of cells; see `kernels.counting`."""
        terms, found = self.score.cell_terms, self.counted
        shared, each = (terms.shared, terms.each) if isinstance(terms, Dirichlet) else (0.0, 0.0)
        if isinstance(found, PartitionedTable):
            return sums_over_partitions(found, sets, shared, each, self.proceed)
        weights = ONCE if found.weights is None else found.weights
        counted = (sets, found.codes, self.arities, weights, float(shared), float(each))
        if _KERNELS.prefer_numpy(counting.seconds(len(sets), found.rows)):
            return counting.sums_over_cells(*counted)
        if self.bits is not None and sets.shape[1] <= self.bits.width:
            from jtsolve.scoring.kernels.bitcounting import sums_over_binary_cells

            bits, entropy, rows = self.bits.columns, self.bits.terms, self.table.total
            by_bits: tuple[NDArray[np.float64], NDArray[np.float64]] = sums_over_binary_cells(
                sets, bits, rows, self.arities, entropy, shared, each
            )
            return by_bits
        from jtsolve.scoring.kernels.counting import sums_over_cells

        by_rows: tuple[NDArray[np.float64], NDArray[np.float64]] = sums_over_cells(*counted)
        return by_rows

    def extremes(self, max_size: int) -> tuple[float, float]:
        """See `Scorer`; bounds the sum and the rest separately, the rest being monotone in the cells."""
        arities = np.sort(self.table.arities).astype(float)
        rows = self.table.total
        terms = self.score.cell_terms
        least, most = 0.0, 0.0  # s(∅)
        for size in range(1, max_size + 1):
            few, many = float(arities[:size].prod()), float(arities[-size:].prod())
            if isinstance(
                terms, Dirichlet
            ):  # a^m ≤ Γ(m + a)/Γ(a); the sum is largest with all rows in one cell
                low, high = (terms.shared / cells + terms.each for cells in (many, few))
                sums = rows * min(0.0, log(low)), lgamma(rows + high) - lgamma(high)
            else:
                sums = rows * log(self.unit), rows * log(rows)  # every cell has m ≥ u
            ends = [Marginal(size, cells, rows, self.table.n) for cells in (few, many)]
            rests = [self.score.rest(end) for end in ends]
            least = min(least, sums[0] + min(rests))
            most = max(most, sums[1] + max(rests))
        return least, most

    def ceilings(self) -> NDArray[np.float64]:
        """See `Scorer`.

        Maximum likelihood: Σ m ln m does not grow if cells are split, and the decrease of the rest grows with
        the cells of P. For qNML, C(q, N) is a polynomial in q without negative coefficients (rising
        factorials), so that ln C(qr, N) − ln C(q, N) grows with q. Marginal likelihoods are products of
        conditional probabilities of the rows, of which the first is 1/r.
        """
        arities = self.table.arities.astype(float)
        if self.table.n == 1:
            return np.full(1, -inf)
        least, second = np.sort(arities)[:2]
        parents = np.where(arities == least, second, least)
        rows, n = self.table.total, self.table.n
        found = np.empty(n)
        for v, (own, cells) in enumerate(zip(arities.tolist(), parents.tolist(), strict=True)):
            family, parent = Marginal(2, own * cells, rows, n), Marginal(1, cells, rows, n)
            if isinstance(self.score.cell_terms, Dirichlet):
                found[v] = -log(own)
            else:
                found[v] = self.score.rest(family) - self.score.rest(parent)
        return found

    def _rest(self, size: int, cells: float) -> float:
        marginal = Marginal(size, cells, self.table.total, self.table.n)
        return self.score.rest(marginal) + marginal.rows * log(self.unit)


def counting_scorer(
    table: DataTable | PartitionedTable, score: DiscreteScore, max_size: int
) -> CountingScorer:
    """Returns the scorer of columns of states.

    Args:
        table: of states.
        score: to compute.
        max_size: size of the largest sets.

    Raises:
        InputError: the sets have too many cells.
    """
    largest = np.sort(np.log(table.arities))[-max_size:]
    if largest.sum() > _LOG_LARGEST:
        raise InputError(
            "table",
            "numbers of states",
            f"the product of the largest {max_size} exceeds 10^90 cells",
            "score smaller sets, or discretise or leave out columns with many states",
        )
    if isinstance(table, PartitionedTable):
        require_keys(table.arities, max_size)
        return CountingScorer(table, score, table, table.arities)
    if table.unit != 1:
        _require_fractions(table, score)
    by_rows = CountingScorer(table, score, merged_rows(table), table.arities, unit=table.unit)
    return replace(by_rows, bits=_bits(table, score, max_size, by_rows.nanoseconds))


def _require_fractions(table: DataTable, score: DiscreteScore) -> None:
    """Checks that a score is defined for fractions of rows."""
    from jtsolve.scoring.scores.qnml import Qnml

    if isinstance(score.cell_terms, Dirichlet) or isinstance(score, Qnml):
        remedy = f"round them, or give {SCORE('bic')}"
        table.require_whole_weights(f"the score '{score.name}'", remedy)


def _with_rest(
    sets: NDArray[np.int64],
    sums: NDArray[np.float64],
    cells: NDArray[np.float64],
    rest: Callable[[int, float], float],
) -> NDArray[np.float64]:
    """Adds the rest to each sum, computed once for each size and number of cells; s(∅) is 0.

    A column with a single state scores exactly 0 and changes no score: the rounding error by which the sum
    and the rest do not cancel is subtracted.
    """
    sizes = (sets >= 0).sum(axis=1)
    values = np.zeros(sums.size)
    for size in range(1, sets.shape[1] + 1):
        at = np.flatnonzero(sizes == size)
        kinds, kind = np.unique(cells[at], return_inverse=True)
        rests = np.array([rest(size, number) for number in kinds.tolist()])
        values[at] = sums[at] + rests[kind]
        alone = at[cells[at] == 1]
        values[alone] -= sums[alone] + rest(1, 1.0)
    return values


@dataclass(frozen=True, slots=True, eq=False)
class GaussianScorer:
    """Scores of continuous data: log determinants of principal submatrices."""

    table: ContinuousTable
    score: GaussianScore
    matrix: NDArray[np.float64]
    max_size: int

    @property
    def nanoseconds(self) -> float:
        """See `Scorer`."""
        return 200.0

    def ceilings(self) -> NDArray[np.float64]:
        """See `Scorer`.

        The variance of a column given some others is at least that given all others. So ln det of P, a sum of
        logarithms of such variances, is at least the sum of the |P| smallest, and the gain of a family falls
        with it.
        """
        n, rows = self.table.n, self.table.total
        least = log_least_variances(self.matrix)
        if not np.isfinite(least).all():
            return np.full(n, inf)
        parents = np.cumsum(np.sort(least))
        found = np.full(n, -inf)
        for size in range(1, min(self.max_size, n)):
            families = self.score.value(parents[size - 1] + least, size + 1, rows, n)
            gains = families - self.score.value(parents[size - 1 : size], size, rows, n)
            found = np.maximum(found, gains)
        return found

    def extremes(self, max_size: int) -> tuple[float, float]:
        """See `Scorer`; determinants lie between products of least pivots and of diagonal elements."""
        diagonal = np.sort(np.log(np.diag(self.matrix)))
        floor = diagonal + log(LEAST_PIVOT)
        ends = [0.0]
        for size in range(1, max_size + 1):
            logs = np.array([floor[:size].sum(), diagonal[-size:].sum()])
            ends += self.score.value(logs, size, self.table.total, self.table.n).tolist()
        return min(ends), max(ends)

    def values(self, sets: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `Scorer`.

        Raises:
            InputError: the columns of a set are linearly dependent.
        """
        from jtsolve.scoring.kernels.cholesky import log_determinants

        logs = log_determinants(sets, self.matrix, LEAST_PIVOT)
        if np.isnan(logs).any():
            bad = sets[int(np.argmax(np.isnan(logs)))]
            raise dependent([self.table.names[v] for v in bad[::-1] if v >= 0])
        sizes = (sets >= 0).sum(axis=1)
        values = np.zeros(logs.size)
        for size in range(1, sets.shape[1] + 1):
            at = np.flatnonzero(sizes == size)
            values[at] = self.score.value(logs[at], size, self.table.total, self.table.n)
        return values


def gaussian_scorer(table: ContinuousTable, score: GaussianScore, max_size: int) -> GaussianScorer:
    """Returns the scorer of columns of numbers.

    Args:
        table: of numbers.
        score: to compute.
        max_size: size of the largest sets.

    Raises:
        InputError: there are too few rows.
    """
    needed = score.least_rows(max_size)
    if table.total < needed:
        raise InputError(
            "table",
            "rows",
            f"there are {table.total:g}, but sets of {max_size} columns need {needed} under {score.name}",
            "score smaller sets, or use bge, whose prior regularises few rows",
        )
    centred = table.values - table.values.mean(axis=1, keepdims=True)
    scatter = centred @ centred.T
    if table.rows_behind is not None:
        scatter *= table.rows_behind / table.rows
    return GaussianScorer(table, score, score.matrix(scatter, table.total), max_size)


def log_least_variances(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns lower bounds of the logarithms of the variances of columns given all others.

    They are ln 1/(M⁻¹)_vv of the covariance matrix M, less bounds of the rounding errors. `matrix` has shape
    (n, n), the result (n,); it is -inf if the matrix may be singular.
    """
    deviations = np.sqrt(np.diag(matrix))
    values, vectors = np.linalg.eigh(matrix / np.outer(deviations, deviations))
    error = 4 * len(matrix) * np.finfo(float).eps * float(values[-1])  # of an eigenvalue: backward stable
    if values[0] <= 2 * error:
        return np.full(len(matrix), -inf)
    inverse = (vectors**2 / (values - error)).sum(axis=1)
    return np.asarray(2 * np.log(deviations) - np.log(inverse) - error)
