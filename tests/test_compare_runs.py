"""Runs in child processes: limits, crashes, kills, and comparisons that are stopped and resumed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from comparisons import make_instance, make_spec
from processes import ended
from strange_backends import PROGRAM

from jtsolve.cli import run as command
from jtsolve.compare.folder import Folder
from jtsolve.compare.running import supervise as supervision
from jtsolve.compare.running.local import perform
from jtsolve.compare.running.supervise import supervise
from jtsolve.compare.spec import Row, RunStatus, read_row, to_json
from jtsolve.core.temporary import locked_file
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from jtsolve.compare.spec import InstanceFile

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "tests")]))


@pytest.fixture
def small(tmp_path: Path) -> InstanceFile:
    return make_instance(tmp_path)


def strange(small: InstanceFile, does: str, **more: Any) -> Row:
    spec = make_spec(small, f"strange:does={does}", grace=1.0, **more)
    row = supervise(spec, program=PROGRAM)
    assert row is not None
    return row


def test_a_supervised_run_returns_the_result_and_its_cost(small: InstanceFile) -> None:
    spec = make_spec(small)
    row = supervise(spec)
    assert row is not None
    assert (row.spec, row.status, row.message) == (spec, RunStatus.OPTIMAL, "")
    assert row.result is not None
    assert row.seconds >= row.result.seconds["total"]
    assert row.peak_memory is not None
    assert row.peak_memory > 10**7
    assert row.started[:2] == "20"


def test_an_unresponsive_run_is_killed_with_all_its_children(
    small: InstanceFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "child"

    def clock() -> float:
        """Passes the limit as soon as there is a child."""
        return time.monotonic() + (1000 if note.exists() and note.read_text(encoding="ascii") else 0)

    monkeypatch.setattr(supervision, "time", SimpleNamespace(monotonic=clock))
    row = strange(small, f"deaf,note={note}", time_limit=600.0)
    assert (row.status, row.result) == (RunStatus.OUT_OF_TIME, None)
    assert "600 s and 1 s of grace were over" in row.message
    assert row.seconds > 601
    assert row.machine["jtsolve"]
    assert ended(int(note.read_text(encoding="ascii")))


def test_a_run_beyond_its_memory_is_killed(small: InstanceFile) -> None:
    row = strange(small, "hog", memory_limit=0.3, time_limit=600.0)
    assert row.status is RunStatus.OUT_OF_MEMORY
    assert "the limit is 0.3 GB" in row.message
    assert row.peak_memory is not None
    assert row.peak_memory > 0.3e9


@pytest.mark.parametrize(("does", "words"), [("abort", "signal SIGABRT"), ("leave", "exit code 3")])
def test_a_process_without_an_answer_is_a_crash_with_its_last_words(
    small: InstanceFile, does: str, words: str
) -> None:
    row = strange(small, does)
    assert row.status is RunStatus.CRASHED
    assert words in row.message
    assert "words of a solver" in row.message


def test_a_silent_end_and_a_broken_row_are_crashes(small: InstanceFile) -> None:
    spec = make_spec(small)
    silent = supervise(spec, program=(sys.executable, "-c", ""))
    broken = supervise(spec, program=(sys.executable, "-c", "import sys; open(sys.argv[3], 'w').write('{}')"))
    assert silent is not None
    assert broken is not None
    assert (silent.status, silent.message) == (
        RunStatus.CRASHED,
        "the process ended with exit code 0, without output",
    )
    assert broken.status is RunStatus.CRASHED
    assert "left no valid row" in broken.message


def test_a_cancelled_run_has_no_row(small: InstanceFile) -> None:
    cancelled = threading.Event()
    timer = threading.Timer(0.3, cancelled.set)
    timer.start()
    assert supervise(make_spec(small, "strange"), cancelled, PROGRAM) is None
    timer.join()


def test_the_inner_side_writes_the_row(
    small: InstanceFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tmp_path / "spec.json"
    spec.write_bytes(to_json(make_spec(small, "lns")))
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    row = tmp_path / "row.json"
    assert command(["run", "--inside", str(spec), "--output", str(row)], time.monotonic()) == 0
    assert read_row(row).result is not None


def test_local_runs_stop_when_a_row_cannot_be_kept(small: InstanceFile) -> None:
    def full(_row: Row) -> None:
        raise InputError("row.json", "", "the disk is full", "free space")

    specs = [make_spec(small, "strange", seed=seed) for seed in range(3)]
    with pytest.raises(InputError, match="disk is full"):
        perform([make_spec(small), *specs], 1, full, PROGRAM)


# The whole command, stopped and resumed


def program(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    """Starts the command line with the strange backends."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True, **options}
    return subprocess.Popen(  # noqa: S603 - our own command
        [*PROGRAM[:2], *map(str, arguments)], text=True, encoding="utf-8", **pipes
    )


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    return [make_instance(tmp_path, label, seed=seed).path for seed, label in enumerate("ab")]


def first_line(process: subprocess.Popen[str], word: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if word in line:
            return line
    raise AssertionError(f"{word} was never said")


def kept(output: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Folder(output).results.glob("*.json")}


def asked(instances: list[str], output: Path) -> list[str]:
    """Returns a command whose runs by `strange` end once there is the file `enough`."""
    backends = ["--backends", f"brute,strange:note={enough(output)}"]
    limits = ["--time-limit", "600", "--memory-limit", "1", "--no-warm-up"]
    return ["compare", *instances, *backends, *limits, "--output", str(output)]


def enough(output: Path) -> Path:
    return output.with_suffix(".enough")


def test_a_comparison_that_is_killed_loses_nothing_and_runs_nothing_twice(
    two: list[str], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    with program(*asked(two, output)) as process:
        first_line(process, "brute")  # now the endless one is under way
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    before = kept(output)
    assert 1 <= len(before) < 4
    assert ended(*(member.pid for member in family))
    enough(output).touch()
    handle, unfinished = locked_file(Folder(output).results)  # as if it had been writing
    os.write(handle, b'{"format": "jtsolve-row", "versi')
    os.close(handle)
    with program("compare", "--resume", "--no-warm-up", "--output", output) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    after = kept(output)
    assert before.items() <= after.items()
    assert not unfinished.exists()
    rows = Folder(output).rows()
    assert [rows[spec.id].status for spec in Folder(output).plan().specs] == [
        RunStatus.OPTIMAL,
        RunStatus.FEASIBLE,
    ] * 2
    assert len(after) == len(rows)
    assert {path.name for path in output.iterdir()} >= {"report.html", "runs.csv"}
    assert "4 of 4 runs" in out


def test_ctrl_c_keeps_finished_runs_and_reports_how_to_resume(two: list[str], tmp_path: Path) -> None:
    output = tmp_path / "out"
    with program(*asked(two, output)) as process:
        first_line(process, "brute")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    found = re.search(r"([123]) of 4 runs are left", err)  # another may end while the signal is on its way
    assert found is not None
    assert f"jtsolve compare --resume --output {output}" in err
    assert len(kept(output)) == 4 - int(found[1])
    with program(*asked(two, output)) as process:
        _, err = process.communicate()
    assert process.returncode == 2
    assert "a comparison here already" in err
    with program("compare", *two, "--resume", "--seeds", "3", "--output", output) as process:
        _, err = process.communicate()
    assert process.returncode == 2
    assert "leave out" in err
    assert "--seeds" in err
