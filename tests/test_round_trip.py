"""The law of values: an input value comes out, is accepted again, and means the same; or it is refused.

Values of every type go through every container, into a model, through its file, and through query, evidence,
sample, predict and impute. The reference is a count of the values themselves, equal as Python has it.
"""

from __future__ import annotations

import datetime as dt
import enum
import gzip
import io
import json
import os
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from math import inf, log
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jtsolve as jt
from jtsolve.cli import run
from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.tables import rows_in_format
from jtsolve.networks.network import Network, NetworkNode
from jtsolve.networks.write import to_bif
from jtsolve.networks.xmlbif import to_bifxml

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

    from hypothesis.strategies import DataObject, SearchStrategy

pytestmark = pytest.mark.filterwarnings("ignore::pandas.errors.PerformanceWarning")

CODES = ["01067", "1067", "1.1", "1.10", "1_2", "12", "-0", "0", "+5", "5", "1e3", "1000", "٣", "3", "0.50"]
WORDS = [
    "TRUE",
    "True",
    "true",
    "NA",
    "?",
    "None",
    "nan",
    "#N/A",
    "yes",
    "yes ",
    " a b",
    'é, "x"',
    "2024-05-01",
]
WHOLE = st.integers(-(2**40), 2**40)
FRACTIONS = st.floats(-1e6, 1e6, width=64)
EDGES = st.sampled_from([123456792.0, float(np.finfo(np.float32).max)])
SINGLE = st.one_of(st.floats(-1e4, 1e4, width=32), EDGES).map(np.float32)
OFFSET = dt.timezone(dt.timedelta(hours=5, minutes=30))
MOMENTS = st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2030, 1, 1))  # noqa: DTZ001 - as tables have them
SECONDS = MOMENTS.map(lambda moment: moment.replace(microsecond=0))

TYPES: dict[str, SearchStrategy[Any]] = {
    "whole numbers": WHOLE,
    "small numbers": st.integers(-2, 3),
    "fractions": FRACTIONS,
    "halves": st.sampled_from([-0.5, 0.0, -0.0, 0.5, 1.0, 1.5]),
    "single precision": SINGLE,
    "decimals": st.decimals(-100, 100, places=2),
    "decimals of many digits": st.decimals(-2, 2, places=20),
    "unsigned numbers": st.integers(2**63, 2**64 - 1),
    "large numbers": st.integers(2**64, 2**70),
    "numbers and infinities": st.sampled_from([inf, -inf, 0.5, 1.0, 1e300]),
    "booleans": st.booleans(),
    "codes": st.sampled_from(CODES),
    "words": st.sampled_from(WORDS),
    "texts": st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=4),
    "dates": st.dates(dt.date(1990, 1, 1), dt.date(2030, 1, 1)),
    "times": SECONDS,
    "times of day": st.times(),
    "times to the microsecond": MOMENTS,
    "instants": SECONDS.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    "instants with an offset": SECONDS.map(lambda moment: moment.replace(tzinfo=OFFSET)),
    "durations": st.timedeltas(dt.timedelta(-9), dt.timedelta(9)),
    "mixtures": st.sampled_from([1, "1", "01", True, "True", "x", 0, 1.0, 2.5, "2.50"]),
}


def meaning(value: Any) -> Hashable:
    """Returns what makes a value itself: blanks around a text do not, a midnight is a date."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, np.float32):
        return float(str(value))
    if isinstance(value, dt.datetime) and value.tzinfo is None and value.time() == dt.time():
        return value.date()
    found: Hashable = value
    return found


def mixed(value: Any) -> Hashable:
    """The same in a column of several types: all are texts."""
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return str(value).strip()


def of_pandas(columns: dict[str, list[Any]]) -> pd.DataFrame:
    kinds = {name: set(map(type, column)) for name, column in columns.items()}
    return pd.DataFrame(
        {
            name: np.array(column)
            if kinds[name] == {np.float32}
            else pd.Series(column, dtype=plain(kinds[name]))
            for name, column in columns.items()
        }
    )


def plain(kinds: set[type]) -> Any:
    return None if len(kinds) == 1 else object


def of_polars(columns: dict[str, list[Any]]) -> pl.DataFrame:
    single = {name for name, column in columns.items() if isinstance(column[0], np.float32)}
    return pl.DataFrame({name: np.array(one) if name in single else one for name, one in columns.items()})


TYPED: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": of_pandas,
    "objects of pandas": lambda columns: pd.DataFrame(columns, dtype=object),
    "nullable": lambda columns: of_pandas(columns).convert_dtypes(),
    "categories": lambda columns: of_pandas(columns).astype("category"),
    "polars": of_polars,
    "arrow": lambda columns: of_polars(columns).to_arrow(),
    "dictionary": dict,
}
TEXTS: dict[str, Callable[[dict[str, list[Any]]], bytes]] = {
    "file of pandas": lambda columns: of_pandas(columns).to_csv(index=False).encode(),
    "file of polars": lambda columns: of_polars(columns).write_csv().encode(),
}
CONTAINERS = (*TYPED, "parquet", *TEXTS)
OBJECTS = ("objects of pandas", "dictionary")
"""Containers of mixtures."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def contained(container: str, columns: dict[str, list[Any]], folder: Path) -> Any:
    """Returns columns in a container; a file has a new name."""
    if container in TYPED:
        return TYPED[container](columns)
    suffix = "parquet" if container == "parquet" else "csv"
    path = folder / f"{len(list(folder.iterdir()))}.{suffix}"
    if container == "parquet":
        of_polars(columns).write_parquet(path)
    else:
        path.write_bytes(TEXTS[container](columns))
    return path


