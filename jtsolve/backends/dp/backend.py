"""Dynamic programming over recursive partition trees: exact, for every n and treewidth that fits the memory.

The recurrences f, g and h are in `kernels.recurrence`. Departures from the paper, proved in docs/dp.md:

- h and f are maxima over lattices of subsets and are built one member at a time.
- The root clique holds the last variable, so no U does: half the work and a third less memory.
- g(C,U) = max(h(C,U), max_{R ⊊ U} g(C,R) + g(C,U∖R)), the largest member of U in R: half the pairs, and no
  table for h, since the parts of a partition may themselves be partitioned.
- The U are processed in layers by the number of members outside a block of three variables; the sums of a
  layer run in cubes over the block, for many C side by side (`kernels.partition`).
- The tree is found by recomputing each maximum along the optimal path, never by comparing floats.

Time: at most 4^n/4 additions for unbounded treewidth, Σ_{i≤w} C(n-1,i) 3^{n-1-i} with a bound; memory:
2·3^{n-1} numbers if unbounded. Both are known before anything is allocated (`plan`).

References:
    Kangas, Niinimäki, Koivisto, Learning chordal Markov networks by dynamic programming, NIPS 2014.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from jtsolve.backends.dp.batch import SmallDynamicProgramming
from jtsolve.backends.dp.plan import COSTS, Precision, TableClass, TablePlan, plan_of
from jtsolve.core.backend import Backend, Capabilities, Estimate, Report
from jtsolve.core.machine import resident_memory
from jtsolve.core.problem import LOCAL_FEATURES, Problem
from jtsolve.core.result import OPTIMALITY_TOLERANCE, Outcome
from jtsolve.core.scores import StoppedError
from jtsolve.core.threads import run_tasks
from jtsolve.core.tree import JunctionTree
from jtsolve.errors import InternalError, LimitError
from jtsolve.options import BACKEND, MEMORY, TREEWIDTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from jtsolve.core.backend import SmallSolver
    from jtsolve.core.run import Limits
    from jtsolve.core.varset import VarSet

_LOOSE = OPTIMALITY_TOLERANCE / 4
"""Nats of rounding in a bound above which int64 pays."""


@dataclass(frozen=True, slots=True)
class DynamicProgramming:
    """The dynamic programming over recursive partition trees. Exact, for all that fits the memory.

    Args:
        precision: "float64"; "int64", fixed point without any rounding of sums; "int32", the same in half the
            memory; or "auto": float64 where it fits the memory limit, or int64 if 51 bits are too few for a
            bound that is tight and for breaking ties, as with scores of 10^8 nats; else int32. The bound
            includes the rounding.
        start: the backend that finds the first incumbent, or None.
        forest: the backend that solves problems of treewidth 1 if it accepts them, or None.
    """

    precision: Literal["auto", "float64", "int64", "int32"] = "auto"
    start: Backend | None = None
    forest: Backend | None = None

    name: ClassVar[str] = "dp"

    @property
    def capabilities(self) -> Capabilities:
        """All local constraints; any number of variables where `forest` accepts the problem."""
        return Capabilities(
            features=LOCAL_FEATURES,
            exact=True,
            max_variables=28,
            needs_table=True,
            any_size=lambda problem: self._forest_for(problem) is not None,
        )

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        """Returns the predicted peak memory of the process and the predicted seconds."""
        if (forest := self._forest_for(problem)) is not None:
            return forest.estimate(problem, limits)
        plan = plan_of(problem.n, problem.max_clique_size)
        held = _memory_at_start()
        precision = self._fitting(plan, limits.memory_bytes - held) or self._smallest
        return Estimate(held + plan.memory(precision), plan.seconds(precision, limits.workers))

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        """See `Backend.solve`."""
        if (forest := self._forest_for(problem)) is not None:
            outcome = forest.solve(problem, limits, report)
            stats = {**outcome.stats, "handed_over_to": forest.name}
            return Outcome(outcome.tree, outcome.bound, outcome.stop, stats, outcome.seconds)
        plan = plan_of(problem.n, problem.max_clique_size)
        held = _memory_at_start()
        precision = self._fitting(plan, limits.memory_bytes - held)
        if precision is None:
            raise LimitError(self._refusal(plan, held, limits.memory_bytes))
        if self.start is not None and not self.start.capabilities.objections(problem):
            first = self.start.solve(problem, limits, report)
            if not report(tree=first.tree, bound=first.bound):
                return Outcome(first.tree, first.bound, report.stop or first.stop)
        adapts = self.precision == "auto"
        return _LayeredRun(problem, plan, precision, limits, report, adapts=adapts).outcome()

    def small_solver(self, width: int) -> SmallSolver:
        """Returns a solver for batches of small problems; always in float64."""
        return SmallDynamicProgramming(width)

    def _forest_for(self, problem: Problem) -> Backend | None:
        if self.forest is None or self.forest.capabilities.objections(problem):
            return None
        return self.forest

    def _fitting(self, plan: TablePlan, room: int) -> Precision | None:
        """Returns the first allowed precision in which the run fits `room` bytes, or None."""
        # int64 takes the memory of float64, and replaces it later where the slack asks for it.
        choices: tuple[Precision, ...] = ("float64", "int32")
        if self.precision != "auto":
            choices = (self.precision,)
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
            need = held + plan_of(plan.n, width).memory(precision)
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


def _memory_at_start() -> int:
    """Returns the bytes that the process holds before a run, including the compiler, loaded or not."""
    return resident_memory() + (0 if "numba" in sys.modules else COSTS.compiler)


class _Chunk(NamedTuple):
    """A call for a thread, and its predicted duration."""

    seconds: float
    call: Callable[[], object]


class _LayeredRun:
    """One run: tables, layers, tree."""

    def __init__(
        self,
        problem: Problem,
        plan: TablePlan,
        precision: Precision,
        limits: Limits,
        report: Report,
        *,
        adapts: bool,
    ) -> None:
        self.problem, self.plan, self.precision, self.report = problem, plan, precision, report
        self.adapts = adapts  # whether int64 may replace float64
        self.workers = limits.workers
        self.seconds: dict[str, float] = {}
        self.work = 0.0  # finished, in predicted seconds of one core
        self.total_work = plan.core_seconds(precision) or 1.0  # n = 1: nothing to do

    def outcome(self) -> Outcome:
        """Runs the recurrences and recovers the tree."""
        pool = ThreadPoolExecutor(self.workers)
        try:
            self._timed("tables", self._prepare)
            self._timed("layers", lambda: self._layers(pool))
            value, tree = self._timed("tree", self._tree)
        except StoppedError:
            stop = self.report.stop
            assert stop is not None, "the report asked to stop without a reason"
            return Outcome(None, inf, stop, self._stats(), self.seconds)
        finally:
            pool.shutdown(cancel_futures=True)
        stats = {**self._stats(), "ties": self.scale.ties}
        return Outcome(tree, value, stats=stats, seconds=self.seconds)

    def _stats(self) -> dict[str, Any]:
        return {
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
        from jtsolve.backends.dp.kernels.ranks import rank_tables, table_offsets
        from jtsolve.backends.dp.scores import local_scores

        plan = self.plan
        self.ranks = rank_tables(plan.m, plan.width, plan.block)
        self.local, self.scale = local_scores(self.problem, self.ranks, self.precision)
        if self.adapts and self.precision == "float64" and self._needs_more_bits:
            self.precision = "int64"
            self.local, self.scale = local_scores(self.problem, self.ranks, self.precision)
        self.dtype = np.dtype(self.precision)
        classes = np.array(
            [(c.roots[0], c.roots[-1], c.inner, c.outer, c.elements, c.base) for c in plan.classes]
        )
        self.offset = table_offsets(self.ranks, classes)
        self.g = np.empty(plan.cells, self.dtype)
        self.start = np.zeros(1 << plan.m, np.int64)
        if not self.report(note="tables"):
            raise StoppedError

    @property
    def _needs_more_bits(self) -> bool:
        """Whether rounding to float64 leaves the bound loose, or no room to break ties."""
        return self.scale.slack > _LOOSE or not self.scale.decisive

    # Layers -----------------------------------------------------------------------------------------------

    def _layers(self, pool: ThreadPoolExecutor) -> None:
        """Runs the layers by |U ∖ block|: for each, the splits of all C, then all U by |U ∩ block|."""
        from jtsolve.backends.dp.kernels.partition import best_splits
        from jtsolve.backends.dp.kernels.recurrence import set_to_zero, sweep

        plan, local = self.plan, self.local
        high_masks = np.arange(1 << (plan.m - plan.block), dtype=np.int64)
        high_sizes = np.bitwise_count(high_masks)
        low_masks = np.arange(1 << plan.block, dtype=np.int64)
        low_sizes = np.bitwise_count(low_masks)
        empty = np.array_split(self.offset[self.offset >= 0], 8 * self.workers)
        self._run(pool, [_Chunk(0.0, partial(set_to_zero, self.g, cells)) for cells in empty], "clearing")
        nothing = np.empty(0, self.dtype)
        layer: dict[tuple[int, int], NDArray[Any]] = {}  # F by |U ∖ block| and |U ∩ block|
        for high in plan.layers:
            note = f"layer {high} of {plan.layers[-1]}"
            sets = high_masks[high_sizes == high]
            # With one member outside the block, no split has both parts reach outside it.
            if high > 1:
                tasks = [
                    _Chunk(seconds, partial(best_splits, self.g, *arguments, local.lowest))
                    for entry in plan.classes
                    for seconds, arguments in self._split_tasks(entry, high, sets)
                ]
                self._run(pool, tasks, note)
            for low in range(plan.block + 1):
                us = ((sets << plan.block)[:, None] | low_masks[low_sizes == low]).ravel()
                row = plan.row_cells(high + low)
                self.start[us] = row * np.arange(us.size)
                current = layer[high, low] = np.empty(row * us.size, self.dtype)
                if high == low == 0:
                    smaller = self.ranks.first[plan.m, plan.width]
                    current[:] = np.concatenate([local.clique[0], local.clique[1, :smaller]])  # F(S,∅) = s(S)
                    continue
                sources = layer.get((high - 1, low), nothing), layer.get((high, low - 1), nothing)
                tables = (self.ranks, local, self.offset, self.start, *sources, current, self.g)
                pieces = np.array_split(us, max(1, min(us.size, round(us.size * row / COSTS.chunk_cells))))
                tasks = [
                    _Chunk(COSTS.cell * piece.size * row, partial(sweep, piece, high > 1, *tables))
                    for piece in pieces
                ]
                self._run(pool, tasks, note)
                layer.pop((high - 1, low), None)  # (high, low) was the last to read it

    def _split_tasks(
        self, entry: TableClass, high: int, sets: NDArray[np.int64]
    ) -> Iterator[tuple[float, tuple[Any, ...]]]:
        """Yields the work of a class in a layer as chunks: predicted seconds, arguments of `best_splits`."""
        own = sets[: np.searchsorted(sets, 1 << (entry.elements - entry.bits))]
        if own.size == 0:
            return
        additions = self.plan.split_additions(entry, high)
        pieces = max(1, round(additions / COSTS.chunk_additions))
        by_group = min(pieces, entry.groups)
        by_set = min(-(-pieces // by_group), own.size)
        seconds = COSTS.addition(self.precision) * additions / (by_group * by_set)
        bounds = np.linspace(0, entry.groups, by_group + 1).astype(int).tolist()
        for first, last in pairwise(bounds):
            for part in np.array_split(own, by_set):
                yield seconds, (entry.base, entry.elements, entry.bits, first, last, part)

    def _run(self, pool: ThreadPoolExecutor, tasks: Sequence[_Chunk], note: str) -> None:
        """Runs tasks on all threads; asks the report after each whether to continue."""
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
        """Returns the bound in nats and an optimal tree; (-inf, None) if there is none.

        Follows the paper's recurrences down from f(∅,V), recomputing each maximum from g and the scores.
        """
        from jtsolve.backends.dp.kernels.recurrence import best_attachment, best_clique, best_split

        tables = (self.ranks, self.local, self.offset, self.g)
        m = self.plan.m
        everything = (1 << m) - 1
        value, inside = best_clique(1, 0, everything, False, *tables)
        if value < self.local.threshold:
            return -inf, None
        nodes: list[VarSet] = [inside | 1 << m]
        edges: list[tuple[int, int]] = []
        open_parts = [(0, everything ^ inside)]  # (a clique C, the variables U below it)
        while open_parts:
            node, u = open_parts.pop()
            if not u:
                continue
            root, c = nodes[node] >> m, nodes[node] & everything
            attached, with_root, separator, new = best_attachment(root, c, u, *tables)
            split, part = best_split(root, c, u, *tables)
            if max(attached, split) < self.local.threshold:
                raise InternalError(
                    f"backend 'dp' cannot follow its own optimum below clique {nodes[node]:b}"
                )
            if attached >= split:
                edges.append((node, len(nodes)))
                open_parts.append((len(nodes), u ^ new))
                nodes.append(with_root << m | separator | new)
            else:
                open_parts += [(node, part), (node, u ^ part)]
        return self.scale.bound(value), JunctionTree.from_nodes(self.plan.n, nodes, edges)
