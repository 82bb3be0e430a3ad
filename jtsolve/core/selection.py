"""The result of graph selection: the graph, the superset that was searched, and every decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from jtsolve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jtsolve.core.graph import Edge, UndirectedGraph
    from jtsolve.core.varset import VarSet

Over = Literal["plain", "junction-tree"]


@dataclass(frozen=True, slots=True)
class Step:
    """One decision: the edges of a region, from the columns of the region and its ancestors.

    Attributes:
        round: from 1; all steps of a round see the graph at its beginning.
        row: of the region in the region graph, from 1.
        region: R.
        columns: R̄, which holds R.
        candidates: the edges that were decided, within R, (u, v) with u < v.
        kept: those that were kept.
        parameter: the one chosen, such as λ; None if the method has none.
        shrinkage: the share of 0 in the correlations, used where the rows do not exceed the columns.
    """

    round: int
    row: int
    region: VarSet
    columns: VarSet
    candidates: tuple[Edge, ...]
    kept: tuple[Edge, ...]
    parameter: float | None = None
    shrinkage: float = 0.0


@dataclass(frozen=True, slots=True)
class Selection:
    """A selected graph.

    Attributes:
        graph: the edges kept.
        superset: the edges decided: H.
        steps: every decision, in order.
        strengths: of each edge, in the order of `graph.edges`: the partial correlation given all other
            variables under the graph; None for states, or where the rows do not suffice.
        over: whether the superset was decided at once, or region by region.
        separator_size: clusters with a larger separator were merged; None for no limit.
        method: its name and options.
        screen: its name and options.
        seed: of everything random.
        data: remarks: kind, rows, digest.
        seconds: of the screen, the decisions, and in total.
        environment: versions and machine.

    Raises:
        InputError: the numbers of edges and strengths differ, or the graph leaves the superset.
    """

    graph: UndirectedGraph
    superset: UndirectedGraph
    steps: tuple[Step, ...]
    strengths: tuple[float, ...] | None = None
    over: Over = "junction-tree"
    separator_size: int | None = None
    method: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    screen: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    seed: int = 0
    data: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    seconds: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    environment: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if self.strengths is not None and len(self.strengths) != self.graph.size:
            reason = f"{len(self.strengths)} strengths for {self.graph.size} edges"
            raise InputError("selection", "strengths", reason, "give one for every edge")
        if not self.graph.is_subgraph_of(self.superset):
            raise InputError("selection", "graph", "it has an edge that the superset lacks", "select again")

    def __repr__(self) -> str:
        size = f"{self.graph.n} variables, {self.graph.size} of {self.superset.size} edges"
        return f"Selection({size}, {len(self.steps)} steps)"
