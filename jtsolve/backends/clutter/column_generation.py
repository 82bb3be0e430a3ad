"""Column generation: the LP with clutter cuts where there are too many families to hold.

The *columns* are the sets of k members, k the size of the largest, with their families; all smaller sets are
always active. The restricted LP over the active sets gives multipliers λ, which are as valid for all families
as for the active ones, and one pass over the sets of k *prices* them: an inactive set generates no cut, so it
is in an up-set iff a facet is, and t(A) = s(A) + Σ λ g(A) follows from its facets. Scores are requested in
blocks and not kept. The pass gives the bound D(λ) over all families (`bound`), and the sets with a family
that exceeds the best active one of its vertex: those that exceed it most become active in the next round.
When none does, D(λ) is that of the restricted LP. When the families that the bound leaves fit, all of them
become active, and branch and bound on these finds an optimum of the problem.

Before the rounds comes one dual ascent (`ascent`) over all families, if there is memory for these, though not
for a bit of every set for each cut: on text, of 500 words, it leaves less than one per cent within a minute,
where the first rounds leave three.

Constraints are rows over smaller sets, over pairs, or over active sets: sets of k that a row names become
active, and so does one permitted superset of each forbidden clique of k − 1, which keeps that among the
smaller sets. Sets of k that are no permitted cliques are not priced.

A certificate has the multipliers of the best bound; where branch and bound follows, they are its first stage,
which leaves no more families than the search began with.

Reference: Desaulniers, Desrosiers and Solomon (eds.), Column Generation, Springer 2005.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import comb, inf, ldexp
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.clutter.ascent import bound_alone
from jtsolve.backends.clutter.bound import bound_of, scaled
from jtsolve.backends.clutter.branch_and_bound import BranchAndBound, ProofNode
from jtsolve.backends.clutter.certificate import Proof
from jtsolve.backends.clutter.inequalities import RowMultipliers, Rows, RowVector
from jtsolve.backends.clutter.sparsest import ties_with
from jtsolve.backends.clutter.subproblem import Stage, stage_of
from jtsolve.backends.support.report import with_deadline
from jtsolve.core.machine import resident_memory
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.scores import SparseScores, StoppedError
from jtsolve.core.varset import count_bounded_subsets, key_of, members, set_table, varset
from jtsolve.errors import LimitError
from jtsolve.families.families import families_of, predicted_memory, predicted_sets
from jtsolve.families.sets import all_sets, masks_of, watched
from jtsolve.options import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import FixedPoint
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits
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
    bytes_of_ascent: int = 20
    bytes_of_ascending_family: int = 32
    """Of a set and of each of its families in the ascent, beside the families themselves and a bit for each
    vertex; the lists of entering families come on top."""


PRICING = PricingConstants()
_BETWEEN_BOUNDS = 0.2
"""Seconds between two bounds told during the ascent."""
_NEVER = -(1 << 62)
_BITS = 60


def can_price(problem: Problem) -> bool:
    """Tells whether families of a problem can be priced: every set has a score."""
    return not isinstance(problem.scores, SparseScores) and problem.max_clique_size >= PRICING.smallest


def memory_of(problem: Problem, columns: int) -> int:
    """Returns the predicted bytes with a number of active sets of the largest size."""
    columns = min(columns, comb(problem.n, problem.max_clique_size))
    small = count_bounded_subsets(problem.n, problem.max_clique_size - 1)
    block = comb(problem.n, problem.max_clique_size - 1) * PRICING.bytes_per_block_set
    return (small + columns) * PRICING.bytes_per_set + block


def memory_of_ascent(problem: Problem) -> int:
    """Returns the predicted bytes of an ascent over all families."""
    each = PRICING.bytes_of_ascent + PRICING.bytes_of_ascending_family * problem.max_clique_size
    return predicted_memory(problem) + predicted_sets(problem) * (each + problem.n // 8)


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
        stage: the multipliers, for a certificate.
    """

    units: int
    sets: NDArray[np.int32]
    violation: NDArray[np.int64]
    violated: bool
    active: NDArray[np.int32]
    active_violation: NDArray[np.int64]
    stage: Stage


