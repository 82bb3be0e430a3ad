"""Strengths of edges in resampled data, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jtsolve.core.result import Stop

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Strengths:
    """Bootstrap strengths of edges.

    Attributes:
        edges: shape (n, n): the share of the resamples whose tree has the edge.
        resamples: number done; fewer than requested if stopped.
        wanted: number requested.
        optimal: how many of the trees are proved to be the best of their resample.
        backend: that found them.
        seed: of the resamples.
        stop: why it ended.
    """

    edges: NDArray[np.float64]
    resamples: int
    wanted: int
    optimal: int
    backend: str
    seed: int
    stop: Stop = Stop.FINISHED
