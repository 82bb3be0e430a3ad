"""Malicious files, options and signals: each ends with a message and an exit code."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
from itertools import count
from random import Random
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from comparisons import compared, make_instance, make_row, make_spec
from problems import dense, gaussian, named

import jtsolve as jt
import jtsolve.core.backend
import jtsolve.io.foreign
import jtsolve.io.instance
from jtsolve.backends.registry import REGISTRY
from jtsolve.cli import run
from jtsolve.cli.options import Options
from jtsolve.compare.reporting.exports import csv_text
from jtsolve.core.files import read_file
from jtsolve.core.machine import resident_memory
from jtsolve.core.problem import Constraints
from jtsolve.core.result import Status, optimality_tolerance
from jtsolve.core.run import Run
from jtsolve.core.scores import SparseScores
from jtsolve.core.varset import count_bounded_subsets
from jtsolve.errors import ChoiceError, LimitError
from jtsolve.io.foreign import junctor_text, read_junctor
from jtsolve.io.instance import read_problem, write_problem
from jtsolve.io.result import result_to_document
from jtsolve.solving import solve
from jtsolve.study.kinds import MODELS
from jtsolve.study.restrictions import Restrictions
from jtsolve.tables.options import MAX_STATES, Discretisation
from jtsolve.verify.result import check

if TYPE_CHECKING:
    from pathlib import Path

DECODING_THREADS = """
import sys, threading
from typing import Literal
import msgspec
from jtsolve.io.documents import decode_json

sys.setswitchinterval(1e-6)
text = b'{"format":"x","version":1,"inner":{' + b",".join(b'"a%d":[1.5]' % i for i in range(40)) + b"}}"
for _ in range(60):
    inner = msgspec.defstruct("Inner", [(f"a{i}", list[float]) for i in range(40)])
    outer = msgspec.defstruct("Outer", [("format", Literal["x"]), ("version", Literal[1]), ("inner", inner)])
    together = threading.Barrier(4)

    def work():
        together.wait()
        decode_json(text, outer, "x")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_may_decode_one_kind_of_file_for_the_first_time_together() -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", DECODING_THREADS], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (b'{"x": [-0.5, 1%s]}' % (b"0" * 400), "beyond the range"),
        (b'{"x": [0.5, 1e999]}', "beyond the range"),
        (b'{"x": [1%s]}' % (b"0" * 5000), "beyond the range"),
        (b'{"x": [NaN]}', "nor of cuts"),
        (b'{"x": [true]}', "nor of cuts"),
        (b'{"x": ["a"], "x": ["b"]}', "'x' occurs twice"),
        (b'{"x": {"states": ["a"], "states": ["b"]}}', "'states' occurs twice"),
        (b'{"x": ["\xff", "a"]}', "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_schema_is_read_as_strictly_as_an_instance(
    schema: bytes, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, declared = tmp_path / "a.csv", tmp_path / "schema.json"
    data.write_text("x,y\n1,2\n3,4\n")
    declared.write_bytes(schema)
    command = ["score", str(data), "--max-size", "2", "--output", str(tmp_path / "b.json")]
    assert run([*command, "--read", f"schema={declared}"], 0.0) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"jtsolve: {declared}: ")
    assert reason in said
    assert len(said) < 1500


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("c.json", '{"required_edges": ' + "[" * 100_000, "nested too deeply"),
        ("c.toml", "required_edges = " + "[" * 100_000, "nested too deeply"),
        ("c.toml", "max_treewidth = 1" + "0" * 5000, "it cannot be read"),
        ("c.json", '{"max_cliques": 1, "max_cliques": 2}', "'max_cliques' occurs twice"),
        ("c.json", '{"max_cliques": -1}', "see 'Constraints' in docs/formats.md"),
    ],
)
def test_a_file_of_constraints_is_read_as_strictly(
    name: str, text: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    make_instance(tmp_path, "a")
    assert run(["solve", str(tmp_path / "a.json"), "--constraint", str(tmp_path / name)], 0.0) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"jtsolve: {tmp_path / name}: ")
    assert reason in said
    assert len(said) < 1500


def test_a_monstrous_range_of_seeds_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_instance(tmp_path, "a")
    words = ["compare", str(tmp_path / "a.json"), "--backends", "dp", "--seeds", "0-999999999"]
    assert run([*words, "--output", str(tmp_path / "out")], 0.0) == 2
    assert "write a shorter range" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--time-limit", "--memory-limit", "--grace"])
