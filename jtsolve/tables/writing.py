"""Tables in files: rows as CSV, tab-separated text, Parquet or Arrow."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from jtsolve.core.files import write_atomically
from jtsolve.core.formats import TABLE
from jtsolve.errors import ChoiceError

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl


def write_rows(frame: pl.DataFrame, path: str | Path) -> None:
    """Writes a frame to a file in the format of its suffix (`formats.TABLE`), gzipped if it ends in .gz.

    Raises:
        ChoiceError: there is no such format.
        InputError: the file cannot be written.
    """
    write_atomically(path, rows_as(frame, TABLE.format_to_write(path)))


def rows_as(
    frame: pl.DataFrame, kind: str, *, null: str = "", header: bool = True, separator: str = ","
) -> bytes:
    """Returns the contents of a file with the frame.

    Args:
        frame: the rows.
        kind: a format of `formats.TABLE`.
        null: the word for a missing value in text.
        header: whether text begins with the names.
        separator: of .csv.

    Raises:
        ChoiceError: a text has a character that files of text cannot hold.
    """
    stream = io.BytesIO()
    if kind in ("csv", "tsv"):
        mark = separator if kind == "csv" else "\t"
        frame.write_csv(stream, separator=mark, null_value=null, include_header=header)
        if b"\0" in stream.getvalue():
            raise ChoiceError("a value has a zero character, which text files cannot hold; write .parquet")
    elif kind == "parquet":
        frame.write_parquet(stream)
    else:
        frame.write_ipc(stream)
    return stream.getvalue()
