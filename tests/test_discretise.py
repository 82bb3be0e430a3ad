"""Cuts of continuous columns: by quantiles with weights, and by a class (MDLP)."""

from __future__ import annotations

import json
from itertools import pairwise
from math import log2
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers import read_states

from jtsolve.errors import ChoiceError, InputError
from jtsolve.tables.mdlp import mdlp_cuts
from jtsolve.tables.options import Coding, Discretisation
from jtsolve.tables.reading import read_declarations

if TYPE_CHECKING:
    from pathlib import Path


def entropy(classes: list[int]) -> float:
    shares = [classes.count(c) / len(classes) for c in set(classes)]
    return -sum(share * log2(share) for share in shares)


def plain_cuts(rows: list[tuple[float, int]]) -> list[float]:
    """The recursion of Fayyad and Irani, literally as in the paper."""
    values = sorted({value for value, _ in rows})
    best: tuple[float, float] | None = None
    for low, high in pairwise(values):
        cut = (low + high) / 2
        sides = [c for v, c in rows if v <= cut], [c for v, c in rows if v > cut]
        left = sum(len(side) / len(rows) * entropy(side) for side in sides)
        if best is None or left < best[0] - 1e-12:
            best = left, cut
    if best is None:
        return []
    left, cut = best
    below, above = [row for row in rows if row[0] <= cut], [row for row in rows if row[0] > cut]
    k, k1, k2 = (len({c for _, c in part}) for part in (rows, below, above))
    e, e1, e2 = (entropy([c for _, c in part]) for part in (rows, below, above))
    delta = log2(3**k - 2) - (k * e - k1 * e1 - k2 * e2)
    if e - left <= (log2(len(rows) - 1) + delta) / len(rows):
        return []
    return [*plain_cuts(below), cut, *plain_cuts(above)]


@pytest.mark.parametrize("seed", range(12))
def test_mdlp_cuts_as_the_paper_says(seed: int) -> None:
    generator = np.random.default_rng(seed)
    classes = generator.integers(0, 2 + seed % 3, 120)
    numbers = np.round(classes * generator.choice([0.0, 1.5, 4.0]) + generator.normal(size=120), 1)
    expected = plain_cuts(list(zip(numbers.tolist(), classes.tolist(), strict=True)))
    assert mdlp_cuts(numbers, classes) == pytest.approx(expected)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=40))
def test_mdlp_cuts_small_tables_as_the_paper_says(rows: list[tuple[int, int]]) -> None:
    numbers, classes = np.array([v for v, _ in rows], float), np.array([c for _, c in rows])
    cuts = mdlp_cuts(numbers, classes)
    plain = plain_cuts([(float(v), c) for v, c in rows])
    # Of equally good cuts, rounding may make the paper's sums and ours prefer different ones.
    assert cuts == pytest.approx(plain) or len(set(rows)) < len(rows)


def test_weights_are_repeated_rows() -> None:
    generator = np.random.default_rng(7)
    classes = generator.integers(0, 3, 60)
    numbers = classes + generator.normal(size=60).round(1)
    times = generator.integers(1, 9, 60)
    repeated = np.repeat(np.arange(60), times)
    for method in (Discretisation("mdlp", by="c"), Discretisation("quantile", 5), Discretisation("width", 3)):
        weighted = method.cuts(numbers, times, classes)
        assert weighted == method.cuts(numbers[repeated], None, classes[repeated])
        assert weighted


def test_quantiles_are_those_of_numpy() -> None:
    numbers = np.random.default_rng(3).normal(size=997).round(2)
    for bins in (2, 3, 7):
        expected = np.unique(np.quantile(numbers, np.arange(1, bins) / bins, method="inverted_cdf"))
        assert Discretisation("quantile", bins).cuts(numbers) == tuple(expected.tolist())


def test_neighbouring_numbers_are_cut_at_the_lower() -> None:
    low = 1.0
    high = float(np.nextafter(low, 2.0))
    assert mdlp_cuts(np.repeat([low, high], 20), np.repeat([0, 1], 20)) == (low,)


