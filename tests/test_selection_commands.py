"""Graph selection from the command line, from Python, and in scikit-learn; what becomes of a graph."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import polars as pl
import pytest
from problems import gaussian, named
from sklearn.covariance import GraphicalLasso as TheirLasso
from sklearn.utils.estimator_checks import check_estimator

import jtsolve as jt
from jtsolve.averaging.average import average
from jtsolve.averaging.document import posterior_to_json
from jtsolve.cli import run
from jtsolve.core.graph import UndirectedGraph
from jtsolve.core.problem import Constraints
from jtsolve.core.run import Limits, Run
from jtsolve.core.triangulation import constraints_within, triangulation
from jtsolve.errors import ChoiceError, InputError, LimitError
from jtsolve.io.graph import decoded_graph, graph_to_document, read_document, write_graph
from jtsolve.io.ranking import ranking_to_json
from jtsolve.io.result import result_to_json
from jtsolve.kbest import k_best
from jtsolve.models.files.document import read_model
from jtsolve.models.mixed import MixedTreeModel
from jtsolve.models.model import JunctionTreeModel
from jtsolve.selection.choices import CRITERIA, FRAMEWORKS, METHODS, SCREENS, SelectionPlan
from jtsolve.selection.choosing import Ebic, Stars
from jtsolve.selection.estimator import GraphSelection
from jtsolve.selection.framed import region_of_vertices
from jtsolve.selection.framework import OverJunctionTree, Plain
from jtsolve.selection.lasso import GraphicalLasso, NeighbourhoodSelection
from jtsolve.selection.pc import PC
from jtsolve.selection.running import within_limits
from jtsolve.selection.screens import Correlations, GivenGraph, PcScreen
from jtsolve.solving import solve
from jtsolve.study.graphs import LIKELY, graph_in

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.core.choices import Registry


def _walk(rows: int = 300) -> NDArray[np.float64]:
    values = np.random.default_rng(0).normal(size=(rows, 5))
    for v in range(1, 5):
        values[:, v] += 0.5 * values[:, v - 1]
    return values


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.csv"
    pl.DataFrame(_walk(), schema=list("abcde"), orient="row").write_csv(path)
    return path


@pytest.fixture
def states(tmp_path: Path) -> Path:
    path = tmp_path / "states.csv"
    generator = np.random.default_rng(0)
    a = generator.integers(0, 3, 500)
    b = np.where(generator.random(500) < 0.7, a, generator.integers(0, 3, 500))
    pl.DataFrame({"a": a, "b": b, "coin": generator.integers(0, 2, 500)}).write_csv(path)
    return path


def _run(*words: object) -> int:
    return run([str(word) for word in words], 0.0)


# The command


def test_a_graph_is_selected_checked_shown_and_fitted(
    numbers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, model = tmp_path / "g.json", tmp_path / "m.json"
    assert _run("select", numbers, "--screen", "complete", "--output", graph) == 0
    assert "superset" in capsys.readouterr().out
    document = read_document(graph)
    assert [tuple(edge) for edge in document.edges] == [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
    assert _run("check", graph) == 0
    assert "right (4 edges" in capsys.readouterr().out
    assert _run("show", graph) == 0
    shown = capsys.readouterr().out
    assert "partial correlation" in shown
    assert "glasso" in shown
    for name in ("g.svg", "g.png", "g.dot"):
        assert _run("show", graph, "--output", tmp_path / name) == 0
        assert (tmp_path / name).stat().st_size > 200
    assert "v0 -- v1 [color=blue" in (tmp_path / "g.dot").read_text()
    assert _run("show", graph, "--graph", "--output", tmp_path / "again.png") == 0
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "g.png").read_bytes()
    capsys.readouterr()
    assert _run("show", graph, "--json") == 0
    assert json.loads(capsys.readouterr().out)["format"] == "jtsolve-graph"
    assert _run("fit", numbers, "--graph", graph, "--output", model) == 0
    fitted = read_model(model)
    assert isinstance(fitted, MixedTreeModel)
    assert fitted.tree.treewidth == 1
    assert fitted.provenance["triangulation"] == "min-fill"


def test_states_are_selected_and_fitted(states: Path, tmp_path: Path) -> None:
    graph, model = tmp_path / "g.csv", tmp_path / "m.json"
    assert _run("select", states, "--kind", "states", "--output", graph, "--quiet") == 0
    assert decoded_graph(read_document(graph), "").named_edges == [("a", "b")]
    assert _run("fit", states, "--graph", graph, "--output", model, "--quiet") == 0
    assert isinstance(read_model(model), JunctionTreeModel)


def test_json_prints_facts_and_nothing_else(
    numbers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--method", "neighbourhood", "--over", "plain", "--kind", "nonparanormal"]
    assert _run("select", numbers, *words, "--output", tmp_path / "g.graphml", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["over"], facts["kind"], facts["screen"]) == ("plain", "nonparanormal", "complete")
    assert facts["edges"] == decoded_graph(read_document(tmp_path / "g.graphml"), "").size


def test_a_forged_selection_fails_its_check(
    numbers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = tmp_path / "g.json"
    assert _run("select", numbers, "--output", graph, "--quiet") == 0
    values = json.loads(graph.read_bytes())
    values["edges"].append(["a", "e"])
    del values["strengths"]
    graph.write_text(json.dumps(values), encoding="utf-8")
    assert _run("check", graph, "--json") == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["faults"] == ["The graph has 'a' – 'e', which no step kept."]
    assert _run("check", graph, "--certificate", graph) == 2
    write_graph(graph_to_document(UndirectedGraph.empty("ab")), graph)
    assert _run("check", graph) == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--method", "lasso"], "there is no selection method 'lasso'; did you mean 'glasso'?"),
        (["--kind", "words"], "there is no kind of data"),
        (["--over", "sea"], "there is no framework"),
        (["--method", "glasso:depth=1"], "selection method 'glasso' has no option 'depth'"),
        (["--screen", "net"], "there is no screen 'net'"),
        (["--screen", "correlation"], "needs the option 'threshold'"),
        (["--screen", "correlation:x"], "the option 'threshold' of screen 'correlation' cannot be 'x'"),
        (["--screen", "pc:-1"], "the depth is -1"),
        (["--over", "plain:2"], "the option '2' is not a key=value pair"),
        (["--method", "glasso:criterion=aic"], "there is no criterion 'aic'"),
        (["--method", "glasso:criterion=-1"], "the parameter is -1.0"),
        (["--superset", "DATA"], "header of an edge list"),
        (["--time-limit", "0.0001"], "the time limit ended"),
    ],
)
def test_wrong_use_is_refused_with_a_reason(
    words: list[str], reason: str, numbers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(numbers) if word == "DATA" else word for word in words]
    assert _run("select", numbers, "--output", tmp_path / "g.json", *words) in (2, 4)
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "g.json").exists()


def test_other_outputs_and_missing_or_constant_values_are_refused(
    numbers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("select", numbers, "--output", tmp_path / "g.txt") == 2
    (tmp_path / "gaps.csv").write_text("a,b\n1,2\n,3\n2,5\n", encoding="utf-8")
    assert _run("select", tmp_path / "gaps.csv", "--output", tmp_path / "g.json") == 2
    (tmp_path / "flat.csv").write_text("a,b\n1,2\n1,3\n1,5\n", encoding="utf-8")
    assert _run("select", tmp_path / "flat.csv", "--output", tmp_path / "g.json") == 2
    said = capsys.readouterr().err
    assert "missing" in said
    assert "constant" in said


def test_fit_requires_one_of_tree_graph_and_treewidth(numbers: Path, tmp_path: Path) -> None:
    graph, model = tmp_path / "g.json", tmp_path / "m.json"
    write_graph(graph_to_document(UndirectedGraph.from_edges("ab", [(0, 1)])), graph)
    weighed = tmp_path / "g.csv"
    weighed.write_text("source,target,strength\na,b,0.5\n", encoding="utf-8")
    assert _run("fit", numbers, "--graph", weighed, "--output", model, "--quiet") == 0
    base = ["fit", numbers, "--output", model, "--score", "gaussian-bic"]
    assert _run(*base, "--graph", graph) == 0
    assert read_model(model).names == ("a", "b")
    assert _run(*base, "--graph", graph, "--treewidth", "1") == 2
    assert _run(*base, "--graph", graph, "--columns", "a,b") == 2
    assert _run(*base, "--graph", graph, "--drop", "a") == 2


# Limits


def test_a_time_limit_ends_one_long_decision_and_its_thread() -> None:
    before = set(threading.enumerate())

    def endless() -> None:
        while True:
            pass

    with pytest.raises(LimitError, match="the time limit ended the selection; nothing is written"):
        within_limits(endless, Run(Limits(time=0.05)))
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


def test_an_interruption_and_errors_of_the_work_are_passed_on() -> None:
    def endless() -> None:
        while True:
            pass

    def fail() -> None:
        raise InputError("a", "b", "c", "d")

    interrupted = Run()
    interrupted.interrupt()
    with pytest.raises(KeyboardInterrupt):
        within_limits(endless, interrupted)
    with pytest.raises(InputError, match="a: b: c"):
        within_limits(fail, Run())
    with pytest.raises(LimitError, match="nothing is written"):
        jt.select(_walk(), time=1e-9)
    with pytest.raises(LimitError, match=r"the limit is 0\.001 GB"):
        jt.select(_walk(), memory=0.001)


# Supersets, constraints, triangulations


def test_supersets_come_from_graphs_results_and_posteriors(tmp_path: Path) -> None:
    problem = named(gaussian(1, 5))
    names = problem.names
    solved = solve(problem.with_treewidth(2))
    assert solved.tree is not None
    best = UndirectedGraph.from_edges(names, solved.tree.graph_edges)
    path = tmp_path / "x.json"
    path.write_bytes(result_to_json(solved))
    assert graph_in(path)[0].aligned(names) == best
    ranking = k_best(problem.with_treewidth(2), k=3)
    path.write_bytes(ranking_to_json(ranking))
    union = graph_in(path)[0].aligned(names)
    assert best.is_subgraph_of(union)
    assert union.size > best.size
    for method in ("certified", "exact"):
        posterior = average(problem, method=method)
        assert posterior is not None
        path.write_bytes(posterior_to_json(posterior))
        bounds = posterior.intervals
        most = posterior.edges if bounds is None else bounds.high
        assert graph_in(path)[0].size == int((np.triu(most, 1) >= LIKELY).sum())
    values = json.loads(path.read_bytes())
    values["edges"].pop()
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(InputError, match=r"the pair '\w+', '\w+' is missing"):
        graph_in(path)[0]
    write_graph(graph_to_document(best), path)
    assert graph_in(path)[0] == best


def test_constraints_keep_a_tree_within_the_triangulated_superset() -> None:
    square = UndirectedGraph.from_edges("abcd", [(0, 1), (1, 2), (2, 3), (3, 0)])
    within = constraints_within(square, UndirectedGraph.from_edges("abcd", [(0, 1)]))
    assert len(within.forbidden_edges) == 1
    assert within.required_edges == {0b0011}
    assert constraints_within(None) == Constraints()


def test_exact_backends_refine_a_screened_graph(
    numbers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, result, other = tmp_path / "g.json", tmp_path / "r.json", tmp_path / "h.json"
    assert _run("select", numbers, "--screen", "correlation:0.25", "--output", graph, "--quiet") == 0
    document = read_document(graph)
    assert document.selection is not None
    pairs = [("abcde".index(u), "abcde".index(v)) for u, v in document.selection.superset]
    left = UndirectedGraph.from_edges("abcde", pairs)
    assert len(document.edges) < left.size < 10
    assert graph_in(graph, screened=True)[0] == left
    search = ["solve", numbers, "--score", "gaussian-bic", "--quiet", "--output", result]
    assert _run(*search, "--treewidth", "4", "--constraint", f"within_graph={graph}") == 0
    cover = UndirectedGraph.from_edges("abcde", triangulation(left).graph_edges)
    assert graph_in(result)[0].aligned(cover.names).is_subgraph_of(cover)
    # The weakest pairs, which no tree would have by itself.
    chain = UndirectedGraph.from_edges("abcde", [(0, 2), (2, 4)])
    write_graph(graph_to_document(chain), other)
    assert _run(*search, "--treewidth", "1", "--constraint", f"require_graph={other}") == 0
    assert chain.is_subgraph_of(graph_in(result)[0].aligned(chain.names))
    assert (
        _run(
            *search,
            "--treewidth",
            "1",
            "--constraint",
            f"within_graph={other}",
            "--constraint",
            f"require_graph={other}",
        )
        == 0
    )
    assert graph_in(result)[0].aligned(chain.names) == chain
    capsys.readouterr()
    assert _run(*search, "--treewidth", "1", "--constraint", f"within_graph={other}", "--require", "a,b") == 2
    assert "edge a – b is both required and forbidden" in capsys.readouterr().err
    write_graph(graph_to_document(UndirectedGraph.empty("az")), other)
    assert _run(*search, "--treewidth", "1", "--constraint", f"within_graph={other}") == 2
    assert "there is no column 'z'" in capsys.readouterr().err


def test_python_refines_a_screened_graph(tmp_path: Path) -> None:
    frame = pl.DataFrame(_walk(), schema=list("abcde"), orient="row")
    selected = jt.select(frame, screen="correlation:0.25")
    selected.write(tmp_path / "g.json")
    cover = {frozenset(edge) for edge in selected.superset}
    cover |= {
        frozenset("abcde"[v] for v in edge) for edge in triangulation(selected.selection.superset).graph_edges
    }
    for within in (selected, selected.selection.superset, tmp_path / "g.json"):
        graphs = {"within_graph": within, "require_graph": selected}
        found = jt.learn(frame, 4, score="gaussian-bic", constraints=graphs)
        edges = {frozenset(edge) for edge in found.graph().edges}
        assert {frozenset(edge) for edge in selected.edges} <= edges <= cover
    chain = {"require_graph": nx.path_graph(list("ace"))}
    again = jt.learn(frame, 1, score="gaussian-bic", constraints=chain)
    assert {"a", "c"} in map(set, again.cliques)
    with pytest.raises(InputError, match="both required and forbidden"):
        jt.learn(
            frame,
            1,
            score="gaussian-bic",
            constraints={"within_graph": nx.path_graph(list("ab"))},
            require=[("c", "d")],
        )


# Choices, Python, scikit-learn


def test_texts_describe_methods_screens_and_frameworks() -> None:
    plan = SelectionPlan.of(
        "neighbourhood:criterion=stars(beta=0.1,draws=5)", None, "pc:2,level=0.05", "plain"
    )
    assert plan == SelectionPlan(
        NeighbourhoodSelection(Stars(0.1, 5)), "gaussian", PcScreen(2, 0.05), Plain()
    )
    assert METHODS.parse("glasso:criterion=ebic(0)") == GraphicalLasso(Ebic(0.0))
    assert METHODS.parse("pc:depth=1,criterion=0.05") == PC(1, 0.05)
    assert SCREENS.parse("correlation:0.3") == Correlations(0.3)
    assert FRAMEWORKS.parse("junction-tree:3") == OverJunctionTree(3)
    assert (SelectionPlan.of(kind="states").method, SelectionPlan.of("pc").kind) == (PC(), "gaussian")
    graph = UndirectedGraph.empty("ab")
    assert SelectionPlan.of(superset=graph).screen == GivenGraph(graph)
    with pytest.raises(ChoiceError, match="give one of the two"):
        SelectionPlan.of(screen="complete", superset=graph)


@pytest.mark.parametrize("registry", [METHODS, SCREENS, FRAMEWORKS, CRITERIA], ids=lambda one: one.kind)
def test_every_option_of_a_choice_has_a_description(registry: Registry[Any]) -> None:
    for name in registry:
        assert all(option.meaning for option in registry.describe(name).options), name


def test_python_selects_from_frames_and_supersets(tmp_path: Path) -> None:
    frame = pl.DataFrame(_walk(), schema=list("abcde"), orient="row")
    selected = jt.select(frame, screen="complete")
    assert selected.edges == [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
    assert len(selected.superset) == 10
    assert selected.graph()["a"]["b"]["strength"] > 0.3
    within: list[Any] = [nx.path_graph(list("abcde")), UndirectedGraph.from_edges("abcde", [(0, 1)])]
    selected.write(tmp_path / "g.json")
    for superset in (*within, tmp_path / "g.json"):
        found = jt.select(frame, superset=superset)
        assert set(found.edges) <= set(found.superset) <= set(selected.superset)
    assert isinstance(selected.fit().model, MixedTreeModel)
    assert not selected.constraints().required_edges
    assert len(selected.constraints(require=True).required_edges) == 4
    selected.show(tmp_path / "g.svg")
    assert b"<svg" in (tmp_path / "g.svg").read_bytes()
    with pytest.raises(ChoiceError, match=r"\.svg, \.png, \.html or \.dot"):
        selected.show(tmp_path / "g.pdf")
    assert repr(selected).startswith("SelectedGraph(5 variables, 4 of 10 edges")
    with pytest.raises(InputError, match="there is no column 'z'"):
        jt.select(frame, superset=nx.path_graph(list("az")))
    with pytest.raises(ChoiceError, match="there is no option 'colour'"):
        jt.select(frame, colour="red")


def test_python_selects_states_and_fits_them(states: Path) -> None:
    selected = jt.select(states, kind="states", show_progress=True)
    assert selected.edges == jt.select(states, "pc", kind="states").edges
    assert selected.edges == [("a", "b")]
    assert selected.graph().number_of_edges() == 1
    model = selected.fit()
    assert model.query("b", given={"a": "1"})["probability"].max() > 0.6
    smooth = selected.fit(smoothing=1e9).query("b", given={"a": "1"})["probability"]
    assert smooth.max() == pytest.approx(smooth.min(), abs=1e-5)


def test_vertices_get_the_region_of_most_of_their_neighbours() -> None:
    graph = UndirectedGraph.from_edges("abcd", [(0, 1), (1, 2), (2, 3)])
    assert region_of_vertices(graph, [[0, 1], [1, 2, 3]]) == [0, 0, 1, 1]
    assert region_of_vertices(graph, [[0, 1]]) == [None] * 4


@pytest.mark.filterwarnings("ignore:Skipping check check_array_api_input")
def test_the_estimator_keeps_the_rules_of_scikit_learn() -> None:
    check_estimator(GraphSelection())


def test_the_estimator_replaces_the_graphical_lasso_of_scikit_learn() -> None:
    rows = _walk() * np.array([1.0, 2, 1, 5, 1]) + 3
    found = GraphSelection(screen="complete", random_state=1).fit(rows)
    theirs = TheirLasso(0.1, max_iter=500).fit(rows)
    assert found.score(rows) > theirs.score(rows)
    assert np.allclose(found.precision_ @ found.covariance_, np.eye(5), atol=1e-6)
    assert np.allclose(found.covariance_.diagonal(), rows.var(axis=0))
    assert np.allclose(found.location_, rows.mean(axis=0))
    joined = (found.precision_ != 0) & ~np.eye(5, dtype=np.bool_)
    assert (joined == found.graph_.matrix()).all()
    same = GraphSelection("pc", superset=joined, nonparanormal=True).fit(rows)
    assert same.graph_.is_subgraph_of(found.graph_)
    with pytest.raises(ChoiceError, match="not an adjacency matrix of 5 features"):
        GraphSelection(superset=np.eye(5)).fit(rows)
    with pytest.raises(ValueError, match=r"linear combination|correlation with"):
        GraphSelection().fit(np.column_stack([rows, rows[:, 0]]))
