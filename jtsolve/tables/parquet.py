"""Parquet and Arrow files, and data frames: typed columns with nulls.

Polars scans them lazily, reading only the needed columns, a block of rows at a time. Gzipped files, and
anything that is not a regular file, are held in memory.
"""

from __future__ import annotations

import io
import os
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from jtsolve.core.files import is_packed
from jtsolve.errors import InputError
from jtsolve.tables.frames import FRAME, Frame, has_index, label_of, not_a_state, polars_frame
from jtsolve.tables.gatherer import Gatherer, Intake
from jtsolve.tables.raw import require_distinct

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from jtsolve.tables.raw import RawTable
    from jtsolve.tables.source import Source

_PATTERN = frozenset("*?[")
_ROWS = 1 << 19
"""Most rows converted to text at a time."""
_VALUES = 1 << 24
"""Most values, some tenths of a second of work: polars cannot be stopped."""


def read_columnar(source: Source, suffix: str, intake: Intake) -> RawTable:
    """Returns the table in a file.

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
    """Keeps the backtraces of Rust's panics off standard error; the panics come as exceptions anyway.

    Polars has no option for it, and Python cannot set Rust's panic hook. So standard error of the whole
    process is redirected; what other threads write meanwhile follows at the end, unless polars panicked.
    """
    import polars as pl

    with _HUSHING:  # of two threads, the second would restore what the first has redirected
        try:
            kept = os.dup(2)
        except OSError:  # it is closed
            yield
            return
        with TemporaryFile() as said:
            panicked = False
            try:
                os.dup2(said.fileno(), 2)
                yield
            except pl.exceptions.PanicException:
                panicked = True
                raise
            finally:
                os.dup2(kept, 2)
                os.close(kept)
                said.seek(0)
                if not panicked and (text := said.read()):
                    os.write(2, text)


def _collected(lazy: pl.LazyFrame) -> pl.DataFrame:
    with _hushed():
        return lazy.collect()


def read_frame(data: Frame, intake: Intake) -> RawTable:
    """Returns the table in a data frame.

    Raises:
        InputError: it is no frame, or a needed column cannot be read; see `frames.polars_frame`.
    """
    table = _gathered(polars_frame(data).lazy(), FRAME, intake)
    return replace(table, index=table.index or has_index(data))


def _gathered(lazy: pl.LazyFrame, source: str, intake: Intake) -> RawTable:
    """Returns the table in a lazy frame."""
    import polars as pl

    with _hushed():
        schema = lazy.collect_schema()
    height = _collected(lazy.select(pl.len())).item() if schema else 0
    if not height:
        raise InputError(source, "", "there are no rows", "give a table with rows")
    require_distinct(schema.names(), source, index=True)
    gatherer = Gatherer(schema.names(), intake)
    wanted = [schema.names()[place] for place in gatherer.places]
    kinds = [schema[name] for name in wanted]
    for name, kind in zip(wanted, kinds, strict=True):
        if kind.is_nested() or kind in (pl.Binary, pl.Object):
            raise not_a_state(source, name, kind)
    chosen = lazy.select(_readable(name, kind) for name, kind in zip(wanted, kinds, strict=True))
    rows = min(_ROWS, max(1, _VALUES // len(wanted)))
    for start in range(0, height, rows):
        gatherer.add(_collected(chosen.slice(start, rows)).get_columns(), label_of)
    states = [
        tuple(kind.categories.to_list()) if isinstance(kind, pl.Enum) else None for kind in schema.values()
    ]
    return gatherer.table(typed=True, states=states)


def _readable(name: str, kind: pl.DataType) -> pl.Expr:
    """Returns a column as numbers, booleans, times or text."""
    import polars as pl

    if kind.is_float() or kind.is_decimal():
        return pl.col(name).cast(pl.Float64).fill_nan(None)
    return pl.col(name).cast(pl.String) if isinstance(kind, pl.Enum | pl.Categorical) else pl.col(name)
