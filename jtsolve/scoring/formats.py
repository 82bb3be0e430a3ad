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

from jtsolve.errors import InputError
from jtsolve.scoring.arff import read_arff
from jtsolve.scoring.columnar import read_columnar
from jtsolve.scoring.separated import read_dat, read_separated

if TYPE_CHECKING:
    from jtsolve.scoring.raw import RawTable


def read_raw(data: bytes, source: str, *, header: bool = True, separator: str | None = None) -> RawTable:
    """Returns the table in a file.

    Args:
        data: the contents, unpacked.
        source: the file's name, for its suffix and for messages.
        header: whether the first line of separated text names the columns; if not, they are V1, V2, ….
        separator: of separated text: a character, " " for any number of blanks; None to find out.

    Raises:
        InputError: the data are not what the suffix says; names the line and what is wrong.
    """
    suffix = source.removesuffix(".gz").rpartition(".")[2].lower()
    if suffix in ("parquet", "arrow", "feather", "ipc"):
        return read_columnar(data, source, suffix)
    data = _text(data, source)
    if suffix == "arff":
        return read_arff(data.decode(), source)
    if suffix == "dat":
        return read_dat(data, source)
    usual = "\t" if suffix in ("tsv", "tab") else None
    return read_separated(data, source, header=header, separator=separator or usual)


def _text(data: bytes, source: str) -> bytes:
    """Returns UTF-8 text without byte order mark, its lines ended by newlines.

    Raises:
        InputError: it is no such text, or there is nothing in it.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(source, "", "it is UTF-16", "save the file as UTF-8")
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise InputError(
                source, f"line {line}", "a byte is not UTF-8", "save the file as UTF-8"
            ) from None
        data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise InputError(
            source, f"line {line}", "it holds a zero byte, as no text does", "give a table as text"
        )
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not data or data.isspace():
        raise InputError(source, "", "there is nothing but blanks in it", "give a table with rows")
    return data
