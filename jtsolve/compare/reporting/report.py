"""The report of a comparison, in every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.compare.reporting.exports import csv_text, latex, markdown, parquet
from jtsolve.compare.reporting.judge import judge
from jtsolve.compare.reporting.page import html
from jtsolve.compare.reporting.tables import Comparison
from jtsolve.core.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jtsolve.compare.folder import ComparisonPlan, Folder


def load(folder: Folder, done: Callable[[int], None] | None = None) -> tuple[ComparisonPlan, Comparison]:
    """Returns the plan of a comparison and its judged rows, in the order of the plan.

    Args:
        folder: of the comparison, which may still be running.
        done: called with the number of rows checked so far.

    Raises:
        InputError: there is no comparison, or a file of it is damaged.
    """
    plan = folder.plan()
    rows = folder.rows()
    ordered = [rows[spec.id] for spec in plan.specs if spec.id in rows]
    return plan, Comparison(ordered, judge(ordered, done), len(plan.specs))


def write_report(plan: ComparisonPlan, comparison: Comparison, place: Path) -> list[Path]:
    """Writes the report in every format, and returns the files: HTML, Markdown, CSV, LaTeX, Parquet.

    Args:
        plan: of the comparison.
        comparison: its judged rows.
        place: an existing folder.
    """
    contents = {
        "report.html": html(comparison, plan).encode(),
        "report.md": markdown(comparison, plan).encode(),
        "runs.csv": csv_text(comparison).encode(),
        "tables.tex": latex(comparison).encode(),
        "runs.parquet": parquet(comparison),
    }
    for name, data in contents.items():
        write_atomically(place / name, data)
    return [place / name for name in contents]
