"""Branch and bound over subproblems of the clutter LP, the best bound first.

A subproblem is worked on by steps (`volume`) until they stall or few families are left, then by the
simplex method (`simplex`) if the families are few enough for it. If its bound is still above the
incumbent, it branches on an edge: absent, all sets that hold it are dropped; present, the edge is one more
set that is complete in every tree. Children begin with the rows and multipliers of their parent. When every
pair is decided, there is one graph left, which is looked at.

Trees come from the points on the way: the family that is worth most by the point, and lacks least by the
bound, is added to the order, over and over.
"""

from __future__ import annotations

import heapq
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.backends.clutter.bound import scaled, worth
from jtsolve.backends.clutter.rows import Clutter, Rows
from jtsolve.backends.clutter.separation import Point
from jtsolve.backends.clutter.simplex import Polish
from jtsolve.backends.clutter.subproblem import Incumbent, Stage, State, set_positions
from jtsolve.backends.clutter.volume import FIRST_CREEP, Volume
from jtsolve.core.result import Stop
from jtsolve.core.tree import JunctionTree

if TYPE_CHECKING:
    from jtsolve.backends.clutter.bound import Bound
    from jtsolve.core.backend import Limits, Report
    from jtsolve.core.problem import Problem
    from jtsolve.families.families import Families

_FEW = 600
"""Families that the simplex method takes at once."""
_MANY = 30_000
"""Families above which it is not tried."""
_HALF = 0.5


@dataclass(slots=True)
class Node:
    """A node of the tree, for certificates: what it dropped, and its branches or its last multipliers."""

    stages: list[Stage] | None
    last: Stage | None = None
    edge: tuple[int, int] | None = None
    absent: Node | None = None
    present: Node | None = None
    graph: bool = False


@dataclass(slots=True)
class Subproblem:
    """A state, the pairs that are decided in it, and its node; the bound is its parent's at first."""

    state: State
    decided: dict[tuple[int, int], bool]
    node: Node