def table_text() -> str:
    generator = np.random.default_rng(0)
    rows = ["x,noise,ill,other"]
    for i in range(200):
        ill = i % 2
        x, noise = 3 * ill + generator.normal(), generator.normal()
        rows.append(f"{x:.3f},{noise:.3f},{'yes' if ill else 'no'},{i % 3}")
    return "\n".join(rows)


def read(tmp_path: Path, coding: Coding, text: str | None = None) -> Any:
    path = tmp_path / "t.csv"
    path.write_text(table_text() if text is None else text)
    return read_states(path, coding)


def test_a_class_cuts_informative_columns_and_leaves_the_rest_whole(tmp_path: Path) -> None:
    table = read(tmp_path, Coding(discretise=Discretisation("mdlp", by="ill")))
    assert table.names == ("x", "noise", "ill", "other")
    assert len(table.states[0]) > 1
    assert table.states[1:] == (("any",), ("no", "yes"), ("0", "1", "2"))
    assert table.provenance["cut_by"] == "ill"
    assert "class" not in table.provenance
    cuts = tmp_path / "schema.json"
    cuts.write_text(json.dumps({"x": table.provenance["cuts"]["x"], "noise": ["any"]}))


def test_the_class_column_is_kept_recorded_and_used(tmp_path: Path) -> None:
    named = read(tmp_path, Coding(discretise=Discretisation.parse("mdlp"), class_column="ill"))
    by = read(tmp_path, Coding(discretise=Discretisation.parse("mdlp:ill")))
    assert named.states == by.states
    assert named.provenance["class"] == "ill"
    assert named.provenance["cut_by"] == "ill"
    both = read(tmp_path, Coding(discretise=Discretisation.parse("mdlp:ill"), class_column="other"))
    assert both.provenance["class"] == "other"
    assert both.provenance["cut_by"] == "ill"
    assert both.states == by.states


def test_the_class_need_not_be_a_variable_and_rows_without_it_do_not_count(tmp_path: Path) -> None:
    discretise = Discretisation("mdlp", by="ill")
    table = read(tmp_path, Coding(discretise=discretise, drop=("ill",)))
    assert table.names == ("x", "noise", "other")
    assert table.provenance["columns_dropped"] == ["ill"]
    more = "\n".join([table_text(), *(f"{i},0.5,?,1" for i in range(30))])
    again = read(tmp_path, Coding(discretise=discretise, drop=("ill",)), more)
    assert again.provenance["cuts"]["x"] == table.provenance["cuts"]["x"]
    assert again.total == 230


def test_a_class_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match='none is named; give discretise="mdlp:CLASS" or class_column='):
        Coding(discretise=Discretisation("mdlp"))
    with pytest.raises(InputError, match="there is none called 'z'"):
        read(tmp_path, Coding(discretise=Discretisation("mdlp", by="z")))
    with pytest.raises(InputError, match="column 'x': it cannot serve as the class by which 'x' is cut"):
        read(tmp_path, Coding(discretise=Discretisation("mdlp", by="x")))
    text = "x,c\n" + "".join(f"{i / 2},?\n" for i in range(40))
    with pytest.raises(InputError, match="column 'c': it cannot serve as the class"):
        read(tmp_path, Coding(discretise=Discretisation("mdlp", by="c"), drop=("c",)), text)


def test_a_schema_may_declare_the_class(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"ill": {"states": ["no", "yes"], "class": true}, "x": {"states": [1.5]}}')
    schema, declared = read_declarations(path)
    assert dict(schema) == {"ill": ("no", "yes"), "x": (1.5,)}
    assert declared == "ill"
    path.write_text('{"ill": {"class": true}, "x": {"class": false}}')
    assert read_declarations(path) == ({}, "ill")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": {"class": 1.5}}', "'a': its class is neither true nor false"),
        ('{"a": {"class": true}, "b": {"class": true}}', "'b': the class is 'a' already"),
        ('{"a": {"kind": "class"}}', "'a': it is neither"),
        ('{"a": {}}', "'a': it is neither"),
        ('{"a": {"states": []}}', "'a': it is neither"),
    ],
)
def test_schemas_with_wrong_classes_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_declarations(path)
