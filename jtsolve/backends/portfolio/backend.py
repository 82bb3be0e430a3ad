"""`portfolio`: several backends in parallel processes; the best tree and the best bound of all.

The members start in order, as many at a time as there are threads; when one ends, the next starts. If there
are more threads than members, the heuristic members run again with other seeds: member i has the seed of the
run plus i. Every tree and bound goes to the parent, which verifies the trees: a tree that breaks a constraint
fails its member. When the best score meets the best bound, all stop. The best tree of all is the `incumbent`
of every member's report: those that improve trees continue from it when they restart.

Each member runs in a separate interpreter (`member`), so that scripts need no guard and a crash harms one
member only. Large arrays of scores are in one file that all processes map. The memory limit is divided by
predicted need. At the end, members are asked to stop, and those that do not stop at once are killed with all
their descendants; if the parent dies, they kill themselves (`jtsolve.core.processes`).

Problems of few variables, and members on one thread, run sequentially in this process: they end sooner than a
process starts, or processes would gain nothing.

A member that fails is named in the stats under `failed`, and the answer of the others stands; if all fail, it
is an error.

Members in processes are not deterministic: when one learns of another's tree, and so what it finds from
there, is a matter of timing, as is which one is stopped when. See docs/heuristics.md.

Time: that of the members, at most as many at a time as there are threads, and about a second to start them.
Memory: that of the members that run at a time, with the large arrays of scores once.

References:
    Gomes and Selman, Algorithm portfolios, Artificial Intelligence 126, 2001 (the same program with several
    seeds, and several programs, in parallel).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from jtsolve.backends.portfolio.ledger import Job, Ledger
from jtsolve.backends.portfolio.pool import Pool
from jtsolve.backends.support.report import DerivedReport
from jtsolve.core.backend import Backend, Capabilities, Estimate, Limits, Report
from jtsolve.core.machine import resident_memory
from jtsolve.core.problem import ALL_FEATURES, Problem
from jtsolve.core.result import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.backend import News
    from jtsolve.core.result import Outcome

_MOST_IN_PROCESS = 12
"""Variables up to which members run in this process: another takes about a second to start."""


@dataclass(frozen=True, slots=True)
class Portfolio:
    """Several backends in parallel processes; the best tree and the best bound of all.

    It supports every constraint that some member supports; members that object to a problem are left out.

    Args:
        members: the backends, the most promising first; repetitions of one differ by their seeds.

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
        """See `Backend.estimate`: of as many members at a time as fit the memory."""
        return _schedule(self, problem, limits).estimate

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`.

        Raises:
            InternalError: all members failed.
        """
        schedule = _schedule(self, problem, limits)
        schedule.estimate.require_memory(self.name, limits)
        ledger = Ledger(problem, report)
        if schedule.in_process:
            _run_in_process(schedule.jobs, problem, limits, ledger)
        else:
            Pool(problem, limits, schedule.jobs, schedule.at_a_time).run(ledger)
        return ledger.outcome(schedule.jobs, schedule.at_a_time)


class _Schedule(NamedTuple):
    """The jobs in order, how many run at a time, whether in this process, and their predicted cost."""

    jobs: tuple[Job, ...]
    at_a_time: int
    in_process: bool
    estimate: Estimate


def _schedule(portfolio: Portfolio, problem: Problem, limits: Limits) -> _Schedule:
    """Returns the schedule, without jobs that do not fit the memory, but always with one."""
    taking = [one for one in portfolio.members if not one.capabilities.objections(problem)]
    costs = [one.estimate(problem, limits) for one in taking]
    in_process = limits.workers == 1 or problem.n <= _MOST_IN_PROCESS or len(taking) == 1
    repeated = [i for i, one in enumerate(taking) if not one.capabilities.exact]
    order = list(range(len(taking)))
    while repeated and not in_process and len(order) < limits.workers:
        order += repeated[: limits.workers - len(order)]
    own = resident_memory()
    jobs: list[Job] = []
    for number, i in enumerate(order):
        if not jobs or (costs[i].memory if in_process else own + costs[i].memory) <= limits.memory_bytes:
            jobs.append(Job(number, taking[i], limits.seed + number, costs[i].memory))
    if in_process:
        cost = Estimate(max(job.memory for job in jobs), sum(cost.seconds for cost in costs))
        return _Schedule(tuple(jobs), 1, in_process, cost)
    at_a_time = min(limits.workers, len(jobs))
    while at_a_time > 1 and own + _largest(jobs, at_a_time) > limits.memory_bytes:
        at_a_time -= 1
    cost = Estimate(own + _largest(jobs, at_a_time), 1.0 + max(cost.seconds for cost in costs))
    return _Schedule(tuple(jobs), at_a_time, in_process, cost)


def _largest(jobs: list[Job], count: int) -> int:
    """Returns the bytes that the `count` most demanding jobs need together."""
    return sum(sorted((job.memory for job in jobs), reverse=True)[:count])


def _run_in_process(jobs: Sequence[Job], problem: Problem, limits: Limits, ledger: Ledger) -> None:
    """Runs the members sequentially in this process."""
    for job in jobs:
        if ledger.stop is not None:
            return
        inner = Limits(limits.time, limits.memory, limits.threads, job.seed, limits.started)

        def hear(news: News, job: Job = job) -> None:
            ledger.hear(job, **news)

        report = DerivedReport(ledger.report, hear, lambda: Stop.FINISHED if ledger.closed else None)
        try:
            ledger.ended(job, job.member.solve(problem, inner, report))
        except Exception as error:  # noqa: BLE001 - it is in the stats; the others' answer stands
            ledger.fail(job, error)
