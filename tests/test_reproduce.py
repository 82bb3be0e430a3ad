"""The one command that reproduces the tables of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import page
import pytest
import reproduce
from reproduce import BENCHMARKS, Benchmark, main, record

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "benchmarks"
SHARED = {
    "reproduce.py",
    "journals.py",
    "labels.py",
    "log_linear.py",
    "page.py",
    "processor_clock.py",
    "publishing.py",
    "state_rows.py",
}
"""Modules that other scripts import, and the script that runs them."""
HUNTS = {"forge.py", "fuzz.py", "gpu.py"}
"""Scripts that search for faults or need a device, and write no table of the page."""


def test_every_script_has_its_row() -> None:
    named = {text.split()[0] for one in BENCHMARKS for text in (one.arguments, one.quick)}
    assert named == {path.name for path in SCRIPTS.glob("*.py")} - SHARED - HUNTS
    assert len({one.name for one in BENCHMARKS}) == len(BENCHMARKS)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda one: one.name)
def test_the_options_of_a_row_are_those_of_its_script(benchmark: Benchmark) -> None:
    for text in (benchmark.arguments, benchmark.quick):
        script, *words = text.split()
        source = (SCRIPTS / script).read_text(encoding="utf-8")
        assert [word for word in words if word.startswith("--") and f'"{word}"' not in source] == []


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=str)
def test_every_table_of_the_documentation_comes_from_a_script_in_the_list(path: Path) -> None:
    named = set(re.findall(r"python benchmarks/(\w+\.py)", path.read_text(encoding="utf-8")))
    assert named - SHARED - HUNTS <= {one.arguments.split()[0] for one in BENCHMARKS}


def test_failures_and_missing_data_are_reported_and_the_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prints.py").write_text("import sys\nprint('|', *sys.argv[1:], '|')\n", encoding="utf-8")
    (tmp_path / "broken.py").write_text("raise SystemExit(2)\n", encoding="utf-8")
    rows = (
        Benchmark("broken", "", 1, "broken.py", "broken.py --quick"),
        Benchmark("lacking", "", 1, "", "prints.py --data {data}", ("no/such/file",)),
        Benchmark("prints", "", 1, "prints.py 9", "prints.py 1"),
    )
    monkeypatch.setattr(reproduce, "BENCHMARKS", rows)
    monkeypatch.setattr(reproduce, "HERE", tmp_path)
    assert main(["--quick", "--data", str(tmp_path), "--output", str(tmp_path / "out")]) == 1
    assert (tmp_path / "out" / "prints.txt").read_text(encoding="utf-8") == "| 1 |\n"
    reported = capsys.readouterr().out
    assert "`broken.py --quick` | failed with exit code 2" in reported
    assert f"not run: {tmp_path / 'no/such/file'} is missing" in reported
    assert "| `prints.py 1` | done, " in reported
    assert main(["--quick", "--only", "prints", "--output", str(tmp_path / "out")]) == 0
    assert main(["--quick", "--only", "lacking", "--output", str(tmp_path / "out")]) == 1
    assert "--data FOLDER is missing" in capsys.readouterr().out


def test_the_list_names_requirements(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(BENCHMARKS)
    assert next(line for line in lines if line.startswith("alarm_curve")).endswith("needs --data FOLDER")


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--only", "zebra"])
    assert "zebra" in capsys.readouterr().err


def test_the_tables_of_the_page_are_those_of_the_stored_results() -> None:
    for path in page.PAGES:
        text = path.read_text(encoding="utf-8")
        assert page.filled(text, page.DOCS / "benchmarks") == text, (
            "run: python benchmarks/reproduce.py --page"
        )
    stored = {path.stem for path in (page.DOCS / "benchmarks").glob("*.csv")} - {"runs", "rivals"}
    assert stored == {run["name"] for run in page.read(page.DOCS / "benchmarks", "runs")}


def test_results_that_ended_well_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "exact.csv").write_text("set\n", encoding="utf-8")
    record(tmp_path, [("exact", "exact.py", "done, 2 s"), ("gaps", "gaps.py", "failed with exit code 1")])
    record(tmp_path, [("exact", "exact.py --data x", "done, 2 s")])
    (run,) = page.read(tmp_path, "runs")
    assert (run["name"], run["command"]) == ("exact", "python benchmarks/exact.py --data x")
