"""Separation of clutter cuts by minimum cuts (`kernels.cuts`).

A point x over families is a network on the sets: the family (v,P) is an arc from P to P∪v that passes on at
most x(v,P), and every set passes on anything to its subsets. If the maximum flow from ∅ to {a} is below 1,
the sets on the sink's side of a minimum cut are an up-set F that holds {a} and not ∅. The families that
enter F, which are those across the cut, are worth less than 1: the clutter cut of F is violated.

Conversely, let F be an up-set that holds {a}, and the families that enter it be worth less than 1. They are a
cut of the network, so that the flow is below 1. So there is a violated clutter cut iff some flow is below 1.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.clutter.rows import Special, no_good
from jtsolve.core.varset import members

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.backends.clutter.rows import Clutter
    from jtsolve.backends.clutter.subproblem import State
    from jtsolve.families.families import Families

_SUPPORT = 1e-7
_NEAREST, _SHARE = 500, 0.06
"""Families that get a little capacity: so many at least, and this share of all."""
_SHARES = 16
"""Into which the sinks are divided for threads."""
_WORTH_SHARES = 8000
"""Sets times sinks: below it, waking up threads takes longer than the work."""
_DEPTH = 5
"""Cuts that are disjoint on the support, for each sink, at most."""


class Point(NamedTuple):
    """Families with a value: positions of P∪v, the slots of v, and x."""

    union: NDArray[np.int64]
    slot: NDArray[np.int64]
    value: NDArray[np.float64]


class Inwards(NamedTuple):
    """Where to separate: how far towards the centre (1 is there), with what capacity for the nearest family.

    Cuts have to be violated there by more than the tolerance.
    """

    mix: float
    creep: float
    tolerance: float


class Found(NamedTuple):
    """Rows that a point violates and that are not at hand."""

    clutters: list[Clutter]
    specials: list[Special]


def separate(
    state: State,
    bound: Bound,
    point: Point,
    inwards: Inwards,
    *,
    pool: ThreadPoolExecutor | None,
    go_on: Callable[[], bool],
) -> Found:
    """Returns rows that a point between `point` and the centre, the incumbent's families, violates.

    Cuts at a point between an optimal one and a good tree are deeper: in-out separation (Ben-Ameur and Neto,
    Networks 2007). Without a centre in the subproblem, the cuts are those of the point itself.

    Minimum cuts are many, and say nothing of families that are not in the point. So the families that lack
    least to their vertex's best get a little capacity, the more the less they lack: the cut that is found has
    few of them, and leaves the next point little to go to (creep flow, Koch and Martin 1998). The capacity
    together may be far above 1. Then only cuts with few of these families are found, which are the strongest;
    the caller lowers it when there are no more.

    Args:
        state: the subproblem.
        bound: of some multipliers over the families of the subproblem: tells which lack least.
        point: see above.
        inwards: where, and what counts.
        pool: to share the work among its threads, or None.
        go_on: is asked now and then; if it says no, fewer rows are found.
    """
    families = state.families
    capacity = np.zeros(families.allowed.shape)
    mix, creep, tolerance = inwards
    if creep > 0:
        union, slot, nearness = nearest(families, bound)
        capacity[union, slot] = creep * nearness
    between = state.centre is not None and mix > 0
    capacity[point.union, point.slot] += (1 - mix if between else 1.0) * point.value
    if state.centre is not None and between:
        capacity[state.centre] += mix
    clutters = violated(families, capacity, state.sinks, tolerance, pool=pool, go_on=go_on)
    specials = _violated_specials(families, point, tolerance) + _violated_graphs(families, point, tolerance)
    return Found(
        [clutter for clutter in clutters if clutter not in state.rows.known],
        [row for row in specials if row not in state.rows.known],
    )


def nearest(
    families: Families, bound: Bound
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Returns the families that lack least to their vertex's best: positions, slots, and how near they are.

    Nearness is 1 for families that lack nothing, and falls to 0 for the one of these that lacks most.
    """
    best = np.append(bound.best, 0)
    lack = best[families.members] - bound.values[:, None] + bound.values[families.facets]
    lack[~families.allowed] = np.iinfo(np.int64).max
    count = int(families.allowed.sum())
    most = min(count, max(_NEAREST, int(_SHARE * count)))
    chosen = np.sort(np.argpartition(lack.ravel(), most - 1)[:most])
    missing = lack.ravel()[chosen].astype(np.float64)
    union, slot = np.divmod(chosen, families.width)
    return union, slot, 1.0 - missing / max(1.0, float(missing.max()))


