"""Graphs as constraints, and junction trees of the user's own graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jtsolve.core.graph import UndirectedGraph
from jtsolve.tables.frames import is_path

if TYPE_CHECKING:
    from collections.abc import Sequence


def graph_for(given: Any, names: Sequence[str], *, screened: bool) -> UndirectedGraph | None:
    """Returns a graph over variables of these names, in their order; None for None.

    Args:
        given: a graph of jtsolve or networkx, a selected graph, or the path of a graph, result, results or
            posterior.
        names: of the variables.
        screened: take what its screen left of a selection, instead of the selected edges.

    Raises:
        InputError: the file cannot be read, or a variable is unknown.
    """
    if given is None:
        return None
    if is_path(given):
        from jtsolve.selection.supersets import read_screened, read_superset

        return (read_screened if screened else read_superset)(given).aligned(names, str(given))
    selection = getattr(given, "selection", None)
    if selection is not None:
        graph: UndirectedGraph = selection.screened if screened else selection.markov
        return graph.aligned(names)
    if not isinstance(given, UndirectedGraph):
        given = UndirectedGraph.from_networkx(given, "graph")
    return given.aligned(names, "graph")
