"""`SelectedGraph`, the result of `jtsolve.select`: a graph in the names of the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jtsolve.core.triangulation import constraints_within, triangulation
from jtsolve.draw.picture import draw_edges
from jtsolve.errors import public
from jtsolve.io.graph import decoded_graph, selection_to_document, write_graph
from jtsolve.listing import cell_as_text
from jtsolve.models.framed import Model
from jtsolve.models.learning.fit import count
from jtsolve.models.learning.mixed_tree import fit_mixed
from jtsolve.tables.frames import FrameStyle
from jtsolve.tables.table import ContinuousTable

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    import networkx as nx

    from jtsolve.core.graph import UndirectedGraph
    from jtsolve.core.problem import Constraints
    from jtsolve.core.selection import Selection
    from jtsolve.io.graph import GraphDocument
    from jtsolve.tables.table import DataTable


@public
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SelectedGraph:
    """A graph selected from data.

    Args:
        selection: the graph, and every decision.
        table: the data.
        style: names and types of the data.

    >>> import numpy as np
    >>> import jtsolve as jt
    >>> steps = np.random.default_rng(0).normal(size=(300, 3))
    >>> data = {"a": steps[:, 0], "b": steps[:, 0] + steps[:, 1], "c": steps[:, 2]}
    >>> selected = jt.select(data)
    >>> selected.edges
    [('a', 'b')]
    >>> model = selected.fit()
    >>> model.query("b", given={"a": 1.0})["mean"].round(0).to_list()
    [1.0]
    """

    selection: Selection
    table: DataTable | ContinuousTable
    style: FrameStyle = FrameStyle()  # noqa: RUF009 - a frozen value

    @property
    def edges(self) -> list[tuple[Any, Any]]:
        """The edges, by names."""
        return self._labelled(self.selection.graph)

    @property
    def superset(self) -> list[tuple[Any, Any]]:
        """The edges that passed the screen: the candidates of the method."""
        return self._labelled(self.selection.superset)

    def _labelled(self, graph: UndirectedGraph) -> list[tuple[Any, Any]]:
        """Returns the edges of a graph by the user's names."""
        labels = self.style.names
        return [(labels.get(one, one), labels.get(other, other)) for one, other in graph.named_edges]

    def graph(self) -> nx.Graph:
        """Returns a networkx graph; `strength` is the partial correlation of an edge, for numeric columns."""
        import networkx as nx

        graph, strengths = self.selection.graph, self.selection.strengths or ()
        attributes = {edge: {"strength": value} for edge, value in zip(graph.edges, strengths, strict=False)}
        return nx.relabel_nodes(graph.to_networkx(attributes), self.style.names)

    def fit(self, *, smoothing: float | None = None) -> Model:
        """Returns the model of the min-fill triangulation of the graph, fitted to the data.

        Args:
            smoothing: equivalent sample size of the prior; None for 1 for states, 0 for numbers.

        Raises:
            InputError: there are too few rows for the largest clique.
        """
        tree = triangulation(self.selection.graph)
        facts = {"graph": self.selection.method["name"], "triangulation": "min-fill"}
        table = replace(self.table, provenance={**self.table.provenance, **facts})
        if isinstance(table, ContinuousTable):
            return Model(fit_mixed(tree, table, ess=smoothing or 0.0), self.style)
        return Model(count(tree, table).model(1.0 if smoothing is None else smoothing), self.style)

    def constraints(self, *, require: bool = False) -> Constraints:
        """Returns constraints that restrict `jtsolve.solve` to the superset; see `constraints_within`."""
        return constraints_within(self.selection.superset, self.selection.graph if require else None)

    def write(self, path: str | Path) -> None:
        """Writes the graph to a file: .json or .json.gz with every decision, .graphml, .csv."""
        write_graph(selection_to_document(self.selection), path)

    def show(self, path: str | Path) -> None:
        """Draws the graph into a file: edges by sign and strength, regions in colour.

        A file is .svg, .png, .dot, or .html, which shows the graph at any size; see `NamedTree.show`.

        Raises:
            ChoiceError: the suffix is another, or a graph of more than 400 variables is not drawn as .html.
        """
        draw_document(selection_to_document(self.selection), path)

    def facts(self) -> dict[str, Any]:
        """Returns a summary as JSON values."""
        return selection_facts(selection_to_document(self.selection))

    def __repr__(self) -> str:
        return repr(self.selection).replace("Selection", "SelectedGraph", 1)

    def _repr_html_(self) -> str:
        from jtsolve.draw.html import graph_html

        rows = [(key.replace("_", " "), cell_as_text(fact)) for key, fact in self.facts().items() if fact]
        found = self.selection
        return graph_html([repr(self), *rows], found.graph.edges, found.graph.names, found.strengths)


def draw_document(document: GraphDocument, path: str | Path) -> None:
    """Draws a graph into a file; each variable has the colour of its region.

    Args:
        document: of the graph, perhaps with its selection.
        path: the file to write, atomically; see `picture.draw_edges`.

    Raises:
        ChoiceError: the suffix is not supported, or a graph of more than 400 variables is not drawn as .html.
        InputError: the file cannot be written.
    """
    graph = decoded_graph(document, "the graph")
    strengths = None
    if document.strengths is not None:
        of_pair = {frozenset(pair): x for pair, x in zip(document.edges, document.strengths, strict=True)}
        strengths = [of_pair[frozenset(pair)] for pair in graph.named_edges]
    index = {name: v for v, name in enumerate(graph.names)}
    steps = () if document.selection is None else document.selection.steps
    groups = region_of_vertices(graph, [[index[name] for name in step.region] for step in steps])
    draw_edges(graph.edges, graph.names, path, strengths=strengths, groups=groups)


def region_of_vertices(graph: UndirectedGraph, regions: list[list[int]]) -> list[int | None]:
    """Returns for each vertex the first region with the most of its neighbours; None for a single region."""
    if len(regions) < 2:  # noqa: PLR2004
        return [None] * graph.n
    best: list[tuple[int, int | None]] = [(0, None)] * graph.n
    for number, region in enumerate(regions):
        inside = sum(1 << v for v in region)
        for v in region:
            shared = (graph.neighbours[v] & inside).bit_count()
            if shared > best[v][0]:
                best[v] = (shared, number)
    used = list(dict.fromkeys(number for _, number in best if number is not None))
    return [None if number is None else used.index(number) for _, number in best]


def selection_facts(document: GraphDocument) -> dict[str, Any]:
    """Returns a summary of a graph, and of its selection if it has one, as JSON values."""
    facts = {"variables": len(document.variables), "edges": len(document.edges)}
    if (selection := document.selection) is None:
        return facts
    return {
        **facts,
        "superset": len(selection.superset),
        "method": selection.method.get("name", ""),
        "screen": selection.screen.get("name", ""),
        "over": selection.over,
        "steps": len(selection.steps),
        "rounds": max((step.round for step in selection.steps), default=0),
        "largest_region": max((len(step.columns) for step in selection.steps), default=0),
        "shrunk_steps": sum(step.shrinkage > 0 for step in selection.steps),
        "rows": selection.data.get("rows"),
        "kind": selection.data.get("kind"),
        "seconds": selection.seconds.get("total"),
    }
