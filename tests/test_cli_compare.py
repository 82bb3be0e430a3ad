"""The commands compare, run and report: their arguments, output, files and refusals."""

from __future__ import annotations

import errno
import json
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from comparisons import make_instance, make_row, make_spec

from jtsolve.compare.folder import Folder
from jtsolve.compare.running import local
from jtsolve.compare.spec import read_row, to_json
from jtsolve.io.instance import read_problem
from jtsolve.verify.result import check

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from commands import Command

    from jtsolve.compare.spec import InstanceFile, Row, Spec


@pytest.fixture
def small(tmp_path: Path) -> InstanceFile:
    return make_instance(tmp_path)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[Spec]:
    """Performs runs in this process, which is faster; returns the list to which they are added."""
    ran: list[Spec] = []

    def perform(specs: Sequence[Spec], _jobs: int, finished: Callable[[Row], object]) -> None:
        for spec in specs:
            ran.append(spec)
            finished(make_row(spec))

    monkeypatch.setattr(local, "perform", perform)
    return ran


# compare


def test_compare_runs_the_grid_reports_and_ends_with_0(
    command: Command,
    small: InstanceFile,
    tmp_path: Path,
    here: list[Spec],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["/somewhere/jtsolve", "compare", "i.json"])
    output = tmp_path / "out"
    options = ["--backends", "brute,lns:steps=3", "--treewidths", "1,2", "--seeds", "0-1", "--jobs", "2"]
    limits = ["--time-limit", "60", "--memory-limit", "4", "--threads", "1", "--grace", "3"]
    assert command("compare", small.path, *options, *limits, "--output", output) == 0
    warm, cold = here[:2], here[2:]
    assert [spec.instance.label for spec in warm] == ["warm-up"] * 2
    assert [spec.backend for spec in warm] == ["brute", "lns:steps=3"]
    assert len(cold) == 8
    assert {(s.time_limit, s.memory_limit, s.threads, s.grace) for s in cold} == {(60.0, 4.0, 1, 3.0)}
    assert "brute" in command.out
    assert "8 of 8 runs" in command.out
    assert command.err.count(" left") == 8
    assert set(Folder(output).rows()) == {spec.id for spec in cold}
    assert (output / "report.html").exists()
    assert Folder(output).plan().command == "jtsolve compare i.json"


def test_resume_runs_only_missing_runs(
    command: Command, small: InstanceFile, tmp_path: Path, here: list[Spec]
) -> None:
    output = tmp_path / "out"
    arguments = ("compare", small.path, "--backends", "brute", "--seeds", "0-2", "--output", output)
    assert command(*arguments, "--no-warm-up", "--quiet") == 0
    assert (command.out, command.err) == ("", "")
    (Folder(output).results / f"{here[1].id}.json").unlink()
    here.clear()
    assert command("compare", "--resume", "--output", output, "--no-warm-up") == 0
    assert [spec.seed for spec in here] == [1]
    here.clear()
    assert command("compare", "--resume", "--output", output) == 0  # no warm-up either
    assert here == []