def drawn_columns(data: DataObject, kind: str) -> dict[str, list[Any]]:
    """Returns a column x of some type, and one of texts."""
    values = data.draw(st.lists(TYPES[kind], min_size=1, max_size=4), label="values")
    rows = data.draw(st.lists(st.sampled_from(values), min_size=2, max_size=9), label="rows")
    others = data.draw(st.lists(st.sampled_from("uv"), min_size=len(rows), max_size=len(rows)), label="y")
    return {"x": rows, "y": others}


def containers(data: DataObject, kind: str, label: str = "container") -> str:
    choices = OBJECTS if kind == "mixtures" else CONTAINERS
    if kind == "durations":  # polars writes none into text
        choices = choices[:-1]
    if kind == "large numbers":  # Arrow has none of 128 bits
        choices = tuple(one for one in choices if one not in ("arrow", "parquet"))
    return data.draw(st.sampled_from(choices), label=label)


def fitted(source: Any, **options: Any) -> jt.Model:
    return jt.fit(
        source, treewidth=1, require=[("x", "y")], smoothing=0, backend="chowliu", max_states=50, **options
    )


def reread(model: jt.Model, folder: Path) -> jt.Model:
    model.write(folder / "model.json")
    found = jt.Model.read(folder / "model.json")
    (folder / "model.json").unlink()
    return found


def learned(container: str, columns: dict[str, list[Any]], kind: str, folder: Path) -> list[jt.Model]:
    """Returns the model of columns, and itself from a file; none where words of a text are missing values."""
    try:
        model = fitted(contained(container, columns, folder))
    except InputError:
        assert container in TEXTS
        assert kind in ("words", "texts")
        return []
    return [model, reread(model, folder)]


def logs(columns: dict[str, list[Any]]) -> list[float]:
    """Returns ln P of each row by counting the rows that mean the same."""
    several = len(set(map(type, columns["x"]))) > 1
    rows = [((mixed if several else meaning)(x), y) for x, y in zip(*columns.values(), strict=True)]
    times = Counter(rows)
    return [log(times[row] / len(rows)) for row in rows]