def blocks(problem: Problem, without: Collection[VarSet] = ()) -> Iterator[Block]:
    """Yields the sets of the largest size, but some of them, in blocks with the same largest member.

    Sets are in the order of their masks, as those of one member less are in `all_sets`.
    """
    n, k = problem.n, problem.max_clique_size
    below, _, sizes = all_sets(n, k - 1)
    first = int(np.searchsorted(sizes, k - 1))
    below = below[first:]
    choose = np.array([[comb(c, i) for i in range(k + 1)] for c in range(n + 1)], dtype=np.int64)
    left_out: list[list[int]] = [[] for _ in range(n)]
    for mask in without:
        *smaller_members, top = members(mask)
        left_out[top].append(int(choose[smaller_members, np.arange(1, k)].sum()))
    for top in range(k - 1, n):
        smaller = np.delete(below[: comb(top, k - 1)], left_out[top], axis=0)
        rows = np.column_stack((smaller, np.full(len(smaller), top))).astype(np.int32)
        facets = np.empty(rows.shape, dtype=np.int32)
        for j in range(k):
            left = np.delete(rows, j, axis=1)
            facets[:, j] = first + choose[left, np.arange(1, k)].sum(axis=1)
        yield Block(rows, facets, problem.scores.batch(rows.astype(np.intp)))


