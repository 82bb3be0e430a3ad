"""Column generation: the LP of clutter cuts where there are too many families to list.

All sets of fewer than k members are listed, k the size of the largest, and some of k. The LP over their
families gives multipliers λ. These are as valid for all families, and the bound D(λ) over all takes one pass
over the sets of k (`bound`): a set that is not listed generates no cut, so that it is in an up-set
iff a facet is, and t(A) = s(A) + Σ λ g(A) is known from the facets. The scores are asked for in pieces, and
are not kept. Sets with a family that beats the best listed one of its vertex are missing, and those that
exceed it most are listed for the next round. When none does, D(λ) is what it is for the listed families.
When the bound leaves no more families than can be listed, these are, and the search goes on with branches:
its optimum is that of the problem.

Reference: Desaulniers, Desrosiers and Solomon (eds.), Column Generation, Springer 2005.
"""

from __future__ import annotations

from dataclasses import replace
from math import comb, inf, ldexp
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.clutter.bound import bound_of, scaled
from jtsolve.backends.clutter.branch_and_bound import Search
from jtsolve.backends.clutter.rows import Rows
from jtsolve.backends.support.report import with_deadline
from jtsolve.core.machine import resident_memory
from jtsolve.core.problem import Feature
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.scores import SparseScores
from jtsolve.core.varset import count_bounded_subsets, members, varset
from jtsolve.errors import LimitError
from jtsolve.families.families import families_of
from jtsolve.families.sets import all_sets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import Scale
    from jtsolve.backends.clutter.rows import Clutter
    from jtsolve.core.backend import Limits, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet
    from jtsolve.families.families import Families

_SMALLEST = 2
"""Members of the largest sets: with fewer, there is nothing to price."""
_FIRST_SECONDS, _GROWTH = 2.0, 1.3
"""Of the steps between two passes, which take at least as long as a pass; longer from round to round."""
_KEPT, _BUFFER = 2, 4
"""Times the sets that are listed anew: so many are kept, and gathered before the best are chosen."""
BYTES_A_SET = 3000
"""Bytes of a set while steps run: some thousands of cuts, and copies. Measured: 1400 to 3900."""
_BYTES_A_PIECE = 200
_NEVER = -(1 << 62)
_BITS = 60

Multipliers = dict[tuple["VarSet", ...], float]
"""Of clutters, by the masks of their sets, in nats."""


def takes(problem: Problem) -> bool:
    """Tells whether families of a problem can be priced: no constraint but on treewidth, a score for all."""
    plain = problem.constraints.features <= {Feature.MAX_TREEWIDTH}
    return plain and not isinstance(problem.scores, SparseScores) and problem.max_clique_size >= _SMALLEST


def memory_of(problem: Problem, listed: int) -> int:
    """Returns the bytes that are predicted with so many sets of the largest size listed, if there are."""
    listed = min(listed, comb(problem.n, problem.max_clique_size))
    small = count_bounded_subsets(problem.n, problem.max_clique_size - 1)
    return (small + listed) * BYTES_A_SET + comb(problem.n, problem.max_clique_size - 1) * _BYTES_A_PIECE


class Piece(NamedTuple):
    """Some sets of the largest size: members, positions of facets among the sets below, scores in nats."""

    members: NDArray[np.int32]
    facets: NDArray[np.int32]
    scores: NDArray[np.float64]


class Priced(NamedTuple):
    """What a pass found: D(λ) over all families, and sets by how much they exceed the best listed families.

    Attributes:
        units: D(λ).
        sets: rows of members, those that exceed most, or lack least, first.
        excess: of each of these; of listed ones as if they were not.
        exceeds: whether any does.
        listed: the listed sets of the largest size, rows of members.
        listed_excess: of each of these, at most 0.
    """

    units: int
    sets: NDArray[np.int32]
    excess: NDArray[np.int64]
    exceeds: bool
    listed: NDArray[np.int32]
    listed_excess: NDArray[np.int64]


def pieces(problem: Problem) -> Iterator[Piece]:
    """Yields the sets of the largest size, those with the same largest member together.

    The sets below, of one member less, are in the order of their masks; so are these.
    """
    n, k = problem.n, problem.max_clique_size
    below, _, sizes = all_sets(n, k - 1)
    first = int(np.searchsorted(sizes, k - 1))
    below = below[first:]
    choose = np.array([[comb(c, i) for i in range(k + 1)] for c in range(n + 1)], dtype=np.int64)
    for top in range(k - 1, n):
        smaller = below[: comb(top, k - 1)]
        members = np.column_stack((smaller, np.full(len(smaller), top))).astype(np.int32)
        facets = np.empty(members.shape, dtype=np.int32)
        for j in range(k):
            left = np.delete(members, j, axis=1)
            facets[:, j] = first + choose[left, np.arange(1, k)].sum(axis=1)
        yield Piece(members, facets, problem.scores.batch(members.astype(np.intp)))


