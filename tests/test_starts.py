"""What programs load: `tools/size.py` counts the same."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from documents import ROOT
from size import modules_loaded, starts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return starts(ROOT, tmp_path_factory.mktemp("models"))


def backends_in(modules: list[str]) -> set[str]:
    parts = (name.split(".") for name in modules)
    return {name[2] for name in parts if name[1:2] == ["backends"] and len(name) > 2}


def test_solving_by_a_backend_loads_it_and_its_requirements(programs: dict[str, list[str]]) -> None:
    modules = modules_loaded(ROOT, programs["solve --backend dp"])
    assert backends_in(modules) == {"registry", "support", "dp", "forward", "chowliu"}
    assert len(modules) <= 100


@pytest.mark.parametrize("name", ["query", "Model.read(…).query(…)"])
def test_a_query_loads_no_backend(name: str, programs: dict[str, list[str]]) -> None:
    modules = modules_loaded(ROOT, programs[name])
    assert not backends_in(modules)
    assert len(modules) <= 80


_SMALL = """
import sys
from jtsolve.cli import run
for backend in ("lns", "merging", "portfolio"):
    run(["solve", sys.argv[1], "--treewidth", "3", "--backend", backend], 0.0)
sys.stderr.write(" ".join(["\\n", *sys.modules]))
"""


def test_searches_of_few_variables_load_no_compiler() -> None:
    loaded = modules_loaded(ROOT, ["-c", _SMALL, str(ROOT / "instances/uci/nursery.json.gz")])
    assert "jtsolve.backends.lns.backend" in loaded
    assert "numba" not in loaded


@pytest.mark.parametrize("words", ["--help", "solve --help", "complete solve --backend "])
def test_help_and_completion_load_no_backend(words: str, tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from jtsolve.cli import run\n"
        "run(sys.argv[1:], 0.0)\n"
        "sys.stderr.write(' '.join(m for m in sys.modules if m.startswith('jtsolve')))\n"
    )
    first, _, rest = words.partition(" ")
    completion = {"_JTSOLVE_COMPLETE": "complete_bash", "COMP_WORDS": f"jtsolve {rest}", "COMP_CWORD": "3"}
    environment = {**os.environ, **(completion if first == "complete" else {})}
    arguments = [] if first == "complete" else words.split()
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, *arguments],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout
    assert backends_in(done.stderr.split()) <= {"registry"}
