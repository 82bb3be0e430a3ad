"""Graphs, their files, region graphs, and the check of a selection."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import msgspec
import networkx as nx
import numpy as np
import pytest
import schemas
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_graphs import Oracle, population, random_pair

from jtsolve.core.graph import UndirectedGraph
from jtsolve.core.selection import Selection
from jtsolve.core.triangulation import triangulation
from jtsolve.core.varset import members, varset
from jtsolve.errors import ChoiceError, InputError
from jtsolve.io.documents import indented_json
from jtsolve.io.graph import (
    GraphDocument,
    decoded_graph,
    document_to_json,
    graph_to_document,
    read_document,
    selection_to_document,
    write_graph,
)
from jtsolve.selection.framework import select
from jtsolve.selection.regions import ClusterTree, RegionGraph, region_graph
from jtsolve.selection.screens import GivenGraph
from jtsolve.verify.selection import check_selection

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = Path(__file__).parents[1] / "docs" / "schema" / "graph.schema.json"
NAMES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=4),
    min_size=1,
    max_size=6,
    unique=True,
)


def read_graph(path: Path) -> UndirectedGraph:
    """Returns the graph in a file."""
    return decoded_graph(read_document(path), str(path))


@st.composite
def graphs(draw: st.DrawFn) -> UndirectedGraph:
    names = tuple(draw(NAMES))
    pairs = [(u, v) for u in range(len(names)) for v in range(u + 1, len(names))]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return UndirectedGraph.from_edges(names, chosen)


# Graphs


@given(graphs())
def test_a_graph_is_the_one_of_its_edges_matrix_and_networkx_graph(graph: UndirectedGraph) -> None:
    assert UndirectedGraph.from_edges(graph.names, [(v, u) for u, v in graph.edges]) == graph
    assert UndirectedGraph.from_matrix(graph.names, graph.matrix()) == graph
    assert UndirectedGraph.from_networkx(graph.to_networkx()) == graph
    assert graph.size == len(graph.edges) == graph.to_networkx().number_of_edges()
    assert all(graph.has_edge(u, v) and graph.has_edge(v, u) for u, v in graph.edges)
    parts = [set(members(part)) for part in graph.components()]
    named = [
        {graph.names.index(name) for name in part} for part in nx.connected_components(graph.to_networkx())
    ]
    assert sorted(map(sorted, parts)) == sorted(map(sorted, named))


@given(graphs(), st.data())
def test_a_marginal_graph_joins_ends_of_outside_paths(graph: UndirectedGraph, data: st.DataObject) -> None:
    kept = data.draw(st.sets(st.sampled_from(range(graph.n))))
    marginal = graph.marginal(varset(kept))
    full = graph.to_networkx()
    for u in range(graph.n):
        for v in range(u):
            outside = [graph.names[w] for w in range(graph.n) if w in (u, v) or w not in kept]
            joined = nx.has_path(full.subgraph(outside), graph.names[u], graph.names[v])
            assert bool(marginal[u] >> v & 1) == ({u, v} <= kept and joined)


@pytest.mark.parametrize(
    ("names", "neighbours", "reason"),
    [
        (("a", "a"), (0, 0), "used twice"),
        (("a", ""), (0, 0), "name is empty"),
        (("a", "b"), (0,), "1 sets of neighbours for 2"),
        (("a", "b"), (1, 0), "its own neighbour"),
        (("a", "b"), (2, 0), "one direction only"),
        (("a", "b"), (4, 0), "above 1"),
    ],
)
def test_an_invalid_graph_is_refused(names: Any, neighbours: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        UndirectedGraph(names, neighbours)


def test_graphs_are_joined_subtracted_and_aligned_by_name() -> None:
    one = UndirectedGraph.from_edges("abc", [(0, 1)])
    two = UndirectedGraph.from_edges("abc", [(0, 1), (1, 2)])
    assert one.is_subgraph_of(two)
    assert not two.is_subgraph_of(one)
    assert two.without(one).edges == ((1, 2),)
    assert one.union(two) == two
    assert two.aligned(tuple("cxba")).edges == ((0, 2), (2, 3))
    assert two.named_edges == [("a", "b"), ("b", "c")]
    assert repr(two) == "UndirectedGraph(3 variables, 2 edges)"
    assert UndirectedGraph.complete("abc").size == 3
    assert not UndirectedGraph.empty("abc").size
    assert two.induced(0b110).edges == ((1, 2),)
    with pytest.raises(InputError, match="there is no column 'a'"):
        two.aligned(tuple("bc"))
    with pytest.raises(InputError, match="the two graphs differ"):
        one.union(UndirectedGraph.empty("ab"))


@pytest.mark.parametrize("graph", [nx.DiGraph([(0, 1)]), nx.MultiGraph([(0, 1)]), [(0, 1)]])
def test_only_simple_undirected_graphs_of_networkx_are_accepted(graph: Any) -> None:
    with pytest.raises(InputError, match=r"directed|multigraph|is not a graph"):
        UndirectedGraph.from_networkx(graph)


# Files


@given(
    graph=graphs(),
    name=st.sampled_from(["g.json", "g.json.gz", "g.graphml", "g.csv"]),
    weighed=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_a_graph_survives_its_file(
    graph: UndirectedGraph,
    name: str,
    weighed: bool,  # noqa: FBT001 - drawn
    tmp_path: Path,
) -> None:
    strengths = [0.25 - k / 16 for k in range(graph.size)] if weighed else None
    write_graph(graph_to_document(graph, strengths), tmp_path / name)
    found = read_graph(tmp_path / name)
    if name.endswith(".csv"):  # an edge list has the variables by first occurrence
        assert sorted(found.names) == sorted(graph.names)
        assert set(map(frozenset, found.named_edges)) == set(map(frozenset, graph.named_edges))
    else:
        assert found == graph
    known = read_document(tmp_path / name)
    if strengths and not name.endswith(".csv"):
        assert known.strengths == strengths
    elif strengths is None:
        assert known.strengths is None
    if known.strengths is not None:
        ends = zip(map(frozenset, known.edges), known.strengths, strict=True)
        assert dict(ends) == dict(zip(map(frozenset, graph.named_edges), strengths or (), strict=True))


def test_a_graph_of_networkx_itself_is_read(tmp_path: Path) -> None:
    nx.write_graphml(nx.karate_club_graph(), tmp_path / "karate.graphml")
    assert read_graph(tmp_path / "karate.graphml").size == 78


def test_other_suffixes_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match=r"\.graphml"):
        write_graph(graph_to_document(UndirectedGraph.empty("ab")), tmp_path / "g.txt")


def _graph(**changes: Any) -> bytes:
    values = {"format": "jtsolve-graph", "version": 1, "variables": ["a", "b", "c"], "edges": [["a", "b"]]}
    return json.dumps(values | changes).encode()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("g.json", _graph(edges=[["a", "b"], ["b", "a"]]), r"edges\[1\]: the edge is also entry 0"),
        ("g.json", _graph(edges=[["a", "a"]]), "occurs twice in one set"),
        ("g.json", _graph(edges=[["a", "z"]]), "no variable 'z'"),
        ("g.json", _graph(variables=["a", "b", "a"]), r"variables\[2\]: the name 'a' is also entry 0"),
        ("g.json", _graph(strengths=[0.1, 0.2]), "2 strengths for 1 edges"),
        ("g.json", _graph(strengths=[2.0]), r"strengths\[0\]"),
        ("g.json", _graph(variables=[]), r"length >= 1"),
        ("g.json", _graph(version=2), "the version is 2"),
        ("g.json", _graph(colour="red"), "colour"),
        ("g.json", _graph(selection={}), "missing required field"),
        ("g.graphml", b"<graphml", "cannot read it as GraphML"),
        ("g.graphml", b"\xff", "cannot read it as GraphML"),
        ("g.graphml", b'<!DOCTYPE x [<!ENTITY a "aa">]><graphml/>', "it declares entities"),
        ("g.graphml", '<!DOCTYPE x [<!ENTITY a "aa">]><graphml/>'.encode("utf-16"), "it declares entities"),
        ("g.csv", b"a,b\n", "header of an edge list"),
        ("g.csv", b"source,target\na\n", "row 2: it has 1 values"),
        ("g.csv", b"source,target\na,a\n", "an edge to itself"),
        ("g.csv", b"source,target\na,b\nb,a\n", "also row 2"),
        ("g.csv", b"source,target\n", "names no variable"),
        ("g.csv", b"source,target,strength\na,b,3\n", "'3' is not a strength"),
        ("g.csv", b"source,target,strength\na,b,x\n", "'x' is not a strength"),
        ("g.csv", b'source,target\n"a"b,c\n', "not CSV"),
        ("g.csv", b"\xff", "not UTF-8"),
        ("g.dot", b"graph { a -- b }", "such files are not read. Fix: give the graph as"),
        ("g.csv", b"\xff\xfe", "the file is empty"),
    ],
)
def test_a_malformed_graph_is_refused(name: str, content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=reason):
        read_graph(tmp_path / name)


def test_case_and_blanks_of_the_header_and_blank_lines_do_not_count_in_an_edge_list(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("Source, Target, Strength\na,b, 0.5\n\nc,,\n", encoding="utf-8")
    found = read_graph(tmp_path / "g.csv")
    assert (found.names, found.named_edges) == (("a", "b", "c"), [("a", "b")])


def test_an_empty_graphml_or_one_with_parallel_edges_is_refused(tmp_path: Path) -> None:
    for graph, reason in ((nx.MultiGraph([(0, 1), (0, 1)]), "multigraph"), (nx.Graph(), "no nodes")):
        nx.write_graphml(graph, tmp_path / "g.graphml")
        with pytest.raises(InputError, match=reason):
            read_graph(tmp_path / "g.graphml")


IGRAPH = """<?xml version="1.0" encoding="ISO-8859-1"?>
<!DOCTYPE graphml SYSTEM "http://graphml.graphdrawing.org/dtds/1.0rc/graphml.dtd">
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<!-- Created by igraph -->
  <key id="v_name" for="node" attr.name="name" attr.type="string"/>
  <key id="e_weight" for="edge" attr.name="weight" attr.type="double"/>
  <graph id="G" edgedefault="undirected">
    <node id="n0"><data key="v_name">Größe</data></node>
    <node id="n1"><data key="v_name">b c</data></node>
    <node id="n2"><data key="v_name">d</data></node>
    <edge source="n0" target="n1"><data key="e_weight">0.5</data></edge>
    <edge source="n2" target="n1"><data key="e_weight">0.2</data></edge>
  </graph>
