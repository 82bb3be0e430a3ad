"""Reads the columns of a data file or frame as states, without the data check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jtsolve.tables.options import Coding, Dialect
from jtsolve.tables.reading import read_checked
from jtsolve.tables.source import BLOCKS, Blocks
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.core.run import Run
    from jtsolve.tables.frames import Frame

PLAIN = Coding()


def read_states(
    data: str | Path | Frame,
    coding: Coding = PLAIN,
    *,
    header: bool = True,
    separator: str | None = None,
    run: Run | None = None,
    blocks: Blocks = BLOCKS,
) -> DataTable:
    """Returns the table in a file or frame."""
    table = read_checked(data, coding, Dialect(header, separator), kinds=(), run=run, blocks=blocks)
    assert isinstance(table, DataTable)
    return table
