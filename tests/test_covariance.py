"""Covariances in place of rows: the same trees and models as the data, errors, the data check."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from sklearn.covariance import EmpiricalCovariance
from sklearn.model_selection import GridSearchCV

import jtsolve as jt
from jtsolve.cli import run as shell
from jtsolve.errors import ChoiceError, InputError, JtsolveError
from jtsolve.estimator import DecomposableCovariance

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["gilt", "wheat", "oil", "tin", "gold", "rye"]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    mixing = np.eye(6) + 0.7 * generator.normal(size=(6, 6))
    return pd.DataFrame(generator.normal(size=(80, 6)) @ mixing, columns=NAMES)


@pytest.fixture(scope="module")
def matrix(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.cov(ddof=0)


@pytest.mark.parametrize("score", ["gaussian-bic", "bge"])
def test_a_covariance_has_the_trees_and_scores_of_its_rows(
    score: str, rows: pd.DataFrame, matrix: pd.DataFrame
) -> None:
    from_rows = jt.learn(rows, 2, score=score)
    found = jt.learn(covariance=matrix, rows=80, treewidth=2, score=score)
    assert found.cliques == from_rows.cliques
    assert found.score == pytest.approx(from_rows.score, rel=1e-12)
    assert found.problem is not None
    assert found.problem.rows == 80


def test_few_rows_of_many_columns_have_a_singular_covariance(rows: pd.DataFrame) -> None:
    few = rows.head(5)
    found = jt.learn(covariance=few.cov(ddof=0), rows=5, treewidth=1)
    assert found.score == pytest.approx(jt.learn(few, 1, score="gaussian-bic").score, rel=1e-9)


@pytest.mark.parametrize(
    "form",
    [
        lambda matrix, _: matrix,
        lambda matrix, _: matrix.loc[reversed(NAMES)],
        lambda matrix, _: matrix.reset_index(names="market"),
        lambda matrix, folder: _written(matrix, folder, index=True),
        lambda matrix, folder: _written(matrix, folder, index=False),
        lambda matrix, folder: _written(matrix.loc[reversed(NAMES)], folder, index=True, sep=";"),
        lambda matrix, folder: _written(matrix, folder, index=True, sep=";", decimal=","),
    ],
)
def test_every_form_of_a_matrix_is_read_by_its_labels(
    form: Any, matrix: pd.DataFrame, tmp_path: Path
) -> None:
    expected = jt.learn(covariance=matrix, rows=80).cliques
    assert jt.learn(covariance=form(matrix, tmp_path), rows=80, decimal="comma").cliques == expected


def _written(matrix: pd.DataFrame, folder: Path, **how: Any) -> Path:
    matrix.to_csv(folder / "matrix.csv", **how)
    return folder / "matrix.csv"


def test_columns_and_drop_choose_rows_as_well(matrix: pd.DataFrame) -> None:
    found = jt.learn(covariance=matrix, rows=80, drop=["oil"])
    part = matrix.drop(columns="oil", index="oil")
    assert found.cliques == jt.learn(covariance=part, rows=80).cliques


def _asymmetric(matrix: pd.DataFrame) -> pd.DataFrame:
    changed = matrix.copy()
    changed.iloc[0, 1] += 0.1
    return changed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_asymmetric, "not symmetric: 'gilt' and 'wheat'"),
        (lambda matrix: matrix.iloc[1:], "5 rows and 6 columns"),
        (lambda matrix: matrix.rename(columns={"oil": "gas"}), "different names: 'oil', 'gas'"),
        (lambda matrix: matrix - 9.0, "variance is -"),
        (lambda matrix: matrix.where(matrix.ne(matrix.iloc[0, 1])), "a value is missing"),
        (lambda matrix: 2 * np.diag(np.diag(matrix)) - matrix.to_numpy() * 3 / 2, "linearly dependent"),
    ],
)
def test_a_faulty_matrix_is_refused(change: Any, words: str, matrix: pd.DataFrame) -> None:
    with pytest.raises(InputError, match=words):
        jt.learn(covariance=change(matrix), rows=80)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give rows="),
        ({"rows": 0}, "whole number of 1 or more"),
        ({"rows": 2.5}, "give a whole number"),
        ({"rows": 80, "score": "bdeu"}, 'give score="gaussian-bic"'),
        ({"rows": 80, "score": "cg"}, 'give score="gaussian-bic"'),
        ({"rows": 80, "executor": "dask"}, "no rows to count by partitions; leave out executor="),
        ({"rows": 80, "missing": "state"}, "a covariance has no rows to which missing="),
        ({"rows": 80, "data": [[1]]}, "give one of the two"),
        ({"rows": 3}, "sets of 3 columns need 4"),
    ],
)
def test_options_that_have_no_meaning_are_refused(
    options: dict[str, Any], words: str, matrix: pd.DataFrame
) -> None:
    with pytest.raises(JtsolveError, match=words):
        jt.learn(covariance=matrix, **options)


def test_rows_and_resamples_need_data(matrix: pd.DataFrame, rows: pd.DataFrame) -> None:
    with pytest.raises(ChoiceError, match="is for a covariance"):
        jt.learn(rows, rows=80)
    with pytest.raises(ChoiceError, match="a bootstrap needs rows"):
        jt.average(jt.learn(covariance=matrix, rows=80), method="bootstrap:2")
    with pytest.raises(ChoiceError, match=r"a covariance has no means, .* leave out validate="):
        jt.learn(covariance=matrix, rows=80).fit(validate=rows)
    with pytest.raises(ChoiceError, match="there are no data"):
        jt.learn()


def test_a_matrix_that_is_read_as_rows_is_detected(
    matrix: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _written(matrix, tmp_path, index=True)
    for data in (matrix, matrix.reset_index(names="market"), path):
        with pytest.raises(InputError, match=r"1 warning: .*give covariance=C and rows="):
            jt.learn(data, strict=True)
    assert shell(["solve", str(path), "--treewidth", "1"], 0.0) == 0
    assert "give --covariance and --rows" in capsys.readouterr().err


def test_the_shell_reads_a_matrix(
    matrix: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(_written(matrix, tmp_path, index=True))
    options = ["--treewidth", "2", "--covariance", "--rows", "80"]
    assert shell(["solve", path, *options, "--json"], 0.0) == 0
    expected = jt.learn(covariance=matrix, rows=80)
    assert json.loads(capsys.readouterr().out)["score"] == pytest.approx(expected.score, rel=1e-12)
    assert shell(["fit", path, *options, "--output", str(tmp_path / "model.json")], 0.0) == 0
    assert " 80" in capsys.readouterr().out
    instance = str(tmp_path / "instance.json")
    assert shell(["score", path, *options[2:], "--max-size", "3", "--output", instance], 0.0) == 0
    assert jt.solve(instance, treewidth=2).score == pytest.approx(expected.score, rel=1e-12)
    assert shell(["solve", path, "--treewidth", "2", "--covariance"], 0.0) == 2
    assert "give --rows" in capsys.readouterr().err


def test_the_model_of_a_covariance_has_it_within_cliques(matrix: pd.DataFrame) -> None:
    found = jt.learn(covariance=matrix, rows=80, treewidth=2)
    model = jt.fit(found)
    covariance, precision = model.covariance(), model.precision()
    assert list(covariance.index) == list(covariance.columns) == NAMES
    assert covariance.to_numpy() @ precision.to_numpy() == pytest.approx(np.eye(6), abs=1e-12)
    for a in NAMES:
        for b in NAMES:
            if any({a, b} <= set(clique) for clique in found.cliques):
                assert covariance.loc[a, b] == pytest.approx(matrix.loc[a, b], rel=1e-12)
            else:
                assert precision.loc[a, b] == 0
    smoothed = jt.fit(found, smoothing=20.0)
    a, b = found.cliques[0][:2]
    assert smoothed.covariance().loc[a, b] == pytest.approx(matrix.loc[a, b] * 0.8, rel=1e-12)
    assert smoothed.model.provenance["smoothing_ess"] == 20


def test_only_one_tree_of_real_variables_has_a_covariance(rows: pd.DataFrame) -> None:
    for data, model in (({"a": [0, 1] * 5, "b": [1, 0] * 5}, "tree"), (rows, "mixture:components=2")):
        with pytest.raises(ChoiceError, match="for one junction tree of real variables"):
            jt.fit(data, treewidth=1, model=model).precision()


def test_the_estimator_is_that_of_learn(rows: pd.DataFrame) -> None:
    fitted = DecomposableCovariance(treewidth=2).fit(rows)
    learned = jt.learn(rows, 2, score="gaussian-bic")
    assert (fitted.cliques_, fitted.separators_) == (learned.cliques, learned.separators)
    model = jt.fit(learned)
    assert fitted.covariance_ == pytest.approx(model.covariance().to_numpy(), abs=1e-12)
    assert fitted.covariance_ @ fitted.precision_ == pytest.approx(np.eye(6), abs=1e-12)
    # score is the mean log likelihood less the constant term, as of EmpiricalCovariance
    assert fitted.score(rows) == pytest.approx(model.loglik(rows).mean(), rel=1e-12)
    complete = DecomposableCovariance(treewidth=5, local_score="gaussian-bic").fit(rows)
    assert complete.score(rows) <= EmpiricalCovariance().fit(rows).score(rows) + 1e-12
    steps = rows.to_numpy() - fitted.location_
    assert fitted.mahalanobis(rows) == pytest.approx(((steps @ fitted.precision_) * steps).sum(axis=1))


def test_weights_count_rows(rows: pd.DataFrame) -> None:
    weights = np.arange(80) % 3
    weighted = DecomposableCovariance().fit(rows, sample_weight=weights)
    repeated = DecomposableCovariance().fit(rows.loc[rows.index.repeat(weights)])
    assert weighted.cliques_ == repeated.cliques_
    assert weighted.covariance_ == pytest.approx(repeated.covariance_, rel=1e-9)
    assert weighted.result_.score == pytest.approx(repeated.result_.score, rel=1e-12)


def test_a_grid_search_chooses_the_treewidth(rows: pd.DataFrame) -> None:
    search = GridSearchCV(DecomposableCovariance(threads=1), {"treewidth": [0, 2]}, cv=2).fit(rows)
    assert search.best_params_ == {"treewidth": 2}
    with pytest.raises(ChoiceError, match="choose gaussian-bic"):
        DecomposableCovariance(local_score="bic").fit(rows)
    centred = DecomposableCovariance(assume_centered=True, store_precision=False).fit(rows)
    assert centred.precision_ is None
    assert not centred.location_.any()
