"""What the parts of the clutter backend share: a subproblem with its multipliers, and the best tree."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.clutter.bound import Bound, Scale, bound_of, worth
from jtsolve.core.varset import members
from jtsolve.families.families import families_of_tree

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.rows import Rows
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree
    from jtsolve.families.families import Families

_SHRINK = 0.9
"""The sets are made anew when at most this share of the families is left: it takes some passes."""
_CLOSE = 5e-7
"""Nats above the best tree's score at which a bound counts as met: below the tolerance of "optimal"."""


class Stage(NamedTuple):
    """Multipliers that justify a bound, by the members of the generators: for certificates."""

    cuts: list[tuple[list[list[int]], int]]
    balances: list[tuple[list[tuple[list[int], int]], int, int]]
    graphs: list[tuple[list[tuple[int, int]], int]]


@dataclass(slots=True)
class Incumbent:
    """The best tree so far, and what it means for bounds.

    Attributes:
        target: a sum of normalised weights, in units; what is no more is of no interest. Before there is a
            tree, less than any tree has.
        close: a bound that is no more is as good as met.
        margin: nats below the best tree's score down to which other trees are of interest.
    """

    problem: Problem
    report: Report
    scale: Scale
    target: int
    close: int
    tree: JunctionTree | None = None
    score: float = -inf
    margin: float = 0.0

    def offer(self, tree: JunctionTree) -> bool:
        """Takes a tree if it is better and meets the constraints."""
        score = tree.score(self.problem.scores)
        if score <= self.score or not self.problem.permits(tree):
            return False
        self.tree, self.score = tree, score
        self.target = self.scale.target(score - self.margin)
        self.close = max(self.target, self.scale.target(score + _CLOSE))
        self.report(tree=tree)
        return True


@dataclass(slots=True, eq=False)
class State:
    """A subproblem: families, rows, and the multipliers of the best bound.

    Attributes:
        families: those that may be in a tree that is looked for.
        scores: shape (sets,), in units.
        rows: cuts and special rows.
        cuts: shape (cuts,), in nats.
        specials: shape (special rows,), in nats.
        sinks: positions of the sets that are complete in every tree looked for.
        units: the best bound.
        creep: the capacity of the nearest family where cuts are looked for by steps (`volume`).
        stages: what justified dropping families here; None if nobody wants to know.
        centre: the incumbent's families (positions, slots), if the subproblem has them all.
        possible: False if some vertex or sink has no family left: there is no tree.
    """

    families: Families
    scores: NDArray[np.int64]
    rows: Rows
    cuts: NDArray[np.float64]
    specials: NDArray[np.float64]
    sinks: list[int]
    units: int
    creep: float
    stages: list[Stage] | None = None
    possible: bool = True
    centre: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def evaluate(
        self,
        scale: Scale,
        cuts: NDArray[np.float64],
        specials: NDArray[np.float64],
        pool: ThreadPoolExecutor | None = None,
    ) -> Bound | None:
        """Returns the bound of some multipliers."""
        units, more = scale.units_of(cuts), scale.units_of(specials)
        return bound_of(self.families, self.scores, self.rows, units, more, pool=pool)

    def shrink(self, bound: Bound, scale: Scale, target: int) -> NDArray[np.int64] | None:
        """Drops what the bound's reduced costs rule out, if it is worth it; `bound` is of `cuts`, `specials`.

        Returns:
            The new positions of the sets, -1 for those that are gone; None if nothing is done.
        """
        kept = worth(self.families, bound, target)
        if int(kept.sum()) > _SHRINK * int(self.families.allowed.sum()):
            return None
        if self.stages is not None:
            self.stages.append(self.stage(scale))
        families, position = self.families.restricted(kept)
        self.move(families, position)
        return position

    def move(self, families: Families, position: NDArray[np.int64]) -> None:
        """Goes over to fewer families."""
        self.families = families
        self.scores = self.scores[position >= 0]
        self.rows = self.rows.moved(families, position)
        self.sinks = [int(position[at]) for at in self.sinks]
        self.possible = self.possible and min(self.sinks) >= 0
        if self.centre is not None:
            union, slot = position[self.centre[0]], self.centre[1]
            inside = (union >= 0).all() and families.allowed[union, slot % families.width].all()
            self.centre = (union, slot) if inside else None

    def look_for(self, tree: JunctionTree) -> None:
        """Makes the families of a tree the centre, if they are all here."""
        order = families_of_tree(tree, self.families.root)
        masks = [parents | 1 << v for v, parents in order]
        at = set_positions(self.families, masks)
        self.centre = None
        if len(at) == len(set(masks)):
            union = np.array([at[mask] for mask in masks])
            vertices = np.array([v for v, _ in order])
            slot = (self.families.members[union] == vertices[:, None]).argmax(axis=1)
            if self.families.allowed[union, slot].all():
                self.centre = (union, slot)

    def stage(self, scale: Scale) -> Stage:
        """Returns the present multipliers in terms of variables."""

        def names(at: int) -> list[int]:
            found: list[int] = self.families.members[at, : self.families.sizes[at]].tolist()
            return found

        units = scale.units_of(self.cuts).tolist()
        cuts = [
            ([names(at) for at in row], weight)
            for row, weight in zip(self.rows.clutters, units, strict=True)
            if weight
        ]
        units = scale.units_of(self.specials).tolist()
        balances = [
            ([(names(at), c) for at, c in row.sets], row.limit, weight)
            for row, weight in zip(self.rows.specials, units, strict=True)
            if weight and not row.pairs
        ]
        graphs = [
            ([(u, v) for u, v, c in row.pairs if c < 0], weight)
            for row, weight in zip(self.rows.specials, units, strict=True)
            if weight and row.pairs
        ]
        return Stage(cuts, balances, graphs)


def set_positions(families: Families, wanted: list[int]) -> dict[int, int]:
    """Returns the positions of those of the wanted sets, as bit masks, that are there."""
    found = {}
    for mask in wanted:
        size = mask.bit_count()
        first, last = np.searchsorted(families.sizes, [size, size + 1])
        if size <= families.width:
            rows = families.members[first:last, :size]
            hits = np.flatnonzero((rows == np.fromiter(members(mask), dtype=np.int32)).all(axis=1))
            if hits.size:
                found[mask] = int(first + hits[0])
    return found
