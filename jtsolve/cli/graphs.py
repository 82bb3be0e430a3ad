"""The view of a graph file for `jtsolve show`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jtsolve.cli.views import View
    from jtsolve.core.graph import UndirectedGraph
    from jtsolve.core.tree import JunctionTree
    from jtsolve.io.graph import GraphDocument


def of_graph(path: Path) -> "View":
    """Returns the view of a graph file; its tree is that of its min-fill triangulation."""
    from jtsolve.cli.views import View
    from jtsolve.core.triangulation import triangulation
    from jtsolve.draw.text import edges_dot
    from jtsolve.io.graph import arcs_of, graph_of, read_document

    document = read_document(path)
    graph = graph_of(document, str(path))
    strengths = _in_order(document, graph)
    arcs = None if document.arcs is None else arcs_of(document)

    def tree() -> "tuple[JunctionTree, tuple[str, ...]]":
        return triangulation(graph.moral(arcs or ())), graph.names

    def picture(target: Path, kind: str) -> None:
        from jtsolve.draw.picture import draw_edges
        from jtsolve.selection.framed import grouped

        index = {name: v for v, name in enumerate(graph.names)}
        steps = () if document.selection is None else document.selection.steps
        groups = grouped(graph, [[index[name] for name in step.region] for step in steps])
        draw_edges(
            graph.edges, graph.names, target, format=kind, strengths=strengths, groups=groups, arcs=arcs
        )

    def text() -> str:
        from jtsolve.draw.text import tree_text

        found, names = tree()
        added = len(found.graph_edges) - graph.moral(arcs or ()).size
        filled = f", which adds {added} edge{'s' * (added != 1)}" if added else ""
        title = f"junction tree of its min-fill triangulation{filled}"
        return f"{_text(document, graph, strengths)}\n\n{title}\n{tree_text(found, names)}"

    return View(
        _facts(document),
        text,
        tree,
        None,
        picture,
        lambda: edges_dot(graph.edges, graph.names, strengths, arcs),
        of_graph=True,
    )


def _in_order(document: "GraphDocument", graph: "UndirectedGraph") -> list[float] | None:
    """Returns the strengths in the order of the graph's edges."""
    if document.strengths is None:
        return None
    of_pair = {frozenset(pair): value for pair, value in zip(document.edges, document.strengths, strict=True)}
    return [of_pair[frozenset(pair)] for pair in graph.named_edges]


def _facts(document: "GraphDocument") -> Any:
    import msgspec

    return msgspec.to_builtins(document)


def _text(document: "GraphDocument", graph: "UndirectedGraph", strengths: list[float] | None) -> str:
    """Returns the graph for people: its size, how it was found, and its edges, the strongest first."""
    from jtsolve.listing import table

    facts: list[list[Any]] = [["variables", graph.n], ["edges", graph.size]]
    selection = document.selection
    if selection is not None:
        facts += [
            ["superset", f"{len(selection.superset)} edges, by {selection.screen.get('name', '?')}"],
            ["method", selection.method.get("name", "?")],
            ["over", selection.over],
            ["steps", len(selection.steps)],
        ]
        shrunk = sum(step.shrinkage > 0 for step in selection.steps)
        if shrunk:
            facts.append(["shrunk", f"in {shrunk} steps, whose columns are as many as the rows or more"])
    edges = [list(pair) for pair in graph.named_edges]
    if document.arcs is not None:
        known = {frozenset(arc) for arc in document.arcs}
        facts.insert(2, ["directed", len(known)])
        rows = [[u, "→", v] for u, v in document.arcs]
        rows += [[u, "–", v] for u, v in edges if frozenset((u, v)) not in known]
        return f"{table(['', ''], facts)}\n\n{table(['edge', '', ''], rows)}"
    if strengths is None:
        return f"{table(['', ''], facts)}\n\n{table(['edge', ''], edges)}"
    order = sorted(range(len(edges)), key=lambda k: -abs(strengths[k]))
    rows = [[*edges[k], f"{strengths[k]:+.4f}"] for k in order]
    return f"{table(['', ''], facts)}\n\n{table(['edge', '', 'partial correlation'], rows)}"
