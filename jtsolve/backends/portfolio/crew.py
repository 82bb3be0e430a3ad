"""Members of a portfolio on Dask workers: those that search are a task each, and a proof spreads its nodes.

A member that spreads its work runs in a thread of this process, which only hands out its tasks. Members that
search get half of the workers, at least one; the nodes of proofs wait for the others, and for those that
become free.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from jtsolve.backends.support.report import DerivedReport
from jtsolve.backends.support.tasks import SolvesOnWorkers, more_tasks, solve_there
from jtsolve.core.result import Stop

if TYPE_CHECKING:
    from jtsolve.backends.portfolio.ledger import Job, Ledger
    from jtsolve.backends.support.tasks import Tasks
    from jtsolve.core.backend import Limits, News
    from jtsolve.core.result import Outcome


class Crew:
    """Runs jobs on workers; see `support.tasks.Work`.

    Args:
        tasks: run them.
        limits: of the run.
        jobs: those that are one task begin in this order.
        at_a_time: how many of these run at a time.
        ledger: hears them.
    """

    def __init__(
        self, tasks: Tasks, limits: Limits, jobs: tuple[Job, ...], at_a_time: int, ledger: Ledger
    ) -> None:
        self.tasks, self.limits, self.at_a_time, self.ledger = tasks, limits, at_a_time, ledger
        self.waiting = [job for job in jobs if not isinstance(job.member, SolvesOnWorkers)]
        self.running: dict[int, Job] = {}
        self.lock = threading.Lock()
        self.abandoned = False
        self.threads = [
            threading.Thread(target=self._spread, args=(job,), daemon=True)
            for job in jobs
            if isinstance(job.member, SolvesOnWorkers)
        ]

    def run(self) -> None:
        """Runs until all jobs have ended or the ledger says stop.

        Raises:
            ClusterLostError: the scheduler is gone.
        """
        self.start()
        for thread in self.threads:
            thread.start()
        try:
            self.tasks.drive(self, DerivedReport(self.ledger.report, bool, lambda: self.ledger.stop))
        except BaseException:
            self.abandoned = True
            raise
        finally:
            for thread in self.threads:
                thread.join()

    def start(self) -> bool:
        """See `support.tasks.Work`."""
        while self.waiting and len(self.running) < self.at_a_time:
            job = self.waiting.pop(0)
            number = self.tasks.submit(solve_there, job.member, limits=self.limits, seed=job.seed)
            self.running[number] = job
        return bool(self.running) or any(thread.is_alive() for thread in self.threads)

    def hear(self, number: int, news: News) -> None:
        """See `support.tasks.Work`."""
        with self.lock:
            self.ledger.hear(self.running[number], **news)

    def ended(self, number: int, result: Outcome | None) -> None:
        """See `support.tasks.Work`."""
        job = self.running.pop(number)
        if result is not None:
            self._ended(job, result)

    def failed(self, number: int, error: Exception) -> None:
        """See `support.tasks.Work`."""
        with self.lock:
            self.ledger.fail(self.running.pop(number), error)

    def _ended(self, job: Job, outcome: Outcome) -> None:
        with self.lock:
            self.ledger.ended(job, outcome)

    def _spread(self, job: Job) -> None:
        """Runs a member that spreads its work."""

        def hear(news: News) -> None:
            with self.lock:
                self.ledger.hear(job, **news)

        report = DerivedReport(
            self.ledger.report, hear, lambda: Stop.INTERRUPTED if self.abandoned else self.ledger.stop
        )
        try:
            with more_tasks(self.tasks.workers, self.tasks.shared) as tasks:
                member: Any = job.member
                self._ended(job, member.solve_on(tasks, self.ledger.problem, self.limits, report))
        except Exception as error:  # noqa: BLE001 - it is in the stats; the others' answer stands
            with self.lock:
                self.ledger.fail(job, error)
