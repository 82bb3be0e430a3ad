"""Branch and bound whose open nodes are tasks on workers, best bound first; one proof is put together.

It begins in the process that solves, as without workers: the problem as a whole is bounded there. When that
has lasted, the open nodes go to workers. A task works on the subtrees of some nodes, and hands back their
proofs with their open nodes, packed with their multipliers. While there are fewer of these than workers it
ends at its first branching, later after a few seconds. It has a share of the nodes that wait: tasks are few
while many wait, and small at the end (guided self-scheduling). What a task that is lost had done is done
again: its nodes are kept here until its result comes. Nodes that are never worked on keep the bound and the
multipliers of their parent, so that a run that is stopped has a bound and a certificate, too.

Reference: Polychronopoulos and Kuck, Guided self-scheduling, IEEE Transactions on Computers 1987.
"""

from __future__ import annotations

import heapq
import pickle
from dataclasses import dataclass
from time import thread_time
from typing import TYPE_CHECKING, NamedTuple

from jtsolve.backends.clutter.branch_and_bound import BranchAndBound, OpenNode
from jtsolve.backends.clutter.subproblem import BestTree, Subproblem
from jtsolve.cluster import ClusterLostError, lost_memory
from jtsolve.core.result import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.backends.clutter.bound import FixedPoint
    from jtsolve.backends.clutter.branch_and_bound import ProofNode
    from jtsolve.backends.support.tasks import Tasks
    from jtsolve.core.backend import News, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree

_SECONDS = 2.0
"""For which a task goes on branching: a few hundred times what it takes to send it."""
_MOST_NODES = 64
"""That a task works on, so that proofs are never too deep to be pickled."""
_SHARES = 2
"""For each worker: a task has one such share of the nodes that wait, and at most a quarter of the above."""


class Origin(NamedTuple):
    """What a problem as a whole settles for all its nodes.

    Attributes:
        scale: of the bounds.
        floor: units below the bound of every tree.
        few: see `BranchAndBound`.
    """

    scale: FixedPoint
    floor: int
    few: int


class Waiting(NamedTuple):
    """An open node: its bound in units, its place in the proof, and the node in bytes (`packed`)."""

    units: int
    proof: ProofNode
    node: bytes


class Explored(NamedTuple):
    """The result of a task.

    Attributes:
        proofs: of the subtrees; their leaves without an end are those of `open`.
        open: the open nodes.
        settled: the largest bound of a node that is done, in units; None without one.
        tree: the best one known there.
        nodes: their number, with those that are open no more.
        steps: of the volume algorithm, and evaluations of the smoothed bound.
        rounds: of the simplex method.
        failures: of the LP solver.
        seconds: processor time.
    """

    proofs: list[ProofNode]
    open: list[Waiting]
    settled: int | None
    tree: JunctionTree | None
    nodes: int
    steps: int
    rounds: int
    failures: int
    seconds: float


@dataclass(slots=True)
class _Running:
    """A task's nodes, and the last bound told, in nats."""

    nodes: list[Waiting]
    bound: float


