"""Data frames: one set of rules with files, on the way in and on the way out."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from readers import read_numbers, read_states

from jtsolve.errors import InputError
from jtsolve.models.columns import Column, RealColumn, columns_of, states_by_name
from jtsolve.models.rows import read_rows
from jtsolve.tables.frames import FrameStyle, columns_in
from jtsolve.tables.options import Coding, Habits
from jtsolve.tables.values import ColumnStates, label_of

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.tables.table import DataTable


class ArrowTable:
    """A table of another library, known by the Arrow protocol alone."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


COLUMNS: dict[str, list[Any]] = {
    "word": ["b", "a", "b", "naïve, quoted"],
    "flag": [True, False, True, True],
    "count": [10, 9, 10, 9],
    "part": [0.5, 1.5, 0.5, 2.5],
}
KINDS = {
    "pandas": pd.DataFrame(COLUMNS),
    "polars": pl.DataFrame(COLUMNS),
    "lazy": pl.LazyFrame(COLUMNS),
    "arrow": ArrowTable(pl.DataFrame(COLUMNS)),
    "lists": COLUMNS,
    "arrays": {name: np.array(column) for name, column in COLUMNS.items()},
    "series": {name: pd.Series(column) for name, column in COLUMNS.items()},
    "polars series": {name: pl.Series(column) for name, column in COLUMNS.items()},
    "objects": pd.DataFrame(COLUMNS).astype(object),
    "polars objects": {name: pl.Series(column, dtype=pl.Object) for name, column in COLUMNS.items()},
    "nullable": pd.DataFrame(COLUMNS).convert_dtypes(),
    "records": np.array(
        list(zip(*COLUMNS.values(), strict=True)),
        dtype=[("word", "U20"), ("flag", "?"), ("count", "i8"), ("part", "f8")],
    ),
}


def same(one: DataTable, other: DataTable) -> bool:
    return one.digest() == other.digest()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_and_its_file_give_the_same_table(kind: str, tmp_path: Path) -> None:
    pd.DataFrame(COLUMNS).to_csv(tmp_path / "data.csv", index=False)
    pl.DataFrame(COLUMNS).write_parquet(tmp_path / "data.parquet")
    table = read_states(KINDS[kind])
    assert table.states[:2] == (("a", "b", "naïve, quoted"), ("False", "True"))
    assert table.states[2:] == (("9", "10"), ("0.5", "1.5", "2.5"))
    assert same(table, read_states(tmp_path / "data.csv"))
    assert same(table, read_states(tmp_path / "data.parquet"))


def test_an_array_of_rows_and_columns_has_the_names_of_a_file_without_a_header() -> None:
    table = read_states(np.array([[1, 0], [2, 0], [2, 1]]))
    assert table.names == ("V1", "V2")
    assert table.states == (("1", "2"), ("0", "1"))


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.Categorical(["x", None, "y", "x"], categories=["z", "y", "x"])),
        pl.Series(["x", None, "y", "x"], dtype=pl.Enum(["z", "y", "x"])),
    ],
)
def test_declared_categories_are_the_states_in_their_order(column: Any) -> None:
    table = read_states({"a": column}, Coding(missing="drop-rows"))
    assert table.states == (("z", "y", "x"),)
    assert table.codes.tolist() == [[2, 1, 2]]


def test_categories_that_are_only_observed_are_ordered_like_words() -> None:
    column = pl.Series(["y", "x"], dtype=pl.Categorical)
    assert read_states(pl.DataFrame({"a": column})).states == (("x", "y"),)


def test_intervals_of_cut_are_states_in_order_and_come_out_as_intervals() -> None:
    frame = pd.DataFrame({"age": pd.cut(pd.Series([5, 45, 20, 45, 90]), [0, 18, 40, 60])})
    table = read_states(frame, Coding(missing="state"))
    assert table.states == (("(0, 18]", "(18, 40]", "(40, 60]", "?"),)
    states = states_by_name(columns_of(table))
    style = FrameStyle.of(frame, states)
    back = style.column("age", states["age"], np.asarray(table.codes[0]))
    pd.testing.assert_series_equal(back, frame["age"])


