"""`portfolio`: search and proof in one backend: several backends side by side, which share trees and bounds.

By default they are `merging`, which finds the trees, and `clutter`, which proves bounds, fixes families by
the best tree of all, and branches. On several threads members run in processes (`pool`), on one they run in
turns (`turns`). The first two start at once, more on more threads; but on one thread a proof that is out of
reach waits for the search before it. When a member ends, the next starts. If there are more threads than
members, the heuristic members run again with other seeds: member i has the seed of the run plus i. Every
tree and bound is sent to the parent, which verifies the trees: a tree that breaks a constraint fails its
member. When the best score meets the best bound, all stop. The best tree of all is the `incumbent` of every
member's report: members that improve trees continue from it when they restart.

Each member runs in a separate interpreter (`member`), so that scripts need no guard and a crash harms one
member only. Large arrays of scores are in one file that all processes map. The memory limit is divided in
proportion to the predicted needs. At the end, members have a moment to stop; the others are killed with all
their descendants. If the parent dies, they kill themselves (`jtsolve.core.processes`).

With few variables, members run one after the other in this process, a heuristic one first: they end sooner
than a process starts.

A proof may never end. Without a time limit, exact members get `patience` times the time of the heuristic
ones, counted from the first bound, and ten times as long to find that bound; then the run ends with the best
tree and its gap.

A member that fails is named in the stats under `failed`, and the answer of the others is kept; if all fail,
the run is an error.

Runs in parallel are not deterministic: a member continues from another's tree when that arrives, and is
stopped when another has finished. See docs/heuristics.md.

Time: that of the members, and about a second to start processes.
Memory: that of the members that run at a time, with the large arrays of scores once.

References:
    Gomes and Selman, Algorithm portfolios, Artificial Intelligence 126, 2001 (the same program with several
    seeds, and several programs, in parallel or interleaved on one processor).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from jtsolve.backends.portfolio.ledger import Job, Ledger
from jtsolve.backends.portfolio.pool import Pool
from jtsolve.backends.portfolio.turns import Turns
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.core.estimates import estimate_of, objections_of
from jtsolve.core.machine import base_memory
from jtsolve.core.problem import ALL_FEATURES, Problem

if TYPE_CHECKING:
    from jtsolve.core.result import Outcome
    from jtsolve.core.run import Limits

_MOST_IN_PROCESS = 12
"""Variables up to which members run in this process: another takes about a second to start."""
_SIDE_BY_SIDE = 2
"""Members that run at a time even on one thread: one that searches and one that proves."""
_OUT_OF_REACH = 1e5
"""Ratio of a proof's predicted time to the time left from which on, on one thread, it waits for the search.
It is 2 million with 1,000 variables and 60 s, where `clutter` had no bound after half a minute alone, and
8,000 with 500 variables and 600 s, where it has one."""


@dataclass(frozen=True, slots=True)
class Portfolio:
    """Search and proof side by side, by several backends; the best tree and the best bound of all.

    It supports every constraint that some member supports; members that object to a problem are left out.

    Args:
        members: the backends, the most promising first; repetitions of one differ by their seeds.
        patience: without a time limit, the time of exact members after the heuristic ones have ended, as a
            multiple of the time until then; at least ten seconds.

    Raises:
        ValueError: there is no member, or the patience is negative.
    """

    members: tuple[Backend, ...]
    patience: float = 2.0

    name: ClassVar[str] = "portfolio"

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError("there is no member; give at least one backend, such as lns")
        if not self.patience >= 0:
            raise ValueError("the patience must be at least 0")

    @property
    def capabilities(self) -> Capabilities:
        """The constraints that some member supports; exact if all members are; a rank above theirs."""
        each = [member.capabilities for member in self.members]

        def all_object(problem: Problem) -> str | None:
            reasons = [objections_of(member, problem) for member in self.members]
            if not all(reasons):
                return None
            names = [member.name for member in self.members]
            parts = [f"{name}: {' '.join(some)}" for name, some in zip(names, reasons, strict=True)]
            return f"No member accepts the problem: {' '.join(dict.fromkeys(parts))}"

        return Capabilities(
            features=ALL_FEATURES & frozenset().union(*(one.features for one in each)),
            exact=all(one.exact for one in each),
            rank=1 + max(one.rank for one in each),
            rules=(all_object,),
        )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """See `Backend.estimate`: of as many members at a time as fit the memory."""
        return _schedule(self, problem, limits).estimate

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`.

        Raises:
            InternalError: all members failed.
        """
        schedule = _schedule(self, problem, limits)
        schedule.estimate.require_memory(self.name, limits)
        ledger = Ledger(problem, report, limits, schedule.jobs, self.patience)
        runner = Turns if schedule.in_process else Pool
        runner(problem, limits, schedule.jobs, schedule.at_a_time).run(ledger)
        return ledger.outcome(schedule.jobs, schedule.at_a_time)


