"""Promises to users in their first hour: commands, output, and the advice of messages."""

from __future__ import annotations

import time
import traceback
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import jtsolve as jt
from jtsolve.cli import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RNG = np.random.default_rng(0)
SURVEY = pd.DataFrame({name: RNG.integers(0, 2, 60) for name in ("tea", "milk", "sugar")})
WEIGHTED = SURVEY.assign(weight=RNG.integers(1, 8, 60) / 4)
ADDITIVE = ("bic", "aic", "mdl", "ml")
"""Scores that are sums over rows, so that rows may count by fractions."""


@cache
def model() -> jt.Model:
    return jt.learn(SURVEY, treewidth=1).fit()


@pytest.mark.parametrize("score", ADDITIVE)
def test_survey_weights_with_fractions_are_counted_from_file_and_frame(score: str, tmp_path: Path) -> None:
    path = tmp_path / "survey.csv"
    WEIGHTED.to_csv(path, index=False)
    whole = jt.learn(WEIGHTED.assign(weight=4 * WEIGHTED["weight"]), 1, score="ml", weights="weight")
    found = [jt.learn(data, 1, score=score, weights="weight") for data in (WEIGHTED, path)]
    assert found[0].score == pytest.approx(found[1].score, rel=1e-12)
    if score == "ml":  # proportional to the weights
        assert whole.score == pytest.approx(4 * (found[0].score or 0), rel=1e-12)
    fitted = [one.fit(smoothing=0).query("tea")["probability"][0] for one in found]
    share = WEIGHTED["weight"][WEIGHTED["tea"] == 0].sum() / WEIGHTED["weight"].sum()
    assert fitted == pytest.approx([share, share])
    direct = jt.fit(WEIGHTED, treewidth=1, score=score, weights="weight", smoothing=0)
    assert direct.query("tea")["probability"][0] == pytest.approx(share)
    output = tmp_path / "model.json"
    options = ["--treewidth", "1", "--score", score, "--weights", "weight", "--smoothing", "0", "--quiet"]
    assert run(["fit", str(path), *options, "--output", str(output)], time.monotonic()) == 0
    assert jt.Model.read(output).query("tea")["probability"][0] == pytest.approx(share)


def test_scores_of_whole_rows_refuse_fractions_and_name_one_that_counts_them() -> None:
    with pytest.raises(jt.JtsolveError, match=r'needs whole weights.*score="bic"'):
        jt.learn(WEIGHTED, 1, score="bdeu", weights="weight")