GAPPED: dict[str, Any] = {
    "floats": pd.Series([1.0, None, 2.0]),
    "objects": pd.Series([1, None, 2], dtype=object),
    "nullable": pd.Series([1, None, 2], dtype="Int64"),
    "arrow nulls": pl.Series([1, None, 2]),
    "NaN": np.array([1.0, np.nan, 2.0]),
    "polars NaN": pl.Series([1.0, float("nan"), 2.0]),
    "NA in objects": np.array([1, pd.NA, 2], dtype=object),
    "None in a list": [1, None, 2],
}


@pytest.mark.parametrize("kind", GAPPED)
def test_missing_values_are_refused_and_counted_in_the_words_for_files(kind: str, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a\n1\nNA\n2\n", encoding="utf-8")
    with pytest.raises(InputError) as of_file:
        read_states(tmp_path / "data.csv")
    with pytest.raises(InputError) as of_frame:
        read_states({"a": GAPPED[kind]})
    assert of_frame.value.reason == of_file.value.reason == "there are 1 in 'a'"
    assert of_frame.value.remedy == of_file.value.remedy
    assert read_states({"a": GAPPED[kind]}, Coding(missing="state")).states == (("1", "2", "?"),)


def test_chosen_words_for_missing_values_count_in_typed_columns_too() -> None:
    frame = {"a": ["x", "unknown", "?"], "n": [1.5, -9.0, 2.0]}
    assert read_states(frame).states == (("?", "unknown", "x"), ("-9", "1.5", "2"))
    coding = Coding(missing_values=("unknown", "-9"), missing="impute-mode")
    assert read_states(frame, coding).states == (("?", "x"), ("1.5", "2"))
    cut = [Column("n", ("low", "high"), (1.75,))]
    assert read_rows(frame, cut, habits=Habits(("-9",))).tolist() == [[0, -1, 1]]
    values = read_rows(frame, [RealColumn("n")], habits=Habits(("-9",)))
    assert np.array_equal(values, [[1.5, np.nan, 2.0]], equal_nan=True)


@pytest.mark.parametrize(
    "column",
    [
        pd.to_datetime(pd.Series(["2024-05-02", "2024-05-01", None])),
        pl.Series([dt.datetime(2024, 5, 2), dt.datetime(2024, 5, 1), None]),  # noqa: DTZ001 - as tables have them
        np.array(["2024-05-02", "2024-05-01", "NaT"], dtype="datetime64[s]"),
        [dt.date(2024, 5, 2), dt.date(2024, 5, 1), None],
        [pd.Timestamp("2024-05-02"), pd.Timestamp("2024-05-01"), pd.NaT],
    ],
)
def test_midnights_are_dates_as_in_the_file_that_pandas_writes(column: Any, tmp_path: Path) -> None:
    pd.DataFrame({"day": pd.to_datetime(["2024-05-02", "2024-05-01", None])}).to_csv(tmp_path / "data.csv")
    coding = Coding(missing="state")
    table = read_states({"day": column}, coding)
    assert table.states == (("2024-05-01", "2024-05-02", "?"),)
    assert same(table, read_states(tmp_path / "data.csv", coding))


def test_times_are_written_out() -> None:
    assert label_of(dt.datetime(2024, 5, 1, 13, 30)) == "2024-05-01 13:30:00"  # noqa: DTZ001
    assert label_of(pd.Timestamp("2024-05-01", tz="UTC")) == "2024-05-01 00:00:00+00:00"


def test_an_index_is_left_out_of_frames_and_files_and_the_provenance_says_so(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": ["x", "y"], "b": ["u, v", "w"]}, index=["first", "second"])
    frame.to_csv(tmp_path / "data.csv")
    plain = frame.reset_index(drop=True)
    plain.to_csv(tmp_path / "plain.csv")
    of_file, of_frame = read_states(tmp_path / "data.csv"), read_states(frame)
    assert of_file.names == of_frame.names == ("a", "b")
    assert same(of_file, of_frame)
    assert "index" in of_file.provenance
    assert "index" in of_frame.provenance
    assert same(read_states(tmp_path / "plain.csv"), of_file)
    assert same(read_states(pl.read_csv(tmp_path / "data.csv")), of_file)
    assert "index" not in read_states(plain).provenance
    kept = read_states(tmp_path / "data.csv", Coding(drop=("a",)))
    assert kept.names == ("b",)


def test_only_the_first_of_several_columns_may_lack_a_name(tmp_path: Path) -> None:
    for text in ("a,,b\n1,2,3\n", ",,b\n1,2,3\n"):
        (tmp_path / "data.csv").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=r"it is empty|occurs twice"):
            read_states(tmp_path / "data.csv")


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (3, "a value of type int is not a table"),
        (np.arange(3), "a value of type ndarray is not a table"),
        (pd.Series([1, 2]), "a value of type Series is not a table"),
        (pl.Series([1, 2]), "a value of type Series is not a table"),
        ({"a": [1, 2], "b": [1]}, "their lengths differ: 1, 2"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are called 'a'"),
        (pd.DataFrame([[1, 2]], columns=["a", ""]), "an empty name"),
        (pd.DataFrame([[1, 2]], columns=["a", None]), "an empty name"),
        ({"a": 1, "b": 2}, "column 'a': a value of type int is no column. Fix: give a list"),
        ({"a": {1, 2}}, "column 'a': a value of type set is no column"),
        ({"a": iter([1, 2])}, "column 'a': a value of type list_iterator is no column"),
        (pl.DataFrame({"a": [dt.date(1, 1, 1)]}).with_columns(pl.col("a") - pl.duration(days=9)), "year 0"),
        ({"a": {0: "x", 1: "y"}}, "column 'a': a value of type dict is no column"),
        ({"a": np.array(1)}, "column 'a': a value of type ndarray is no column"),
        ({"a": ["\ud800"]}, "column 'a': a text has half of a surrogate pair"),
        ({"a": np.array([b"x"], dtype="V1")}, "values of type void cannot be states"),
        ({"a": [b"x"]}, "values of type bytes cannot be states"),
        (pd.DataFrame({"a": [[1], [2]]}), "values of type list cannot be states"),
        ({"a": np.array([{1}, {2}])}, "values of type set cannot be states"),
        (pl.DataFrame({"a": [[1], [2]]}), r"values of type List\(Int64\) cannot be states"),
        (pd.DataFrame({"a": []}), "there are no rows"),
        (pd.DataFrame(), "there are no rows"),
        ({}, "there are no rows"),
        ({"a": np.linspace(0, 1, 50)}, "numbers with many distinct values are not states"),
        ({"a": [f"id{i}" for i in range(2000)]}, "it has 2000 distinct values"),
    ],
)
def test_data_that_cannot_be_read_are_refused_with_a_reason(data: Any, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        read_states(data)


def test_names_and_values_of_several_types_are_read_as_text() -> None:
    frame = pd.DataFrame({1: ["x", 2, 2.0, None], ("a", "b"): [True, "True", False, 0]})
    table = read_states(frame, Coding(missing="state"))
    assert table.names == ("1", "('a', 'b')")
    assert table.states == (("2", "x", "?"), ("0", "False", "True"))


def test_numbers_are_read_for_gaussian_scores() -> None:
    numbers = np.random.default_rng(0).normal(size=(5, 2))
    table = read_numbers(pd.DataFrame(numbers, columns=["a", "b"]))
    assert np.array_equal(table.values, numbers.T)


def test_rows_of_a_frame_are_coded_for_a_model() -> None:
    columns = (Column("a", ("False", "True")), Column("b", ("<= 1", "> 1"), cuts=(1.0,)))
    frame = pd.DataFrame({"b": [0.5, 7.0, None], "c": 1, "a": [True, None, False]})
    assert read_rows(frame, columns).tolist() == [[1, -1, 0], [0, 1, -1]]
    assert read_rows(frame, [RealColumn("b")])[0][:2].tolist() == [0.5, 7.0]
    with pytest.raises(InputError, match="the data frame: columns: there is none called 'b'"):
        read_rows(frame[["a"]], columns)
    with pytest.raises(InputError, match="the data frame: column 'a': 'maybe' is none of its states"):
        read_rows(frame.assign(a="maybe"), columns)


FORMS: dict[str, Any] = {
    **{kind: KINDS[kind] for kind in ("pandas", "polars", "nullable", "objects")},
    "categories": pd.DataFrame(COLUMNS).astype("category"),
    "times": pd.DataFrame({"t": pd.to_datetime(["2024-05-02", "2024-05-01"]), "n": [1, 2]}),
    "polars times": pl.DataFrame({"t": [dt.date(2024, 5, 2), dt.date(2024, 5, 1)], "n": [1.5, 2]}),
    "enum": pl.DataFrame({"e": pl.Series(["x", "y"], dtype=pl.Enum(["y", "x", "z"]))}),
}


@pytest.mark.parametrize("kind", FORMS)
def test_frames_come_out_as_they_came_in(kind: str) -> None:
    frame = FORMS[kind]
    table = read_states(frame)
    states = states_by_name(columns_of(table))
    style = FrameStyle.of(frame, states)
    columns = [
        style.column(name, one, np.asarray(codes))
        for (name, one), codes in zip(states.items(), table.codes, strict=True)
    ]
    back = style.frame(columns, frame)
    if isinstance(frame, pd.DataFrame):
        pd.testing.assert_frame_equal(back, frame)
    else:
        assert back.equals(frame)
        assert back.schema == frame.schema


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_ranges_and_missing_values_come_out_as_categories_and_nulls(kind: str) -> None:
    style = FrameStyle.of(KINDS[kind], {"count": ColumnStates(("9", "10"), "number")})
    part = style.column("part", ColumnStates(("<= 1", "> 1")), np.array([0, 1, -1]))
    assert columns_in({"part": part}).frame["part"].to_list() == ["<= 1", "> 1", None]
    states = ColumnStates(("a", "b", "?"), gap=True)
    word = FrameStyle.of(KINDS[kind], {"word": states}).column("word", states, np.array([1, 2, -1]))
    assert columns_in({"word": word}).frame["word"].to_list() == ["b", None, None]


def test_a_column_of_very_many_values_is_not_remembered() -> None:
    column = np.arange(1 << 17)
    assert FrameStyle.of({"a": column}, {"a": ColumnStates(("<= 1", "> 1"))}) == FrameStyle()


def test_columns_that_are_not_wanted_may_hold_anything() -> None:
    frame = pd.DataFrame({"a": ["x", "y"], "list": [[1], [2]], "bytes": [b"1", b"2"]})
    with pytest.raises(InputError, match="column 'list': values of type list cannot be states"):
        read_states(frame, Coding())
    with pytest.raises(InputError, match=r"column 'list': values of type List.*cannot be states"):
        read_states(pl.from_pandas(frame).to_pandas(use_pyarrow_extension_array=True), Coding())
    table = read_states(frame, Coding(drop=("list", "bytes")))
    assert table.names == ("a",)
    assert list(table.provenance["columns_dropped"]) == ["list", "bytes"]
    for rows in (frame, pl.DataFrame({"list": [[1], [2]], "a": ["x", "y"]})):
        assert read_rows(rows, [Column("a", ("x", "y"))]).tolist() == [[0, 1]]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_decimal_commas_in_columns_of_text_are_numbers_if_one_says_so(make: Any) -> None:
    frame = make({"price": ["1.234,5", "7", "0,25", None] * 10, "real": [1.25, 2.5, 3.75, 1.25] * 10})
    table = read_states(frame, Coding(decimal="comma", missing="drop-rows"))
    assert table.states == (("0.25", "7", "1234.5"), ("1.25", "2.5", "3.75"))
    assert table.provenance["decimal"] == "comma"
    words = read_states(frame, Coding(missing="drop-rows"))
    assert "1.234,5" in words.states[0]
    column = Column("price", ("<= 1", "> 1"), (1.0,))
    assert read_rows(frame[:3], [column], habits=Habits(decimal="comma")).tolist() == [[1, 1, 0]]
