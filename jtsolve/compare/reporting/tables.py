"""The figures of a comparison: a record per run, a summary per problem and per backend.

Scores and bounds are in nats, times in seconds of wall clock, memory in GB (10^9 bytes). The best known score
of a problem is the highest of all runs without a fault; the distance of a run is the best known score minus
its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from statistics import fmean, median
from typing import TYPE_CHECKING, TypeAlias

from jtsolve.compare.spec import ANSWERED, DECLINED, RunStatus
from jtsolve.core.result import optimality_tolerance

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jtsolve.compare.reporting.judge import Fault
    from jtsolve.compare.spec import Row

ProblemKey: TypeAlias = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class Record:
    """One run as a flat row of tables and files.

    Of the `seconds` of the process, `starting` precede the start of the backend, when programs and the
    instance are loaded, and `solving` are those of the backend; None if it did not start, or gave no answer.
    """

    instance: str
    n: int | None
    treewidth: int | None
    backend: str
    seed: int
    status: str
    stop: str | None
    score: float | None
    bound: float | None
    gap: float | None
    best_known: float | None
    distance: float | None
    seconds: float
    memory: float | None
    starting: float | None
    solving: float | None
    faulty: bool
    message: str
    command: str
    run: str

    @property
    def problem(self) -> ProblemKey:
        """The instance and the treewidth."""
        return self.instance, self.treewidth

    @property
    def is_proved(self) -> bool:
        """Whether the run proved optimality or infeasibility."""
        return not self.faulty and self.status in ("optimal", "infeasible")

    @property
    def is_best(self) -> bool:
        """Whether the run reached the best known score."""
        return self.distance is not None and self.distance <= optimality_tolerance(self.best_known or 0.0)


@dataclass(frozen=True, slots=True)
class ProblemSummary:
    """The best score and the least bound of a problem."""

    instance: str
    treewidth: int | None
    n: int | None
    score: float | None
    bound: float | None
    infeasible: bool

    @property
    def key(self) -> ProblemKey:
        """The instance and the treewidth."""
        return self.instance, self.treewidth

    @property
    def gap(self) -> float | None:
        """Bound minus score, in nats; None without a tree or a bound."""
        return None if self.score is None or self.bound is None else _gap(self.bound - self.score, self.score)


@dataclass(frozen=True, slots=True)
class Cell:
    """A backend on a problem: the mean distance over its seeds, and counts of runs."""

    distance: float | None
    runs: int
    found: int
    proved: int
    statuses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BackendSummary:
    """A backend over all its runs.

    `reached` counts runs with the best known score; `failed` counts killed, crashed and wrong runs.
    """

    backend: str
    exact: bool | None
    runs: int
    proved: int
    reached: int
    declined: int
    failed: int
    distance: float | None
    seconds: float
    starting: float | None
    solving: float | None
    memory: float | None


@dataclass(frozen=True)
class Comparison:
    """The rows of a comparison with their faults, and everything derived from them.

    Args:
        rows: of finished runs.
        faults: as `judge` found them.
        planned: number of runs in the plan.
    """

    rows: Sequence[Row]
    faults: Sequence[Fault]
    planned: int

    @cached_property
    def faulty(self) -> frozenset[str]:
        """The ids of the runs with a fault."""
        return frozenset(run for fault in self.faults for run in fault.runs)

    @cached_property
    def backends(self) -> list[str]:
        """The backends, in the order of the rows."""
        return list(dict.fromkeys(row.spec.backend for row in self.rows))

    @cached_property
    def exact(self) -> dict[str, bool | None]:
        """Whether a backend is exact; None if none of its runs started."""
        found: dict[str, bool | None] = dict.fromkeys(self.backends)
        for row in self.rows:
            if row.exact is not None:
                # `auto` may choose a heuristic for one problem and an exact backend for another.
                known = found[row.spec.backend]
                found[row.spec.backend] = row.exact if known is None else known and row.exact
        return found

    @cached_property
    def problems(self) -> dict[ProblemKey, ProblemSummary]:
        """A summary of each problem, without the runs with a fault."""
        groups: dict[ProblemKey, list[Row]] = {}
        for row in self.rows:
            groups.setdefault(row.spec.problem, []).append(row)
        return {key: self._problem(key, rows) for key, rows in sorted(groups.items(), key=_problem_order)}

    def _problem(self, key: ProblemKey, rows: Iterable[Row]) -> ProblemSummary:
        rows = list(rows)
        results = [
            (row, row.result) for row in rows if row.result is not None and row.spec.id not in self.faulty
        ]
        return ProblemSummary(
            *key,
            n=next((row.n for row in rows if row.n is not None), None),
            score=max((result.score for _, result in results if result.score is not None), default=None),
            bound=min((result.bound for _, result in results if result.bound is not None), default=None),
            infeasible=any(row.status is RunStatus.INFEASIBLE for row, _ in results),
        )

    @cached_property
    def records(self) -> list[Record]:
        """A record per run, ordered by problem, backend and seed."""
        place = {backend: position for position, backend in enumerate(self.backends)}
        ordered = sorted(
            self.rows,
            key=lambda row: (
                _problem_order((row.spec.problem, None)),
                place[row.spec.backend],
                row.spec.seed,
            ),
        )
        return [self._record(row) for row in ordered]

    def _record(self, row: Row) -> Record:
        spec, result = row.spec, row.result
        best = self.problems[spec.problem].score
        score = None if result is None else result.score
        bad = spec.id in self.faulty
        return Record(
            instance=spec.instance.label,
            n=row.n,
            treewidth=spec.treewidth,
            backend=spec.backend,
            seed=spec.seed,
            status=row.status.value,
            stop=None if result is None else result.stop.value,
            score=score,
            bound=None if result is None else result.bound,
            gap=None if result is None else _gap(result.gap, score),
            best_known=best,
            distance=None if score is None or best is None or bad else max(0.0, best - score),
            seconds=row.seconds,
            memory=None if row.peak_memory is None else row.peak_memory / 1e9,
            starting=row.prepared,
            solving=_solving(row),
            faulty=bad,
            message=row.message,
            command=spec.command,
            run=spec.id,
        )

    @cached_property
    def cells(self) -> dict[tuple[ProblemKey, str], Cell]:
        """A cell per problem and backend."""
        groups: dict[tuple[ProblemKey, str], list[Record]] = {}
        for record in self.records:
            groups.setdefault((record.problem, record.backend), []).append(record)
        return {
            key: Cell(
                distance=_mean(record.distance for record in group),
                runs=len(group),
                found=sum(record.distance is not None for record in group),
                proved=sum(record.is_proved for record in group),
                statuses=tuple(dict.fromkeys(record.status for record in group)),
            )
            for key, group in groups.items()
        }

    @cached_property
    def summaries(self) -> list[BackendSummary]:
        """A summary per backend."""
        return [self._summary(backend) for backend in self.backends]

    def _summary(self, backend: str) -> BackendSummary:
        records = [record for record in self.records if record.backend == backend]
        answered = {status.value for status in ANSWERED}
        declined = {status.value for status in DECLINED}
        return BackendSummary(
            backend=backend,
            exact=self.exact[backend],
            runs=len(records),
            proved=sum(record.is_proved for record in records),
            reached=sum(record.is_best for record in records),
            declined=sum(record.status in declined for record in records),
            failed=sum(record.faulty or record.status not in answered | declined for record in records),
            distance=_mean(record.distance for record in records),
            seconds=median(record.seconds for record in records),
            starting=_median(record.starting for record in records),
            solving=_median(record.solving for record in records),
            memory=max((record.memory for record in records if record.memory is not None), default=None),
        )


def _solving(row: Row) -> float | None:
    """Returns the seconds of the backend."""
    if row.result is None or row.prepared is None:
        return None
    return max(0.0, row.result.seconds["total"] - row.prepared)


def _gap(gap: float | None, score: float | None) -> float | None:
    """Returns a gap, rounded to 0 within the tolerance of optimality."""
    return 0.0 if gap is not None and gap <= optimality_tolerance(score or 0.0) else gap


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _problem_order(entry: tuple[ProblemKey, object]) -> tuple[str, float]:
    (instance, treewidth), _ = entry
    return instance, inf if treewidth is None else treewidth
