"""Cuts with multipliers over a list of families, for `listed`: those of dual ascents, or of an LP."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.clutter.ascent import cuts_raised
from jtsolve.backends.clutter.bound import best_bound, scaled
from jtsolve.backends.clutter.inequalities import CutRows, RowVector
from jtsolve.core.machine import resident_memory
from jtsolve.scoring.triples import SEARCHED_SIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import Bound, FixedPoint
    from jtsolve.backends.clutter.branch_and_bound import BranchAndBound
    from jtsolve.backends.clutter.inequalities import Clutter
    from jtsolve.backends.clutter.subproblem import Subproblem
    from jtsolve.core.backend import Report
    from jtsolve.core.run import Limits
    from jtsolve.families.families import Families


_SHARE, _WHOLE = 0.8, 0.01
"""Share of the gap that an ascent aims to close; all of it below this share of the gap without cuts."""


class ListedCut(NamedTuple):
    """A cut over a list: its chain, λ in units, and the positions of the sets that it adds to its chain."""

    chain: int
    amount: int
    joins: NDArray[np.int32]


class ListedCuts:
    """Cuts over a list: of an ascent and those that it continues, or of a linear program.

    Attributes:
        scale: of the units.
        units: the bound.
        unit: size of a unit in nats.
        amounts: shape (cuts,): λ in units.
        chains: shape (cuts,), increasing: the chain of each cut, one for each sink and ascent, or for
            each cut of a linear program; each cut of a chain includes the one before it.
        starts: shape (cuts + 1,): the first of the sets that each cut adds to the one before it.
        keys: of these sets (`keys_of`).
        root: of the list.
        floor: shape (n,), the maxima of the vertices, in nats; inf for the root, which has no parents.
        apart, linked: shape (n, n), in nats; see `listed`.
    """

    amounts: NDArray[np.int64]
    chains: NDArray[np.int64]
    starts: NDArray[np.int64]
    keys: NDArray[np.int64]

    def __init__(self, families: Families, scale: FixedPoint, bound: Bound, cuts: list[ListedCut]) -> None:
        """Orders the cuts by their chains.

        Args:
            families: the list.
            scale: of the units.
            bound: of the multipliers.
            cuts: over the list.
        """
        self.scale, self.unit, self.units = scale, scale.unit, bound.units
        self.floor = np.asarray(bound.best * self.unit, dtype=np.float64)
        self.root = families.root
        self.floor[self.root] = inf
        ordered = sorted(cuts, key=lambda cut: cut.chain)
        self.chains = np.array([cut.chain for cut in ordered], dtype=np.int64)
        self.amounts = np.array([cut.amount for cut in ordered], dtype=np.int64)
        self.starts = np.append(0, np.cumsum([cut.joins.size for cut in ordered], dtype=np.int64))
        sets = np.concatenate([np.zeros(0, dtype=np.int32), *(cut.joins for cut in ordered)])
        self.keys = keys_of(families)[sets]
        self._count_joins(families, sets)

    @classmethod
    def of_ascent(
        cls, search: BranchAndBound, before: ListedCuts | None, best: float, limits: Limits, report: Report
    ) -> tuple[ListedCuts, bool, bool]:
        """Returns the cuts of an ascent, whether it ended above its goal, and whether the memory sufficed.

        Args:
            search: over the list, with the tree that guides the ascent.
            before: the cuts of the ascent that this one continues, or None.
            best: the best bound so far, in nats.
            limits: of memory.
            report: ends the ascent.
        """
        subproblem, scale = search.root.subproblem, search.scale
        families, close = subproblem.families, subproblem.best.close
        subproblem.set_centre()
        bound = subproblem.evaluate(subproblem.multipliers)
        gap = min(bound.units, scale.target(best)) - close
        goal = close + (int((1 - _SHARE) * gap) if gap > _WHOLE * (bound.units - close) else 0)
        cuts: list[ListedCut] = []
        if before is not None:
            cuts = before.moved(families, search)
            bound = with_cuts(families, bound, cuts)
        complete = True
        new_chain = max((cut.chain for cut in cuts), default=-1) + 1
        known: dict[int, NDArray[np.int32]] = {}

        def record(sink: int, generators: NDArray[np.int32], amount: int) -> None:
            joins = generators[~np.isin(generators, known[sink])] if sink in known else generators
            known[sink] = generators
            cuts.append(ListedCut(new_chain + sink, amount, joins))

        def proceed(_: int) -> bool:
            nonlocal complete
            complete = resident_memory() <= limits.memory_bytes
            return complete and report.stop is None

        enough, given = max(0, bound.units - goal), sum(cut.amount for cut in cuts)
        cuts_raised(
            families, bound, subproblem.sinks, enough, subproblem.centre, proceed=proceed, on_raise=record
        )
        units = bound.units + given - sum(cut.amount for cut in cuts)
        return cls(families, scale, bound._replace(units=units), cuts), units > goal, complete

    @classmethod
    def of_program(cls, families: Families, subproblem: Subproblem) -> ListedCuts:
        """Returns the cuts of a subproblem over the list, with its multipliers."""
        scale, scores = scaled(families)
        own, keys = keys_of(subproblem.families), keys_of(families)
        used = np.flatnonzero(subproblem.multipliers.cuts > 0).tolist()
        amounts = scale.units_of(subproblem.multipliers.cuts)
        cuts = [
            ListedCut(at, int(amounts[k]), _places(keys, own[list(subproblem.rows.clutters[k])]))
            for at, k in enumerate(used)
        ]
        return cls(families, scale, with_cuts(families, best_bound(families, scores, 0), cuts), cuts)

    @property
    def nats(self) -> float:
        """The bound in nats, rounded up."""
        return self.scale.nats(self.units)

    def moved(self, families: Families, search: BranchAndBound) -> list[ListedCut]:
        """Returns the cuts over another list that has their sets, in the units of its search."""
        amounts = search.scale.units_of(np.asarray(self.amounts * self.unit, dtype=np.float64))
        parts = np.split(_places(keys_of(families), self.keys), self.starts[1:-1])
        return list(map(ListedCut, self.chains.tolist(), amounts.tolist(), parts))

    def give_to(self, search: BranchAndBound) -> None:
        """Makes the cuts, with their multipliers, rows of a search over a list that has their sets."""
        subproblem, last = search.root.subproblem, -1
        multipliers: dict[Clutter, float] = {}
        generators: list[int] = []
        for chain, amount, joins in self.moved(subproblem.families, search):
            generators = sorted([*(generators if chain == last else []), *joins.tolist()])
            last = chain
            if amount:
                cut = tuple(generators)
                multipliers[cut] = multipliers.get(cut, 0.0) + amount * search.scale.unit
        rows = CutRows(subproblem.families, list(multipliers))
        values = RowVector(np.array(list(multipliers.values())), np.zeros(0))
        subproblem.improve(subproblem.evaluate(values, rows), values, rows)

    def _count_joins(self, families: Families, sets: NDArray[np.int32]) -> None:
        from jtsolve.backends.clutter.kernels.listed import grouped, limits

        number, n = np.repeat(np.arange(len(self.amounts)), np.diff(self.starts)), families.n
        sizes, (one, two) = families.sizes[sets], families.members[sets, :2].T.astype(np.int64)
        vertices, pairs = sizes == 1, sizes == 2  # noqa: PLR2004 - a pair
        single, pair = (one[vertices], number[vertices]), ((one * n + two)[pairs], number[pairs])
        self._where = (*grouped(*single, n), *grouped(*pair, n * n))
        together, linked = limits(*single, *pair, self.amounts, self.chains, n)
        self.apart = np.asarray((np.diag(together)[:, None] - together) * self.unit, dtype=np.float64)
        self.linked = np.asarray(linked * self.unit, dtype=np.float64)

    def lower(
        self, families: NDArray[np.int64], over: NDArray[np.float64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Lowers λ until unlisted families respect the maxima.

        Args:
            families: (v,{a,b}), shape (count, 3).
            over: their excess over the maximum of v without any cuts, in nats.

        Returns:
            Which had an excess, and the largest remaining excess of each vertex, shape (n,), in nats.
        """
        from jtsolve.backends.clutter.kernels.listed import lower

        units, before = np.ceil(over / self.unit).astype(np.int64), int(self.amounts.sum())
        excess, left = lower(families, units, self._where, self.amounts, self.chains)
        self.units += before - int(self.amounts.sum())
        return excess > 0, left * self.unit


