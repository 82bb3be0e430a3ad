"""Parquet and Arrow files, and data frames: typed columns with nulls.

Polars scans them lazily and reads only the needed columns, a block of rows at a time. Packed files, and all
but regular files, are held in memory.
"""

from __future__ import annotations

import base64
import io
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from jtsolve.core.files import is_packed
from jtsolve.errors import InputError, name_list
from jtsolve.tables.forked import require_threads
from jtsolve.tables.frames import FRAME, Frame, columns_in, has_index, not_a_state, readable
from jtsolve.tables.gatherer import Gatherer, Intake
from jtsolve.tables.options import is_pattern
from jtsolve.tables.raw import require_distinct
from jtsolve.tables.values import kind_of_type, labels_of, text_label

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import polars as pl

    from jtsolve.tables.raw import RawTable
    from jtsolve.tables.source import Source
    from jtsolve.tables.values import ValueKind

_VALUES = 1 << 24
"""Maximum number of values converted to text at a time: a few tenths of a second of work, since polars cannot
be interrupted."""


def read_columnar(source: Source, suffix: str, intake: Intake) -> RawTable:
    """Returns the table in a file, or that of several Parquet files.

    Args:
        source: one or more files.
        suffix: of their format.
        intake: the memory limit.

    Raises:
        InputError: a file cannot be read, has other columns or types than the first, or a needed column is of
            a nested or binary type.
    """
    # Polars would expand a name that has the characters of a pattern.
    if len(source.files) > 1 or (
        source.files[0].is_file() and not is_pattern(source.name) and not is_packed(source.files[0])
    ):
        for _ in source.pieces():  # for the hash
            pass
        contents: list[Path | io.BytesIO] = list(source.files)
    else:
        contents = [io.BytesIO(source.whole())]
    names = [str(file) for file in source.files] if len(contents) > 1 else [source.name]
    lazies = []
    for name, content in zip(names, contents, strict=True):
        with readable(name, suffix):
            lazies.append(scanned(content, suffix))
    require_same_columns([(name, lazy.collect_schema()) for name, lazy in zip(names, lazies, strict=True)])
    with readable(source.name, suffix):
        return _gathered(lazies, source.name, intake)


def read_slice(path: Path, start: int, rows: int, intake: Intake) -> RawTable:
    """Returns consecutive rows of a Parquet file.

    Args:
        path: the file.
        start: the first row, from 0.
        rows: their number.
        intake: the memory limit.

    Raises:
        InputError: as `read_columnar`.
    """
    with readable(str(path), "parquet"):
        return _gathered([scanned(path, "parquet").slice(start, rows)], str(path), intake)


def scanned(content: Path | io.BytesIO, suffix: str) -> pl.LazyFrame:
    """Returns a file as a lazy frame, after reading its schema."""
    import polars as pl

    require_threads()
    content = _without_offsets(content, suffix)
    lazy = pl.scan_parquet(content, glob=False) if suffix == "parquet" else pl.scan_ipc(content)
    lazy.collect_schema()
    return lazy


_OFFSET = re.compile(rb"\x06\0\0\0[+-][0-9]{2}:[0-9]{2}\0")
"""An offset such as +05:30 as a text of Flatbuffers: its length, its characters, and a zero."""
_UTC = b"\x03\0\0\0UTC\0\0\0\0"
_TAIL = 10
"""Bytes at the end of an Arrow file: the length of its footer, and the six of its format."""


def _without_offsets(content: Path | io.BytesIO, suffix: str) -> Path | io.BytesIO:
    """Returns a file with UTC in place of offsets as time zones, which polars fails to read.

    The instants are in UTC already; only the schema of Arrow names their zone. It is in the footer; that of a
    Parquet file has it in base64.
    """
    import polars as pl

    if suffix == "parquet":
        schema = pl.read_parquet_metadata(content).get("ARROW:schema", "").encode()
        changed = base64.b64encode(_OFFSET.sub(_UTC, base64.b64decode(schema)))
    else:
        with content.open("rb") if isinstance(content, Path) else nullcontext(content) as stream:
            end = stream.seek(0, io.SEEK_END)
            stream.seek(max(0, end - _TAIL))
            stream.seek(max(0, end - _TAIL - int.from_bytes(stream.read(4), "little")))
            schema = stream.read()
        changed = _OFFSET.sub(_UTC, schema)
    if isinstance(content, io.BytesIO):
        content.seek(0)
    if changed == schema:
        return content
    before, _, after = (content.read_bytes() if isinstance(content, Path) else content.read()).rpartition(
        schema
    )
    return io.BytesIO(before + changed + after)


