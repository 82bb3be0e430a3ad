"""The text and column files that data come in, read into a `RawTable`.

    .csv .tsv .tab .txt .data, other   separated by commas, semicolons, tabs or blanks; with a header or not
    .dat                               GOBNILP and blip: names, then numbers of states, then rows of states
    .arff                              Weka
    .parquet .arrow .feather .ipc      typed columns, read by polars

Text is UTF-8. Blanks around a value are no part of it. Blank lines are left out. Every row must have as many
values as there are columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.tables.arff import read_arff
from jtsolve.tables.columnar import read_columnar
from jtsolve.tables.gathering import Intake
from jtsolve.tables.separated import read_dat, read_separated
from jtsolve.tables.source import Lines, Source

if TYPE_CHECKING:
    from jtsolve.tables.raw import RawTable


def read_raw(
    source: Source, intake: Intake | None = None, *, header: bool = True, separator: str | None = None
) -> RawTable:
    """Returns the table in a file.

    Args:
        source: the file; its name's suffix tells the format.
        intake: what to take from it; None for everything.
        header: whether the first line of separated text names the columns; if not, they are V1, V2, ….
        separator: of separated text: a character, " " for any number of blanks; None to find out.

    Raises:
        InputError: the data are not what the suffix says; names the line and what is wrong.
    """
    intake = intake or Intake()
    suffix = source.name.removesuffix(".gz").rpartition(".")[2].lower()
    if suffix in ("parquet", "arrow", "feather", "ipc"):
        return read_columnar(source, suffix, intake)
    lines = Lines(source)
    if suffix == "arff":
        return read_arff(lines, intake)
    if suffix == "dat":
        return read_dat(lines, intake)
    usual = "\t" if suffix in ("tsv", "tab") else None
    return read_separated(lines, intake, header=header, separator=separator or usual)
