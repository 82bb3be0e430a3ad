"""Rows of a model as tables of labels, written as its data were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from jtsolve.core.run import Run
from jtsolve.tables.frames import FrameStyle
from jtsolve.tables.options import UTF_8, Habits
from jtsolve.tables.writing import rows_as

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jtsolve.models.protocol import Distribution


_CELL, _COPIES = 32, 2
"""Bytes of a cell of rows of a model, its place in a column of text included; and copies of its text."""
_LONG = 4
"""Half the characters of a number, of which there is one copy at a time."""


def require_rows(model: Distribution, rows: int) -> None:
    """Checks that rows of a model, and their text, fit in memory.

    Args:
        model: of the rows.
        rows: their number.

    Raises:
        LimitError: they need more memory than the limit.
    """
    longest = sum(max(map(len, column.states)) if column.states else _LONG for column in model.columns)
    size = rows * (_CELL * len(model.columns) + _COPIES * longest)
    Run().require_memory(size, f"{rows} rows need", "fewer rows, into several files")


def labelled(model: Distribution, rows: Iterable[Any], *, typed: bool = False) -> pl.DataFrame:
    """Returns rows as a frame of labels of states, or of numbers.

    Args:
        model: the distribution.
        rows: in its coding.
        typed: whether states become values, and missing ones null, where their column has other ones than
            texts.
    """
    made = []
    for column, row in zip(model.columns, rows, strict=True):
        if column.states is None:
            made.append(pl.Series(column.name, row))
        elif typed:
            one = column.series(FrameStyle(), row)
            made.append(one.cast(pl.String) if isinstance(one.dtype, pl.Enum) else one)
        else:
            labels = pl.Series(column.name, [*column.states, None], dtype=pl.String)
            made.append(labels.gather(np.where(row < 0, len(column.states), row)))
    return pl.DataFrame(made)


def rows_in_format(model: Distribution, rows: Iterable[Any], kind: str) -> bytes:
    """Returns rows of a model as the contents of a table, a format of `formats.TABLE`.

    Text is written as the data of the model were.

    Args:
        model: whose columns the rows have.
        rows: codes or numbers.
        kind: the format.
    """
    if kind not in ("csv", "tsv"):
        return rows_as(labelled(model, rows, typed=True), kind)
    frame, habits = labelled(model, rows), Habits.of(model)
    cut = {column.name for column in model.columns if column.cuts is not None}  # into ranges, which are words
    numbers = [pl.col(name).cast(pl.String) for name in habits.commas or () if name not in cut]
    frame = frame.with_columns(one.str.replace(".", ",", literal=True) for one in numbers)
    dialect = habits.dialect
    mark = dialect.separator or ","
    # A blank line is no row, and several blanks are one separator.
    null = "?" if frame.width == 1 or mark == " " else ""
    text = rows_as(frame, kind, null=null, header=dialect.header, separator=mark)
    return text if dialect.encoding == UTF_8 else text.decode().encode(dialect.encoding)
