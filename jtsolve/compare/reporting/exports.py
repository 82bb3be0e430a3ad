"""The tables of a comparison: cells and CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from jtsolve.compare.reporting.tables import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jtsolve.compare.folder import ComparisonPlan
    from jtsolve.compare.reporting.tables import Cell, Comparison, ProblemSummary

Cells = tuple["Sequence[str]", "list[list[str]]"]
"""Headings and cells."""

NOTHING = "–"


def nats(value: float | None) -> str:
    """Formats a score or a bound."""
    return NOTHING if value is None else f"{value:.4f}"


def short(value: float | None) -> str:
    """Formats a distance, a gap or a time with three digits.

    >>> short(0.0), short(0.01234), short(1234.5)
    ('0', '0.0123', '1234')
    """
    if value is None:
        return NOTHING
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits


def treewidth_text(treewidth: int | None) -> str:
    """Formats a treewidth; "any" stands for the instance's own constraints."""
    return "any" if treewidth is None else str(treewidth)


def backends_table(comparison: Comparison) -> Cells:
    """Returns a row per backend."""
    head = (
        "backend",
        "kind",
        "runs",
        "proved",
        "best",
        "declined",
        "failed",
        "distance",
        "s",
        "starting",
        "solving",
        "GB",
    )
    kinds = {True: "exact", False: "heuristic", None: NOTHING}
    rows = [
        [
            one.backend,
            kinds[one.exact],
            *map(str, (one.runs, one.proved, one.reached, one.declined, one.failed)),
            short(one.distance),
            *map(short, (one.seconds, one.starting, one.solving, one.memory)),
        ]
        for one in comparison.summaries
    ]
    return head, rows


def problems_table(comparison: Comparison) -> Cells:
    """Returns a row per problem: the best known score, and each backend's distance to it."""
    head = ("instance", "n", "tw", "best known", "bound", "gap", *comparison.backends)
    rows = [
        [
            *_problem(problem),
            *(cell_text(comparison.cells.get((problem.key, backend))) for backend in comparison.backends),
        ]
        for problem in comparison.problems.values()
    ]
    return head, rows


def _problem(problem: ProblemSummary) -> list[str]:
    best = "infeasible" if problem.infeasible else nats(problem.score)
    n = NOTHING if problem.n is None else str(problem.n)
    treewidth = treewidth_text(problem.treewidth)
    return [problem.instance, n, treewidth, best, nats(problem.bound), short(problem.gap)]


def cell_text(cell: Cell | None) -> str:
    """Formats a mean distance, with "*" if every run has a proof; the statuses if there is no tree."""
    if cell is None:
        return ""
    if cell.distance is None:
        return ", ".join(cell.statuses)
    text = short(cell.distance) + ("*" if cell.proved == cell.runs else "")
    return text if cell.found == cell.runs else f"{text} ({cell.found}/{cell.runs})"


RUN_HEADS = (
    "instance",
    "n",
    "tw",
    "backend",
    "seed",
    "status",
    "score",
    "bound",
    "gap",
    "distance",
    "s",
    "starting",
    "solving",
    "GB",
)


def run_cells(record: Record) -> list[str]:
    """Returns the cells of one run."""
    return [
        record.instance,
        NOTHING if record.n is None else str(record.n),
        treewidth_text(record.treewidth),
        record.backend,
        str(record.seed),
        f"{record.status} (FAULT)" if record.faulty else record.status,
        nats(record.score),
        nats(record.bound),
        short(record.gap),
        short(record.distance),
        *map(short, (record.seconds, record.starting, record.solving, record.memory)),
    ]


def machine_text(plan: ComparisonPlan) -> str:
    """Returns the machine and the versions in one line."""
    machine = plan.machine
    return (
        f"{machine.get('processor')}, {machine.get('cores')} cores; {machine.get('platform')}; Python "
        f"{machine.get('python')}, numpy {machine.get('numpy')}, numba {machine.get('numba')}, jtsolve "
        f"{machine.get('jtsolve')}"
    )


def csv_text(comparison: Comparison) -> str:
    """Returns the runs as CSV, numbers in full."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, [field.name for field in fields(Record)], lineterminator="\n")
    writer.writeheader()
    for record in comparison.records:
        writer.writerow({name: _csv_value(value) for name, value in asdict(record).items()})
    return buffer.getvalue()


def _csv_value(value: object) -> object:
    """Returns a value; an apostrophe precedes texts that a spreadsheet would take for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(tuple("=+-@\t\r")) else value
