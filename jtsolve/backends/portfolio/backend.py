"""`portfolio`: several backends at once, each in a process of its own; the best tree of all.

The members are taken in order, as many at a time as there are threads; when one ends, the next begins. More
threads than members are given to the same members again, with other seeds, but not to exact ones. Member i
has the seed of the run plus i. Every incumbent and bound goes to the parent, which verifies the trees: a tree
that breaks a constraint fails its member. When the best score meets the best bound, all end. The best tree is
what the report of each member answers as its `incumbent`: those that improve trees go on from it where their
search begins anew.

A process is an interpreter of its own (`member`), so that scripts need no guard and a crash of a
solver harms one member. Large arrays of the scores are handed over in one file, which all map. The memory
limit is divided by predicted need. An end, an interruption or a time limit ask the members to end, and kill
those that do not at once, with the processes that these have started; members end themselves if the parent
dies.

Problems of few variables, and members on one thread, are run one after the other in this process: members end
sooner there than a process starts, or processes would gain nothing.

A member that fails is named in the stats under `failed`, and the others' answer stands; if all fail, it is an
error.

Not deterministic, where members are processes: when a member learns of another's tree, and so what it finds
from there; which member is stopped when. One after the other in this process, members that end by themselves
give the same tree again. docs/heuristics.md says more.

Time: that of the members, at most as many at a time as there are threads, and about a second to start them.
Memory: that of these members together, with the large arrays of the scores once.

References:
    Gomes and Selman, Algorithm portfolios, Artificial Intelligence 126, 2001 (the same program with several
    seeds, and several programs, side by side).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from jtsolve.backends.portfolio.pool import Job, Pool
from jtsolve.core.backend import Backend, Capabilities, Estimate, Limits, Report
from jtsolve.core.machine import resident_memory
from jtsolve.core.problem import ALL_FEATURES, Problem
from jtsolve.core.result import OPTIMALITY_TOLERANCE, Outcome, Stop
from jtsolve.errors import InternalError, LimitError

if TYPE_CHECKING:
    from jtsolve.core.tree import JunctionTree

_FEW = 12
"""Variables up to which members run in this process: a process takes about a second to start."""


@dataclass(frozen=True, slots=True)
class Portfolio:
    """Several backends in parallel processes; the best tree and the best bound of all.

    It supports the constraints that some member does; on each problem, the members that object to it are left
    out.

    Args:
        members: the backends, the most promising first; the same one may be there twice, and differs by its
        seed.

    Raises:
        ValueError: there is no member.
    """

    members: tuple[Backend, ...]

    name: ClassVar[str] = "portfolio"

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError("there is no member; give at least one backend, such as lns")

    @property
    def capabilities(self) -> Capabilities:
        """What some member supports; exact if all are; a rank above theirs, on several threads."""
        each = [member.capabilities for member in self.members]

        def all_object(problem: Problem) -> str | None:
            reasons = [member.capabilities.objections(problem) for member in self.members]
            if not all(reasons):
                return None
            names = [member.name for member in self.members]
            parts = [f"{name}: {' '.join(some)}" for name, some in zip(names, reasons, strict=True)]
            return f"No member takes the problem: {' '.join(dict.fromkeys(parts))}"

        return Capabilities(
            features=ALL_FEATURES & frozenset().union(*(one.features for one in each)),
            exact=all(one.exact for one in each),
            rank=1 + max(one.rank for one in each),
            threads=2,
            rules=(all_object,),
        )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`: of those that run at a time, as many as the memory has room for."""
        plan = _plan(self, problem, limits)
        return Estimate(plan.memory, plan.seconds)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`.

        Raises:
            InternalError: all members failed.
        """
        plan = _plan(self, problem, limits)
        Estimate(plan.memory, plan.seconds).require_memory(self.name, limits)
        ledger = _Ledger(problem, report)
        if plan.here:
            _run_here(plan, problem, limits, ledger)
        else:
            Pool(problem, limits, plan.jobs, plan.at_a_time).run(ledger)
        return ledger.outcome(plan)


class _Plan(NamedTuple):
    """Who runs: the jobs in order, how many at a time, whether in this process; predicted bytes, seconds."""

    jobs: tuple[Job, ...]
    at_a_time: int
    here: bool
    memory: int
    seconds: float


def _plan(portfolio: Portfolio, problem: Problem, limits: Limits) -> _Plan:
    """Returns who runs, without what the memory has no room for; at least one member, whatever it needs."""
    taking = [one for one in portfolio.members if not one.capabilities.objections(problem)]
    costs = [one.estimate(problem, limits) for one in taking]
    here = limits.workers == 1 or problem.n <= _FEW or len(taking) == 1
    repeated = [i for i, one in enumerate(taking) if not one.capabilities.exact]
    order = list(range(len(taking)))
    while repeated and not here and len(order) < limits.workers:
        order += repeated[: limits.workers - len(order)]
    own = resident_memory()
    jobs: list[Job] = []
    for number, i in enumerate(order):
        if not jobs or (costs[i].memory if here else own + costs[i].memory) <= limits.memory_bytes:
            jobs.append(Job(number, taking[i], limits.seed + number, costs[i].memory))
    if here:
        memory = max(job.memory for job in jobs)
        return _Plan(tuple(jobs), 1, here, memory, sum(cost.seconds for cost in costs))
    at_a_time = min(limits.workers, len(jobs))
    while at_a_time > 1 and own + _largest(jobs, at_a_time) > limits.memory_bytes:
        at_a_time -= 1
    seconds = 1.0 + max(cost.seconds for cost in costs)
    return _Plan(tuple(jobs), at_a_time, here, own + _largest(jobs, at_a_time), seconds)


def _largest(jobs: list[Job], count: int) -> int:
    """Returns the bytes that the most demanding so many jobs need at once."""
    return sum(sorted((job.memory for job in jobs), reverse=True)[:count])


class _Ledger:
    """What the members have said: verifies trees, keeps the best, passes news on, says when all may end."""

    def __init__(self, problem: Problem, report: Report) -> None:
        self.problem, self.report = problem, report
        self.tree: JunctionTree | None = None
        self.score, self.bound = -inf, inf
        self.failed: dict[str, str] = {}
        self.errors: list[Exception] = []
        self.best: str | None = None
        self.stops: list[Stop] = []
        self.stats: dict[str, Any] = {}

    @property
    def closed(self) -> bool:
        """Whether the best score meets the best bound, or there is proved to be no tree."""
        return self.bound - self.score <= OPTIMALITY_TOLERANCE or self.bound == -inf

    @property
    def stop(self) -> Stop | None:
        """Why all have to end, or None."""
        return self.report.stop or (Stop.FINISHED if self.closed else None)

    @property
    def incumbent(self) -> JunctionTree | None:
        """The best tree of all members, or one from outside that is better: what our own report knows."""
        return self.report.incumbent

    def hear(self, job: Job, tree: JunctionTree | None = None, bound: float | None = None) -> None:
        """Takes a member's news.

        Raises:
            InternalError: the tree breaks a constraint.
        """
        if bound is not None and bound < self.bound:
            self.bound = bound
            self.report(bound=bound)
        if tree is None:
            return
        if not self.problem.permits(tree):
            raise InternalError(f"its tree breaks a constraint: {tree}")
        score = tree.score(self.problem.scores)
        if score > self.score:
            self.tree, self.score, self.best = tree, score, job.label
            self.report(tree=tree, note=job.label)

    def ended(self, job: Job, outcome: Outcome) -> None:
        """Takes a member's last word."""
        self.hear(job, outcome.tree, outcome.bound)
        self.stops.append(outcome.stop)
        self.stats[job.label] = dict(outcome.stats)

    def fail(self, job: Job, error: Exception) -> None:
        """Notes a member that failed."""
        self.failed[job.label] = f"{type(error).__name__}: {error}"
        self.errors.append(error)

    def outcome(self, plan: _Plan) -> Outcome:
        """Returns the best of all.

        Raises:
            LimitError: all members failed for want of memory.
            InternalError: all members failed.
        """
        order = [job.label for job in plan.jobs]
        self.failed = {label: self.failed[label] for label in order if label in self.failed}
        self.stats = {label: self.stats[label] for label in order if label in self.stats}
        if len(self.failed) == len(plan.jobs) and self.tree is None:
            reasons = " ".join(f"{label}: {reason}" for label, reason in self.failed.items())
            kind = LimitError if all(isinstance(e, LimitError) for e in self.errors) else InternalError
            raise kind(f"all members of backend 'portfolio' failed. {reasons}")
        stop = self.report.stop or Stop.FINISHED
        if stop is Stop.FINISHED and not self.closed and self.stops and Stop.FINISHED not in self.stops:
            stop = self.stops[0]
        stats: dict[str, Any] = {"best": self.best, "at_a_time": plan.at_a_time, "members": self.stats}
        if self.failed:
            stats["failed"] = self.failed
        return Outcome(self.tree, self.bound, stop, stats)


def _run_here(plan: _Plan, problem: Problem, limits: Limits, ledger: _Ledger) -> None:
    """Runs the members one after the other in this process."""
    for job in plan.jobs:
        if ledger.stop is not None:
            return
        inner = Limits(limits.time, limits.memory, limits.threads, job.seed, limits.started)
        try:
            ledger.ended(job, job.member.solve(problem, inner, _Voice(job, ledger)))
        except Exception as error:  # noqa: BLE001 - it is said in the stats; the others' answer stands
            ledger.fail(job, error)


class _Voice:
    """The report of a member in this process."""

    def __init__(self, job: Job, ledger: _Ledger) -> None:
        self._job, self._ledger = job, ledger

    @property
    def stop(self) -> Stop | None:
        return self._ledger.stop

    @property
    def incumbent(self) -> JunctionTree | None:
        return self._ledger.incumbent

    def __call__(
        self,
        *,
        tree: JunctionTree | None = None,
        bound: float | None = None,
        done: float | None = None,
        note: str | None = None,
    ) -> bool:
        self._ledger.hear(self._job, tree, bound)
        if tree is None and bound is None:
            self._ledger.report(done=done, note=note)
        return self.stop is None
