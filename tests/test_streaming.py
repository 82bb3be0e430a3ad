"""Files read in blocks, equal rows merged: scores are bit-identical to those of files read whole."""

from __future__ import annotations

import gzip
import io
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers import read_numbers, read_states, tabulate

from jtsolve.core.run import Limits, Run
from jtsolve.errors import InputError, LimitError
from jtsolve.scoring.scores.bdeu import Bdeu
from jtsolve.tables.coding import to_mixed, to_numbers, to_states
from jtsolve.tables.distinct import DistinctRows, distinct_rows
from jtsolve.tables.options import Coding, Dialect, Discretisation
from jtsolve.tables.reading import read_checked, read_raw
from jtsolve.tables.source import Blocks, Lines, Source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jtsolve.tables.table import DataTable

SMALL = Blocks(size=50, values=9, rows=3, kept=10)
"""So small that every file of the tests comes in many pieces."""
FEW_KEPT = Blocks(kept=10)

NAMES = ("a", "b", "x", "w", "id")


def frame(rows: int, seed: int) -> pl.DataFrame:
    generator = np.random.default_rng(seed)
    a = generator.integers(0, 3, rows)
    columns: dict[str, Any] = {
        "a": [None if v == 2 and i % 5 == 0 else f"s{v}" for i, v in enumerate(a.tolist())],
        "b": generator.integers(0, 2, rows),
        "x": np.round(a + generator.normal(size=rows), 1),
        "w": generator.integers(0, 4, rows),
        "id": np.arange(rows),
    }
    return pl.DataFrame(columns)


def written(data: pl.DataFrame, ending: str) -> bytes:
    buffer = io.BytesIO()
    if ending == "parquet":
        data.write_parquet(buffer, row_group_size=11)
    elif ending == "arrow":
        data.write_ipc(buffer)
    elif ending == "arff":
        kinds = {"a": "{s0,s1,s2}", "x": "real"}
        head = [f"@attribute {name} {kinds.get(name, 'integer')}" for name in data.columns]
        rows = [",".join("?" if v is None else str(v) for v in row) for row in data.iter_rows()]
        return "\n".join(["@relation r", *head, "@data", *rows]).encode()
    else:
        marks = {"tsv": "\t", "txt": " "}
        style: Any = "non_numeric" if ending == "quoted.csv" else "never"
        data.write_csv(buffer, separator=marks.get(ending, ","), quote_style=style, null_value="?")
    text = buffer.getvalue()
    return gzip.compress(text) if ending.endswith(".gz") else text


CODINGS = (
    Coding(drop=("id", "x"), missing="state"),
    Coding(drop=("id",), missing="drop-rows", discretise=Discretisation("quantile", 3), weights="w"),
    Coding(columns=("x", "a"), missing="impute-mode", discretise=Discretisation("width", 4)),
    Coding(drop=("id",), missing="impute-mode", discretise=Discretisation("mdlp", by="b"), weights="w"),
    Coding(drop=("id", "a", "w"), discretise=Discretisation("mdlp", by="a")),
)


def scores_of(table: DataTable) -> bytes:
    return tabulate(table, Bdeu(), table.n).values.tobytes()


