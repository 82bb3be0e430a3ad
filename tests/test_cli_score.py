"""`jtsolve score` and `jtsolve solve DATA`: options, forecasts, refusals, interruption, files."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from readers import read_states, tabulate

import jtsolve.scoring.tabulate
from jtsolve.core.result import Status
from jtsolve.core.scores import DenseScores
from jtsolve.core.threads import run_tasks
from jtsolve.io.instance import read_problem
from jtsolve.io.result import read_result
from jtsolve.scoring.registry import REGISTRY
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.scoring.scores.bic import Bic
from jtsolve.tables.options import Coding

if TYPE_CHECKING:
    from commands import Command

    from jtsolve.core.problem import Problem

ROOT = Path(__file__).parents[1]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "d.csv"
    codes = np.random.default_rng(1).integers(0, 3, (80, 5))
    codes[:-9, 1] = codes[:-9, 0]
    rows = [",".join(map(str, row)) for row in codes.tolist()]
    path.write_text("\n".join(["a,b,c,d,e", *rows]) + "\n")
    return path


def values_of(problem: Problem) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    assert isinstance(problem.scores, DenseScores)
    return problem.scores.values


def test_score_writes_an_instance(command: Command, data: Path, tmp_path: Path) -> None:
    output = tmp_path / "i.json.gz"
    assert command("score", data, "--max-size", "3", "--score", "bdeu:ess=2", "--output", output) == 0
    lines = command.out.splitlines()
    assert lines[0] == "80 rows of 5 variables; 26 sets, less than a second"
    assert lines[1].startswith("scored in ")
    assert command.err == ""
    problem = read_problem(output)
    assert problem.names == ("a", "b", "c", "d", "e")
    assert problem.variables[0].states == ("0", "1", "2")
    assert problem.name == "d"
    assert values_of(problem).tobytes() == tabulate(read_states(data), Bdeu(2.0), 3).values.tobytes()
    provenance = problem.provenance
    assert (provenance["score"], provenance["ess"], provenance["rows"]) == ("bdeu", 2.0, 80)
    assert provenance["data"] == "d.csv"


def test_equal_calls_give_equal_bytes(command: Command, data: Path, tmp_path: Path) -> None:
    for threads in ("1", "2"):
        output = tmp_path / f"{threads}.json"
        assert command("score", data, "--max-size", "4", "--threads", threads, "--output", output) == 0
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "2.json").read_bytes()


def test_options_of_columns_reach_the_table(command: Command, data: Path, tmp_path: Path) -> None:
    output, schema = tmp_path / "i.json", tmp_path / "schema.json"
    schema.write_text('{"a": [0.5]}')
    more: list[str | Path] = [
        "--columns",
        "d,a",
        "--read",
        f"schema={schema}",
        "--weights",
        "e",
        "--read",
        "separator=comma",
        "--quiet",
    ]
    assert command("score", data, "--max-size", "2", *more, "--output", output) == 0
    assert (command.out, command.err) == ("", "")
    problem = read_problem(output)
    assert problem.names == ("d", "a")
    assert problem.variables[1].states == ("<= 0.5", "> 0.5")
    assert problem.provenance["cuts"] == {"a": [0.5]}
    coding = Coding(columns=("d", "a"), weights="e", schema={"a": (0.5,)})
    expected = tabulate(read_states(data, coding), Bic(), 2)
    assert values_of(problem).tobytes() == expected.values.tobytes()


def test_missing_values_and_headers(command: Command, tmp_path: Path) -> None:
    path, output = tmp_path / "d.txt", tmp_path / "i.json"
    path.write_text("x - 0.25\ny 1 0.5\nx 2 0.75\n")
    arguments: list[str | Path] = ["score", path, "--max-size", "9", "--output", output]
    reading = "header=false,missing_values=-,none"
    more = ["--missing", "state", "--read", reading, "--discretise", "width:2", "--drop", "V3"]
    assert command(*arguments, *more) == 0
    problem = read_problem(output)
    assert problem.variables[1].states == ("1", "2", "?")
    assert problem.scores.max_size == 2


def test_files_that_are_too_large_are_refused(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text(",".join(f"v{i}" for i in range(240)) + "\n" + 2 * ("0," * 239 + "1\n"))
    arguments: list[str | Path] = ["score", path, "--output", tmp_path / "i.json", "--memory-limit", "1e6"]
    assert command(*arguments, "--max-size", "4") == 4
    assert "GB, but at most 2.15 GB are read. Ways out: --max-size 3" in command.err


@pytest.mark.parametrize("name", ["gaussian-bic", "bge"])
def test_real_numbers_are_scored(name: str, command: Command, tmp_path: Path) -> None:
    path, output = tmp_path / "d.csv", tmp_path / "i.json"
    np.savetxt(
        path, np.random.default_rng(0).normal(size=(30, 4)), delimiter=",", header="a,b,c,d", comments=""
    )
    assert command("score", path, "--score", name, "--max-size", "2", "--output", output) == 0
    problem = read_problem(output)
    assert problem.variables[0].states is None
    assert problem.provenance["score"] == name
    assert command("score", path, "--score", "bic", "--max-size", "2", "--output", output) == 2
    assert "--score cg" in command.err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--score", "k2"], f"there is no score 'k2'; there are: {', '.join(REGISTRY)}"),
        (["--score", "bic:ess=2"], "score 'bic' has no option 'ess'; it has no options"),
        (["--score", "bdeu:ess=-1"], "the equivalent sample size is -1.0"),
        (["--missing", "guess"], "there is no treatment of missing values 'guess'"),
        (["--read", "missing_values=?,\udc91"], "is not valid text"),
        (["--discretise", "mdlp"], "none is named; give --discretise mdlp:CLASS or --read class_column="),
        (["--discretise", "tree:4"], "there is no discretisation 'tree:4'"),
        (["--discretise", "width:" + "1" * 5001], "from 2 to 1000000"),
        (["--discretise", "quantile:1000000000"], "there is no discretisation 'quantile:1000000000'"),
        (["--read", "class_column=z"], "there is none called 'z'"),
        (
            ["--read", "separator=dot"],
            "there is no separator 'dot'; there are comma, semicolon, tab, pipe, blank",
        ),
        (["--drop", "z"], "there is none called 'z'"),
        (["--weights", ""], "it is empty"),
        (["--memory-limit", "0"], "the memory limit is 0.0 GB"),
    ],
)
def test_wrong_use_ends_with_2(
    more: list[str], message: str, command: Command, data: Path, tmp_path: Path
) -> None:
    output = tmp_path / "i.json"
    assert command("score", data, "--max-size", "2", "--output", output, *more) == 2
    assert message in command.err
    assert command.out == ""
    assert not output.exists()


def test_outputs_that_cannot_be_written_are_refused_before_the_work(
    command: Command, data: Path, tmp_path: Path
) -> None:
    assert command("score", data, "--max-size", "2", "--output", tmp_path / "i.score") == 2
    assert "an instance with scores of data is written as .json, also with .gz" in command.err
    assert command("score", data, "--max-size", "2", "--output", tmp_path / "none" / "i.json") == 2
    assert "its folder does not exist" in command.err
    same = tmp_path / "d.json"
    same.symlink_to(data)
    assert command("score", data, "--max-size", "2", "--output", same) == 2
    assert "the output would replace the input" in command.err


# Limits and interruption.


def test_too_much_memory_is_refused_with_a_remedy(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text(",".join(f"v{i}" for i in range(400)) + "\n" + 2 * ("0," * 399 + "1\n"))
    arguments: list[str | Path] = ["score", path, "--output", tmp_path / "i.json"]
    assert command(*arguments, "--max-size", "4", "--memory-limit", "4") == 4
    assert "the scores of all sets of at most 4 of 400 variables need" in command.err
    assert "GB of memory, but at most 4 GB are allowed. Ways out: --max-size 3, fewer columns" in command.err
    assert command(*arguments, "--max-size", "4", "--memory-limit", "1e6") == 4
    assert "GB, but at most 2.15 GB are read. Ways out: --max-size 3" in command.err
    assert command(*arguments, "--max-size", "3", "--time-limit", "0.0001") == 4
    assert "the time limit ended the reading of" in command.err
    assert command(*arguments, "--max-size", "2", "--memory-limit", "0.001") == 4
    assert re.search(r"needs [\d.]+ GB .* Ways out: a larger --memory-limit", command.err)


def written(folder: Path, columns: int) -> Path:
    """Writes rows of three states in many columns."""
    codes = np.random.default_rng(1).integers(0, 3, (40, columns)).tolist()
    path = folder / "wide.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in [[f"V{v}" for v in range(columns)], *codes]))
    return path


def test_insufficient_time_is_refused_before_the_work(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtsolve.scoring.scorer.CountingScorer.nanoseconds", 9e5)
    data = written(tmp_path, 60)  # 522,516 sets of up to four, and 36,051 of up to three
    arguments: list[str | Path] = ["score", data, "--output", tmp_path / "i.json", "--time-limit", "300"]
    assert command(*arguments, "--max-size", "4", "--threads", "1") == 4
    assert "need about 471 s, but at most 300 s are allowed. Ways out: --max-size 3" in command.err


def test_the_time_limit_ends_the_work(
    command: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtsolve.scoring.scorer.CountingScorer.nanoseconds", 1e-9)  # the forecast is too low
    output = tmp_path / "i.json"
    output.write_text("old")
    monkeypatch.setattr("jtsolve.core.run.Limits.elapsed", 0.0)

    def late(*arguments: Any, **more: Any) -> Any:
        monkeypatch.setattr("jtsolve.core.run.Limits.elapsed", 5.0)
        return run_tasks(*arguments, **more)

    monkeypatch.setattr(jtsolve.scoring.tabulate, "run_tasks", late)
    limits = ("--time-limit", "2", "--output", output)
    assert command("score", data, "--max-size", "3", *limits) == 4
    assert "the time limit ended the scoring after" in command.err
    assert output.read_text() == "old"
    solve = ("solve", data, "--score", "bic", "--treewidth", "2", *limits, "--backend")
    for backend in ("clutter", "dp"):  # few scores are computed on demand
        monkeypatch.setattr("jtsolve.core.run.Limits.elapsed", 0.0)
        assert command(*solve, backend) == 0
        assert "the time limit ended the scoring after" in command.out
        assert read_result(output).score is not None  # that of the forest at least
    monkeypatch.setattr("jtsolve.core.run.Limits.elapsed", 0.0)
    wide = ("solve", written(tmp_path, 19), "--score", "bic", "--treewidth", "18", *limits, "--backend")
    assert command(*wide, "dp") == 4
    assert "the time limit ended the scoring after" in command.err


def test_interruption_writes_nothing(
    command: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_arguments: object, **_more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(jtsolve.scoring.tabulate, "run_tasks", interrupt)
    output = tmp_path / "i.json"
    assert command("score", data, "--max-size", "3", "--output", output) == 130
    assert command.err == "jtsolve: interrupted before it was finished\n"
    assert [path.name for path in tmp_path.iterdir()] == ["d.csv"]
    assert command("solve", data, "--score", "bic", "--max-size", "3") == 130
    assert command.err == "jtsolve: interrupted before a tree was found\n"


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}


@pytest.fixture
def long_scoring(tmp_path: Path) -> list[str]:
    """A command whose scoring takes long."""
    path, output = tmp_path / "d.csv", tmp_path / "i.json"
    rows = np.random.default_rng(0).integers(0, 2, (3000, 60))
    np.savetxt(path, rows, fmt="%d", delimiter=",", header=",".join(f"v{i}" for i in range(60)), comments="")
    arguments = ["-m", "jtsolve", "score", path, "--max-size", "5", "--output", output]
    return [sys.executable, *map(str, arguments)]


def test_a_signal_ends_a_long_scoring(long_scoring: list[str], tmp_path: Path) -> None:
    with subprocess.Popen(  # noqa: S603 - our own command
        long_scoring, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert "5985198 sets, about" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (130, "", "jtsolve: interrupted before it was finished\n")
    assert not (tmp_path / "i.json").exists()


def test_progress_is_shown_on_a_terminal(long_scoring: list[str]) -> None:
    terminal, end = pty.openpty()
    shown = b""
    with subprocess.Popen(  # noqa: S603 - our own command
        long_scoring, env={**environment(), "TERM": "xterm"}, stdout=subprocess.PIPE, stderr=end
    ) as process:
        os.close(end)
        with contextlib.suppress(OSError):  # raised if the other end of the terminal is closed
            while piece := os.read(terminal, 1 << 16):
                if b"sets by bic" in piece and b"sets by bic" not in shown:
                    process.send_signal(signal.SIGINT)
                shown += piece
        assert process.stdout is not None
        printed = process.stdout.read()
    os.close(terminal)
    assert process.returncode == 130
    assert b"5985198 sets by bic" in shown
    assert b"3000 rows of 60 variables" in printed


# Scoring and solving in one command.


def test_solve_accepts_data(command: Command, data: Path, tmp_path: Path) -> None:
    output, instance = tmp_path / "r.json", tmp_path / "i.json"
    assert command("solve", data, "--score", "bic", "--treewidth", "2", "--output", output) == 0
    assert "80 rows of 5 variables; 26 sets" in command.out
    assert "optimal (finished)" in command.out
    result = read_result(output)
    assert result.status is Status.OPTIMAL
    assert command("score", data, "--score", "bic", "--max-size", "3", "--output", instance) == 0
    assert command("check", instance, output) == 0


def test_solve_scores_on_demand_where_a_table_exceeds_the_limits(command: Command, tmp_path: Path) -> None:
    path, output = tmp_path / "d.csv", tmp_path / "r.json"
    rows = np.random.default_rng(0).integers(0, 2, (40, 60))
    rows[:, 1::2] = rows[:, ::2]
    names = ",".join(f"v{i}" for i in range(60))
    np.savetxt(path, rows, fmt="%d", delimiter=",", header=names, comments="")
    arguments: list[str | Path] = ["solve", path, "--score", "bic", "--treewidth", "11", "--output", output]
    assert command(*arguments, "--backend", "forward", "--time-limit", "60") in (0, 4)
    said = command.out.splitlines()[0]
    assert said.startswith("40 rows of 60 variables; scores are computed on demand: a table would need ")
    stats = read_result(output).stats["scores"]
    assert stats["misses"] >= stats["cached"] > 1000
    assert stats["hits"] >= 0
    assert command(*arguments, "--backend", "dp") == 2
    assert "It supports at most 28 variables, not 60." in command.err


def test_solve_prints_nothing_but_the_result_as_json(command: Command, data: Path) -> None:
    more = ["--score", "bdeu:ess=3", "--max-size", "5", "--missing", "state", "--json"]
    assert command("solve", data, *more, "--discretise", "quantile:2", "--read", "header=false") == 0
    assert json.loads(command.out)["treewidth"] >= 1
    assert command.err.startswith("data check of d.csv:\n  words among numbers: 'V1' (numbers, and 'a')")


def test_too_many_sets_are_scored_on_demand_for_heuristics(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtsolve.scoring.scorer.CountingScorer.nanoseconds", 9e5)
    data, output = written(tmp_path, 13), tmp_path / "r.json"  # 377 sets: 0.3 s
    more = ["--score", "bic", "--treewidth", "2", "--threads", "1", "--output", str(output)]
    assert command("solve", data, *more, "--backend", "forward") == 0
    assert "on demand: a table would need about" in command.out
    lazy = read_result(output)
    assert command("solve", data, *more, "--backend", "dp") == 0
    assert "on demand" not in command.out
    exact = read_result(output)
    assert lazy.score is not None
    assert exact.score is not None
    assert lazy.score <= exact.score + 1e-9
    monkeypatch.undo()
    assert command("solve", data, *more, "--backend", "forward") == 0
    assert read_result(output).score == lazy.score


def test_solve_needs_a_size_for_many_columns_and_data_for_a_score(
    command: Command, data: Path, tmp_path: Path
) -> None:
    assert command("solve", data, "--score", "bic") == 0
    assert "optimal" in command.out
    wide = tmp_path / "wide.csv"
    wide.write_text("\n".join(",".join(f"{word}{v}" for v in range(27)) for word in ("name", "no", "yes")))
    assert command("solve", wide, "--score", "bic") == 2
    assert "give --treewidth" in command.err
    other = data.rename(data.with_suffix(".survey"))
    assert command("solve", other, "--max-size", "2", "--missing", "state") == 2
    assert (
        "--max-size, --missing: for data files only; add --score cg to read d.survey as data" in command.err
    )
    assert command("solve", other, "--executor", "dask") == 2
    assert "--executor: for data files only" in command.err
    assert command("solve", other) == 2
    assert "'jtsolve solve --score NAME' reads any text file as data" in command.err
    assert command("solve", other, "--max-size", "2", "--score", "bic") == 0


def test_a_data_file_needs_no_score(command: Command, data: Path) -> None:
    assert command("solve", data, "--treewidth", "2", "--json") == 0
    plain = json.loads(command.out)
    assert command("solve", data, "--treewidth", "2", "--score", "bic", "--json") == 0
    assert json.loads(command.out)["score"] == plain["score"]