def with_cuts(families: Families, bound: Bound, cuts: list[ListedCut]) -> Bound:
    """Returns the bound with multipliers of cuts; see `ListedCuts`.

    Args:
        families: the list.
        bound: without them.
        cuts: ordered by their chains.
    """
    from jtsolve.backends.clutter.kernels.cuts import arcs_up
    from jtsolve.backends.clutter.kernels.listed import add_cuts

    chains = np.array([cut.chain for cut in cuts], dtype=np.int64)
    amounts = np.array([cut.amount for cut in cuts], dtype=np.int64)
    starts = np.append(0, np.cumsum([cut.joins.size for cut in cuts], dtype=np.int64))
    sets, values = (
        np.concatenate([np.zeros(0, dtype=np.int32), *(cut.joins for cut in cuts)]),
        bound.values.copy(),
    )
    up, above = arcs_up(families.facets, families.sizes)
    add_cuts(values, (up, above // families.width), sets, starts, amounts, chains)
    return best_bound(families, values, int(amounts.sum()))


def keys_of(families: Families) -> NDArray[np.int64]:
    """Returns a number for each set, shape (count,), independent of the list and increasing."""
    n = families.n
    members = np.full((len(families.members), SEARCHED_SIZE), n, dtype=np.int64)
    members[:, : families.width] = families.members
    first, second, third = ((members + 1) % (n + 1)).T
    keys: NDArray[np.int64] = (third * (n + 1) + second) * (n + 1) + first
    return keys


def _places(keys: NDArray[np.int64], some: NDArray[np.int64]) -> NDArray[np.int32]:
    """Returns the positions of some of the increasing keys of a list."""
    return np.searchsorted(keys, some).astype(np.int32)