@pytest.mark.parametrize("value", ["9" * 400, "nan"])
def test_limits_of_a_comparison_are_finite(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_instance(tmp_path, "a")
    words = ["compare", str(tmp_path / "a.json"), "--plan", "--output", str(tmp_path / "out"), option, value]
    assert run([*words, "--backends", "dp"], 0.0) == 2
    said = capsys.readouterr().err
    assert option in said or f"$.{option.removeprefix('--').replace('-', '_')}" in said


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_damaged_columns_are_bad_input_in_one_sentence(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pl.DataFrame({"a": ["x", "y"] * 50, "b": [1, 2] * 50, "c": [0.5, 1.5] * 50})
    path = tmp_path / f"a.{kind}"
    (frame.write_parquet if kind == "parquet" else frame.write_ipc)(path)
    sound = path.read_bytes()
    command = ["score", str(path), "--max-size", "2", "--output", str(tmp_path / "b.json")]
    ends = []
    for seed in {"parquet": (2, 3, 32, 46), "feather": (209, 210)}[kind]:
        randomness = Random(seed)  # noqa: S311 - no secrets
        damaged = bytearray(sound)
        for _ in range(randomness.randint(1, 6)):
            damaged[randomness.randrange(len(damaged))] = randomness.randrange(256)
        path.write_bytes(damaged)
        ends.append(run([*command, "--discretise", "width:2"], 0.0))
    assert set(ends) <= {0, 2}
    assert 2 in ends
    said = capsys.readouterr().err
    assert said.count("jtsolve: ") == said.count(f"jtsolve: {path}: ") == ends.count(2)
    assert "Traceback" not in said


ESCAPES = "\x1b[2J\x00\u202e\u206e" + "x" * 200_000


def test_a_message_quotes_input_escaped_and_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    head = {"format": "jtsolve-instance", "version": 1, "scores": {"layout": "sparse", "sets": []}}
    path.write_text(json.dumps({**head, "variables": [ESCAPES, ESCAPES]}))
    assert run(["solve", str(path)], 0.0) == 2
    said = capsys.readouterr().err
    assert len(said) < 3000
    assert said.count("\n") == 1
    assert "\\u001b[2J" in said
    assert said.replace("\n", "").isprintable()


def test_findings_of_check_are_escaped_and_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, result = tmp_path / "a.json", tmp_path / "result.json"
    write_problem(named(gaussian(0, 3)), path)
    assert run(["solve", str(path), "--output", str(result)], 0.0) == 0
    found = json.loads(result.read_text())
    found["instance"]["name"] = found["cliques"][0][0] = ESCAPES
    result.write_text(json.dumps(found))
    capsys.readouterr()
    assert run(["check", str(path), str(result)], 0.0) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("jtsolve: ") and line.isprintable() and len(line) < 1100 for line in lines)


def test_a_summary_shows_names_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    scores = {"layout": "colex", "max_size": 2, "values": [0, -1, -1, -1]}
    head = {"format": "jtsolve-instance", "version": 1}
    path.write_text(json.dumps({**head, "variables": ["a\x1b[2J", "b"], "scores": scores}))
    assert run(["solve", str(path)], 0.0) == 0
    assert "a\\u001b[2J" in capsys.readouterr().out
    assert run(["solve", str(path), "--json"], 0.0) == 0
    assert ["a\x1b[2J", "b"] in json.loads(capsys.readouterr().out)["cliques"]


def test_an_instance_may_be_called_like_a_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, result = tmp_path / "a.json", tmp_path / "result.json"
    write_problem(named(gaussian(0, 3), name="jtsolve-results"), path)
    assert run(["solve", str(path), "--output", str(result)], 0.0) == 0
    for command in (["check", str(path), str(result)], ["show", str(result)]):
        assert run(command, 0.0) == 0
    assert capsys.readouterr().err == ""


def test_a_table_of_runs_keeps_no_formula_of_a_file_name(tmp_path: Path) -> None:
    row = make_row(make_spec(make_instance(tmp_path, "=1+1<script>|[x](y)`")))
    (cells,) = csv.DictReader(io.StringIO(csv_text(compared([row]))))
    assert cells["instance"] == "'=1+1<script>|[x](y)`"


@pytest.mark.parametrize(
    "words",
    [
        ["solve", "a", "\x1b[2Jb", "x" * 100_000],
        ["so\x1b[2Jlve" + "y" * 100_000],
        ["solve", "--tree\x1b[2J" + "w" * 100_000],
        ["solve", "a", "--treewidth", "\u202e" + "1" * 100_000],
        ["fit", "a", "--columns", "a\rb", "--output", "b"],
        ["fit", "a", "--columns", "z" * 200_000, "--output", "b"],
    ],
)
def test_usage_errors_are_escaped_and_cut(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words, monotonic()) == 2
    said = capsys.readouterr().err
    assert "jtsolve" in said
    assert len(said) < 10_000
    assert said.replace("\n", "").isprintable()


def test_no_option_of_a_backend_names_a_file_to_write() -> None:
    free = {
        option.name
        for name in REGISTRY
        for option in REGISTRY.describe(name).options
        if "a text" in option.values
    }
    assert free == {"solver"}


def test_reading_ends_by_the_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json.gz"
    write_problem(named(gaussian(0, 6, 3)), path)
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(b"0," * 10**7))
    unpacked = []
    with monkeypatch.context() as patched:
        patched.setattr(gzip.GzipFile, "read", lambda _file, size: unpacked.append(size))
        most = resident_memory() / 1e9 + 0.025
        for command in ("solve", "average", "explain"):
            assert run([command, str(bomb), "--memory-limit", str(most)], monotonic()) == 4
            assert "reading the input needs" in capsys.readouterr().err
        with pytest.raises(LimitError, match="reading the input needs"):
            jt.solve(bomb, memory=most)
        with pytest.raises(LimitError, match="reading the input needs"):
            jt.average(bomb, memory=most)
    assert not unpacked
    late = ["solve", str(path), "--time-limit", "1", "--backend", "lns"]
    assert run(late, monotonic() - 2) == 0  # it is small
    monkeypatch.setattr("jtsolve.core.run.process_time", count().__next__)  # a second each time
    assert run(late, monotonic() - 2) == 4
    assert "the time limit of 1 s was over before the input was read" in capsys.readouterr().err
    assert run(["solve", str(path), "--quiet"], monotonic()) == 0  # limits end with their command


