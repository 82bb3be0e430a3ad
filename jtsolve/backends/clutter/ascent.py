"""Dual ascent: multipliers of the clutter LP from combinatorics alone, before any step or linear program.

The LP is a directed cut relaxation, as that of the Steiner arborescence problem: the nodes are the sets, the
source is ∅, the terminals are the sets a that are complete in every tree (the *sinks*), a family (v,P) is an
arc from P to P∪v, and arcs without cost lead from every set to its subsets. So Wong's dual ascent applies.
With reduced costs r ≥ 0 (`bound`), let F(a) be the sets from which the sink a is reached by families with
r = 0 and by going to subsets. It is an up-set, and if ∅ ∉ F(a), every family that enters it has r > 0: its
clutter inequality (`inequalities`) may be raised. With Δ the least r of these families,

    λ_F(a) += Δ,   r −= Δ on the families that enter F(a),   D(λ) −= Δ,

and r stays ≥ 0: t grows by Δ on F(a), so that t(P∪v) − t(P) grows by Δ for the families that enter and for no
other, and none of these exceeds its vertex's maximum. The maxima stay, and D falls by exactly Δ, the
multiplier times the limit 1 of the row. When every F(a) contains ∅, the ascent ends.

Any order of the sinks gives a bound, since any λ ≥ 0 does, but not the same one. Wong's rule is to raise the
cut of the sink with fewest entering families, once, and to choose again. Raising one sink to its end before
the next leaves 11,000 nats more on plants (69 variables, treewidth 2). Here it is the cut whose number of
entering families, times that of its minimal sets, is least: with six roots each, ascents end 235 instead of
286 nats above the optimum of plants, and 351 instead of 400 on accidents (111 variables). On large lattices,
where an ascent does not end within seconds, it stays with a sink a little longer.

Before that rule, cuts that fewest families of the best tree enter come first. For by complementary slackness,
no cut with a multiplier is entered more than once by an optimal tree, if the LP has no gap: each further
family costs Δ of the gap. On plants this is worth 110 nats of 815, on accidents 340 of 836, and the tree need
not be optimal for it.

On large lattices, F(a) grows by all families of little reduced cost, not of 0 only. It is an up-set without ∅
all the same; each raise is worth more then, and there are fewer.

Reference: Wong, A dual ascent approach for Steiner tree problems on a directed graph, Mathematical
Programming 1984. A known solution guides the ascent in SCIP-Jack, too: Gamrath, Koch, Maher, Rehfeldt and
Shinano, SCIP-Jack, Mathematical Programming Computation 2017. Ours: the network is a lattice of sets, so
that cuts are clutter inequalities; the ascent begins at any multipliers, and the rows of constraints keep
theirs; F(a) and the families that enter it are kept from visit to visit, since r only falls and F(a) only
grows; if no family enters F(a), there is no tree, and Δ is as large as the proof needs. All arithmetic is in
exact integers.

Time: each visit of a sink is linear in the families that enter F(a), and all visits together in the growth of
the F(a), at most the number of families for each sink. Memory: 24 bytes a family, a bit for each set and
sink, and 4 bytes for each sink and family that enters.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.clutter.inequalities import RowVector
from jtsolve.backends.clutter.subproblem import stage_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.backends.clutter.inequalities import Clutter
    from jtsolve.backends.clutter.subproblem import Stage, Subproblem
    from jtsolve.families.families import Families

_LARGE = 2_000_000
_LITTLE, _LITTLE_ROUGH = 3e-4, 5e-4
"""Above `_LARGE` families, those of reduced cost up to this share of the gap count as free: F(a) may be any
up-set without ∅, and every raise is worth more then. On plants at treewidth 3 (3.6 million families) the
ascent ended 1.8 % above the best tree after 27 s; with 0 it was 5.5 % above after a minute."""
_STAY, _STAY_ROUGH = 1.5, 3.0
"""Above `_LARGE` families, a sink is raised again as long as it has less than `_STAY` times the entering
families of the next: on plants at treewidth 3 (3.6 million) the bound after 22 s was 4,900 nats better. A
rough ascent ends there 2.4 s sooner and 1,080 nats higher; with turns of potentials after both, the rough one
is ahead from the third round on."""


def ascend(
    subproblem: Subproblem,
    multipliers: RowVector,
    proceed: Callable[[int], bool],
    *,
    rough: bool = False,
) -> tuple[Bound, NDArray[np.int64] | None]:
    """Raises multipliers by dual ascent; the subproblem adopts them if they do not worsen its bound.

    New cuts are appended to the rows. If it ends early, and no certificate needs the multipliers, they are
    left out: with millions of families, evaluating them takes seconds, and the bound has been reported.

    The second result has shape (K,), the number of sets.

    Args:
        subproblem: feasible.
        multipliers: of its rows, in nats.
        proceed: called at every visit of a sink with the bound so far, in units; if it returns
            False, the ascent ends early.
        rough: whether it may end sooner and higher on large lattices, for `potentials` to take over.

    Returns:
        See `Subproblem.improve`.
    """
    start = subproblem.evaluate(multipliers)
    goes_on = True

    def on_fall(fallen: int) -> bool:
        nonlocal goes_on
        # The little that is left out covers multipliers that float64 rounds.
        goes_on = proceed(min(subproblem.units, start.units - fallen + (fallen >> 40)))
        return goes_on

    raises = cuts_raised(
        subproblem.families,
        start,
        subproblem.sinks,
        start.units - subproblem.best.close,
        subproblem.centre,
        rough=rough,
        proceed=on_fall,
    )
    if not goes_on and subproblem.stages is None:
        return start, None
    # A cut may be a row already: its multiplier then grows by the raise of the ascent.
    number = {clutter: k for k, clutter in enumerate(subproblem.rows.clutters)}
    fresh = [clutter for clutter in raises if clutter not in number]
    number |= {clutter: len(subproblem.rows.clutters) + k for k, clutter in enumerate(fresh)}
    subproblem.add_rows(fresh, [])
    cuts = np.append(multipliers.cuts, np.zeros(len(fresh)))
    amounts = np.array(list(raises.values()), dtype=np.float64)
    cuts[[number[clutter] for clutter in raises]] += np.ldexp(amounts, -subproblem.best.scale.shift)
    raised = multipliers._replace(cuts=cuts)
    return subproblem.improve(subproblem.evaluate(raised), raised)


def bound_alone(subproblem: Subproblem, proceed: Callable[[int], bool]) -> Stage:
    """Bounds a subproblem by dual ascent, and returns the multipliers: its rows stay as they are.

    For lattices too large for a bit per set and cut.

    Args:
        subproblem: feasible.
        proceed: see `ascend`.
    """
    start = subproblem.evaluate(subproblem.multipliers)
    raises = cuts_raised(
        subproblem.families,
        start,
        subproblem.sinks,
        start.units - subproblem.best.close,
        subproblem.centre,
        proceed=lambda fallen: proceed(start.units - fallen),
    )
    amounts = np.array(list(raises.values()), dtype=np.int64)
    subproblem.units = start.units - int(amounts.sum())
    weights = RowVector(amounts, np.zeros(0, dtype=np.int64))
    return stage_of(list(raises), [], weights, subproblem.families.members_of, {})


def cuts_raised(
    families: Families,
    bound: Bound,
    sinks: list[int],
    enough: int,
    guide: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    *,
    rough: bool = False,
    proceed: Callable[[int], bool] = lambda _: True,
    take: Callable[[int, NDArray[np.int32], int], object] | None = None,
) -> dict[Clutter, int]:
    """Returns by how many units dual ascent raises the multipliers of cuts; their sum is the bound's fall.

    Args:
        families: of the bound.
        bound: at which the ascent begins.
        sinks: positions of the sets that are complete in every tree.
        enough: the fall of the bound, in units, at which the ascent ends.
        guide: the families of a good tree (positions, slots), or None.
        rough: see `ascend`.
        proceed: called at every visit of a sink with the fall so far, in units.
        take: called with the number of the sink, the generators of the cut and by how much it rises, to be
            kept by the caller. Of the cuts of a sink, each includes the last.
    """
    from jtsolve.backends.clutter.kernels.ascent import close_up, numbered, raise_cut
    from jtsolve.backends.clutter.kernels.cuts import arcs_up

    facets, sizes = families.facets, families.sizes
    # The arcs of Wong's network, upwards from P to P∪v; of an arc number, only the set above is needed.
    starts, above = arcs_up(facets, sizes)
    above //= families.width
    numbers, parents, reduced_cost = numbered(
        bound.values, families.members, facets, sizes, families.allowed, bound.best
    )
    lattice = (sizes, starts, above, facets.ravel(), numbers, parents, families.width)
    room, queue = np.empty(parents.size, dtype=np.int32), np.empty(sizes.size, dtype=np.int32)
    nothing = np.zeros(0, dtype=np.int32)
    # For each sink: F(a) as a bitmap, the families that enter it, and its minimal sets, which are the
    # clutter.
    inside = np.zeros((len(sinks), -(-sizes.size // 8)), dtype=np.uint8)
    entering = [nothing for _ in sinks]
    generators = [np.array([sink], dtype=np.int32) for sink in sinks]
    is_large = facets.size > _LARGE
    little = int((_LITTLE_ROUGH if rough else _LITTLE) * enough) if is_large else 0
    upper, lower = (nothing, nothing) if guide is None else (guide[0], facets[guide])

    def key(k: int) -> tuple[int, int]:
        """Returns how many families of the guide enter F(a), and how many of all, times its minimal sets."""
        # A family (v,P) of the guide enters F(a) iff P∪v is in it and P is not.
        enters = inside[k][upper >> 3] >> (upper & 7) & ~(inside[k][lower >> 3] >> (lower & 7)) & 1
        return int(enters.sum()), entering[k].size * generators[k].size

    def close(k: int, free: NDArray[np.int32]) -> bool:
        """Grows F(a) of a sink, and returns whether ∅ is in it."""
        reached, entering[k], generators[k] = close_up(
            lattice, reduced_cost, little, inside[k], entering[k], generators[k], free, room, queue
        )
        return bool(reached)

    raises: dict[Clutter, int] = {}
    # Only the sink in hand changes its F(a), so that the keys in the heap stay valid.
    waiting = [(key(k), k) for k in range(len(sinks)) if proceed(0) and not close(k, nothing)]
    heapq.heapify(waiting)
    stay = (_STAY_ROUGH if rough else _STAY) if is_large else 1.0
    fallen = 0
    k = heapq.heappop(waiting)[1] if waiting else None
    # Invariant: all reduced costs are ≥ 0, no F(a) in the heap contains ∅, and D has fallen by `fallen`.
    while k is not None and fallen < enough and proceed(fallen):
        amount, free = raise_cut(reduced_cost, parents, entering[k], little, enough - fallen)
        if amount:  # otherwise, raises of other sinks have left families of little reduced cost
            if take is None:
                clutter = tuple(sorted(generators[k].tolist()))
                raises[clutter] = raises.get(clutter, 0) + amount
            else:
                take(k, generators[k], amount)
            fallen += amount
        # ∅ ∈ F(a): the sink is reached from ∅ by free families, and none of its cuts can be raised further.
        if close(k, free):
            k = heapq.heappop(waiting)[1] if waiting else None
        elif waiting:
            crossings, size = key(k)
            # Wong's rule; on large lattices the sink in hand keeps its turn until another is `stay` times as
            # good.
            if (crossings, int(size / stay)) >= waiting[0][0]:
                _, k = heapq.heappushpop(waiting, ((crossings, size), k))
    return raises
