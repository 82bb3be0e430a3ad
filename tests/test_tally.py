"""The judgement at the end of the contract: a registered backend that ran nothing fails the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

CONTRACT = """
import pytest

@pytest.mark.parametrize("name", ["brute", "dp", "other"])
def test_runs(name, tally):
    tally.count(name, "ran" if name in {ran!r} else "refused")

def test_no_backend_ran_nothing(tally):
    tally.required.update(["brute", "dp"])
"""


@pytest.mark.parametrize(
    ("processes", "ran", "code"),
    [("0", ["brute", "other"], 1), ("0", ["brute", "dp"], 0), ("2", ["other"], 1)],
)
def test_a_backend_that_ran_nothing_fails_the_run(
    tmp_path: Path, processes: str, ran: list[str], code: int
) -> None:
    for name in ("conftest.py", "commands.py", "tally.py"):
        (tmp_path / name).write_text((HERE / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "test_some.py").write_text(CONTRACT.format(ran=ran), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-n", processes, "-p", "no:cacheprovider"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert "4 passed" in ended.stdout
    assert ended.returncode == code
    assert f"{'brute':<12}{int('brute' in ran):>8}" in ended.stdout
    for name in ("brute", "dp"):
        assert (f"FAILED: registered, and ran nothing: {name}" in ended.stdout) == (name not in ran)
