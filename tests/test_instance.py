from __future__ import annotations

import errno
import gzip
import io
import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jsonschema
import numpy as np
import pytest
import schemas
from hypothesis import given
from hypothesis import strategies as st

from jtsolve.core import files
from jtsolve.core.files import write_atomically
from jtsolve.core.problem import Constraints, Problem, Variable
from jtsolve.core.run import Limits, Run
from jtsolve.core.scores import LARGEST, DenseScores, SparseScores
from jtsolve.core.varset import bounded_subsets, count_bounded_subsets, members
from jtsolve.errors import ChoiceError, InputError
from jtsolve.io.documents import indented_json
from jtsolve.io.foreign import read_junctor
from jtsolve.io.instance import read_problem, write_problem

SCHEMA = Path(__file__).parents[1] / "docs" / "schema" / "instance.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(schemas.INSTANCE)

VALID: dict[str, Any] = {
    "format": "jtsolve-instance",
    "version": 1,
    "name": "small",
    "variables": ["A", {"name": "B", "states": 2}, {"name": "C", "states": ["lo", "hi"]}],
    "scores": {"layout": "colex", "max_size": 2, "values": [0.0, -1.5, -2, -3, -1e3, -5, -6]},
    "constraints": {
        "max_treewidth": 1,
        "max_separator_size": 1,
        "min_separator_size": 0,
        "forbidden_edges": [["A", "C"]],
        "required_edges": [["B", "A"]],
        "forbidden_cliques": [["A"]],
        "forbidden_separators": [["B", "C"]],
        "allowed_separators": [["A"], []],
        "max_cliques": 4,
        "forbidden_graphs": [[], [["A", "C"], ["B", "C"]]],
    },
    "provenance": {"data": "made up", "optimum": {"score": -3.5}},
}
SPARSE = {"layout": "sparse", "sets": [[["A", "B"], -312.5], [["B"], -1], [[], 0]]}


def valid(**changes: Any) -> dict[str, Any]:
    return {**VALID, **changes}


def same(one: Problem, other: Problem) -> bool:
    return (
        one.digest() == other.digest()
        and one.variables == other.variables
        and one.constraints == other.constraints
        and one.name == other.name
        and dict(one.provenance) == dict(other.provenance)
    )


def dense_problem(n: int, max_size: int, seed: int = 0) -> Problem:
    values = np.random.default_rng(seed).normal(scale=1e3, size=count_bounded_subsets(n, max_size))
    values[0] = 0
    return Problem(tuple(Variable(str(v)) for v in range(n)), DenseScores(n, max_size, values), name="x")


def saved(folder: Path, content: Any, name: str = "a.json") -> Path:
    path = folder / name
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(data)
    return path


# Reading the instance format


def test_a_valid_file_is_read_in_full(tmp_path: Path) -> None:
    problem = read_problem(saved(tmp_path, VALID))
    assert problem.variables == (Variable("A"), Variable("B", 2), Variable("C", ("lo", "hi")))
    assert isinstance(problem.scores, DenseScores)
    assert problem.scores.values.tolist() == [0, -1.5, -2, -3, -1000, -5, -6]
    assert problem.constraints == Constraints(
        max_treewidth=1,
        max_separator_size=1,
        forbidden_edges=frozenset({0b101}),
        required_edges=frozenset({0b011}),
        forbidden_cliques=frozenset({0b001}),
        forbidden_separators=frozenset({0b110}),
        allowed_separators=frozenset({0b001, 0}),
        max_cliques=4,
        forbidden_graphs=frozenset({frozenset(), frozenset({0b101, 0b110})}),
    )
    assert problem.name == "small"
    assert problem.provenance == VALID["provenance"]


@pytest.mark.parametrize("rows", ["the first 1000", 0, -1, 2.5, True, None])
def test_rows_are_read_from_the_provenance_if_they_are_a_count(tmp_path: Path, rows: object) -> None:
    assert read_problem(saved(tmp_path, valid(provenance={"rows": rows}))).rows is None
    assert read_problem(saved(tmp_path, valid(provenance={"rows": 80}))).rows == 80


def test_rows_are_written_to_the_provenance_in_their_place(tmp_path: Path) -> None:
    problem = replace(dense_problem(2, 2), rows=80)
    write_problem(problem, tmp_path / "a.json")
    assert read_problem(tmp_path / "a.json").rows == 80
    remarks = {"data": "d.csv", "rows": 80, "score": "bdeu"}
    write_problem(replace(problem, provenance=remarks), tmp_path / "b.json")
    assert list(read_problem(tmp_path / "b.json").provenance.items()) == list(remarks.items())