class Columns:
    """The rounds on one problem."""

    def __init__(self, problem: Problem, root: int, limits: Limits, report: Report, most: int) -> None:
        self.problem, self.root, self.limits, self.report, self.most = problem, root, limits, report, most
        self.small, _, sizes = all_sets(problem.n, problem.max_clique_size - 1)
        self.small_masks = [varset(row[:size]) for row, size in zip(self.small.tolist(), sizes, strict=True)]
        self.small_scores: list[float] = [0.0]
        for size in range(1, problem.max_clique_size):
            rows = self.small[sizes == size, :size]
            self.small_scores += problem.scores.batch(rows.astype(np.intp)).tolist()
        self.tree: JunctionTree | None = None
        self.bound = inf
        self.rounds = self.passes = self.steps = self.nodes = 0

    def run(self, first: JunctionTree | None, pool: ThreadPoolExecutor | None) -> Outcome:
        """Works until the bound is met, nothing is left to do, or it has to end."""
        self.tree = first
        listed = self._begin()
        multipliers: Multipliers = {}
        seconds = _FIRST_SECONDS
        stop = self.report.stop
        while stop is None:
            self.rounds += 1
            round_ends = self.limits.elapsed + seconds
            report = with_deadline(self.report, self.limits, round_ends, bounds=False)
            search = self._search(listed, multipliers, report)
            full = search.root.state.families
            search.relax(pool)
            solved = report.stop is None
            self.steps += search.steps
            self.tree = search.incumbent.tree or self.tree
            multipliers = multipliers_of(search)
            began = self.limits.elapsed
            priced = self._price(full, multipliers)
            if priced is None:
                break
            self.bound = max(search.incumbent.score, min(self.bound, search.scale.nats(priced.units)))
            self.report(bound=self.bound, note=f"{len(listed)} sets of the largest size are listed")
            if priced.units <= search.incumbent.close:
                break
            slack = priced.units - search.incumbent.target - 1
            left = priced.excess >= -slack
            few = not left.all() or left.size < _KEPT * self.most
            if not priced.exceeds and few:  # all that the bound leaves can be listed
                return self._finish(np.concatenate((listed, priced.sets[left])), multipliers)
            if not priced.exceeds and solved:
                self.most *= 2
            listed = self._choose(priced, multipliers)
            seconds = max(seconds * _GROWTH, self.limits.elapsed - began)
            need = resident_memory() + memory_of(self.problem, len(listed))
            stop = Stop.MEMORY if need > self.limits.memory_bytes else self.report.stop
        return Outcome(self.tree, self.bound, stop or self.report.stop or Stop.FINISHED, self._stats())

    def _begin(self) -> NDArray[np.int32]:
        """Returns the sets that exceed most without any multipliers."""
        nothing = np.zeros((0, self.problem.max_clique_size), np.int32)
        search = self._search(nothing, {}, self.report)
        priced = self._price(search.root.state.families, {})
        return nothing if priced is None else self._choose(priced, {})

    def _finish(self, sets: NDArray[np.int32], multipliers: Multipliers) -> Outcome:
        """Searches among all families that the bound leaves, with branches."""
        search = self._search(np.unique(sets, axis=0), multipliers, self.report)
        stop = search.run()
        self.tree = search.incumbent.tree or self.tree
        self.bound = min(self.bound, search.bound)
        self.nodes += search.nodes
        self.steps += search.steps
        return Outcome(self.tree, self.bound, stop, self._stats())

    def _stats(self) -> dict[str, int | float | str]:
        """Returns what is told of the run."""
        return {
            "rounds": self.rounds,
            "steps": self.steps,
            "nodes": self.nodes,
            "passes": self.passes,
            "root": self.problem.names[self.root],
        }

    def _choose(self, priced: Priced, multipliers: Multipliers) -> NDArray[np.int32]:
        """Returns what to list: the first that were priced, the cliques of the tree, sets of cuts in use."""
        size = self.problem.max_clique_size
        masks = {mask for clutter in multipliers for mask in clutter if mask.bit_count() == size}
        if self.tree is not None:
            masks |= {clique for clique in self.tree.cliques if clique.bit_count() == size}
        own = np.array([list(members(mask)) for mask in masks], np.int32).reshape(-1, size)
        old, _ = _first(priced.listed, priced.listed_excess, _KEPT * self.most)
        return np.unique(np.concatenate((priced.sets[: self.most], old, own)), axis=0)

    def _search(self, listed: NDArray[np.int32], multipliers: Multipliers, report: Report) -> Search:
        """Returns the search on the problem of the listed sets, at the multipliers."""
        table = dict(zip(self.small_masks, self.small_scores, strict=True))
        scores = self.problem.scores.batch(listed.astype(np.intp)).tolist()
        table.update(zip((varset(row) for row in listed.tolist()), scores, strict=True))
        problem = replace(self.problem, scores=SparseScores(self.problem.n, table))
        families = families_of(problem, self.root)
        search = Search(problem, families, self.limits, report, keep_stages=False)
        state = search.root.state
        position = {mask: at for at, mask in enumerate(families.masks())}
        known = dict.fromkeys(state.rows.clutters, 0.0) | at_positions(multipliers, position)
        state.rows = Rows(families, list(known))
        state.cuts = np.array(list(known.values()))
        if self.tree is not None:
            search.incumbent.offer(self.tree)
        return search

    def _price(self, listed: Families, multipliers: Multipliers) -> Priced | None:
        """Evaluates D(λ) over all families; None if told to end before."""
        from jtsolve.backends.clutter.kernels.clutters import price_sets, weight_tables

        self.passes += 1
        n, size = self.problem.n, self.problem.max_clique_size
        scale, scores = scaled(listed)
        position = {mask: at for at, mask in enumerate(listed.masks())}
        at = at_positions(multipliers, position)
        rows = Rows(listed, list(at))
        weights = scale.units_of(np.array(list(at.values())))
        bound = bound_of(listed, scores, rows, weights, np.zeros(0, dtype=np.int64))
        assert bound is not None, "all single vertices are listed"
        tables = weight_tables(weights, -(-len(at) // 64))
        own = _rounded(self.problem.scores.batch(np.arange(n)[:, None]), scale)
        better = bound.best
        sets, excess = np.zeros((0, size), np.int32), np.zeros(0, np.int64)
        for piece in pieces(self.problem):
            if self.report.stop is not None:
                return None
            _require_room(piece.scores, n, size, scale)
            units = _rounded(piece.scores, scale) - own[piece.members].sum(axis=1)
            found, over = price_sets(
                units, piece.members, piece.facets, rows.words, tables, bound.values, bound.best, self.root
            )
            better = np.maximum(better, over)
            sets, excess = np.concatenate((sets, piece.members)), np.concatenate((excess, found))
            if excess.size > _BUFFER * self.most:
                sets, excess = _first(sets, excess, _KEPT * self.most)
        sets, excess = _first(sets, excess, _KEPT * self.most)
        last = np.flatnonzero(listed.sizes == size)
        own_sets = listed.members[last].reshape(-1, size)
        gains = bound.values[last][:, None] - bound.values[listed.facets[last].reshape(-1, size)]
        lack = np.where(own_sets == self.root, _NEVER, gains - bound.best[own_sets])
        units = sum(better.tolist()) - int(weights.sum())
        exceeds = bool((better > bound.best).any())
        return Priced(units, sets, excess, exceeds, own_sets, lack.max(axis=1, initial=_NEVER))


def _first(
    sets: NDArray[np.int32], excess: NDArray[np.int64], most: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Returns the sets that exceed most, in that order."""
    order = np.argsort(-excess, kind="stable")[:most]
    return sets[order], excess[order]


def _rounded(scores: NDArray[np.float64], scale: Scale) -> NDArray[np.int64]:
    """Returns scores in units, as `scaled` rounds them."""
    return np.rint(np.ldexp(scores, scale.shift)).astype(np.int64)


def _require_room(scores: NDArray[np.float64], n: int, size: int, scale: Scale) -> None:
    """Refuses scores so much larger than those that are listed that sums of their integers might overflow."""
    largest = float(np.abs(scores).max())
    if ldexp(largest, scale.shift) * 4 * n * (size + 1) >= 2.0**_BITS:
        raise LimitError(
            f"backend 'clutter' cannot price scores of {largest:.3g} nats beside those of smaller sets, "
            "which are so much smaller. Way out: a larger --memory-limit, so that all sets are listed."
        )


def at_positions(multipliers: Multipliers, position: dict[VarSet, int]) -> dict[Clutter, float]:
    """Returns the multipliers by the positions of the sets."""
    return {tuple(sorted(position[mask] for mask in clutter)): w for clutter, w in multipliers.items()}


def multipliers_of(search: Search) -> Multipliers:
    """Returns the positive multipliers of the root's best bound."""
    state = search.root.state
    families = state.families
    found = {}
    for clutter, weight in zip(state.rows.clutters, state.cuts.tolist(), strict=True):
        if weight > 0:
            masks = (varset(families.members[at, : families.sizes[at]].tolist()) for at in clutter)
            found[tuple(masks)] = weight
    return found
