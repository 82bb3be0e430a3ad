"""Branch and bound whose open nodes are tasks on workers, best bound first; one proof is put together.

A task works on the subtree of one node, from the problem as a whole on, and hands back the subtree's proof
with its open nodes, packed with their multipliers. While there are fewer of these than workers it ends at its
first branching, later after some seconds. What a task that is lost had done is done again: its node is kept
here until its result comes. Nodes that are never worked on keep the bound and the multipliers of their
parent, so that a run that is stopped has a bound and a certificate, too.
"""

from __future__ import annotations

import heapq
import pickle
from collections import Counter
from dataclasses import dataclass
from math import inf
from time import monotonic, thread_time
from typing import TYPE_CHECKING, NamedTuple

from jtsolve.backends.clutter.branch_and_bound import BranchAndBound, OpenNode
from jtsolve.backends.clutter.subproblem import BestTree, Subproblem
from jtsolve.cluster import lost_memory
from jtsolve.core.result import Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.backends.clutter.bound import FixedPoint
    from jtsolve.backends.clutter.branch_and_bound import ProofNode
    from jtsolve.backends.support.tasks import Tasks
    from jtsolve.core.backend import Limits, News, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.tree import JunctionTree

_SECONDS = 2.0
"""For which a task goes on branching: some hundred times what it takes to send it."""
_MOST_NODES = 64
"""That a task works on, so that proofs are never too deep to be pickled."""


class Origin(NamedTuple):
    """What a problem as a whole settles for all its nodes.

    Attributes:
        scale: of the bounds.
        shift: of the certificate.
        floor: units below the bound of every tree.
        root: the vertex that comes first.
        families: their number.
        few: see `BranchAndBound`.
    """

    scale: FixedPoint
    shift: int
    floor: int
    root: int
    families: int
    few: int


class Waiting(NamedTuple):
    """An open node: its bound in units, its place in the proof, and the node in bytes (`packed`)."""

    units: int
    proof: ProofNode
    node: bytes


class Explored(NamedTuple):
    """The result of a task.

    Attributes:
        origin: of the problem.
        proof: of the subtree; its leaves without an end are those of `open`.
        open: the open nodes.
        settled: the largest bound of a node that is done, in units; None without one.
        tree: the best one known there.
        counts: nodes, steps, rounds and failures of the LP solver.
        seconds: processor time.
    """

    origin: Origin
    proof: ProofNode
    open: list[Waiting]
    settled: int | None
    tree: JunctionTree | None
    counts: Counter[str]
    seconds: float


@dataclass(slots=True)
class _Running:
    """A task's node, None for the problem as a whole, and the last bound told, in nats."""

    node: Waiting | None
    bound: float


