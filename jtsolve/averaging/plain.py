"""The recurrence of `averaging.sums` in numpy, for few variables.

L and P have second tables without a full part, L° and P°:

    L°(S,R) = Σ_{Q⊊S} F(Q,R)/s(Q),    P°(S,R) = Σ_{K∋min R} L°(S,K) P°(S,R∖K),    P°(S,∅) = 1
    A(S,R) = c(S) P(S,R) = Σ_{𝒢(S,R)} w(G),    X = A − B

A set S is complete with probability A/Z at R = V∖S, a maximal clique with c P°/Z, and B/Z is the expected
number of its full components. Where 1/s(S) = 0, A = c P sums the graphs without one, and X = A. The tables
hold logarithms.
"""

from __future__ import annotations

import time
from itertools import combinations
from math import comb, inf, log
from typing import TYPE_CHECKING

import numpy as np

from jtsolve.averaging.features import GraphFeatures
from jtsolve.averaging.plan import TableSizes
from jtsolve.core.lazy_kernels import LazyKernels
from jtsolve.core.renaming import sets_beside, subsets_of
from jtsolve.core.scores import StoppedError
from jtsolve.core.varset import varset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.averaging.weights import SetWeights
    from jtsolve.core.run import Run

_KERNELS = LazyKernels("jtsolve.averaging.kernels.sums", 1.5)
_SECONDS_PER_STEP, _SECONDS_PER_PRODUCT = 2e-4, 4e-8
"""Measured on one core of an Intel Xeon (Sapphire Rapids)."""
_ROUNDING = 1e-14
"""A smaller share is left by rounding where a difference is 0."""


def prefer_plain(weights: SetWeights) -> bool:
    """Returns whether to work in numpy: see `LazyKernels`. The star of marks is for the kernels."""
    n, width = weights.n, weights.width
    products = 2 * sum(comb(n, k) * 3.0 ** (n - k) for k in range(width + 1))
    seconds = _SECONDS_PER_STEP * n * width + _SECONDS_PER_PRODUCT * products
    return TableSizes(n, width).is_small and not weights.star and _KERNELS.prefer_numpy(seconds)


class PlainSums:
    """The finished tables; see `averaging.sums.Sums`.

    Args:
        weights: weights of the sets, without a star.
        run: ends the work.

    Raises:
        StoppedError: the run has to stop.
    """

    def __init__(self, weights: SetWeights, run: Run) -> None:
        began = time.perf_counter()
        self.weights, n, width = weights, weights.n, weights.width
        chosen = [varset(one) for k in range(width + 1) for one in combinations(range(n), k)]
        self.masks = np.array(sorted(chosen, key=lambda mask: (mask.bit_count(), mask)), np.int64)
        self.row = np.full(1 << n, -1)
        self.row[self.masks] = np.arange(self.masks.size)
        self.clique, self.separator = (
            log(2) * logs[self.masks] for logs in (weights.clique, weights.separator)
        )
        self.boundary = np.zeros(1 << n, np.int64)
        for v, neighbours in enumerate(weights.required):
            self.boundary[1 << v : 2 << v] = self.boundary[: 1 << v] | neighbours
        self.f, self.joint, self.proper, self.links, self.none, self.parts, self.full = (
            np.full(self.masks.size << n, -inf) for _ in range(7)
        )
        self.none[:: 1 << n] = self.parts[:: 1 << n] = 0.0
        for r in range(1, n + 1):
            for step in self._connect, self._divide:
                for k in range(min(width, n - r) + 1):
                    s = self.masks[np.bitwise_count(self.masks) == k]
                    step(s[:, None], sets_beside(s, n, r), k, r)
            if not run.progress(done=r / n, note=f"layer {r} of {n}"):
                raise StoppedError
        last = (1 << n) - 1
        self.total = float((self.parts if self.separator[0] < inf else self.f)[last])
        self.connected = float(np.exp(self.f[last] - self.total)) if self.total > -inf else 0.0
        self.seconds = {"sums": time.perf_counter() - began}

    @property
    def log_total(self) -> float:
        """See `averaging.sums.Sums.log_total`."""
        return self.total + self.weights.offset

    @property
    def precision(self) -> float:
        """The relative rounding of one number."""
        return float(np.spacing(max(1.0, abs(self.total))))

    def _connect(self, s: NDArray[np.int64], rest: NDArray[np.int64], k: int, r: int) -> None:
        """B(S,R) = Σ_{∅≠D⊆R} X(S∪D, R∖D) and F(S,R) = B(S,R) − Σ_{∅≠K⊊R} F(S,K) P(S,R∖K)."""
        n, width = self.weights.n, self.weights.width
        if k == width:
            return
        row, parts = self.row[s] << n, subsets_of(rest, r)[1:]
        few = parts[np.bitwise_count(np.arange(1, 1 << r)) <= width - k]
        bigger = self.row[s | few]
        cells = (bigger << n) + (rest ^ few)
        counted = np.where(self.separator[bigger] < inf, self.full[cells], -inf)
        full = _difference(_summed(self.parts[cells] + self.clique[bigger]), _summed(counted))
        full[self.boundary[rest] & ~(s | rest) > 0] = -inf
        inner = parts[:-1]
        found = _difference(full, _summed(self.f[row + inner] + self.parts[row + (rest ^ inner)]))
        self.full[row + rest], self.f[row + rest] = full, found
        self.joint[row + rest] = found - self.separator[self.row[s]]

    def _divide(self, s: NDArray[np.int64], rest: NDArray[np.int64], k: int, r: int) -> None:
        """L°, P°, L and P of pairs."""
        n, row = self.weights.n, self.row[s]
        here, first = (row << n) + rest, rest & -rest
        self.proper[here] = _summed(self.joint[(self.row[subsets_of(s, k)[:-1]] << n) + rest])
        parts = first | subsets_of(rest ^ first, r - 1)
        within, left = (row << n) + parts, (row << n) + (rest ^ parts)
        self.none[here] = _summed(self.proper[within] + self.none[left])
        self.links[here] = np.logaddexp(self.proper[here], self.joint[here])
        self.parts[here] = _summed(self.links[within] + self.parts[left])

    def features(self) -> GraphFeatures:
        """Returns the probabilities, if the total is not 0."""
        everything = (1 << self.weights.n) - 1
        cells = (np.arange(self.masks.size) << self.weights.n) + (everything ^ self.masks)
        logs = self.parts[cells] + self.clique, self.none[cells] + self.clique, self.full[cells]
        shares = tuple(np.exp(one - self.total) for one in logs)
        return GraphFeatures.of(self.masks, shares, self.separator == inf, self.connected)


def _summed(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns ln Σ exp over the first axis."""
    highest = np.maximum(logs.max(axis=0, initial=-inf), -1e300)
    with np.errstate(divide="ignore"):
        found: NDArray[np.float64] = np.log(np.exp(logs - highest).sum(axis=0)) + highest
    return found


def _difference(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns ln (exp(one) − exp(other)), other ≤ one but for rounding."""
    share = np.exp(other - np.maximum(one, -1e300))
    with np.errstate(divide="ignore", invalid="ignore"):
        found: NDArray[np.float64] = np.where(share < 1 - _ROUNDING, one + np.log1p(-share), -inf)
    return found
