"""The table g of a problem on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.backends.dp.device.source import source
from jtsolve.backends.dp.plan import BYTES
from jtsolve.core.cuda import DeviceArrays, tables_of_sets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.backends.dp.device.plan import DevicePlan
    from jtsolve.backends.dp.ranks import RankTables
    from jtsolve.backends.dp.scores import LocalTables
    from jtsolve.core.backend import Report
    from jtsolve.core.cuda import Device


class DeviceTables:
    """See `trace.Tables`.

    Args:
        plan: its sizes.
        ranks: of the sets C; `sets` has all sets.
        local: the local scores in the numbers of the plan; see `scores.is_closed`.
        device: that runs the kernels.
    """

    def __init__(self, plan: DevicePlan, ranks: RankTables, local: LocalTables, device: Device) -> None:
        self.plan = plan
        begins, self.step = tables_of_sets(plan.m, ranks.masks)
        self.offset = np.stack([begins, begins + plan.begins[0][-1]])
        memory = device.empty(plan.cells * BYTES[plan.precision], np.uint8)
        if plan.precision == "int48":
            upper = 4 * plan.cells
            self.parts = [memory[:upper].view(np.int32), memory[upper:].view(np.uint16)]
            self.parts[0].fill(local.lowest >> 16)
            self.parts[1].fill(0)
        else:
            self.parts = [memory.view(local.clique.dtype)]
            self.parts[0].fill(local.lowest)
        scores = local.clique.copy()
        scores[0, 0] = local.separator[0, 0]  # ∅ is no clique, but may be a separator
        start = np.searchsorted(np.bitwise_count(ranks.sets), np.arange(34))
        base = np.full((2, 32), -1)
        for own, each in zip(base, plan.begins, strict=True):
            own[: each.size - 1] = each[:-1]
        shape = np.concatenate([[plan.m, plan.width, ranks.masks.size, plan.cells], start, base.ravel()])
        kept = {
            "sets": ranks.sets.astype(np.uint32),
            "position": ranks.position,
            "score": scores,
            "shape": shape,
        }
        arrays = {"g": memory} | {name: device.upload(array) for name, array in kept.items()}
        self.arrays = DeviceArrays(device, source(plan.precision, plan.shape), arrays)

    def fill(self, report: Report) -> None:
        """See `trace.Tables`."""
        self.arrays.run(self.plan.launches(), report)

    def gather(self, cells: NDArray[np.int64]) -> NDArray[Any]:
        """See `trace.Tables`."""
        found, *lower = (self.arrays.gather(part, cells) for part in self.parts)
        return found.astype(np.int64) << 16 | lower[0] if lower else found
