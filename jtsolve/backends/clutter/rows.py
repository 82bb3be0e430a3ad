"""The rows of the clutter LP, each a set function g with a limit: Σ x(v,P) (g(P∪v) − g(P)) ≥ limit.

*Clutter cuts.* A clutter is a collection of sets, none within another; F, the sets that hold one of them,
is an up-set, and g its indicator. In a perfect order the complete sets grow one vertex at a time from ∅. So
if F holds a set that is complete in every tree, such as a single vertex, and ∅ ∉ F, the order enters F at
some vertex: Σ { x(v,P) : P ∉ F, P∪v ∈ F } ≥ 1 (Studený and Cussens 2017). The clutter of one set alone,
{{a,b}}, says that the set is complete: a and b are adjacent.

*Special rows.* g is given by coefficients of sets, or of pairs: g(A) = Σ {coefficient(uv) : uv ⊆ A}. Those of
sets state which sets are no separators or no cliques, and how many cliques there are (`families`).
Those of pairs state which graphs are forbidden (`no_good`).
"""

from __future__ import annotations

from itertools import accumulate, chain, combinations, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from jtsolve.core.varset import VarSet
    from jtsolve.families.families import Families

_A_WORD = 64
_PARTS = 4
"""Into which the sets are divided for threads."""
_WORTH_THREADS = 2_000_000
"""Sets times cuts: below it, waking up threads takes longer than the work."""

Clutter = tuple[int, ...]
"""The positions of the generators, in increasing order."""


class Special(NamedTuple):
    """A row with coefficients of sets (positions) and of pairs u < v; Σ ≥ limit."""

    sets: tuple[tuple[int, int], ...]
    pairs: tuple[tuple[int, int, int], ...]
    limit: int


def no_good(graph: frozenset[VarSet], n: int) -> Special:
    """Returns the row that the edges of a forbidden graph G, and no others, break.

    Each edge e of a tree's graph T is made by one family, so that Σ (g(P∪v) − g(P)) with coefficients -1 for
    the edges of G and 1 for all other pairs is |T∖G| − |T∩G| = |T∖G| + |G∖T| − |G|. It is -|G| if T = G, and
    1 − |G| or more if not.
    """
    signs = ((u, v, -1 if (1 << u | 1 << v) in graph else 1) for u, v in combinations(range(n), 2))
    return Special((), tuple(signs), 1 - len(graph))