LAW = settings(max_examples=8, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("kind", TYPES)
@LAW
@given(data=st.data())
def test_rows_have_the_likelihood_of_the_values_in_them_in_any_container(
    kind: str, data: DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("law")
    columns = drawn_columns(data, kind)
    first, asked = containers(data, kind, "learned"), containers(data, kind, "asked")
    expected = logs(columns)
    for one in learned(first, columns, kind, folder):
        assert np.allclose(one.loglik(contained(first, columns, folder)), expected, rtol=0, atol=1e-12)
        try:
            found = one.loglik(contained(asked, columns, folder))
        except InputError:
            assert first in TEXTS or asked in TEXTS
            assert kind not in (
                "whole numbers",
                "small numbers",
                "booleans",
                "dates",
                "times",
                "times of day",
                "decimals",
            )
        else:
            assert np.allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", TYPES)
@LAW
@given(data=st.data())
def test_answers_of_a_query_are_accepted_as_evidence(
    kind: str, data: DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("law")
    columns = drawn_columns(data, kind)
    for one in learned(containers(data, kind), columns, kind, folder):
        shown = one.query(["x", "y"])
        values, others, shares = (list(shown[name]) for name in shown.columns)
        alone = one.query("x")["probability"].to_numpy()
        assert len(set(map(str, values))) == len(alone)
        for value, other, share in zip(values, others, shares, strict=True):
            answer = one.query("y", given={"x": value})
            p = dict(zip(answer["y"], answer["probability"], strict=True))[other]
            place = list(map(repr, one.query("x")["x"])).index(repr(value))  # True is 1
            assert p * alone[place] == pytest.approx(share)


@pytest.mark.parametrize("kind", TYPES)
@LAW
@given(data=st.data())
def test_a_sample_reads_back_as_it_was_drawn(
    kind: str, data: DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("law")
    columns = drawn_columns(data, kind)
    for one in learned(containers(data, kind), columns, kind, folder):
        drawn = one.model.sample(8, 3)
        expected = one.model.log_likelihood(drawn)
        assert np.array_equal(one.loglik(one.sample(8, seed=3)), expected)
        csv, parquet = folder / "sample.csv", folder / "sample.parquet"
        csv.write_bytes(rows_in_format(one.model, drawn, "csv"))
        parquet.write_bytes(rows_in_format(one.model, drawn, "parquet"))
        assert np.array_equal(one.loglik(csv), expected)
        assert np.array_equal(one.loglik(parquet), expected)


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind != "mixtures"])
@LAW
@given(data=st.data())
def test_values_come_back_as_they_went_in(
    kind: str, data: DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("law")
    columns = drawn_columns(data, kind)
    frame = TYPED[
        data.draw(st.sampled_from(["pandas", "objects of pandas", "nullable", "categories", "polars"]))
    ](columns)
    model = fitted(frame)
    asked = frame.with_columns(y=pl.lit(None)) if isinstance(frame, pl.DataFrame) else frame.assign(y=None)
    for one in (model, reread(model, folder)):
        filled = one.impute(asked)
        assert list(map(meaning, filled["x"])) == list(map(meaning, frame["x"]))
        assert filled["x"].dtype == frame["x"].dtype
        best = one.predict(frame.drop("x") if isinstance(frame, pl.DataFrame) else frame[["y"]], "x")
        for value in best:
            assert one.query("y", given={"x": value})["probability"].sum() == pytest.approx(1)


# The situations that users met: the right values were derived by hand.


VISITS = "visits,answer\n" + "1.0,u\n" * 5 + "1.0,v\n0.0,u\n" + "0.0,v\n" * 5
FLAGS = "flag,group\n" + "TRUE,a\n" * 6 + "FALSE,a\nTRUE,b\n" + "FALSE,b\n" * 6
GAPPY = (
    "x,y\n"
    + "yes,a\n" * 6
    + "no,b\n" * 6
    + "yes,NULL\nno,None\nyes,n/a\nno,<NA>\nyes,#N/A\nno,-nan\nyes,NaN\nno,\n"
)


def of_text(text: str, folder: Path, **options: Any) -> jt.Model:
    (folder / "data.csv").write_text(text, encoding="utf-8")
    return jt.fit(folder / "data.csv", treewidth=1, smoothing=0, **options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [(VISITS, 10 * log(5 / 12) + 2 * log(1 / 12)), (FLAGS, 12 * log(3 / 7) + 2 * log(1 / 14))],
)
def test_a_table_is_the_same_as_a_file_and_as_a_frame(text: str, expected: float, folder: Path) -> None:
    frame = pd.read_csv(io.StringIO(text))
    pl.from_pandas(frame).write_parquet(folder / "data.parquet")
    (folder / "data.csv").write_text(text, encoding="utf-8")
    forms = [frame, pl.from_pandas(frame), folder / "data.csv", folder / "data.parquet"]
    for learned in forms:
        model = jt.fit(learned, treewidth=1, smoothing=0)
        for one in (model, reread(model, folder)):
            first, *others = (np.array(one.loglik(asked)) for asked in forms)
            assert first.sum() == pytest.approx(expected)
            assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize("value", [0, 0.0, "0.0", np.float32(0), Decimal(0), "00"])
def test_numbers_are_equal_as_numbers(value: Any, folder: Path) -> None:
    answer = of_text(VISITS, folder).query("answer", given={"visits": value})
    assert dict(zip(answer["answer"], answer["probability"], strict=True))["v"] == pytest.approx(5 / 6)


@pytest.mark.parametrize("learned", CONTAINERS)
def test_the_zero_of_a_float_has_no_sign(learned: str, folder: Path) -> None:
    columns: dict[str, list[Any]] = {"x": [-0.0, -0.0, 1.0, 0.0], "y": ["u", "v", "v", "u"]}
    model = fitted(contained(learned, columns, folder))
    for asked in CONTAINERS:
        assert np.allclose(model.loglik(contained(asked, columns, folder)), logs(columns))


def test_a_number_that_half_precision_has_too_is_the_one_that_is_shown() -> None:
    columns: dict[str, Any] = {"x": np.array([2**-14, 0.5, 0.5], dtype=np.float32), "y": ["u", "v", "v"]}
    answer = fitted(columns).query("y", given={"x": 2**-14})
    assert dict(zip(answer["y"], answer["probability"], strict=True))["u"] == pytest.approx(1)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, dict])
def test_a_number_of_half_precision_is_the_one_that_is_shown(make: Any, folder: Path) -> None:
    columns: dict[str, Any] = {"x": np.array([0.1, 65504, 0.1], dtype=np.float16), "y": ["u", "v", "v"]}
    model = fitted(make(columns))
    for one in (model, reread(model, folder)):
        for asked in (make(columns), dict(columns), {**columns, "x": [0.1, 65504, "0.10"]}):
            assert np.allclose(one.loglik(asked), log(1 / 3))


@pytest.mark.parametrize("kind", ["int64", "float16", "bool", "timedelta64[s]", ">f4", "U1"])
def test_masked_cells_of_arrays_are_missing_values_of_every_type(kind: str) -> None:
    cells = np.ma.array(np.array([1, 0, 1, 0]).astype(kind), mask=[True, False, False, False])
    array = {"x": cells, "y": list("uvuv")}
    frame = pd.DataFrame({"x": pd.Series(cells[1:].data), "y": list("vuv")})
    for learned in (array, frame):
        assert np.allclose(fitted(learned, missing="drop-rows").loglik(frame), np.log([2 / 3, 1 / 3, 2 / 3]))


@pytest.mark.parametrize("value", [1, "1", "yes", 1.0])
def test_truth_values_are_no_numbers(value: Any, folder: Path) -> None:
    model = of_text(FLAGS, folder)
    with pytest.raises(InputError, match=f"'flag': it has no state '{str(value).removesuffix('.0')}'"):
        model.query("group", given={"flag": value})
    for same in (True, np.bool_(1), "TRUE", "true", "True"):
        assert model.query("group", given={"flag": same})["probability"].to_list() == pytest.approx(
            [6 / 7, 1 / 7]
        )


def test_codes_stay_apart_and_a_number_that_may_be_two_of_them_is_refused(folder: Path) -> None:
    text = "code,kind\n" + "01067,a\n1067,b\n99084,a\n" * 4
    model = of_text(text, folder)
    for one in (model, reread(model, folder)):
        assert one.query("code")["code"].to_list() == ["01067", "1067", "99084"]
        assert one.query("code")["probability"].to_list() == pytest.approx([1 / 3] * 3)
        with pytest.raises(InputError, match="the number 1067"):
            one.loglik(pd.read_csv(folder / "data.csv"))
        with pytest.raises(InputError, match="several that are the number 1067"):
            one.query(given={"code": 1067})
    alone = of_text(text.replace("1067,b", "04109,b").replace("004109", "04109"), folder)
    assert alone.loglik(pd.read_csv(folder / "data.csv")).sum() == pytest.approx(12 * log(1 / 3))


def test_words_for_a_missing_value_are_those_of_the_programs_that_write_files(folder: Path) -> None:
    (folder / "data.csv").write_text(GAPPY, encoding="utf-8")
    with pytest.raises(InputError, match="there are 8 in 'y'"):
        jt.learn(folder / "data.csv", 1)
    model = of_text(GAPPY, folder, missing="drop-rows")
    expected = 20 * log(0.5)
    assert model.loglik(folder / "data.csv").sum() == pytest.approx(expected)
    assert model.loglik(pd.read_csv(folder / "data.csv")).sum() == pytest.approx(expected)


def test_the_state_for_a_missing_value_is_no_answer(folder: Path) -> None:
    frame = pd.DataFrame({"x": ["?", "no", None, "no"] * 5, "y": ["u", "v", "v", "v"] * 5})
    model = jt.fit(frame, treewidth=1, smoothing=0, missing="state")
    for one in (model, reread(model, folder)):
        assert one.model.columns[0].states == ("?", "no", "(missing)")
        shown = one.query("x")
        assert list(shown["probability"]) == pytest.approx([0.25, 0.5, 0.25])
        assert [value for value in shown["x"] if isinstance(value, str)] == ["?", "no"]
        for value, u in (("?", 1), ("no", 0), (None, 0), ("(missing)", 0)):
            assert one.query("y", given={"x": value})["probability"].to_list() == pytest.approx([u, 1 - u])
        assert one.loglik(frame).sum() == pytest.approx(10 * log(0.25) + 10 * log(0.5))
        summed = one.loglik(frame, missing="sum")
        assert summed.iloc[2] == pytest.approx(log(0.75))
        assert one.impute(frame, missing="sum")["x"].tolist() == ["?", "no", "no", "no"] * 5
        predicted = one.predict(frame.assign(y=["u", "v", "v", "v"] * 5)[["y"]], "x")
        assert predicted.tolist() == ["?", "no", "no", "no"] * 5
    path, rows, output = (str(folder / name) for name in ("summed.json", "rows.csv", "out.parquet"))
    model.write(path)
    frame.replace("?", "no").to_csv(rows, index=False)
    for missing in ("state", "sum"):
        assert run(["loglik", path, rows, "--missing", missing, "--output", output], 0.0) == 0
        of_python = model.loglik(rows, missing=missing)
        assert pl.read_parquet(output)["loglik"].to_list() == of_python.to_list()
        assert run(["impute", path, rows, "--missing", missing, "--output", output], 0.0) == 0
        gaps = pl.read_parquet(output)["x"].null_count()
        assert gaps == (0 if missing == "sum" else 5)
    assert run(["impute", path, rows, "--missing", "drop-rows"], 0.0) == 2
    with pytest.raises(InputError, match="a missing value is no state of it"):
        model.query(given={"y": None})
    words = jt.fit(frame.replace("?", "yes"), treewidth=1, smoothing=0, missing="state")
    with pytest.raises(InputError, match="'\\?' is none of its states"):
        words.loglik(pd.DataFrame({"x": ["?"], "y": ["u"]}))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, dict])
