"""Graph selection over junction trees: the framework around any method.

    G ← ∅; U ← H                                       (kept and undecided edges)
    while U ≠ ∅:
        the region graph of a junction tree of U ∪ G
        l ← the first row with a region R such that U ∩ H'_R ≠ ∅
        for every such R of row l: decide U ∩ H'_R from the columns R̄, given the other edges of U ∪ G
        move the decided pairs from U, and the kept ones to G

H'_R are the edges within R but within no child of R. The method is given the marginal graph of U ∪ G
over R̄; all regions of a row use the same U ∪ G, so that their order does not matter. Each round decides an
edge: the lowest region that holds an undecided edge has no child that does. Junction trees are built only for
components with undecided edges.

Reference:
    D. Vats, R. Nowak, A junction tree framework for undirected graphical model selection, JMLR 15, 2014,
    Algorithms 2 and 3.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np

from jtsolve.core.graph import UndirectedGraph
from jtsolve.core.machine import describe_machine
from jtsolve.core.run import Run
from jtsolve.core.selection import Selection, Step
from jtsolve.core.triangulation import triangulation
from jtsolve.core.varset import members, varset
from jtsolve.errors import ChoiceError
from jtsolve.selection.gaussian import covariance_selection, partial_correlations
from jtsolve.selection.method import Task, method_options
from jtsolve.selection.regions import ClusterTree, region_graph
from jtsolve.selection.samples import DiscreteSample, GaussianSample
from jtsolve.selection.screens import Complete, PcScreen
from jtsolve.tables.table import ContinuousTable, DataTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jtsolve.core.graph import Edge
    from jtsolve.core.varset import VarSet
    from jtsolve.selection.method import Decision, SelectionMethod
    from jtsolve.selection.samples import Margins, Sample


class Screen(Protocol):
    """A screen: finds a superset of the graph. A frozen value whose fields are its options."""

    name: ClassVar[str]

    def superset(self, sample: Sample, seed: int) -> UndirectedGraph:
        """Returns the graph, over the columns of the sample."""
        ...


@dataclass(frozen=True, slots=True)
class Plain:
    """All edges of the superset decided at once, from all columns."""

    name: ClassVar[Literal["plain"]] = "plain"
    separator_size: ClassVar[None] = None

    def steps(
        self, sample: Sample, superset: UndirectedGraph, method: SelectionMethod, run: Run
    ) -> Iterator[Step]:
        """Yields the one step.

        Args:
            sample: of the columns.
            superset: the candidate edges.
            method: decides the edges.
            run: seed and progress.
        """
        if superset.size:
            run.progress(note=f"deciding {superset.size} edges", done=0.0)
            everything = (1 << superset.n) - 1
            yield _decide(
                sample, superset, method, run.seed, (1, 1), (everything, everything), edges=superset.edges
            )


@dataclass(frozen=True, slots=True)
class OverJunctionTree:
    """Region by region (Algorithm 3).

    Args:
        separator_size: maximum size of a separator; clusters with a larger one are merged. None for no limit.

    Raises:
        ChoiceError: the size is negative.
    """

    name: ClassVar[Literal["junction-tree"]] = "junction-tree"
    main: ClassVar[str] = "separator_size"
    separator_size: int | None = None

    def __post_init__(self) -> None:
        if self.separator_size is not None and self.separator_size < 0:
            raise ChoiceError(f"the separator size is {self.separator_size}; give a number of 0 or more")

    def steps(
        self, sample: Sample, superset: UndirectedGraph, method: SelectionMethod, run: Run
    ) -> Iterator[Step]:
        """Yields the steps, round by round.

        Args:
            sample: of the columns.
            superset: the candidate edges.
            method: decides the edges.
            run: seed and progress.
        """
        undecided, kept = superset, UndirectedGraph.empty(superset.names)
        number = 0
        while undecided.size:
            number += 1
            graph = undecided.union(kept)
            decided: list[Edge] = []
            more: list[Edge] = []
            for row, region, columns, edges in self._row(graph, undecided):
                left = undecided.size - len(decided)
                run.progress(note=f"round {number}: deciding {left} edges", done=1 - left / superset.size)
                step = _decide(sample, graph, method, run.seed, (number, row), (region, columns), edges)
                decided += step.candidates
                more += step.kept
                yield step
            undecided = undecided.without(UndirectedGraph.from_edges(superset.names, decided))
            kept = kept.union(UndirectedGraph.from_edges(superset.names, more))

    def _row(
        self, graph: UndirectedGraph, undecided: UndirectedGraph
    ) -> list[tuple[int, VarSet, VarSet, list[Edge]]]:
        """Returns the row, R, R̄ and edges of every region of the first row that has undecided edges."""
        open_vertices = varset(v for v, around in enumerate(undecided.neighbours) if around)
        inside = 0
        for part in graph.components():
            if part & open_vertices:
                inside |= part
        tree = triangulation(graph.induced(inside))
        regions = region_graph(ClusterTree.of(tree, self.separator_size))

        def found(row: int) -> list[tuple[int, VarSet, VarSet, list[Edge]]]:
            sets = enumerate(regions.rows[row])
            near = [(place, region) for place, region in sets if (region & open_vertices).bit_count() > 1]
            own = [(*one, regions.own_edges(row, one[0], undecided.neighbours)) for one in near]
            return [
                (row + 1, region, regions.ancestry(row, place), edges)
                for place, region, edges in own
                if edges
            ]

        return next(filter(None, map(found, range(len(regions.rows)))))


Framework = Plain | OverJunctionTree


def _decide(  # noqa: PLR0917 - as in Algorithm 2
    sample: Sample,
    graph: UndirectedGraph,
    method: SelectionMethod,
    seed: int,
    place: tuple[int, int],
    region: tuple[VarSet, VarSet],
    edges: Sequence[Edge],
) -> Step:
    """Decides edges of a region, R and R̄, of U ∪ G (Algorithm 2); the place is its round and row."""
    columns = list(members(region[1]))
    at = {v: k for k, v in enumerate(columns)}
    marginal = graph.marginal(region[1])
    around = np.zeros((len(columns), len(columns)), dtype=np.bool_)
    for v in columns:
        around[at[v], [at[u] for u in members(marginal[v])]] = True
    candidates = np.zeros_like(around)
    for u, v in edges:
        candidates[at[u], at[v]] = candidates[at[v], at[u]] = True
    decision: Decision = method.decide(sample.restricted(columns), Task(around, candidates), seed)
    kept = tuple((u, v) for u, v in edges if decision.kept[at[u], at[v]])
    return Step(*place, *region, tuple(edges), kept, decision.parameter, decision.shrinkage)


def select(
    data: ContinuousTable | DataTable | Sample,
    method: SelectionMethod,
    screen: Screen | None = None,
    over: Framework | None = None,
    *,
    margins: Margins = "gaussian",
    run: Run | None = None,
) -> Selection:
    """Selects the graph of the columns of a table.

    Args:
        data: a table of numbers or states, or the sample made of it.
        method: decides the edges.
        screen: finds the superset of the graph; None for `PcScreen`, or `Complete` with `Plain`.
        over: the framework; None for the junction tree without a limit on separators.
        margins: whether numeric columns are normal, or normal after increasing transformations.
        run: seed and progress; None for the defaults.

    Raises:
        ChoiceError: the method or the screen does not support this kind of data.
        InputError: columns are linearly dependent, or the superset has other columns.
    """
    run = run or Run()
    began = time.perf_counter()
    over = over or OverJunctionTree()
    if screen is None:
        screen = Complete() if isinstance(over, Plain) else PcScreen()
    if isinstance(data, ContinuousTable):
        sample: Sample = GaussianSample.of(data, margins)
    else:
        sample = DiscreteSample.of(data) if isinstance(data, DataTable) else data
    objection = method.objection(sample)
    if objection is not None:
        raise ChoiceError(objection)
    run.progress(note="screening", done=0.0)
    superset = screen.superset(sample, run.seed)
    screened = time.perf_counter()
    steps = tuple(over.steps(sample, superset, method, run))
    graph = UndirectedGraph.from_edges(sample.names, [edge for step in steps for edge in step.kept])
    decided = time.perf_counter()
    strengths: tuple[float, ...] | None = None
    if isinstance(sample, GaussianSample):
        run.progress(note="estimating the strengths", done=1.0)
        strengths = strengths_of(sample, graph)
    facts: dict[str, Any] = {
        "kind": margins if isinstance(sample, GaussianSample) else "states",
        "rows": sample.rows,
    }
    if isinstance(data, ContinuousTable | DataTable):
        facts["digest"] = data.digest()
    end = time.perf_counter()
    return Selection(
        graph,
        superset,
        steps,
        strengths,
        over=over.name,
        separator_size=over.separator_size,
        method=method_options(method),
        screen=method_options(screen),
        seed=run.seed,
        data=facts,
        seconds={"screen": screened - began, "decisions": decided - screened, "total": end - began},
        environment=describe_machine(1),
    )


def strengths_of(sample: GaussianSample, graph: UndirectedGraph) -> tuple[float, ...]:
    """Returns the partial correlation of each edge under a graph, given all other columns."""
    joined = graph.matrix()
    matrix = partial_correlations(covariance_selection(sample.regular(joined)[0], joined, 1e-7))
    return tuple(float(matrix[u, v]) for u, v in graph.edges)
