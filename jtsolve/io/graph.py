"""Graph files: `jtsolve-graph`, version 1; GraphML; edge lists in CSV.

A jtsolve-graph file may hold the selection that found the graph. An edge list has the header `source,target`
or `source,target,strength`; a line without a target is a vertex without edges. A directed graph in GraphML is
read as its moral graph; opposite arcs between two vertices are an edge.
"""

from __future__ import annotations

import csv
import io
import re
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from jtsolve.core.files import read_file, read_xml, write_atomically
from jtsolve.core.formats import GRAPH
from jtsolve.core.graph import UndirectedGraph
from jtsolve.core.selection import Over
from jtsolve.core.varset import members
from jtsolve.errors import InputError
from jtsolve.io.documents import Count, Name, decode_json, json_bytes, names_of, set_of_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import networkx as nx

    from jtsolve.core.selection import Selection

FORMAT = "jtsolve-graph"
VERSION = 1

Pair = tuple[Name, Name]
Place = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Correlation = Annotated[float, msgspec.Meta(ge=-1, le=1)]


class StepDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A decision: see `core.selection.Step`."""

    round: Place
    row: Place
    region: list[Name]
    columns: list[Name]
    candidates: list[Pair]
    kept: list[Pair]
    parameter: float | None = None
    shrinkage: Share = 0.0


class SelectionDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a graph was selected: see `core.selection.Selection`."""

    method: dict[str, Any]
    screen: dict[str, Any]
    over: Over
    separator_size: Count | None
    superset: list[Pair]
    steps: list[StepDocument]
    seed: Count
    data: dict[str, Any]
    seconds: dict[str, float]
    environment: dict[str, Any]


class GraphDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A jtsolve graph file, version 1.

    `edges` are pairs of variables, each once. `strengths`, aligned with `edges`, are partial correlations.
    `selection` tells how the graph was selected; null or absent for other graphs.
    """

    format: Literal["jtsolve-graph"]
    version: Literal[1]
    variables: Annotated[list[Name], msgspec.Meta(min_length=1)]
    edges: list[Pair]
    strengths: list[Correlation] | None = None
    selection: SelectionDocument | None = None


def graph_to_document(graph: UndirectedGraph, strengths: Sequence[float] | None = None) -> GraphDocument:
    """Returns the document of a graph."""
    values = {
        "format": FORMAT,
        "version": VERSION,
        "variables": list(graph.names),
        "edges": graph.named_edges,
        "strengths": None if strengths is None else list(strengths),
    }
    return msgspec.convert(values, GraphDocument)


def selection_to_document(selection: Selection) -> GraphDocument:
    """Returns the document of a selection."""
    names = selection.graph.names

    def pairs(edges: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
        return [(names[u], names[v]) for u, v in edges]

    facts = {
        "method": dict(selection.method),
        "screen": dict(selection.screen),
        "over": selection.over,
        "separator_size": selection.separator_size,
        "superset": selection.superset.named_edges,
        "steps": [
            {
                "round": step.round,
                "row": step.row,
                "region": names_of(step.region, names),
                "columns": names_of(step.columns, names),
                "candidates": pairs(step.candidates),
                "kept": pairs(step.kept),
                "parameter": step.parameter,
                "shrinkage": step.shrinkage,
            }
            for step in selection.steps
        ],
        "seed": selection.seed,
        "data": dict(selection.data),
        "seconds": dict(selection.seconds),
        "environment": dict(selection.environment),
    }
    return msgspec.structs.replace(
        graph_to_document(selection.graph, selection.strengths),
        selection=msgspec.convert(facts, SelectionDocument),
    )


def document_to_json(document: GraphDocument) -> bytes:
    """Returns the document as JSON in UTF-8, with keys in a fixed order and a line per edge."""
    values = msgspec.to_builtins(document)
    for key in ("strengths", "selection"):
        if values[key] is None:
            del values[key]
    return json_bytes(values)


def write_graph(document: GraphDocument, path: str | Path) -> None:
    """Writes a graph in the format of the suffix: .json, .graphml or .csv, the last two without steps.

    Raises:
        ChoiceError: the suffix is none of a graph.
        InputError: the file cannot be written.
    """
    write_atomically(path, _WRITERS[GRAPH.format_to_write(path)](document))


def read_document(path: str | Path) -> GraphDocument:
    """Returns the document in a file: .graphml, .csv, or jtsolve-graph under any other suffix.

    Its selection is unverified; see `verify.selection`. In GraphML, strengths are attributes `strength` of
    all edges, from -1 to 1.

    Raises:
        InputError: the file cannot be read, or violates the format; names the place.
    """
    kind = GRAPH.format_to_read(path)
    if kind == "graphml":
        return _read_graphml(read_xml(path), str(path))
    if kind == "csv":
        return _read_edge_list(read_file(path), str(path))
    data = read_file(path)
    if kind is None and not data.lstrip().startswith(b"{"):
        raise GRAPH.refusal(path)
    document = decode_json(data, GraphDocument, str(path))
    decoded_graph(document, str(path))
    return document


def decoded_graph(document: GraphDocument, source: str) -> UndirectedGraph:
    """Returns the graph of a document.

    Raises:
        InputError: names or edges repeat, an edge has an unknown variable, or the number of strengths is
            wrong.
    """
    index = index_of(document.variables, source)
    if document.strengths is not None and len(document.strengths) != len(document.edges):
        reason = f"{len(document.strengths)} strengths for {len(document.edges)} edges"
        raise InputError(source, "$.strengths", reason, "give one for every edge, in their order")
    return edges_of(document.edges, document.variables, index, source, "$.edges")


def edges_of(
    pairs: Sequence[tuple[str, str]],
    names: Sequence[str],
    index: Mapping[str, int],
    source: str,
    place: str,
) -> UndirectedGraph:
    """Returns the graph with the edges between these names.

    Args:
        pairs: the edges.
        names: of the variables.
        index: the position of each variable by its name.
        source: the file, for errors.
        place: where the edges are in it, as a JSON path.

    Raises:
        InputError: an edge occurs twice, is a loop, or has an unknown variable.
    """
    seen: dict[int, int] = {}
    for i, pair in enumerate(pairs):
        mask = set_of_names(pair, index, source, f"{place}[{i}]")
        first = seen.setdefault(mask, i)
        if first != i:
            raise InputError(source, f"{place}[{i}]", f"the edge is also entry {first}", "remove one of them")
    ends = [tuple(members(mask)) for mask in seen]
    return UndirectedGraph.from_edges(names, [(u, v) for u, v in ends])


def index_of(names: Sequence[str], source: str) -> dict[str, int]:
    """Returns the position of each name.

    Raises:
        InputError: a name occurs twice.
    """
    index: dict[str, int] = {}
    for v, name in enumerate(names):
        if name in index:
            reason = f"the name '{name}' is also entry {index[name]}"
            raise InputError(source, f"$.variables[{v}]", reason, "name each variable once")
        index[name] = v
    return index


def _graphml(document: GraphDocument) -> bytes:
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(document.variables)
    for i, (u, v) in enumerate(document.edges):
        graph.add_edge(u, v, **({} if document.strengths is None else {"strength": document.strengths[i]}))
    return ("\n".join(nx.generate_graphml(graph)) + "\n").encode()


def _read_graphml(data: bytes, source: str) -> GraphDocument:
    """Returns the document of a graph of networkx, igraph or others; the moral graph of a directed one.

    Nodes with numbers as identifiers, such as n0, are named by their attribute `name` or `label`.
    """
    import networkx as nx

    try:
        graph = nx.read_graphml(io.BytesIO(data))
    except Exception as error:  # noqa: BLE001 - networkx raises any error of its parser or of a conversion
        reason = f"networkx cannot read it as GraphML ({type(error).__name__}: {error})"
        raise InputError(source, "", reason, "write it again, as networkx.write_graphml does") from None
    if not len(graph):
        raise InputError(source, "", "the graph has no nodes", "give a graph with at least one")
    graph = _named(graph)
    nodes = list(graph.nodes)
    arcs: list[tuple[int, int]] = []
    if graph.is_directed() and not graph.is_multigraph():
        place = {node: v for v, node in enumerate(nodes)}
        arcs = [(place[u], place[v]) for u, v in graph.edges if u != v and not graph.has_edge(v, u)]
        graph = graph.to_undirected(as_view=True)
    try:
        found = UndirectedGraph.from_networkx(graph, source)
    except InputError as error:
        raise InputError(source, error.place, error.reason, error.remedy) from None
    values = [graph.edges[nodes[u], nodes[v]].get("strength") for u, v in found.edges]
    weighed = bool(values) and all(isinstance(value, float) and abs(value) <= 1 for value in values)
    return graph_to_document(found.moral(arcs), values if weighed and not arcs else None)


def _named(graph: nx.Graph) -> nx.Graph:
    """Returns a graph of GraphML with names in place of numbers of nodes."""
    import networkx as nx

    if not all(re.fullmatch("n?[0-9]+", node) for node in graph.nodes):
        return graph
    for key in ("name", "label"):
        names = {node: str(name) for node, name in graph.nodes(data=key) if name not in (None, "")}
        if len(set(names.values())) == len(graph):
            return nx.relabel_nodes(graph, names)
    return graph


_HEADERS = (["source", "target"], ["source", "target", "strength"])


def _edge_list(document: GraphDocument) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    weighed = document.strengths is not None
    writer.writerow(_HEADERS[weighed])
    for i, pair in enumerate(document.edges):
        writer.writerow([*pair, repr(document.strengths[i])] if document.strengths is not None else pair)
    joined = {name for pair in document.edges for name in pair}
    for name in document.variables:
        if name not in joined:
            writer.writerow([name, "", ""] if weighed else [name, ""])
    return text.getvalue().encode()


def _read_edge_list(data: bytes, source: str) -> GraphDocument:
    try:
        rows = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    except UnicodeDecodeError:
        raise InputError(source, "", "a byte is not UTF-8", "save the file as UTF-8") from None
    except csv.Error as error:
        raise InputError(source, "", f"it is not CSV ({error})", "correct the quotes") from None
    if not rows or [word.strip().lower() for word in rows[0]] not in _HEADERS:
        remedy = (
            "begin with the line 'source,target' or 'source,target,strength'; if the file holds data, "
            "fit a model first, with 'jtsolve fit' or jtsolve.fit"
        )
        raise InputError(source, "line 1", "the header of an edge list is missing", remedy)
    index: dict[str, int] = {}
    edges: dict[frozenset[int], int] = {}
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        place = f"row {number}"
        if len(row) != len(rows[0]) or not row[0]:
            reason = f"it has {len(row)} values{', and the first is empty' * (not row[0])}"
            raise InputError(source, place, reason, f"give {len(rows[0])} values, as the header does")
        if len(row) > 2 and row[1] and not _is_correlation(row[2]):  # noqa: PLR2004 - the third
            raise InputError(source, place, f"'{row[2]}' is not a strength", "give a number from -1 to 1")
        ends = [index.setdefault(name, len(index)) for name in row[:2] if name]
        if len(ends) == 1:
            continue
        if ends[0] == ends[1]:
            raise InputError(source, place, f"'{row[0]}' has an edge to itself", "remove the loop")
        first = edges.setdefault(frozenset(ends), number)
        if first != number:
            raise InputError(source, place, f"the edge is also row {first}", "remove one of them")
    if not index:
        raise InputError(source, "", "it names no variable", "give at least one edge or vertex")
    graph = UndirectedGraph.from_edges(tuple(index), [(u, v) for u, v in map(sorted, edges)])
    if len(rows[0]) == len(_HEADERS[0]):
        return graph_to_document(graph)
    return graph_to_document(graph, [float(rows[edges[frozenset(pair)] - 1][2]) for pair in graph.edges])


def _is_correlation(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return isfinite(value) and abs(value) <= 1


_WRITERS = {"json": document_to_json, "graphml": _graphml, "csv": _edge_list}