class Spread:
    """The open nodes of a search, waiting or with a task; see `support.tasks.Work`.

    Args:
        tasks: run them.
        search: has branched; its nodes become those of this.
        limits: of the solve.
        report: of the solve. With a certificate it is told bounds of finished tasks only, which has a proof.
    """

    def __init__(self, tasks: Tasks, search: BranchAndBound, limits: Limits, report: Report) -> None:
        self.tasks, self.search, self.limits, self.report = tasks, search, limits, report
        self.keep_stages = search.root.proof.stages is not None
        self.origin = Origin(search.scale, search.best.floor, search.few)
        self.waiting: list[tuple[int, int, Waiting]] = []
        self.running: dict[int, _Running] = {}
        self.pushed = 0
        self.threads = tasks.site.threads
        self.seconds = 0.0
        self.memory_lost = False
        for node in _opened(search):
            self._push(node)
        search.open.clear()

    def run(self) -> Stop:
        """Works until no node is open, or it has to stop; returns why it stopped."""
        lost = False
        try:
            self.tasks.drive(self, self.report)
        except ClusterLostError:
            lost = True
        for task in self.running.values():  # what it had is as it was
            self._push(*task.nodes)
        self.running.clear()
        if not self.waiting:
            return Stop.FINISHED
        if lost:
            return Stop.LOST
        return Stop.MEMORY if self.memory_lost else self.report.stop or Stop.INTERRUPTED

    @property
    def bound(self) -> float:
        """The best bound, in nats."""
        units = [-key for key, _, _ in self.waiting[:1]]
        units += [] if self.search.settled is None else [self.search.settled]
        found = [*map(self.origin.scale.nats, units), *(task.bound for task in self.running.values())]
        return max([self.search.best.score, *found])

    def start(self) -> bool:
        """See `support.tasks.Work`."""
        if self.memory_lost:
            return bool(self.running)
        while self.waiting and len(self.running) < self.threads:
            many = len(self.waiting) + len(self.running) >= self.threads
            share = min(_MOST_NODES // 4, len(self.waiting) // (_SHARES * self.threads))
            nodes = [heapq.heappop(self.waiting)[2] for _ in range(max(1, share))]
            arguments = self.origin, [node.node for node in nodes], _SECONDS if many else 0.0
            try:
                number = self.tasks.submit(explore, *arguments, limits=self.limits)
            except ClusterLostError:
                self._push(*nodes)
                raise
            self.running[number] = _Running(nodes, self.origin.scale.nats(nodes[0].units))
        return bool(self.running)

    def hear(self, number: int, news: News) -> None:
        """See `support.tasks.Work`."""
        tree, bound = news.get("tree"), news.get("bound")
        if tree is not None:
            self.search.best.offer(tree)
        if bound is not None and not self.keep_stages:
            task = self.running[number]
            task.bound = min(task.bound, bound)
            self.report(bound=self.bound, note=self._note)

    def ended(self, number: int, result: Explored | None) -> None:
        """See `support.tasks.Work`."""
        nodes = self.running.pop(number).nodes
        if result is None:
            self._push(*nodes)
        else:
            self._take(nodes, result)
        # Workers come and go. This comes last, as it raises where the scheduler has gone.
        self.threads = self.tasks.site.workers.threads

    def _take(self, nodes: Sequence[Waiting], result: Explored) -> None:
        """Takes what was found below some nodes."""
        ours = {id(proof): node.proof for node, proof in zip(nodes, result.proofs, strict=True)}
        for node, proof in zip(nodes, result.proofs, strict=True):
            node.proof.grow(proof)
        for one in result.open:  # the root of a subtree, if it is still open, keeps its place
            self._push(one._replace(proof=ours.get(id(one.proof), one.proof)))
        search = self.search
        if result.tree is not None:
            search.best.offer(result.tree)
        search.settled = max((u for u in (search.settled, result.settled) if u is not None), default=None)
        search.nodes += result.nodes
        search.steps += result.steps
        search.rounds += result.rounds
        search.failures += result.failures
        self.seconds += result.seconds
        self.report(bound=self.bound, note=self._note)

    def failed(self, number: int, error: Exception) -> None:
        """See `support.tasks.Work`."""
        if not lost_memory(error):
            raise error
        self._push(*self.running.pop(number).nodes)
        self.memory_lost = True

    @property
    def _note(self) -> str:
        return f"{len(self.waiting)} open subproblems, {len(self.running)} on workers"

    def _push(self, *nodes: Waiting) -> None:
        for node in nodes:
            self.pushed += 1
            heapq.heappush(self.waiting, (-node.units, self.pushed, node))


def explore(  # noqa: PLR0917 - the first three are those of every task
    problem: Problem, limits: Limits, report: Report, origin: Origin, nodes: list[bytes], seconds: float
) -> Explored:
    """Works on nodes and those below them for a few seconds, at least until one branches; a task."""
    best = BestTree(problem, report, origin.scale, origin.floor)
    tree = report.incumbent
    if tree is not None:
        best.offer(tree)
    roots = []
    for node in nodes:
        state, decided, creep, turned = pickle.loads(node)  # noqa: S301 - from our tasks
        roots.append(OpenNode(Subproblem.unpacked(state, best), decided, creep, turned=turned))
    return _explored(BranchAndBound(roots[0], limits, few=origin.few, more=roots[1:]), seconds)


def _explored(search: BranchAndBound, seconds: float) -> Explored:
    """Runs a search for a few seconds of processor time; returns its result."""
    spent = thread_time()
    proofs = [node.proof for _, _, node in sorted(search.open, key=lambda entry: entry[1])]
    search.run(lambda: search.nodes > 0 and (thread_time() - spent >= seconds or search.nodes >= _MOST_NODES))
    return Explored(
        proofs,
        _opened(search),
        search.settled,
        search.best.tree,
        search.nodes,
        search.steps,
        search.rounds,
        search.failures,
        thread_time() - spent,
    )


def _opened(search: BranchAndBound) -> list[Waiting]:
    """Returns the open nodes of a search."""
    return [Waiting(node.subproblem.units, node.proof, packed(node)) for _, _, node in search.open]


def packed(node: OpenNode) -> bytes:
    """Returns a node without its proof and the best tree."""
    return pickle.dumps((node.subproblem.packed(), node.decided, node.creep, node.turned))
