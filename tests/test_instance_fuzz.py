"""Whatever bytes a file holds, reading it gives a value or an `InputError`, and nothing else."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jtsolve.core.problem import Problem
from jtsolve.errors import InputError
from jtsolve.io.instance import read_problem
from jtsolve.io.result import ResultDocument, read_result

INSTANCE = json.dumps(
    {
        "format": "jtsolve-instance",
        "version": 1,
        "name": "x",
        "variables": ["A", {"name": "B", "states": ["l", "h"]}],
        "scores": {"layout": "colex", "max_size": 2, "values": [0, -1.5, -2e1, -3]},
        "constraints": {"max_treewidth": 1, "forbidden_edges": [["A", "B"]], "allowed_separators": [[]]},
        "provenance": {"a": [1, {"b": None}]},
    }
).encode()
SPARSE = json.dumps(
    {
        "format": "jtsolve-instance",
        "version": 1,
        "variables": ["A", "B"],
        "scores": {"layout": "sparse", "sets": [[["A", "B"], -1.5], [["B"], -1]]},
    }
).encode()
RESULT = json.dumps(
    {
        "format": "jtsolve-result",
        "version": 1,
        "instance": {"name": "x", "digest": "sha256:0", "constraints": {"max_treewidth": 1}},
        "backend": {"name": "dp", "options": {"start": {"name": "forward"}}},
        "status": "optimal",
        "stop": "finished",
        "score": -3.0,
        "bound": -3.0,
        "gap": 0.0,
        "treewidth": 1,
        "cliques": [["A"], ["B"]],
        "separators": [[]],
        "tree_edges": [[0, 1]],
        "seconds": {"total": 0.5},
        "trace": [[0.1, None, -1.0], [0.2, -3.0, -3.0]],
        "seed": 0,
        "environment": {"cores": 2},
        "stats": {},
    }
).encode()

Reader = Callable[[Path], Any]
FILES: dict[str, tuple[str, bytes, Reader, type]] = {
    "json": ("a.json", INSTANCE, read_problem, Problem),
    "sparse": ("a.json", SPARSE, read_problem, Problem),
    "gzip": ("a.json.gz", gzip.compress(INSTANCE, mtime=0), read_problem, Problem),
    "junctor": ("a.score", b"2 2\n0\n-1.5\n-2e1\n-3\n", read_problem, Problem),
    "adjunct": ("a.dmst", b"DMST\n2\nsubset_scores\ncolex_order 2\n0\n-1.5\n-2\n-3\n", read_problem, Problem),
    "gobnilp": ("a.jkl", b"# r\n2\nA 2\n-1 0\n-1.5 1 B\nB 2\n-2 0\n-2.5 1 A\n", read_problem, Problem),
    "urlearning": (
        "a.pss",
        b"META a=b\nVAR A\nMETA arity=2\nMETA values=l h\n-1\n-1.5 B\n\nVAR B\n-2\n-2.5 A\n",
        read_problem,
        Problem,
    ),
    "unknown": ("a", b"2 2\n0\n-1.5\n-2e1\n-3\n", read_problem, Problem),
    "result": ("a.json", RESULT, read_result, ResultDocument),
}
PIECES = [
    b"",
    b"0",
    b"-1",
    b"2",
    b"1e999",
    b"NaN",
    b"null",
    b"true",
    b'"',
    b"\\",
    b"\\ud800",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b" ",
    b"#",
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xe2\x88\x85",
    b'"A"',
    b'"B"',
    b"A",
    b"VAR",
    b"META",
    b"DMST",
    b"999999999",
    b"18446744073709551616",
    b'"name": 1,',
    b'"version": 1,',
    b"[[[[",
]


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    """The data with a few pieces cut out, put in, or moved."""
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        piece = draw(st.sampled_from(PIECES) | st.binary(max_size=4))
        if draw(st.booleans()) and data:
            at = draw(st.integers(0, len(data) - 1))
            piece = data[at : at + draw(st.integers(1, 40))]
        data = data[:start] + piece + data[end:]
    return data


def outcome(folder: Path, kind: str, data: bytes) -> object:
    name, _, read, _ = FILES[kind]
    path = folder / f"{kind}-{name}"
    path.write_bytes(data)
    try:
        return read(path)
    except InputError as error:
        complete = error.source == str(path) and error.reason and error.remedy
    assert complete, "the message lacks the file, the reason or the remedy"
    return None


@pytest.mark.parametrize("kind", FILES)
def test_the_unchanged_file_is_read(tmp_path: Path, kind: str) -> None:
    assert isinstance(outcome(tmp_path, kind, FILES[kind][1]), FILES[kind][3])


fuzz = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("kind", FILES)
@fuzz
@given(data=st.data())
def test_a_mutated_file_is_read_or_refused(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    found = outcome(tmp_path, kind, data.draw(mutations(FILES[kind][1])))
    assert found is None or isinstance(found, FILES[kind][3])
    if isinstance(found, Problem):
        assert found.scores.score(0) == 0
        assert found.digest()


@pytest.mark.parametrize("kind", FILES)
@fuzz
@given(content=st.binary(max_size=60))
def test_random_bytes_are_read_or_refused(tmp_path: Path, kind: str, content: bytes) -> None:
    found = outcome(tmp_path, kind, content)
    assert found is None or isinstance(found, FILES[kind][3])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("kind", ["json", "sparse", "result"])
@fuzz
@given(data=st.data())
def test_any_value_at_any_place_is_read_or_refused(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    document = json.loads(FILES[kind][1])
    at: Any = document
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
            break
        at = at[key]
    at[key] = data.draw(values)
    found = outcome(tmp_path, kind, json.dumps(document).encode("utf-8", "surrogatepass"))
    assert found is None or isinstance(found, FILES[kind][3])
