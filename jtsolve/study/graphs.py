"""Graphs that users give: of jtsolve or networkx, pairs of names, or files of several kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jtsolve.core.graph import UndirectedGraph
from jtsolve.errors import InputError
from jtsolve.io.documents import format_of
from jtsolve.io.graph import decoded_graph, edges_of, index_of, read_document
from jtsolve.io.ranking import read_ranking
from jtsolve.io.result import read_result, tree_of
from jtsolve.scoring.registry import REGISTRY as SCORES
from jtsolve.tables.frames import is_listing, is_path, relabelled
from jtsolve.tables.values import label_of

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.core.run import Run
    from jtsolve.io.result import ResultDocument
    from jtsolve.selection.framed import SelectedGraph
    from jtsolve.selection.method import SelectionMethod
    from jtsolve.study.data import Data

LIKELY = 0.01
"""Least posterior probability of an edge that is read from a posterior, or least upper bound of it."""


def graph_in(given: Any, *, screened: bool = False) -> tuple[UndirectedGraph, bool, str]:
    """Returns a graph, whether it was selected from real numbers, and its name in messages.

    Args:
        given: a graph of jtsolve or networkx, a selected graph, pairs of names, or the path of a file: a
            graph; a result, for the graph of its tree; results, for the union of the graphs of their trees;
            or a posterior, for its likely edges.
        screened: for a selection, return the edges that its screen left, not the selected ones.

    Raises:
        InputError: the file cannot be read, or it is not a graph.
    """
    if is_path(given):
        return *_graph_in_file(given, screened=screened), str(given)
    if isinstance(given, UndirectedGraph):
        return given, False, "the graph"
    selection = getattr(given, "selection", None)
    if selection is not None:
        gaussian = selection.strengths is not None
        return (selection.superset if screened else selection.graph), gaussian, "the selected graph"
    if is_listing(given) and not hasattr(given, "nodes"):
        pairs = [tuple(map(label_of, pair)) if is_listing(pair) else () for pair in given]
        if not all(len(pair) == 2 for pair in pairs):  # noqa: PLR2004 - a pair
            raise InputError("the graph", "", "it is not a list of pairs", 'write [("A", "B"), ("B", "C")]')
        names = tuple(dict.fromkeys(name for pair in pairs for name in pair))
        index = {name: v for v, name in enumerate(names)}
        return UndirectedGraph.from_edges(names, [(index[a], index[b]) for a, b in pairs]), False, "the graph"
    return UndirectedGraph.from_networkx(given, "graph", label_of), False, "the graph"


def _graph_in_file(path: str | Path, *, screened: bool) -> tuple[UndirectedGraph, bool]:
    """Returns the graph in a file, and whether it was selected from real numbers; see `graph_in`."""
    source, kind = str(path), format_of(path)
    if kind == "jtsolve-posterior":
        from jtsolve.averaging.posterior import GraphPosterior

        posterior = GraphPosterior.read(path)
        most = posterior.edges if posterior.intervals is None else posterior.intervals.high
        return UndirectedGraph.from_matrix(posterior.names, most >= LIKELY), False
    if kind == "jtsolve-result":
        return _graph_of(read_result(path), source), False
    if kind == "jtsolve-results":
        graphs = [_graph_of(result, source) for result in read_ranking(path).results]
        if not graphs:
            raise InputError(source, "$.results", "there is no tree", "give results with one")
        union = graphs[0]
        for graph in graphs[1:]:
            union = union.union(graph.aligned(union.names))
        return union, False
    document = read_document(path)
    selection = document.selection
    columns = None if selection is None else selection.data.get("kind")
    of_numbers = document.strengths is not None or columns in ("gaussian", "nonparanormal")
    if selection is None or not screened:
        return decoded_graph(document, source), of_numbers
    index = index_of(document.variables, source)
    return edges_of(selection.superset, document.variables, index, source, "$.selection.superset"), of_numbers


def _graph_of(result: ResultDocument, source: str) -> UndirectedGraph:
    tree, names = tree_of(result, source)
    return UndirectedGraph.from_edges(names, tree.graph_edges)


def labels_of_graph(given: Any) -> dict[str, Any]:
    """Returns the user's labels of variables, where they differ from the names of `graph_in`, by name."""
    if is_path(given) or isinstance(given, UndirectedGraph):
        return {}
    if hasattr(given, "selection"):
        return dict(given.style.names)
    if hasattr(given, "nodes"):
        return relabelled(given.nodes)
    return relabelled(dict.fromkeys(name for pair in given for name in pair))


def selected_graph(data: Data, run: Run, method: str | SelectionMethod | None, given: Any) -> SelectedGraph:
    """Returns the undirected graph that is selected from data.

    Args:
        data: without a cluster.
        run: limits, progress and messages.
        method: see `SelectionPlan.of`.
        given: the other options of `jtsolve.select`, by their names.
    """
    from jtsolve.selection.choices import SelectionPlan
    from jtsolve.selection.framed import SelectedGraph
    from jtsolve.tables.table import ContinuousTable, DataTable

    known, _, source = (None, False, "superset") if given.superset is None else graph_in(given.superset)
    plan = SelectionPlan.of(method, given.kind, given.screen, given.over, superset=known, source=source)
    table = data.read(SCORES.find(plan.score), run, kinds=plan.kinds)
    assert isinstance(table, DataTable | ContinuousTable), "no cluster reads it, and no mixed score"
    return SelectedGraph(plan.run(table, run), table, data.style(table))
