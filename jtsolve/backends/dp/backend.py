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

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from math import inf
from operator import setitem
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from jtsolve.backends.dp import plain, ranking
from jtsolve.backends.dp.batch import SmallDynamicProgramming
from jtsolve.backends.dp.device.plan import MOST, DevicePlan
from jtsolve.backends.dp.plan import COSTS, LANES, Precision, TableClass, TablePlan
from jtsolve.backends.dp.ranks import rank_tables, table_offsets
from jtsolve.backends.dp.scores import is_closed, local_scores
from jtsolve.backends.dp.trace import Trace
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.core.cuda import DeviceChoice, choose_device, lacks_device, not_on_device
from jtsolve.core.lazy_kernels import LazyKernels
from jtsolve.core.machine import resident_memory
from jtsolve.core.problem import LOCAL_FEATURES, Problem, ProblemFeature
from jtsolve.core.renaming import rename
from jtsolve.core.result import Outcome
from jtsolve.core.scores import DenseScores, StoppedError
from jtsolve.core.threads import run_tasks
from jtsolve.errors import ChoiceError, LimitError, RefusedError
from jtsolve.options import BACKEND, MEMORY, TREEWIDTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.backend import SmallSolver
    from jtsolve.core.cuda import Device
    from jtsolve.core.run import Limits
    from jtsolve.core.tree import JunctionTree

_KERNELS = LazyKernels("jtsolve.backends.dp.kernels.recurrence")

_SECOND_TABLE = {
    ProblemFeature.MIN_SEPARATOR_SIZE,
    ProblemFeature.MAX_SEPARATOR_SIZE,
    ProblemFeature.ALLOWED_SEPARATORS,
    ProblemFeature.FORBIDDEN_SEPARATORS,
    ProblemFeature.FORBIDDEN_CLIQUES,
}
"""Constraints under which a subset of a clique may be no clique or no separator, so that F needs a table."""

_HOLES = "On a device every subset of a clique needs a score; device=cpu accepts the problem."


