"""The search for the least threshold at which a consistent junction tree exists.

At a threshold δ, `kernels/decompose` says which components are decomposable (Definition 8) and which cliques
are roots. Without a root, δ rises to the strength of the weakest edge that is left. With one, the tree is
written out, and the separators that it uses are tested with larger sets; if these join components, the search
goes on with what is left, else the tree is consistent at δ (section 5).

References:
    Chechetka and Guestrin, Efficient principled learning of thin junction trees, NIPS 2007.
"""

from __future__ import annotations

from math import comb, inf
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.consistent_cover import exact_cover
from jtsolve.backends.consistent_independence import Independence, Stopped, Tester, sets_with
from jtsolve.kernels import decompose as kernel
from jtsolve.tree import JunctionTree
from jtsolve.varset import VarSet, members, varset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from jtsolve.backend import Report
    from jtsolve.problem import Problem

_BUDGET = 1 << 15
"""Covers tried between two reports: some hundredths of a second."""
_SEPARATORS = 1 << 12
"""Separators set up between two reports: as long."""


class ConsistentTrees:
    """Junction trees whose separators all have k variables, by rising threshold.

    Args:
        problem: what is wanted; n > k + 1.
        size: k.
        tester: tests larger sets.
        exact: whether covers are exact; else greedy.
        report: is asked whether to go on.

    Attributes:
        raised: how often the threshold rose.
        rechecked: how many separators were tested with larger sets.
        asked: how many exact covers were looked for.

    Raises:
        Stopped: the report said so.
    """

    def __init__(self, problem: Problem, size: int, tester: Tester, *, exact: bool, report: Report) -> None:
        self.problem, self.size, self.exact, self.report = problem, size, exact, report
        self.independence = Independence(problem, size, tester, report)
        self.state = _state(problem, self.independence, exact=exact)
        self.asked = self.rechecked = 0

    @property
    def threshold(self) -> float:
        """δ·N, in nats."""
        return float(self.state.threshold[0])

    @property
    def raised(self) -> int:
        """How often the threshold rose."""
        return int(self.state.figures[kernel.RAISED])

    def rising(self) -> Iterator[tuple[JunctionTree, bool]]:
        """Yields the trees found and whether they are consistent, which ends it; δ never falls.

        Raises:
            Stopped: the report said so.
        """
        self._set_up(-inf)
        kernel.order_heap(self.state)
        while self._advance(rising=True):
            tree, used = self._tree()
            yield tree, False
            if not self._recheck(used):
                yield tree, True
                return
            kernel.order_heap(self.state)

    def at(self, threshold: float) -> JunctionTree | None:
        """Returns a consistent tree at one threshold, or None: Algorithm 3.

        Raises:
            Stopped: the report said so.
        """
        self._set_up(threshold)
        self._recheck(np.flatnonzero(self.state.permitted).tolist())
        return self._tree()[0] if self._advance(rising=False) else None

    def components(self) -> dict[VarSet, tuple[list[VarSet], list[bool]]]:
        """Returns, for each separator, its components and whether they are decomposable, as they are now."""
        return {
            varset(self.state.separators[index].tolist()): (
                [self._mask(index, place) for place in range(self.state.parts[index])],
                self.state.good[index, : self.state.parts[index]].tolist(),
            )
            for index in np.flatnonzero(self.state.permitted).tolist()
        }

    def _set_up(self, threshold: float) -> None:
        """Makes the components at a threshold, by the pairs alone."""
        self.state.threshold[0] = threshold
        count = self.state.permitted.size
        for first in range(0, count, _SEPARATORS):
            self._go_on()
            kernel.begin(self.state, first, min(count, first + _SEPARATORS))

    def _go_on(self) -> None:
        if not self.report(note=f"treewidth {self.size}: δ·N = {self.threshold:.4g} nats"):
            raise Stopped

    def _advance(self, *, rising: bool) -> bool:
        """Goes on until there is a root, and tells whether there is one."""
        while True:
            answer = kernel.advance(self.state, _BUDGET, rising)
            if answer == kernel.FOUND:
                return True
            if answer in {kernel.NONE, kernel.EXHAUSTED}:
                return False
            self._go_on()
            if answer == kernel.QUESTION:
                self._answer()

    def _recheck(self, used: list[int]) -> bool:
        """Tests larger sets given the separators; tells whether some components became one."""
        changed = False
        for index in used:
            self._go_on()
            self.rechecked += 1
            state = self.state
            start = self.independence.recheck(
                index, state.labels[index], int(state.first[index]), self.threshold
            )
            if start is not None:
                state.first[index] = start
                kernel.refresh(state, index)
                changed = True
        return changed

    def _tree(self) -> tuple[JunctionTree, list[int]]:
        """Returns the tree below the first root, and the positions of its separators."""
        state = self.state
        clique = np.empty(self.size + 1, dtype=np.int64)
        kernel.unrank(int(np.argmax(state.roots)), state.binomial, clique)
        earlier = 0
        families = []
        for v in clique.tolist():
            families.append((v, earlier))
            earlier |= 1 << v
        everything = (1 << self.problem.n) - 1
        left = self._pieces(clique, -1, everything & ~earlier)
        used = set()
        while left:
            index, place = left.pop()
            used.add(index)
            x = int(state.choice[index, place])
            families.append((x, varset(state.separators[index].tolist())))
            skip = kernel.insert(state.separators[index], x, clique)
            left += self._pieces(clique, skip, self._mask(index, place) & ~(1 << x))
        return JunctionTree.from_families(families), sorted(used)

    def _pieces(self, clique: NDArray[np.int64], skip: int, wanted: VarSet) -> list[tuple[int, int]]:
        """Returns the components that hang on a clique and cover what is wanted, as the kernel covers it."""
        pieces = np.empty((clique.size * self.state.sizes.shape[1], 2), dtype=np.int64)
        count = kernel.cover(self.state, clique, skip, self._words(wanted), pieces)
        if count < 0:
            return self._exact_pieces(clique, skip, wanted) or []
        return [(int(index), int(place)) for index, place in pieces[:count]]

    def _exact_pieces(
        self, clique: NDArray[np.int64], skip: int, wanted: VarSet
    ) -> list[tuple[int, int]] | None:
        """Returns components that hang on a clique and cover what is wanted, or None if no choice does."""
        found = np.empty((clique.size * self.state.sizes.shape[1], 2), dtype=np.int64)
        count = kernel.candidates(self.state, clique, skip, self._words(wanted), found)
        pieces = [(int(index), int(place)) for index, place in found[:count]]
        chosen = exact_cover(wanted, [self._mask(*piece) for piece in pieces])
        return None if chosen is None else [pieces[i] for i in chosen]

    def _answer(self) -> None:
        """Looks for the exact cover that the kernel asks about, and writes down whether there is one."""
        self.asked += 1
        state = self.state
        item, x = int(state.figures[kernel.ASK]), int(state.figures[kernel.ASK_X])
        clique = np.empty(self.size + 1, dtype=np.int64)
        if x < 0:
            kernel.unrank(item, state.binomial, clique)
            wanted = (1 << self.problem.n) - 1 & ~varset(clique.tolist())
            exists = self._exact_pieces(clique, -1, wanted) is not None
            state.root_ruling[item] = 1 if exists else 2
            return
        index, place = divmod(item, state.sizes.shape[1])
        skip = kernel.insert(state.separators[index], x, clique)
        wanted = self._mask(index, place) & ~(1 << x)
        exists = self._exact_pieces(clique, skip, wanted) is not None
        kernel.put((state.yes if exists else state.no)[index, place], x)

    def _mask(self, index: int, place: int) -> VarSet:
        """Returns a component as a set."""
        return sum(int(word) << 64 * i for i, word in enumerate(self.state.masks[index, place]))

    def _words(self, mask: VarSet) -> NDArray[np.uint64]:
        """Returns a set as the kernel has it."""
        count = self.state.masks.shape[2]
        return np.array([mask >> 64 * i & (1 << 64) - 1 for i in range(count)], dtype=np.uint64)


