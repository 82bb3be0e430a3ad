"""A subproblem of branch and bound with the multipliers of its best bound, and the best tree."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import InitVar, dataclass, field
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.clutter.bound import Bound, FixedPoint, bound_of, within_reduced_cost
from jtsolve.backends.clutter.inequalities import CutRows, RowVector
from jtsolve.core.result import optimality_tolerance
from jtsolve.core.varset import members
from jtsolve.families.families import families_of_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.inequalities import Clutter, SetRow
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.threads import Pool
    from jtsolve.core.tree import JunctionTree
    from jtsolve.families.families import Families

_FIXING_THRESHOLD = 0.9
"""Families are dropped only if at most this share remains: rebuilding the sets costs more than few save."""
_CLOSE = 0.5
"""Gap of a closed subproblem, as a share of the tolerance of "optimal"."""


class Stage(NamedTuple):
    """Multipliers that prove a bound, with sets as lists of members: for certificates."""

    cuts: list[tuple[list[list[int]], int]]
    balances: list[tuple[list[tuple[list[int], int]], int, int]]
    graphs: list[tuple[list[tuple[int, int]], int]]


@dataclass(slots=True)
class BestTree:
    """The best tree so far, and the bounds at which a subproblem is closed.

    Attributes:
        floor: a sum of normalised weights, in units, below that of any tree.
        target: the sum at or below which families of trees are dropped; the floor until there is a tree.
        close: a subproblem with at most this bound is closed.
        margin: maps the best score to the nats below it down to which other trees are kept.
        closing_gap: gap in nats of a closed subproblem; None for half the tolerance of "optimal".
        flat: whether every tree scores 0, to find one or to prove infeasibility.
    """

    problem: Problem
    report: Report
    scale: FixedPoint
    floor: int
    target: int = field(init=False)
    close: int = field(init=False)
    tree: JunctionTree | None = None
    score: float = -inf
    margin: Callable[[float], float] = lambda _: 0.0
    closing_gap: float | None = None
    flat: bool = False

    def __post_init__(self) -> None:
        self.target = self.close = self.floor

    def offer(self, tree: JunctionTree) -> bool:
        """Records a tree if it is better and meets the constraints."""
        score = 0.0 if self.flat else tree.score(self.problem.scores)
        if score <= self.score or not self.problem.permits(tree):
            return False
        self.tree, self.score = tree, score
        self.target = self.scale.target(score - self.margin(score))
        gap = _CLOSE * optimality_tolerance(score) if self.closing_gap is None else self.closing_gap
        self.close = max(self.target, self.scale.target(score + gap))
        self.report(tree=tree)
        return True


@dataclass(slots=True, eq=False)
class Subproblem:
    """Families, rows, and the multipliers of the best bound; changed by its own methods only.

    Attributes:
        best: the best tree, shared by all subproblems.
        families: those that a better tree of the subproblem may use.
        scores: shape (sets,), in units.
        rows: clutter inequalities and set rows.
        multipliers: of the rows, in nats.
        sinks: positions of the sets that are complete in all trees of the subproblem; -1 for a dropped set.
        stages: the multipliers that justify each fixing, for a certificate; None without one.
        inherited: the parent's bound; None for the root.
        units: the best bound; the multipliers prove it, unless `potentials` have given a better one.
        centre: the stability centre of in-out separation: the best tree's families (positions, slots), or
            None if some have been dropped.
        listed: the cuts of the last stage, by members, under their present positions. Later stages reuse
            them, although some of their sets may have been dropped, so that a certificate lists each once.
        feasible: False if a vertex has no family left, or a sink is dropped: there is no tree.
    """

    best: BestTree
    families: Families
    scores: NDArray[np.int64]
    rows: CutRows
    multipliers: RowVector
    sinks: list[int]
    stages: list[Stage] | None = None
    inherited: InitVar[int | None] = None
    listed: dict[Clutter, list[list[int]]] = field(default_factory=dict)
    units: int = field(init=False)
    centre: tuple[NDArray[np.int64], NDArray[np.int64]] | None = field(init=False, default=None)
    feasible: bool = field(init=False)

    def __post_init__(self, inherited: int | None) -> None:
        self.feasible = self._is_feasible()
        if inherited is not None:
            self.units = inherited
        else:
            self.units = self.evaluate(self.multipliers).units if self.feasible else 0

    @property
    def closed(self) -> bool:
        """Whether no better tree is left."""
        return not self.feasible or self.units <= self.best.close

    @property
    def gap(self) -> float:
        """Nats between the bound and the best tree; a guess without a tree."""
        return self.gap_of(self.units)

    def gap_of(self, units: int) -> float:
        """Returns the gap of another bound."""
        if self.best.flat:
            return 1.0  # the size of multipliers does not matter
        if self.best.tree is None:
            return (1.0 + 0.05 * abs(units)) * self.best.scale.unit
        return (units - self.best.close) * self.best.scale.unit

    def evaluate(
        self, multipliers: RowVector, rows: CutRows | None = None, pool: Pool | None = None
    ) -> Bound:
        """Returns the bound of multipliers.

        Args:
            multipliers: of the rows, in nats.
            rows: by default the subproblem's own.
            pool: threads that share the sets.
        """
        units = RowVector(*map(self.best.scale.units_of, multipliers))
        return bound_of(self.families, self.scores, rows or self.rows, units, pool=pool)

    def improve(
        self, bound: Bound, multipliers: RowVector, rows: CutRows | None = None, *, fix_all: bool = False
    ) -> tuple[Bound, NDArray[np.int64] | None]:
        """Adopts multipliers unless their bound is worse, and drops the families that the bound rules out.

        Reduced-cost fixing rebuilds the collection of sets, with the rows, the sinks and the stability
        centre, unless it would drop few families.

        Args:
            bound: of the multipliers (`evaluate`).
            multipliers: of the rows, in nats.
            rows: rows to adopt with the multipliers; by default the subproblem's own.
            fix_all: drop families even if they are few.

        Returns:
            The bound of the multipliers over the remaining families; and the new position of every set, shape
            (K,), -1 for dropped sets, or None if nothing is dropped.
        """
        if bound.units > self.units:
            return bound, None
        self.units, self.multipliers, self.rows = bound.units, multipliers, rows or self.rows
        # Reduced-cost fixing: a tree with (v,P) scores at most D(λ) − r(v,P).
        kept = within_reduced_cost(self.families, bound, bound.units - self.best.target - 1)
        if not fix_all and int(kept.sum()) > _FIXING_THRESHOLD * int(self.families.allowed.sum()):
            return bound, None
        if self.stages is not None:
            self.stages.append(self.stage())
        # The stage justifies the families dropped here: a verifier repeats both in this order.
        position = self._restrict(kept)
        if self.feasible:
            bound = self.evaluate(multipliers)
            self.units = min(self.units, bound.units)  # a bound of potentials may be better
        return bound, position

    def set_multipliers(self, multipliers: RowVector, rows: CutRows) -> None:
        """Sets the rows and their multipliers, and keeps the bound of `potentials`."""
        self.multipliers, self.rows = multipliers, rows

    def restricted_to(self, chosen: NDArray[np.bool_]) -> tuple[Families, NDArray[np.int64]]:
        """Returns the chosen families and the positions of the sets, shape (K,), -1 for dropped sets.

        If a vertex would have no family, all families are returned.
        """
        families, position = self.families.restricted(chosen)
        arrivals = np.bincount(families.members[families.allowed], minlength=families.n)
        return (families, position) if arrivals.all() else self.families.restricted(self.families.allowed)

    def fix(self) -> None:
        """Drops all families that the best multipliers rule out."""
        if self.feasible:
            self.improve(self.evaluate(self.multipliers), self.multipliers, fix_all=True)

    def add_rows(self, clutters: list[Clutter], set_rows: list[SetRow]) -> None:
        """Adds rows, with multiplier 0."""
        self.rows.add(clutters, set_rows)
        self.multipliers = RowVector(
            np.append(self.multipliers.cuts, np.zeros(len(clutters))),
            np.append(self.multipliers.set_rows, np.zeros(len(set_rows))),
        )

    def drop_cuts(self, which: NDArray[np.bool_]) -> None:
        """Drops cuts without a multiplier, given by a mask of shape (cuts,)."""
        assert not self.multipliers.cuts[which].any(), "the bound rests on the cuts"
        self.rows.keep_cuts(~which)
        self.multipliers = self.multipliers._replace(cuts=self.multipliers.cuts[~which])

    def set_centre(self) -> None:
        """Makes the best tree the stability centre, if none of its families has been dropped."""
        self.centre = None
        if self.best.tree is None:
            return
        order = families_of_tree(self.best.tree, self.families.root)
        masks = [parents | 1 << v for v, parents in order]
        # In-out separation needs a point that satisfies all rows, which part of a tree does not.
        at = set_positions(self.families, masks)
        if len(at) == len(set(masks)):
            union = np.array([at[mask] for mask in masks])
            vertices = np.array([v for v, _ in order])
            slot = (self.families.members[union] == vertices[:, None]).argmax(axis=1)
            if self.families.allowed[union, slot].all():
                self.centre = (union, slot)

    def branch(self, pair: int, *, present: bool) -> Subproblem:
        """Returns the child with the edge at a position decided."""
        families = self.families
        # The child inherits only cuts with a multiplier, and separates others itself.
        used = np.flatnonzero(self.multipliers.cuts > 0)
        clutters, cuts = [self.rows.clutters[k] for k in used], self.multipliers.cuts[used]
        if present:  # the edge is complete in every tree
            clutters, cuts = [*clutters, (pair,)], np.append(cuts, 0.0)
        child = Subproblem(
            self.best,
            families,
            self.scores,
            CutRows(families, clutters, self.rows.set_rows),
            RowVector(cuts, self.multipliers.set_rows),
            [*self.sinks, pair] if present else self.sinks,
            None if self.stages is None else [],
            self.units,
            self.listed,
        )
        if not present:
            u, v = families.members[pair, :2]
            # No set with both ends is complete. This may drop all families of a vertex.
            both = (families.members == u).any(axis=1) & (families.members == v).any(axis=1)
            child._restrict(families.allowed & ~both[:, None])
        return child

    def _restrict(self, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Restricts the families; returns the new positions of the sets, -1 for dropped sets."""
        families, position = self.families.restricted(allowed)
        self.families = families
        self.scores = self.scores[position >= 0]
        before, self.rows = self.rows.clutters, self.rows.moved(families, position)
        moved = zip(before, self.rows.clutters, strict=True)
        self.listed = {now: self.listed[was] for was, now in moved if was in self.listed}
        self.sinks = [int(position[at]) for at in self.sinks]
        self.feasible = self._is_feasible()
        if self.centre is not None:
            union, slot = position[self.centre[0]], self.centre[1]
            inside = (union >= 0).all() and families.allowed[union, slot % families.width].all()
            self.centre = (union, slot) if inside else None
        return position

    def _is_feasible(self) -> bool:
        families = self.families
        arrivals = np.bincount(families.members[families.allowed], minlength=families.n)
        return min(self.sinks) >= 0 and bool(arrivals.all())

    def stage(self) -> Stage:
        """Returns the present multipliers."""
        weights = RowVector(*map(self.best.scale.units_of, self.multipliers))
        rows, names = self.rows, self.families.members_of
        return stage_of(rows.clutters, rows.set_rows, weights, names, self.listed)