@dataclass(frozen=True, slots=True)
class DynamicProgramming:
    """The dynamic programming over recursive partition trees. Exact, for problems that fit the memory.

    Args:
        precision: "float64"; "int64", fixed point without any rounding of sums; "int48", the same in three
            quarters of the memory, on a device; "int32", in half the memory; or "auto": the first of float64,
            int48 on a device, and int32 that fits, and int64 if 51 bits are too few for a tight bound and for
            breaking ties, as with scores of 10^8 nats. The bound includes the rounding.
        start: the backend that finds the first incumbent, or None.
        forest: the backend that solves problems of treewidth 1 if it accepts them, or None.
        device: "cpu"; "cuda", an NVIDIA device, which needs the extra `gpu`; or "auto": a device where one
            is found that accepts the problem and saves two seconds or more by prediction.
    """

    precision: Literal["auto", "float64", "int64", "int48", "int32"] = "auto"
    start: Backend | None = None
    forest: Backend | None = None
    device: DeviceChoice = "auto"

    name: ClassVar[str] = "dp"

    def __post_init__(self) -> None:
        if self.precision == "int48" and self.device == "cpu":
            raise ChoiceError("backend 'dp' has int48 on a device only: use int64 or int32, or device=cuda")

    @property
    def capabilities(self) -> Capabilities:
        """All local constraints, on a device those that need one table; any n that `forest` accepts.

        Graphs are forbidden for few variables; see `ranking`.
        """
        rules = (
            lacks_device,
            not_on_device({*_SECOND_TABLE, ProblemFeature.FORBIDDEN_GRAPHS}),
            _lacks_subsets,
        )
        return Capabilities(
            features=LOCAL_FEATURES | {ProblemFeature.FORBIDDEN_GRAPHS},
            exact=True,
            max_variables=MOST if self._wants_device else 28,
            needs_table=True,
            rules=rules if self._wants_device else (ranking.few_variables,),
            any_size=lambda problem: self._forest_for(problem) is not None,
        )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """Returns the predicted peak memory of the process and the predicted seconds."""
        if (forest := self._forest_for(problem)) is not None:
            return forest.estimate(problem, limits)
        if problem.constraints.forbidden_graphs:
            return ranking.estimate(problem)
        plan = _plan(problem)
        held = _memory_at_start()
        if (chosen := self._on_device(plan, held, limits)) is not None:
            device, on_device = chosen
            return Estimate(held + on_device.host_memory, on_device.seconds(device.speed))
        precision = self._fitting(plan, limits.memory_bytes - held) or self._smallest
        return Estimate(held + plan.memory(precision), plan.seconds(precision, limits.workers))

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        if (forest := self._forest_for(problem)) is not None:
            outcome = forest.solve(problem, limits, report)
            stats = {**outcome.stats, "handed_over_to": forest.name}
            return Outcome(outcome.tree, outcome.bound, outcome.stop, stats, outcome.seconds)
        if problem.constraints.forbidden_graphs:
            self.estimate(problem, limits).require_memory(self.name, limits)
            return ranking.best_permitted(problem, report)
        plan = _plan(problem)
        held = _memory_at_start()
        precision = None
        if (chosen := self._on_device(plan, held, limits)) is None:
            precision = self.fitting(plan, held, limits.memory_bytes)
        else:
            Estimate(held + chosen[1].host_memory, 0.0).require_memory(self.name, limits)
        if self.start is not None and not self.start.capabilities.objections(problem):
            first = self.start.solve(problem, limits, report)
            if not report(tree=first.tree, bound=first.bound):
                return Outcome(first.tree, first.bound, report.stop or first.stop)
        if chosen is not None:
            from jtsolve.backends.dp.device.run import solve_on_device

            device, on_device = chosen
            found = solve_on_device(problem, on_device, device, report, adapts=self.precision == "auto")
            device.free()  # for other processes
            if found is not None:
                return found
            if self._wants_device:
                raise RefusedError(self.name, [_HOLES])
        precision = precision or self.fitting(plan, held, limits.memory_bytes)
        return _LayeredRun(self, problem, plan, precision, held, limits, report).outcome()

    def small_solver(self, width: int) -> SmallSolver:
        """Returns a solver for batches of small problems; always in float64."""
        return SmallDynamicProgramming(width)

    def _forest_for(self, problem: Problem) -> Backend | None:
        if self.forest is None or self.forest.capabilities.objections(problem):
            return None
        return self.forest

    def fitting(self, plan: TablePlan, held: int, limit: int) -> Precision:
        """Returns the precision of a run in the memory left.

        Args:
            plan: the sizes of the tables.
            held: bytes in use beside them.
            limit: bytes in all.

        Raises:
            LimitError: no allowed precision fits the memory limit.
        """
        precision = self._fitting(plan, limit - held)
        if precision is None:
            raise LimitError(self._refusal(plan, held, limit))
        return precision

    @property
    def _wants_device(self) -> bool:
        return self.device == "cuda" or self.precision == "int48"

    def _on_device(self, plan: TablePlan, held: int, limits: Limits) -> tuple[Device, DevicePlan] | None:
        """Returns the device and the plan of a run on it beside `held` bytes, or None for the processor.

        Raises:
            ChoiceError: a device is requested, but none can be used.
            LimitError: it has too little free memory.
        """
        names: tuple[Precision, ...] = (
            ("float64", "int48", "int32") if self.precision == "auto" else (self.precision,)
        )
        here = self._fitting(plan, limits.memory_bytes - held)
        spent = plan.seconds(here, limits.workers) if here else inf
        wanted = self._wants_device
        suits = wanted or (not plan.layered and plan.n <= MOST)
        plans = [DevicePlan(plan.n, plan.width, name) for name in names if suits]
        choice: DeviceChoice = "cuda" if wanted else self.device
        return choose_device(choice, plans, spent, "fewer bits or a smaller treewidth")

    def _fitting(self, plan: TablePlan, room: int) -> Precision | None:
        """Returns the first allowed precision in which the run fits `room` bytes, or None."""
        # int64 needs the memory of float64, and replaces it later where the slack requires it.
        choices: tuple[Precision, ...] = ("float64", "int32")
        if self.precision != "auto":
            choices = (self.precision,) if self.precision != "int48" else ()
        return next((choice for choice in choices if plan.memory(choice) <= room), None)

    @property
    def _smallest(self) -> Precision:
        """The precision with the least memory that the options allow."""
        return "int32" if self.precision == "auto" else self.precision

    def _refusal(self, plan: TablePlan, held: int, limit: int) -> str:
        """Returns the message for a run that does not fit: the need, the limit and the ways out."""
        precision = self._smallest
        ways = []
        if precision != "int32" and held + plan.memory("int32") <= limit:
            ways.append(BACKEND("dp:precision=int32"))
        for width in range(plan.width - 1, 1, -1):
            need = held + replace(plan, width=width).memory(precision)
            if need <= limit:
                ways.append(f"{TREEWIDTH(width - 1)} ({need / 1e9:.3g} GB)")
                break
        ways += [
            f"a larger {MEMORY}, where the machine has it",
            f"another backend, such as {BACKEND('forward')}",
        ]
        return (
            f"backend 'dp' needs {(held + plan.memory(precision)) / 1e9:.3g} GB for {plan.n} variables at "
            f"treewidth {plan.width - 1} in {precision}, but the memory limit is {limit / 1e9:.3g} GB. "
            f"Ways out: {'; '.join(ways)}."
        )


