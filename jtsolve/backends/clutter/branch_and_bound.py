"""Branch and bound over subproblems of the clutter LP, best bound first.

A subproblem is bounded by dual ascent (`ascent`); by the volume algorithm (`volume`), or with large cliques
by potentials (`potentials`), until the gain is small or few families are left; and by the simplex method
(`simplex`) if the families are few enough. If its bound is still above the best tree's score, it branches on
an edge: absent, all sets with both ends are dropped; present, the edge is one more set that is complete in
every tree. Children start with the rows and multipliers of their parent. When every pair is decided, one
graph is left.

Trees come from rounding the points of the relaxation: a perfect order is built greedily, by the families of
largest value and, among those, of least reduced cost.
"""

from __future__ import annotations

import heapq
from contextlib import nullcontext
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.backends.clutter.ascent import ASCENT, ROUGH_ASCENT, ascend
from jtsolve.backends.clutter.bound import best_bound, scaled
from jtsolve.backends.clutter.inequalities import Clutter, CutRows, RowVector
from jtsolve.backends.clutter.potentials import POTENTIALS, Potentials, PotentialsConstants
from jtsolve.backends.clutter.separation import Point
from jtsolve.backends.clutter.simplex import SIMPLEX, CuttingPlanes, SimplexConstants
from jtsolve.backends.clutter.subproblem import BestTree, Stage, Subproblem, set_positions
from jtsolve.backends.clutter.volume import VOLUME, Volume
from jtsolve.backends.support.report import NewIncumbents
from jtsolve.core.result import Stop
from jtsolve.core.threads import Pool
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import neighbours_of, varset

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits
    from jtsolve.families.families import Families


@dataclass(frozen=True, slots=True)
class BranchingConstants:
    """The constants of branch and bound."""

    few: int = 3000
    """Families up to which the simplex method follows the ascent directly: with 3700 families, it closed the
    last 37 nats of plants in 2.4 s, and the volume algorithm took more than 5 s."""
    factor_after_potentials: int = 2
    """Factor of `few` where the simplex method starts with the cuts of potentials."""
    many: int = 200_000
    """Families above which a simplex solve would take too long; the subproblem branches without one. On
    kosarek (190 variables, treewidth 2) the volume algorithm gained little with 134,000 or 165,000 families
    left, depending on the root, and the simplex method then proved the optimum within 5 s."""
    rounded: int = 100_000
    """Families up to which points of potentials are rounded to trees: on 48 variables of plants, such trees
    scored 20,000 nats less than the best one, and cost time."""
    potentials: PotentialsConstants = POTENTIALS
    simplex: SimplexConstants = SIMPLEX


BRANCHING = BranchingConstants()
_FLAT = -2000
"""Shift of a certificate at which every score is rounded to 0."""
_HALF = 0.5
BETWEEN_BOUNDS = 0.2
"""Seconds between two bounds reported during an ascent."""
_NO_POINT = Point(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))


@dataclass(slots=True)
class ProofNode:
    """A node of the certificate: multipliers that drop families, then its branches or last multipliers."""

    stages: list[Stage] | None
    last: Stage | None = None
    edge: tuple[int, int] | None = None
    absent: ProofNode | None = None
    present: ProofNode | None = None
    graph: bool = False


@dataclass(slots=True)
class OpenNode:
    """A subproblem with its decided pairs, the creep of its separations, its last point, and its proof.

    Attributes:
        ascended: whether its multipliers are those of an ascent, or better.
        potentials: those of an interrupted run.
        by_potentials: whether potentials have replaced the volume algorithm, here or in an ancestor.
    """

    subproblem: Subproblem
    decided: dict[tuple[int, int], bool]
    creep: float
    point: Point = _NO_POINT
    ascended: bool = False
    potentials: Potentials | None = None
    by_potentials: bool = False
    proof: ProofNode = field(init=False)

    def __post_init__(self) -> None:
        self.proof = ProofNode(self.subproblem.stages)