class _Schedule(NamedTuple):
    """The jobs in order, how many run at a time, whether in this process, and their predicted cost."""

    jobs: tuple[Job, ...]
    at_a_time: int
    in_process: bool
    estimate: Estimate


def _schedule(portfolio: Portfolio, problem: Problem, limits: Limits) -> _Schedule:
    """Returns the schedule, without jobs that do not fit the memory, but always with one."""
    members = [one for one in portfolio.members if not objections_of(one, problem)]
    costs = [estimate_of(one, problem, limits) for one in members]
    few = problem.n <= _MOST_IN_PROCESS or len(members) == 1
    in_process = few or limits.workers == 1
    repeated = [i for i, one in enumerate(members) if not one.capabilities.exact]
    order = [*repeated[:1], *(i for i in range(len(members)) if i not in repeated[:1])]
    while repeated and not in_process and len(order) < limits.workers:
        order += repeated[: limits.workers - len(order)]
    own = base_memory(kernels=in_process)
    jobs: list[Job] = []
    for number, i in enumerate(order):
        if not jobs or (costs[i].memory if in_process else own + costs[i].memory) <= limits.memory_bytes:
            jobs.append(Job(number, members[i], limits.seed + number, costs[i].memory))
    # In turns, a proof costs the search time; if it is out of reach, the best search gets all of it.
    left = inf if limits.time is None else limits.time - limits.elapsed
    exact = [i for i, one in enumerate(members) if one.capabilities.exact]
    fitting = [job.member for job in jobs]
    reachable = any(members[i] in fitting and costs[i].seconds <= _OUT_OF_REACH * left for i in exact)
    least = _SIDE_BY_SIDE if reachable or not exact else 1
    at_a_time = 1 if few else min(max(least, limits.workers), len(jobs))
    if at_a_time > 1 and not in_process:
        jobs = _side_by_side(jobs, at_a_time, own, problem, limits)
    while at_a_time > 1 and _memory(jobs, at_a_time, own, in_process=in_process) > limits.memory_bytes:
        at_a_time -= 1
    predictable = (one.capabilities.predictable for one in members)
    searching = [cost.seconds for cost, known in zip(costs, predictable, strict=True) if known]
    seconds = sum(searching) if in_process else 1.0 + max(searching, default=0.0)
    cost = Estimate(_memory(jobs, at_a_time, own, in_process=in_process), seconds)
    return _Schedule(tuple(jobs), at_a_time, in_process, cost)


def _side_by_side(jobs: list[Job], count: int, own: int, problem: Problem, limits: Limits) -> list[Job]:
    """Returns the jobs with less memory for the most demanding one, if `count` of them fit only so.

    A member may predict a smaller need under a smaller limit: `clutter` ascends over all families if they
    fit, and lists fewer at a time otherwise.
    """
    largest = max(jobs, key=lambda job: job.memory)
    left = limits.memory_bytes - (_memory(jobs, count, own, in_process=False) - largest.memory)
    if largest.memory <= left or left <= 0:
        return jobs
    need = largest.member.estimate(problem, replace(limits, memory=left)).memory
    return [replace(job, memory=need) if job is largest and need <= left else job for job in jobs]


def _memory(jobs: list[Job], count: int, own: int, *, in_process: bool) -> int:
    """Returns the bytes that the `count` most demanding jobs need together; those of this process are `own`.

    Each job's need includes those of the process that it is in.
    """
    needs = sorted((job.memory for job in jobs), reverse=True)[:count]
    if in_process:
        own = min(own, needs[0])
        return own + sum(need - own for need in needs if need > own)
    return own + sum(needs)
