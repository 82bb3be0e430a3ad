"""The sums on a device: the choice of the device, the tables, and the results."""

from __future__ import annotations

import time
from math import comb, inf
from typing import TYPE_CHECKING, Any

import numpy as np

from jtsolve.averaging.device.plan import SumsPlan
from jtsolve.averaging.device.source import SOURCE
from jtsolve.averaging.features import GraphFeatures, ratio, shares_of_total
from jtsolve.averaging.plain import PlainSums, prefer_plain
from jtsolve.averaging.plan import LANES as HOST_LANES
from jtsolve.averaging.plan import TableSizes
from jtsolve.averaging.sums import (
    Sums,
    compute,
    kernel_layout,
    local_of,
    log_of,
    mantissas_and_exponents,
    number_of,
    require_room,
    word_format,
)
from jtsolve.core.cuda import LANES, DeviceArrays, choose_device, tables_of_sets
from jtsolve.core.machine import resident_memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.averaging.weights import SetWeights
    from jtsolve.core.cuda import Device, DeviceChoice
    from jtsolve.core.run import Run


def summed(
    weights: SetWeights, run: Run, asked: DeviceChoice, *, plain: bool, drawn: bool = False
) -> Sums | PlainSums | DeviceSums:
    """Runs the recurrence on the processor or on a device.

    Args:
        weights: weights of the sets.
        run: limits and progress.
        asked: value of the option `device`.
        plain: whether a device accepts the problem; see `weights.ON_DEVICE`.
        drawn: whether graphs are to be drawn, for which the tables have to fit the memory of the process.

    Raises:
        ChoiceError: a device is requested, but none can be used.
        LimitError: it needs more memory than allowed; raised before anything is allocated.
        StoppedError: the run has to stop.
    """
    plan = TableSizes(weights.n, weights.width, drawn)
    estimate = plan.estimate(run.limits.workers)
    spent = estimate.seconds if estimate.memory <= run.limits.memory_bytes else inf
    plans = [SumsPlan(weights.n, weights.width)] if plain else []
    chosen = choose_device(asked, plans, spent)
    if chosen is None:
        if not drawn and prefer_plain(weights):
            require_room(plan, run.limits)
            return PlainSums(weights, run)
        return compute(weights, run, drawn=drawn)
    device, on_device = chosen
    require_room(plan, run.limits, None if drawn else resident_memory() + on_device.host_memory)
    return DeviceSums(weights, on_device, device, run)


def on_host(sums: Sums | PlainSums | DeviceSums) -> Sums:
    """Returns sums for draws with their tables in the memory of the process."""
    assert not isinstance(sums, PlainSums), "never for draws"
    return sums if isinstance(sums, Sums) else sums.on_host()


