from __future__ import annotations

import json
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jsonschema
import numpy as np
import pytest
import schemas

from jtsolve.core.problem import Constraints
from jtsolve.core.result import Incumbent, Result, Status, Stop
from jtsolve.core.tree import JunctionTree
from jtsolve.errors import InputError
from jtsolve.io.documents import indented_json
from jtsolve.io.result import read_result, result_to_document, result_to_json

SCHEMA = Path(__file__).parents[1] / "docs" / "schema" / "result.schema.json"

TREE = JunctionTree(3, (0b011, 0b110), ((0, 1),))
FOUND = Result(
    instance="small",
    digest="sha256:00",
    names=("A", "B", "C"),
    constraints=Constraints(max_treewidth=1, forbidden_edges=frozenset({0b101})),
    backend="dp",
    options={"start": {"name": "forward"}, "precision": "float64"},
    status=Status.OPTIMAL,
    stop=Stop.FINISHED,
    tree=TREE,
    score=-3.5,
    bound=-3.5,
    seconds={"search": 0.25, "total": 0.5},
    trace=(Incumbent(0.1, None, -1.0), Incumbent(0.2, -3.5, -3.5)),
    seed=7,
    environment=MappingProxyType({"cores": 2}),
    stats=MappingProxyType({"additions": np.int64(12), "slack": np.float64(0.5), "ratio": inf}),
)
NOTHING = replace(FOUND, status=Status.UNKNOWN, stop=Stop.TIME, tree=None, score=None, trace=())

JSON = """{
  "format": "jtsolve-result",
  "version": 1,
  "instance": {
    "name": "small",
    "digest": "sha256:00",
    "constraints": {
      "max_treewidth": 1,
      "forbidden_edges": [
        ["A", "C"]
      ]
    }
  },
  "backend": {
    "name": "dp",
    "options": {
      "start": {
        "name": "forward"
      },
      "precision": "float64"
    }
  },
  "status": "optimal",
  "stop": "finished",
  "score": -3.5,
  "bound": -3.5,
  "gap": 0.0,
  "treewidth": 1,
  "cliques": [
    ["A", "B"],
    ["B", "C"]
  ],
  "separators": [
    ["B"]
  ],
  "tree_edges": [
    [0, 1]
  ],
  "seconds": {
    "search": 0.25,
    "total": 0.5
  },
  "trace": [
    [0.1, null, -1.0],
    [0.2, -3.5, -3.5]
  ],
  "seed": 7,
  "environment": {
    "cores": 2
  },
  "stats": {
    "additions": 12,
    "slack": 0.5,
    "ratio": null
  }
}
"""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tree": None}, "both a tree and a score, or neither"),
        ({"score": None}, "both a tree and a score, or neither"),
        ({"status": Status.UNKNOWN}, "status 'unknown' contradicts"),
        ({"tree": None, "score": None}, "status 'optimal' contradicts"),
        ({"bound": -4.0}, "the bound -4.0 is below the score -3.5"),
        ({"bound": -3.4}, "status 'optimal' with a gap of 0.1"),
        ({"status": Status.INFEASIBLE, "tree": None, "score": None}, "if and only if"),
        ({"status": Status.UNKNOWN, "tree": None, "score": None, "bound": -inf}, "if and only if"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        replace(FOUND, **changes)


def test_gap_and_treewidth() -> None:
    assert (FOUND.gap, FOUND.treewidth) == (0.0, 1)
    assert (NOTHING.gap, NOTHING.treewidth) == (inf, None)
    infeasible = replace(NOTHING, status=Status.INFEASIBLE, bound=-inf)
    assert (infeasible.gap, infeasible.treewidth) == (0.0, None)


def test_the_json_form() -> None:
    assert result_to_json(FOUND).decode() == JSON


def test_infinite_numbers_are_null() -> None:
    unknown = json.loads(result_to_json(replace(NOTHING, bound=inf)))
    assert (unknown["score"], unknown["bound"], unknown["gap"]) == (None, None, None)
    assert (unknown["cliques"], unknown["separators"], unknown["tree_edges"]) == ([], [], [])
    infeasible = json.loads(result_to_json(replace(NOTHING, status=Status.INFEASIBLE, bound=-inf)))
    assert (infeasible["bound"], infeasible["gap"]) == (None, 0.0)
    assert json.loads(result_to_json(replace(FOUND, stats={"x": nan})))["stats"] == {"x": None}


def test_an_invalid_json_value_is_an_error() -> None:
    with pytest.raises(TypeError, match="is not a JSON value"):
        result_to_json(replace(FOUND, stats={"x": {1, 2}}))


def test_a_result_reads_back_as_it_was_written(tmp_path: Path) -> None:
    for result in (FOUND, NOTHING):
        path = tmp_path / "a.json"
        path.write_bytes(result_to_json(result))
        assert read_result(path) == result_to_document(result)
        jsonschema.validate(json.loads(path.read_bytes()), schemas.RESULT)


def test_the_committed_schema_is_the_one_of_the_code() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == indented_json(schemas.RESULT) + "\n"


@pytest.mark.parametrize(
    ("change", "place", "reason"),
    [
        ({"format": "jtsolve-instance"}, "$.format", 'not "jtsolve-result"'),
        ({"version": 3}, "$.version", "the version is 3"),
        ({"extra": 1}, "$", "unknown field 'extra'"),
        ({"status": "great"}, "$.status", "invalid enum value 'great'"),
        ({"stop": 1}, "$.stop", "expected 'str', got 'int'"),
        ({"score": "1"}, "$.score", "expected 'float | null', got 'str'"),
        ({"treewidth": 1.5}, "$.treewidth", "expected 'int | null', got 'float'"),
        ({"tree_edges": [[0]]}, "$.tree_edges[0]", "length 2"),
        ({"trace": [[0.1, None]]}, "$.trace[0]", "length 3"),
        ({"instance": {"name": "x", "digest": "y"}}, "$.instance", "missing required field 'constraints'"),
        ({"seconds": {}}, "$.seconds", "'total' is missing"),
    ],
)
def test_a_wrong_result_file_is_refused(
    tmp_path: Path, change: dict[str, Any], place: str, reason: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(json.loads(JSON) | change))
    with pytest.raises(InputError) as caught:
        read_result(path)
    assert (caught.value.source, caught.value.place) == (str(path), place)
    assert reason in caught.value.reason
    assert caught.value.remedy


@pytest.mark.parametrize("key", list(json.loads(JSON)))
def test_every_key_is_required(tmp_path: Path, key: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({name: value for name, value in json.loads(JSON).items() if name != key}))
    with pytest.raises(InputError, match=rf"'{key}'"):
        read_result(path)


def test_a_key_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(JSON.replace('"seed": 7', '"seed": 7, "seed": 8'))
    with pytest.raises(InputError, match="'seed' occurs twice"):
        read_result(path)
