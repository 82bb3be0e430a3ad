"""Members of a portfolio in threads of this process, in turns: one runs at a time.

Each member has a thread, which runs only while it is the member's turn. A turn ends where a member reports or
polls its report, which every backend does all the time; so backends need no code for turns and keep their
state. A report of one member reaches the others at once.
"""

from __future__ import annotations

import threading
from contextvars import copy_context
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Unpack

from jtsolve.core.result import Outcome, Stop
from jtsolve.core.scores import StoppedError

if TYPE_CHECKING:
    from jtsolve.backends.portfolio.ledger import Job, Ledger
    from jtsolve.core.backend import News
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree

_TURN = 0.5
"""Seconds of a turn; most members report every few hundredths of a second."""


class Turns:
    """Runs jobs in turns, at most `at_a_time` in progress.

    Args:
        problem: for all.
        limits: of the run; every member has its memory and time.
        jobs: the next begins when one ends.
        at_a_time: 1 runs them one after the other, without turns.
    """

    def __init__(self, problem: Problem, limits: Limits, jobs: tuple[Job, ...], at_a_time: int) -> None:
        self.problem, self.limits, self.at_a_time = problem, limits, at_a_time
        self.waiting = list(jobs)
        self.running: list[_Member] = []  # the first has its turn
        self.changed = threading.Condition()
        self.abandoned = False

    def run(self, ledger: Ledger) -> None:
        """Runs until all jobs have ended or the ledger stops them."""
        try:
            while self.waiting and ledger.stop is None:
                self.running.append(_Member(self, self.waiting.pop(0), ledger))
                if len(self.running) == self.at_a_time or not self.waiting:
                    self.take_turns()
            while self.running:
                self.take_turns()
        except BaseException:
            self.abandoned = True  # every thread ends at its next turn
            with self.changed:
                self.changed.notify_all()
            raise

    def take_turns(self) -> None:
        """Runs the members in turns until one ends."""
        first = self.running[0]
        with self.changed:
            for member in self.running:
                if not member.thread.ident:
                    member.thread.start()
            first.began = monotonic()
            self.changed.notify_all()
            self.changed.wait_for(lambda: any(member.ended for member in self.running))
            self.running = [member for member in self.running if not member.ended]

    def hand_over(self, member: _Member) -> None:
        """Ends a member's turn if it has lasted long enough and another waits; returns at its next."""
        if len(self.running) < 2 or monotonic() - member.began < _TURN:  # noqa: PLR2004 - alone
            return
        with self.changed:
            self.running.append(self.running.pop(0))
            self.running[0].began = monotonic()
            self.changed.notify_all()
            self.await_turn(member)

    def await_turn(self, member: _Member) -> None:
        """Waits for a member's turn; the condition is held."""
        self.changed.wait_for(lambda: self.abandoned or self.running[0] is member)


class _Member:
    """A job with its thread; the report of its backend."""

    def __init__(self, turns: Turns, job: Job, ledger: Ledger) -> None:
        self.turns, self.job, self.ledger = turns, job, ledger
        self.thread = threading.Thread(target=copy_context().run, args=(self.run,), daemon=True)
        self.began = 0.0
        self.ended = False

    def run(self) -> None:
        """Waits for the first turn, and solves."""
        with self.turns.changed:
            self.turns.await_turn(self)
        limits = replace(self.turns.limits, seed=self.job.seed)
        try:
            if self.stop is None:
                self.ledger.ended(self.job, self.job.member.solve(self.turns.problem, limits, self))
        except StoppedError:
            self.ledger.ended(self.job, Outcome(None, stop=self.stop or Stop.TIME))
        except Exception as error:  # noqa: BLE001 - it is in the stats; the others' answer remains
            self.ledger.fail(self.job, error)
        finally:
            with self.turns.changed:
                self.ended = True
                self.turns.changed.notify_all()

    @property
    def stop(self) -> Stop | None:
        """See `backend.Report`."""
        if threading.get_ident() == self.thread.ident:  # not in a thread of the member's own
            self.turns.hand_over(self)
        return Stop.INTERRUPTED if self.turns.abandoned else self.ledger.stop

    @property
    def incumbent(self) -> JunctionTree | None:
        """See `backend.Report`."""
        return self.ledger.report.incumbent

    def __call__(self, **news: Unpack[News]) -> bool:
        """See `backend.Report`."""
        self.ledger.record(self.job, **news)
        return self.stop is None