</graphml>
"""


def test_graphml_of_igraph_has_its_names(tmp_path: Path) -> None:
    path = tmp_path / "g.graphml"
    path.write_bytes(IGRAPH.encode("latin-1"))
    assert read_document(path).variables == ["Größe", "b c", "d"]
    assert read_graph(path).named_edges == [("Größe", "b c"), ("b c", "d")]
    path.write_bytes(IGRAPH.replace('"undirected"', '"directed"').encode("latin-1"))
    assert read_graph(path).size == 3  # the moral graph: the parents of "b c" are joined


SEED = 5


def _selected() -> Selection:
    superset, truth = random_pair(np.random.default_rng(SEED), 9)
    return select(population(truth), Oracle(truth), GivenGraph(superset))


SAMPLES = {
    "g.json": document_to_json(selection_to_document(_selected())),
    "g.graphml": ("\n".join(nx.generate_graphml(nx.path_graph(3))) + "\n").encode(),
    "g.csv": b"source,target,strength\na,b,0.5\nc,,\n",
}


@pytest.mark.parametrize("name", SAMPLES)
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_corrupted_bytes_give_a_graph_or_an_input_error(
    name: str, data: st.DataObject, tmp_path: Path
) -> None:
    content = bytearray(SAMPLES[name])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        piece = data.draw(
            st.binary(max_size=3) | st.sampled_from([b'"', b"[", b"}", b",", b"<", b"null", b"1e999"])
        )
        content[at : at + data.draw(st.integers(0, 4))] = piece
    path = tmp_path / name
    path.write_bytes(bytes(content) or b" ")
    try:
        found = read_graph(path)
    except InputError as error:
        found = None
        said = str(error)
    assert isinstance(found, UndirectedGraph) or str(path) in said


def test_the_committed_schema_is_that_of_the_code_and_of_the_files() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == indented_json(schemas.GRAPH) + "\n"
    for content in (SAMPLES["g.json"], _graph()):
        jsonschema.validate(json.loads(content), schemas.GRAPH)


# Region graphs


def _sets(*groups: tuple[int, ...]) -> list[list[int]]:
    return [list(group) for group in groups]


def _shown(regions: RegionGraph) -> list[list[list[int]]]:
    return [sorted(list(members(region)) for region in row) for row in regions.rows]


def test_the_region_graph_of_figure_1() -> None:
    clusters = tuple(map(varset, ([1, 2, 3, 5], [1, 3, 4, 5], [3, 4, 5, 6], [4, 5, 6, 7])))
    regions = region_graph(ClusterTree(clusters, ((0, 1), (1, 2), (2, 3))))
    assert _shown(regions) == [
        _sets((1, 2, 3, 5), (1, 3, 4, 5), (3, 4, 5, 6), (4, 5, 6, 7)),
        _sets((1, 3, 5), (3, 4, 5), (4, 5, 6)),
        _sets((3, 5), (4, 5)),
    ]


def test_the_region_graph_of_figure_4_and_the_examples_of_section_4() -> None:
    groups = ([1, 3, 5], [3, 5, 6, 8], [5, 6, 8, 9], [2, 3, 5, 6], [2, 3, 4, 6], [3, 4, 6, 7])
    tree = ClusterTree(tuple(map(varset, groups)), ((0, 3), (3, 1), (1, 2), (3, 4), (4, 5)))
    regions = region_graph(tree)
    assert _shown(regions)[1:] == [
        _sets((2, 3, 6), (3, 4, 6), (3, 5), (3, 5, 6), (5, 6, 8)),
        _sets((3, 5), (3, 6), (5, 6)),
    ]
    everything = [varset(range(10)) & ~(1 << v) for v in range(10)]
    assert regions.children(0, 0) == [varset([3, 5])]
    assert regions.own_edges(0, 0, everything) == [(1, 3), (1, 5)]
    assert regions.ancestry(0, 0) == varset([1, 3, 5])
    middle = regions.rows[1].index(varset([3, 5, 6]))
    assert regions.own_edges(1, middle, everything) == []
    last = regions.rows[1].index(varset([3, 4, 6]))
    assert regions.own_edges(1, last, everything) == [(3, 4), (4, 6)]
    assert regions.ancestry(1, last) == varset([2, 3, 4, 6, 7])


def test_equal_separators_have_their_set_as_common_child() -> None:
    tree = ClusterTree((0b00111, 0b01011, 0b10011), ((0, 1), (1, 2)))
    regions = region_graph(tree)
    assert regions.rows[1:] == ((0b11, 0b11), (0b11,))
    assert regions.ancestry(2, 0) == 0b11111


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (((0b11,), (0b1,)), "fewer than two"),
        (((0b11,), (0b110,)), "within none"),
        (((0b111,), (0b111, 0b111), (0b11, 0b11)), "twice"),
    ],
)
def test_an_invalid_region_graph_is_refused(rows: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        RegionGraph(rows)


@given(st.integers(0, 10**6), st.integers(0, 4))
@settings(max_examples=40)
def test_merged_clusters_keep_the_running_intersection_and_small_separators(seed: int, size: int) -> None:
    superset, _ = random_pair(np.random.default_rng(seed), 12)
    tree = ClusterTree.of(triangulation(superset), size)
    assert all(0 < separator.bit_count() <= size for separator in tree.separators)
    nodes = range(len(tree.clusters))
    links = {frozenset(edge) for edge in tree.edges}
    for v in range(12):
        inside = [i for i in nodes if tree.clusters[i] >> v & 1]
        joined = sum(link <= set(inside) for link in links)
        assert joined == len(inside) - 1
    assert all(any(c >> u & 1 and c >> v & 1 for c in tree.clusters) for u, v in superset.edges)


# The check


def test_a_right_selection_has_no_fault_and_a_graph_alone_is_none() -> None:
    document = selection_to_document(_selected())
    assert len({step.row for step in _selected().steps}) > 1
    assert check_selection(document) == ()
    (fault,) = check_selection(graph_to_document(decoded_graph(document, "x")))
    assert "no selection" in fault


def _corrupted(change: Callable[[dict[str, Any]], None]) -> tuple[str, ...]:
    values = json.loads(SAMPLES["g.json"])
    change(values)
    return check_selection(msgspec.convert(values, GraphDocument))


def _first(values: dict[str, Any], key: str) -> Any:
    return next(step for step in values["selection"]["steps"] if step[key])


CORRUPTIONS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "edge lost": (lambda v: v["edges"].pop(), "The graph lacks"),
    "edge made up": (lambda v: v["edges"].append(v["selection"]["superset"][0]), "no step kept|twice"),
    "step lost": (lambda v: v["selection"]["steps"].pop(), "No step decides"),
    "decided twice": (
        lambda v: v["selection"]["steps"].append(v["selection"]["steps"][0]),
        "as an earlier step",
    ),
    "kept undecided": (lambda v: _first(v, "kept")["candidates"].clear(), "does not decide"),
    "superset smaller": (lambda v: v["selection"]["superset"].pop(0), "not in the superset"),
    "region too small": (lambda v: _first(v, "candidates")["region"].clear(), "outside its region"),
    "columns too few": (lambda v: _first(v, "candidates")["columns"].pop(), "do not contain its region"),
    "unknown name": (lambda v: _first(v, "kept")["kept"].append(["v0", "zz"]), "not a pair of variables"),
    "name twice": (lambda v: v["selection"]["steps"][0]["columns"].append("v0"), "not distinct|outside"),
    "edge twice": (lambda v: v["selection"]["superset"].append(v["selection"]["superset"][0]), "twice"),
    "late start": (
        lambda v: [s.update(round=s["round"] + 1) for s in v["selection"]["steps"]],
        "first round",
    ),
    "order": (lambda v: v["selection"]["steps"][-1].update(round=9), "not numbered"),
}


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_every_kind_of_corruption_is_found(kind: str) -> None:
    change, reason = CORRUPTIONS[kind]
    faults = _corrupted(change)
    assert any(re.search(reason, fault) for fault in faults), faults


def test_an_edge_decided_from_too_few_columns_is_a_fault() -> None:
    cycle = UndirectedGraph.from_edges("abcd", [(0, 1), (1, 2), (2, 3), (3, 0)])
    document = selection_to_document(select(population(cycle), Oracle(cycle), GivenGraph(cycle)))
    values = json.loads(document_to_json(document))
    step = values["selection"]["steps"][0]
    step["candidates"], step["region"], step["columns"] = [["a", "b"]], ["a", "b"], ["a", "b"]
    faults = check_selection(msgspec.convert(values, GraphDocument))
    assert "Step 1 decides 'a' – 'b' although a path joins them outside its columns." in faults


def test_a_selection_is_refused_that_contradicts_itself() -> None:
    graph = UndirectedGraph.from_edges("ab", [(0, 1)])
    with pytest.raises(InputError, match="2 strengths for 1 edges"):
        Selection(graph, graph, (), (0.1, 0.2))
    with pytest.raises(InputError, match="that the superset lacks"):
        Selection(graph, UndirectedGraph.empty("ab"), ())
    assert repr(Selection(graph, graph, ())) == "Selection(2 variables, 1 of 1 edges, 0 steps)"
