"""Dynamic programming over recursive partition trees: exact, for every n and treewidth that fits the memory.

The recurrences are in `kernels.recurrence`, for few variables in `plain`. Departures from the paper, proved
in docs/dp.md:

- One table, g(C,U), built one member at a time; f needs one only if constraints forbid subsets of cliques.
- The root clique contains the last variable, so no U does: half the work and a third less memory.
- A part may itself be partitioned, and the first part contains the largest member of U: half the pairs.
- The U are processed in layers by the number of members outside a block of three variables; the sums of a
  layer run in cubes over the block, for many C side by side (`kernels.partition`).
- The tree is found by recomputing each maximum along the optimal path, never by comparing floats (`trace`).

Time: at most 4^n/4 additions for unbounded treewidth, Σ_{i≤w} C(n-1,i) 3^{n-1-i} with a bound; memory:
2·3^{n-1} numbers if unbounded. Both are known before anything is allocated (`plan`).

References:
    Kangas, Niinimäki, Koivisto, Learning chordal Markov networks by dynamic programming, NIPS 2014.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from jtsolve.backends.dp import plain, ranking
from jtsolve.backends.dp.device.plan import MOST, DevicePlan
from jtsolve.backends.dp.layers import LayeredTables
from jtsolve.backends.dp.plan import Precision, TablePlan
from jtsolve.backends.dp.ranks import rank_tables
from jtsolve.backends.dp.scores import is_closed, local_scores
from jtsolve.backends.dp.trace import Trace
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.core.cuda import DeviceChoice, choose_device, lacks_device, predicted_seconds
from jtsolve.core.machine import base_memory
from jtsolve.core.problem import LOCAL_FEATURES, Problem, ProblemFeature
from jtsolve.core.result import Outcome
from jtsolve.core.scores import DenseScores, StoppedError
from jtsolve.errors import LimitError
from jtsolve.options import BACKEND, MEMORY, TREEWIDTH

if TYPE_CHECKING:
    from collections.abc import Callable

    from jtsolve.backends.dp.trace import Tables
    from jtsolve.core.backend import SmallSolver
    from jtsolve.core.cuda import Device
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree

_SECOND_TABLE = {
    ProblemFeature.MIN_SEPARATOR_SIZE,
    ProblemFeature.MAX_SEPARATOR_SIZE,
    ProblemFeature.ALLOWED_SEPARATORS,
    ProblemFeature.FORBIDDEN_SEPARATORS,
    ProblemFeature.FORBIDDEN_CLIQUES,
}
"""Constraints under which a subset of a clique may be no clique or no separator, so that F needs a table."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run takes place.

    Attributes:
        device: None for the processor.
        precision: of the numbers.
        memory: predicted bytes of the process.
        seconds: predicted, of wall clock.
    """

    device: Device | None
    precision: Precision
    memory: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DynamicProgramming:
    """The dynamic programming over recursive partition trees. Exact, for problems that fit the memory.

    Args:
        precision: "float64"; "int64", fixed point without any rounding of sums; "int32", in half the memory;
            or "auto": the first of float64, int48 on a device, and int32 that fits, and int64 if 51 bits are
            too few for a tight bound and for breaking ties, as with scores of 10^8 nats. The bound includes
            the rounding.
        start: the backend that finds the first incumbent, or None.
        forest: the backend that solves problems of treewidth 1 if it accepts them, or None.
        device: "cpu"; "cuda", an NVIDIA device, which needs the extra `gpu`; or "auto": a device where one
            is found that accepts the problem and saves two seconds or more by prediction.
    """

    precision: Literal["auto", "float64", "int64", "int32"] = "auto"
    start: Backend | None = None
    forest: Backend | None = None
    device: DeviceChoice = "auto"

    name: ClassVar[str] = "dp"

    @property
    def capabilities(self) -> Capabilities:
        """All local constraints, on a device those that need one table; any n that `forest` accepts.

        Graphs are forbidden for few variables; see `ranking`.
        """
        on_device = self.device == "cuda"
        return Capabilities(
            features=LOCAL_FEATURES | {ProblemFeature.FORBIDDEN_GRAPHS},
            exact=True,
            max_variables=MOST if on_device else 28,
            needs_table=True,
            rules=(lacks_device, _not_on_device) if on_device else (ranking.few_variables,),
            any_size=lambda problem: self._forest_for(problem) is not None,
        )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """Returns the predicted peak memory of the process and the predicted seconds."""
        if (forest := self._forest_for(problem)) is not None:
            return forest.estimate(problem, limits)
        if problem.constraints.forbidden_graphs:
            return ranking.estimate(problem)
        plan = self.plan(problem)
        place = self.place(plan, _held_beside(plan), limits)
        return Estimate(place.memory, place.seconds)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        if (forest := self._forest_for(problem)) is not None:
            outcome = forest.solve(problem, limits, report)
            stats = {**outcome.stats, "handed_over_to": forest.name}
            return Outcome(outcome.tree, outcome.bound, outcome.stop, stats, outcome.seconds)
        if problem.constraints.forbidden_graphs:
            self.estimate(problem, limits).require_memory(self.name, limits)
            return ranking.best_permitted(problem, report)
        run = _Run(self, problem, limits, report)
        if self.start is not None and not self.start.capabilities.objections(problem):
            first = self.start.solve(problem, limits, report)
            if not report(tree=first.tree, bound=first.bound):
                return Outcome(first.tree, first.bound, report.stop or first.stop)
        return run.outcome()

    def small_solver(self, width: int) -> SmallSolver:
        """Returns a solver for batches of small problems; always in float64."""
        from jtsolve.backends.dp.batch import SmallDynamicProgramming

        return SmallDynamicProgramming(width)

    def _forest_for(self, problem: Problem) -> Backend | None:
        if self.forest is None or self.forest.capabilities.objections(problem):
            return None
        return self.forest

    def plan(self, problem: Problem) -> TablePlan:
        """Returns the tables that the constraints may need; on a device, F has none."""
        two_tables = self.device != "cuda" and bool(problem.constraints.features & _SECOND_TABLE)
        return _cached_plan(problem.n, problem.max_clique_size, two_tables)

    def place(self, plan: TablePlan, held: int, limits: Limits) -> Place:
        """Returns the best place of a run, the smallest on the processor if none has room.

        Args:
            plan: the sizes of the tables.
            held: bytes in use beside them.
            limits: of memory and threads.

        Raises:
            ChoiceError: a device is requested, but none can be used.
            LimitError: it has too little free memory.
        """
        here = [
            Place(None, one, held + plan.memory(one), plan.seconds(one, limits.workers))
            for one in self._precisions("float64", "int32")  # int64 needs as much as float64
        ]
        fitting = [place for place in here if place.memory <= limits.memory_bytes]
        unfit = plan.two_tables or plan.n > MOST
        choices = () if unfit else self._precisions("float64", "int48", "int32")
        plans = [DevicePlan(plan.n, plan.width, one) for one in choices]
        chosen = choose_device(self.device, plans, fitting[0].seconds if fitting else inf)
        if chosen is None:
            return [*fitting, here[-1]][0]
        device, on_device = chosen
        seconds = predicted_seconds(on_device, device)
        return Place(device, on_device.precision, held + on_device.host_memory, seconds)

    def _precisions(self, *choices: Precision) -> tuple[Precision, ...]:
        """Returns the precisions to try, of those of "auto"."""
        return choices if self.precision == "auto" else (self.precision,)


_cached_plan = lru_cache(maxsize=64)(TablePlan)  # `lns` solves the same shape thousands of times


def _not_on_device(problem: Problem) -> str | None:
    """A rule: objects to cliques with subsets that may be no clique or separator, and to forbidden graphs."""
    unsupported = problem.constraints.features & {*_SECOND_TABLE, ProblemFeature.FORBIDDEN_GRAPHS}
    if not problem.constraints.forbidden_graphs:
        if problem.n > MOST or (not unsupported and isinstance(problem.scores, DenseScores)):
            return None  # too many variables are another objection
        ranks = rank_tables(problem.n - 1, problem.max_clique_size)
        if is_closed(ranks, local_scores(problem, ranks, "float64")[0]):
            return None
    if unsupported:
        names = ", ".join(sorted(feature.value for feature in unsupported))
        return f"On a device it does not support {names}; device=cpu does."
    return "On a device every subset of a clique needs a score; device=cpu accepts the problem."


def _held_beside(plan: TablePlan) -> int:
    """Returns the bytes that the process holds beside the tables of a run."""
    return base_memory(kernels=not plain.KERNELS.favours_numpy(plain.seconds(plan)))


class _Run:
    """One run: local scores, tables, tree.

    Args:
        backend: with its options.
        problem: to solve.
        limits: of memory and threads.
        report: polled several times a second.

    Raises:
        ChoiceError: a device is requested, but none can be used.
        LimitError: no allowed precision fits the memory.
    """

    def __init__(self, backend: DynamicProgramming, problem: Problem, limits: Limits, report: Report) -> None:
        self.backend, self.problem, self.limits, self.report = backend, problem, limits, report
        self.seconds: dict[str, float] = {}
        self._settle(backend.plan(problem))

    def _settle(self, plan: TablePlan) -> None:
        """Finds the place of the run."""
        self.held = _held_beside(plan)
        self.plan, self.place = plan, self.backend.place(plan, self.held, self.limits)
        if self.place.memory > self.limits.memory_bytes:
            raise LimitError(self._refusal())

    def _refusal(self) -> str:
        """Returns the message for a run that does not fit: the need, the limit and the ways out."""
        plan, limit, precision = self.plan, self.limits.memory_bytes, self.place.precision
        ways = []
        if precision != "int32" and self.held + plan.memory("int32") <= limit:
            ways.append(BACKEND("dp:precision=int32"))
        for width in range(plan.width - 1, 1, -1):
            need = self.held + replace(plan, width=width).memory(precision)
            if need <= limit:
                ways.append(f"{TREEWIDTH(width - 1)} ({need / 1e9:.3g} GB)")
                break
        ways += [
            f"a larger {MEMORY}, where the machine has it",
            f"another backend, such as {BACKEND('forward')}",
        ]
        return (
            f"backend 'dp' needs {self.place.memory / 1e9:.3g} GB for {plan.n} variables at treewidth "
            f"{plan.width - 1} in {precision}, but the memory limit is {limit / 1e9:.3g} GB. "
            f"Ways out: {'; '.join(ways)}."
        )

    def outcome(self) -> Outcome:
        """Runs the recurrences and recovers the tree."""
        try:
            tables = self._timed("tables", self._prepare)
            self._timed("layers", lambda: tables.fill(self.report))
            value, tree = self._timed("tree", lambda: self._tree(tables))
        except StoppedError:
            stop = self.report.stop
            assert stop is not None, "the report stopped without a reason"
            return Outcome(None, inf, stop, self._stats(), self.seconds)
        return Outcome(tree, value, stats={**self._stats(), "ties": self.scale.ties}, seconds=self.seconds)

    def _stats(self) -> dict[str, Any]:
        stats = {
            "device": "cuda" if self.place.device else "cpu",
            "precision": self.precision,
            "additions": self.plan.additions,
            "predicted_bytes": self.place.memory - self.held,
        }
        if self.place.device:
            stats["predicted_device_bytes"] = self._on_device.memory
        return stats

    @property
    def _on_device(self) -> DevicePlan:
        return DevicePlan(self.plan.n, self.plan.width, self.precision)

    def _timed(self, name: str, part: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        try:
            return part()
        finally:
            self.seconds[name] = time.perf_counter() - began

    def _prepare(self) -> Tables:
        """Builds the rank tables and the local scores in the number type of the run, and allocates g."""
        plan, former = self.plan, self.place
        self.ranks = rank_tables(plan.m, plan.width)
        self._score()
        self._poll("scores")
        two_tables = not is_closed(self.ranks, self.local)
        if two_tables != plan.two_tables:  # holes among the scores, or constraints that exclude nothing
            self._settle(_cached_plan(plan.n, plan.width, two_tables))
            if (former.device, former.precision) != (self.place.device, self.place.precision):
                self._score()
        self._poll("tables")
        if self.place.device is not None:
            from jtsolve.backends.dp.device.run import DeviceTables

            return DeviceTables(self._on_device, self.ranks, self.local, self.place.device)
        return LayeredTables(self.plan, self.ranks, self.local, self.limits.workers)

    def _poll(self, note: str) -> None:
        if not self.report(note=note):
            raise StoppedError

    def _score(self) -> None:
        """Forms the local scores, in int64 where "auto" finds the bits of float64 too few."""
        self.precision = self.place.precision
        self.local, self.scale = local_scores(self.problem, self.ranks, self.precision)
        if self.backend.precision == "auto" and self.precision == "float64" and self.scale.is_coarse:
            self.precision = "int64"
            self.local, self.scale = local_scores(self.problem, self.ranks, self.precision)

    def _tree(self, tables: Tables) -> tuple[float, JunctionTree | None]:
        """Returns the bound in nats and an optimal tree; (-inf, None) if there is none."""
        trace = Trace(self.ranks, self.local, tables)
        value, root = trace.optimum()
        if value < max(self.local.threshold, self.scale.least):
            return -inf, None
        return self.scale.bound(value), trace.tree(root)
