"""A subproblem of branch and bound with the multipliers of its best bound, and the best tree."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import InitVar, dataclass, field
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.clutter.bound import Bound, FixedPoint, bound_of, reduced_cost_fixing
from jtsolve.backends.clutter.inequalities import CutRows, RowVector
from jtsolve.core.result import optimality_tolerance
from jtsolve.core.varset import members
from jtsolve.families.families import families_of_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.inequalities import Clutter, SetRow
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree
    from jtsolve.families.families import Families

_FIXING_THRESHOLD = 0.9
"""Share of the families: if reduced costs leave more, rebuilding the sets costs more than it saves."""
_CLOSE = 0.5
"""Share of the tolerance of "optimal" above the best tree's score within which a bound counts as met."""


class Stage(NamedTuple):
    """Multipliers that prove a bound, with sets as lists of members: for certificates."""

    cuts: list[tuple[list[list[int]], int]]
    balances: list[tuple[list[tuple[list[int], int]], int, int]]
    graphs: list[tuple[list[tuple[int, int]], int]]


@dataclass(slots=True)
class BestTree:
    """The best tree so far, and the bounds at which a subproblem is done.

    Attributes:
        floor: a sum of normalised weights, in units, less than any tree's.
        target: such a sum; families in trees that reach no more are dropped. The floor until there is a tree.
        close: a subproblem with no larger bound is done.
        margin: by the best tree's score, the nats below it down to which other trees are kept.
        near: nats above it within which a bound counts as met; None for half the tolerance of "optimal".
        flat: whether every tree counts as 0, to find one or to prove infeasibility.
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
    near: float | None = None
    flat: bool = False

    def __post_init__(self) -> None:
        self.target = self.close = self.floor

    def offer(self, tree: JunctionTree) -> bool:
        """Records a tree if it is better and meets the constraints."""
        score = 0.0 if self.flat else tree.score(self.problem.scores)
        if score <= self.score or not self.problem.permits(tree):
            return False
        self.tree, self.score = tree, score
        # Two thresholds: families of trees at or below `target` are dropped, and a bound at or below `close`
        # proves the tree within half of the tolerance of "optimal".
        self.target = self.scale.target(score - self.margin(score))
        near = _CLOSE * optimality_tolerance(score) if self.near is None else self.near
        self.close = max(self.target, self.scale.target(score + near))
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
        sinks: positions of the sets that are complete in all of its trees; -1 for a dropped one.
        stages: the multipliers that justified each fixing, for a certificate; None without one.
        inherited: the parent's bound; None for the root.
        units: the best bound. That of the multipliers is no larger, unless `potentials` gave a better one.
        centre: the stability centre of in-out separation: the best tree's families (positions, slots), or
            None if some are not here.
        listed: the cuts of the last stage, by members, under their present positions. The next stage has them
            in the same form, though some of their sets are dropped, so that a certificate lists each only
            once.
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
        """Nats between the bound and the best tree; without one, a guess to begin with."""
        return self.gap_of(self.units)

    def gap_of(self, units: int) -> float:
        """Returns the gap that another bound would leave."""
        if self.best.flat:
            return 1.0  # multipliers of any size prove as much
        if self.best.tree is None:
            return (1.0 + 0.05 * abs(units)) * self.best.scale.unit
        return (units - self.best.target) * self.best.scale.unit

    def evaluate(
        self, multipliers: RowVector, rows: CutRows | None = None, pool: ThreadPoolExecutor | None = None
    ) -> Bound:
        """Returns the bound of multipliers; changes nothing.

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
        """Adopts multipliers with a bound that is no worse, and drops the families that it rules out.

        Reduced-cost fixing rebuilds the collection of sets, and rows, sinks and stability centre with it. It
        is left out where it would drop few families.

        Args:
            bound: of the multipliers (`evaluate`).
            multipliers: of the rows, in nats.
            rows: their rows, where they are not the subproblem's own; the subproblem then adopts these.
            fix_all: drop families even if they are few.

        Returns: The bound of the multipliers over the families left, and the new position of every set, shape
            (K,), -1 if it is dropped; None if no family is.
        """
        if bound.units > self.units:
            return bound, None
        self.units, self.multipliers, self.rows = bound.units, multipliers, rows or self.rows
        # Reduced-cost fixing: a tree with (v,P) scores at most D(λ) − r(v,P).
        kept = reduced_cost_fixing(self.families, bound, self.best.target)
        if not fix_all and int(kept.sum()) > _FIXING_THRESHOLD * int(self.families.allowed.sum()):
            return bound, None
        if self.stages is not None:
            self.stages.append(self.stage())
        # The stage above justifies the families dropped here; a checker repeats both in this order.
        position = self._restrict(kept)
        if self.feasible:
            bound = self.evaluate(multipliers)
            self.units = min(self.units, bound.units)  # a bound of potentials may be better
        return bound, position

    def set_multipliers(self, multipliers: RowVector, rows: CutRows) -> None:
        """Sets the rows and their multipliers without computing their bound: that of `potentials` remains."""
        self.multipliers, self.rows = multipliers, rows

    def near(self, chosen: NDArray[np.bool_]) -> tuple[Families, NDArray[np.int64]]:
        """Returns some families, or all if a vertex would have none, and positions of sets, shape (K,)."""
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
        """Drops cuts by a mask of shape (cuts,); with multipliers other than 0 the bound would not hold."""
        assert not self.multipliers.cuts[which].any(), "the bound rests on the cuts"
        self.rows.keep_cuts(~which)
        self.multipliers = self.multipliers._replace(cuts=self.multipliers.cuts[~which])

    def set_centre(self) -> None:
        """Makes the best tree the stability centre, if all its families are here."""
        self.centre = None
        if self.best.tree is None:
            return
        order = families_of_tree(self.best.tree, self.families.root)
        masks = [parents | 1 << v for v, parents in order]
        # All or nothing: a part of a tree is no point of the LP, and would not make in-out separation valid.
        at = set_positions(self.families, masks)
        if len(at) == len(set(masks)):
            union = np.array([at[mask] for mask in masks])
            vertices = np.array([v for v, _ in order])
            slot = (self.families.members[union] == vertices[:, None]).argmax(axis=1)
            if self.families.allowed[union, slot].all():
                self.centre = (union, slot)

    def branch(self, pair: int, *, present: bool) -> Subproblem:
        """Returns the subproblem with the edge at a position decided, and the cuts that have a multiplier."""
        families = self.families
        # Rows without a multiplier stay behind: a child finds those that it violates by itself.
        used = np.flatnonzero(self.multipliers.cuts > 0)
        clutters, cuts = [self.rows.clutters[k] for k in used], self.multipliers.cuts[used]
        if present:  # the edge is one more set that is complete in every tree
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
            # Absent: no set with both ends is complete. This may drop all families of a vertex.
            both = (families.members == u).any(axis=1) & (families.members == v).any(axis=1)
            child._restrict(families.allowed & ~both[:, None])
        return child

    def _restrict(self, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Switches to fewer families; returns the new positions of the sets, -1 for dropped ones."""
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
        names: lists the members of a row's set.
        listed: cuts by members, as in an earlier stage; receives those of this one.
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


def set_positions(families: Families, wanted: list[int]) -> dict[int, int]:
    """Returns the positions of the given sets, as bit masks, that exist.

    Sets of one size are in the order of their masks: of their last members, then of the last but one, …
    """
    found = {}
    ends = np.searchsorted(families.sizes, np.arange(families.width + 2, dtype=families.sizes.dtype)).tolist()
    for mask in wanted:
        size = mask.bit_count()
        if size <= families.width:
            first, last = ends[size : size + 2]
            for j, v in reversed([*enumerate(members(mask))]):
                column = families.members[:, j]  # without a copy, unlike np.searchsorted
                first, last = bisect_left(column, v, first, last), bisect_right(column, v, first, last)
            if first < last:
                found[mask] = first
    return found
