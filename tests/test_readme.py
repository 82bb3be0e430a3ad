"""The README and the pages: every score is documented, links lead to files, sizes agree with the code."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from jtsolve.backends.dp.plan import Precision, TablePlan
from jtsolve.scoring.registry import REGISTRY as SCORES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted(chain(ROOT.glob("*.md"), ROOT.glob("docs/*.md"), ROOT.glob("*/README.md")))


def test_every_score_is_documented() -> None:
    table = (ROOT / "docs" / "scores.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z][a-z-]*)` \| \S", table, re.MULTILINE) == list(SCORES)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_files(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_the_memory_in_the_documentation_is_that_of_the_plan() -> None:
    text = (ROOT / "docs" / "dp.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (\w+) \| ([\d,]+) \| ([\d.]+) GB \| ([\d.]+) GB \|$", text, re.MULTILINE)
    assert len(rows) > 5
    for n, treewidth, cells, wide, narrow in rows:
        plan = TablePlan(int(n), int(n) if treewidth == "unbounded" else int(treewidth) + 1)
        precisions: tuple[Precision, ...] = ("float64", "int32")
        gigabytes = [f"{plan.memory(precision) / 1e9:.1f}" for precision in precisions]
        assert [cells, wide, narrow] == [f"{plan.cells:,}", *gigabytes], (n, treewidth)


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= 650


def test_ci_runs_the_test_command_of_the_readme() -> None:
    pattern = "^    pip install -e .*pytest"
    assert len(re.findall(pattern, README, re.MULTILINE)) == 1
    assert f"grep '{pattern}' README.md" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