def test_optional_keys_may_be_absent(tmp_path: Path) -> None:
    least = {key: VALID[key] for key in ("format", "version", "variables", "scores")}
    problem = read_problem(saved(tmp_path, least))
    assert problem.name == ""
    assert problem.constraints == Constraints()


def test_sparse_scores_are_read(tmp_path: Path) -> None:
    problem = read_problem(saved(tmp_path, valid(scores=SPARSE)))
    assert isinstance(problem.scores, SparseScores)
    assert problem.scores.table == {0b00: 0, 0b10: -1, 0b11: -312.5}


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"format": "jtsolve-result"}, "$.format", 'the format is "jtsolve-result"'),
    ({"format": [1]}, "$.format", "a list or an object"),
    ({"version": 2}, "$.version", "the version is 2, not 1"),
    ({"version": True}, "$.version", "the version is true"),
    ({"version": "1"}, "$.version", 'the version is "1"'),
    ({"version": 1.0}, "$.version", "the version is 1.0"),
    ({"nmae": "x"}, "$", "unknown field 'nmae'"),
    ({"name": 3}, "$.name", "expected 'str', got 'int'"),
    ({"variables": []}, "$.variables", "length >= 1"),
    ({"variables": "ABC"}, "$.variables", "expected 'array'"),
    ({"variables": ["A", "B", ""]}, "$.variables[2]", "length >= 1"),
    ({"variables": ["A", "B", "A"]}, "$.variables[2]", "'A' is used twice"),
    ({"variables": ["A", "B", {"name": "B", "states": 2}]}, "$.variables[2]", "'B' is used twice"),
    ({"variables": ["A", "B", {"name": "C"}]}, "$.variables[2]", "missing required field 'states'"),
    ({"variables": ["A", "B", {"name": "C", "states": 0}]}, "$.variables[2].states", ">= 1"),
    ({"variables": ["A", "B", {"name": "C", "states": ["x", "x"]}]}, "$.variables[2].states", "twice"),
    ({"variables": ["A", "B", {"name": "C", "states": 2, "x": 1}]}, "$.variables[2]", "unknown field 'x'"),
    ({"variables": ["A", "B"]}, "$.scores.values", "7 values, but 2 variables have 4 sets"),
    ({"variables": [str(v) for v in range(99)]}, "$.scores.values", "99 variables have 4951 sets"),
    ({"scores": [1]}, "$.scores", "expected 'object', got 'array'"),
    ({"scores": {"max_size": 1, "values": [0]}}, "$.scores", "missing required field 'layout'"),
    ({"scores": {"layout": "lex", "max_size": 1, "values": [0]}}, "$.scores.layout", "invalid value 'lex'"),
    ({"scores": {"layout": "colex", "values": [0]}}, "$.scores", "missing required field 'max_size'"),
    ({"scores": {"layout": "colex", "max_size": 0, "values": [0]}}, "$.scores.max_size", ">= 1"),
    ({"scores": {"layout": "colex", "max_size": 4, "values": [0]}}, "$.scores.max_size", "size, 4, is not"),
    ({"scores": {"layout": "colex", "max_size": 1, "values": [0, 1]}}, "$.scores.values", "2 values, but 3"),
    (
        {"scores": {"layout": "colex", "max_size": 1, "values": [0.5, 1, 1, 1]}},
        "$.scores.values[0]",
        "s(∅) is 0.5",
    ),
    (
        {"scores": {"layout": "colex", "max_size": 1, "values": [0, 1, "1", 1]}},
        "$.scores.values[2]",
        "expected 'float', got 'str'",
    ),
    ({"scores": {"layout": "colex", "max_size": 1, "values": [0, 1, None, 1]}}, "$.scores.values[2]", "null"),
    ({"scores": {**SPARSE, "max_size": 2}}, "$.scores", "unknown field 'max_size'"),
    ({"scores": {"layout": "sparse", "sets": [[["A"]]]}}, "$.scores.sets[0]", "length 2"),
    (
        {"scores": {"layout": "sparse", "sets": [[["A"], 1], [["A", "X"], 1]]}},
        "$.scores.sets[1][0][1]",
        "there is no variable 'X'",
    ),
    (
        {"scores": {"layout": "sparse", "sets": [[["A", "A"], 1]]}},
        "$.scores.sets[0][0][1]",
        "'A' occurs twice",
    ),
    (
        {"scores": {"layout": "sparse", "sets": [[["A", "B"], 1], [["B", "A"], 1]]}},
        "$.scores.sets[1]",
        "{A, B} occurs twice",
    ),
    ({"scores": {"layout": "sparse", "sets": [[[], -1]]}}, "$.scores.sets[0][1]", "s(∅) is -1.0"),
    ({"scores": {"layout": "sparse", "sets": [[["A"], -1e101]]}}, "$.scores.sets[0][1]", "beyond ±1e+100"),
    ({"constraints": {"treewidth": 1}}, "$.constraints", "unknown field 'treewidth'"),
    ({"constraints": {"max_treewidth": -1}}, "$.constraints.max_treewidth", ">= 0"),
    ({"constraints": {"max_treewidth": 1.5}}, "$.constraints.max_treewidth", "expected 'int"),
    ({"constraints": {"max_cliques": 0}}, "$.constraints.max_cliques", ">= 1"),
    (
        {"constraints": {"forbidden_graphs": [[["A", "B"], ["B", "A"]]]}},
        "$.constraints.forbidden_graphs[0]",
        "an edge occurs twice",
    ),
    (
        {"constraints": {"forbidden_graphs": [[], [["A", "B"]], []]}},
        "$.constraints.forbidden_graphs[2]",
        "the graph is also entry 0",
    ),
    ({"constraints": {"forbidden_edges": [["A"]]}}, "$.constraints.forbidden_edges[0]", "length 2"),
    ({"constraints": {"forbidden_edges": [["A", "Z"]]}}, "$.constraints.forbidden_edges[0][1]", "'Z'"),
    (
        {"constraints": {"required_edges": [["A", "A"]]}},
        "$.constraints.required_edges[0][1]",
        "'A' occurs twice",
    ),
    (
        {"constraints": {"forbidden_cliques": [["A"], ["B"], ["A"]]}},
        "$.constraints.forbidden_cliques[2]",
        "the set is also entry 0",
    ),
    (
        {"constraints": {"required_edges": [["A", "B"]], "forbidden_edges": [["B", "A"]]}},
        "$.constraints.required_edges",
        "edge A – B is both required and forbidden",
    ),
    ({"provenance": []}, "$.provenance", "expected 'object', got 'array'"),
]


