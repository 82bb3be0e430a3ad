"""The report of a comparison, in every format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jtsolve.compare.reporting.exports import csv_text, latex
from jtsolve.compare.reporting.judge import judge
from jtsolve.compare.reporting.page import html
from jtsolve.compare.reporting.tables import Comparison
from jtsolve.core.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jtsolve.compare.folder import ComparisonPlan, Folder


@dataclass(frozen=True, slots=True, repr=False)
class ComparisonReport:
    """A comparison after verification.

    Attributes:
        plan: of the comparison.
        comparison: its rows, in the order of the plan, and their faults.
    """

    plan: ComparisonPlan
    comparison: Comparison

    @classmethod
    def of(cls, folder: Folder, done: Callable[[int], None] | None = None) -> ComparisonReport:
        """Returns the report of a comparison.

        Args:
            folder: of the comparison, which may still be running.
            done: called with the number of rows checked so far.

        Raises:
            InputError: there is no comparison, or a file of it is damaged.
        """
        plan = folder.plan()
        rows = folder.rows()
        ordered = [rows[spec.id] for spec in plan.specs if spec.id in rows]
        return cls(plan, Comparison(ordered, judge(ordered, done), len(plan.specs)))

    def __repr__(self) -> str:
        compared = self.comparison
        size = f"{len(compared.rows)} of {compared.planned} runs, {len(compared.problems)} problems"
        return f"ComparisonReport({size}, {len(compared.faults)} faults; {', '.join(compared.backends)})"

    def write(self, place: Path) -> list[Path]:
        """Writes the report in every format, and returns the files: HTML, CSV, LaTeX.

        Args:
            place: an existing folder.
        """
        contents = {
            "report.html": html(self.comparison, self.plan).encode(),
            "runs.csv": csv_text(self.comparison).encode(),
            "tables.tex": latex(self.comparison).encode(),
        }
        for name, data in contents.items():
            write_atomically(place / name, data)
        return [place / name for name in contents]
