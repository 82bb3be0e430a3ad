"""One run on a device: tables, levels, and the way back to a tree."""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.backends.dp.device.plan import CHUNK, MOST, RATES, TEAMS, DevicePlan
from jtsolve.backends.dp.device.source import source, warp_shares
from jtsolve.backends.dp.ranks import rank_tables
from jtsolve.backends.dp.scores import is_closed, local_scores
from jtsolve.backends.dp.trace import Trace
from jtsolve.core.cuda import LANES, launch_all, table_offsets_of_sets
from jtsolve.core.renaming import rename
from jtsolve.core.result import Outcome
from jtsolve.core.scores import StoppedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.backends.dp.ranks import RankTables
    from jtsolve.backends.dp.scores import LocalTables
    from jtsolve.core.backend import Report
    from jtsolve.core.cuda import Device
    from jtsolve.core.problem import Problem


class DeviceTables:
    """The table g of a problem on a device.

    Args:
        plan: its sizes.
        ranks: of the sets C; `sets` has all sets.
        local: the local scores in the numbers of the plan; see `scores.is_closed`.
        device: that runs the kernels.
    """

    def __init__(self, plan: DevicePlan, ranks: RankTables, local: LocalTables, device: Device) -> None:
        self.plan, self.ranks, self.device = plan, ranks, device
        self.launch = device.compile(source(plan.precision, plan.shape, MOST, TEAMS, CHUNK))
        self.numbers = local.clique.dtype
        self.g = device.empty(plan.cells * RATES[plan.precision].bytes, np.uint8)
        sets = ranks.sets.astype(np.uint32)
        scores = local.clique.copy()
        scores[0, 0] = local.separator[0, 0]  # ∅ is no clique, but may be a separator
        self.kept = [device.upload(part) for part in (sets, ranks.position, scores, self._shape())]
        for first, cells, size in plan.tables:
            lane_bits = np.int32(5 if size else 0)
            k = np.int32(plan.m - size)
            self.launch(
                "clear_tables", 1024, 256, self.g, *map(np.int64, (plan.cells, first, cells)), lane_bits, k
            )

    def fill(self, report: Report) -> None:
        """Runs all levels.

        Raises:
            StoppedError: the report stops it.
        """
        given = (self.g, *self.kept)
        arguments = {
            "splits": (LANES * len(warp_shares(self.plan.shape)), given),
            "finish": (LANES * TEAMS, given),
        }
        launch_all(self.device, self.launch, list(self.plan.launches()), arguments, report)

    def offset(self) -> NDArray[np.int64]:
        """Returns the offset of g(C,·), shape (2, K); -1 for none."""
        masks = self.ranks.masks
        base = self.plan.base[:, np.bitwise_count(masks)]
        offset: NDArray[np.int64] = np.where(base < 0, -1, base + table_offsets_of_sets(self.plan.m, masks))
        return offset

    def gather(self, cells: NDArray[np.int64]) -> NDArray[Any]:
        """Returns the numbers of some cells, shape (m,)."""
        values = self.device.empty(cells.size, self.numbers)
        self.launch(
            "gather_cells",
            -(-cells.size // 256),
            256,
            self.g,
            np.int64(self.plan.cells),
            self.device.upload(cells),
            values,
            np.int64(cells.size),
        )
        return self.device.download(values)

    def _shape(self) -> NDArray[np.int64]:
        """Returns the struct Shape of the kernels."""
        plan = self.plan
        start = np.zeros(34, np.int64)
        sizes = np.bitwise_count(self.ranks.sets)
        start[: plan.m + 2] = np.searchsorted(sizes, np.arange(plan.m + 2))
        numbers = [plan.m, plan.width, self.ranks.masks.size, plan.cells, plan.tiled]
        return np.concatenate([numbers, start, plan.base.ravel()])


def solve_on_device(
    problem: Problem, plan: DevicePlan, device: Device, report: Report, *, adapts: bool
) -> Outcome | None:
    """Solves a problem; returns None if some subset of a clique may not be a clique or not a separator.

    Args:
        problem: the problem.
        plan: a plan that fits the device.
        device: that runs the kernels.
        report: polled several times a second.
        adapts: whether int64 may replace float64.
    """
    began = time.perf_counter()
    ranks = rank_tables(plan.m, plan.width, min(3, plan.m))
    local, scale = local_scores(problem, ranks, plan.precision)
    if adapts and plan.precision == "float64" and scale.is_coarse:
        plan = replace(plan, precision="int64")
        local, scale = local_scores(problem, ranks, plan.precision)
    if not is_closed(ranks, local):
        return None
    seconds = {"tables": time.perf_counter() - began}
    stats = {
        "device": "cuda",
        "precision": plan.precision,
        "additions": plan.work("splits"),
        "predicted_bytes": plan.host_memory,
        "predicted_device_bytes": plan.memory,
    }
    began = time.perf_counter()
    try:
        tables = DeviceTables(plan, ranks, local, device)
        tables.fill(report)
        seconds["layers"] = time.perf_counter() - began
        began = time.perf_counter()
        offset = tables.offset()

        def values(root: int, sets: NDArray[np.int64], us: NDArray[np.int64]) -> NDArray[Any]:
            renamed = rename(us, ~sets & (1 << plan.m) - 1, ranks)
            return tables.gather(offset[root, ranks.position[sets]] + np.where(sets, LANES, 1) * renamed)

        trace = Trace(ranks, local, values)
        value, root = trace.optimum()
        feasible = value >= max(local.threshold, scale.least)
        tree = trace.tree(root) if feasible else None
        seconds["tree"] = time.perf_counter() - began
    except StoppedError:
        assert report.stop is not None, "the report stopped without a reason"
        return Outcome(None, inf, report.stop, stats, seconds)
    stats["ties"] = scale.ties
    return Outcome(tree, scale.bound(value) if feasible else -inf, stats=stats, seconds=seconds)
