"""Screens: supersets in which the graph is sought."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jtsolve.core.graph import UndirectedGraph
from jtsolve.errors import ChoiceError
from jtsolve.selection.method import Task
from jtsolve.selection.pc import PC
from jtsolve.selection.samples import GaussianSample

if TYPE_CHECKING:
    from jtsolve.selection.samples import Sample


@dataclass(frozen=True, slots=True)
class Complete:
    """All pairs."""

    name: ClassVar[str] = "complete"

    def superset(self, sample: Sample, seed: int) -> UndirectedGraph:
        """See `Screen`."""
        del seed  # nothing is random
        return UndirectedGraph.complete(sample.names)


@dataclass(frozen=True, slots=True)
class GivenGraph:
    """A given supergraph; it has no edges at columns that it lacks."""

    name: ClassVar[str] = "given"
    graph: UndirectedGraph
    source: str = "superset"

    def superset(self, sample: Sample, seed: int) -> UndirectedGraph:
        """See `Screen`; raises InputError if the graph is not over the columns."""
        del seed  # nothing is random
        return self.graph.aligned(sample.names, self.source)


@dataclass(frozen=True, slots=True)
class Correlations:
    """Pairs whose correlation is at least a threshold in size (Fan and Lv, JRSS B 70, 2008); for numbers.

    Args:
        threshold: least absolute correlation, above 0 and below 1.
    """

    name: ClassVar[str] = "correlation"
    main: ClassVar[str] = "threshold"
    threshold: float

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise ChoiceError(f"the threshold is {self.threshold}; give a number above 0 and below 1")

    def superset(self, sample: Sample, seed: int) -> UndirectedGraph:
        """See `Screen`."""
        del seed  # nothing is random
        if not isinstance(sample, GaussianSample):
            raise ChoiceError("the screen correlation is for numbers; for states, use pc")
        near = np.abs(sample.correlation) >= self.threshold
        np.fill_diagonal(near, val=False)
        return UndirectedGraph.from_matrix(sample.names, near)


@dataclass(frozen=True, slots=True)
class PcScreen:
    """Algorithm 4 at a small η and a high level on the complete graph; for numbers and states.

    Args:
        depth: η, the largest |S|.
        level: α of the tests.
    """

    name: ClassVar[str] = "pc"
    main: ClassVar[str] = "depth"
    depth: int = 1
    level: float = 0.1

    def __post_init__(self) -> None:
        PC(self.depth, self.level)  # with the same refusals

    def superset(self, sample: Sample, seed: int) -> UndirectedGraph:
        """See `Screen`."""
        everything = ~np.eye(sample.n, dtype=np.bool_)
        kept = PC(self.depth, self.level).decide(sample, Task(everything, everything), seed).kept
        return UndirectedGraph.from_matrix(sample.names, kept)
