"""Parquet and Arrow files: typed columns, with a mark of their own for a missing value."""

from __future__ import annotations

import io

from jtsolve.errors import InputError
from jtsolve.scoring.raw import Encoder, RawTable, require_distinct

_ROWS = 1 << 20
"""Rows that are turned into words at one time."""


def read_columnar(data: bytes, source: str, suffix: str) -> RawTable:
    """Returns the table in a file; its values as text are the labels.

    Raises:
        InputError: the file cannot be read, or a column holds what is no state.
    """
    import polars as pl

    try:
        stream = io.BytesIO(data)
        frame = pl.read_parquet(stream) if suffix == "parquet" else pl.read_ipc(stream)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise InputError(
            source, "", f"it cannot be read as {suffix} ({str(error).splitlines()[0]})", "check the file"
        ) from None
    columns = []
    for series in frame:
        kind = series.dtype
        if kind.is_nested() or kind in (pl.Binary, pl.Object):
            raise InputError(
                source,
                f"column '{series.name}'",
                f"its type is {kind}, whose values are no states",
                "leave the column out when the file is made, or turn it into text",
            )
        real = kind.is_float() or kind.is_decimal()
        values = series.cast(pl.Float64).fill_nan(None) if real else series
        encoder = Encoder()
        for start in range(0, len(values), _ROWS):
            piece = values.slice(start, _ROWS)
            if real:
                encoder.add(piece, lambda value: repr(value).removesuffix(".0"))
            else:
                encoder.add(piece.cast(pl.String))
        if len(values):
            columns.append(encoder.column(series.name))
    if not columns:
        raise InputError(source, "", "there are no rows", "give a table with rows")
    require_distinct([column.name for column in columns], source)
    return RawTable(tuple(columns), typed=True)
