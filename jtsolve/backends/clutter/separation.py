"""Separation of clutter inequalities by minimum cuts (`kernels.cuts`), and of set rows by inspection.

A point x over families defines a network on the sets: the family (v,P) is an arc from P to P∪v of capacity
x(v,P), and arcs of infinite capacity lead from every set to its subsets. If the maximum flow from ∅ to {a} is
below 1, the sets on the sink's side of a minimum cut are an up-set F with {a} ∈ F and ∅ ∉ F. The arcs across
the cut are the families that enter F, of total value below 1: x violates the clutter inequality of F
(`inequalities`).

Conversely, the families that enter an up-set F with {a} ∈ F and ∅ ∉ F are a cut of the network. So some
clutter inequality is violated iff some flow is below 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.clutter.inequalities import SetRow, no_good
from jtsolve.core.scores import UNSTOPPABLE, Stoppable
from jtsolve.core.varset import members

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.backends.clutter.inequalities import Clutter
    from jtsolve.backends.clutter.subproblem import Subproblem
    from jtsolve.core.threads import Pool
    from jtsolve.families.families import Families


@dataclass(frozen=True, slots=True)
class SeparationConstants:
    """The constants of separation."""

    support: float = 1e-7
    """Positive balances below it count as rounding errors."""
    nearest: int = 500
    most_nearest: int = 12_000
    nearest_share: float = 0.25
    """Families with creep capacity: those with a reduced cost below this share of the gap, at least `nearest`
    and at most `most_nearest`. With too few, the next point avoids the cuts, of which there are then too
    many; the time of the flows is proportional to their number. After an ascent thousands of families tie at
    0, and all of them must be included: on plants, with a known optimum, the gap after 14 s was 55 nats with
    0.25, 88 with 0.1, 183 with 0.02, and 430 with fewer families than those ties."""
    depth: int = 5
    """Maximum number of cuts for each sink; they are disjoint on the support."""
    shares: int = 16
    """Number of parts of the sinks, for threads."""
    parallel_threshold: int = 8000
    """Sets times sinks below which one thread is faster."""


SEPARATION = SeparationConstants()


class Point(NamedTuple):
    """Families with a value: positions of P∪v, slots of v, and x."""

    union: NDArray[np.int64]
    slot: NDArray[np.int64]
    value: NDArray[np.float64]

    @staticmethod
    def of(bound: Bound) -> Point:
        """Returns the families that attain the maxima of a bound."""
        return Point(bound.union, bound.slot, np.ones(bound.union.size))

    def restricted_to(self, families: Families, position: NDArray[np.int64]) -> Point:
        """Returns the part among fewer families; `position`, shape (K,), is -1 for dropped sets."""
        union = position[self.union]
        there = (union >= 0) & (self.slot < families.width)
        there[there] = families.allowed[union[there], self.slot[there]]
        return Point(union[there], self.slot[there], self.value[there])


class InOutPoint(NamedTuple):
    """A point of separation between the solution and the stability centre, with creep capacities.

    Attributes:
        mix: weight of the centre, from 0 to 1.
        creep: additional capacity of the family of least reduced cost.
        tolerance: violations up to this are ignored.
    """

    mix: float
    creep: float
    tolerance: float


class Found(NamedTuple):
    """Rows that a point violates."""

    clutters: list[Clutter]
    set_rows: list[SetRow]


def separate(
    subproblem: Subproblem,
    bound: Bound,
    point: Point,
    where: InOutPoint,
    *,
    known: Collection[Clutter | SetRow] | None = None,
    pool: Pool | None,
    report: Stoppable,
) -> Found:
    """Returns rows violated at a point between `point` and the stability centre, the best tree's families.

    In-out separation (Ben-Ameur and Neto, Networks 2007): cuts there are deeper than at the point itself,
    which is used if the subproblem has no centre.

    A point has many minimum cuts, which ignore the families outside its support. So the families of least
    reduced cost get a small capacity, larger for smaller reduced costs (creep flow, Koch and Martin 1998):
    few of them enter the minimum cut, so that the next point cannot easily avoid it. The sum of these
    capacities may be far above 1; then only the strongest cuts are found, with fewest of these families, and
    the caller lowers the creep when they run out.

    Args:
        subproblem: to separate for.
        bound: of some multipliers over its families, for the reduced costs.
        point: a solution of the relaxation.
        where: see `InOutPoint`.
        known: rows to leave out; by default those of the subproblem.
        pool: threads, or None.
        report: polled between shares of the sinks; if it requests a stop, fewer rows are found.
    """
    families = subproblem.families
    capacity = np.zeros(families.allowed.shape)
    mix, creep, tolerance = where
    if creep > 0:
        union, slot, nearness = nearest(families, bound, subproblem.gap / subproblem.best.scale.unit)
        capacity[union, slot] = creep * nearness
    centre = subproblem.centre if mix > 0 else None
    # (1 − mix)·x + mix·centre. The centre, a tree, satisfies all cuts, so that x violates a cut more than
    # this point does.
    capacity[point.union, point.slot] += (1.0 if centre is None else 1 - mix) * point.value
    if centre is not None:
        capacity[centre] += mix
    clutters = violated(families, capacity, subproblem.sinks, tolerance, pool=pool, report=report)
    set_rows = _violated_set_rows(families, point, tolerance) + _violated_graphs(families, point, tolerance)
    known = subproblem.rows.known if known is None else known
    return Found(
        [clutter for clutter in clutters if clutter not in known],
        [row for row in set_rows if row not in known],
    )


def nearest(
    families: Families, bound: Bound, gap: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Returns the families of least reduced cost as positions and slots, and their nearness, shape (m,) each.

    Nearness is 1 for a reduced cost of 0, and 0 for the largest reduced cost among them.

    Args:
        families: of the subproblem.
        bound: the maxima of the vertices.
        gap: between the bound and the incumbent, in units.
    """
    reduced_cost = bound.reduced_costs(families)
    reduced_cost[~families.allowed] = np.iinfo(np.int64).max
    flat = reduced_cost.ravel()
    chosen = np.flatnonzero(flat <= SEPARATION.nearest_share * gap)
    count = int(families.allowed.sum())
    # A partial sort is needed only if a limit on their number binds.
    most = min(count, max(SEPARATION.nearest, min(chosen.size, SEPARATION.most_nearest)))
    if most != chosen.size:
        chosen = np.sort(np.argpartition(flat, most - 1)[:most])
    costs = flat[chosen].astype(np.float64)
    union, slot = np.divmod(chosen, families.width)
    return union, slot, 1.0 - costs / max(1.0, float(costs.max()))


