"""The law of values: what goes in comes out, is accepted again, and means the same; or it is refused.

Values of every type go through every container, into a model, through its file, and through query, evidence,
sample, predict and impute. The reference is a count of the values themselves, equal as Python has it.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jtsolve as jt
from jtsolve.cli.models import csv_bytes, labelled
from jtsolve.errors import InputError

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
SINGLE = st.floats(-1e4, 1e4, width=32).map(np.float32)
MOMENTS = st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2030, 1, 1))  # noqa: DTZ001 - as tables have them
SECONDS = MOMENTS.map(lambda moment: moment.replace(microsecond=0))

TYPES: dict[str, SearchStrategy[Any]] = {
    "whole numbers": WHOLE,
    "small numbers": st.integers(-2, 3),
    "fractions": FRACTIONS,
    "halves": st.sampled_from([-0.5, 0.0, -0.0, 0.5, 1.0, 1.5]),
    "single precision": SINGLE,
    "decimals": st.decimals(-100, 100, places=2),
    "booleans": st.booleans(),
    "codes": st.sampled_from(CODES),
    "words": st.sampled_from(WORDS),
    "texts": st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=4),
    "dates": st.dates(dt.date(1990, 1, 1), dt.date(2030, 1, 1)),
    "times": SECONDS,
    "times to the microsecond": MOMENTS,
    "instants": SECONDS.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    "mixtures": st.sampled_from([1, "1", "01", True, "True", "x", 0, 2.5, "2.50"]),
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
    learned, asked = containers(data, kind, "learned"), containers(data, kind, "asked")
    try:
        model = fitted(contained(learned, columns, folder))
    except InputError:
        assert learned in TEXTS  # of words for a missing value
        assert kind in ("words", "texts")
        return
    expected = logs(columns)
    for one in (model, reread(model, folder)):
        assert np.allclose(one.loglik(contained(learned, columns, folder)), expected, rtol=0, atol=1e-12)
        try:
            found = one.loglik(contained(asked, columns, folder))
        except InputError:
            assert learned in TEXTS or asked in TEXTS
            assert kind not in ("whole numbers", "small numbers", "booleans", "dates", "times", "decimals")
        else:
            assert np.allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", TYPES)
@LAW
@given(data=st.data())
def test_what_a_query_shows_is_accepted_as_evidence(
    kind: str, data: DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("law")
    columns = drawn_columns(data, kind)
    try:
        model = fitted(contained(containers(data, kind), columns, folder))
    except InputError:
        return
    for one in (model, reread(model, folder)):
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
    try:
        model = fitted(contained(containers(data, kind), columns, folder))
    except InputError:
        return
    for one in (model, reread(model, folder)):
        drawn = one.model.sample(8, 3)
        expected = one.model.log_likelihood(drawn)
        assert np.array_equal(one.loglik(one.sample(8, seed=3)), expected)
        csv, parquet = folder / "sample.csv", folder / "sample.parquet"
        csv.write_bytes(csv_bytes(one.model, labelled(one.model, drawn)))
        labelled(one.model, drawn, typed=True).write_parquet(parquet)
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
