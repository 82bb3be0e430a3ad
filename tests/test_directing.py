"""Directions of selected graphs: CPDAGs from separating sets, from data, and in files."""

from __future__ import annotations

import json
import re
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import msgspec
import networkx as nx
import numpy as np
import polars as pl
import pytest

import jtsolve as jt
from jtsolve.cli import run
from jtsolve.core.graph import UndirectedGraph
from jtsolve.core.selection import Selection
from jtsolve.core.varset import VarSet, members, varset
from jtsolve.errors import ChoiceError, InputError
from jtsolve.io.graph import GraphDocument, document_to_json, read_document, read_graph, selection_to_document
from jtsolve.io.supersets import read_screened
from jtsolve.selection.directing import directed, unshielded
from jtsolve.selection.framework import OverJunctionTree, select
from jtsolve.selection.pc import PC
from jtsolve.selection.samples import GaussianSample
from jtsolve.selection.screens import Complete, Correlations
from jtsolve.verify.selection import check_selection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Parents = tuple[VarSet, ...]

ORACLE = PC(direct=True, test="correlation", criterion=1e-9)


def _is_acyclic(parents: Parents) -> bool:
    left = (1 << len(parents)) - 1
    while left:
        sources = varset(v for v in members(left) if not parents[v] & left)
        if not sources:
            return False
        left &= ~sources
    return True


def _skeleton(parents: Parents) -> UndirectedGraph:
    edges = [(u, v) for v, around in enumerate(parents) for u in members(around)]
    return UndirectedGraph.from_edges([f"x{v}" for v in range(len(parents))], edges)


def _v_structures(parents: Parents, skeleton: UndirectedGraph) -> set[tuple[int, int, int]]:
    triples = ((v, *pair) for v, around in enumerate(parents) for pair in combinations(members(around), 2))
    return {(v, i, j) for v, i, j in triples if not skeleton.has_edge(i, j)}


def _common_arcs(parents: Parents) -> tuple[tuple[int, int], ...]:
    """Returns the arcs on which all networks agree that have the skeleton and the v-structures of one."""
    skeleton = _skeleton(parents)
    wanted = _v_structures(parents, skeleton)
    agreed: set[tuple[int, int]] | None = None
    for turned in product((False, True), repeat=skeleton.size):
        arcs = [(v, u) if turn else (u, v) for (u, v), turn in zip(skeleton.edges, turned, strict=True)]
        other = [0] * skeleton.n
        for u, v in arcs:
            other[v] |= 1 << u
        if _v_structures(tuple(other), skeleton) == wanted and _is_acyclic(tuple(other)):
            agreed = set(arcs) if agreed is None else agreed & set(arcs)
    assert agreed is not None
    return tuple(sorted(agreed))


def _all_networks(n: int) -> Iterator[Parents]:
    subsets = [[s for s in range(1 << n) if not s >> v & 1] for v in range(n)]
    yield from filter(_is_acyclic, product(*subsets))


def _descendants(parents: Parents, v: int) -> VarSet:
    found = 1 << v
    while True:
        more = found | varset(u for u, around in enumerate(parents) if around & found)
        if more == found:
            return found
        found = more


def _population(parents: Parents, seed: int) -> GaussianSample:
    """Returns the correlations of linear equations whose graph is a network."""
    n = len(parents)
    draw = np.random.default_rng(seed)
    slopes = np.zeros((n, n))
    for v, around in enumerate(parents):
        for u in members(around):
            slopes[v, u] = draw.choice([-1.0, 1.0]) * draw.uniform(0.4, 1.2)
    mixing = np.linalg.inv(np.eye(n) - slopes)
    covariance = mixing @ mixing.T
    scale = np.sqrt(covariance.diagonal())
    return GaussianSample(_skeleton(parents).names, covariance / np.outer(scale, scale), 10**6)


def _random_network(seed: int, n: int) -> Parents:
    draw = np.random.default_rng(seed)
    order = draw.permutation(n)
    parents = [0] * n
    for at, v in enumerate(order):
        parents[v] = varset(u for u in order[:at].tolist() if draw.random() < 0.5)
    return tuple(parents)


