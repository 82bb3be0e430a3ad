"""Graphs that users give: of jtsolve or networkx, pairs of names, or files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jtsolve.core.graph import UndirectedGraph
from jtsolve.errors import InputError
from jtsolve.tables.frames import is_listing, is_path, relabelled
from jtsolve.tables.values import label_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def graph_in(given: Any, *, screened: bool = False) -> tuple[UndirectedGraph, bool, str]:
    """Returns a graph, whether it was selected from real numbers, and its name in messages.

    Args:
        given: a graph of jtsolve or networkx, a selected graph, pairs of names, or the path of a graph, a
            result, results or a posterior.
        screened: of a selection, use the pairs that its screen left instead of the selected edges.

    Raises:
        InputError: the file cannot be read, or it is not a graph.
    """
    if is_path(given):
        from jtsolve.study.supersets import is_of_numbers, read_screened, read_superset

        graph = (read_screened if screened else read_superset)(given)
        return graph, is_of_numbers(given), str(given)
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


def labels_of_graph(given: Any) -> dict[str, Any]:
    """Returns the names of variables that the user's graph has otherwise than `graph_in`, by the latter."""
    if is_path(given) or isinstance(given, UndirectedGraph):
        return {}
    if hasattr(given, "selection"):
        return dict(given.style.names)
    if hasattr(given, "nodes"):
        return relabelled(given.nodes)
    return relabelled(dict.fromkeys(name for pair in given for name in pair))


def graph_for(given: Any, names: Sequence[str], *, screened: bool) -> UndirectedGraph | None:
    """Returns a graph over variables of these names, in their order; None for None. See `graph_in`.

    Args:
        given: a graph or a file, see `graph_in`.
        names: of the variables.
        screened: for a selection, return the edges left by its screen, not the selected ones.
    """
    if given is None:
        return None
    graph, _, source = graph_in(given, screened=screened)
    return graph.aligned(names, source)
