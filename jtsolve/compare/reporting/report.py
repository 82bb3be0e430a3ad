"""The report of a comparison, in every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.compare.reporting.exports import csv_text
from jtsolve.compare.reporting.judge import judge
from jtsolve.compare.reporting.page import html
from jtsolve.compare.reporting.tables import Comparison
from jtsolve.core.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.compare.folder import ComparisonPlan, Folder


def judged(folder: Folder, plan: ComparisonPlan) -> Comparison:
    """Returns the rows of a comparison, which may still be running, with their faults.

    Raises:
        InputError: a file of the comparison is damaged.
    """
    rows = folder.rows()
    ordered = [rows[spec.id] for spec in plan.specs if spec.id in rows]
    return Comparison(ordered, judge(ordered), len(plan.specs))


def write_report(comparison: Comparison, plan: ComparisonPlan, place: Path) -> list[Path]:
    """Writes the report in every format, and returns the files: HTML, CSV.

    Args:
        comparison: its runs.
        plan: of the comparison.
        place: an existing folder.
    """
    contents = {"report.html": html(comparison, plan), "runs.csv": csv_text(comparison)}
    for name, text in contents.items():
        write_atomically(place / name, text.encode())
    return [place / name for name in contents]