def test_blanks_around_texts_and_kinds_of_newlines_do_not_count(make: Any, folder: Path) -> None:
    columns = {" x": ["yes\r\nsir ", " yes\nsir", "no"] * 4, "y": ["u", "u", "v"] * 4}
    model = jt.fit(make(columns), treewidth=1, smoothing=0)
    pd.DataFrame(columns).to_csv(folder / "data.csv", index=False)
    for asked in (make(columns), folder / "data.csv", pd.read_csv(folder / "data.csv")):
        assert np.array(model.loglik(asked)).sum() == pytest.approx(8 * log(2 / 3) + 4 * log(1 / 3))
    with pytest.raises(InputError, match="there are 1 in 'x'"):
        jt.learn(make({"x": ["a", "b", " "], "y": ["u", "v", "v"]}), 1)


def test_how_the_data_were_read_holds_for_later_rows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        f"{year}.{day:03},50;{'süß' if day < 500 else 'groß'};{day % 4},5"
        for year in (1, 2)
        for day in (0, 250, 500, 750)
    ]
    text = "preis;wort;zahl\n" + "\n".join([*lines, "keine;süß;0,5"]) + "\n"
    (folder / "data.csv").write_bytes(text.encode("cp1252"))
    read = "decimal=comma,encoding=cp1252,missing_values=keine"
    words = ["--treewidth", "1", "--discretise", "quantile:2", "--missing", "drop-rows", "--read", read]
    data, model = str(folder / "data.csv"), str(folder / "model.json")
    assert run(["fit", data, *words, "--output", model, "--quiet"], 0.0) == 0
    capsys.readouterr()
    assert run(["loglik", model, data, "--json"], 0.0) == 0
    of_shell = json.loads(capsys.readouterr().out)
    found = jt.Model.read(model)
    assert found.loglik(data).sum() == pytest.approx(of_shell["total"])
    assert of_shell["rows"] == 9
    for name in ("sample", "impute"):
        output = str(folder / f"{name}.csv")
        given = ["--rows", "7"] if name == "sample" else [data]
        assert run([name, model, *given, "--output", output], 0.0) == 0
        assert run(["loglik", model, output, "--json"], 0.0) == 0
    drawn = found.model.sample(7)
    assert np.array_equal(found.loglik(folder / "sample.csv"), found.model.log_likelihood(drawn))


