"""The files installed with jtsolve: contents, origin, and the command that prints their paths."""

from __future__ import annotations

import json
import time
import tomllib
from itertools import combinations
from pathlib import Path

import pytest

from jtsolve import __version__
from jtsolve.cli import run
from jtsolve.data import example
from jtsolve.data.examples import EXAMPLES
from jtsolve.errors import ChoiceError
from jtsolve.networks.files import read_network

ROOT = Path(__file__).parents[1]


def command(*arguments: str | Path) -> int:
    return run([str(argument) for argument in arguments], time.monotonic())


def test_the_instance_is_the_one_in_the_repository() -> None:
    assert example("zoo").read_bytes() == (ROOT / "instances" / "uci" / "zoo.json.gz").read_bytes()


def test_the_survey_is_drawn_from_its_network(tmp_path: Path) -> None:
    path = tmp_path / "survey.csv"
    words = ["--rows", "2000", "--seed", "1", "--output", str(path)]
    assert command("sample", example("survey-network"), *words) == 0
    assert path.read_bytes() == example("survey").read_bytes()


def test_the_best_tree_of_the_survey_is_the_moral_graph_of_its_network(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    task = ["--score", "bic", "--treewidth", "2", "--backend", "dp"]
    assert command("solve", example("survey"), *task, "--output", result, "--quiet") == 0
    document = json.loads(result.read_text(encoding="utf-8"))
    assert document["status"] == "optimal"
    learned = {frozenset(pair) for clique in document["cliques"] for pair in combinations(clique, 2)}
    nodes = read_network(example("survey-network")).nodes
    families = [[node.name, *(nodes[parent].name for parent in node.parents)] for node in nodes]
    assert learned == {frozenset(pair) for family in families for pair in combinations(family, 2)}


def test_the_command_prints_the_path_or_copies_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("data", "example", "survey") == 0
    assert capsys.readouterr().out == f"{example('survey')}\n"
    copy = tmp_path / "survey.csv"
    assert command("data", "example", "survey", "--output", copy) == 0
    assert capsys.readouterr().out == f"{copy}\n"
    assert copy.read_bytes() == example("survey").read_bytes()


def test_an_unknown_example_is_refused_with_the_names_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ChoiceError, match="there is no example 'surveys'; did you mean 'survey'"):
        example("surveys")
    assert command("data", "example", "surveys") == 2
    reported = capsys.readouterr().err
    assert all(name in reported for name in EXAMPLES)


def test_the_version_to_cite_is_the_version() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pyproject["project"]["version"] == __version__
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
