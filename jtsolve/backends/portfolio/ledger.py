"""The ledger of a portfolio: the best tree and bound that its members have reported, and who failed."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Unpack

from jtsolve.core.result import Outcome, Stop, optimality_tolerance
from jtsolve.errors import InternalError, LimitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.core.backend import Backend, News, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree

_LEAST_PATIENCE = 10.0
"""Seconds."""
_WITHOUT_A_BOUND = 10
"""Times the patience until there is a first bound."""
_LEAST_FOR_TIES, _SHARE_FOR_TIES = 1.0, 0.1
"""Time of the prover to find the sparsest tree after the proof: seconds, or a share of those until it."""


@dataclass(frozen=True, slots=True)
class Job:
    """A member with its seed and predicted memory in bytes; `number` is unique in a run."""

    number: int
    member: Backend
    seed: int
    memory: int

    @property
    def label(self) -> str:
        """The member's name in stats and notes."""
        return f"{self.member.name} {self.number}"


class Ledger:
    """Verifies the members' trees, keeps the best, passes news on, and decides when all stop.

    Members may be in several threads.
    """

    def __init__(
        self, problem: Problem, report: Report, limits: Limits, jobs: Sequence[Job], patience: float
    ) -> None:
        self.problem, self.report, self.limits, self.patience = problem, report, limits, patience
        self.searching = {job.label for job in jobs if not job.member.capabilities.exact}
        # Without a heuristic member there is nothing to wait for but the proof.
        self.unlimited = bool(self.searching) and limits.time is None
        self.searched: float | None = None  # seconds until the last heuristic member ended
        self.bounded = 0.0  # seconds until the first bound
        self.tree: JunctionTree | None = None
        self.score, self.bound = -inf, inf
        self.failed: dict[str, str] = {}
        self.errors: list[Exception] = []
        self.best: str | None = None
        self.bounding: str | None = None
        self.stops: list[Stop] = []
        self.stats: dict[str, Any] = {}
        self._lock = threading.RLock()
        self.proving: set[str] = set()
        self.ties: str | None = None
        self.ties_end = inf

    @property
    def closed(self) -> bool:
        """Whether the best score meets the best bound, or there is proved to be no tree."""
        found = self.score > -inf and self.bound - self.score <= optimality_tolerance(self.score)
        return found or self.bound == -inf

    @property
    def stop(self) -> Stop | None:
        """Why all members have to stop, or None."""
        if self.closed:
            breaking_ties = self.proving and self.ties is None and self.limits.elapsed < self.ties_end
            return self.report.stop or (None if breaking_ties else Stop.FINISHED)
        return self.report.stop or (Stop.STEPS if self._is_late else None)

    @property
    def _is_late(self) -> bool:
        """Whether patience is exhausted; it starts again at the first bound, before which sets are scored."""
        if not self.unlimited or self.searched is None:
            return False
        patience = max(_LEAST_PATIENCE, self.patience * self.searched)
        if self.bound == inf:
            patience *= _WITHOUT_A_BOUND
        return self.limits.elapsed > max(self.searched, self.bounded) + patience

    def _has_ended(self, job: Job) -> None:
        """Records the end of a member, and the time at which the last heuristic one ended."""
        self.searching.discard(job.label)
        self.proving.discard(job.label)
        if self.searched is None and not self.searching:
            self.searched = self.limits.elapsed

    def record(self, job: Job, **news: Unpack[News]) -> None:
        """Records news of a member.

        Raises:
            InternalError: the tree breaks a constraint.
        """
        tree, bound = news.get("tree"), news.get("bound")
        with self._lock:
            if bound is not None and bound < self.bound:
                self.bounded = self.limits.elapsed if self.bound == inf else self.bounded
                self.bound, self.bounding = bound, job.label
                self.report(bound=bound)
                if job.member.capabilities.exact:
                    self.proving.add(job.label)
            if tree is None and bound is None:
                self.report(**news)
            elif tree is not None and tree is not self.tree:
                if not self.problem.permits(tree):
                    raise InternalError(f"its tree breaks a constraint: {tree}")
                score = tree.score(self.problem.scores)
                if score > self.score:
                    self.tree, self.score, self.best = tree, score, job.label
                    self.report(tree=tree, note=job.member.name)
            if self.closed and self.ties_end == inf:
                elapsed = self.limits.elapsed
                self.ties_end = elapsed + max(_LEAST_FOR_TIES, _SHARE_FOR_TIES * elapsed)

    def ended(self, job: Job, outcome: Outcome) -> None:
        """Records the outcome of a member.

        Raises:
            InternalError: the tree breaks a constraint.
        """
        with self._lock:
            self.record(job, tree=outcome.tree, bound=outcome.bound)
            self._has_ended(job)
            if self.closed and outcome.stats.get("ties"):
                self.tree, self.ties = outcome.tree, outcome.stats["ties"]
            self.stops.append(outcome.stop)
            self.stats[job.label] = dict(outcome.stats)

    def fail(self, job: Job, error: Exception) -> None:
        """Records a member's failure."""
        with self._lock:
            self._has_ended(job)
            self.errors.append(error)
            self.failed[job.label] = f"{type(error).__name__}: {error}"

    def outcome(self, jobs: Sequence[Job], at_a_time: int) -> Outcome:
        """Returns the best tree and bound.

        Raises:
            LimitError: all members ran out of memory.
            InternalError: all members failed.
        """
        order = [job.label for job in jobs]
        self.failed = {label: self.failed[label] for label in order if label in self.failed}
        self.stats = {label: self.stats[label] for label in order if label in self.stats}
        if len(self.failed) == len(jobs) and self.tree is None:
            reasons = " ".join(f"{label}: {reason}" for label, reason in self.failed.items())
            kind = LimitError if all(isinstance(e, LimitError) for e in self.errors) else InternalError
            raise kind(f"all members of backend 'portfolio' failed. {reasons}")
        stop = self.stop or Stop.FINISHED
        if stop is Stop.FINISHED and not self.closed and self.stops and Stop.FINISHED not in self.stops:
            stop = self.stops[0]
        stats: dict[str, Any] = {
            "best": self.best,
            "bound": self.bounding,
            "at_a_time": at_a_time,
            "members": self.stats,
        }
        if self.ties:
            stats["ties"] = self.ties
        if self.failed:
            stats["failed"] = self.failed
        return Outcome(self.tree, self.bound, stop, stats)