class Rows:
    """Clutter cuts, 64 in a word for each set, and special rows, with the weight of each row in the bound.

    The words are written when they are asked for.
    """

    def __init__(
        self, families: Families, clutters: Sequence[Clutter] = (), specials: Sequence[Special] = ()
    ) -> None:
        self.families = families
        self.clutters: list[Clutter] = []
        self.specials: list[Special] = []
        self.release()
        self.known: set[Clutter | Special] = set()
        self.functions: list[NDArray[np.int64]] = []
        self.add_clutters(clutters)
        self.add_specials(specials)

    def add_clutters(self, fresh: Sequence[Clutter]) -> None:
        """Appends cuts."""
        self.clutters.extend(fresh)
        self.known.update(fresh)

    def add_specials(self, fresh: Sequence[Special]) -> None:
        """Appends special rows."""
        self.specials.extend(fresh)
        self.known.update(fresh)
        self.functions.extend(self._function(row) for row in fresh)

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Keeps some of the cuts, and all special rows."""
        self.clutters = [clutter for clutter, kept in zip(self.clutters, which, strict=True) if kept]
        self.known = {*self.clutters, *self.specials}
        self._written = 0

    @property
    def words(self) -> NDArray[np.uint64]:
        """The up-sets, shape (at least cuts/64, sets): up-set c is bit c % 64 of word c // 64."""
        if self._written < len(self.clutters):
            self._write(self._written)
        return self._words

    def release(self) -> None:
        """Gives the words' memory back, of rows that wait."""
        self._words = np.zeros((0, self.families.sizes.size), dtype=np.uint64)
        self._written = 0

    def moved(self, families: Families, position: NDArray[np.int64]) -> Rows:
        """Returns the rows over fewer sets; `position` is -1 for sets that are gone.

        Generators that are gone are dropped: every set that held one is gone too.
        """
        ends = list(accumulate(map(len, self.clutters), initial=0))
        flat = np.fromiter(chain.from_iterable(self.clutters), dtype=np.int64, count=ends[-1])
        there = position[flat].tolist()
        return Rows(
            families,
            [tuple(at for at in there[first:last] if at >= 0) for first, last in pairwise(ends)],
            [
                row._replace(sets=tuple((int(position[at]), c) for at, c in row.sets if position[at] >= 0))
                for row in self.specials
            ],
        )

    def limits(self) -> NDArray[np.int64]:
        """Returns the limits of the special rows; those of the cuts are 1."""
        return np.array([row.limit for row in self.specials], dtype=np.int64)

    def _write(self, first: int) -> None:
        """Writes the words again that hold the cuts from number `first` on."""
        from jtsolve.backends.clutter.kernels.clutters import spread_up

        word = first // _A_WORD
        needed = -(-len(self.clutters) // _A_WORD)
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
        bits = np.uint64(1) << (number % _A_WORD).astype(np.uint64)
        np.bitwise_or.at(self._words, (word + number // _A_WORD, flat), bits)
        for at in range(word, needed):
            spread_up(self._words[at], self.families.facets, self.families.sizes)
        self._written = len(self.clutters)

    def _function(self, row: Special) -> NDArray[np.int64]:
        """Returns g of a special row for every set."""
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

    def coefficients(
        self, number: int, union: NDArray[np.int64], parents: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """Returns of a clutter cut the coefficients of families: 0 or 1."""
        row = self.words[number // _A_WORD]
        across = (row[union] & ~row[parents]) >> np.uint64(number % _A_WORD)
        found: NDArray[np.float64] = (across & np.uint64(1)).astype(np.float64)
        return found

    def special_coefficients(
        self, number: int, union: NDArray[np.int64], parents: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """Returns of a special row the coefficients of families."""
        function = self.functions[number]
        return (function[union] - function[parents]).astype(np.float64)

    def function(
        self,
        scores: NDArray[np.int64],
        cuts: NDArray[np.int64],
        specials: NDArray[np.int64],
        pool: ThreadPoolExecutor | None = None,
    ) -> tuple[NDArray[np.int64], int]:
        """Returns t = s + Σ λ g for every set, and Σ λ·limit, in units; shares the sets among threads."""
        from jtsolve.backends.clutter.kernels.clutters import add_multipliers

        total, words = scores.copy(), self.words
        parts = 1 if pool is None or total.size * cuts.size < _WORTH_THREADS else _PARTS
        ends = [total.size * part // parts for part in range(parts + 1)]

        def add(part: tuple[int, int]) -> None:
            add_multipliers(total, words, cuts, *part)

        list((map if pool is None else pool.map)(add, pairwise(ends)))
        price = int(cuts.sum())
        for function, row, weight in zip(self.functions, self.specials, specials.tolist(), strict=True):
            if weight:
                total += weight * function
                price += weight * row.limit
        return total, price

    def activity(
        self, union: NDArray[np.int64], parents: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the left-hand sides of cuts and special rows for a list of families, each taken once."""
        from jtsolve.backends.clutter.kernels.clutters import crossings

        cuts = crossings(self.words, len(self.clutters), union, parents).astype(np.float64)
        return cuts, np.array([float((g[union] - g[parents]).sum()) for g in self.functions])

    def weighted_activity(
        self, union: NDArray[np.int64], parents: NDArray[np.int64], x: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the left-hand sides of cuts and special rows for a point."""
        from jtsolve.backends.clutter.kernels.clutters import weighted_crossings

        cuts = weighted_crossings(self.words, len(self.clutters), union, parents, x)
        return cuts, np.array([float((g[union] - g[parents]) @ x) for g in self.functions])
