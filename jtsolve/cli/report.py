"""`jtsolve report`: the results of a comparison, in every format."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jtsolve.cli.output import FAULTY, complain_of, emit
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from jtsolve.compare.folder import Folder
    from jtsolve.compare.reporting.exports import Cells


def report(
    folder: Annotated[
        Path, typer.Argument(readable=False, metavar="RUN/", help="The --output of 'jtsolve compare'.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(readable=False, metavar="FOLDER", help="Where to write; the default is RUN/."),
    ] = None,
    runs: Annotated[bool, typer.Option("--runs", help="Also print every run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but faults and errors.")] = False,
) -> None:
    """Report a comparison: report.html, report.md, runs.csv, tables.tex.

    Every tree is checked again. Exit code 1: a tree is wrong, or runs contradict each other.
    """
    from jtsolve.compare.folder import Folder

    place = output or folder
    if output is not None and not output.is_dir():
        raise InputError(str(output), "", "there is no such folder", "create it first")
    if finish(Folder(folder), place, runs=runs, quiet=quiet):
        raise typer.Exit(FAULTY)


def finish(folder: "Folder", place: Path, *, runs: bool = False, quiet: bool = False) -> bool:
    """Judges and reports a comparison; returns whether there is a fault."""
    from jtsolve.compare.reporting import exports
    from jtsolve.compare.reporting.report import ComparisonReport

    report = ComparisonReport.of(folder)
    paths = report.write(place)
    comparison = report.comparison
    if not quiet:
        tables = [exports.backends_table(comparison), exports.problems_table(comparison)]
        tables += [exports.runs_table(comparison)] if runs else []
        emit("\n".join(map(_text, tables)))
        emit(f"{len(comparison.rows)} of {comparison.planned} runs; written: {', '.join(map(str, paths))}")
    for fault in comparison.faults:
        complain_of(fault.kind, [fault.message])
    return bool(comparison.faults)


def _text(table: "Cells") -> str:
    """Returns a table for a terminal, as wide as its contents."""
    import io

    from rich.console import Console
    from rich.measure import Measurement

    buffer = io.StringIO()
    shown = _rich(table)
    wide = Console(file=buffer, width=10_000)
    width = Measurement.get(wide, wide.options, shown).maximum
    Console(file=buffer, width=width).print(shown)
    return buffer.getvalue()


def _rich(table: "Cells") -> "Table":
    from rich.table import Table
    from rich.text import Text

    head, rows = table
    shown = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in head:
        shown.add_column(
            Text(name), justify="left" if name in ("backend", "kind", "instance", "status") else "right"
        )
    for row in rows:
        shown.add_row(*map(Text, row))
    return shown