def test_separating_sets_direct_what_all_equivalent_networks_of_four_variables_agree_on() -> None:
    count = 0
    for parents in _all_networks(4):
        skeleton = _skeleton(parents)
        separators = {}
        for i, j in unshielded(skeleton):  # the parents of the one that is no ancestor of the other
            separators[i, j] = parents[i] if not _descendants(parents, i) >> j & 1 else parents[j]
        assert directed(skeleton, separators) == _common_arcs(parents)
        count += 1
    assert count == 543


def test_pc_finds_the_cpdag_of_random_networks_from_the_correlations_of_the_population() -> None:
    for seed in range(60):
        parents = _random_network(seed, 3 + seed % 3)
        found = select(_population(parents, seed), ORACLE, Complete())
        assert found.graph == _skeleton(parents), seed
        assert found.arcs == _common_arcs(parents), seed
        assert check_selection(selection_to_document(found)) == ()


def test_the_names_and_the_order_of_columns_do_not_matter() -> None:
    draw = np.random.default_rng(3)
    method = PC(direct=True, criterion=0.05)
    for seed in range(10):
        truth = _population(_random_network(seed, 8), seed)
        sample = draw.multivariate_normal(np.zeros(8), truth.correlation, 60).T
        moments = GaussianSample(truth.names, np.asarray(np.corrcoef(sample)), 60)
        found = select(moments, method, Complete())
        order = draw.permutation(8).tolist()
        turned = select(moments.restricted(order), method, Complete())
        assert turned.arcs is not None
        assert turned.graph.aligned(truth.names) == found.graph
        assert tuple(sorted((order[u], order[v]) for u, v in turned.arcs)) == found.arcs
        assert check_selection(selection_to_document(found)) == ()


def test_an_edge_that_is_directed_both_ways_stays_undirected() -> None:
    path = UndirectedGraph.from_edges("abcd", [(0, 1), (1, 2), (2, 3)])
    assert directed(path, {(0, 2): 0, (1, 3): 0}) == ((0, 1), (3, 2))


def test_directions_need_all_columns_at_once() -> None:
    with pytest.raises(ChoiceError, match="hides common causes"):
        select(_population(_random_network(0, 4), 0), ORACLE, Complete(), OverJunctionTree())


def test_a_screen_does_not_change_the_directions() -> None:
    sample = _population((0, 0, 0b011, 0b100), 1)
    for screen in (Complete(), Correlations(0.01)):
        assert select(sample, ORACLE, screen).arcs == ((0, 2), (1, 2), (2, 3))


# From the command and from Python


def _table() -> dict[str, Any]:
    """Returns rows of A → C ← B, C → D, and E – F."""
    draw = np.random.default_rng(0).normal(size=(6, 500))
    c = draw[0] + draw[1] + draw[2]
    return {
        "A": draw[0],
        "B": draw[1],
        "C": c,
        "D": c + draw[3],
        "E": draw[4],
        "F": draw[4] + draw[5],
    }


