"""Separation of clutter cuts by minimum cuts (`kernels.cuts`).

A point x over families is a network: ∅ feeds the families without parents, a family i passes on at most
x_i, and feeds the families j with ∅ ≠ P_j ⊆ P_i∪v_i. A vertex a is reached through the families with a ∈
P_i∪v_i. If the maximum flow from ∅ to a is below 1, the parent sets on the sink's side of a minimum cut,
with {a}, generate an up-set whose cut x violates: the families across it are those that the minimum cut
cuts.

Conversely, let F be an up-set that holds {a}, and the families across F be worth less than 1. They cut all
ways from ∅ to a, so that the flow is below 1. So there is a violated clutter cut iff some flow is below 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jtsolve.backends.clutter_rows import Special, no_good
from jtsolve.varset import members

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from numpy.typing import NDArray

    from jtsolve.backends.clutter_bound import Bound
    from jtsolve.backends.clutter_rows import Clutter
    from jtsolve.backends.clutter_state import State
    from jtsolve.encodings.families import Families

_SUPPORT = 1e-7
_NEAREST = 1000
"""Families that get a little capacity."""
_SHARES = 16
"""Into which the sinks are divided for threads."""
_WORTH_THREADS = 8000
"""Families of the support times sinks: below it, waking up threads takes longer than the work."""
_DEPTH = 5
"""Cuts that are disjoint on the support, for each sink, at most."""


class Point(NamedTuple):
    """Families with a value: positions of P∪v, the slots of v, and x."""

    union: NDArray[np.int64]
    slot: NDArray[np.int64]
    value: NDArray[np.float64]


class Inwards(NamedTuple):
    """Where to separate: how far towards the centre (1 is there), with what capacity for near families.

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
    pool: ThreadPoolExecutor | None,
) -> Found:
    """Returns rows that a point between `point` and the centre, the incumbent's families, violates.

    Cuts at a point between an optimal one and a good tree are deeper: in-out separation (Ben-Ameur and Neto,
    Networks 2007). Without a centre in the subproblem, the cuts are those of the point itself.

    Minimum cuts are many, and say nothing of families that are not in the point. So the families that lack
    least to their vertex's best get a little capacity: of equal cuts, that with fewest of them is found, the
    one that leaves the next point least to go to (creep flow, Koch and Martin 1998).

    Args:
        state: the subproblem.
        bound: of some multipliers over the families of the subproblem: tells which lack least.
        point: see above.
        inwards: where, and what counts.
        pool: to share the work among its threads, or None.
    """
    families = state.families
    total = np.zeros(families.allowed.shape)
    mix, creep, tolerance = inwards
    if creep > 0:
        total[nearest(families, bound)] = creep
    between = state.centre is not None and mix > 0
    total[point.union, point.slot] += (1 - mix if between else 1.0) * point.value
    if state.centre is not None and between:
        total[state.centre] += mix
    union, slot = np.nonzero(total)
    parents = families.facets[union, slot]
    support = Support(union, parents, total[union, slot])
    clutters = violated(state.words, support, state.sinks, tolerance, pool)
    specials = _violated_specials(families, point, tolerance) + _violated_graphs(families, point, tolerance)
    return Found(
        [clutter for clutter in clutters if clutter not in state.rows.known],
        [row for row in specials if row not in state.rows.known],
    )


def nearest(families: Families, bound: Bound) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the families that lack least to their vertex's best: positions and slots."""
    best = np.append(bound.best, 0)
    lack = best[families.members] - bound.values[:, None] + bound.values[families.facets]
    lack[~families.allowed] = np.iinfo(np.int64).max
    most = min(_NEAREST, int(families.allowed.sum()))
    chosen = np.sort(np.argpartition(lack.ravel(), most - 1)[:most])
    union, slot = np.divmod(chosen, families.width)
    return union, slot


def _violated_specials(families: Families, point: Point, tolerance: float) -> list[Special]:
    """Returns the conditions on separators, cliques and their number that a point violates.

    With b(A) = y(A) − N(A) (`encodings.families`): b(A) ≥ 0 where A is no separator, b(A) ≤ 0 where it is no
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


def set_words(families: Families) -> NDArray[np.uint64]:
    """Returns the sets as bit masks of as many words as n needs; shape (count, words)."""
    words = np.zeros((families.sizes.size, -(-(families.n + 1) // 64)), dtype=np.uint64)
    for j in range(families.width):
        v = families.members[:, j].astype(np.int64)
        at = np.flatnonzero(v < families.n)
        words[at, v[at] // 64] |= np.uint64(1) << (v[at] % 64).astype(np.uint64)
    return words


class Support(NamedTuple):
    """The families with a positive value: positions of P∪v and P, and the value."""

    union: NDArray[np.int64]
    parents: NDArray[np.int32]
    value: NDArray[np.float64]


def violated(
    words: NDArray[np.uint64],
    support: Support,
    sinks: list[int],
    tolerance: float,
    pool: ThreadPoolExecutor | None = None,
) -> list[Clutter]:
    """Returns clutters whose cuts the point violates by more than the tolerance; none if there are none.

    Args:
        words: the sets as bit masks.
        support: the point.
        sinks: positions of the sets that are complete in every tree.
        tolerance: of the violation.
        pool: to share the sinks among its threads, or None.
    """
    from jtsolve.kernels.cuts import minimum_cuts, network, reverse  # noqa: PLC0415

    distinct, parent = np.unique(support.parents, return_inverse=True)
    parent = parent.astype(np.int32)
    if distinct.size and distinct[0] == 0:
        distinct, parent = distinct[1:], parent - 1
    parent = parent.astype(np.int32)
    sources = words[distinct]
    unions = words[support.union]
    starts, targets = network(unions, sources, parent)
    begins, origins, places = reverse(starts, targets, distinct.size)
    by_parent = np.argsort(parent, kind="stable").astype(np.int32)
    bounds = np.searchsorted(parent[by_parent], np.arange(-1, distinct.size + 1)).astype(np.int32)
    firsts = by_parent[: bounds[1]]
    graph = (starts, targets, begins, origins, places, bounds[1:], by_parent, firsts)
    # Positions are in the order of size, which is what the minimal sets are chosen by.
    order = np.arange(distinct.size)
    room = 64 + 2 * _DEPTH * len(sinks) * max(8, distinct.size)

    def part(mine: list[int]) -> list[Clutter]:
        out = np.empty(room, dtype=np.int32)
        whose, ends = minimum_cuts(
            unions, sources, order, parent, support.value, graph, words[mine], _DEPTH, tolerance, out
        )
        found = []
        begin = 0
        for which, end in zip(whose.tolist(), ends.tolist(), strict=True):
            found.append(tuple(sorted({mine[which], *distinct[out[begin:end]].tolist()})))
            begin = end
        return found

    if pool is None or support.value.size * len(sinks) < _WORTH_THREADS:
        return sorted(set(part(sinks)))
    lists = pool.map(part, [sinks[k::_SHARES] for k in range(min(_SHARES, len(sinks)))])
    return sorted({clutter for found in lists for clutter in found})
