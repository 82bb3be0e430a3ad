"""Searches of all families with two parents of binary columns, without a table.

The number of rows in which three columns are 1, with those of pairs, determines all eight cells. A set of
which no two columns are 1 in the same row is skipped if a bound excludes its families: with n_v rows of v,
and m rows of its parents together, the gain

    s(vab) − s(ab) − s(v) = f(N − m − n_v) − f(N − m) + f(n_v) + const,      f(m) = m ln m,

grows with m, since f is convex, and m is at most twice the rows of the most frequent column disjoint from v.

Time: about 10 nanoseconds for a set, and half a nanosecond for each 64 rows. Memory: 60 bytes for each pair
of columns, 12 more for each thread, and 16 for each 1 in the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, inf, log
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from jtsolve.core.threads import Pool
from jtsolve.scoring.score import Marginal
from jtsolve.scoring.scorer import CountingScorer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.scoring.scorer import Scorer

_NANOSECONDS, _NANOSECONDS_PER_WORD = 15.0, 0.5
SEARCHED_SIZE = 3
"""Size of the sets."""
MANY_SETS = 1 << 21
"""Sets above which a bound by searches is better than one by a table of all scores: msweb (4.2 million) is
proved so within a minute, and has a gap of 0.12 % after ten with a table."""
_WORD = 64
_BYTES_PER_ONE = 16
_ROUNDING = 1e-14
"""Relative rounding error of a sum of a dozen terms up to N ln N."""


@dataclass(frozen=True, eq=False)
class Triples:
    """Sets of three binary columns under a score with entropy terms.

    Attributes:
        scorer: with bit columns.
        counts: see `kernels.triples.best_thirds`.
        single: shape (n,): s(v), in nats.
        varies: shape (n,): whether a column has two values.
        pairs: shape (n, n): s(uv) − s(u) − s(v), in nats; -inf on the diagonal and for constant columns.
        error: bound on the rounding error of the value of a family, in nats.
    """

    scorer: CountingScorer
    counts: NDArray[np.int64]
    single: NDArray[np.float64]
    varies: NDArray[np.bool_]
    pairs: NDArray[np.float64]
    error: float

    @classmethod
    def of(cls, scorer: Scorer) -> Triples:
        """Returns the triples of a scorer that `suits`."""
        assert suits(scorer), "checked by the caller"
        from jtsolve.scoring.kernels.triples import common_counts

        assert scorer.bits is not None, "checked by the caller"
        n, rows = scorer.bits.codes.shape
        counts = common_counts(scorer.bits.columns)
        single = scorer.values(np.arange(n)[:, None])
        u, v = np.triu_indices(n, 1)
        pairs = np.full((n, n), -np.inf)
        pairs[u, v] = pairs[v, u] = scorer.values(np.stack((v, u), axis=1)) - single[u] - single[v]
        varies = scorer.arities > 1
        pairs[~varies] = pairs[:, ~varies] = -np.inf
        error = _ROUNDING * rows * log(rows + 1)
        return cls(scorer, counts, single, varies, pairs, error)

    def scores(self, sets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns s of sets of one size, members increasing, shape (count, size), in nats."""
        return self.scorer.values(np.ascontiguousarray(sets[:, ::-1]))

    def best_thirds(
        self,
        floor: NDArray[np.float64],
        extra: tuple[NDArray[np.float64], NDArray[np.float64]],
        listed: NDArray[np.int64],
        workers: int,
        proceed: Callable[[], object],
        *,
        room: int = 0,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int32]]:
        """Finds for all v and a the best family (v, {a,b}), if its value is above floor[v].

        The value is s(vab) − s(ab) − s(v) + min(apart[v,a], apart[v,b]) + linked[v,a] + linked[v,b], in nats.

        Args:
            floor: shape (n,), in nats.
            extra: `apart` and `linked`, of shape (n, n), at least 0, the second symmetric, in nats.
            listed: shape (count, 3), members increasing: sets to leave out.
            workers: threads.
            proceed: called several times a second; may raise.
            room: maximum number of sets to return.

        Returns:
            Sets with such a family, shape (count, 3), members increasing. For the families of all further
            sets: the best values, rounded up, or -inf, and b, or -1, both of shape (n, n).
        """
        from jtsolve.scoring.kernels.triples import best_thirds

        assert self.scorer.bits is not None, "checked by the caller"
        n, bits, (apart, linked) = self.single.size, self.scorer.bits, extra
        a, b, c = listed.T
        ranks = c * (c - 1) * (c - 2) // 6 + b * (b - 1) // 2 + a
        marked = np.zeros(comb(n, 3) // 8 + 1, dtype=np.uint8)
        np.bitwise_or.at(marked, ranks >> 3, (1 << (ranks & 7)).astype(np.uint8))
        rows = bits.codes.shape[1]
        rest = self.scorer.score.rest(Marginal(3, 8.0, rows, n))
        lower = floor - self.error
        arrays = (
            bits.columns, self.counts, bits.terms, rest, self.varies, self.single, self.pairs,
            self._near(lower, apart, linked), apart, np.ascontiguousarray(apart.T), linked, lower, marked,
        )  # fmt: skip

        of_row, ones = np.nonzero(bits.codes.T)
        starts = np.searchsorted(of_row, np.arange(rows + 1))

        def search(part: int) -> tuple[NDArray[np.float64], NDArray[np.int32], list[NDArray[np.int32]]]:
            best, third = np.repeat(lower[:, None], n, axis=1), np.full((n, n), -1, dtype=np.int32)
            some, pairs = [], np.empty((room // workers, 2), dtype=np.int32)
            for last in range(part, n, workers):
                proceed()
                count = best_thirds(*arrays, last, best, third, pairs, starts, ones)
                some.append(np.insert(pairs[:count], 2, last, axis=1))
                pairs = pairs[count:]
            return best, third, some

        with Pool(workers) as pool:
            (best, third, sets), *others = pool.map(search, range(workers))
        for more, its, some in others:
            better = more > best
            best[better], third[better] = more[better], its[better]
            sets += some
        return np.concatenate(sets).astype(np.int64), np.where(third >= 0, best + self.error, -np.inf), third

    def _near(
        self, floor: NDArray[np.float64], apart: NDArray[np.float64], linked: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Returns the near pairs: sets without one are skipped; see the module."""
        rows, n = self.scorer.bits.codes.shape[1], self.single.size  # type: ignore[union-attr]
        own, far = np.diag(self.counts), self.counts == 0
        np.fill_diagonal(far, val=False)
        m = np.minimum(2 * (own * far).max(axis=1), rows - own)
        f = self.scorer.bits.terms  # type: ignore[union-attr]
        rest = self.scorer.score.rest
        gain = f[rows - m - own] - f[rows - m] + f[own] - self.single
        gain += rest(Marginal(3, 8.0, rows, n)) - rest(Marginal(2, 4.0, rows, n))
        value = gain + apart.max(axis=1) + 2 * (linked * far).max(axis=1) + self.error
        loose = value > floor
        found: NDArray[np.bool_] = ~far | loose[:, None] | loose
        return found


def suits(scorer: Scorer) -> TypeGuard[CountingScorer]:
    """Returns whether a scorer has bit columns and a score with entropy terms."""
    return isinstance(scorer, CountingScorer) and scorer.bits is not None and scorer.bits.entropy


def bytes_of_search(scorer: Scorer) -> int:
    """Returns the maximum bytes of the lists of ones of each row."""
    return _BYTES_PER_ONE * int(scorer.table.total) * scorer.table.n


def seconds_of_search(scorer: Scorer, workers: int) -> float:
    """Returns the predicted seconds of `Triples.best_thirds`; inf for scorers that it does not suit."""
    if not suits(scorer):
        return inf
    each = _NANOSECONDS + _NANOSECONDS_PER_WORD * scorer.table.total / _WORD
    return 1e-9 * each * comb(scorer.table.n, 3) / workers
