"""Posterior files, pictures and commands."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import numpy as np
import pytest
import schemas
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from problems import gaussian, named

from jtsolve.averaging.average import average
from jtsolve.averaging.document import posterior_to_json
from jtsolve.averaging.parts import Strengths, Traces
from jtsolve.averaging.pictures import seriation
from jtsolve.averaging.posterior import GraphPosterior
from jtsolve.cli import run
from jtsolve.core.problem import Constraints
from jtsolve.errors import ChoiceError, InputError
from jtsolve.io.documents import indented_json
from jtsolve.io.instance import write_problem

SCHEMA = Path(__file__).parents[1] / "docs" / "schema" / "posterior.schema.json"


def posterior(n: int = 4) -> GraphPosterior:
    found = average(named(gaussian(1, n)))
    assert found is not None
    return found


def chains(*, converged: bool = True) -> GraphPosterior:
    """Of three variables, with all that a file can hold."""
    matrix = np.full((3, 3), 0.25) - np.diag(np.full(3, 0.25))
    traces = Traces(
        np.array([7, 9]),
        np.array([[0.5, 1.0], [2.0, -1.0]]),
        np.array([[1, 2], [3, 0]]),
        matrix / 10,
        matrix / 7,
    )
    return replace(
        posterior(3),
        method="chains",
        converged=converged,
        traces=traces,
        bootstrap=Strengths(matrix, 4, 10, 3, "dp", 7),
        diagnostics={"treewidth": [0.25, 0.75], "treewidth_errors": [0.01, 0.01]},
    )


POSTERIOR = posterior_to_json(posterior(3))
WITH_ALL = posterior_to_json(chains())
TRACES = json.loads(WITH_ALL)["diagnostics"]["traces"]
STRENGTHS = json.loads(WITH_ALL)["diagnostics"]["bootstrap"]


def command(*arguments: object) -> int:
    return run([str(argument) for argument in arguments], 0.0)


def equal(one: GraphPosterior, other: GraphPosterior) -> bool:
    values = [
        (part.edges.tolist(), part.cliques, part.separators, part.best, part.log_evidence, part.threshold)
        for part in (one, other)
    ]
    return values[0] == values[1] and dict(one.diagnostics) == dict(other.diagnostics)


def test_a_file_holds_the_posterior(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    posterior().write(path)
    assert equal(GraphPosterior.read(path), posterior())
    with pytest.raises(ChoiceError, match="svg"):
        posterior().write(tmp_path / "p.svg")
    jsonschema.validate(json.loads(path.read_bytes()), schemas.POSTERIOR)


def test_a_file_holds_the_traces_of_chains_and_the_strengths_of_resamples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(posterior_to_json(chains()))
    found = GraphPosterior.read(path)
    assert posterior_to_json(found) == path.read_bytes()
    assert found.traces is not None
    assert found.traces.differences[0, 1] == 0.25 / 7
    assert found.bootstrap is not None
    assert found.bootstrap.edges[1, 2] == 0.25
    jsonschema.validate(json.loads(path.read_bytes()), schemas.POSTERIOR)
    assert command("show", path) == 0
    text = capsys.readouterr().out
    assert "4 of 10 resamples, trees by dp, 3 of them optimal" in text
    assert "0: 0.250, 1: 0.750 (each ± 0.010 or less)" in text
    with pytest.raises(ValueError, match="shapes"):
        replace(posterior(4), bootstrap=found.bootstrap)


@pytest.mark.parametrize("picture", ["heat-map", "graph", "cliques", "traces"])
def test_each_picture_is_drawn_and_says_if_the_chains_disagree(tmp_path: Path, picture: str) -> None:
    path, drawn = tmp_path / "p.json", tmp_path / "p.svg"
    path.write_bytes(posterior_to_json(chains(converged=False)))
    assert command("show", path, "--picture", picture, "--output", drawn) == 0
    assert "NOT CONVERGED" in drawn.read_text()
    assert ">A" in drawn.read_text()
    assert "NOT CONVERGED" not in str(chains().figure(picture).axes[0].get_title())


def test_the_graph_has_an_edge_as_wide_as_it_is_probable() -> None:
    found = posterior(3)
    drawn = found.figure("graph").axes[0].patches
    pairs = [(u, v) for u, v in ((0, 1), (0, 2), (1, 2)) if found.edges[u, v] >= 0.05]
    widths = sorted(max(0.8, 6.0 * found.edges[pair]) for pair in pairs)
    assert [patch.get_linewidth() for patch in drawn if patch.get_linestyle() in ("-", "solid")] == widths


def test_the_bars_are_the_likeliest_cliques() -> None:
    found = posterior()
    bars = found.figure("cliques").axes[0].patches
    assert [bar.get_width() for bar in bars] == [p for _, p in found.cliques[:20]]


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    odd = replace(chains(), names=("$x_", "<b>\x1b[31m\x07", "a" * 99))
    for picture in ("heat-map", "graph", "cliques", "traces"):
        odd.draw(tmp_path / "p.svg", picture)
        text = (tmp_path / "p.svg").read_text()
        assert "$x_" in text
        assert r"\u001b[31m\u0007" in text
        ET.fromstring(text)  # noqa: S314 - ours; control characters are no XML


def test_pictures_that_are_not_there_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, instance = tmp_path / "p.json", tmp_path / "i.json"
    path.write_bytes(POSTERIOR)
    write_problem(named(gaussian(1, 3)), instance)
    target = ("--output", tmp_path / "p.svg")
    for options, message in (
        (("--picture", "traces", *target), "no traces"),
        (("--picture", "photo", *target), "there is no picture"),
        (("--picture", "graph"), "name the file"),
        (("--picture", "graph", "--graph", *target), "leave it out"),
    ):
        assert command("show", path, *options) == 2
        assert message in capsys.readouterr().err
    assert command("show", instance, "--picture", "graph", *target) == 2
    assert "for posteriors" in capsys.readouterr().err


def test_a_notebook_shows_the_heat_map() -> None:
    page = chains(converged=False)._repr_html_()
    assert "NOT CONVERGED)" in page
    assert "<svg" in page


def test_the_committed_schema_is_the_one_of_the_code() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == indented_json(schemas.POSTERIOR) + "\n"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("variables", ["A", "A", "C"], "twice"),
        ("variables", [], "variables"),
        ("edges", [["A", "B", 0.5]], "missing"),
        ("edges", [["A", "B", 0.5], ["B", "A", 0.5]], "twice"),
        ("edges", [["A", "A", 0.5]], "twice in one set"),
        ("edges", [["A", "X", 0.5]], "no variable"),
        ("edges", [["A", "B", 1.5]], "edges"),
        ("cliques", [[["A", "A"], 0.5]], "twice"),
        ("cliques", [[["A"], 0.1], [["B"], 0.2]], "decreasing"),
        ("log_evidence", None, "compute the evidence"),
        ("method", "guess", "method"),
        ("seconds", {}, "total"),
        ("diagnostics", {"threshold": True}, "not a probability"),
        ("diagnostics", {"threshold": 2}, "not a probability"),
        ("diagnostics", {"best": "A"}, "not a list of cliques"),
        ("diagnostics", {"best": [["A"], ["A", "B"], ["C"]]}, "not the maximal cliques"),
        ("diagnostics", {"best": [["A", "B"]]}, "not the maximal cliques"),
        ("diagnostics", {"treewidth": "2"}, "treewidth"),
        ("diagnostics", {"edges_in_graph_errors": [2]}, "edges_in_graph_errors"),
        ("diagnostics", {"traces": {"rounds": [1]}}, "traces"),
        ("diagnostics", {"traces": TRACES | {"scores": [[0.0], [0.0, 1.0]]}}, "different lengths"),
        ("diagnostics", {"traces": TRACES | {"pairs": [["A", "B", 0.1, 0.1]]}}, "missing"),
        ("diagnostics", {"bootstrap": 3}, "bootstrap"),
        ("diagnostics", {"bootstrap": STRENGTHS | {"edges": [["A", "B", 0.1]]}}, "missing"),
        ("extra", 1, "unknown field"),
    ],
)
def test_a_file_with_a_fault_is_refused_with_its_place(
    tmp_path: Path, key: str, value: Any, message: str
) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(json.loads(POSTERIOR) | {key: value}))
    with pytest.raises(InputError, match=message):
        GraphPosterior.read(path)


def test_cliques_of_a_cycle_are_no_best_tree(tmp_path: Path) -> None:
    document = json.loads(posterior_to_json(posterior(4)))
    document["diagnostics"]["best"] = [["A", "B"], ["B", "C"], ["C", "D"], ["D", "A"]]
    path = tmp_path / "p.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="chordal"):
        GraphPosterior.read(path)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_bytes_give_a_posterior_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    text = data.draw(st.sampled_from([POSTERIOR, WITH_ALL]))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 20)))
        piece = data.draw(
            st.sampled_from([b"", b"0", b"-1", b"2", b"null", b'"A"', b"[", b"}", b",", b"1e999", b"\xff"])
        )
        text = text[:start] + piece + text[end:]
    path = tmp_path_factory.mktemp("fuzz") / "p.json"
    path.write_bytes(text or b" ")
    try:
        found = GraphPosterior.read(path)
    except InputError:
        return
    assert isinstance(found, GraphPosterior)
    assert str(found)


def test_the_order_of_a_heat_map_places_neighbours_side_by_side() -> None:
    path = np.zeros((6, 6))
    hidden = [3, 0, 5, 1, 4, 2]
    for u, v in pairwise(hidden):
        path[u, v] = path[v, u] = 0.9
    assert seriation(path) in (hidden, hidden[::-1])
    assert sorted(seriation(np.zeros((4, 4)))) == [0, 1, 2, 3]
    assert seriation(np.zeros((1, 1))) == [0]


def test_a_heat_map_has_a_number_in_each_cell_and_a_ring_for_each_edge_of_the_best_tree() -> None:
    found = posterior()
    axes = found.figure().axes[0]
    assert len(axes.texts) == 12
    assert found.best is not None
    assert len(axes.patches) == 2 * len(found.best.graph_edges)
    chains = replace(found, method="chains", converged=False, best=None)
    axes = chains.figure().axes[0]
    assert not axes.patches
    assert axes.get_title() == "NOT CONVERGED"
    n = 16
    large = replace(
        chains, names=tuple(map(str, range(n))), edges=np.zeros((n, n)), cliques=(), separators=()
    )
    assert not large.figure().axes[0].texts


def test_equal_posteriors_give_equal_pictures(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        posterior().draw(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_average_writes_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    instance, output = tmp_path / "i.json", tmp_path / "p.json"
    write_problem(named(gaussian(1, 4)), instance)
    assert command("average", instance, "--output", output, "--method", "exact:treewidths=true") == 0
    text = capsys.readouterr().out
    assert "exact; converged" in text
    assert "probability" in text
    assert equal(replace(GraphPosterior.read(output), diagnostics={}), replace(posterior(), diagnostics={}))
    assert command("show", output) == 0
    assert capsys.readouterr().out == text
    for name, start in (("s.svg", b"<?xml"), ("s.png", b"\x89PNG")):
        assert command("show", output, "--output", tmp_path / name) == 0
        assert (tmp_path / name).read_bytes().startswith(start)
    assert command("show", output, "--graph", "--output", tmp_path / "s.dot") == 0
    assert (tmp_path / "s.dot").read_bytes().startswith(b"graph")
    capsys.readouterr()
    assert command("show", output, "--json") == 0
    assert json.loads(capsys.readouterr().out) == json.loads(output.read_bytes())
    assert command("average", instance, "--json") == 0
    assert json.loads(capsys.readouterr().out)["format"] == "jtsolve-posterior"
    assert command("average", instance, "--quiet") == 0
    assert capsys.readouterr().out == ""


def test_average_scores_data_and_says_that_bic_is_no_marginal_likelihood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "d.csv"
    data.write_text("a,b,c\n" + "0,0,1\n1,1,0\n0,0,0\n1,1,1\n" * 5)
    assert command("average", data, "--score", "bic", "--max-size", 3) == 0
    assert "not a log marginal likelihood" in capsys.readouterr().out
    assert command("average", data, "--max-size", 2) == 0  # by bdeu
    assert "no log marginal likelihood" not in capsys.readouterr().out
    assert command("average", data.rename(tmp_path / "d.survey"), "--max-size", 2) == 2


def test_average_ends_with_a_code_for_each_way_to_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    instance, impossible = tmp_path / "i.json", tmp_path / "j.json"
    write_problem(named(gaussian(1, 6)), instance)
    constraints = Constraints(max_treewidth=0, required_edges=frozenset({0b11}))
    write_problem(named(gaussian(1, 3), constraints), impossible)
    assert command("average", impossible) == 3
    assert command("average", impossible, "--trees", 1) == 3
    assert command("average", instance, "--output", tmp_path / "p.pdf") == 2
    assert command("average", instance, "--memory-limit", 0.001, "--method", "exact") == 4
    assert "Ways out" in capsys.readouterr().err


def test_the_help_names_the_score_that_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("average", "--help") == 0
    assert "scored by niw, states alone by bdeu, unless" in " ".join(capsys.readouterr().out.split())


def test_chains_that_have_not_converged_have_an_exit_code_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shared: Path
) -> None:
    flare = shared / "data" / "scores" / "flare.score"
    output = tmp_path / "p.json"
    options = ("--method", "chains:temperatures=1,rounds=2000", "--output", output)
    assert command("average", flare, *options) == 5
    captured = capsys.readouterr()
    assert "NOT CONVERGED" in captured.out
    assert "not converged" in captured.err
    assert not GraphPosterior.read(output).converged


def test_sample_trees_prints_a_line_of_json_for_each_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = named(gaussian(1, 4))
    instance, output = tmp_path / "i.json", tmp_path / "trees.jsonl"
    write_problem(problem, instance)
    assert command("average", instance, "--trees", 20, "--seed", 3) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 20
    entry = json.loads(lines[0])
    assert set(entry) == {"score", "treewidth", "cliques", "separators", "tree_edges"}
    assert command("average", instance, "--trees", 20, "--seed", 3, "--output", output) == 0
    assert output.read_text().splitlines() == lines