def stage_of(
    clutters: list[Clutter],
    set_rows: list[SetRow],
    weights: RowVector,
    names: Callable[[int], list[int]],
    listed: dict[Clutter, list[list[int]]],
) -> Stage:
    """Returns multipliers of rows, in units, for a certificate.

    Args:
        clutters: the cuts.
        set_rows: the other rows.
        weights: the multipliers.
        names: returns the members of the set at a position.
        listed: the cuts of earlier stages, by members; receives those of this one.
    """
    found = Stage([], [], [])
    for clutter, weight in zip(clutters, weights.cuts.tolist(), strict=True):
        if weight:
            if clutter not in listed:
                listed[clutter] = [names(at) for at in clutter]
            found.cuts.append((listed[clutter], weight))
    for (sets, pairs, limit), weight in zip(set_rows, weights.set_rows.tolist(), strict=True):
        if weight and pairs:
            found.graphs.append(([(u, v) for u, v, c in pairs if c < 0], weight))
        elif weight:
            found.balances.append(([(names(at), c) for at, c in sets], limit, weight))
    return found


def set_positions(families: Families, masks: list[int]) -> dict[int, int]:
    """Returns the positions of those of the given sets, as bit masks, that are in the collection."""
    found = {}
    ends = np.searchsorted(families.sizes, np.arange(families.width + 2, dtype=families.sizes.dtype)).tolist()
    for mask in masks:
        size = mask.bit_count()
        if size <= families.width:
            first, last = ends[size : size + 2]
            # Sets of one size are in the order of their masks: the last member is the most significant.
            for j, v in reversed([*enumerate(members(mask))]):
                column = families.members[:, j]  # without a copy, unlike np.searchsorted
                first, last = bisect_left(column, v, first, last), bisect_right(column, v, first, last)
            if first < last:
                found[mask] = first
    return found