def test_limits_are_checked_while_many_sets_are_read(tmp_path: Path) -> None:
    table = SparseScores(16, dict.fromkeys(range(1, 1 << 16), -1.0))
    write_problem(named(table), tmp_path / "a.json")
    asked: list[int] = []

    class Asked(Run):
        def require_reading(self, size: int) -> None:
            asked.append(size)

    read_problem(tmp_path / "a.json", Asked())
    assert asked.count(0) >= 8
    asked.clear()
    read_junctor(junctor_text(gaussian(0, 6)), "a.score", "", Asked(), chunk=128)
    assert asked.count(0) >= 8


def test_a_wrong_trailer_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"0," * 10**7)[:-4] + b"\1\0\0\0")
    sizes: list[int] = []

    class Limited(Run):
        def require_reading(self, size: int) -> None:
            sizes.append(size)
            if size > 3 << 20:
                raise LimitError("too large")

    with pytest.raises(LimitError):
        read_file(path, Limited())
    assert len(sizes) == 5


@pytest.mark.parametrize("seed", range(20))
def test_the_optimum_of_a_large_sample_is_called_optimal(seed: int) -> None:
    randomness = np.random.default_rng(seed)
    values = -1e8 * randomness.uniform(1, 6, count_bounded_subsets(6, 3))
    problem = named(dense(6, 3, values), Constraints(max_treewidth=2))
    result = solve(problem, REGISTRY["dp"])
    assert result.status is Status.OPTIMAL
    assert result.gap <= optimality_tolerance(result.score or 0.0) < 0.01
    assert not check(problem, result_to_document(result))


@pytest.mark.parametrize(
    "words",
    [["show"], ["report"], ["solve", "a.json", "--output"], ["solve", "a.json", "--constraint"]],
    ids=" ".join,
)
def test_a_name_too_long_for_a_file_is_wrong_use(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_instance(tmp_path, "a")
    monkeypatch.chdir(tmp_path)
    assert run([*words, "y" * 5000], 0.0) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert len(said) < 1500


def test_options_of_thousands_of_digits_are_refused() -> None:
    with pytest.raises(ChoiceError, match="'components' of model 'mixture' cannot be '1") as refused:
        MODELS.parse("mixture:" + "1" * 5001)
    assert repr(refused.value) == f"ChoiceError({str(refused.value)!r})"
    with pytest.raises(ChoiceError, match="the constraint max_cliques=1"):
        Restrictions.given(constraints=["max_cliques=" + "1" * 5001])
    with pytest.raises(ChoiceError, match="--read max_states=1"):
        dict(Options(held=[MAX_STATES], read=["max_states=" + "1" * 5001]).reading)
    with pytest.raises(ChoiceError, match="there is no discretisation 'width:111"):
        Discretisation.parse("width:" + "1" * 5001)