def height(lazy: pl.LazyFrame) -> int:
    """Returns the number of rows of a file, from its metadata."""
    import polars as pl

    return int(lazy.select(pl.len()).collect().item()) if lazy.collect_schema() else 0


def require_same_columns(schemas: Sequence[tuple[str, Mapping[str, object]]]) -> None:
    """Checks that all files have the same columns, of the same types, in any order.

    Raises:
        InputError: one differs from the first; names the file.
    """
    (first, expected), *others = schemas
    for name, schema in others:
        absent = [column for column in expected if column not in schema]
        more = [column for column in schema if column not in expected]
        changed = [column for column in expected if column in schema and schema[column] != expected[column]]
        if absent or more:
            reason = " and ".join(
                f"{word} {name_list(columns)}"
                for word, columns in (("there is no column", absent), ("there is a column", more))
                if columns
            )
        elif changed:
            column = changed[0]
            reason = f"'{column}' is of type {schema[column]}, but of type {expected[column]}"
        else:
            continue
        reason = f"{reason}, unlike in {first}"
        remedy = "give files of the same columns and types, or write this one again"
        raise InputError(name, "columns", reason, remedy)


def read_frame(data: Frame, intake: Intake) -> RawTable:
    """Returns the table in a data frame.

    Raises:
        InputError: it is not a frame, or a needed column cannot be read; see `frames.columns_in`.
    """
    with readable(FRAME, "a table"):
        found = columns_in(data, intake.wants)
        table = _gathered([found.frame.lazy()], FRAME, intake, found.kinds, found.observed)
    return replace(table, index=table.index or has_index(data))


def _gathered(
    lazies: Sequence[pl.LazyFrame],
    source: str,
    intake: Intake,
    kinds: Mapping[str, ValueKind | None] = MappingProxyType({}),
    observed: Collection[str] = (),
) -> RawTable:
    """Returns the table in lazy frames of the same columns and types; see `frames.Columns`."""
    import polars as pl

    schema = lazies[0].collect_schema()
    heights = [height(lazy) for lazy in lazies]
    if not any(heights):
        raise InputError(source, "", "there are no rows", "give a table with rows")
    stored = schema.names()
    names = list(map(text_label, stored))
    require_distinct(names, source, index=True)
    gatherer = Gatherer(names, intake)
    wanted = [stored[place] for place in gatherer.places]
    types = [schema[name] for name in wanted]
    for name, kind in zip(wanted, types, strict=True):
        if kind.is_nested() or kind in (pl.Binary, pl.Object):
            raise not_a_state(source, name, kind)
    chosen = [_readable(name, kind) for name, kind in zip(wanted, types, strict=True)]
    step = min(intake.blocks.rows, max(1, _VALUES // len(wanted)))
    for lazy, rows in zip(lazies, heights, strict=True):
        for start in range(0, rows, step):
            gatherer.add(lazy.select(chosen).slice(start, step).collect().get_columns())
    states = [
        tuple(labels_of(kind.categories)) if isinstance(kind, pl.Enum) and name not in observed else None
        for name, kind in schema.items()
    ]
    held = [kinds.get(name, kind_of_type(kind)) for name, kind in schema.items()]
    return gatherer.table(typed=True, states=states, kinds=held)


def _readable(name: str, kind: pl.DataType) -> pl.Expr:
    """Returns a column with null for missing values."""
    import polars as pl

    return pl.col(name).fill_nan(None) if kind.is_float() else pl.col(name)