TEXT: Any = "milk=1"
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "score": (lambda: jt.learn(SURVEY, 1, score="BIC"), r"did you mean 'bic'"),
    "backend": (lambda: jt.learn(SURVEY, 1, backend="LNS"), r"did you mean 'lns'"),
    "discretise": (lambda: jt.learn(SURVEY, 1, discretise=4), r"'4'; did you mean 'quantile:4'"),
    "cuts": (lambda: jt.learn(SURVEY, 1, discretise="Quantiles4"), r"did you mean 'quantile:4'"),
    "treewidth": (lambda: jt.learn(SURVEY, treewidth=-1), r"is -1; give a number of 0 or more"),
    "near variable": (lambda: model().query("Tea"), r"there is no 'Tea'\. Fix: did you mean 'tea'\?"),
    "near column": (lambda: jt.learn(SURVEY, 1, drop="TEA"), r"Fix: did you mean 'tea'\?"),
    "constraint": (lambda: jt.learn(SURVEY, 1, constraints={"max_clique": 2}), r"did you mean 'max_clique"),
    "variable": (lambda: model().query("coffee"), r"there is no 'coffee'\. Fix: use one of 'tea'"),
    "evidence": (lambda: model().query("tea", given=TEXT), r'not a mapping .* write given=\{"tea": VALUE\}'),
    "given list": (lambda: model().mpe(TEXT), r'write given=\{"tea": VALUE\}'),
    "picture": (lambda: model().show("model.jpg"), r"a picture is written as \.svg, \.png, \.html or \.dot"),
    "weights": (lambda: jt.learn(SURVEY, 1, weights=np.ones(60)), r"weights= names a column"),
    "file": (lambda: jt.read("nowhere.json"), r"there is no such file"),
    "result": (lambda: jt.Solution.read("nowhere.json"), r"there is no such file"),
    "graph": (lambda: jt.triangulate([("a", "b", "c")]), r"not a list of pairs"),
    "pair": (lambda: jt.learn(SURVEY, 1, forbid=[("tea", "cocoa")]), r"cocoa"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_by_its_message_without_frames_of_ours(mistake: str) -> None:
    make, answer = MISTAKES[mistake]
    with pytest.raises(jt.JtsolveError, match=answer) as caught:
        make()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert {frame.filename for frame in frames[:2]} == {__file__}
    assert len(frames) <= 3  # the last one is of a decorator at most


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (["predict", "model.json"], "there is no command 'predict'; 'impute' fills in missing values"),
        (["learn", "survey.csv"], "there is no command 'learn'; 'solve' finds a tree, and 'fit' a model"),
        (["slove", "survey.csv"], "Did you mean 'solve'"),
        (["solve", "{survey}", "--score", "BIC"], "did you mean 'bic'"),
        (["solve", "{survey}", "--discretise", "4", "--treewidth", "1"], "'4'; did you mean 'quantile:4'"),
        (["solve", "{survey}", "--discretise", "Width"], "did you mean 'width:4'"),
        (["solve", "{survey}", "--missing", "drop"], "did you mean 'drop-rows'"),
        (["solve", "{survey}", "--treewdith", "1"], "--treewidth"),
        (["solve", "{survey}", "--treewidth", "two"], "'two' is no whole number"),
        (["solve", "{survey}", "--memory-limit", "1GB"], "'1GB' is no number"),
        (["fit", "instances/uci/zoo.opt.json", "--output", "m.json", "--treewidth", "1"], "not a table"),
    ],
)
def test_a_near_miss_in_the_shell_is_answered_with_the_right_word(
    typed: list[str], answer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "survey.csv"
    SURVEY.to_csv(path, index=False)
    assert run([word.format(survey=path) for word in typed], time.monotonic()) == 2
    assert answer in capsys.readouterr().err


NAMELESS: dict[str, Callable[[], Any]] = {
    "data": lambda: jt.learn("", 1),
    "instance": lambda: jt.solve(""),
    "model": lambda: jt.Model.read(""),
    "rows": lambda: model().predict("", "tea"),
    "written": lambda: model().write(""),
    "drawn": lambda: model().show(""),
    "certificate": lambda: jt.learn(SURVEY, 1, certificate=""),
    "constraints": lambda: jt.learn(SURVEY, 1, constraints=""),
    "graph": lambda: jt.learn(SURVEY, 1, constraints={"within_graph": ""}),
    "schema": lambda: jt.learn(SURVEY, 1, schema=""),
    "columns": lambda: jt.learn(SURVEY, 1, columns=[]),
    "column": lambda: jt.learn(SURVEY, 1, drop=""),
    "state": lambda: jt.learn(SURVEY, 1, schema={"tea": ["0", "1", ""]}),
    "new variable": lambda: jt.learn(SURVEY, 1, crosstab=""),
    "method": lambda: jt.select(SURVEY, ""),
    "kind": lambda: jt.select(SURVEY, kind=""),
}


@pytest.mark.parametrize("case", NAMELESS)
def test_an_empty_name_is_refused_and_not_the_current_folder(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SURVEY.to_parquet(tmp_path / "survey.parquet")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(jt.JtsolveError, match=r"''|none is left|not blank"):
        NAMELESS[case]()
    assert jt.learn(".", 1).named.names == tuple(SURVEY)


@pytest.mark.parametrize(
    "words", [["solve", ""], ["solve", ".", "--output="], ["solve", ".", "--drop", ""], [""]]
)
def test_an_empty_argument_is_refused_where_it_stands(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    SURVEY.to_parquet(tmp_path / "survey.parquet")
    monkeypatch.chdir(tmp_path)
    assert run(words, time.monotonic()) == 2
    before = ["jtsolve", *words][-2] if words[-1] == "" else words[-1].removesuffix("=")
    assert capsys.readouterr().err.startswith(f"jtsolve: argument after '{before}': it is empty. Fix: ")


def test_average_of_a_few_columns_needs_no_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "survey.csv"
    WEIGHTED.assign(weight=range(60)).to_csv(path, index=False)
    assert run(["average", str(path), "--weights", "weight", "--quiet"], time.monotonic()) == 0
    assert capsys.readouterr().err == ""


def test_the_junction_tree_of_a_graph_of_ones_own_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("source,target\na,b\nb,c\nc,d\nd,a\ne,f\n")
    assert run(["show", str(path)], time.monotonic()) == 0
    shown = capsys.readouterr().out
    assert "min-fill triangulation, which adds 1 edge\n{a, b, d}\n└─ {b, c, d}  sep {b, d}\n\n{e, f}" in shown
    assert jt.triangulate(path).separators == [("b", "d"), ()]


REAL = np.linspace(-1, 1, 60)
ADVICE: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "gaps in real numbers": (
        lambda: jt.learn({"x": [*REAL, None], "y": [*REAL**2, 1.0]}, score="gaussian-bic"),
        lambda: jt.learn(
            {"x": [*REAL, None], "y": [*REAL**2, 1.0]}, score="gaussian-bic", missing="drop-rows"
        ),
    ),
    "large weights": (
        lambda: jt.learn({"x": ["a", "b"] * 30, "w": [10**15] * 60}, weights="w"),
        lambda: jt.learn({"x": ["a", "b"] * 30, "w": [10.0] * 60}, weights="w"),
    ),
    "fractions": (
        lambda: jt.learn(WEIGHTED, 1, score="bdeu", weights="weight"),
        lambda: jt.learn(WEIGHTED, 1, score="bic", weights="weight"),
    ),
}
"""A mistake, and the same after its advice was followed."""


@pytest.mark.parametrize("case", ADVICE)
def test_advice_can_be_followed(case: str) -> None:
    mistake, mended = ADVICE[case]
    with pytest.raises(jt.JtsolveError) as caught:
        mistake()
    assert 'missing="state"' not in str(caught.value)
    mended()


def test_advice_on_hundreds_of_columns_can_be_copied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"constant_{k}" for k in range(300)]
    path = tmp_path / "wide.csv"
    SURVEY.assign(**dict.fromkeys(names, "same")).to_csv(path, index=False)
    assert run(["solve", str(path), "--treewidth", "1"], time.monotonic()) == 0
    advice = capsys.readouterr().err
    assert f"--drop {','.join(names)}." in advice
    assert run(["solve", str(path), "--treewidth", "1", "--drop", ",".join(names)], time.monotonic()) == 0
    assert "constant" not in capsys.readouterr().err


def test_estimators_raise_without_frames_of_ours() -> None:
    from jtsolve.estimator import JunctionTreeDensity

    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"local_score": "BIC"}, "did you mean 'bic'"),
        ({"treewidth": -1}, "is -1"),
    ]
    for options, answer in mistakes:
        with pytest.raises(jt.JtsolveError, match=answer) as caught:
            JunctionTreeDensity(**options).fit(SURVEY)
        assert len(traceback.extract_tb(caught.value.__traceback__)) <= 2
