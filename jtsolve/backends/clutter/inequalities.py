"""The inequalities of the clutter LP; each is a set function g with Σ x(v,P) (g(P∪v) − g(P)) ≥ limit.

*Clutter inequalities* (Studený and Cussens 2017). A clutter is a collection of sets, none of which contains
another. Let F be the up-set of all sets that contain one of them, and g its indicator. Along a perfect order,
the complete sets grow one vertex at a time from ∅. So if ∅ ∉ F and F has a set that is complete in every
tree, such as a single vertex, then the family of some vertex enters F:

    Σ { x(v,P) : P ∉ F, P∪v ∈ F } ≥ 1.

The clutter {{a,b}} requires an edge between a and b.

*Set rows* define g by coefficients of sets, or of pairs: g(A) = Σ {coefficient(uv) : uv ⊆ A}. Those with sets
exclude sets as separators or cliques, and limit the number of cliques (`families`); those with pairs forbid
graphs (`no_good`).
"""

from __future__ import annotations

from itertools import accumulate, chain, combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from jtsolve.core.threads import Pool
    from jtsolve.core.varset import VarSet
    from jtsolve.families.families import Families

_A_WORD = 64
_PARTS = 4
"""Number of parts of the sets, for threads."""
_PARALLEL_THRESHOLD = 2_000_000
"""Sets times cuts below which one thread is faster."""

Clutter = tuple[int, ...]
"""The positions of the generators of F, in increasing order."""


class SetRow(NamedTuple):
    """A row with coefficients of sets (positions) and of pairs u < v."""

    sets: tuple[tuple[int, int], ...]
    pairs: tuple[tuple[int, int, int], ...]
    limit: int


class RowVector(NamedTuple):
    """A number for each row: multipliers, violations."""

    cuts: NDArray[Any]
    set_rows: NDArray[Any]


def no_good(graph: frozenset[VarSet], n: int) -> SetRow:
    """Returns the row that the edges of a forbidden graph G violate, and those of no other graph.

    Exactly one family makes each edge of a tree's graph T. With coefficients -1 for the edges of G and 1 for
    all other pairs, the row's left-hand side is |T∖G| − |T∩G| = |T∖G| + |G∖T| − |G|: it is -|G| if T = G, and
    at least 1 − |G| otherwise.
    """
    # Integer coefficients, so that the row is exact in units of the bound.
    signs = ((u, v, -1 if (1 << u | 1 << v) in graph else 1) for u, v in combinations(range(n), 2))
    return SetRow((), tuple(signs), 1 - len(graph))


