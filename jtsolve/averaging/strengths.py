"""Bootstrap strengths of edges, as a value."""

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
        resamples: number of resamples completed.
        wanted: number of resamples requested.
        optimal: number of trees that are proved optimal for their resample.
        backend: the backend that found the trees.
        seed: seed of the resamples.
        stop: why the run ended.
    """

    edges: NDArray[np.float64]
    resamples: int
    wanted: int
    optimal: int
    backend: str
    seed: int
    stop: Stop = Stop.FINISHED