def _run(*words: object) -> int:
    return run([str(word) for word in words], 0.0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    pl.DataFrame(_table()).write_csv(path)
    return path


def test_a_cpdag_is_selected_checked_shown_and_fitted(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, model = tmp_path / "g.json", tmp_path / "m.json"
    assert _run("select", data, "--method", "pc:direct=true", "--output", graph) == 0
    assert "arcs" in capsys.readouterr().out
    values = json.loads(graph.read_bytes())
    assert values["arcs"] == [["A", "C"], ["B", "C"], ["C", "D"]]
    assert values["edges"] == [["A", "C"], ["B", "C"], ["C", "D"], ["E", "F"]]
    assert "strengths" not in values
    assert _run("check", graph) == 0
    assert _run("show", graph) == 0
    shown = capsys.readouterr().out
    assert re.search(r"C +→ +D", shown)
    assert re.search(r"E +– +F", shown)
    assert _run("show", graph, "--output", tmp_path / "g.dot") == 0
    dot = (tmp_path / "g.dot").read_text()
    assert dot.startswith("digraph cpdag {")
    assert "v0 -> v2;" in dot
    assert "v4 -> v5 [dir=none];" in dot
    assert _run("show", graph, "--output", tmp_path / "g.svg") == 0
    assert read_graph(graph).has_edge(0, 1)  # parents of C
    assert _run("fit", data, "--graph", graph, "--output", model, "--quiet") == 0
    assert _run("select", data, "--method", "pc:direct=true", "--output", tmp_path / "g.graphml") == 0
    written = nx.read_graphml(tmp_path / "g.graphml")
    assert set(written.edges) == {("A", "C"), ("B", "C"), ("C", "D"), ("E", "F"), ("F", "E")}
    assert read_document(tmp_path / "g.graphml").arcs == [("A", "C"), ("B", "C"), ("C", "D")]
    assert read_graph(tmp_path / "g.graphml") == read_graph(graph)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--over", "junction-tree"], "hides common causes"),
        (["--output", "g.csv"], "an edge list has no directions"),
    ],
)
def test_wrong_use_of_directions_is_refused(
    words: list[str], reason: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["select", data, "--output", tmp_path / "g.json", "--method", "pc:direct=true"]
    assert _run(*base, *words) == 2
    assert reason in capsys.readouterr().err


def test_python_gives_the_cpdag_of_numbers_and_of_states(tmp_path: Path) -> None:
    found = jt.select(_table(), "pc:direct=true")
    assert set(found.cpdag().edges) == {("A", "C"), ("B", "C"), ("C", "D"), ("E", "F"), ("F", "E")}
    assert found.selection.markov.named_edges[0] == ("A", "B")
    screened = jt.select(_table(), "pc:direct=true", screen="correlation:0.3")
    assert ("A", "B") not in screened.superset  # independent, but both are parents of C
    assert 0b11 in screened.constraints(require=True).required_edges
    screened.write(tmp_path / "g.json")
    assert read_screened(tmp_path / "g.json") == screened.selection.screened
    draw = np.random.default_rng(1)
    a, b = draw.integers(0, 2, (2, 600))
    noisy = np.where(draw.random(600) < 0.1, draw.integers(0, 2, 600), a | b)
    states = jt.select({"a": a, "b": b, "c": noisy}, "pc:direct=true", kind="states")
    assert sorted(states.cpdag().edges) == [("a", "c"), ("b", "c")]
    assert states.fit().query("c", given={"a": "1", "b": "1"})["probability"].max() > 0.9
    with pytest.raises(ChoiceError, match="no directions; select it with"):
        jt.select(_table(), "pc").cpdag()


# The check


def _selected() -> dict[str, Any]:
    found = select(_population((0, 0, 0b011, 0b100), 1), ORACLE, Complete())
    values: dict[str, Any] = json.loads(document_to_json(selection_to_document(found)))
    return values


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda v: v["arcs"].pop(), "follows from the separating sets, but is missing"),
        (lambda v: v["arcs"].append(v["arcs"].pop()[::-1]), "'x3' → 'x2' does not follow"),
        (lambda v: v["selection"]["separators"][0]["given"].append("x2"), "does not follow"),
        (lambda v: v["selection"]["separators"].pop(), "needs one"),
        (lambda v: v["selection"]["separators"].append({"pair": ["x0", "z"], "given": []}), "not a pair of"),
    ],
)
def test_every_corruption_of_directions_is_found(change: Any, reason: str) -> None:
    values = _selected()
    assert check_selection(msgspec.convert(values, GraphDocument)) == ()
    change(values)
    faults = check_selection(msgspec.convert(values, GraphDocument))
    assert any(reason in fault for fault in faults), faults


def test_arcs_are_edges_each_once(tmp_path: Path) -> None:
    graph = UndirectedGraph.from_edges("abc", [(0, 1)])
    for arcs in (((0, 1), (1, 0)), ((0, 2),)):
        with pytest.raises(InputError, match="an arc is no edge, or an edge has two"):
            Selection(graph, graph, (), arcs=arcs)
    for wrong, reason in (([["a", "c"]], "is no edge"), ([["a", "b"], ["b", "a"]], "also entry 0")):
        values = {"format": "jtsolve-graph", "version": 1, "variables": ["a", "b", "c"]}
        path = tmp_path / "g.json"
        path.write_text(json.dumps(values | {"edges": [["a", "b"]], "arcs": wrong}), encoding="utf-8")
        with pytest.raises(InputError, match=reason):
            read_graph(path)
