"""Folders and patterns of Parquet files: one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest
from readers import read_states

from jtsolve.errors import InputError
from jtsolve.tables.options import Coding
from jtsolve.tables.source import files_of

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pl.DataFrame({"a": ["x", "y", None, "x", "z"], "b": [1, 2, 2, 1, 1]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five rows in three files, the second without any; two would change places in the order of letters."""
    place = tmp_path / "rows"
    place.mkdir()
    for name, start, count in (("part.2", 0, 3), ("part.3", 3, 0), ("part.10", 3, 2)):
        ROWS.slice(start, count).write_parquet(place / f"{name}.parquet")
    ROWS.write_parquet(tmp_path / "whole.parquet")
    return place


@pytest.mark.parametrize("pattern", ["", "*.parquet", "part.[0-9]*.parquet"])
def test_a_folder_and_a_pattern_mean_their_files_in_natural_order(folder: Path, pattern: str) -> None:
    coding = Coding(missing="state")
    whole = read_states(folder.parent / "whole.parquet", coding)
    parts = read_states(folder / pattern, coding)
    assert parts.digest() == whole.digest()
    assert parts.provenance["rows"] == 5
    assert parts.provenance["sha256_unpacked"] != whole.provenance["sha256_unpacked"]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (pl.DataFrame({"a": ["x"]}), "no column 'b', unlike in .*part.2.parquet"),
        (ROWS.with_columns(c=1), "a column 'c', unlike"),
        (ROWS.cast({"b": pl.Float64}), "'b' is of type Float64, but of type Int64, unlike"),
    ],
)
def test_a_file_of_other_columns_or_types_is_named(folder: Path, other: pl.DataFrame, words: str) -> None:
    other.write_parquet(folder / "part.7.parquet")
    with pytest.raises(InputError, match=f"part.7.parquet: columns: .*{words}"):
        read_states(folder)


def test_folders_without_parquet_and_damaged_parts_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no Parquet file"):
        read_states(tmp_path / "*" / "x*.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="there is no Parquet file"):
        files_of(tmp_path / "empty")
    (folder / "part.4.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"part.4.parquet: it cannot be read as parquet"):
        read_states(folder)
