"""Graphs from files: a graph, the best junction tree, the union of several, likely edges of a posterior."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtsolve.averaging.document import read_posterior
from jtsolve.core.files import read_file
from jtsolve.core.graph import UndirectedGraph
from jtsolve.errors import InputError
from jtsolve.io.documents import format_of
from jtsolve.io.graph import FORMAT, edges_of, index_of, read_document, read_graph
from jtsolve.io.ranking import read_ranking
from jtsolve.io.result import read_result, tree_of

if TYPE_CHECKING:
    from jtsolve.io.result import ResultDocument

LIKELY = 0.01
"""Least posterior probability of an edge of a superset, or least upper bound of it."""


def read_superset(path: str | Path) -> UndirectedGraph:
    """Returns the graph in a file.

    Args:
        path: a graph; a result, for the graph of its tree; results, for the union of those of their trees; or
            a posterior, for its likely edges.

    Raises:
        InputError: the file cannot be read, or has no tree.
    """
    source = str(path)
    kind = _format_of(path)
    if kind == "jtsolve-posterior":
        posterior = read_posterior(path)
        most = posterior.edges if posterior.intervals is None else posterior.intervals.high
        return UndirectedGraph.from_matrix(posterior.names, most >= LIKELY)
    if kind == "jtsolve-result":
        return _graph_of(read_result(path), source)
    if kind == "jtsolve-results":
        results = read_ranking(path).results
        if not results:
            raise InputError(source, "$.results", "there is no tree", "give results with one")
        graphs = [_graph_of(result, source) for result in results]
        union = graphs[0]
        for graph in graphs[1:]:
            union = union.union(graph.aligned(union.names))
        return union
    return read_graph(path)


def read_screened(path: str | Path) -> UndirectedGraph:
    """Returns the superset of the selection in a file; of one without it, that of `read_superset`."""
    source = str(path)
    if _format_of(path) == FORMAT:
        document = read_document(path)
        if document.selection is not None:
            index = index_of(document.variables, source)
            pairs = document.selection.superset
            return edges_of(pairs, document.variables, index, source, "$.selection.superset")
    return read_superset(path)


def _format_of(path: str | Path) -> Any:
    """Returns the format that a JSON file names; None for other files."""
    return format_of(read_file(path)) if ".json" in Path(path).name.lower() else None


def _graph_of(result: ResultDocument, source: str) -> UndirectedGraph:
    tree, names = tree_of(result, source)
    return UndirectedGraph.from_edges(names, tree.graph_edges)


def is_of_numbers(path: str | Path) -> bool:
    """Returns whether a file holds a graph that was selected from real numbers."""
    if ".json" in Path(path).name.lower() and format_of(read_file(path)) != FORMAT:
        return False
    document = read_document(path)
    kind = None if document.selection is None else document.selection.data.get("kind")
    return document.strengths is not None or kind in ("gaussian", "nonparanormal")