class BranchAndBound:
    """The open nodes below a root, and the best tree."""

    def __init__(self, root: OpenNode, limits: Limits, few: int, constants: BranchingConstants) -> None:
        self.root, self.few, self.constants = root, few, constants
        self.threads = limits.workers
        self.best = root.subproblem.best
        self.report, self.scale = self.best.report, self.best.scale
        self.incumbents = NewIncumbents(self.report)
        self.n = root.subproblem.families.n
        self.open: list[tuple[int, int, OpenNode]] = []
        self.pushed = 0
        self.nodes = self.steps = self.rounds = self.failures = 0
        self.closed_units: int | None = None  # the largest bound of a closed node
        self.current: int | None = None
        self._push(root)

    @classmethod
    def for_problem(
        cls,
        problem: Problem,
        families: Families,
        limits: Limits,
        report: Report,
        *,
        keep_stages: bool,
        few: int = BRANCHING.few,
        flat: bool = False,
        constants: BranchingConstants = BRANCHING,
    ) -> BranchAndBound:
        """Returns the search of a problem, with a cut for every required edge.

        Args:
            problem: to solve.
            families: of the problem.
            limits: time, memory and threads.
            report: receives trees and bounds; ends the search.
            keep_stages: whether to keep the proof of each node, for a certificate.
            few: number of families up to which the simplex method follows the ascent directly.
            flat: whether all scores count as 0: the search ends with any tree, or a proof of infeasibility.
            constants: of the method.
        """
        n = families.n
        families = families.flat() if flat else families
        scale, scores = scaled(families)
        # No tree sums to less than the least weights of the vertices: with this as the target, no family is
        # dropped before there is a tree.
        floor = -best_bound(families, -scores, 0).units - 1
        required = families.constraints.required_edges
        position = set_positions(families, sorted(required))
        # Each required edge is a sink. One that is no permitted set has position -1: the root has no tree.
        edges = [position.get(edge, -1) for edge in sorted(required)]
        cuts: list[Clutter] = [(at,) for at in dict.fromkeys(position.values())]
        subproblem = Subproblem(
            BestTree(problem, report, scale, floor, flat=flat),
            families,
            scores,
            CutRows(families, cuts),
            RowVector(np.zeros(len(cuts)), np.zeros(0)),
            [*range(1, n + 1), *edges],
            [] if keep_stages else None,
        )
        return cls(OpenNode(subproblem, {}, VOLUME.first_creep), limits, few, constants)

    def run(self) -> Stop:
        """Searches until no node is open, or the report ends it; returns why it stopped."""
        with Pool(self.threads) if self.threads > 1 else nullcontext() as pool:
            # Best bound first: the current node determines the bound of the whole, in which `current` counts
            # while the node is not in the heap.
            while self.open and self.report.stop is None:
                _, _, node = heapq.heappop(self.open)
                self.current = node.subproblem.units
                if not self._process(node, pool):
                    self._push(node)
                    break
                self.current = None
                self.report(bound=self.bound, note=f"{len(self.open)} open subproblems")
        # With the multipliers of open nodes, too, the proof tree certifies the bound at the interruption.
        for _, _, node in self.open:
            self._finish(node)
        return (self.report.stop or Stop.INTERRUPTED) if self.open else Stop.FINISHED

    def relax(self, pool: Pool | None) -> None:
        """Bounds the root, and drops the families that its bound rules out; does not branch."""
        self.root.subproblem.set_centre()
        self._bound(self.root, pool)
        self.root.subproblem.fix()

    @property
    def bound(self) -> float:
        """The bound of the whole, in nats: the largest of all nodes, open or closed."""
        # Closed nodes count: within the tolerance of closing, their bound may be above the best score.
        candidates = [-key for key, _, _ in self.open[:1]]
        candidates += [units for units in (self.current, self.closed_units) if units is not None]
        top = max(candidates, default=None)
        return max(self.best.score, float("-inf") if top is None else self.scale.nats(top))

    @property
    def shift(self) -> int:
        """The shift of the certificate."""
        return _FLAT if self.best.flat else self.scale.shift

    def _push(self, node: OpenNode) -> None:
        self.pushed += 1
        # An open node keeps generators and multipliers; the words of its cuts are rebuilt on use.
        node.subproblem.rows.release()
        heapq.heappush(self.open, (-node.subproblem.units, self.pushed, node))

    def _finish(self, node: OpenNode) -> None:
        """Records the multipliers of a finished node."""
        if node.subproblem.stages is not None:
            feasible = node.subproblem.feasible
            node.proof.last = node.subproblem.stage() if feasible else Stage([], [], [])

    def _process(self, node: OpenNode, pool: Pool | None) -> bool:
        """Bounds a node, and branches unless it is closed; returns False if it was interrupted."""
        subproblem = node.subproblem
        self.nodes += 1
        subproblem.set_centre()
        if not subproblem.closed:
            if not self._bound(node, pool):
                return False
            if not subproblem.closed:
                self._branch(node)
                return True
        if subproblem.feasible:
            known = subproblem.units if self.closed_units is None else self.closed_units
            self.closed_units = max(subproblem.units, known)
        self._finish(node)
        return True

    def _bound(self, node: OpenNode, pool: Pool | None) -> bool:
        """Bounds a node in up to three stages; returns False if it was interrupted."""
        subproblem = node.subproblem

        def on_point(point: Point, bound: Bound) -> bool:
            families = int(subproblem.families.allowed.sum())
            node.point = point
            self._adopt(subproblem)
            if node.potentials is None or families <= self.constants.rounded:
                self._round(subproblem, point, bound)
            self.current = subproblem.units
            return self.report(bound=self.bound, note=f"{families} families")

        # 1. Dual ascent: the first bound, by which reduced costs fix most families.
        bound = subproblem.evaluate(subproblem.multipliers) if node.ascended else self._ascend(node)
        if bound is not None and not on_point(_NO_POINT, bound):
            return False
        # 2. Potentials or the volume algorithm, until the families are few or the gain is small.
        if self._is_large(subproblem) and not self._run_potentials(node, on_point):
            return False
        by_volume = self._is_large(subproblem) and not node.by_potentials
        if by_volume and not self._run_volume(node, pool, on_point):
            return False
        # 3. The simplex method for the LP over the remaining families.
        if not subproblem.closed and int(subproblem.families.allowed.sum()) <= self.constants.many:
            simplex = CuttingPlanes(subproblem, pool, polish=node.by_potentials, how=self.constants.simplex)
            finished = simplex.run(on_point, self.report)
            self.rounds += simplex.rounds
            self.failures += simplex.failures
            return finished
        return True

    def _is_large(self, subproblem: Subproblem) -> bool:
        """Returns whether a subproblem is open and has too many families for the simplex method directly."""
        return not subproblem.closed and int(subproblem.families.allowed.sum()) > self.few

    def _run_potentials(
        self,
        node: OpenNode,
        on_point: Callable[[Point, Bound], bool],
    ) -> bool:
        """Bounds a node by potentials if they are promising; returns False if it was interrupted."""
        if node.potentials is None:
            if not Potentials.promising(node.subproblem, self.constants.potentials):
                return True
            node.potentials = Potentials(node.subproblem, how=self.constants.potentials)
        potentials = node.potentials
        sweeps = potentials.sweeps
        finished = potentials.run(self.constants.factor_after_potentials * self.few, on_point, self.report)
        self.steps += potentials.sweeps - sweeps
        if finished:
            node.by_potentials, node.potentials = potentials.still_promising, None
            if node.by_potentials and not node.subproblem.closed:
                potentials.hand_over()
        return finished

    def _run_volume(
        self,
        node: OpenNode,
        pool: Pool | None,
        on_point: Callable[[Point, Bound], bool],
    ) -> bool:
        """Bounds a node by the volume algorithm; returns False if it was interrupted."""
        volume = Volume(node.subproblem, node.creep, pool)
        finished = volume.run(self.few, self.constants.many, on_point, self.report)
        self.steps += volume.steps
        node.creep = volume.creep
        return finished

    def ascend(self) -> None:
        """Bounds the root by dual ascent, before `run`."""
        subproblem = self.root.subproblem
        if self.open and self.report.stop is None and not subproblem.closed:
            self.open = []
            subproblem.set_centre()
            self._ascend(self.root)
            self.current = None
            self._push(self.root)

    def _ascend(self, node: OpenNode) -> Bound | None:
        """Bounds a node by dual ascent; returns the bound, or None if the node is infeasible."""
        subproblem = node.subproblem
        if not subproblem.feasible:
            return None
        reported = monotonic()

        def on_fall(units: int) -> bool:
            nonlocal reported
            if monotonic() < reported + BETWEEN_BOUNDS:
                return self.report.stop is None
            reported, self.current = monotonic(), units
            return self.report(bound=self.bound, note="dual ascent")

        # Sweeps of potentials make up for a rough ascent before a fine one ends.
        rough = Potentials.applicable(subproblem, self.constants.potentials)
        how = ROUGH_ASCENT if rough else ASCENT
        bound, _ = ascend(subproblem, subproblem.multipliers, on_fall, how)
        node.ascended = self.report.stop is None
        return bound if subproblem.feasible else None

    def _adopt(self, subproblem: Subproblem) -> None:
        """Offers the report's incumbent."""
        tree = self.incumbents.new()
        if tree is not None and self.best.offer(tree):
            subproblem.set_centre()

    def _round(self, subproblem: Subproblem, point: Point, bound: Bound) -> None:
        """Offers the tree near a point."""
        from jtsolve.backends.clutter.kernels.clutters import grow

        families = subproblem.families
        # The priority is x − r / gap. Remaining families have reduced costs up to the gap, so that both terms
        # are at most 1.
        reduced_cost = bound.reduced_costs(families) * self.scale.unit
        priority = -reduced_cost / max(1.0, (subproblem.units - self.best.target) * self.scale.unit)
        priority[point.union, point.slot] += point.value
        union, slot = grow(
            families.members,
            families.facets,
            families.sizes,
            families.allowed,
            priority,
            families.root,
            self.n,
        )
        if union.size < self.n:
            return
        vertices = families.members[union, slot].tolist()
        parents = families.facets[union, slot]
        order = [
            (v, varset(families.members_of(at))) for v, at in zip(vertices, parents.tolist(), strict=True)
        ]
        if self.best.offer(JunctionTree.from_families(order)):
            subproblem.set_centre()

    def _branch(self, node: OpenNode) -> None:
        """Opens the two children of an undecided pair, or offers the one graph that is left."""
        families = node.subproblem.families
        first, last = np.searchsorted(families.sizes, [2, 3])
        pairs = families.members[first:last, :2].tolist()
        undecided = [
            (u, v, int(first) + k) for k, (u, v) in enumerate(pairs) if not node.decided.get((u, v), False)
        ]
        if not undecided:
            self._offer_graph(node, [(u, v) for u, v in pairs])
            return
        # Σ x of the families that make each edge: the most fractional edge, nearest to ½, is decided next.
        joined = np.zeros((self.n + 1, self.n + 1))
        for union, slot, value in zip(*(part.tolist() for part in node.point), strict=True):
            row = families.members_of(union)
            for u in row:
                joined[u, row[slot]] += value if u != row[slot] else 0.0
        joined += joined.T
        u, v, at = min(undecided, key=lambda pair: (abs(joined[pair[0], pair[1]] - _HALF), pair))
        node.proof.edge = (u, v)

        absent, present = (
            OpenNode(
                node.subproblem.branch(at, present=kind),
                {**node.decided, (u, v): kind},
                node.creep,
                by_potentials=node.by_potentials,
            )
            for kind in (False, True)
        )
        self._push(absent)
        self._push(present)
        node.proof.absent, node.proof.present = absent.proof, present.proof

    def _offer_graph(self, node: OpenNode, edges: list[tuple[int, int]]) -> None:
        """Offers the graph of a node in which every pair is decided."""
        node.proof.graph = True
        try:
            tree = JunctionTree.from_neighbours(neighbours_of(self.n, edges))
        except ValueError:
            return  # not chordal
        self.best.offer(tree)
