"""Members of a portfolio on Dask workers: those that search are a task each, and a proof spreads its nodes.

All begin in this process, where they take turns; many problems are solved before other processes would have
started. When the search has lasted, the members that search move to half of the workers, at least one, where
they go on from the best tree and repeat with other seeds. A proof stays, and gives its open nodes to workers.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from jtsolve.backends.portfolio.turns import Turns
from jtsolve.backends.support.report import DerivedReport
from jtsolve.backends.support.tasks import SolvesOnWorkers, more_tasks, solve_there
from jtsolve.cluster import lost
from jtsolve.core.result import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.backends.portfolio.ledger import Job, Ledger
    from jtsolve.backends.support.tasks import Tasks
    from jtsolve.core.backend import News, Report
    from jtsolve.core.result import Outcome
    from jtsolve.core.run import Limits


class Crew:
    """Runs jobs here and on workers; see `support.tasks.Work`.

    Args:
        tasks: run them.
        ledger: hears them, and knows the problem and the limits.
        jobs: those that begin here, in this order.
        more: jobs for workers only.
        at_a_time: how many run on workers at a time.
    """

    def __init__(
        self, tasks: Tasks, ledger: Ledger, jobs: Sequence[Job], more: Sequence[Job], at_a_time: int
    ) -> None:
        self.tasks, self.ledger, self.limits, self.at_a_time = tasks, ledger, ledger.limits, at_a_time
        self.waiting = list(more)
        self.running: dict[int, Job] = {}
        self.lost = False
        spreading = [job for job in jobs if isinstance(job.member, SolvesOnWorkers)]
        others = [job for job in jobs if not isinstance(job.member, SolvesOnWorkers)]
        here = replace(self.limits, threads=max(1, self.limits.workers // 2))
        ordered = (*others[:1], *spreading, *others[1:])
        turns = Turns(ledger.problem, here, ordered, 1 + len(spreading), self._solve)
        self.turns = threading.Thread(target=turns.run, args=(ledger,), daemon=True)
        self.abandon = turns.abandon

    def run(self) -> None:
        """Runs until all jobs have ended or the ledger says stop.

        Raises:
            ClusterLostError: the scheduler is gone.
        """
        self.turns.start()
        try:
            self.tasks.drive(self, DerivedReport(self.ledger.report, bool, lambda: self.ledger.stop))
        except BaseException:
            self.abandon()
            raise
        finally:
            self.turns.join()

    @property
    def moving(self) -> bool:
        """Whether members that search are to be on workers."""
        return self.tasks.site.wanted(self.limits)

    def start(self) -> bool:
        """See `support.tasks.Work`."""
        if self.lost:
            raise lost()
        while self.waiting and len(self.running) < self.at_a_time and self.moving:
            job = self.waiting.pop(0)
            number = self.tasks.submit(solve_there, job.member, limits=self.limits, seed=job.seed)
            self.running[number] = job
        waiting = bool(self.waiting) and not self.tasks.site.too_late(self.limits)
        return waiting or bool(self.running) or self.turns.is_alive()

    def hear(self, number: int, news: News) -> None:
        """See `support.tasks.Work`."""
        self.ledger.hear(self.running[number], **news)

    def ended(self, number: int, result: Outcome | None) -> None:
        """See `support.tasks.Work`."""
        job = self.running.pop(number)
        if result is not None:
            self.ledger.ended(job, result)

    def failed(self, number: int, error: Exception) -> None:
        """See `support.tasks.Work`."""
        self.ledger.fail(self.running.pop(number), error)

    def _solve(self, job: Job, limits: Limits, report: Report) -> Outcome | None:
        """Runs a job here; returns None if it moves to a worker."""
        member, problem = job.member, self.ledger.problem
        if isinstance(member, SolvesOnWorkers):
            with more_tasks(self.tasks.site) as tasks:
                outcome = member.solve_on(tasks, problem, limits, report)
            self.lost |= outcome.stop is Stop.LOST
            return outcome
        until_moving = DerivedReport(
            report, lambda news: report(**news), lambda: Stop.STEPS if self.moving else None
        )
        outcome = member.solve(problem, limits, until_moving)
        if not self.moving or report.stop is not None:
            return outcome
        self.ledger.hear(job, tree=outcome.tree, bound=outcome.bound)
        self.waiting.insert(0, job)
        return None