@pytest.mark.parametrize(("change", "place", "reason"), WRONG)
def test_a_wrong_file_names_file_place_reason_and_remedy(
    tmp_path: Path, change: dict[str, Any], place: str, reason: str
) -> None:
    path = saved(tmp_path, valid(**change))
    with pytest.raises(InputError) as caught:
        read_problem(path)
    assert caught.value.source == str(path)
    assert caught.value.place == place
    assert reason in caught.value.reason
    assert caught.value.remedy
    assert ("docs/formats.md" in caught.value.remedy) == ("invalid" in reason)
    assert str(caught.value).startswith(f"{path}: {place}: ")


@pytest.mark.parametrize("key", ["format", "version", "variables", "scores"])
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    content = {name: value for name, value in VALID.items() if name != key}
    with pytest.raises(InputError, match=rf"\$: .*'{key}'") as caught:
        read_problem(saved(tmp_path, content))
    assert caught.value.place == "$"


TEXT = json.dumps(VALID, indent=1)


@pytest.mark.parametrize(
    ("data", "place", "reason"),
    [
        (b"", "", "the file is empty"),
        (b"[]", "$", "expected 'object', got 'array'"),
        (b"{", "line 1, column 2", "ends too early"),
        (TEXT[:200].encode(), "line 19, column 5", "ends too early"),
        (TEXT.encode() + b"x", "line 86, column 2", "trailing characters"),
        (TEXT.replace("-1.5", "NaN").encode(), "line 24, column 4", "NaN is not a number in JSON"),
        (TEXT.replace("-1.5", "Infinity").encode(), "line 24, column 4", "Infinity is not a number in JSON"),
        (
            TEXT.replace("-1.5", "-Infinity").encode(),
            "line 24, column 5",
            "-Infinity is not a number in JSON",
        ),
        (TEXT.replace("-1.5", "nope").encode(), "line 24, column 8", "not JSON"),
        (TEXT.replace("-1.5", "1e999").encode(), "$.scores.values[1]", "out of range"),
        (TEXT.replace("-1.5", "1" * 400).encode(), "$.scores.values[1]", "out of range"),
        (TEXT.replace("small", "smäll").encode("latin-1"), "line 4, column 13", "not UTF-8"),
        (TEXT.replace('"small"', '"small", "name": "x"').encode(), "$.name", "'name' occurs twice (line 4"),
        (
            TEXT.replace('"small"', r'"small", "n\u0061me": "x"').encode(),
            "$.name",
            "'name' occurs twice",
        ),
        (
            TEXT.replace('"max_size": 2', '"max_size": 2, "max_size": 2').encode(),
            "$.scores.max_size",
            "'max_size' occurs twice",
        ),
        (
            TEXT.replace('"name": "B"', '"name": "D", "name": "B"').encode(),
            "$.variables.name",
            "'name' occurs twice",
        ),
        (
            TEXT.replace('"score": -3.5', '"score": 1, "score": 2').encode(),
            "$.provenance.optimum.score",
            "'score' occurs twice",
        ),
        (TEXT.replace('"made up"', "[" * 100_000).encode(), "", "nested too deeply"),
        (b'{"format": 1, "provenance": ' + b"[" * 100_000, "$.format", "expected 'str', got 'int'"),
    ],
)
def test_a_damaged_text_is_refused(tmp_path: Path, data: bytes, place: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        read_problem(saved(tmp_path, data))
    assert reason in caught.value.reason
    assert caught.value.place == place


def test_texts_that_look_like_keys_are_no_duplicates(tmp_path: Path) -> None:
    provenance = {"a": 'x", "a": "y', "b": ["a", "a", {"a": 1}, {"a": "\\"}], "c": "}{", "\\": "\\", '"': 1}
    problem = read_problem(saved(tmp_path, valid(provenance=provenance)))
    assert problem.provenance == provenance


# Files as such


def test_a_file_that_is_not_there_or_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_problem(tmp_path / "none.json")
    with pytest.raises(InputError, match="it is a directory"):
        read_problem(tmp_path)
    with pytest.raises(InputError, match="embedded null"):
        read_problem("a\0.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_problem(saved(tmp_path, b"x", "file") / "below.json")

    def refuse(path: Any, *arguments: Any, **options: Any) -> Any:
        if not str(path).endswith("a.json"):
            return opened(path, *arguments, **options)
        raise PermissionError(errno.EACCES, "Permission denied")

    opened = open

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(InputError, match="no permission to read it"):
        read_problem(tmp_path / "a.json")


def test_gzip_data_are_unpacked_under_any_name(tmp_path: Path) -> None:
    packed = gzip.compress(TEXT.encode())
    for name in ("a.json.gz", "a.json"):
        assert read_problem(saved(tmp_path, packed, name)).name == "small"
    halves = gzip.compress(TEXT[:99].encode()) + gzip.compress(TEXT[99:].encode())
    assert read_problem(saved(tmp_path, halves, "b.json.gz")).name == "small"


def test_damaged_gzip_data_are_refused(tmp_path: Path) -> None:
    packed = gzip.compress(TEXT.encode())
    wrong_sum = packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:]
    wrong_middle = packed[:30] + b"\xff\xff\xff\xff" + packed[34:]
    for data in (packed[:-20], packed[:5], wrong_sum, wrong_middle, packed + b"trailing"):
        with pytest.raises(InputError, match="gzip data: it is damaged or truncated"):
            read_problem(saved(tmp_path, data, "a.json.gz"))
    with pytest.raises(InputError, match=r"named \.gz, but is not gzip data"):
        read_problem(saved(tmp_path, VALID, "a.json.gz"))
    with pytest.raises(InputError, match="the file is empty"):
        read_problem(saved(tmp_path, gzip.compress(b""), "a.json.gz"))


def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    bomb = gzip.compress(b" " * (1 << 26))
    assert len(bomb) < 1 << 17
    path = saved(tmp_path, bomb, "a.json.gz")
    with files.opened(path) as stream, pytest.raises(InputError, match="GiB once decompressed"):
        files._read_bounded(stream, str(path), 0, Run(), most=1 << 20)
    large = saved(tmp_path, b"", "a.json")
    os.truncate(large, files.LARGEST + 1)  # a hole, which takes no space
    with pytest.raises(InputError, match="more than 2 GiB"):
        read_problem(large, Run(Limits(memory=1 << 50)))


# Writing


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
@pytest.mark.parametrize("scores", [VALID["scores"], SPARSE])
def test_json_round_trip(tmp_path: Path, name: str, scores: dict[str, Any]) -> None:
    problem = read_problem(saved(tmp_path, valid(scores=scores), "in.json"))
    write_problem(problem, tmp_path / name)
    again = read_problem(tmp_path / name)
    assert same(problem, again)
    assert type(again.scores) is type(problem.scores)
    first = (tmp_path / name).read_bytes()
    write_problem(again, tmp_path / name)
    assert (tmp_path / name).read_bytes() == first


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
floats = st.floats(-LARGEST, LARGEST)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    n = draw(st.integers(1, 4))
    labels = draw(st.lists(names, min_size=n, max_size=n, unique=True))
    states = st.none() | st.integers(1, 9) | st.lists(names, min_size=1, max_size=3, unique=True).map(tuple)
    variables = tuple(Variable(label, draw(states)) for label in labels)
    max_size = draw(st.integers(1, n))
    masks = list(bounded_subsets(n, max_size))
    values = [0.0, *draw(st.lists(floats, min_size=len(masks) - 1, max_size=len(masks) - 1))]
    sets = st.frozensets(st.integers(0, 2**n - 1), max_size=3)
    pairs = st.sampled_from([mask for mask in range(2**n) if mask.bit_count() == 2] or [0])
    graphs = st.frozensets(st.frozensets(pairs, max_size=3 if n > 1 else 0), max_size=3)
    constraints = Constraints(
        max_treewidth=draw(st.none() | st.integers(0, 5)),
        min_separator_size=draw(st.integers(0, 2)),
        forbidden_cliques=draw(sets),
        forbidden_separators=draw(sets),
        forbidden_graphs=draw(graphs),
        allowed_separators=draw(st.none() | sets),
    )
    scores: DenseScores | SparseScores = DenseScores(n, max_size, np.array(values))
    if draw(st.booleans()):
        scores = SparseScores(n, dict(zip(masks, values, strict=True)))
    provenance = draw(st.dictionaries(names, floats | names, max_size=2))
    return Problem(variables, scores, constraints, draw(names | st.just("")), MappingProxyType(provenance))


@given(problem=problems())
def test_any_problem_reads_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, problem: Problem
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    write_problem(problem, path)
    assert same(read_problem(path), problem)
    VALIDATOR.validate(json.loads(path.read_bytes()))


def test_a_large_table_is_written_in_pieces(tmp_path: Path) -> None:
    problem = dense_problem(73, 4)  # more than 2^20 sets
    write_problem(problem, tmp_path / "a.json")
    assert same(read_problem(tmp_path / "a.json"), problem)


def test_the_bytes_of_gzip_files_hold_no_time_and_no_name(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        write_problem(dense_problem(4, 2), tmp_path / name)
    one, other = ((tmp_path / name).read_bytes() for name in ("a.json.gz", "b.json.gz"))
    assert one == other
    assert one[4:8] == bytes(4)


@pytest.mark.parametrize("provenance", [{"x": float("nan")}, {"x": object()}, {"x": "\ud800"}])
def test_provenance_that_json_cannot_hold_is_refused(tmp_path: Path, provenance: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"\$\.provenance"):
        write_problem(replace(dense_problem(2, 2), provenance=provenance), tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


class Lazy:
    """Scores computed on demand."""

    n = 1
    max_size = 1

    def score(self, mask: int) -> float:
        return -float(mask)

    def batch(self, sets: Any) -> Any:
        return -sets.sum(axis=1)

    def extremes(self) -> tuple[float, float]:
        return -1.0, 0.0


def test_unwritable_models_are_refused_with_the_loss(tmp_path: Path) -> None:
    problem = dense_problem(3, 3)
    constrained = replace(problem, constraints=Constraints(max_treewidth=1, max_cliques=2))
    sparse = replace(problem, scores=SparseScores(3, {1: -1.0}))
    with pytest.raises(ChoiceError, match="lose the constraint max_cliques, and the constraint max_treew"):
        write_problem(constrained, tmp_path / "a.score")
    with pytest.raises(ChoiceError, match="lose which sets have no score"):
        write_problem(sparse, tmp_path / "a.score")
    for name in ("a.dmst", "a.jkl", "a.scores", "a", "a.json.bz2", "a.csv"):
        with pytest.raises(ChoiceError, match="an instance is written as"):
            write_problem(problem, tmp_path / name)
    with pytest.raises(ChoiceError, match="computed on demand"):
        write_problem(Problem((Variable("A"),), Lazy()), tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match="No space left on device"):
            write_problem(dense_problem(2, 2), path)
        with pytest.raises(InputError, match="No space left"):
            write_problem(dense_problem(2, 2), tmp_path / "new.json")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_problem(dense_problem(2, 2), path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]
    assert path.read_bytes() == b"old"


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its folder does not exist"):
        write_atomically(tmp_path / "none" / "a", b"")
    with pytest.raises(InputError, match="it is a directory"):
        write_atomically(tmp_path, b"")
    with pytest.raises(InputError, match="it is a directory"):
        write_atomically(f"{tmp_path}/a.json/", b"")
    with pytest.raises(InputError, match="embedded null"):
        write_atomically("a\0", b"")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match="cannot be written"):
        write_atomically(loop, b"")


def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    path = saved(tmp_path, b"old")
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(path)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "fresh", b"")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(pipe, b"data")
        assert os.read(reader, 9) == b"data"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


# The schema


def test_the_committed_schema_is_the_one_of_the_code() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == indented_json(schemas.INSTANCE) + "\n"


def test_the_schema_takes_valid_documents_and_no_others() -> None:
    assert VALIDATOR.is_valid(VALID)
    assert VALIDATOR.is_valid(valid(scores=SPARSE))
    wrong: list[dict[str, Any]] = [
        {"version": 2},
        {"nmae": 1},
        {"variables": []},
        {"scores": {"layout": "x"}},
    ]
    for change in wrong:
        assert not VALIDATOR.is_valid(valid(**change))


# Junctor and Adjunct


def adjunct(path: Path) -> bytes:
    """Returns a file of Junctor as one of Adjunct."""
    first, _, rest = path.read_text("ascii").partition("\n")
    n, max_size = first.split()
    return f"DMST\n{n}\nsubset_scores\ncolex_order {max_size}\n{rest}".encode()


def test_junctor_round_trips_and_adjunct_is_read(tmp_path: Path) -> None:
    problem = dense_problem(5, 3)
    write_problem(problem, tmp_path / "x.score")
    assert same(read_problem(tmp_path / "x.score"), problem)
    assert same(read_problem(saved(tmp_path, adjunct(tmp_path / "x.score"), "x.dmst")), problem)


def test_numbers_are_read_in_pieces_without_cutting_one(tmp_path: Path) -> None:
    problem = dense_problem(5, 3)
    write_problem(problem, tmp_path / "x.score")
    text = (tmp_path / "x.score").read_bytes()
    for chunk in (21, 30, 64):
        for blank in (b"\n", b"\t", b"\r\n", b"\v", b"\f"):
            found = read_junctor(text.replace(b"\n", blank), "x.score", "x", Run(), chunk=chunk)
            assert same(found, problem)


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("x", "line 1", "does not begin with 'N M'"),
        ("2", "line 1", "does not begin with 'N M'"),
        ("2 2.5 0", "line 1", "does not begin with 'N M'"),
        ("DMST 2 2 0 1 2 3", "line 1", "'DMST N subset_scores"),
        ("0 0\n0", "line 1", "0, is not between 1"),
        ("2 3\n0 1 2 3", "line 1", "3, is not between 1"),
        ("DMST\n2\nsubset_scores\ncolex_order 3\n0 1 2 3", "line 4", "3, is not between 1"),
        ("2 2\n0\n1\n2\n", "values", "3 values, but 2 variables have 4 sets"),
        ("2 2\n", "values", "0 values"),
        ("999999999 99999999 0 0", "values", "more than 1099511627776 sets"),
        ("2 2\n1\n1\n2\n3", "values[0]", "s(∅) is 1.0"),
        ("2 2\n0\n1\nnan\n3", "line 4", "'nan' is not a finite number"),
        ("2 2\n0\n1\n-inf\n3", "line 4", "'-inf' is not"),
        ("2 2\n0\n1\n1e999\n3", "line 4", "'1e999' is not"),
        ("2 2\n0\n1_0\n1\n3", "line 3", "'1_0' is not"),
        ("2 2\n0\n1\n1-2\n3", "line 4", "'1-2' is not"),
        ("2 2\n0\n1\n٣\n3", "line 4", "'٣' is not"),
        ("2 2\n0\n1\n1,5\n3", "line 4", "'1,5' is not"),
        ("2 2\n0\n# remark\n1\n3", "line 3", "'#' is not"),
    ],
)
def test_a_wrong_score_file_is_refused(tmp_path: Path, text: str, place: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        read_problem(saved(tmp_path, text.encode(), "a.score"))
    assert caught.value.place == place
    assert reason in caught.value.reason


def test_line_ends_of_windows_and_few_digits_are_fine(tmp_path: Path) -> None:
    problem = read_problem(saved(tmp_path, b"2 1\r\n0\r\n-1.5\r\n-2E0\r\n", "a.score"))
    assert problem.scores.score(0b10) == -2
    assert problem.names == ("0", "1")
    assert problem.name == "a"


def test_shared_score_files_are_read(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data" / "scores"
    bridges = read_problem(folder / "bridges.score")
    assert (bridges.n, bridges.scores.max_size, bridges.scores.score(1)) == (12, 12, -126.393583)
    write_problem(bridges, tmp_path / "bridges.json.gz")
    assert read_problem(tmp_path / "bridges.json.gz").digest() == bridges.digest()
    # Scores of clique trees from the remarks on the data, on the DMST file and on the family scores.
    asia = read_problem(folder / "adjunct-asia.score")
    families = read_problem(folder / "asia_10000.dat.3.jkl")
    assert families.names[:2] == ("One", "Two")
    assert families.scores.max_size == 4
    for mask in bounded_subsets(8, 4):
        assert families.scores.score(mask) == pytest.approx(asia.scores.score(mask), abs=2e-6)
    cliques = (50, 49, 37, 164, 24, 96)
    separators = (50 & 49, 49 & 37, 37 & 164, 50 & 24, 50 & 96)
    for scores in (asia.scores, families.scores):
        total = sum(map(scores.score, cliques)) - sum(map(scores.score, separators))
        assert total == pytest.approx(-22483.301209, abs=1e-5)


@pytest.mark.parametrize("name", ["wine.BIC.3", "survey-5000.jkl", "sachs-5000.jkl", "child-5000.jkl"])
def test_shared_pruned_files_are_refused(shared: Path, name: str) -> None:
    with pytest.raises(InputError, match="the scores are pruned"):
        read_problem(shared / "data" / "scores" / name)


# GOBNILP and urlearning


def families(problem: Problem, max_parents: int, digits: int = 8) -> dict[str, list[tuple[str, list[str]]]]:
    """The unpruned family scores of a problem, as texts."""
    names, s = problem.names, problem.scores.score
    return {
        names[v]: [
            (f"{s(mask | 1 << v) - s(mask):.{digits}f}", [names[u] for u in members(mask)])
            for mask in bounded_subsets(problem.n, max_parents)
            if not mask >> v & 1
        ]
        for v in range(problem.n)
    }


def jkl(table: dict[str, list[tuple[str, list[str]]]]) -> str:
    lines = ["# a remark", "", str(len(table))]
    for name, rows in table.items():
        lines += [f"{name} {len(rows)}", "# Time for variable: 1"]
        lines += [" ".join([score, str(len(parents)), *parents]) for score, parents in rows]
    return "\n".join(lines) + "\n"


def pss(table: dict[str, list[tuple[str, list[str]]]]) -> str:
    lines = ["META pss_version = 0.1", "META input_file=data.csv", ""]
    for name, rows in table.items():
        lines += [f"VAR {name}", "META arity=2", "META values=lo hi ", "META other=x"]
        lines += [f"{score} {' '.join(parents)} " for score, parents in rows]
        lines += [""]
    return "\n".join(lines)


@pytest.mark.parametrize(("name", "text"), [("a.jkl", jkl), ("a.scores", jkl), ("a.pss", pss), ("a.3", jkl)])
@pytest.mark.parametrize("digits", [2, 8])
def test_unpruned_family_scores_give_the_local_scores(
    tmp_path: Path, name: str, text: Any, digits: int
) -> None:
    problem = replace(dense_problem(5, 4), variables=tuple(Variable(f"X{v}") for v in range(5)))
    content = text(families(problem, 3, digits))
    found = read_problem(saved(tmp_path, content.encode(), name))
    assert found.names == problem.names
    assert found.scores.max_size == 4
    for mask in bounded_subsets(5, 4):
        assert found.scores.score(mask) == pytest.approx(problem.scores.score(mask), abs=5 * 10**-digits)
    if text is pss:
        assert found.variables[0].states == ("lo", "hi")
        assert found.provenance["input_file"] == "data.csv"


def test_parents_may_be_positions(tmp_path: Path) -> None:
    text = "2\nA 2\n-1 0\n-1.5 1 1\nB 2\n-2 0\n-2.5 1 0\n"
    problem = read_problem(saved(tmp_path, text.encode(), "a.jkl"))
    assert [problem.scores.score(mask) for mask in range(4)] == [0, -1, -2, -3.5]


def test_names_come_before_positions(tmp_path: Path) -> None:
    text = "2\n1 2\n-1 0\n-1.5 1 0\n0 2\n-2 0\n-2.5 1 1\n"
    problem = read_problem(saved(tmp_path, text.encode(), "a.jkl"))
    assert problem.names == ("1", "0")
    assert problem.scores.score(0b11) == -3.5


def test_the_smallest_family_file(tmp_path: Path) -> None:
    problem = read_problem(saved(tmp_path, b"1\nA 1\n-1 0\n", "a.jkl"))
    assert (problem.scores.score(1), problem.scores.max_size) == (-1, 1)


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("# only a remark\n", "line 1", "the number of variables is missing"),
        ("0\n", "line 1", "the number of variables is missing"),
        ("x\n", "line 1", "the number of variables is missing"),
        ("1 2\n", "line 1", "the number of variables is missing"),
        ("1\n", "line 1", "name and count of variable 0 of 1"),
        ("1\nA\n", "line 2", "name and count of variable 0 of 1"),
        ("1\nA x\n", "line 2", "name and count of variable 0 of 1"),
        ("1\nA 2\n-1 0\n", "line 3", "a parent set of 'A'"),
        ("1\nA 1\n-1\n", "line 3", "a parent set of 'A'"),
        ("1\nA 1\n-1 1\n", "line 3", "a parent set of 'A'"),
        ("1\nA 1\n-1 0\nB 0\n", "line 4", "more lines after variable 1"),
        ("1\nA 1\nnan 0\n", "line 3", "'nan' is not a finite number"),
        ("1\nA 1\n1e999 0\n", "line 3", "'1e999' is not a finite number"),
        ("2\nA 1\n-1 0\nA 1\n-1 0\n", "line 4", "'A' is used twice"),
        ("2\nA 2\n-1 0\n-1 1 C\nB 2\n-1 0\n-1 1 A\n", "line 4", "the parent 'C' is not a variable"),
        ("2\nA 2\n-1 0\n-1 1 2\nB 2\n-1 0\n-1 1 0\n", "line 4", "the parent '2' is not a variable"),
        ("2\nA 2\n-1 0\n-1 1 A\nB 2\n-1 0\n-1 1 A\n", "line 4", "'A' occurs twice in the family"),
        ("2\nA 2\n-1 0\n-1 2 B B\nB 2\n-1 0\n-1 1 A\n", "line 4", "'B' occurs twice in the family"),
        ("2\nA 2\n-1 0\n-1 0\nB 2\n-1 0\n-1 1 A\n", "line 4", "this parent set twice"),
        ("2\nA 2\n-1 0\n-1 1 B\nB 1\n-1 0\n", "line 5", "'B' has 1 of the 2 parent sets"),
        ("1\nA 0\n", "line 2", "'A' has 0 of the 1 parent sets"),
        ("2\nA 2\n-2 0\n-9 1 B\nB 2\n-9 0\n-9 1 A\n", "line 2", "s({A, B}) differs by 7 nats"),
        ("1\n\xff 1\n-1 0\n", "line 2", "not UTF-8"),
    ],
)
def test_a_wrong_gobnilp_file_is_refused(tmp_path: Path, text: str, place: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        read_problem(saved(tmp_path, text.encode("latin-1"), "a.jkl"))
    assert caught.value.place == place
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("META a=b\n", "", "no line 'VAR name'"),
        ("-1 A\n", "line 1", "before the first 'VAR name'"),
        ("VAR A B\n-1\n", "line 1", "expected 'VAR name'"),
        ("VAR A\nMETA arity=x\n-1\n", "line 2", "the arity is not a number"),
        ("VAR A\nx\n", "line 2", "'x' is not a finite number"),
        ("VAR A\n-2\n-9 B\nVAR B\n-9\n-9 A\n", "line 1", "not score-equivalent"),
        ("VAR A\n-2\n-9 B\nVAR B\n-9\n", "line 4", "the scores are pruned"),
    ],
)
def test_a_wrong_urlearning_file_is_refused(tmp_path: Path, text: str, place: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        read_problem(saved(tmp_path, text.encode(), "a.pss"))
    assert caught.value.place == place
    assert reason in caught.value.reason


def test_doubtful_labels_leave_the_number_of_states(tmp_path: Path) -> None:
    text = b"VAR A\nMETA arity=2\nMETA values=x x\n-1\n"
    assert read_problem(saved(tmp_path, text, "a.pss")).variables == (Variable("A", 2),)


def test_an_unknown_suffix_is_resolved_by_content(tmp_path: Path) -> None:
    problem = dense_problem(3, 2)
    write_problem(problem, tmp_path / "x.score")
    saved(tmp_path, adjunct(tmp_path / "x.score"), "x.dmst")
    write_problem(problem, tmp_path / "x.json")
    for number, name in enumerate(("x.score", "x.dmst", "x.json")):
        assert read_problem(saved(tmp_path, (tmp_path / name).read_bytes(), f"x.{number}")).n == 3
    assert read_problem(saved(tmp_path, (tmp_path / "x.dmst").read_bytes(), "y.score")).n == 3
    assert read_problem(saved(tmp_path, pss(families(problem, 1)).encode(), "x.4")).n == 3
    assert read_problem(saved(tmp_path, jkl(families(problem, 1)).encode(), "plain")).name == "plain"
    for data in (b"hello", b"1 2 3\n", b"\n", b"#\n"):
        with pytest.raises(InputError, match="its format is unknown"):
            read_problem(saved(tmp_path, data, "x.5"))


def test_pack_is_read_by_gzip() -> None:
    text = " ".join(map(str, np.random.default_rng(0).random(100_000).tolist())).encode()
    assert len(text) > files._CHUNK  # several are packed
    for data in (b"", b"x" * 99, text):
        for numbers in (False, True):
            packed = files.pack_gzip(data, numbers=numbers)
            assert gzip.GzipFile(fileobj=io.BytesIO(packed)).read() == data
            assert packed == files.pack_gzip(data, numbers=numbers)
    assert len(files.pack_gzip(text, numbers=True)) < 1.01 * len(gzip.compress(text, 6))