_cached_plan = lru_cache(maxsize=64)(TablePlan)  # `lns` solves the same shape thousands of times


def _plan(problem: Problem) -> TablePlan:
    layered = bool(problem.constraints.features & _SECOND_TABLE)
    return _cached_plan(problem.n, problem.max_clique_size, layered)


def _lacks_subsets(problem: Problem) -> str | None:
    """A rule: objects to cliques with subsets that have no score."""
    if isinstance(problem.scores, DenseScores):
        return None
    ranks = rank_tables(problem.n - 1, problem.max_clique_size, 0)
    return None if is_closed(ranks, local_scores(problem, ranks, "float64")[0]) else _HOLES


def _memory_at_start() -> int:
    """Returns the bytes that the process holds before a run, including the compiler, loaded or not."""
    return resident_memory() + (0 if "numba" in sys.modules else COSTS.compiler)


class _Chunk(NamedTuple):
    """A call for a thread, and its predicted duration."""

    seconds: float
    call: Callable[[], object]


class _LayeredRun:
    """One run: tables, layers, tree."""

    def __init__(  # noqa: PLR0917 - called once, below
        self,
        backend: DynamicProgramming,
        problem: Problem,
        plan: TablePlan,
        precision: Precision,
        held: int,
        limits: Limits,
        report: Report,
    ) -> None:
        self.backend, self.problem, self.plan = backend, problem, plan
        self.precision, self.held = precision, held
        self.limits, self.report, self.workers = limits, report, limits.workers
        self.seconds: dict[str, float] = {}
        self.work = 0.0  # finished, in predicted seconds of one core
        self.total_work = plan.core_seconds(precision) or 1.0  # n = 1: nothing to do

    def outcome(self) -> Outcome:
        """Runs the recurrences and recovers the tree."""
        pool = ThreadPoolExecutor(self.workers)
        try:
            self._timed("tables", self._prepare)
            in_numpy = _KERNELS.prefer_numpy(plain.seconds(self.plan))
            self._timed("layers", self._plain_layers if in_numpy else lambda: self._layers(pool))
            value, tree = self._timed("tree", self._tree)
        except StoppedError:
            stop = self.report.stop
            assert stop is not None, "the report stopped without a reason"
            return Outcome(None, inf, stop, self._stats(), self.seconds)
        finally:
            pool.shutdown(cancel_futures=True)
        stats = {**self._stats(), "ties": self.scale.ties}
        return Outcome(tree, value, stats=stats, seconds=self.seconds)

    def _stats(self) -> dict[str, Any]:
        return {
            "device": "cpu",
            "precision": self.precision,
            "additions": self.plan.additions,
            "predicted_bytes": self.plan.memory(self.precision),
        }

    def _timed(self, name: str, part: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        try:
            return part()
        finally:
            self.seconds[name] = time.perf_counter() - began

    # Tables -----------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Builds the rank tables and the local scores in the number type of the run, and allocates g."""
        plan = self.plan
        self.ranks = rank_tables(plan.m, plan.width, plan.block)
        self._score()
        if self.backend.precision == "auto" and self.precision == "float64" and self.scale.is_coarse:
            self.precision = "int64"
            self._score()
        self.layered = not is_closed(self.ranks, self.local)
        if self.layered and not plan.layered:  # sets without a score, between others
            self.plan = plan = replace(plan, layered=True)
            precision = self.backend.fitting(plan, self.held, self.limits.memory_bytes)
            if precision == "int32" != self.precision:
                self.precision = precision
                self._score()
        self.dtype = np.dtype(self.precision)
        self.offset = table_offsets(self.ranks, self._classes())
        self.g = np.empty(plan.cells, self.dtype)
        if not self.report(note="tables"):
            raise StoppedError

    def _score(self) -> None:
        self.local, self.scale = local_scores(self.problem, self.ranks, self.precision)

    def _classes(self, high: int | None = None) -> NDArray[np.int64]:
        """Returns the classes of g, or of a layer of F, for `table_offsets`."""
        found = []
        base = 0
        for entry in self.plan.classes:
            rows = 1 << entry.elements if high is None else entry.rows(high)
            found.append((entry.inner, entry.outer, entry.roots, rows, base))
            base += (entry.cells >> entry.elements) * rows
        return np.array(found)

    # Layers -----------------------------------------------------------------------------------------------

    def _plain_layers(self) -> None:
        """Fills the tables in numpy."""
        for size in plain.layers(self.ranks, self.local, self.offset, self.g):
            if not self.report(done=size / self.plan.m, note=f"layer {size} of {self.plan.m}"):
                raise StoppedError

    def _layers(self, pool: ThreadPoolExecutor) -> None:
        """Runs the layers by |U ∖ block|: for each, the splits of all C, then all U.

        The cells of one layer and one 2·|U ∩ block| + |C| do not depend on one another.
        """
        from jtsolve.backends.dp.kernels.partition import best_splits
        from jtsolve.backends.dp.kernels.recurrence import finish_g

        plan, local = self.plan, self.local
        empty = np.array_split(self.offset[self.offset >= 0], 8 * self.workers)
        self._run(pool, [_Chunk(0.0, partial(setitem, self.g, cells, 0)) for cells in empty], "clearing")
        high_masks = np.arange(1 << (plan.m - plan.block), dtype=np.int64)
        high_sizes = np.bitwise_count(high_masks)
        current, at = self.g, self.offset  # F and its offsets; g where F has no table
        for high in plan.layers:
            note = f"layer {high} of {plan.layers[-1]}"
            sets = high_masks[high_sizes == high]
            before, at_before = current, at
            if self.layered:
                current = np.empty(plan.layer_cells(high), self.dtype)
                at = table_offsets(self.ranks, self._classes(high))
                if high == 0:
                    known = at >= 0
                    current[at[known]] = local.clique[known]  # F(S,∅) = s(S)
            # With one member outside the block, no split has two parts that reach outside it.
            if high > 1:
                tasks = [
                    _Chunk(seconds, partial(best_splits, self.g, *arguments, local.lowest))
                    for entry in plan.classes
                    for seconds, arguments in self._split_tasks(entry, high, sets)
                ]
                self._run(pool, tasks, note)
            tables = (self.ranks, local, self.offset, self.g, self.layered)
            layers = (before, current, np.stack([at_before, at]))
            levels: dict[int, list[_Chunk]] = {}
            for entry in plan.classes:
                for low in range(entry.bits + 1):
                    level = levels.setdefault(2 * low + entry.inner + entry.outer, [])
                    for seconds, arguments in self._cell_tasks(entry, high, low, sets):
                        level.append(_Chunk(seconds, partial(finish_g, *arguments, *tables, *layers)))
            for _, tasks in sorted(levels.items()):
                self._run(pool, tasks, note)

    def _split_tasks(
        self, entry: TableClass, high: int, sets: NDArray[np.int64]
    ) -> Iterator[tuple[float, tuple[Any, ...]]]:
        """Yields the work of a class in a layer as chunks: predicted seconds, arguments of `best_splits`."""
        own = sets[: np.searchsorted(sets, 1 << (entry.elements - entry.bits))]
        additions = self.plan.split_additions(entry, high)
        seconds = COSTS.addition(self.precision) * additions
        for share, groups, part in _pieces(entry.split_groups, own, additions / COSTS.chunk_additions):
            yield seconds * share, (entry.base, entry.elements, entry.bits, *groups, part)

    def _cell_tasks(
        self, entry: TableClass, high: int, low: int, sets: NDArray[np.int64]
    ) -> Iterator[tuple[float, tuple[Any, ...]]]:
        """Yields the cells of a class with `low` members of U in the block, as arguments of `finish_g`."""
        own = sets[: np.searchsorted(sets, 1 << (entry.elements - entry.bits))]
        lows = np.array([mask for mask in range(1 << entry.bits) if mask.bit_count() == low])
        if high == low == 0:
            return
        neighbours = (
            (entry.cells >> entry.elements) * own.size * lows.size * (high + low + entry.inner + entry.outer)
        )
        masks = self.ranks.masks
        inner = np.bitwise_count(masks & ((1 << self.ranks.block) - 1))
        outer = np.bitwise_count(masks >> self.ranks.block)
        members = masks[(inner == entry.inner) & (outer == entry.outer)]
        for share, groups, part in _pieces(range(entry.groups), own, neighbours / COSTS.chunk_neighbours):
            yield COSTS.neighbour * neighbours * share, (members, *groups, entry.bits, part, lows)

    def _run(self, pool: ThreadPoolExecutor, tasks: Sequence[_Chunk], note: str) -> None:
        """Runs tasks on all threads; polls the report after each."""
        if self.workers == 1:  # no pool: other backends solve thousands of small problems here
            for task in tasks:
                task.call()
                if not self._done(task, note):
                    raise StoppedError
        else:
            run_tasks(pool, [task.call for task in tasks], lambda i: self._done(tasks[i], note))

    def _done(self, task: _Chunk, note: str) -> bool:
        """Counts a finished task; returns whether to continue."""
        self.work += task.seconds
        return self.report(done=min(1.0, self.work / self.total_work), note=note)

    # Tree -------------------------------------------------------------------------------------------------

    def _tree(self) -> tuple[float, JunctionTree | None]:
        """Returns the bound in nats and an optimal tree; (-inf, None) if there is none."""

        def values(root: int, sets: NDArray[np.int64], us: NDArray[np.int64]) -> NDArray[Any]:
            renamed = rename(us, ~sets & (1 << self.plan.m) - 1, self.ranks)
            found: NDArray[Any] = self.g[self.offset[root, self.ranks.position[sets]] + LANES * renamed]
            return found

        trace = Trace(self.ranks, self.local, values)
        value, root = trace.optimum()
        if value < max(self.local.threshold, self.scale.least):
            return -inf, None
        return self.scale.bound(value), trace.tree(root)


def _pieces(
    groups: range, sets: NDArray[np.int64], pieces: float
) -> Iterator[tuple[float, tuple[int, int], NDArray[np.int64]]]:
    """Cuts groups × sets into about as many pieces: yields the share of each, its groups and its sets."""
    if not groups or not sets.size:
        return
    by_group = min(max(1, round(pieces)), len(groups))
    by_set = min(max(1, round(pieces / by_group)), sets.size)
    bounds = np.linspace(groups.start, groups.stop, by_group + 1).astype(int).tolist()
    for first, last in pairwise(bounds):
        for part in np.array_split(sets, by_set):
            yield (last - first) / len(groups) * part.size / sets.size, (first, last), part
