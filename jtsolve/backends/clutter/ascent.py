"""Dual ascent: multipliers of the clutter LP by combinatorics alone, before the volume algorithm and any LP.

The LP is a directed cut relaxation, as that of the Steiner arborescence problem: the nodes are the sets, the
source is ∅, the terminals are the sets a that are complete in every tree (the *sinks*), a family (v,P) is an
arc from P to P∪v, and arcs without cost lead from every set to its subsets. So Wong's dual ascent applies.
With reduced costs r ≥ 0 (`bound`), let F(a) be the sets from which the sink a is reachable along families
with r = 0 and arcs to subsets. It is an up-set, and if ∅ ∉ F(a), every family that enters it has r > 0, so
that the multiplier of its clutter inequality (`inequalities`) can rise. With Δ the least r of these families,

    λ_F(a) += Δ,   r −= Δ on the families that enter F(a),   D(λ) −= Δ,

and r stays ≥ 0: t grows by Δ on F(a), so that t(P∪v) − t(P) grows by Δ for the families that enter F(a) and
for no others, and none exceeds the maximum of its vertex. The maxima stay, and D falls by exactly Δ, the
multiplier times the limit 1 of the row. The ascent ends when every F(a) contains ∅.

Any order of the sinks gives a bound, since any λ ≥ 0 does, but its quality varies. Wong's rule raises the cut
of the sink with fewest entering families, once, and chooses again. Raising one sink to its end before the
next leaves 11,000 nats more on plants (69 variables, treewidth 2). Here the cut with the least product of
entering families and minimal sets comes first: over six roots, ascents end 235 instead of 286 nats above the
optimum of plants, and 351 instead of 400 on accidents (111 variables). On large lattices, where an ascent
takes more than a few seconds, it stays with each sink a little longer.

Cuts entered by fewer families of the best tree have priority over this rule. By complementary slackness, an
optimal tree enters a cut with a positive multiplier only once if the LP has no gap, and each further family
of it costs Δ of the gap. This saves 110 of 815 nats on plants and 340 of 836 on accidents, and the tree need
not be optimal.

On large lattices, F(a) grows by all families of small reduced cost, not of 0 only. It is still an up-set
without ∅, each raise is larger, and there are fewer.

Reference: Wong, A dual ascent approach for Steiner tree problems on a directed graph, Mathematical
Programming 1984. A known solution guides the ascent in SCIP-Jack, too: Gamrath, Koch, Maher, Rehfeldt and
Shinano, SCIP-Jack, Mathematical Programming Computation 2017. Ours: the network is a lattice of sets, so
that cuts are clutter inequalities; the ascent starts from any multipliers, and the rows of constraints keep
theirs; F(a) and the families that enter it are kept between visits, since r only falls and F(a) only grows;
if no family enters F(a), there is no tree, and Δ is as large as the proof needs. All arithmetic is in exact
integers.

Time: each visit of a sink is linear in the families that enter F(a); the growth of F(a) takes at most the
number of families for each sink, over all visits. Memory: 24 bytes a family, a bit for each set and sink, and
4 bytes for each sink and entering family.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class AscentConstants:
    """The constants of the method."""

    large: int = 2_000_000
    threshold: float = 3e-4
    """Above `large` families, those of reduced cost up to this share of the gap count as free. On plants at
    treewidth 3 (3.6 million families) the ascent ended 1.8 % above the best tree after 27 s; with 0 it was
    5.5 % above after a minute."""
    stay: float = 1.5
    """Above `large` families, a sink is raised again as long as it has less than this factor of the entering
    families of the next: on plants at treewidth 3 the bound after 22 s was 4,900 nats better."""


ASCENT, ROUGH_ASCENT = AscentConstants(), AscentConstants(threshold=5e-4, stay=3.0)
"""On plants at treewidth 3, a rough ascent ends 2.4 s sooner and 1,080 nats higher, but sweeps of potentials
after it are ahead from the third round on."""


def ascend(
    subproblem: Subproblem,
    multipliers: RowVector,
    proceed: Callable[[int], bool],
    constants: AscentConstants = ASCENT,
) -> tuple[Bound, NDArray[np.int64] | None]:
    """Raises multipliers by dual ascent; the subproblem adopts them if they do not worsen its bound.

    New cuts are appended to the rows. After an early end, the new multipliers are dropped unless a
    certificate needs them: evaluating millions of families takes seconds, and the bound has been reported.

    The second result has shape (K,), the number of sets.

    Args:
        subproblem: feasible.
        multipliers: of its rows, in nats.
        proceed: called at every visit of a sink with the bound so far, in units; returns False for an early
            end.
        constants: of the method; `ROUGH_ASCENT` before `potentials`.

    Returns:
        See `Subproblem.improve`.
    """
    start = subproblem.evaluate(multipliers)
    goes_on = True

    def on_fall(fallen: int) -> bool:
        nonlocal goes_on
        # The added share covers the rounding of multipliers to float64.
        goes_on = proceed(min(subproblem.units, start.units - fallen + (fallen >> 40)))
        return goes_on

    raises = cuts_raised(
        subproblem.families,
        start,
        subproblem.sinks,
        start.units - subproblem.best.close,
        subproblem.centre,
        constants=constants,
        proceed=on_fall,
    )
    if not goes_on and subproblem.stages is None:
        return start, None
    # Cuts that are rows already get the raise on top of their multiplier.
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
    """Bounds a subproblem by dual ascent without adding rows; returns the multipliers.

    For lattices too large for a bit for each set and cut.

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
    constants: AscentConstants = ASCENT,
    proceed: Callable[[int], bool] = lambda _: True,
    on_raise: Callable[[int, NDArray[np.int32], int], object] | None = None,
) -> dict[Clutter, int]:
    """Returns the raises of cuts by dual ascent, in units; their sum is the fall of the bound.

    Args:
        families: of the bound.
        bound: at the start of the ascent.
        sinks: positions of the sets that are complete in every tree.
        enough: the fall of the bound, in units, at which the ascent ends.
        guide: the families of a good tree (positions, slots), or None.
        constants: see `ascend`.
        proceed: called at every visit of a sink with the fall so far, in units; returns whether to continue.
        on_raise: called with the number of the sink, the generators of its cut, and the raise; the result is
            then empty. Each cut of a sink includes the one before it.
    """
    from jtsolve.backends.clutter.kernels.ascent import close_up, numbered, raise_cut
    from jtsolve.backends.clutter.kernels.cuts import arcs_up

    facets, sizes = families.facets, families.sizes
    # The arcs of Wong's network from P to P∪v, each given by P∪v.
    starts, above = arcs_up(facets, sizes)
    above //= families.width
    numbers, parents, reduced_cost = numbered(
        bound.values, families.members, facets, sizes, families.allowed, bound.best
    )
    lattice = (sizes, starts, above, facets.ravel(), numbers, parents, families.width)
    scratch, queue = np.empty(parents.size, dtype=np.int32), np.empty(sizes.size, dtype=np.int32)
    nothing = np.zeros(0, dtype=np.int32)
    # For each sink: F(a) as a bitmap, the families that enter it, and its minimal sets, the clutter.
    inside = np.zeros((len(sinks), -(-sizes.size // 8)), dtype=np.uint8)
    entering = [nothing for _ in sinks]
    generators = [np.array([sink], dtype=np.int32) for sink in sinks]
    is_large = facets.size > constants.large
    threshold = int(constants.threshold * enough) if is_large else 0
    upper, lower = (nothing, nothing) if guide is None else (guide[0], facets[guide])

    def key(k: int) -> tuple[int, int]:
        """Returns the entering families of the guide, and all entering families times the minimal sets."""
        # A family (v,P) enters F(a) iff P∪v is in it and P is not.
        enters = inside[k][upper >> 3] >> (upper & 7) & ~(inside[k][lower >> 3] >> (lower & 7)) & 1
        return int(enters.sum()), entering[k].size * generators[k].size

    def close(k: int, free: NDArray[np.int32]) -> bool:
        """Grows F(a) of a sink, and returns whether ∅ is in it."""
        reached, entering[k], generators[k] = close_up(
            lattice, reduced_cost, threshold, inside[k], entering[k], generators[k], free, scratch, queue
        )
        return bool(reached)

    raises: dict[Clutter, int] = {}
    # Only F(a) of the current sink changes, so that the keys in the heap stay valid.
    waiting = [(key(k), k) for k in range(len(sinks)) if proceed(0) and not close(k, nothing)]
    heapq.heapify(waiting)
    stay = constants.stay if is_large else 1.0
    fallen = 0
    k = heapq.heappop(waiting)[1] if waiting else None
    # Invariant: all reduced costs are ≥ 0, no F(a) in the heap contains ∅, and D has fallen by `fallen`.
    while k is not None and fallen < enough and proceed(fallen):
        amount, free = raise_cut(reduced_cost, parents, entering[k], threshold, enough - fallen)
        if amount:  # 0 if raises of other sinks have made an entering family free
            if on_raise is None:
                clutter = tuple(sorted(generators[k].tolist()))
                raises[clutter] = raises.get(clutter, 0) + amount
            else:
                on_raise(k, generators[k], amount)
            fallen += amount
        # ∅ ∈ F(a): free families lead from ∅ to the sink, and none of its cuts can be raised further.
        if close(k, free):
            k = heapq.heappop(waiting)[1] if waiting else None
        elif waiting:
            crossings, size = key(k)
            # Wong's rule; on large lattices the current sink stays until another is `stay` times as good.
            if (crossings, int(size / stay)) >= waiting[0][0]:
                _, k = heapq.heappushpop(waiting, ((crossings, size), k))
    return raises