def test_jobs_share_the_memory_equally(
    command: Command, small: InstanceFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtsolve.core.machine.cores", lambda: 8)
    monkeypatch.setattr("jtsolve.core.machine.free_memory", lambda: 10 * 10**9)
    arguments = ("--backends", "brute", "--jobs", "4", "--plan", "--output", tmp_path / "out")
    assert command("compare", small.path, *arguments) == 0
    (spec,) = Folder(tmp_path / "out").plan().specs
    assert (spec.threads, spec.memory_limit) == (2, 2.0)


def test_the_remaining_runs_after_ctrl_c_are_reported(
    command: Command, small: InstanceFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def perform(specs: Sequence[Spec], _jobs: int, finished: Callable[[Row], object]) -> None:
        finished(make_row(specs[0]))
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "perform", perform)
    monkeypatch.setattr("jtsolve.console.is_watched", lambda: True)
    output = tmp_path / "out"
    arguments = ("--backends", "brute", "--seeds", "0-2", "--no-warm-up", "--output", output)
    assert command("compare", small.path, *arguments) == 130
    assert "2 of 3 runs are left" in command.err
    assert "brute  seed 0: optimal" in command.err
    assert command("compare", small.path, *arguments) == 2
    assert "a comparison here already" in command.err


def test_a_plan_is_run_file_by_file_and_reported(
    command: Command, small: InstanceFile, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    grid = ("--backends", "brute", "--seeds", "0-1", "--memory-limit", "4")
    assert command("compare", small.path, *grid, "--plan", "--output", output) == 0
    assert "2 specifications" in command.err
    assert command("run", output / "specs" / "00001.json", "--output", output / "results" / "1.json") == 0
    assert command.out == ""
    row = read_row(output / "results" / "1.json")
    assert row.result is not None
    assert check(read_problem(small.path), row.result) == ()
    assert command("run", output / "specs" / "00002.json") == 0
    (output / "results" / "2.json").write_text(command.out, encoding="utf-8")
    assert command("report", output) == 0
    assert "2 of 2 runs" in command.out
    assert "brute" in command.out
    assert command.err == ""
    assert (output / "report.html").exists()


def test_a_contradiction_ends_with_1_and_is_reported(
    command: Command, small: InstanceFile, tmp_path: Path, here: list[Spec]
) -> None:
    output = tmp_path / "out"
    arguments = ("compare", small.path, "--backends", "brute,dp", "--no-warm-up", "--output", output)
    assert command(*arguments) == 0
    path = Folder(output).results / f"{here[1].id}.json"
    second = json.loads(path.read_bytes())
    best = Folder(output).rows()[here[0].id].result
    assert best is not None
    assert best.score is not None
    second["result"]["status"] = second["status"] = "feasible"
    cliques = second["result"]["cliques"] = [[name] for name in "ABCDE"]
    second["result"]["separators"], second["result"]["tree_edges"] = [[]] * 4, [[0, i] for i in range(1, 5)]
    problem = read_problem(small.path)
    score = sum(problem.scores.score(1 << v) for v in range(len(cliques)))
    bound = (score + best.score) / 2
    claims: dict[str, object] = {
        "score": score,
        "bound": bound,
        "gap": bound - score,
        "treewidth": 0,
        "trace": [],
    }
    second["result"].update(claims)
    path.write_text(json.dumps(second), encoding="utf-8")
    again: list[tuple[str | Path, ...]] = [("report", output), ("compare", "--resume", "--output", output)]
    for words in again:
        assert command(*words) == 1
        assert "jtsolve: score above bound: brute on small" in command.err
    assert 'class="faults"' in (output / "report.html").read_text(encoding="utf-8")


def test_data_are_refused_with_the_command_that_scores_them(command: Command, tmp_path: Path) -> None:
    data = tmp_path / "toy.csv"
    data.write_text("a,b,c\n" + "x,y,z\nx,x,z\ny,y,x\n" * 5, encoding="utf-8")
    assert command("compare", data, "--backends", "brute", "--output", tmp_path / "out") == 2
    assert "score it first, with 'jtsolve score toy.csv" in command.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--backends brut", "no backend 'brut'"),
        ("", "give instances and --backends"),
        ("--backends brute --seeds x", "'x' is neither a seed"),
        ("--backends brute --treewidths two", "'two' is neither a treewidth"),
        ("--backends brute --time-limit 0", "time_limit"),
        ("--resume --seeds 1", "there is no comparison here"),
    ],
)
def test_wrong_use_of_compare_ends_with_2(
    command: Command, small: InstanceFile, tmp_path: Path, arguments: str, words: str
) -> None:
    assert command("compare", small.path, *shlex.split(arguments), "--output", tmp_path / "out") == 2
    assert words in command.err
    assert command.out == ""
    assert not (tmp_path / "out").exists()


def test_an_empty_comparison_or_report_is_refused(command: Command, tmp_path: Path) -> None:
    assert command("compare", "--resume", "--output", tmp_path) == 2
    assert "no comparison here" in command.err
    assert command("report", tmp_path) == 2
    assert "no comparison here" in command.err


def test_run_accepts_one_specification(command: Command, small: InstanceFile, tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_bytes(to_json(make_spec(small)))
    assert command("run", spec, tmp_path / "other.json") == 2
    before = Path(small.path).read_bytes()
    for read in (spec, small.path):
        assert command("run", spec, "--output", read) == 2
        assert "the output would replace the input" in command.err
    assert Path(small.path).read_bytes() == before
    assert command("run", tmp_path / "none.json") == 2


def test_a_full_disk_behind_temporary_files_is_reported(
    command: Command, small: InstanceFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tmp_path / "spec.json"
    spec.write_bytes(to_json(make_spec(small)))
    for error, said in (
        (OSError(errno.ENOSPC, "full"), "a file cannot be written (full); free space, or set TMPDIR"),
        (FileNotFoundError(errno.ENOENT, "none"), "TMPDIR: no folder for temporary files can be written"),
    ):
        monkeypatch.setattr(tempfile, "gettempdir", Mock(side_effect=error))
        assert command("run", spec) == 2
        assert said in command.err


@pytest.mark.parametrize("name", ["compare", "run", "report"])
def test_every_command_of_comparisons_has_help(command: Command, name: str) -> None:
    assert command(name, "--help") == 0
    assert command.out.startswith(f"Usage: jtsolve {name} ")
    assert "--inside" not in command.out
