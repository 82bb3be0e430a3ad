"""Parquet and Arrow files: typed columns with nulls.

Polars scans them lazily, reading only the needed columns, a block of rows at a time. Gzipped files, and
anything that is not a regular file, are held in memory.
"""

from __future__ import annotations

import io
import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jtsolve.core.files import is_packed
from jtsolve.errors import InputError
from jtsolve.tables.gatherer import Gatherer, Intake
from jtsolve.tables.raw import require_distinct

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from jtsolve.tables.raw import RawTable
    from jtsolve.tables.source import Source

_PATTERN = frozenset("*?[")
_ROWS = 1 << 19
"""Rows converted to text at a time."""


def read_columnar(source: Source, suffix: str, intake: Intake) -> RawTable:
    """Returns the table in a file; labels are the values as text.

    Raises:
        InputError: the file cannot be read, or a needed column is of a nested or binary type.
    """
    import polars as pl

    is_pattern = not _PATTERN.isdisjoint(source.name)  # polars would expand it
    if Path(source.path).is_file() and not is_pattern and not is_packed(source.path):
        for _ in source.pieces():  # for the hash
            pass
        content: Path | io.BytesIO = Path(source.path)
    else:
        content = io.BytesIO(source.whole())
    try:
        lazy = pl.scan_parquet(content) if suffix == "parquet" else pl.scan_ipc(content)
        return _gathered(lazy, source.name, intake)
    except pl.exceptions.PanicException:  # a BaseException: damage that polars does not foresee
        raise InputError(
            source.name, "", f"it is damaged: polars fails to read it as {suffix}", "write the file again"
        ) from None
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        cause = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            source.name, "", f"it cannot be read as {suffix} ({cause})", "check the file"
        ) from None


_HUSHING = threading.Lock()


@contextmanager
def _hushed() -> Iterator[None]:
    """Keeps Rust's backtraces off standard error; its panics come as exceptions anyway."""
    with _HUSHING:  # of two threads, the second would restore what the first has redirected
        try:
            kept = os.dup(2)
        except OSError:  # it is closed
            yield
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(nowhere)


def _collected(lazy: pl.LazyFrame) -> pl.DataFrame:
    with _hushed():
        return lazy.collect()


def _gathered(lazy: pl.LazyFrame, source: str, intake: Intake) -> RawTable:
    """Returns the table in a lazy frame."""
    import polars as pl

    with _hushed():
        schema = lazy.collect_schema()
    require_distinct(schema.names(), source)
    gatherer = Gatherer(schema.names(), intake)
    wanted = [schema.names()[place] for place in gatherer.places]
    kinds = [schema[name] for name in wanted]
    for name, kind in zip(wanted, kinds, strict=True):
        if kind.is_nested() or kind in (pl.Binary, pl.Object):
            raise InputError(
                source,
                f"column '{name}'",
                f"values of type {kind} cannot be states",
                "leave it out with --drop, or write it as text",
            )
    real = [kind.is_float() or kind.is_decimal() for kind in kinds]
    labels = [_number_label if is_real else str for is_real in real]
    height = _collected(lazy.select(pl.len())).item()
    chosen = lazy.select(
        pl.col(name).cast(pl.Float64).fill_nan(None) if is_real else pl.col(name).cast(pl.String)
        for name, is_real in zip(wanted, real, strict=True)
    )
    for start in range(0, height, _ROWS):
        gatherer.add(_collected(chosen.slice(start, _ROWS)).get_columns(), labels)
    if not height or not wanted:
        raise InputError(source, "", "there are no rows", "give a table with rows")
    return gatherer.table(typed=True)


def _number_label(value: object) -> str:
    return repr(value).removesuffix(".0")
