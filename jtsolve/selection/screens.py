"""Screens: supersets in which the graph is sought."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jtsolve.core.graph import UndirectedGraph
from jtsolve.errors import ChoiceError, InputError
from jtsolve.selection.choosing import Given
from jtsolve.selection.glasso import GraphicalLasso
from jtsolve.selection.method import Task
from jtsolve.selection.neighbourhood import NeighbourhoodSelection
from jtsolve.selection.pc import PC
from jtsolve.selection.samples import Moments

if TYPE_CHECKING:
    from jtsolve.selection.method import SelectionMethod
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
    """A graph that is known to hold all edges; of columns that it lacks, none."""

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
        threshold: above 0 and below 1.
    """

    name: ClassVar[str] = "correlation"
    threshold: float

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise ChoiceError(f"the threshold is {self.threshold}; give a number above 0 and below 1")

    def superset(self, sample: Sample, seed: int) -> UndirectedGraph:
        """See `Screen`."""
        del seed  # nothing is random
        if not isinstance(sample, Moments):
            raise ChoiceError("the screen correlation is for numbers; for states, take pc")
        near = np.abs(sample.correlation) >= self.threshold
        np.fill_diagonal(near, val=False)
        return UndirectedGraph.from_matrix(sample.names, near)


@dataclass(frozen=True, slots=True)
class PcScreen:
    """Algorithm 4 at a small η and a high level on the complete graph; for numbers and states.

    Args:
        depth: η.
        level: α, the share of false edges that pass a test.
        test: see `PC`.
    """

    name: ClassVar[str] = "pc"
    depth: int = 1
    level: float = 0.1
    test: str | None = None

    def __post_init__(self) -> None:
        self._method()  # refuses what it refuses

    def _method(self) -> PC:
        return PC(self.depth, test=self.test, criterion=Given(self.level))

    def superset(self, sample: Sample, seed: int) -> UndirectedGraph:
        """See `Screen`."""
        method = self._method()
        objection = method.objection(sample)
        if objection is not None:
            raise ChoiceError(f"the screen: {objection}; choose another")
        return _run(method, sample, seed)


@dataclass(frozen=True, slots=True)
class Looser:
    """The graphical lasso or neighbourhood selection on the complete graph, at a share of the λ it chooses.

    Args:
        method: one of the two.
        share: of λ, above 0 and at most 1.
    """

    name: ClassVar[str] = "looser"
    method: GraphicalLasso | NeighbourhoodSelection
    share: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.method, GraphicalLasso | NeighbourhoodSelection):
            raise ChoiceError(
                "only glasso and neighbourhood have a looser run; take the screen pc for others"
            )
        if not 0 < self.share <= 1:
            raise ChoiceError(f"the share is {self.share}; give a number above 0 and at most 1")

    def superset(self, sample: Sample, seed: int) -> UndirectedGraph:
        """See `Screen`; raises InputError if no λ is chosen."""
        from dataclasses import replace

        objection = self.method.objection(sample)
        if objection is not None:
            raise ChoiceError(f"the screen: {objection}; choose another")
        decision = self.method.decide(sample, _everything(sample), seed)
        if not decision.parameter:
            raise InputError("table", "columns", "no two are correlated", "there is nothing to select")
        looser = replace(self.method, criterion=Given(decision.parameter * self.share))
        return _run(looser, sample, seed)


def _everything(sample: Sample) -> Task:
    graph = ~np.eye(sample.n, dtype=np.bool_)
    return Task(graph, graph)


def _run(method: SelectionMethod, sample: Sample, seed: int) -> UndirectedGraph:
    kept = method.decide(sample, _everything(sample), seed).kept
    return UndirectedGraph.from_matrix(sample.names, kept)