@pytest.mark.parametrize(
    "ending", ["csv", "csv.gz", "quoted.csv", "tsv", "txt", "arff", "parquet", "arrow", "parquet.gz"]
)
def test_small_pieces_change_no_bit_of_the_scores(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{ending}"
    content = written(frame(160, 1), ending.removesuffix(".gz") if "parquet" in ending else ending)
    path.write_bytes(gzip.compress(content) if ending == "parquet.gz" else content)
    codings = CODINGS if ending in {"csv", "parquet"} else CODINGS[:2]  # cells are coded after the reading
    for coding in codings:
        expected, table = read_states(path, coding), read_states(path, coding, blocks=SMALL)
        assert (table.names, table.states) == (expected.names, expected.states)
        assert dict(table.provenance) == dict(expected.provenance)
        assert table.total == expected.total
        assert table.rows < expected.rows, "rows were merged"
        assert distinct_rows(table).digest() == distinct_rows(expected).digest()
        assert scores_of(table) == scores_of(expected)


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(
        st.tuples(*[st.sampled_from(["0", "1", "2", "?", " x ", "10"])] * 3), min_size=1, max_size=60
    ),
    piece=st.integers(1, 40),
)
def test_any_text_in_any_pieces_gives_the_same_scores(
    rows: list[tuple[str, ...]], piece: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_text("a,b,c\n" + "".join(",".join(row) + "\n" for row in rows))
    coding = Coding(missing_values=())
    expected = read_states(path, coding)
    table = read_states(path, coding, blocks=Blocks(size=piece, kept=piece // 4))
    assert table.states == expected.states
    assert scores_of(table) == scores_of(expected)


def test_rows_that_all_differ_need_no_weights(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{i // 20},{i % 20}\n" for i in range(400)))
    expected = read_states(path)
    table = read_states(path, blocks=FEW_KEPT)
    assert table.weights is None
    assert table.digest() == expected.digest()


def test_many_labels_widen_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    values = np.random.default_rng(0).integers(0, 70_000, 90_000)
    path.write_text("a,b\n" + "".join(f"s{value},{value % 2}\n" for value in values.tolist()))
    coding = Coding(max_states=10**6)
    expected = distinct_rows(read_states(path, coding))
    table = read_states(path, coding, blocks=Blocks(size=20_000, kept=10))
    assert table.digest() == expected.digest()
    assert table.weights is not None
    assert table.weights.max() > 1


def test_columns_that_are_left_out_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    data = frame(100, 2).with_columns(pl.Series("list", [[i] for i in range(100)]))
    data.write_parquet(path)
    table = read_states(path, Coding(columns=("b",)), blocks=FEW_KEPT)
    assert table.rows == 2, "row numbers and lists would keep all rows apart, and be refused"
    assert table.provenance["columns_dropped"] == ["a", "x", "w", "id", "list"]
    with pytest.raises(InputError, match="column 'list': values of type List"):
        read_states(path)
    with pytest.raises(InputError, match="none is left"):
        read_states(path, Coding(drop=tuple(data.columns)))


def test_files_whose_names_are_patterns_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t[1]*.parquet"
    frame(20, 3).write_parquet(path)
    assert read_states(path, Coding(columns=("b",))).total == 20


def test_numbers_keep_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + 30 * "1,2\n2,1\n")
    assert read_numbers(path, blocks=FEW_KEPT).digest() == read_numbers(path).digest()


def test_lines_may_end_in_any_way_and_at_any_piece(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    text = "\ufeffa,ü\r\nx,1\r\n\r\ny,€\r\nz,3"
    expected = None
    for piece in range(1, 12):
        for end in ("\r\n", "\r", "\n"):
            path.write_bytes(text.replace("\r\n", end).encode())
            table = replace(read_states(path, blocks=Blocks(size=piece)), provenance={})
            expected = expected or table.digest()
            assert table.names == ("a", "ü")
            assert table.digest() == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n" + 20 * b"1,2\n" + b"1\n", "line 22: it has 1 values"),
        (b"a,b\n" + 20 * b"1,2\n" + b'"1",2\n"3"\n', "line 23: it has 1 values"),
        (b"a,b\n" + 20 * b"1,2\n" + b'"1\n', "line 22: the quotes do not close"),
        (b"a,b\n" + 20 * b"1,2\n" + b"\xe9,1\n", "line 22: a byte is not UTF-8"),
        (b"a,b\n" + 20 * b"1,2\n" + b"\0,1\n", "line 22: there are control characters"),
        (b" \n" * 40, "only blanks"),
    ],
)
def test_faults_in_later_pieces_are_reported_with_their_line(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_states(path, blocks=Blocks(size=5))


def test_lines_without_end_and_files_that_cannot_be_read_in_pieces_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a" * 500)
    with pytest.raises(InputError, match="line 1: it is longer than 0 MiB"):
        next(Lines(Source(path), size=64, longest=100))
    packed = tmp_path / "t.parquet"
    packed.write_bytes(gzip.compress(written(frame(100, 0), "parquet")))
    with pytest.raises(InputError, match="decompressed, and its format cannot be streamed"):
        Source(packed).whole(most=100)
    path.write_text("a,b\n" + 500 * "1,2\n")
    assert sum(piece.count(b"\n") for _, piece in Lines(Source(path), size=64, longest=100)) == 501


class LimitedRun(Run):
    """Refuses to continue after some questions, and records them."""

    def __init__(self, patience: int) -> None:
        super().__init__()
        self.patience = patience
        self.asked: list[tuple[str, int]] = []
        self.warned: list[object] = []

    def require_memory(self, size: int, what: str, remedies: str) -> None:
        self.asked.append((what, size))
        if len(self.asked) > self.patience:
            raise LimitError("enough")
        super().require_memory(size, what, remedies)

    def warn(self, title: str, findings: Sequence[object]) -> None:
        self.warned += [title, *findings]


def test_the_run_is_polled_for_rows_and_memory_and_may_end_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    frame(200, 0).write_csv(path)
    coding, run = Coding(missing="state", states=("x",)), LimitedRun(10**9)
    read_states(path, coding, run=run, blocks=SMALL)
    assert max(size for _, size in run.asked) > 100 * 5
    with pytest.raises(LimitError, match="enough"):
        read_states(path, coding, run=LimitedRun(len(run.asked) - 1), blocks=SMALL)
    late = Run(Limits(1.0, started=monotonic() - 2))
    with pytest.raises(LimitError, match=r"the time limit ended the reading of .*t\.csv after 0 rows"):
        read_states(path, coding, run=late, blocks=SMALL)


@pytest.mark.parametrize("code", [to_states, to_numbers, to_mixed])
def test_the_coding_is_polled_for_each_column(code: Any) -> None:
    raw, polls = read_raw(pl.DataFrame({"a": [0, 1, 1], "b": [1, 0, 1], "c": [1, 2, 3]})), iter(range(2))
    with pytest.raises(StopIteration):
        code(raw, Coding(), "t.csv", polls.__next__)


def test_the_run_is_polled_before_columns_of_longer_cells_and_the_data_check(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n10,11,11\n11,10,11\n")
    run = LimitedRun(3)
    with pytest.raises(LimitError, match="enough"):
        read_checked(path, Coding(), Dialect(), run=run)
    assert not run.warned


def test_rows_are_counted_over_many_merges() -> None:
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 300, (2, 3000))
    weights = generator.integers(1, 5, 3000)
    rows = DistinctRows(least=150)
    for start in range(0, 3000, 100):
        part = slice(start, start + 100)
        rows.add(list(codes[:, part].astype(np.int16 if start < 500 else np.int32)), weights[part])
    found, times = rows.distinct_rows()
    expected: dict[tuple[int, ...], int] = {}
    for row, weight in zip(codes.T.tolist(), weights.tolist(), strict=True):
        expected[tuple(row)] = expected.get(tuple(row), 0) + weight
    assert list(map(tuple, np.transpose(found).tolist())) == list(expected)
    assert times.tolist() == list(expected.values())
