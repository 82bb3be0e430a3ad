"""The README is true: its table is that of the registry, and links lead somewhere."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from jtsolve.backends.dp.plan import Precision, TablePlan
from jtsolve.backends.registry import REGISTRY
from jtsolve.core.problem import ALL_FEATURES
from jtsolve.scoring.registry import REGISTRY as SCORES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BEGIN = "<!-- backends: compared with the registry by tests/test_readme.py -->\n"
END = "<!-- end of backends -->"
DOCUMENTS = sorted(chain(ROOT.glob("*.md"), ROOT.glob("docs/*.md"), ROOT.glob("*/README.md")))


def backends_table() -> str:
    lines = ["| backend | kind | variables | constraints | |", "|---|---|---|---|---|"]
    for backend in REGISTRY.values():
        capabilities = backend.capabilities
        missing = ", ".join(sorted(f"`{feature.value}`" for feature in ALL_FEATURES - capabilities.features))
        most = capabilities.max_variables
        cells = (
            f"`{backend.name}`",
            "exact" if capabilities.exact else "heuristic",
            "any number" if most is None else f"at most {most}",
            f"all but {missing}" if missing else "all",
            (type(backend).__doc__ or "").partition("\n")[0],
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_the_table_of_backends_is_that_of_the_registry() -> None:
    table = README.partition(BEGIN)[2].partition(END)[0]
    assert table == backends_table(), f"put this table into README.md:\n{backends_table()}"


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


def test_ci_runs_the_test_command_of_the_readme() -> None:
    pattern = "^    pip install -e .*pytest"
    assert len(re.findall(pattern, README, re.MULTILINE)) == 1
    assert f"grep '{pattern}' README.md" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
