"""Column generation: the LP with clutter cuts where there are too many families to hold.

The *columns* are the sets of k members, k the size of the largest, with their families; all smaller sets are
always active. The restricted LP over the active sets gives multipliers λ, which are as valid for all families
as for the active ones, and one pass over the sets of k *prices* them: an inactive set generates no cut, so it
is in an up-set iff a facet is, and t(A) = s(A) + Σ λ g(A) follows from its facets. Scores are requested in
blocks and not kept. The pass gives the bound D(λ) over all families (`bound`), and the sets with a family
that exceeds the best active one of its vertex: those that exceed it most become active in the next round.
When none does, D(λ) is that of the restricted LP. When the families that the bound leaves fit, all of them
become active, and branch and bound on these finds an optimum of the problem.

Reference: Desaulniers, Desrosiers and Solomon (eds.), Column Generation, Springer 2005.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb, inf, ldexp
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.clutter.bound import bound_of, scaled
from jtsolve.backends.clutter.branch_and_bound import BranchAndBound
from jtsolve.backends.clutter.inequalities import Rows, RowVector
from jtsolve.backends.support.report import with_deadline
from jtsolve.core.machine import resident_memory
from jtsolve.core.problem import Feature
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.scores import SparseScores, StoppedError
from jtsolve.core.varset import count_bounded_subsets, key_of, members, set_table, varset
from jtsolve.errors import LimitError
from jtsolve.families.families import families_of
from jtsolve.families.sets import all_sets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import FixedPoint
    from jtsolve.backends.clutter.inequalities import Clutter
    from jtsolve.core.backend import Limits, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree
    from jtsolve.core.varset import VarSet
    from jtsolve.families.families import Families


@dataclass(frozen=True, slots=True)
class PricingConstants:
    """The constants of column generation."""

    smallest: int = 2
    """Members of the largest sets; with fewer, there is nothing to price."""
    columns: int = 50_000
    """Default number of sets activated in a round."""
    first_seconds: float = 2.0
    growth: float = 1.3
    """Seconds for the first restricted LP, and their growth from round to round; later LPs also get at least
    as long as the last pass took."""
    kept: int = 2
    buffered: int = 4
    """Multiples of the round size: active sets retained, candidates buffered."""
    bytes_per_set: int = 3000
    """Of an active set, for some thousands of cuts, and copies. Measured: 1400 to 3900."""
    bytes_per_block_set: int = 200
    """Of a set in a block."""


PRICING = PricingConstants()
_NEVER = -(1 << 62)
_BITS = 60
_LISTED = 1 << 16
"""Masks made between two looks at the clock: a twentieth of a second."""

CutMultipliers = dict[tuple["VarSet", ...], float]
"""Multipliers of clutters, given by the bit masks of their sets, in nats."""


def can_price(problem: Problem) -> bool:
    """Tells whether families of a problem can be priced: no constraint but on treewidth, a score for all."""
    plain = problem.constraints.features <= {Feature.MAX_TREEWIDTH}
    return (
        plain and not isinstance(problem.scores, SparseScores) and problem.max_clique_size >= PRICING.smallest
    )


def memory_of(problem: Problem, columns: int) -> int:
    """Returns the predicted bytes with a number of active sets of the largest size."""
    columns = min(columns, comb(problem.n, problem.max_clique_size))
    small = count_bounded_subsets(problem.n, problem.max_clique_size - 1)
    block = comb(problem.n, problem.max_clique_size - 1) * PRICING.bytes_per_block_set
    return (small + columns) * PRICING.bytes_per_set + block


class Block(NamedTuple):
    """Some sets of the largest size: members, positions of facets among the smaller sets, scores in nats."""

    members: NDArray[np.int32]
    facets: NDArray[np.int32]
    scores: NDArray[np.float64]


class Pricing(NamedTuple):
    """The result of a pass: D(λ) over all families, and the sets that violate its restricted version most.

    The violation of a set is the most by which one of its families exceeds the best active family of its
    vertex, that is, the least reduced cost with the other sign, in units.

    Attributes:
        units: D(λ).
        sets: rows of members, by falling violation.
        violation: of each of these, computed as if it were inactive.
        violated: whether any violation is positive.
        active: the active sets of the largest size, rows of members.
        active_violation: of each of these; at most 0.
    """

    units: int
    sets: NDArray[np.int32]
    violation: NDArray[np.int64]
    violated: bool
    active: NDArray[np.int32]
    active_violation: NDArray[np.int64]


def blocks(problem: Problem) -> Iterator[Block]:
    """Yields the sets of the largest size in blocks with the same largest member.

    Sets are in the order of their masks, as those of one member less are in `all_sets`.
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
        yield Block(members, facets, problem.scores.batch(members.astype(np.intp)))