def _violated_set_rows(families: Families, point: Point, tolerance: float) -> list[SetRow]:
    """Returns the conditions on separators, cliques and their number that a point violates.

    With the balance b(A) = y(A) − N(A) (`families`): b(A) ≥ 0 if A must not be a separator, b(A) ≤ 0 if it
    must not be a clique, and the sum of the positive b(A) is at most the number of cliques allowed.
    """
    most = families.constraints.max_cliques
    if most is None and not families.not_separator.any() and not families.not_clique[1:].any():
        return []
    count = families.sizes.size
    parents = families.facets[point.union, point.slot]
    # b(A) = Σ x of the families with P∪v = A − Σ x of those with P = A. In a tree, it is 1 for a clique, and
    # minus its multiplicity for a separator.
    balance = np.bincount(point.union, point.value, count) - np.bincount(parents, point.value, count)
    balance[0] = 0.0  # the choice of families decides whether ∅ may be a separator
    found = [
        SetRow(((int(at), 1),), (), 0)
        for at in np.flatnonzero(families.not_separator & (balance < -tolerance))
    ]
    found += [
        SetRow(((int(at), -1),), (), 0) for at in np.flatnonzero(families.not_clique & (balance > tolerance))
    ]
    if most is not None:
        # The sets of positive balance maximise Σ_{A ∈ S} b(A): their row is the most violated of its kind.
        positive = np.flatnonzero(balance > SEPARATION.support)
        if balance[positive].sum() > most + tolerance:
            found.append(SetRow(tuple((int(at), -1) for at in positive), (), -most))
    return found


def _violated_graphs(families: Families, point: Point, tolerance: float) -> list[SetRow]:
    """Returns the rows of forbidden graphs that a point violates."""
    if not families.constraints.forbidden_graphs or families.n == 1:
        return []
    edges = np.zeros((families.n + 1, families.n + 1))
    vertex = families.members[point.union, point.slot]
    for j in range(families.width):
        # The family (v,P) makes the edges from v to P; the diagonal, of v itself, is cleared below.
        np.add.at(edges, (vertex, families.members[point.union, j]), point.value)
    edges = edges[:-1, :-1] + edges[:-1, :-1].T
    np.fill_diagonal(edges, 0.0)
    total = edges.sum() / 2
    found = []
    for graph in sorted(families.constraints.forbidden_graphs, key=sorted):
        inside = sum(edges[tuple(members(edge))] for edge in graph)
        # |T∖G| − |T∩G| of the point, against the limit of the row (`no_good`).
        if total - 2 * inside < 1 - len(graph) - tolerance:
            found.append(no_good(graph, families.n))
    return found


def violated(
    families: Families,
    capacity: NDArray[np.float64],
    sinks: list[int],
    tolerance: float,
    *,
    pool: Pool | None = None,
    report: Stoppable = UNSTOPPABLE,
) -> list[Clutter]:
    """Returns clutters whose inequalities a point violates by more than a tolerance, if there are any.

    Args:
        families: of the point.
        capacity: the point, in the shape of `families.allowed`.
        sinks: positions of the sets that are complete in every tree.
        tolerance: of the violation.
        pool: threads, or None.
        report: polled before each share of the sinks; if it requests a stop, the rest is left out.
    """
    from jtsolve.backends.clutter.kernels.cuts import arcs_up, minimum_cuts

    # The network of the support: the sets P∪v of families with a capacity, the sinks, and their subsets.
    needed = np.zeros(families.sizes.size, dtype=np.bool_)
    needed[np.nonzero(capacity)[0]] = True
    needed[[0, *sinks]] = True
    for size in range(families.width, 1, -1):
        first, last = np.searchsorted(families.sizes, [size, size + 1])
        needed[families.facets[first:last, :size][needed[first:last]]] = True
    nodes = np.flatnonzero(needed)
    local = np.zeros(needed.size, dtype=np.int32)
    local[nodes] = np.arange(nodes.size)
    facets, sizes = local[families.facets[nodes]], families.sizes[nodes]
    lattice = (facets, sizes, *arcs_up(facets, sizes))
    room = capacity[nodes].ravel()

    def part(mine: list[int]) -> list[Clutter]:
        if report.stop is not None:
            return []
        generators, ends = minimum_cuts(lattice, room, local[mine], SEPARATION.depth, tolerance)
        at = nodes[generators].tolist()
        return [tuple(at[first:last]) for first, last in pairwise([0, *ends.tolist()])]

    # A share has every k-th sink, since neighbours in the order take similar times. Sorting makes the result
    # independent of the threads.
    if nodes.size * len(sinks) < SEPARATION.parallel_threshold:
        return sorted(set(part(sinks)))
    shares = [sinks[k :: SEPARATION.shares] for k in range(min(SEPARATION.shares, len(sinks)))]
    lists = map(part, shares) if pool is None else pool.map(part, shares)
    return sorted({clutter for found in lists for clutter in found})
