"""Limits on memory: a command stays within its limit, or refuses to work, in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

from jtsolve.cli import COMMANDS, run

_WITHOUT_LIMIT = {"convert", "decode", "check", "report", "backends", "scores", "models", "methods", "data"}
_PER_RUN = {"compare", "run"}
"""Commands that kill a run beyond its limit: see `test_compare_runs`."""
_CHILD = """
import contextlib, io, json, sys, time
import numpy
from jtsolve.cli import run
from jtsolve.core.machine import peak_memory
held = peak_memory() / 1e9  # of Python and its libraries, which differ between installations
for more in map(float, sys.argv[1:3]):
    limit = f"{held + more:.3g}"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = run([*sys.argv[3:], "--memory-limit", limit], time.monotonic())
    print(json.dumps([code, float(limit), peak_memory() / 1e9, said.getvalue()]))
"""


class Case(NamedTuple):
    """Arguments, and limits in GB above the memory at the start: one that is too small, one that suffices."""

    arguments: str
    short: float
    enough: float


_CASES = {
    "solve": Case("table.json --treewidth 2 --output out.json", 0.01, 0.07),
    "fit": Case("table.csv --treewidth 2 --output out.json", 0.04, 0.13),
    "average": Case("table.json --treewidth 2", 0.02, 0.07),
    "select": Case("table.csv --kind states --output out.json", 0.06, 0.18),
    "population": Case("lists.csv", 0.1, 0.45),
    "show": Case("model.json --data table.csv", 0.06, 0.18),
    "query": Case("model.json", 0.005, 0.04),
    "mpe": Case("model.json", 0.005, 0.04),
    "sample": Case("model.json --rows 9 --output out.csv", 0.03, 0.13),
    "export": Case("model.json --output out.bif", 0.005, 0.04),
    "impute": Case("model.json table.csv --output out.csv", 0.03, 0.18),
    "loglik": Case("model.json table.csv", 0.03, 0.18),
    "score": Case("table.csv --score bdeu --max-size 2 --output out.json", 0.04, 0.13),
    "explain": Case("table.json --treewidth 2 --require v0,v1", 0.01, 0.07),
}


def test_every_command_has_a_law_of_memory() -> None:
    assert {*_CASES, *_WITHOUT_LIMIT, *_PER_RUN} == {*COMMANDS}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight columns of three states, their scores and a model; and two lists."""
    folder, random = tmp_path_factory.mktemp("memory"), np.random.default_rng(0)
    values = random.integers(0, 3, (300, 8)).cumsum(axis=1) % 3
    table, scores, model = (folder / name for name in ("table.csv", "table.json", "model.json"))
    pl.DataFrame(values, [f"v{i}" for i in range(8)]).write_csv(table)
    pl.DataFrame([[1, 1, 0] * 9, [1, 0, 1] * 9], ["A", "B"]).write_csv(folder / "lists.csv")
    rows, written = [str(table), "--score", "bdeu", "--quiet"], ["--output"]
    assert run(["score", *rows, "--max-size", "3", *written, str(scores)], 0.0) == 0
    assert run(["fit", *rows, "--treewidth", "2", *written, str(model)], 0.0) == 0
    return folder


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="the peak is known on Linux only")
@pytest.mark.parametrize("name", _CASES)
def test_a_command_stays_within_its_limit_or_refuses_in_a_sentence(inputs: Path, name: str) -> None:
    arguments, *more = _CASES[name]
    words = [sys.executable, "-c", _CHILD, *map(str, more), name, *arguments.split()]
    done = subprocess.run(words, cwd=inputs, capture_output=True, check=True, timeout=300)  # noqa: S603
    short, enough = map(json.loads, done.stdout.splitlines())
    for code, limit, peak, said in (short, enough):
        assert peak <= limit, said
        assert code in (0, 4), said
    code, limit, _, refusal = short
    assert code == 4
    assert refusal.count("\n") == 1
    assert f"limit is {limit:g} GB" in refusal or f"limit of {limit:g} GB" in refusal
    assert "Ways out: a larger --memory-limit" in refusal
    assert enough[0] == 0, enough[3]
    if name in ("solve", "fit"):  # no heuristic in silence
        text = (inputs / "out.json").read_text(encoding="utf-8")
        assert '"optimal"' in text