class ColumnGeneration:
    """The rounds on one problem; `columns` sets become active in each."""

    def __init__(self, problem: Problem, root: int, limits: Limits, report: Report, columns: int) -> None:
        self.problem, self.root, self.limits, self.report = problem, root, limits, report
        self.columns = columns
        small, _, sizes = all_sets(problem.n, problem.max_clique_size - 1)
        self.small_masks: list[VarSet] = []
        for start in range(0, len(small), _LISTED):
            if report.stop is not None:
                raise StoppedError
            part = slice(start, start + _LISTED)
            pairs = zip(small[part].tolist(), sizes[part], strict=True)
            self.small_masks += [varset(row[:size]) for row, size in pairs]
        self.small_scores: list[float] = [0.0]
        for size in range(1, problem.max_clique_size):
            rows = small[sizes == size, :size]
            self.small_scores += problem.scores.batch(rows.astype(np.intp)).tolist()
        self.tree: JunctionTree | None = None
        self.bound = inf
        self.rounds = self.passes = self.steps = self.nodes = 0

    def run(self, first: JunctionTree | None, pool: ThreadPoolExecutor | None) -> Outcome:
        """Runs rounds until the bound is met, no set violates it, or the time or memory is over."""
        self.tree = first
        active = self._begin()
        multipliers: CutMultipliers = {}
        seconds = PRICING.first_seconds
        stop = self.report.stop
        while stop is None:
            self.rounds += 1
            self._adopt()
            round_ends = self.limits.elapsed + seconds
            report = with_deadline(self.report, self.limits, round_ends, bounds=False)
            search = self._restricted(active, multipliers, report)
            families = search.root.subproblem.families
            search.relax(pool)
            solved = report.stop is None
            self.steps += search.steps
            self.tree = search.best.tree or self.tree
            multipliers = multipliers_of(search)
            began = self.limits.elapsed
            priced = self._price(families, multipliers)
            if priced is None:
                break
            self.bound = max(search.best.score, min(self.bound, search.scale.nats(priced.units)))
            self.report(bound=self.bound, note=f"{len(active)} active sets of the largest size")
            if priced.units <= search.best.close:
                break
            slack = priced.units - search.best.target - 1
            left = priced.violation >= -slack
            fits = not left.all() or left.size < PRICING.kept * self.columns
            if not priced.violated and fits:  # all that the bound leaves
                return self._finish(np.concatenate((active, priced.sets[left])), multipliers)
            if not priced.violated and solved:
                self.columns *= 2
            active = self._choose(priced, multipliers)
            seconds = max(seconds * PRICING.growth, self.limits.elapsed - began)
            need = resident_memory() + memory_of(self.problem, len(active))
            stop = Stop.MEMORY if need > self.limits.memory_bytes else self.report.stop
        return Outcome(self.tree, self.bound, stop or self.report.stop or Stop.FINISHED, self._stats())

    def _adopt(self) -> None:
        """Takes the report's incumbent if it scores more: another member of a portfolio may have found it."""
        tree, scores = self.report.incumbent, self.problem.scores
        if tree is not None and (self.tree is None or tree.score(scores) > self.tree.score(scores)):
            self.tree = tree

    def _begin(self) -> NDArray[np.int32]:
        """Returns the sets of largest violation without any multipliers."""
        nothing = np.zeros((0, self.problem.max_clique_size), np.int32)
        search = self._restricted(nothing, {}, self.report)
        priced = self._price(search.root.subproblem.families, {})
        return nothing if priced is None else self._choose(priced, {})

    def _finish(self, sets: NDArray[np.int32], multipliers: CutMultipliers) -> Outcome:
        """Runs branch and bound on all sets that the bound leaves."""
        search = self._restricted(np.unique(sets, axis=0), multipliers, self.report)
        stop = search.run()
        self.tree = search.best.tree or self.tree
        self.bound = min(self.bound, search.bound)
        self.nodes += search.nodes
        self.steps += search.steps
        return Outcome(self.tree, self.bound, stop, self._stats())

    def _stats(self) -> dict[str, int | float | str]:
        """Returns the statistics of the run."""
        return {
            "rounds": self.rounds,
            "steps": self.steps,
            "nodes": self.nodes,
            "passes": self.passes,
            "root": self.problem.names[self.root],
        }

    def _choose(self, priced: Pricing, multipliers: CutMultipliers) -> NDArray[np.int32]:
        """Returns the next active sets: of largest violation, cliques of the tree, generators of cuts."""
        size = self.problem.max_clique_size
        masks = {mask for clutter in multipliers for mask in clutter if mask.bit_count() == size}
        if self.tree is not None:
            masks |= {clique for clique in self.tree.cliques if clique.bit_count() == size}
        own = np.array([list(members(mask)) for mask in masks], np.int32).reshape(-1, size)
        old, _ = _first(priced.active, priced.active_violation, PRICING.kept * self.columns)
        return np.unique(np.concatenate((priced.sets[: self.columns], old, own)), axis=0)

    def _restricted(
        self, active: NDArray[np.int32], multipliers: CutMultipliers, report: Report
    ) -> BranchAndBound:
        """Returns the branch and bound on the restricted problem, starting at the multipliers."""
        scores = self.problem.scores.batch(active.astype(np.intp)).tolist()
        masks = [*self.small_masks, *map(varset, active.tolist())]
        pairs = zip(masks, [*self.small_scores, *scores], strict=True)
        problem = replace(self.problem, scores=SparseScores(self.problem.n, set_table(self.problem.n, pairs)))
        families = families_of(problem, self.root)
        known = at_positions(multipliers, families)
        search = BranchAndBound.whole(
            problem, families, self.limits, report, keep_stages=False, multipliers=known
        )
        if self.tree is not None:
            search.best.offer(self.tree)
        return search

    def _price(self, active: Families, multipliers: CutMultipliers) -> Pricing | None:
        """Evaluates D(λ) over all families; None if it was interrupted."""
        from jtsolve.backends.clutter.kernels.clutters import price_sets, weight_tables

        self.passes += 1
        n, size = self.problem.n, self.problem.max_clique_size
        scale, scores = scaled(active)
        at = at_positions(multipliers, active)
        rows = Rows(active, list(at))
        weights = scale.units_of(np.array(list(at.values())))
        bound = bound_of(active, scores, rows, RowVector(weights, np.zeros(0, dtype=np.int64)))
        tables = weight_tables(weights, -(-len(at) // 64))
        own = _rounded(self.problem.scores.batch(np.arange(n)[:, None]), scale)
        better = bound.best
        sets, violation = np.zeros((0, size), np.int32), np.zeros(0, np.int64)
        for block in blocks(self.problem):
            if self.report.stop is not None:
                return None
            _require_room(block.scores, n, size, scale)
            units = _rounded(block.scores, scale) - own[block.members].sum(axis=1)
            found, over = price_sets(
                units, block.members, block.facets, rows.words, tables, bound.values, bound.best, self.root
            )
            better = np.maximum(better, over)
            sets, violation = np.concatenate((sets, block.members)), np.concatenate((violation, found))
            if violation.size > PRICING.buffered * self.columns:
                sets, violation = _first(sets, violation, PRICING.kept * self.columns)
        sets, violation = _first(sets, violation, PRICING.kept * self.columns)
        last = np.flatnonzero(active.sizes == size)
        own_sets = active.members[last].reshape(-1, size)
        gains = bound.values[last][:, None] - bound.values[active.facets[last].reshape(-1, size)]
        over_best = np.where(own_sets == self.root, _NEVER, gains - bound.best[own_sets])
        units = sum(better.tolist()) - int(weights.sum())
        violated = bool((better > bound.best).any())
        return Pricing(units, sets, violation, violated, own_sets, over_best.max(axis=1, initial=_NEVER))


def _first(
    sets: NDArray[np.int32], violation: NDArray[np.int64], most: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Returns the sets of largest violation, in that order."""
    order = np.argsort(-violation, kind="stable")[:most]
    return sets[order], violation[order]


def _rounded(scores: NDArray[np.float64], scale: FixedPoint) -> NDArray[np.int64]:
    """Returns scores in units, rounded as in `scaled`."""
    return np.rint(np.ldexp(scores, scale.shift)).astype(np.int64)


def _require_room(scores: NDArray[np.float64], n: int, size: int, scale: FixedPoint) -> None:
    """Refuses scores so much larger than the active ones that sums of their integers might overflow."""
    largest = float(np.abs(scores).max())
    if ldexp(largest, scale.shift) * 4 * n * (size + 1) >= 2.0**_BITS:
        raise LimitError(
            f"backend 'clutter' cannot price scores of {largest:.3g} nats beside those of smaller sets, "
            "which are so much smaller. Way out: a larger --memory-limit, so that all sets fit."
        )


def at_positions(multipliers: CutMultipliers, families: Families) -> dict[Clutter, float]:
    """Returns the multipliers by the positions of the sets."""
    key = key_of(families.n)
    position = {key(mask): at for at, mask in enumerate(families.masks())}
    return {tuple(sorted(position[key(mask)] for mask in clutter)): w for clutter, w in multipliers.items()}


def multipliers_of(search: BranchAndBound) -> CutMultipliers:
    """Returns the positive multipliers of the root's best bound."""
    root = search.root.subproblem
    return {
        tuple(varset(root.families.members_of(at)) for at in clutter): weight
        for clutter, weight in zip(root.rows.clutters, root.multipliers.cuts.tolist(), strict=True)
        if weight > 0
    }
