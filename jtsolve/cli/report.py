"""`jtsolve report`: the results of a comparison, in every format."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jtsolve.cli.options import file_argument, file_option
from jtsolve.cli.output import FAULTY, emit, print_faults
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from jtsolve.compare.folder import Folder


def report(
    folder: Annotated[Path, file_argument("RUN/", "The --output of 'jtsolve compare'.")],
    output: Annotated[
        Path | None, file_option("Where to write; the default is RUN/.", metavar="FOLDER")
    ] = None,
) -> None:
    """Report a comparison: report.html, runs.csv, tables.tex.

    Every tree is checked again. Exit code 1: a tree is wrong, or runs contradict each other.
    """
    from jtsolve.compare.folder import Folder

    place = output or folder
    if output is not None and not output.is_dir():
        raise InputError(str(output), "", "there is no such folder", "create it first")
    if report_comparison(Folder(folder), place):
        raise typer.Exit(FAULTY)


def report_comparison(folder: "Folder", place: Path, *, quiet: bool = False) -> bool:
    """Judges and reports a comparison; returns whether there is a fault.

    Args:
        folder: of the runs.
        place: the folder to write to.
        quiet: whether only faults are printed.
    """
    from jtsolve.compare.reporting import exports
    from jtsolve.compare.reporting.report import ComparisonReport
    from jtsolve.listing import table

    report = ComparisonReport.of(folder)
    paths = report.write(place)
    comparison = report.comparison
    if not quiet:
        tables = (exports.backends_table(comparison), exports.problems_table(comparison))
        emit("\n\n".join(table(*one) for one in tables))
        emit(f"{len(comparison.rows)} of {comparison.planned} runs; written: {', '.join(map(str, paths))}")
    for fault in comparison.faults:
        print_faults(fault.kind, [fault.message])
    return bool(comparison.faults)