class DeviceSums:
    """The finished tables on a device; see `Sums`.

    Args:
        weights: weights of the sets.
        plan: its sizes.
        device: where.
        run: for progress.

    Raises:
        StoppedError: the run has to stop.
    """

    def __init__(self, weights: SetWeights, plan: SumsPlan, device: Device, run: Run) -> None:
        began = time.perf_counter()
        self.weights, self.plan, self.device, self.run = weights, plan, device, run
        self.format = word_format(weights)
        self.local = (*mantissas_and_exponents(weights.clique), *mantissas_and_exponents(-weights.separator))
        self.arrays = {name: device.empty(words, np.uint64) for name, words in plan.words.items()}
        self.arrays |= self._by_set()
        self.kernels = DeviceArrays(device, SOURCE, self.arrays)
        self.kernels.run(plan.sums(), run.progress)
        self.connected_total = self._number("F")
        # If ∅ is no separator, all graphs are connected.
        self.total = self.connected_total if self.local[2][0] == 0.0 else self._number("P")
        self.seconds = {"sums": time.perf_counter() - began}

    @property
    def log_total(self) -> float:
        """See `Sums.log_total`."""
        return log_of(self.total, self.weights)

    @property
    def precision(self) -> float:
        """See `Sums.precision`."""
        return float(2.0 ** -self.format[0])

    def features(self) -> GraphFeatures:
        """Returns the probabilities, as `kernels.features` has them; the tables are of no more use.

        Raises:
            StoppedError: the run has to stop.
        """
        clique, exponent, inverse, _ = (part[self.masks] for part in self.local)
        full = self._shares(self.device.download(self.arrays["whole"])[self.masks])
        complete = self._whole(exponent) * clique
        self.arrays["P"] = self.arrays["X"]  # P°
        self.kernels.run(self.plan.proper(), self.run.progress)
        alone = self._whole(exponent) * clique
        self.arrays.clear()
        self.device.free()
        connected = ratio(self.connected_total, self.total)
        return GraphFeatures.of(self.masks, (complete, alone, full), inverse == 0.0, connected)

    def on_host(self) -> Sums:
        """Returns the sums with their tables in the memory of the process, for draws."""
        from jtsolve.averaging.kernels.sums import Tables

        plan = TableSizes(self.plan.n, self.plan.width)
        layout, local = kernel_layout(plan, self.weights), local_of(self.weights)
        f, links, parts = (
            self._table(name, plan, most)
            for name, most in (("F", plan.width - 1), ("L", plan.width), ("P", plan.width))
        )
        none = np.zeros(0, np.uint64)
        return Sums(self.weights, layout, local, Tables(f, links, parts, none), self.seconds)

    def _by_set(self) -> dict[str, Any]:
        """Uploads the tables of sets, and the sizes."""
        plan = self.plan
        n, width = plan.n, plan.width
        masks = np.arange(1 << n, dtype=np.uint32)
        sizes = np.bitwise_count(masks)
        sets = masks[np.argsort(sizes, kind="stable")]
        position = np.empty(1 << n, np.int32)
        position[sets] = masks
        start = np.searchsorted(sizes[sets], np.arange(34))
        self.masks = sets[: start[width + 1]].astype(np.int64)
        begins, steps = tables_of_sets(n, self.masks)
        self.last = begins + steps * (
            (1 << n - np.bitwise_count(self.masks).astype(np.int64)) - 1
        )  # of S and V∖S
        sizes_of = np.zeros((4, 32), np.int64)
        sizes_of[0, : width + 1] = plan.begins[:-1]
        sizes_of[1:3, : n + 1] = np.array(plan.rows).T
        sizes_of[3, :n] = self.weights.required
        head = [n, width, *self.format, self.weights.lowest]
        kept: dict[str, NDArray[Any]] = {
            "whole": np.zeros(1 << n, np.uint64),
            "sets": sets,
            "position": position,
            "order": np.cumsum(sizes <= width, dtype=np.int32) - np.int32(1),
            "weights": np.stack([self.local[i].view(np.int64) for i in (0, 2, 1, 3)], axis=1),
            "shape": np.concatenate([head, start, sizes_of.ravel()]).astype(np.int64),
        }
        return {name: self.device.upload(array) for name, array in kept.items()}

    def _number(self, table: str) -> tuple[float, int]:
        """Returns the number in the cell of ∅ and V."""
        return number_of(int(self.kernels.gather(self.arrays[table], self.last[:1])[0]), *self.format)

    def _whole(self, exponents: NDArray[Any]) -> NDArray[np.float64]:
        """Returns P(S, V∖S) · 2^exponents of all S, divided by the total."""
        return self._shares(self.kernels.gather(self.arrays["P"], self.last), exponents)

    def _shares(self, words: NDArray[np.uint64], exponents: Any = 0) -> NDArray[np.float64]:
        return shares_of_total(words, self.format, self.total, exponents)

    def _table(self, name: str, plan: TableSizes, most: int) -> NDArray[np.uint64]:
        """Returns a table over the pairs (S, R) with |S| ≤ most as `kernels.sums` has it."""
        parts, begins = [], self.plan.begins
        for size in range(most + 1):
            rest, lanes = 1 << (plan.n - size), LANES if size else 1
            words = self.device.download(self.arrays[name][begins[size] : begins[size + 1]])
            by_set = words.reshape(-1, rest, lanes).swapaxes(1, 2).reshape(-1, rest)[: comb(plan.n, size)]
            whole = np.zeros((plan.groups(size) * HOST_LANES, rest), np.uint64)
            whole[: len(by_set)] = by_set
            parts.append(whole.reshape(-1, HOST_LANES, rest).swapaxes(1, 2).ravel())
        return np.concatenate(parts)