class Search:
    """The open subproblems, and the best tree."""

    def __init__(
        self, problem: Problem, families: Families, limits: Limits, report: Report, *, keep_stages: bool
    ) -> None:
        self.problem, self.report, self.keep_stages = problem, report, keep_stages
        self.threads = limits.workers
        self.scale, scores = scaled(families)
        self.n = families.n
        listed = families.listing()
        weight = scores[listed.union] - scores[listed.parents]
        least, most = np.full(self.n, 1 << 62), np.full(self.n, -(1 << 62))
        np.minimum.at(least, listed.vertex, weight)
        np.maximum.at(most, listed.vertex, weight)
        self.empty = bool((most < least).any())
        floor = sum(least.tolist()) - 1 if not self.empty else 0
        self.top = sum(most.tolist()) if not self.empty else 0
        self.incumbent = Incumbent(problem, report, self.scale, floor, floor)
        self.root = self._root(families, scores)
        self.open: list[tuple[int, int, Subproblem]] = []
        self.made = 0
        self.nodes = self.steps = self.rounds = self.failures = 0
        self.settled: int | None = None  # the largest bound of a subproblem that is done
        self.current: int | None = None

    def _root(self, families: Families, scores: Any) -> Subproblem:
        """Returns the problem as a whole, with a first cut for every pair."""
        n = families.n
        constraints = families.constraints
        required = set_positions(families, sorted(constraints.required_edges))
        possible = not self.empty and len(required) == len(constraints.required_edges)
        clutters: list[Clutter] = [(at,) for at in required.values()]
        clutters += [(1 + u, 1 + v) for u in range(n) for v in range(u + 1, n)]
        rows = Rows(families, clutters)
        state = State(
            families,
            scores,
            rows,
            np.zeros(len(rows.clutters)),
            np.zeros(len(rows.specials)),
            [*range(1, n + 1), *required.values()],
            self.top,
            FIRST_CREEP,
            [] if self.keep_stages else None,
            possible=possible,
        )
        return Subproblem(state, {}, Node(state.stages))

    def run(self) -> Stop:
        """Works until nothing is open, or it has to end; returns why it ended."""
        self._push(self.root)
        with ThreadPoolExecutor(self.threads) if self.threads > 1 else nullcontext() as pool:
            while self.open:
                if self.report.stop is not None:
                    break
                _, _, subproblem = heapq.heappop(self.open)
                self.current = subproblem.state.units
                if not self._work(subproblem, pool):
                    self._push(subproblem)
                    break
                self.current = None
                self.report(bound=self.bound, note=f"{len(self.open)} open subproblems")
        for _, _, subproblem in self.open:
            self._finish(subproblem)
        return (self.report.stop or Stop.INTERRUPTED) if self.open else Stop.FINISHED

    def relax(self, pool: ThreadPoolExecutor | None) -> None:
        """Bounds the problem as a whole, and drops what the bound rules out; does not branch."""
        state = self.root.state
        if self.incumbent.tree is not None:
            state.look_for(self.incumbent.tree)
        self._bounded(self.root, pool)
        bound = state.evaluate(self.scale, state.cuts, state.specials) if state.possible else None
        if bound is not None:
            state.units = min(state.units, bound.units)
            state.move(*state.families.restricted(worth(state.families, bound, self.incumbent.target)))

    @property
    def bound(self) -> float:
        """The best bound: that of the worst subproblem, open or done, in nats."""
        candidates = [-key for key, _, _ in self.open[:1]]
        candidates += [units for units in (self.current, self.settled) if units is not None]
        top = max(candidates, default=None)
        if self.incumbent.tree is None:
            return float("-inf") if top is None else self.scale.nats(top)
        return self.incumbent.score if top is None else max(self.incumbent.score, self.scale.nats(top))

    def _push(self, subproblem: Subproblem) -> None:
        self.made += 1
        subproblem.state.rows.release()
        heapq.heappush(self.open, (-subproblem.state.units, self.made, subproblem))

    def _finish(self, subproblem: Subproblem) -> None:
        """Writes down the multipliers of a subproblem that is not worked on any more."""
        if self.keep_stages:
            state = subproblem.state
            subproblem.node.last = state.stage(self.scale) if state.possible else Stage([], [], [])

    def _work(self, subproblem: Subproblem, pool: ThreadPoolExecutor | None) -> bool:
        """Bounds a subproblem, and branches if it is not done; returns False if told to end."""
        state = subproblem.state
        self.nodes += 1
        if self.incumbent.tree is not None:
            state.look_for(self.incumbent.tree)
        if state.possible and state.units > self.incumbent.close:
            point = self._bounded(subproblem, pool)
            if point is None:
                return False
            if state.possible and state.units > self.incumbent.close:
                self._branch(subproblem, point)
                return True
        if state.possible:
            self.settled = max(state.units, state.units if self.settled is None else self.settled)
        self._finish(subproblem)
        return True

    def _bounded(self, subproblem: Subproblem, pool: ThreadPoolExecutor | None) -> Point | None:
        """Bounds a subproblem by steps, then by simplex; returns the last point, None if told to end."""
        state = subproblem.state
        told: list[Point] = []

        def tell(point: Point, bound: Bound) -> bool:
            told[:] = [point]
            self._round(state, point, bound)
            self.current = state.units
            return self.report(bound=self.bound, note=f"{int(state.families.allowed.sum())} families")

        def go_on() -> bool:
            return self.report.stop is None

        if int(state.families.allowed.sum()) > _FEW:
            volume = Volume(state, self.incumbent, pool)
            went_on = volume.run(_FEW, tell, go_on)
            self.steps += volume.steps
            if not went_on:
                return None
        few = int(state.families.allowed.sum()) <= _MANY
        if few and state.possible and state.units > self.incumbent.close:
            polish = Polish(state, self.incumbent, pool)
            went_on = polish.run(tell, go_on)
            self.rounds += polish.rounds
            self.failures += polish.failures
            if not went_on:
                return None
        if not told:
            empty = np.zeros(0, dtype=np.int64)
            return Point(empty, empty, np.zeros(0))
        return told[0]

    def _round(self, state: State, point: Point, bound: Bound) -> None:
        """Looks for a tree near the point."""
        from jtsolve.backends.clutter.kernels.clutters import grow

        families = state.families
        if bound.values.size != families.sizes.size:
            return
        gains = bound.values[:, None] - bound.values[families.facets]
        lack = (np.append(bound.best, 0)[families.members] - gains) * self.scale.unit
        gap = max(1.0, (state.units - self.incumbent.target) * self.scale.unit)
        worth = -lack / gap
        worth[point.union, point.slot] += point.value
        union, slot = grow(
            families.members, families.facets, families.sizes, families.allowed, worth, families.root, self.n
        )
        if union.size < self.n:
            return
        vertices = families.members[union, slot].tolist()
        parents = families.facets[union, slot]
        order = []
        for v, at in zip(vertices, parents.tolist(), strict=True):
            order.append((v, sum(1 << u for u in families.members[at, : families.sizes[at]].tolist())))
        if self.incumbent.offer(JunctionTree.from_families(order)) and self.incumbent.tree is not None:
            state.look_for(self.incumbent.tree)

    def _branch(self, subproblem: Subproblem, point: Point) -> None:
        """Opens the two subproblems of an undecided pair, or looks at the one graph that is left."""
        state = subproblem.state
        families = state.families
        first, last = np.searchsorted(families.sizes, [2, 3])
        pairs = families.members[first:last, :2].tolist()
        undecided = [
            (u, v, first + k) for k, (u, v) in enumerate(pairs) if not subproblem.decided.get((u, v), False)
        ]
        if not undecided:
            self._only(subproblem, [(u, v) for u, v in pairs])
            return
        joined = np.zeros((self.n + 1, self.n + 1))
        for union, slot, value in zip(*(part.tolist() for part in point), strict=True):
            row = families.members[union, : families.sizes[union]].tolist()
            for u in row:
                joined[u, row[slot]] += value if u != row[slot] else 0.0
        joined += joined.T
        u, v, at = min(undecided, key=lambda pair: (abs(joined[pair[0], pair[1]] - _HALF), pair))
        node = subproblem.node
        node.edge = (u, v)
        node.absent = self._child(subproblem, (u, v), int(at), present=False)
        node.present = self._child(subproblem, (u, v), int(at), present=True)

    def _child(self, parent: Subproblem, edge: tuple[int, int], at: int, *, present: bool) -> Node:
        """Opens a subproblem with the pair decided; returns its node."""
        state = parent.state
        used = np.flatnonzero(state.cuts > 0)
        clutters = [state.rows.clutters[k] for k in used]
        cuts = state.cuts[used]
        sinks = list(state.sinks)
        if present:
            clutters.append((at,))
            cuts = np.append(cuts, 0.0)
            sinks.append(at)
        child = State(
            state.families,
            state.scores,
            Rows(state.families, clutters, state.rows.specials),
            cuts,
            state.specials.copy(),
            sinks,
            state.units,
            state.creep,
            [] if self.keep_stages else None,
        )
        if not present:
            families = state.families
            both = (families.members == edge[0]).any(axis=1) & (families.members == edge[1]).any(axis=1)
            child.move(*families.restricted(families.allowed & ~both[:, None]))
        node = Node(child.stages)
        self._push(Subproblem(child, {**parent.decided, edge: present}, node))
        return node

    def _only(self, subproblem: Subproblem, edges: list[tuple[int, int]]) -> None:
        """Looks at the graph of a subproblem in which every pair is decided."""
        neighbours = [0] * self.n
        for u, v in edges:
            neighbours[u] |= 1 << v
            neighbours[v] |= 1 << u
        subproblem.node.graph = True
        try:
            tree = JunctionTree.from_neighbours(neighbours)
        except ValueError:
            return  # not chordal: no tree is left here
        self.incumbent.offer(tree)