class Spread:
    """The open nodes of a problem, waiting or with a task; see `support.tasks.Work`.

    Args:
        tasks: run them.
        begin: opens the search of a problem, on a worker.
        limits: of the solve.
        report: of the solve.
        keep_stages: for a certificate. Only bounds of finished tasks are then told, which it can prove.
    """

    def __init__(
        self,
        tasks: Tasks,
        begin: Callable[[Problem, Limits, Report], tuple[BranchAndBound, int]],
        problem: Problem,
        limits: Limits,
        report: Report,
        *,
        keep_stages: bool,
    ) -> None:
        self.tasks, self.problem, self.limits, self.report = tasks, problem, limits, report
        self.keep_stages = keep_stages
        self.origin: Origin | None = None
        self.proof: ProofNode | None = None
        self.waiting: list[tuple[int, int, Waiting]] = []
        self.running: dict[int, _Running] = {}
        self.pushed = 0
        self.threads = 1
        self.settled: int | None = None
        self.counts: Counter[str] = Counter()
        self.seconds = 0.0
        self.memory_lost = False
        self.running[tasks.submit(explore_all, begin, limits=limits)] = _Running(None, inf)

    def run(self) -> Stop:
        """Works until no node is open, or it has to stop; returns why it stopped."""
        self.tasks.drive(self, self.report)
        for task in self.running.values():  # what it had is as it was
            self._push(task.node)
        self.running.clear()
        if not self.waiting and self.proof is not None:
            return Stop.FINISHED
        return Stop.MEMORY if self.memory_lost else self.report.stop or Stop.INTERRUPTED

    @property
    def bound(self) -> float:
        """The best bound, in nats; inf before there is one."""
        found = [task.bound for task in self.running.values()]
        if self.origin is None:
            return max(found, default=inf)
        units = [-key for key, _, _ in self.waiting[:1]]
        units += [] if self.settled is None else [self.settled]
        found += map(self.origin.scale.nats, units)
        return max([self._score, *found])

    @property
    def _score(self) -> float:
        tree = self.report.incumbent
        return -inf if tree is None else tree.score(self.problem.scores)

    def start(self) -> bool:
        """See `support.tasks.Work`."""
        if self.memory_lost:
            return bool(self.running)
        while self.waiting and len(self.running) < self.threads:
            _, _, node = heapq.heappop(self.waiting)
            assert self.origin is not None, "the first task has ended"
            many = len(self.waiting) + len(self.running) + 1 >= self.threads
            number = self.tasks.submit(
                explore, self.origin, node.node, _SECONDS if many else 0.0, limits=self.limits
            )
            self.running[number] = _Running(node, self.origin.scale.nats(node.units))
        return bool(self.running)

    def hear(self, number: int, news: News) -> None:
        """See `support.tasks.Work`."""
        tree, bound = news.get("tree"), news.get("bound")
        if tree is not None and self.problem.permits(tree):
            self.report(tree=tree)
        if bound is not None and not self.keep_stages:
            task = self.running[number]
            task.bound = min(task.bound, bound)
            self.report(bound=self.bound, note=self._note)

    def ended(self, number: int, result: Explored | None) -> None:
        """See `support.tasks.Work`."""
        node = self.running.pop(number).node
        self.threads = self.tasks.workers.threads  # workers come and go
        if result is None:
            self._push(node)
            return
        if node is None:
            self.origin, self.proof = result.origin, result.proof
            place = result.proof
        else:
            place = node.proof
            place.grow(result.proof)
        for one in result.open:  # the root of the subtree, if it was interrupted, keeps its place
            self._push(one._replace(proof=place) if one.proof is result.proof else one)
        if result.tree is not None and self.problem.permits(result.tree):
            self.report(tree=result.tree)
        self.settled = max((u for u in (self.settled, result.settled) if u is not None), default=None)
        self.counts.update(result.counts)
        self.seconds += result.seconds
        self.report(bound=self.bound, note=self._note)

    def failed(self, number: int, error: Exception) -> None:
        """See `support.tasks.Work`."""
        if not lost_memory(error):
            raise error
        self._push(self.running.pop(number).node)
        self.memory_lost = True

    @property
    def _note(self) -> str:
        return f"{len(self.waiting)} open subproblems, {len(self.running)} on workers"

    def _push(self, node: Waiting | None) -> None:
        if node is not None:
            self.pushed += 1
            heapq.heappush(self.waiting, (-node.units, self.pushed, node))


def explore_all(
    problem: Problem,
    limits: Limits,
    report: Report,
    begin: Callable[[Problem, Limits, Report], tuple[BranchAndBound, int]],
) -> Explored:
    """Works on a problem as a whole until it branches; a task."""
    search, families = begin(problem, limits, report)
    vertex = search.root.subproblem.families.root
    origin = Origin(search.scale, search.shift, search.best.floor, vertex, families, search.few)
    return _explored(search, origin, 0.0)


def explore(  # noqa: PLR0917 - the first three are those of every task
    problem: Problem, limits: Limits, report: Report, origin: Origin, node: bytes, seconds: float
) -> Explored:
    """Works on a node and those below it for some seconds, at least until it branches; a task."""
    state, decided, creep = pickle.loads(node)  # noqa: S301 - from our tasks
    best = BestTree(problem, report, origin.scale, origin.floor)
    tree = report.incumbent
    if tree is not None:
        best.offer(tree)
    search = BranchAndBound(
        OpenNode(Subproblem.unpacked(state, best), decided, creep), limits, few=origin.few
    )
    return _explored(search, origin, seconds)


def _explored(search: BranchAndBound, origin: Origin, seconds: float) -> Explored:
    """Runs a search for some seconds; returns its result."""
    began, spent = monotonic(), thread_time()
    search.run(lambda: search.nodes > 0 and (monotonic() >= began + seconds or search.nodes >= _MOST_NODES))
    return Explored(
        origin,
        search.root.proof,
        [Waiting(node.subproblem.units, node.proof, packed(node)) for _, _, node in search.open],
        search.settled,
        search.best.tree,
        Counter(nodes=search.nodes, steps=search.steps, rounds=search.rounds, lp_failures=search.failures),
        thread_time() - spent,
    )


def packed(node: OpenNode) -> bytes:
    """Returns a node without its proof and the best tree."""
    return pickle.dumps((node.subproblem.packed(), node.decided, node.creep))
