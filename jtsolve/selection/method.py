"""The protocol of selection methods: which candidate edges to keep, given columns and other edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from jtsolve.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.selection.samples import Sample


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Edges to be decided.

    Args:
        graph: bool, shape (m, m): the marginal graph over the columns, a superset of the true one.
        candidates: bool, shape (m, m): the edges to be decided; all others of the graph are given.

    Raises:
        InputError: a matrix is not symmetric or has a loop, or a candidate is outside the superset.
    """

    graph: NDArray[np.bool_]
    candidates: NDArray[np.bool_]

    def __post_init__(self) -> None:
        for name, matrix in (("graph", self.graph), ("candidates", self.candidates)):
            if matrix.shape != self.graph.shape or (matrix != matrix.T).any() or matrix.diagonal().any():
                reason = "the matrix is not symmetric without loops"
                raise InputError("task", name, reason, "give the adjacency matrix of a graph")
        if (self.candidates & ~self.graph).any():
            reason = "an edge is outside the superset"
            raise InputError("task", "candidates", reason, "decide edges of the superset only")

    @property
    def given(self) -> NDArray[np.bool_]:
        """The other edges of the graph, neither penalised nor removed, shape (m, m)."""
        return self.graph & ~self.candidates

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The candidates (i, j), i < j."""
        return [(int(i), int(j)) for i, j in np.argwhere(np.triu(self.candidates))]


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The edges that a method keeps.

    Attributes:
        kept: bool, shape (m, m), within the candidates.
        parameter: the parameter used; None without one.
        shrinkage: intensity of the shrinkage of correlations towards 0.
    """

    kept: NDArray[np.bool_]
    parameter: float | None = None
    shrinkage: float = 0.0


class SelectionMethod(Protocol):
    """A method that decides edges. A frozen value whose fields are its options."""

    name: ClassVar[str]

    def objection(self, sample: Sample) -> str | None:
        """Returns why the method does not support the sample, as a sentence; None if it does."""
        ...

    def decide(self, sample: Sample, task: Task, seed: int) -> Decision:
        """Decides the candidates.

        Args:
            sample: the columns of the task.
            task: the candidates and the given edges.
            seed: random seed.
        """
        ...


def method_options(value: Any) -> dict[str, Any]:
    """Returns the name and the fields of a method, screen or criterion as JSON values."""
    from dataclasses import fields, is_dataclass

    options: dict[str, Any] = {"name": value.name}
    for entry in fields(value):
        own = getattr(value, entry.name)
        if is_dataclass(own) and hasattr(own, "name"):
            own = method_options(own)
        if own is None or isinstance(own, bool | int | float | str | dict):
            options[entry.name] = own
    return options
