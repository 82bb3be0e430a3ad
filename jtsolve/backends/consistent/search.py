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

from jtsolve.backends.consistent.exact_cover import exact_cover
from jtsolve.backends.consistent.independence import HyperedgeTests, Independence, Stopped, sets_with
from jtsolve.backends.consistent.kernels import decompose as kernel
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import VarSet, members, varset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem

_BUDGET = 1 << 15
"""Covers tried between two reports: some hundredths of a second."""
_WORD = (1 << 64) - 1
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

    def __init__(
        self, problem: Problem, size: int, tester: HyperedgeTests, *, exact: bool, report: Report
    ) -> None:
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
        self._recheck(self._permitted())
        return self._tree()[0] if self._advance(rising=False) else None

    def components(self) -> dict[VarSet, list[tuple[VarSet, bool]]]:
        """Returns, for each separator, its components and whether they are decomposable, as they are now."""
        state = self.state
        return {
            varset(self.independence.separators[index].tolist()): [
                (self._mask(index, place), bool(state.cells[index, place, kernel.GOOD]))
                for place in range(state.nodes[index, kernel.PARTS])
            ]
            for index in self._permitted()
        }

    def _permitted(self) -> list[int]:
        """Returns the positions of the sets that may be separators."""
        positions: list[int] = np.flatnonzero(self.state.nodes[:, kernel.PERMITTED]).tolist()
        return positions

    def _set_up(self, threshold: float) -> None:
        """Makes the components at a threshold, by the pairs alone."""
        self.state.threshold[0] = threshold
        count = len(self.state.nodes)
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
            node = self.state.nodes[index]
            labels = node[kernel.MEMBERS + self.size :]
            start = self.independence.recheck(index, labels, int(node[kernel.FIRST]), self.threshold)
            if start is not None:
                node[kernel.FIRST] = start
                kernel.refresh(self.state, index)
                changed = True
        return changed

    def _tree(self) -> tuple[JunctionTree, list[int]]:
        """Returns the tree of the highest score by greedy decompositions, and its separators' positions.

        With exact covers it is the first one that was found.
        """
        state = self.state
        cells = state.cells
        roots = np.flatnonzero(state.cliques[:, kernel.ROOT]).tolist()
        chosen = cells[:, :, kernel.CHOICE].ravel()
        if self.exact:
            return self._tree_below(roots[0], chosen)
        good = np.flatnonzero(cells[:, :, kernel.GOOD])
        good = good[np.argsort(cells[:, :, kernel.SIZE].ravel()[good], kind="stable")]
        values = np.full(chosen.size, -inf)
        separator_scores, clique_scores, _ = self.independence.levels
        for first in range(0, good.size, _SEPARATORS):
            self._go_on()
            items = good[first : first + _SEPARATORS]
            kernel.best_decompositions(state, items, separator_scores, clique_scores, values, chosen)

        def value(root: int) -> float:
            pieces = self._pieces(*self._below(root))
            return float(clique_scores[root] + sum(values[i * cells.shape[1] + j] for i, j in pieces))

        return self._tree_below(max(roots, key=value), chosen)

    def _below(self, root: int) -> tuple[NDArray[np.int64], int, VarSet]:
        """Returns the arguments of `_pieces` for what hangs on a root."""
        clique = np.empty(self.size + 1, dtype=np.int64)
        kernel.unrank(root, self.state.binomial, clique)
        return clique, clique.size, (1 << self.problem.n) - 1 & ~varset(clique.tolist())

    def _tree_below(self, root: int, chosen: NDArray[np.int64]) -> tuple[JunctionTree, list[int]]:
        """Returns the tree below a root, where each component (by S·m + place) is decomposed by its x."""
        clique, skip, wanted = self._below(root)
        earlier = 0
        families = []
        for v in clique.tolist():
            families.append((v, earlier))
            earlier |= 1 << v
        left = self._pieces(clique, skip, wanted)
        used = set()
        while left:
            index, place = left.pop()
            used.add(index)
            separator = self.independence.separators[index]
            x = int(chosen[index * self.state.cells.shape[1] + place])
            families.append((x, varset(separator.tolist())))
            skip = kernel.insert(separator, x, clique)
            left += self._pieces(clique, skip, self._mask(index, place) & ~(1 << x))
        return JunctionTree.from_families(families), sorted(used)

    def _pieces(self, clique: NDArray[np.int64], skip: int, wanted: VarSet) -> list[tuple[int, int]]:
        """Returns the components that hang on a clique and cover what is wanted, as the kernel covers it."""
        pieces = np.empty((clique.size * self.state.cells.shape[1], 2), dtype=np.int64)
        count = kernel.cover(self.state, clique, skip, self._words(wanted), pieces)
        if count < 0:  # the kernel found none by greed: there was an exact one
            exact = self._exact_pieces(clique, skip, wanted)
            assert exact is not None, "a component that is marked decomposable has a cover"
            return exact
        return [(int(index), int(place)) for index, place in pieces[:count]]

    def _exact_pieces(
        self, clique: NDArray[np.int64], skip: int, wanted: VarSet
    ) -> list[tuple[int, int]] | None:
        """Returns components that hang on a clique and cover what is wanted, or None if no choice does."""
        found = np.empty((clique.size * self.state.cells.shape[1], 2), dtype=np.int64)
        count = kernel.candidates(self.state, clique, skip, self._words(wanted), found)
        pieces = [(int(index), int(place)) for index, place in found[:count]]
        chosen = exact_cover(wanted, [self._mask(*piece) for piece in pieces], self.report)
        if chosen is None and self.report.stop is not None:
            raise Stopped
        return None if chosen is None else [pieces[i] for i in chosen]

    def _answer(self) -> None:
        """Looks for the exact cover that the kernel asks about, and writes down whether there is one."""
        self.asked += 1
        state = self.state
        item, x = int(state.figures[kernel.ASK]), int(state.figures[kernel.ASK_X])
        clique = np.empty(self.size + 1, dtype=np.int64)
        if x < 0:
            exists = self._exact_pieces(*self._below(item)) is not None
            state.cliques[item, kernel.RULING] = 1 if exists else 2
            return
        index, place = divmod(item, state.cells.shape[1])
        skip = kernel.insert(self.independence.separators[index], x, clique)
        wanted = self._mask(index, place) & ~(1 << x)
        exists = self._exact_pieces(clique, skip, wanted) is not None
        words = self.problem.n // 64 + 1
        start = kernel.MASK + (2 if exists else 3) * words
        kernel.put(state.cells[index, place, start : start + words], x)

    def _mask(self, index: int, place: int) -> VarSet:
        """Returns a component as a set."""
        words = self.state.cells[index, place, kernel.MASK : kernel.MASK + self.problem.n // 64 + 1]
        return sum((int(word) & _WORD) << 64 * i for i, word in enumerate(words))

    def _words(self, mask: VarSet) -> NDArray[np.int64]:
        """Returns a set as the kernel has it."""
        words = [mask >> 64 * i & _WORD for i in range(self.problem.n // 64 + 1)]
        return np.array(words, dtype=np.uint64).view(np.int64)


def _state(problem: Problem, independence: Independence, *, exact: bool) -> kernel.State:
    """Returns the state of the search before any component is made."""
    count, k = independence.separators.shape
    n = problem.n
    m, words = n - k, n // 64 + 1
    nodes = np.full((count, kernel.MEMBERS + k + n), -1, dtype=np.int64)
    nodes[:, : kernel.MEMBERS] = 0
    nodes[:, kernel.LINK] = kernel.OUT
    nodes[:, kernel.PERMITTED] = _permitted_separators(problem, k, independence.binomial)
    nodes[:, kernel.MEMBERS : kernel.MEMBERS + k] = independence.separators
    cliques = np.zeros((comb(n, k + 1), 4), dtype=np.int64)
    cliques[:, kernel.ALLOWED] = _permitted_cliques(problem, k + 1, independence.binomial)
    cliques[:, kernel.CLIQUE_LINK] = kernel.OUT
    figures = np.zeros(8, dtype=np.int64)
    figures[kernel.EXACT] = exact
    return kernel.State(
        nodes=nodes,
        cells=np.zeros((count, m, kernel.MASK + (4 if exact else 2) * words), dtype=np.int64),
        cliques=cliques,
        forest=independence.forest,
        weights=independence.weights,
        heap=np.zeros(count, dtype=np.int64),
        heads=np.full(m + 3, kernel.END, dtype=np.int64),
        figures=figures,
        threshold=np.full(1, -inf),
        binomial=independence.binomial,
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
