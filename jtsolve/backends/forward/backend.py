"""Greedy selection of edges: a good tree in little time, without a proof.

Adding the edge uv keeps a chordal graph chordal if and only if S = N(u) ∩ N(v) separates u from v. In the
junction tree, a separator S is replaced by the clique K = S∪{u,v}; S∪u becomes a separator or, if it was a
maximal clique, is absorbed by K; likewise S∪v. The gain is s(K) + s(S) − s(S∪u) − s(S∪v).

From the empty graph, or a chordal graph that contains the required edges, it adds the legal edge of the
largest gain, as long as that is positive and the edge adds no part that the constraints forbid. If the graph
still violates a constraint (if it must be connected, for example), it continues with the edges that repair
most, and among these the one of the largest gain, even if negative. With too many cliques, it adds an edge
that makes another clique only where every legal edge does. Finally, it removes edges as long as the score
rises.

The queue is lazy: adding ab changes S only for the pairs (a,x), x ∈ N(b), and (b,x), x ∈ N(a). Any other pair
can only become illegal, and a clique S∪u can only become a separator, so a pair only falls in rank: its rank
is checked again when it reaches the top. A candidate carries its S, which only grows, as its time stamp.

A set without a score counts as the sum of its variables' scores: it is in no final tree, so its terms cancel.

Without other constraints, the initial gains remain in sorted arrays, and become candidates one by one.

Time: O(n²) gains for the first queue, O(degree) gains for each added edge, and for each pair checked a search
from both ends that stops when the smaller side is exhausted. Memory: 24 bytes per pair with a gain; with
constraints, some 500 per pair.

References:
    Deshpande, Garofalakis, Jordan, Efficient stepwise selection in decomposable models, UAI 2001. Petitjean,
    Webb, Scaling log-linear analysis to datasets with thousands of variables, SDM 2015 (Chordalysis).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar

from jtsolve.backends.forward.pairs import CandidateEdge, Exchange, gaining_pairs
from jtsolve.backends.support.remembered import KnownScores, remembered
from jtsolve.backends.support.starts import best_start
from jtsolve.core.backend import Backend, Capabilities, Estimate
from jtsolve.core.machine import base_memory
from jtsolve.core.problem import ALL_FEATURES, ProblemFeature
from jtsolve.core.result import Outcome, Stop
from jtsolve.core.scores import SparseScores
from jtsolve.core.tree import JunctionTree
from jtsolve.core.triangulation import triangulated
from jtsolve.core.varset import VarSet, connects, is_subset, key_of, members, neighbours_of, renumbered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jtsolve.core.backend import Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits


@dataclass(frozen=True, slots=True)
class Forward:
    """Greedy forward, then backward selection of edges. Heuristic; all constraints but `forbidden_graphs`.

    It returns a tree that meets all constraints, or none; it never claims infeasibility.

    Args:
        start: backends whose trees it reports first; it returns the best of these and its own.
    """

    start: tuple[Backend, ...] = ()

    name: ClassVar[str] = "forward"
    capabilities: ClassVar[Capabilities] = Capabilities(
        features=ALL_FEATURES - {ProblemFeature.FORBIDDEN_GRAPHS}
    )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:  # noqa: ARG002 - the protocol's signature
        """See `Backend.estimate`: measured bytes and seconds per pair of variables."""
        pairs = problem.n**2 / 2
        memory, seconds = (80, 5e-6) if _is_plain(problem) else (500, 5e-5)
        own = 20_000 * problem.n  # cached scores, the queue, bit masks
        return Estimate(base_memory() + int(memory * pairs) + own, 1e-3 + 5e-3 * problem.n + seconds * pairs)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        self.estimate(problem, limits).require_memory(self.name, limits)
        required = chordal_neighbours(problem)
        if required is None:
            return Outcome(
                None, stats={"note": "the required edges could not be completed to a chordal graph"}
            )
        first = best_start(self.start, problem, limits, report)
        search = _EdgeSelection(problem, required, report)
        stop = search.forward() or search.backward()
        stats = {"added": search.added, "removed": search.removed, "examined": search.examined}
        tree = None if search.broken else search.tree()
        if tree is not None:
            report(tree=tree)  # a backend that starts here uses reported trees only
        if tree is None or (first is not None and first.score(problem.scores) > tree.score(problem.scores)):
            tree = first
        return Outcome(tree, stop=stop or Stop.FINISHED, stats=stats)


def chordal_neighbours(problem: Problem) -> list[VarSet] | None:
    """Returns the neighbours of each vertex in a chordal graph that contains the required edges.

    Min-fill makes no clique too large and joins no forbidden pair. None if it finds no such graph; there may
    be one.
    """
    edges, forbidden = problem.constraints.required_edges, problem.constraints.forbidden_edges
    joined = sorted({v for edge in edges for v in members(edge)})
    place = {v: i for i, v in enumerate(joined)}

    def permits(clique: VarSet) -> bool:
        whole = renumbered(clique, joined)
        return whole.bit_count() <= problem.max_clique_size and not any(
            is_subset(edge, whole) for edge in forbidden
        )

    found: tuple[tuple[int, int], ...] = ()
    if joined:
        try:
            scopes = (renumbered(edge, place) for edge in edges)
            found = triangulated([2] * len(joined), scopes, permits).graph_edges
        except ValueError:
            return None
    return neighbours_of(problem.n, ((joined[u], joined[v]) for u, v in found))


def _is_plain(problem: Problem) -> bool:
    """Returns whether treewidth is the only constraint and every set has a score."""
    others = problem.constraints.features - {ProblemFeature.MAX_TREEWIDTH}
    return not others and not isinstance(problem.scores, SparseScores)


class _EdgeSelection:
    """A chordal graph, its maximal cliques and separators, and the queue of candidate edges."""

    def __init__(self, problem: Problem, start: list[VarSet], report: Report) -> None:
        self.problem = problem
        self.width = problem.max_clique_size
        self.report = report
        self.neighbours = start
        self.leader = list(range(problem.n))  # union-find: of each vertex, towards that of its component
        for v in range(problem.n):
            for u in members(start[v]):
                self.leader[self.leader_of(u)] = self.leader_of(v)
        self.key = key_of(problem.n)
        self.cliques: set[int | bytes] = set()  # by key, as all sets here
        self.separators: Counter[int | bytes] = Counter()
        self.max_cliques = min(problem.n, problem.constraints.max_cliques or problem.n)
        self.good_clique = remembered(problem.permits_clique, problem.n)
        self.good_separator = remembered(problem.permits_separator, problem.n)
        self.bad_parts = 0
        self.scores = KnownScores(problem.scores)
        self.queue: list[CandidateEdge] = []
        self.pairs: Iterator[tuple[int, int, float]] = iter(())  # with S = ∅, not yet candidates
        self.pair: tuple[int, int, float] | None = None  # the first of the rest
        self.waiting: list[CandidateEdge] = []  # pairs whose edge would exceed max_cliques at present
        self.added = self.removed = self.examined = 0
        tree = self.tree()
        self.apply(Exchange(list(tree.cliques), list(tree.separators), [], []))

    @property
    def broken(self) -> bool:
        """Whether the graph violates a constraint; those on single edges always hold."""
        return self.bad_parts > 0 or len(self.cliques) > self.max_cliques

    def tree(self) -> JunctionTree:
        """Returns the junction tree of the graph."""
        return JunctionTree.from_neighbours(self.neighbours)

    def forward(self) -> Stop | None:
        """Adds edges as long as the score rises; returns why it stopped early, or None."""
        if not self.broken:
            self.report(tree=self.tree())
        if _is_plain(self.problem):
            self.pairs = gaining_pairs(self.problem.scores, self.width, self.report)
            self.pair = next(self.pairs, None)
            if self.report.stop is not None:
                return self.report.stop
        else:
            for v in range(self.problem.n):
                if self.report.stop is not None:
                    return self.report.stop
                self.queue += self.candidates((u, v) for u in range(v))
            heapify(self.queue)
        while self.refill() or self.detour():
            if self.report.stop is not None:
                return self.report.stop
            if not self.queue:
                continue
            entry = heappop(self.queue)
            if entry.repairs and not self.broken:
                return None  # as all the others do
            current = self.current(entry)
            if current is None:
                continue
            if current != entry:
                heappush(self.queue, current)
            elif entry.growth > 0 and len(self.cliques) >= self.max_cliques:
                self.waiting.append(entry)
            else:
                self.add(entry)
        return None

    def refill(self) -> bool:
        """Queues the initial pairs that may be next; returns whether any candidate is left."""
        while self.pair is not None:
            u, v, loss = self.pair
            # All later pairs lose more than the top of the queue.
            if self.queue and self.queue[0].loss < loss:
                break
            self.pair = next(self.pairs, None)
            growth = self.exchange(u, v).growth
            heappush(self.queue, CandidateEdge(False, 0, 0, loss, u, v, shared=0, growth=growth))
        return bool(self.queue)

    def detour(self) -> bool:
        """Adds the best waiting edge if no other edge repairs the graph; returns whether there was one.

        It makes another clique, but each edge brings the graph closer to a complete one, which has a single
        clique.
        """
        if not self.broken:
            return False
        legal = [entry for entry in map(self.current, self.waiting) if entry is not None]
        if not legal:
            return False
        best = min(legal)
        self.waiting = [entry for entry in legal if entry is not best]
        self.add(best)
        return True

    def backward(self) -> Stop | None:
        """Removes edges as long as the score rises; returns why it stopped early, or None."""
        if self.broken:
            return None
        everywhere = [(u, v) for u in range(self.problem.n) for v in members(self.neighbours[u] >> u << u)]
        gains = self.removal_gains(everywhere)
        while gains:
            if self.report.stop is not None:
                return self.report.stop
            u, v = max(gains, key=lambda edge: (gains[edge], -edge[0], -edge[1]))
            clique = list(members(self.neighbours[u] & self.neighbours[v] | 1 << u | 1 << v))
            self.apply(self.exchange(u, v).reversed())
            self.neighbours[u] ^= 1 << v
            self.neighbours[v] ^= 1 << u
            self.removed += 1
            # The common neighbours of other edges are unchanged, but constraints may depend on all.
            changed = list(combinations(clique, 2)) if _is_plain(self.problem) else everywhere
            for edge in changed:
                gains.pop(edge, None)
            gains |= self.removal_gains(changed)
        return None

    def removal_gains(self, pairs: Iterable[tuple[int, int]]) -> dict[tuple[int, int], float]:
        """Returns the gain in nats of removing each removable edge among the pairs, if positive."""
        gains = {(u, v): -self.gain(u, v) for u, v in self.removable(pairs)}
        return {edge: gain for edge, gain in gains.items() if gain > 0}

    def candidates(self, pairs: Iterable[tuple[int, int]]) -> list[CandidateEdge]:
        """Returns the candidates among the pairs; scores are fetched in batches."""
        wanted = [(u, v) for u, v in pairs if self.may_join(u, v)]
        sets: list[VarSet] = []
        for u, v in wanted:
            shared = self.neighbours[u] & self.neighbours[v]
            sets += [shared, shared | 1 << u, shared | 1 << v, shared | 1 << u | 1 << v]
        self.scores.fetch(sets)
        found = [self.candidate(u, v) for u, v in wanted]
        return found if self.broken else [entry for entry in found if not entry.repairs]

    def may_join(self, u: int, v: int) -> bool:
        """Returns whether uv is neither an edge nor forbidden, and its clique is not too large."""
        shared = self.neighbours[u] & self.neighbours[v]
        return (
            not self.neighbours[u] >> v & 1
            and shared.bit_count() + 2 <= self.width
            and (1 << u | 1 << v) not in self.problem.constraints.forbidden_edges
        )

    def candidate(self, u: int, v: int) -> CandidateEdge:
        """Returns the candidate of a pair in the current graph."""
        exchange = self.exchange(u, v)
        added = self.bad(exchange.cliques_in, exchange.separators_in)
        loss = -self.gain(u, v)
        shared = self.neighbours[u] & self.neighbours[v]
        repairs = added > 0 or loss >= 0
        cost = added - self.bad(exchange.cliques_out, exchange.separators_out)
        if self.max_cliques < self.problem.n:
            cost += exchange.growth
        costs = (cost, added) if repairs else (0, 0)
        return CandidateEdge(repairs, *costs, loss, u, v, shared, exchange.growth)

    def current(self, entry: CandidateEdge) -> CandidateEdge | None:
        """Returns the current candidate of the pair; None if S has changed or the edge is illegal."""
        self.examined += 1
        u, v, shared = entry.u, entry.v, entry.shared
        if self.neighbours[u] >> v & 1 or self.neighbours[u] & self.neighbours[v] != shared:
            return None
        if not self.separates(shared, u, v):
            return None
        return self.candidate(u, v)

    def separates(self, shared: VarSet, u: int, v: int) -> bool:
        """Returns whether S separates u from v; only a separator of the tree can."""
        if not self.separators[self.key(shared)]:
            return False
        # In different components, S = ∅ separates them.
        if self.leader_of(u) != self.leader_of(v):
            return True
        return shared != 0 and not connects(self.neighbours, u, v, shared)

    def leader_of(self, v: int) -> int:
        """Returns the leader of a vertex's component of the forward search (paths are halved)."""
        leader = self.leader
        while leader[v] != v:
            leader[v] = v = leader[leader[v]]
        return v

    def exchange(self, u: int, v: int) -> Exchange:
        """Returns the exchange by the edge uv, S = N(u) ∩ N(v).

        If uv is already an edge, S∪u counts as absorbed when only v is adjacent to all of it.
        """
        shared = self.neighbours[u] & self.neighbours[v]
        sides = [shared | 1 << u, shared | 1 << v]
        clique = sides[0] | sides[1]
        if self.neighbours[u] >> v & 1:
            absorbed = [side for side in sides if not self.common_neighbours(side) & ~clique]
        else:
            absorbed = [side for side in sides if self.key(side) in self.cliques]
        separators = [side for side in sides if side not in absorbed]
        return Exchange([clique], separators, absorbed, [shared])

    def common_neighbours(self, side: VarSet) -> VarSet:
        """Returns the vertices adjacent to every member of a set."""
        common = -1
        for v in members(side):
            common &= self.neighbours[v]
        return common

    def removable(self, pairs: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
        """Yields the edges among the pairs whose removal keeps the graph chordal and feasible."""
        for u, v in pairs:
            clique = self.neighbours[u] & self.neighbours[v] | 1 << u | 1 << v
            required = (1 << u | 1 << v) in self.problem.constraints.required_edges
            if required or not self.neighbours[u] >> v & 1 or self.key(clique) not in self.cliques:
                continue  # uv is in more than one maximal clique
            undo = self.exchange(u, v).reversed()
            fits = len(self.cliques) + undo.growth <= self.max_cliques
            if fits and not self.bad(undo.cliques_in, undo.separators_in):
                yield u, v

    def add(self, entry: CandidateEdge) -> None:
        """Adds an edge, and queues the pairs whose common neighbourhood changes."""
        u, v = entry.u, entry.v
        was_broken = self.broken
        self.apply(self.exchange(u, v))
        self.neighbours[u] |= 1 << v
        self.neighbours[v] |= 1 << u
        self.leader[self.leader_of(u)] = self.leader_of(v)
        changed = [(min(a, x), max(a, x)) for a, b in ((u, v), (v, u)) for x in members(self.neighbours[b])]
        fresh = self.candidates((a, x) for a, x in changed if a != x)
        if len(self.cliques) < self.max_cliques:
            fresh += self.waiting
            self.waiting = []
        for pair in fresh:
            heappush(self.queue, pair)
        self.added += 1
        # A tree is expensive to build: one for every n edges, and the first that meets the constraints.
        if not self.broken and (was_broken or self.added % self.problem.n == 0):
            self.report(tree=self.tree())

    def apply(self, exchange: Exchange) -> None:
        """Exchanges the parts and updates the number of bad ones."""
        self.cliques.update(map(self.key, exchange.cliques_in))
        self.cliques.difference_update(map(self.key, exchange.cliques_out))
        self.separators.update(map(self.key, exchange.separators_in))
        self.separators.subtract(map(self.key, exchange.separators_out))
        self.bad_parts += self.bad(exchange.cliques_in, exchange.separators_in)
        self.bad_parts -= self.bad(exchange.cliques_out, exchange.separators_out)

    def bad(self, cliques: list[VarSet], separators: list[VarSet]) -> int:
        """Returns how many of the parts the constraints forbid."""
        bad_cliques = sum(not self.good_clique(part) for part in cliques)
        return bad_cliques + sum(not self.good_separator(part) for part in separators)

    def gain(self, u: int, v: int) -> float:
        """Returns the gain of the edge uv, s(S∪{u,v}) + s(S) − s(S∪u) − s(S∪v), in nats."""
        shared = self.neighbours[u] & self.neighbours[v]
        sets = [shared | 1 << u | 1 << v, shared, shared | 1 << u, shared | 1 << v]
        self.scores.fetch(sets)
        clique, separator, one, other = (self.scores.values[self.key(mask)] for mask in sets)
        return (clique - one) - (other - separator)
