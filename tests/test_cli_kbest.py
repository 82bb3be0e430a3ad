"""The best trees in order on the command line: solve, check, show."""

from __future__ import annotations

import json
from time import monotonic
from typing import TYPE_CHECKING

import pytest
from problems import gaussian, named

from jtsolve.cli import run
from jtsolve.core.problem import Constraints
from jtsolve.io.instance import write_problem

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    path = tmp_path / "i.json"
    write_problem(named(gaussian(4, 4)), path)
    return path


def solve(instance: Path, *arguments: str) -> int:
    return run(["solve", str(instance), "--backend", "brute", *arguments], monotonic())


def test_the_best_trees_are_written_checked_and_shown(
    instance: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "r.json")
    assert solve(instance, "--k-best", "3", "--output", path) == 0
    summary = capsys.readouterr().out
    assert "requested  the best 3\n" in summary
    assert "found      3 (complete; finished)" in summary
    assert "   3 " in summary
    assert run(["check", str(instance), path], monotonic()) == 0
    assert "right (3 trees, complete" in capsys.readouterr().out
    assert run(["show", path], monotonic()) == 0
    shown = capsys.readouterr().out
    table, tree = (summary[summary.index("rank") :].split("\n\n"))[:2]
    assert table in shown
    assert tree.strip() in shown
    assert run(["show", path, "--output", str(tmp_path / "best.dot")], monotonic()) == 0
    assert (tmp_path / "best.dot").read_text().startswith("graph")


def test_json_is_the_document_and_nothing_else(instance: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert solve(instance, "--within", "1.5", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["format"], document["within"], document["k"]) == ("jtsolve-results", 1.5, None)
    scores = [result["score"] for result in document["results"]]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] >= scores[0] - 1.5
    assert document["bound"] < scores[0] - 1.5


def test_the_edges_that_differ_from_the_best_tree_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "i.json"
    write_problem(named(gaussian(4, 2)), path)
    assert solve(path, "--k-best", "5", "--within", "1000") == 0
    summary = capsys.readouterr().out
    assert "the best 5 within 1000 nats of the best" in summary
    assert "others     there are none" in summary
    assert "  -A–B\n" in summary or "  +A–B\n" in summary


def test_wrong_results_are_found(instance: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.json"
    solve(instance, "--k-best", "2", "--output", str(path))
    plain = json.loads(path.read_text())
    path.write_text(json.dumps({**plain, "proved": 1}))
    assert run(["check", str(instance), str(path)], monotonic()) == 1
    assert "claims 1 proved results, but the first 2" in capsys.readouterr().err


def test_no_tree_ends_as_for_one_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, results = tmp_path / "i.json", tmp_path / "r.json"
    write_problem(named(gaussian(4, 3), Constraints(max_treewidth=0, min_separator_size=1)), path)
    assert solve(path, "--k-best", "2", "--output", str(results)) == 3
    assert "found      0 (complete; finished)" in capsys.readouterr().out
    assert run(["show", str(results), "--output", str(tmp_path / "r.dot")], monotonic()) == 2
    assert "there is no tree" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--backend", "lns", "--k-best", "2"], ["'lns' refuses", "forbidden_graphs", "brute, clutter"]),
        (["--backend", "lns", "--within", "2"], ["'lns' refuses", "forbidden_graphs", "brute, clutter"]),
        (["--within", "-1"], ["within is -1"]),
        (["--within", "nan"], ["within is nan"]),
        (["--k-best", "0"], ["k is 0"]),
    ],
)
def test_unknown_choices_end_with_2(
    instance: Path, arguments: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["solve", str(instance), *arguments], monotonic()) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert all(part in written.err for part in parts)


def test_auto_selects_a_capable_backend_and_reports_it(
    instance: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["solve", str(instance), "--k-best", "2"], monotonic()) == 0
    assert "auto chose 'dp'" in capsys.readouterr().out