class CutRows:
    """Clutter inequalities and set rows over a collection of sets.

    Each set has a bit for each up-set, 64 in a word, so that one pass over the sets adds the multipliers of
    many cuts by table look-up. Words and the functions of set rows are computed on first use.
    """

    def __init__(
        self, families: Families, clutters: Sequence[Clutter] = (), set_rows: Sequence[SetRow] = ()
    ) -> None:
        self.families = families
        self.clutters: list[Clutter] = []
        self.set_rows: list[SetRow] = []
        self.release()
        self.known: set[Clutter | SetRow] = set()
        self._functions: list[NDArray[np.int64]] = []
        self.add(clutters, set_rows)

    def add(self, clutters: Sequence[Clutter], set_rows: Sequence[SetRow] = ()) -> None:
        """Appends rows."""
        self.clutters.extend(clutters)
        self.set_rows.extend(set_rows)
        self.known.update(clutters, set_rows)

    def keep_cuts(self, which: NDArray[np.bool_]) -> None:
        """Keeps some of the cuts, given as a mask of shape (cuts,), and all set rows."""
        self.clutters = [clutter for clutter, kept in zip(self.clutters, which, strict=True) if kept]
        self.known = {*self.clutters, *self.set_rows}
        self._written = 0  # the words are rewritten on the next use

    @property
    def words(self) -> NDArray[np.uint64]:
        """The up-sets, shape (at least cuts/64, sets): up-set c is bit c % 64 of word c // 64."""
        if self._written < len(self.clutters):
            self._write(self._written)
        return self._words

    @property
    def functions(self) -> list[NDArray[np.int64]]:
        """The set functions g of the set rows, each of shape (sets,)."""
        self._functions.extend(map(self._function, self.set_rows[len(self._functions) :]))
        return self._functions

    def release(self) -> None:
        """Frees the words."""
        self._words = np.zeros((0, self.families.sizes.size), dtype=np.uint64)
        self._written = 0

    def moved(self, families: Families, position: NDArray[np.int64]) -> CutRows:
        """Returns the rows over fewer sets; `position` has shape (K,), -1 for dropped sets.

        Dropped generators vanish, since all sets that contain them are dropped too.
        """
        ends = list(accumulate(map(len, self.clutters), initial=0))
        flat = np.fromiter(chain.from_iterable(self.clutters), dtype=np.int64, count=ends[-1])
        there = position[flat].tolist()
        return CutRows(
            families,
            [tuple(at for at in there[first:last] if at >= 0) for first, last in pairwise(ends)],
            [
                row._replace(sets=tuple((int(position[at]), c) for at, c in row.sets if position[at] >= 0))
                for row in self.set_rows
            ],
        )

    def restricted_to(self, families: Families, kept: NDArray[np.int64]) -> CutRows:
        """Returns the rows as functions on some of the sets, for evaluation only: no rows can be added.

        Up-sets keep their remaining sets, whether or not their generators are among these.

        Args:
            families: over these sets.
            kept: positions of the sets, shape (m,).
        """
        rows = CutRows(families)
        rows.clutters, rows.set_rows, rows._written = self.clutters, self.set_rows, len(self.clutters)
        rows._words = self.words[:, kept]
        rows._functions = [function[kept] for function in self.functions]
        return rows

    def _write(self, first: int) -> None:
        """Writes the words that hold the cuts from number `first` on."""
        from jtsolve.backends.clutter.kernels.clutters import spread_up

        word = first // _A_WORD
        needed = -(-len(self.clutters) // _A_WORD)
        # Capacity grows by half: cuts come in hundreds of small batches.
        if needed > self._words.shape[0]:
            grown = np.zeros(
                (max(needed, self._words.shape[0] * 3 // 2), self.families.sizes.size), dtype=np.uint64
            )
            grown[:word] = self._words[:word]
            self._words = grown
        part = self.clutters[word * _A_WORD :]
        sizes = np.fromiter(map(len, part), dtype=np.int64, count=len(part))
        number = np.repeat(np.arange(len(part)), sizes)
        flat = np.fromiter(chain.from_iterable(part), dtype=np.int64, count=int(sizes.sum()))
        self._words[word:needed] = 0
        # Each generator gets the bit of its cut, which then spreads upwards over the up-set.
        bits = np.uint64(1) << (number % _A_WORD).astype(np.uint64)
        np.bitwise_or.at(self._words, (word + number // _A_WORD, flat), bits)
        for at in range(word, needed):
            spread_up(self._words[at], self.families.facets, self.families.sizes)
        self._written = len(self.clutters)

    def _function(self, row: SetRow) -> NDArray[np.int64]:
        """Returns g of a set row for every set."""
        from jtsolve.backends.clutter.kernels.clutters import add_pairs

        total = np.zeros(self.families.sizes.size, dtype=np.int64)
        if row.sets:
            at, coefficients = zip(*row.sets, strict=True)
            total[list(at)] = coefficients
        if row.pairs:
            weights = np.zeros((self.families.n, self.families.n), dtype=np.int64)
            for u, v, coefficient in row.pairs:
                weights[u, v] = coefficient
            add_pairs(total, self.families.members, self.families.sizes, weights)
        return total

    def cut_coefficients(
        self, number: int, union: NDArray[np.int64], parents: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """Returns the coefficients of families in a cut, 0 or 1, shape (m,).

        Args:
            number: of the cut.
            union: the positions of P∪v, shape (m,).
            parents: the positions of P, shape (m,).
        """
        row = self.words[number // _A_WORD]
        # A family enters F iff P∪v ∈ F and P ∉ F.
        across = (row[union] & ~row[parents]) >> np.uint64(number % _A_WORD)
        found: NDArray[np.float64] = (across & np.uint64(1)).astype(np.float64)
        return found

    def set_row_coefficients(
        self, number: int, union: NDArray[np.int64], parents: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """Returns the coefficients of families in a set row, shape (m,).

        Args:
            number: of the set row.
            union: the positions of P∪v, shape (m,).
            parents: the positions of P, shape (m,).
        """
        function = self.functions[number]
        return (function[union] - function[parents]).astype(np.float64)

    def weighted(
        self, scores: NDArray[Any], multipliers: RowVector, pool: Pool | None = None
    ) -> tuple[NDArray[Any], Any]:
        """Returns t = s + Σ λ g for every set, shape (K,), and Σ λ·limit, in units or in nats.

        Args:
            scores: s of every set, shape (K,).
            multipliers: λ, in the unit of the scores.
            pool: threads that share the sets.
        """
        from jtsolve.backends.clutter.kernels.clutters import add_multipliers

        total, words, cuts = scores.copy(), self.words, multipliers.cuts
        # Sums of different sets are independent, so that threads need no locks.
        parts = 1 if pool is None or total.size * cuts.size < _PARALLEL_THRESHOLD else _PARTS
        ends = [total.size * part // parts for part in range(parts + 1)]

        def add(part: tuple[int, int]) -> None:
            add_multipliers(total, words, cuts, *part)

        list((map if pool is None else pool.map)(add, pairwise(ends)))
        price = cuts.sum().item()
        for function, row, weight in zip(
            self.functions, self.set_rows, multipliers.set_rows.tolist(), strict=True
        ):
            if weight:
                total += weight * function
                price += weight * row.limit
        return total, price

    def violation(
        self, union: NDArray[np.int64], parents: NDArray[np.int64], x: NDArray[np.float64]
    ) -> RowVector:
        """Returns the limits of the rows less their left-hand sides at a point.

        Args:
            union: the positions of P∪v of its families, shape (m,).
            parents: the positions of P, shape (m,).
            x: the values of the families, shape (m,).
        """
        from jtsolve.backends.clutter.kernels.clutters import crossings

        cuts = crossings(self.words, len(self.clutters), union, parents, x)
        set_rows = zip(self.functions, self.set_rows, strict=True)
        return RowVector(
            1.0 - cuts, np.array([row.limit - float((g[union] - g[parents]) @ x) for g, row in set_rows])
        )