class ColumnGeneration:
    """The rounds on one problem; `columns` sets become active in each.

    `proof` is that of the bound, and `left` the families that it leaves to trees of the best score, or None.
    """

    def __init__(
        self,
        problem: Problem,
        root: int,
        limits: Limits,
        report: Report,
        columns: int,
        *,
        keep_stages: bool = False,
        ties: bool = False,
    ) -> None:
        self.problem, self.root, self.limits, self.report = problem, root, limits, report
        self.columns, self.keep_stages, self.ties = columns, keep_stages, ties
        small, _, sizes = all_sets(problem.n, problem.max_clique_size - 1)
        self.small_masks = masks_of(small, sizes, self._look)
        self.small_scores: list[float] = [0.0]
        for size in range(1, problem.max_clique_size):
            rows = small[sizes == size, :size]
            self.small_scores += problem.scores.batch(rows.astype(np.intp)).tolist()
        self.always = _always_active(problem)
        self.not_cliques = {
            mask
            for mask in problem.constraints.forbidden_cliques | problem.constraints.forbidden_edges
            if mask.bit_count() == problem.max_clique_size
        }
        # The largest score by magnitude, seen so far; its set is active, so that all rounds have one scale.
        self.largest = max(map(abs, self.small_scores))
        self.tree: JunctionTree | None = None
        self.bound = inf
        self.proof: Proof | None = None
        self.left: Families | None = None
        self.rounds = self.passes = self.steps = self.nodes = 0

    def _look(self) -> None:
        """Raises StoppedError if the run is to end."""
        if self.report.stop is not None:
            raise StoppedError

    def run(self, first: JunctionTree | None, pool: ThreadPoolExecutor | None) -> Outcome:
        """Runs rounds until the bound is met, no set violates it, or the time or memory is over."""
        self.tree = first
        try:
            return self._run(pool)
        except StoppedError:  # amid scores: what was found and proved stands
            return Outcome(self.tree, self.bound, self.report.stop or Stop.TIME, self._stats())

    def _run(self, pool: ThreadPoolExecutor | None) -> Outcome:
        """Runs an ascent and the rounds; see `run`."""
        if resident_memory() + memory_of_ascent(self.problem) <= self.limits.memory_bytes:
            closed = self._ascend()
            if closed and not self.ties:
                return Outcome(self.tree, self.bound, Stop.FINISHED, self._stats())
        if (stop := self.report.stop) is not None:  # with hundreds of variables, a beginning takes seconds
            return Outcome(self.tree, self.bound, stop, self._stats())
        active = self._begin()
        multipliers = RowMultipliers({}, {})
        seconds = PRICING.first_seconds
        lowest = inf
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
            closed = priced.units <= search.best.close
            bound = -inf if closed and self.tree is None else search.scale.nats(priced.units)
            better, lowest = bound < lowest, min(lowest, bound)
            self._take(search, bound, priced.stage)
            self.report(bound=self.bound, note=f"{len(active)} active sets of the largest size")
            slack = priced.units - search.best.target - 1
            left = priced.violation >= -slack
            fits = not left.all() or left.size < PRICING.kept * self.columns
            if fits and (self.ties and self.tree is not None if closed else not priced.violated):
                # all that the bound leaves
                left_sets = np.concatenate((active, priced.sets[left]))
                return self._finish(left_sets, multipliers, priced.stage)
            if closed:
                break
            if solved and not (priced.violated and better):  # else it might go in circles
                self.columns *= 2
            active = self._choose(priced, multipliers)
            seconds = max(seconds * PRICING.growth, self.limits.elapsed - began)
            need = resident_memory() + memory_of(self.problem, len(active))
            stop = Stop.MEMORY if need > self.limits.memory_bytes else self.report.stop
        return Outcome(self.tree, self.bound, stop or self.report.stop or Stop.FINISHED, self._stats())

    def _ascend(self) -> bool:
        """Bounds the problem by dual ascent over all families; tells whether the tree meets the bound."""
        families = families_of(self.problem, self.root, lambda: self.report.stop is not None)
        search = BranchAndBound.whole(self.problem, families, self.limits, self.report, keep_stages=False)
        if self.tree is not None:
            search.best.offer(self.tree)
        subproblem = search.root.subproblem
        if not subproblem.feasible:
            return False
        subproblem.set_centre()
        told = self.limits.elapsed

        def on_fall(units: int) -> bool:
            nonlocal told
            if self.limits.elapsed < told + _BETWEEN_BOUNDS:
                return self.report.stop is None
            told = self.limits.elapsed
            bound = max(search.best.score, search.scale.nats(units))
            fits = resident_memory() <= self.limits.memory_bytes
            return self.report(bound=bound, note="dual ascent") and fits

        stage = bound_alone(subproblem, on_fall)
        if not subproblem.closed or self.tree is not None:
            self._take(search, search.scale.nats(subproblem.units), stage)
            self.report(bound=self.bound, note="dual ascent")
        return subproblem.closed and self.tree is not None

    def _take(self, search: BranchAndBound, bound: float, stage: Stage) -> None:
        """Takes the bound of a stage's multipliers if it is better."""
        if bound < self.bound:
            self.proof = self._proof(search, ProofNode([], stage))
        self.bound = max(search.best.score, min(self.bound, bound))

    def _adopt(self) -> None:
        """Takes the report's incumbent if it scores more: another member of a portfolio may have found it."""
        tree, scores = self.report.incumbent, self.problem.scores
        if tree is not None and (self.tree is None or tree.score(scores) > self.tree.score(scores)):
            self.tree = tree

    def _begin(self) -> NDArray[np.int32]:
        """Returns the sets of largest violation without any multipliers."""
        nothing = RowMultipliers({}, {})
        first = self._own(nothing)
        search = self._restricted(first, nothing, self.report)
        priced = self._price(search.root.subproblem.families, nothing)
        return first if priced is None else self._choose(priced, nothing)

    def _finish(self, sets: NDArray[np.int32], multipliers: RowMultipliers, first: Stage) -> Outcome:
        """Runs branch and bound on all sets that the bound of the first stage leaves."""
        search = self._restricted(
            np.unique(sets, axis=0), multipliers, self.report, keep_stages=self.keep_stages
        )
        if search.root.subproblem.stages is not None:
            search.root.subproblem.stages.append(first)
        if self.ties:
            search.root.subproblem.fix()  # the search may be over before it drops anything
        stop = search.run()
        self.left = search.root.subproblem.families
        self.tree = search.best.tree or self.tree
        bound = -inf if stop is Stop.FINISHED and self.tree is None else search.bound
        if bound < self.bound:
            self.bound, self.proof = bound, self._proof(search, search.root.proof)
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

    def _proof(self, search: BranchAndBound, node: ProofNode) -> Proof:
        """Returns a proof in the units of a search."""
        return Proof(self.root, search.scale.shift, node)

    def _own(self, multipliers: RowMultipliers) -> NDArray[np.int32]:
        """Returns the sets that have to be active: those in rows, cliques of the tree, and `always`."""
        size = self.problem.max_clique_size
        masks = self.always | multipliers.sets
        if self.tree is not None:
            masks.update(self.tree.cliques)
        rows = [list(members(mask)) for mask in masks if mask.bit_count() == size]
        return np.array(rows, np.int32).reshape(-1, size)

    def _choose(self, priced: Pricing, multipliers: RowMultipliers) -> NDArray[np.int32]:
        """Returns the next active sets: of largest violation, and those that have to be."""
        old, _ = _first(priced.active, priced.active_violation, PRICING.kept * self.columns)
        own = self._own(multipliers)
        return np.unique(np.concatenate((priced.sets[: self.columns], old, own)), axis=0)

    def _restricted(
        self,
        active: NDArray[np.int32],
        multipliers: RowMultipliers,
        report: Report,
        *,
        keep_stages: bool = False,
    ) -> BranchAndBound:
        """Returns the branch and bound on the restricted problem, starting at the multipliers."""
        scores = self.problem.scores.batch(active.astype(np.intp)).tolist()
        masks = [*self.small_masks, *map(varset, active.tolist())]
        pairs = watched(zip(masks, [*self.small_scores, *scores], strict=True), self._look)
        problem = replace(self.problem, scores=SparseScores(self.problem.n, set_table(self.problem.n, pairs)))
        families = families_of(problem, self.root, lambda: self.report.stop is not None)
        known = at_positions(multipliers, positions_by_mask(families, self._look))
        search = BranchAndBound.whole(
            problem, families, self.limits, report, keep_stages=keep_stages, multipliers=known
        )
        if self.ties:
            search.best.margin = ties_with(families)
        if self.tree is not None:
            search.best.offer(self.tree)
        else:  # inactive families may weigh less than all active ones
            most = ldexp(self.largest, search.scale.shift)
            floor = -int(2 * self.problem.n * (self.problem.max_clique_size + 1) * most) - 1
            search.best.lower(min(floor, search.best.floor))
        return search

    def _price(self, active: Families, multipliers: RowMultipliers) -> Pricing | None:
        """Evaluates D(λ) over all families; None if it was interrupted."""
        from jtsolve.backends.clutter.kernels.clutters import price_sets, weight_tables

        self.passes += 1
        n, size = self.problem.n, self.problem.max_clique_size
        scale, scores = scaled(active)
        position = positions_by_mask(active, self._look)
        cuts, set_rows = at_positions(multipliers, position)
        rows = Rows(active, list(cuts), list(set_rows))
        weights = RowVector(*(scale.units_of(np.array(list(some.values()))) for some in (cuts, set_rows)))
        bound = bound_of(active, scores, rows, weights)
        tables = weight_tables(weights.cuts, -(-len(cuts) // 64))
        pairs = np.zeros((n, n), dtype=np.int64)
        for row, weight in zip(set_rows, weights.set_rows.tolist(), strict=True):
            for u, v, coefficient in row.pairs:
                pairs[u, v] += weight * coefficient
        own = _rounded(self.problem.scores.batch(np.arange(n)[:, None]), scale)
        place = np.array([position(mask) for mask in watched(self.small_masks, self._look)], dtype=np.int32)
        # The coefficient of a set that a set row names does not follow from its facets; it is active.
        named = {mask for row in multipliers.set_rows for mask, _ in row.sets if mask.bit_count() == size}
        better = bound.best
        sets, violation = np.zeros((0, size), np.int32), np.zeros(0, np.int64)
        for block in blocks(self.problem, self.not_cliques | named):
            if self.report.stop is not None:
                return None
            facets = place[block.facets]
            there = (facets >= 0).all(axis=1)  # sets without a facet there hold a forbidden edge
            facets, inside, nats = facets[there], block.members[there], block.scores[there]
            if not nats.size:
                continue
            _require_room(nats, n, size, scale)
            self._keep_largest(inside, nats)
            units = _rounded(nats, scale) - own[inside].sum(axis=1)
            for u, v in combinations(range(size), 2):
                units += pairs[inside[:, u], inside[:, v]]
            found, over = price_sets(
                units, inside, facets, rows.words, tables, bound.values, bound.best, self.root
            )
            better = np.maximum(better, over)
            sets, violation = np.concatenate((sets, inside)), np.concatenate((violation, found))
            if violation.size > PRICING.buffered * self.columns:
                sets, violation = _first(sets, violation, PRICING.kept * self.columns)
        sets, violation = _first(sets, violation, PRICING.kept * self.columns)
        last = np.flatnonzero(active.sizes == size)
        own_sets = active.members[last].reshape(-1, size)
        gains = bound.values[last][:, None] - bound.values[active.facets[last].reshape(-1, size)]
        over_best = np.where(own_sets == self.root, _NEVER, gains - bound.best[own_sets])
        return Pricing(
            bound.units + sum((better - bound.best).tolist()),
            sets,
            violation,
            bool((better > bound.best).any()),
            own_sets,
            over_best.max(axis=1, initial=_NEVER),
            stage_of(list(multipliers.cuts), list(multipliers.set_rows), weights, _names, {}),
        )

    def _keep_largest(self, sets: NDArray[np.int32], nats: NDArray[np.float64]) -> None:
        """Makes the set of largest score, by magnitude, active: then all rounds have one scale."""
        at = int(np.abs(nats).argmax())
        if abs(nats[at]) > self.largest:
            self.largest = abs(float(nats[at]))
            self.always = {*self.always, varset(sets[at].tolist())}


def _always_active(problem: Problem) -> set[VarSet]:
    """Returns sets of the largest size k that smaller ones need: those within no other permitted clique.

    A forbidden clique of k − 1 is complete in trees if a permitted clique includes it. Required edges are
    among them if k is 2.
    """
    size = problem.max_clique_size
    found = {mask for mask in problem.constraints.required_edges if problem.permits_clique(mask)}
    for mask in problem.constraints.forbidden_cliques:
        if mask.bit_count() == size - 1:
            larger = (mask | 1 << v for v in range(problem.n) if not mask >> v & 1)
            found.update(islice(filter(problem.permits_clique, larger), 1))
    return found


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
            f"which are so much smaller. Way out: a larger {MEMORY}, so that all sets fit."
        )


def positions_by_mask(families: Families, look: Callable[[], object]) -> Callable[[VarSet], int]:
    """Returns a function from bit masks of sets to their positions, -1 for those that are not there."""
    key = key_of(families.n)
    masks = masks_of(families.members, families.sizes, look)
    position = {key(mask): at for at, mask in enumerate(watched(masks, look))}
    return lambda mask: position.get(key(mask), -1)


def at_positions(multipliers: RowMultipliers, position: Callable[[VarSet], int]) -> RowMultipliers:
    """Returns the multipliers of rows with the positions of the sets in place of their bit masks."""
    return RowMultipliers(
        {tuple(sorted(map(position, row))): weight for row, weight in multipliers.cuts.items()},
        {
            row._replace(sets=tuple((position(mask), c) for mask, c in row.sets)): weight
            for row, weight in multipliers.set_rows.items()
        },
    )


def multipliers_of(search: BranchAndBound) -> RowMultipliers:
    """Returns the positive multipliers of the root's best bound, of rows that name sets by bit masks.

    A cut whose one set that is complete in every tree, a required edge, is gone holds for the restricted
    problem only, and is left out.
    """
    root = search.root.subproblem
    sinks = set(root.sinks)
    found = RowMultipliers({}, {})

    def mask(at: int) -> VarSet:
        return varset(root.families.members_of(at))

    for clutter, weight in zip(root.rows.clutters, root.multipliers.cuts.tolist(), strict=True):
        if weight > 0 and sinks.intersection(clutter):
            key = tuple(map(mask, clutter))
            found.cuts[key] = found.cuts.get(key, 0.0) + weight  # two may be equal since sets are gone
    for row, weight in zip(root.rows.set_rows, root.multipliers.set_rows.tolist(), strict=True):
        if weight > 0 and (row.sets or row.pairs):
            named = row._replace(sets=tuple((mask(at), c) for at, c in row.sets))
            found.set_rows[named] = found.set_rows.get(named, 0.0) + weight
    return found


def _names(mask: VarSet) -> list[int]:
    return list(members(mask))
