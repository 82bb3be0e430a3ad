"""Supersets from files: a graph, the best junction tree, the union of several, likely edges of a posterior.

And the way back: constraints under which exact backends look for the best junction tree within a superset.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from jtsolve.averaging.document import read_posterior
from jtsolve.core.files import read_file
from jtsolve.core.graph import UndirectedGraph
from jtsolve.core.problem import Constraints
from jtsolve.errors import ChoiceError, InputError
from jtsolve.io.documents import format_of
from jtsolve.io.graph import FORMAT, arcs_of, edges_of, graph_of, read_document, read_graph
from jtsolve.io.ranking import read_ranking
from jtsolve.io.result import read_result, tree_of
from jtsolve.models.triangulation import minimally_triangulated, triangulated

if TYPE_CHECKING:
    from jtsolve.core.tree import JunctionTree
    from jtsolve.io.result import ResultDocument

LIKELY = 0.01
"""Least posterior probability of an edge of a superset."""

TRIANGULATIONS = ("min-fill", "mcs-m")


def read_superset(path: str | Path, above: float | None = None) -> UndirectedGraph:
    """Returns the graph in a file.

    Args:
        path: a graph; a result, of whose tree it is the graph; results, of whose trees it is the union; or a
            posterior, of which it has the likely edges.
        above: for a posterior: the least probability of an edge; None for `LIKELY`.

    Raises:
        InputError: the file cannot be read, or has no tree.
        ChoiceError: a probability is given for another file, or is none.
    """
    kind = format_of(read_file(path)) if ".json" in Path(path).name.lower() else None
    if above is not None and kind != "jtsolve-posterior":
        raise ChoiceError(f"{path}: only the edges of a posterior have a probability; leave it out")
    if kind == "jtsolve-posterior":
        least = LIKELY if above is None else above
        if not 0 < least <= 1:
            raise ChoiceError(f"the least probability is {least}; give a number above 0 and at most 1")
        posterior = read_posterior(path)
        pairs = combinations(range(posterior.n), 2)
        likely = [(u, v) for u, v in pairs if posterior.edges[u, v] >= least]
        return UndirectedGraph.from_edges(posterior.names, likely)
    if kind == "jtsolve-result":
        return _graph_of(read_result(path), str(path))
    if kind == "jtsolve-results":
        results = read_ranking(path).results
        if not results:
            raise InputError(str(path), "$.results", "there is no tree", "give results with one")
        graphs = [_graph_of(result, str(path)) for result in results]
        union = graphs[0]
        for graph in graphs[1:]:
            union = union.union(graph.aligned(union.names))
        return union
    return read_graph(path)


def _graph_of(result: ResultDocument, source: str) -> UndirectedGraph:
    tree, names = tree_of(result, source)
    return UndirectedGraph.from_edges(names, tree.graph_edges)


def triangulation(graph: UndirectedGraph, heuristic: str = "min-fill") -> JunctionTree:
    """Returns the junction tree of a triangulation of a graph.

    Args:
        graph: any.
        heuristic: min-fill; or mcs-m, whose fill is minimal: no part of it would do.

    Raises:
        ChoiceError: there is no such heuristic.
    """
    if heuristic not in TRIANGULATIONS:
        raise ChoiceError(f"there is no triangulation '{heuristic}'; there are {', '.join(TRIANGULATIONS)}")
    if heuristic == "mcs-m":
        return minimally_triangulated(graph.neighbours)
    return triangulated([2] * graph.n, [1 << u | 1 << v for u, v in graph.edges])


def read_screened(path: str | Path) -> UndirectedGraph:
    """Returns the superset of the selection in a file; of one without it, what `read_superset` returns."""
    source = str(path)
    if ".json" in Path(path).name.lower() and format_of(read_file(path)) == FORMAT:
        document = read_document(path)
        if document.selection is not None:
            index = {name: v for v, name in enumerate(document.variables)}
            pairs = document.selection.superset
            superset = edges_of(pairs, document.variables, index, source, "$.selection.superset")
            return superset.union(graph_of(document, source).moral(arcs_of(document)))
    return read_superset(path)


def is_of_numbers(path: str | Path) -> bool:
    """Tells whether a file holds a graph that was selected from real numbers."""
    if ".json" not in Path(path).name.lower() or format_of(read_file(path)) != FORMAT:
        return False
    document = read_document(path)
    kind = None if document.selection is None else document.selection.data.get("kind")
    return document.strengths is not None or kind in ("gaussian", "nonparanormal")


def constraints_within(
    superset: UndirectedGraph | None, required: UndirectedGraph | None = None
) -> Constraints:
    """Returns the constraints that keep a junction tree within a triangulation of a superset.

    Args:
        superset: of the graph; its min-fill triangulation adds edges, without which it need not have a
            chordal graph with all required edges. None for all pairs.
        required: whose edges the tree has to have; None for none.

    Raises:
        InputError: a required edge is outside.
    """
    forbidden: frozenset[int] = frozenset()
    if superset is not None:
        every = {1 << u | 1 << v for u, v in combinations(range(superset.n), 2)}
        forbidden = frozenset(every - triangulation(superset).edge_sets)
    needed = () if required is None else (1 << u | 1 << v for u, v in required.edges)
    return Constraints(forbidden_edges=forbidden, required_edges=frozenset(needed))