def _violated_specials(families: Families, point: Point, tolerance: float) -> list[Special]:
    """Returns the conditions on separators, cliques and their number that a point violates.

    With b(A) = y(A) − N(A) (`families`): b(A) ≥ 0 where A is no separator, b(A) ≤ 0 where it is no
    clique, and the sum of b over the sets where it is positive, at most the number of cliques allowed.
    """
    most = families.constraints.max_cliques
    if most is None and not families.not_separator.any() and not families.not_clique[1:].any():
        return []
    count = families.sizes.size
    parents = families.facets[point.union, point.slot]
    balance = np.bincount(point.union, point.value, count) - np.bincount(parents, point.value, count)
    balance[0] = 0.0  # ∅ is neither counted nor restricted here: it is a matter of which families there are
    found = [
        Special(((int(at), 1),), (), 0)
        for at in np.flatnonzero(families.not_separator & (balance < -tolerance))
    ]
    found += [
        Special(((int(at), -1),), (), 0) for at in np.flatnonzero(families.not_clique & (balance > tolerance))
    ]
    if most is not None:
        some = np.flatnonzero(balance > _SUPPORT)
        if balance[some].sum() > most + tolerance:
            found.append(Special(tuple((int(at), -1) for at in some), (), -most))
    return found


def _violated_graphs(families: Families, point: Point, tolerance: float) -> list[Special]:
    """Returns the rows of forbidden graphs that a point violates; one vertex alone has no edges to count."""
    if not families.constraints.forbidden_graphs or families.n == 1:
        return []
    edges = np.zeros((families.n + 1, families.n + 1))
    vertex = families.members[point.union, point.slot]
    for j in range(families.width):
        np.add.at(edges, (vertex, families.members[point.union, j]), point.value)
    edges = edges[:-1, :-1] + edges[:-1, :-1].T
    np.fill_diagonal(edges, 0.0)
    total = edges.sum() / 2
    found = []
    for graph in sorted(families.constraints.forbidden_graphs, key=sorted):
        inside = sum(edges[tuple(members(edge))] for edge in graph)
        if total - 2 * inside < 1 - len(graph) - tolerance:
            found.append(no_good(graph, families.n))
    return found


def violated(
    families: Families,
    capacity: NDArray[np.float64],
    sinks: list[int],
    tolerance: float,
    *,
    pool: ThreadPoolExecutor | None = None,
    go_on: Callable[[], bool] = lambda: True,
) -> list[Clutter]:
    """Returns clutters whose cuts the point violates by more than the tolerance; none if there are none.

    Args:
        families: what the point is about.
        capacity: the point, as `families.allowed`.
        sinks: positions of the sets that are complete in every tree.
        tolerance: of the violation.
        pool: to share the sinks among its threads, or None.
        go_on: is asked before each share of the sinks; if it says no, the rest is left out.
    """
    from jtsolve.backends.clutter.kernels.cuts import arcs_up, minimum_cuts

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
        if not go_on():
            return []
        generators, ends = minimum_cuts(lattice, room, local[mine], _DEPTH, tolerance)
        at = nodes[generators].tolist()
        return [tuple(at[first:last]) for first, last in pairwise([0, *ends.tolist()])]

    if nodes.size * len(sinks) < _WORTH_SHARES:
        return sorted(set(part(sinks)))
    shares = [sinks[k::_SHARES] for k in range(min(_SHARES, len(sinks)))]
    lists = map(part, shares) if pool is None else pool.map(part, shares)
    return sorted({clutter for found in lists for clutter in found})