def _state(problem: Problem, independence: Independence, *, exact: bool) -> kernel.State:
    """Returns the state of the search before any component is made."""
    count, k = independence.separators.shape
    n = problem.n
    m, words, cliques = n - k, n // 64 + 1, comb(n, k + 1)
    ruled = count if exact else 0

    def masks(rows: int) -> NDArray[np.uint64]:
        return np.zeros((rows, m, words), dtype=np.uint64)

    return kernel.State(
        separators=independence.separators,
        binomial=independence.binomial,
        permitted=_permitted_separators(problem, k, independence.binomial),
        cliques=_permitted_cliques(problem, k + 1, independence.binomial),
        forest=independence.forest,
        weights=independence.weights,
        first=np.zeros(count, dtype=np.int64),
        parts=np.zeros(count, dtype=np.int64),
        masks=masks(count),
        sizes=np.zeros((count, m), dtype=np.int64),
        labels=np.full((count, n), -1, dtype=np.int16),
        good=np.zeros((count, m), dtype=np.bool_),
        choice=np.full((count, m), -1, dtype=np.int16),
        dirty=masks(count),
        yes=masks(ruled),
        no=masks(ruled),
        touched=np.zeros(count, dtype=np.bool_),
        agenda=np.zeros(count, dtype=np.int64),
        queue=np.full(m + 1, -1, dtype=np.int64),
        next=np.full(count * m, -1, dtype=np.int64),
        queued=np.zeros(count * m, dtype=np.bool_),
        roots=np.zeros(cliques, dtype=np.uint8),
        root_dirty=np.zeros(cliques, dtype=np.bool_),
        root_agenda=np.zeros(cliques, dtype=np.int64),
        root_ruling=np.zeros(cliques if exact else 0, dtype=np.uint8),
        heap=np.zeros(count, dtype=np.int64),
        figures=np.zeros(8, dtype=np.int64),
        threshold=np.full(1, -inf),
    )


def _permitted_separators(problem: Problem, size: int, binomial: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tells, for each set of a size in colex order, whether it may be a separator."""
    limits = problem.constraints
    permitted = np.full(comb(problem.n, size), limits.allowed_separators is None)
    for masks, answer in ((limits.allowed_separators or (), True), (limits.forbidden_separators, False)):
        permitted[_ranks(masks, size, binomial)] = answer
    return permitted


def _permitted_cliques(problem: Problem, size: int, binomial: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tells, for each set of a size in colex order, whether it may be a clique."""
    n, limits = problem.n, problem.constraints
    permitted = np.ones(comb(n, size), dtype=np.bool_)
    permitted[_ranks(limits.forbidden_cliques, size, binomial)] = False
    if limits.forbidden_edges:
        at = 0
        for rows in sets_with(np.empty(0, dtype=np.int64), np.arange(n, dtype=np.int64), size):
            for u, v in map(members, limits.forbidden_edges):
                both = (rows == u).any(axis=1) & (rows == v).any(axis=1)
                permitted[at : at + len(rows)] &= ~both
            at += len(rows)
    return permitted


def _ranks(masks: frozenset[VarSet] | tuple[()], size: int, binomial: NDArray[np.int64]) -> list[int]:
    """Returns the colex ranks of the sets that have the size."""
    fitting = [np.array(list(members(mask)), dtype=np.int64) for mask in masks if mask.bit_count() == size]
    return [int(kernel.rank_of(row, -1, binomial)) for row in fitting]