@pytest.mark.parametrize("mark", ["semicolon", "/", "blank", None])
@pytest.mark.parametrize("header", [True, False])
def test_how_a_file_is_written_holds_for_later_rows(
    mark: str | None, *, header: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    between = {"semicolon": ";", "/": "/", "blank": "  ", None: ","}[mark]
    rows = [("a;1", "u", "x"), ("b", "v", "y"), ("a;1", "v", "?"), ("b", "u", "x")]
    quoted = [('"a;1"' if row[0] == "a;1" else row[0], *row[1:]) for row in rows]
    lines = [*([("p", "q", "r")] if header else []), *quoted]
    (folder / "data.csv").write_text("".join(f"{between.join(line)}\n" for line in lines), encoding="utf-8")
    data, model = str(folder / "data.csv"), str(folder / "model.json")
    words = [f"header={str(header).lower()}", *([] if mark is None else [f"separator={mark}"])]
    given = [word for one in words for word in ("--read", one)]
    assert run(["fit", data, "--treewidth", "1", "--missing", "state", *given, "--output", model], 0.0) == 0
    found = jt.Model.read(model)
    columns = zip(("p", "q", "r") if header else ("V1", "V2", "V3"), zip(*rows, strict=True), strict=True)
    frame = pd.DataFrame(dict(columns)).replace("?", None)
    expected = found.loglik(frame)
    assert np.array_equal(found.loglik(data), expected)
    for suffix in ("parquet", "tsv"):
        output = str(folder / f"completed.{suffix}")
        assert run(["impute", model, data, "--output", output], 0.0) == 0
        assert np.array_equal(found.loglik(output), expected)
    assert run(["sample", model, "--rows", "20", "--output", str(folder / "sample.csv")], 0.0) == 0
    drawn = found.model.log_likelihood(found.model.sample(20))
    assert np.array_equal(found.loglik(folder / "sample.csv"), drawn)
    frame.to_csv(folder / "other.csv", sep="|", na_rep="NA", index=False)
    capsys.readouterr()
    said = ["--read", "header=true", "--read", "separator=pipe"]
    assert run(["loglik", model, str(folder / "other.csv"), *said, "--json"], 0.0) == 0
    assert json.loads(capsys.readouterr().out)["total"] == pytest.approx(expected.sum())


NAMES: dict[str, list[Any]] = {
    "numbers": [0, 1, 2],
    "tuples": [("a", 1), ("a", 2), ("b", 1)],
    "times": list(map(pd.Timestamp, ["2024-05-01", "2024-05-02", "2024-05-03 12:00"])),
    "several types": [0, "one", (2, "two")],
}


@pytest.mark.parametrize("kind", NAMES)
def test_names_that_are_no_texts_come_back_as_they_went_in(kind: str, folder: Path) -> None:
    values = np.array([[0, 0, 0]] * 5 + [[1, 1, 1]] * 5 + [[0, 0, 1], [1, 1, 0]])
    first, second, third = NAMES[kind]
    frame = pd.DataFrame(dict(enumerate(values.T))).set_axis(
        pd.Index(NAMES[kind], tupleize_cols=False), axis=1
    )
    model = jt.learn(frame, treewidth=1, forbid=[(first, third)]).fit(smoothing=0)
    for one in (model, reread(model, folder)):
        assert list(one.query(second, given={first: 1})["probability"]) == [0, 1]
        assert list(one.query([first, second])["probability"]) == [0.5, 0, 0, 0.5]
        assert one.predict(frame, third).tolist() == [0] * 5 + [1] * 5 + [0, 1]
        assert one.predict(frame, third).name == third
        assert list(one.impute(frame).columns) == NAMES[kind]
    assert list(model.query([first, second]).columns) == [first, second, "probability"]
    assert list(model.sample(1).columns) == NAMES[kind]
    pair = (first, second)
    for source in (frame, {name: frame[name].to_numpy() for name in NAMES[kind]}):
        found = jt.learn(source, treewidth=1, forbid=[(first, third)])
        assert found.cliques == [pair, (second, third)]
        assert found.separators == [(second,)]
        assert list(found.graph().edges) == [pair, (second, third)]
        assert jt.triangulate(found.graph()).cliques == found.cliques
        assert jt.triangulate(iter(found.cliques)).cliques == found.cliques
        assert jt.fit(source, graph=found.graph()).names == model.names
        selected = jt.select(source, "pc", kind="states")
        assert list(selected.graph()) == NAMES[kind]
        assert set(selected.edges) == set(selected.graph().edges) == set(selected.superset)
        assert jt.triangulate(selected).graph().edges == selected.graph().edges
    edges = jt.learn(frame, treewidth=1, forbid=[(first, third)]).edges()
    assert list(edges["first"]) == [first, second]
    assert list(model.mpe().columns) == [*NAMES[kind], "log_probability"]
    assert list(dict.fromkeys(model.query()["variable"])) == NAMES[kind]
    assert np.allclose(model.loglik(model.sample(9)), model.model.log_likelihood(model.model.sample(9)))


@pytest.mark.parametrize("kind", ["arrow", "parquet", "feather", "packed", "pandas", "array"])
def test_an_offset_is_a_time_zone_in_typed_tables_too(kind: str, folder: Path) -> None:
    pa, feather, parquet = map(pytest.importorskip, ("pyarrow", "pyarrow.feather", "pyarrow.parquet"))
    moments = [dt.datetime(2024, 5, 1, hour, tzinfo=OFFSET) for hour in (0, 12)]
    columns: dict[str, list[Any]] = {"x": moments * 4, "y": list("uuvuvuvv")}
    table = pa.table(columns)
    if kind == "parquet":
        parquet.write_table(table, folder / "x.parquet")
    if kind == "feather":
        feather.write_feather(table, folder / "x.feather")
    if kind == "packed":
        feather.write_feather(table, held := io.BytesIO())
        (folder / "x.arrow.gz").write_bytes(gzip.compress(held.getvalue()))
    if kind == "pandas":
        pd.DataFrame(columns).to_parquet(folder / "x.parquet")
    forms = {"arrow": table, "array": {name: table[name] for name in columns}}
    source = forms[kind] if kind in forms else next(folder.iterdir())
    for one in (fitted(source), reread(fitted(columns), folder)):
        for rows in (source, columns, pd.DataFrame(columns)):
            assert np.allclose(one.loglik(rows), logs(columns))
    assert not any(name.startswith("POLARS_") for name in os.environ), "reading leaves the environment alone"


@pytest.mark.parametrize("kind", ["time32[s]", "time32[ms]", "time64[us]", "time64[ns]"])
def test_times_of_day_are_the_same_in_every_type_of_arrow(kind: str, folder: Path) -> None:
    pa, parquet = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet"))
    columns: dict[str, list[Any]] = {
        "x": [dt.time(8, 30), dt.time(0), dt.time(23, 59, 59), dt.time(8, 30)] * 2,
        "y": list("uuvuvuvv"),
    }
    table = pa.table({"x": pa.array(columns["x"], pa.type_for_alias(kind)), "y": columns["y"]})
    parquet.write_table(table, folder / "x.parquet")
    (folder / "x.csv").write_text(
        "x,y\n" + "".join(f"{x:%H:%M:%S},{y}\n" for x, y in zip(*columns.values(), strict=True))
    )
    forms = [table, folder / "x.parquet", folder / "x.csv", pd.DataFrame(columns), table.to_pandas()]
    for learned in forms:
        model = fitted(learned)
        assert all(np.allclose(model.loglik(asked), logs(columns)) for asked in forms)
        assert sorted(model.query("x")["x"]) == [dt.time(0), dt.time(8, 30), dt.time(23, 59, 59)]


@pytest.mark.parametrize("kind", ["of 256 bits", "of tens", "run-ends", "dictionary", "durations"])
def test_types_of_arrow_that_polars_lacks_are_read_by_their_values(kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    numbers = [Decimal(10), Decimal(20), Decimal(20), Decimal(30)]
    made = {
        "of 256 bits": lambda: pa.array(numbers, pa.decimal256(60, 2)),
        "of tens": lambda: pa.array(numbers, pa.decimal128(9, -1)),
        "run-ends": lambda: pa.RunEndEncodedArray.from_arrays(pa.array([1, 3, 4]), pa.array([1, 2, 3])),
        "dictionary": lambda: pa.array([1, 2, 2, 3]).dictionary_encode(),
        "durations": lambda: pa.array([1, 2, 2, 3], pa.duration("ns")),
    }[kind]()
    table = pa.table({"x": made, "y": list("uuvv")})
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    rows: dict[str, list[Any]] = {"x": [1, 2, 2, 3], "y": list("uuvv")}
    for learned in (table, frame):
        model = fitted(learned)
        for asked in (table, table.to_batches()[0], {"x": made, "y": list("uuvv")}, frame, model.sample(9)):
            found = np.array(model.loglik(asked))
            assert len(found) == 9 or np.allclose(found, logs(rows))
            assert np.isfinite(found).all()


@pytest.mark.parametrize("gap", [5.0, 60.0])
def test_ranges_of_pandas_are_the_same_beside_missing_values(gap: float, folder: Path) -> None:
    frame = pd.DataFrame({"x": pd.cut([1, 2, 3, 4, 5, gap], [0, 2, 4, 6]), "y": list("uvuvuv")})
    frame.to_csv(folder / "x.csv", index=False)
    expected = None
    for learned in (frame, folder / "x.csv"):
        model = fitted(learned, missing="state")
        for one in (model, reread(model, folder)):
            found = [np.array(one.loglik(asked)) for asked in (frame, folder / "x.csv")]
            expected = found[0] if expected is None else expected
            assert np.allclose(found, expected)
            for value in frame["x"].dropna():
                assert one.query("y", given={"x": value})["probability"].sum() == pytest.approx(1)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Word(str, enum.Enum):  # noqa: UP042 - whose text is not its value
    YES = "yes"
    NO = "no"


OBJECTS_OF_PYTHON: dict[str, Any] = {
    "texts that are members of an enumeration": [Word.YES, Word.NO],
    "times with and without a zone": [dt.datetime(2024, 5, 1), dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)],  # noqa: DTZ001
    "numbers beyond double precision": np.array([0.1, 2.5], dtype=np.longdouble),
    "a boolean and its number": [np.True_, 1.0],
    "decimals and infinity": [Decimal("Infinity"), Decimal("0.5")],
    "members of an enumeration": [Colour.RED, Colour.BLUE],
    "fractions": [Fraction(1, 3), Fraction(1, 2)],
    "durations of numpy": np.array([1, 36], dtype="timedelta64[h]"),
    "ranges": pd.interval_range(0, 2),
    "months": pd.period_range("2024-01", periods=2, freq="M"),
}


@pytest.mark.parametrize("kind", OBJECTS_OF_PYTHON)
def test_values_of_types_that_polars_lacks_are_answered_in_any_container(kind: str, folder: Path) -> None:
    values = [*OBJECTS_OF_PYTHON[kind]] * 4
    columns = {"x": values, "y": list("uvuvuvvu")}
    expected = logs(columns)
    for source in (columns, pd.DataFrame(columns)):
        model = fitted(source)
        for one in (model, reread(model, folder)):
            assert np.allclose(one.loglik(columns), expected)
            assert len(one.predict(pl.DataFrame({"y": ["u"]}), "x")) == 1
            for value in [*one.query("x")["x"], *values[:2]]:
                assert one.query("y", given={"x": value})["probability"].sum() == pytest.approx(1)
            assert np.isfinite(np.array(one.loglik(one.sample(9)))).all()


def test_a_zero_character_is_written_into_no_text_file(folder: Path) -> None:
    model = fitted({"x": ["a\0", "b"] * 4, "y": list("uvuvuvvu")})
    rows = model.model.sample(9)
    with pytest.raises(ChoiceError, match=r"zero character.*write \.parquet"):
        rows_in_format(model.model, rows, "csv")
    (folder / "x.parquet").write_bytes(rows_in_format(model.model, rows, "parquet"))
    assert np.array_equal(model.loglik(folder / "x.parquet"), model.model.log_likelihood(rows))


STATES = [("", "a"), (" ", "a"), (" a", "a"), ("a\u00a0", "a"), ("-0.0", "0.0"), ("a\r\nb", "a\nb")]


@pytest.mark.parametrize("states", STATES)
def test_states_that_no_table_keeps_apart_are_refused(states: tuple[str, str], folder: Path) -> None:
    model = fitted({"x": ["a", "b"] * 4, "y": list("uvuvuvvu")})
    model.write(folder / "m.json")
    text = (folder / "m.json").read_text().replace('["a", "b"]', json.dumps(states))
    (folder / "m.json").write_text(text)
    (folder / "n.bif").write_text(to_bif(Network("n", (node("x", *states),))), encoding="utf-8")
    for name in ("m.json", "n.bif"):
        with pytest.raises(InputError, match="column 'x' needs a name and distinct states"):
            jt.Model.read(folder / name).query("x")
    (folder / "n.bif").write_text(
        "network n {} variable x { type discrete [1] { s }; property original_state_s __D800_; }"
        "probability (x) { table 1.0; }"
    )
    assert list(jt.Model.read(folder / "n.bif").query("x")["x"]) == ["s"], "half a pair is no character"


def test_a_byte_order_mark_within_a_file_is_part_of_its_value(folder: Path) -> None:
    model = of_text("x,y\n" + "\ufeffa,u\na,v\n" * 4, folder)
    assert model.query("x")["x"].to_list() == ["a", "\ufeffa"]


@pytest.mark.parametrize("form", ["bif", "bifxml", "parquet"])
def test_blanks_around_names_and_states_of_any_file_do_not_count(form: str, folder: Path) -> None:
    held = Network("n", (node(" a ", "s ", "t"), node("b", "0", "1")))
    write = {"bif": to_bif, "bifxml": to_bifxml}
    if form == "parquet":
        pl.DataFrame({" a ": ["s ", "t"] * 4, "b": [0, 0, 1, 1] * 2}).write_parquet(folder / "n.parquet")
        model = jt.fit(folder / "n.parquet", treewidth=1, smoothing=0)
    else:
        (folder / f"n.{form}").write_text(write[form](held), encoding="utf-8")
        model = jt.Model.read(folder / f"n.{form}")
    assert model.names == ("a", "b")
    assert model.query("b", given={" a": " s"})["probability"].to_list() == pytest.approx([0.5, 0.5])
    for rows in (pl.DataFrame({" a ": ["s "], "b": [None]}), pd.DataFrame({"a": ["s"], "b": [None]})):
        assert np.array(model.loglik(rows)) == pytest.approx([log(0.5)])
    drawn = model.model.sample(7)
    (folder / "sample.csv").write_bytes(rows_in_format(model.model, drawn, "csv"))
    assert np.array_equal(model.loglik(folder / "sample.csv"), model.model.log_likelihood(drawn))


def test_networks_take_the_values_that_pandas_makes_of_their_samples(folder: Path) -> None:
    (folder / "n.bif").write_text(
        to_bif(Network("n", (node("a", "TRUE", "FALSE"), node("b", "0", "1")))), encoding="utf-8"
    )
    model = jt.Model.read(folder / "n.bif")
    assert model.loglik(pd.DataFrame({"a": [True, False], "b": [1, 0]})).sum() == pytest.approx(4 * log(0.5))
    assert model.query("b", given={"a": True})["probability"].to_list() == pytest.approx([0.5, 0.5])
    row = pd.DataFrame({"a": [True]}).iloc[0]
    assert model.query("b", given=row)["probability"].to_list() == pytest.approx([0.5, 0.5])


def node(name: str, *states: str) -> NetworkNode:
    return NetworkNode(name, states, (), np.full((1, len(states)), 1 / len(states)))
