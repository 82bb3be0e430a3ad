"""The scikit-learn estimator: its interface by scikit-learn's checks, its numbers by the model's queries."""

from __future__ import annotations

import pickle
from math import log
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.utils.estimator_checks import check_estimator

from jtsolve.backends.registry import REGISTRY
from jtsolve.errors import ChoiceError
from jtsolve.estimator import JunctionTreeDensity
from jtsolve.models.inference.likelihood import log_likelihood
from jtsolve.models.learning.coder import Coder
from jtsolve.models.mixture import Mixture
from jtsolve.models.model import JunctionTreeModel
from jtsolve.scoring.scores.bdeu import Bdeu

SKIPPED = {"check_array_api_input"}
"""Needs a setting of scipy's in the environment; the estimator does not claim to take such arrays."""


def rows(count: int = 300, seed: int = 0) -> np.ndarray:
    """Four columns of numbers, each but the first a noisy copy of the one before."""
    generator = np.random.default_rng(seed)
    columns = [generator.integers(0, 3, count)]
    for _ in range(3):
        noise = generator.random(count) < 0.2
        columns.append(np.where(noise, generator.integers(0, 3, count), columns[-1]))
    return np.column_stack(columns)


def test_it_passes_every_check_of_scikit_learn() -> None:
    for components in (1, 2):
        results = check_estimator(JunctionTreeDensity(components=components), on_fail=None, on_skip=None)
        wrong = [
            (result["check_name"], result["exception"])
            for result in results
            if result["status"] != "passed" and result["check_name"] not in SKIPPED
        ]
        assert not wrong
        assert len(results) > 30


def test_densities_are_those_of_the_model_and_sum_to_one() -> None:
    X = rows()
    density = JunctionTreeDensity(treewidth=2, backend="dp").fit(X)
    assert isinstance(density.model_, JunctionTreeModel)
    assert density.score_samples(X) == pytest.approx(log_likelihood(density.model_, X.T))
    assert density.score(X) == pytest.approx(density.score_samples(X).mean())
    every = np.stack(np.meshgrid(*[np.arange(3)] * 4), axis=-1).reshape(-1, 4)
    assert np.exp(density.score_samples(every)).sum() == pytest.approx(1)
    assert density.score(X) > JunctionTreeDensity(treewidth=0).fit(X).score(X) + 0.5


def test_classes_are_predicted_by_bayes_rule() -> None:
    X = rows()
    features, y = X[:, :3], np.array(["low", "middle", "high"])[X[:, 3]]
    density = JunctionTreeDensity(treewidth=1).fit(features, y)
    probabilities = density.predict_proba(features)
    joint = [np.exp(_joint(density, features, label)) for label in density.classes_]
    expected = np.array(joint).T / np.sum(joint, axis=0)[:, None]
    assert probabilities == pytest.approx(expected)
    assert set(density.classes_) == {"low", "middle", "high"}
    assert (density.predict(features) == density.classes_[probabilities.argmax(axis=1)]).all()
    assert (density.predict(features) == y).mean() > 0.8
    assert density.score(features, y) < density.score(features)
    assert not hasattr(density.fit(features), "predict_proba")


def _joint(density: JunctionTreeDensity, features: np.ndarray, label: str) -> np.ndarray:
    codes = np.vstack([features.T, np.full(len(features), list(density.classes_).index(label))])
    assert isinstance(density.model_, JunctionTreeModel)
    return log_likelihood(density.model_, codes)


def test_missing_cells_of_complete_columns_are_summed_over() -> None:
    X = rows().astype(float)
    density = JunctionTreeDensity(treewidth=2).fit(X)
    queries = np.array([[1.0, np.nan, 2.0, np.nan]])
    every = [[1.0, a, 2.0, b] for a in range(3) for b in range(3)]
    total = np.exp(density.score_samples(np.array(every))).sum()
    assert density.score_samples(queries)[0] == pytest.approx(log(total))


def test_missing_cells_in_training_are_a_state_or_their_rows_are_left_out() -> None:
    X = rows().astype(float)
    X[::7, 1] = np.nan
    as_state = JunctionTreeDensity().fit(X)
    assert as_state.coders_[1].labels[-1] == "?"
    lone = np.array([[0.0, np.nan, 0.0, 0.0]])
    complete = JunctionTreeDensity(missing="sum").fit(X)
    kept = ~np.isnan(X).any(axis=1)
    again = JunctionTreeDensity().fit(X[kept])
    assert complete.score_samples(lone) == pytest.approx(again.score_samples(lone))
    assert as_state.score_samples(lone)[0] != pytest.approx(complete.score_samples(lone)[0])
    assert np.isnan(as_state.sample(400, random_state=0)[:, 1]).any()
    X[:, 2] = np.where(kept, np.nan, X[:, 2])
    with pytest.raises(ValueError, match="every row has a missing value"):
        JunctionTreeDensity(missing="sum").fit(X)
    X[:, 2] = np.nan
    with pytest.raises(ValueError, match="every value of column 'x2' is missing"):
        JunctionTreeDensity().fit(X)


def test_many_different_numbers_are_cut_and_drawn_from_their_ranges() -> None:
    generator = np.random.default_rng(0)
    first = generator.normal(size=500)
    X = np.column_stack([first, first + 0.1 * generator.normal(size=500)])
    X[::9, 0] = np.nan
    density = JunctionTreeDensity(treewidth=1, bins=5).fit(X)
    assert len(density.coders_[1].labels) == 5
    assert len(density.coders_[0].labels) == 6
    drawn = density.sample(2000, random_state=1)
    present = drawn[~np.isnan(drawn[:, 0])]
    assert np.corrcoef(present.T)[0, 1] > 0.8
    assert drawn[:, 1].min() >= X[:, 1].min()
    assert drawn[:, 1].max() <= X[:, 1].max()
    assert density.score_samples(np.array([[99.0, -99.0]])).shape == (1,)
    assert np.array_equal(drawn, density.sample(2000, random_state=1), equal_nan=True)


def frames() -> list[Any]:
    words = {
        "colour": ["red", "blue", None, "red"] * 20,
        "size": [1, 2, 2, 1] * 20,
        "old": [True, False] * 40,
    }
    return [pd.DataFrame(words), pl.DataFrame(words)]


@pytest.mark.parametrize("frame", frames(), ids=["pandas", "polars"])
def test_frames_of_words_numbers_and_truth_values_are_taken(frame: Any) -> None:
    density = JunctionTreeDensity(treewidth=2).fit(frame)
    assert density.feature_names_in_.tolist() == ["colour", "size", "old"]
    assert density.model_.names == ("colour", "size", "old")
    assert density.coders_[0].labels == ("blue", "red", "?")
    assert density.coders_[1].labels == ("1", "2")
    assert np.exp(density.score_samples(frame)).max() == pytest.approx(0.25, abs=0.01)
    assert {row[0] for row in density.sample(50, random_state=0)} == {"red", "blue", None}


def test_values_that_training_did_not_have_are_errors_that_name_them() -> None:
    density = JunctionTreeDensity().fit(rows())
    with pytest.raises(ValueError, match="column 'x2' has the value '7', which no training row has"):
        density.score_samples(np.array([[0, 0, 7, 0]]))
    lenient = JunctionTreeDensity(unseen="sum").fit(rows())
    expected = lenient.score_samples(np.array([[0, 0, np.nan, 0]]))
    assert np.array_equal(lenient.score_samples(np.array([[0, 0, 7, 0]])), expected)
    cut = JunctionTreeDensity().fit(np.random.default_rng(0).normal(size=(50, 2)))
    with pytest.raises(ValueError, match="was numeric in training, and now has words"):
        cut.score_samples(np.array([["a", "b"]], dtype=object))
    with pytest.raises(ValueError, match=r"both missing values and '\?'"):
        JunctionTreeDensity().fit(np.array([["?", "a"], [None, "b"]], dtype=object))


def test_it_works_in_a_pipeline_and_a_grid_search_over_treewidth() -> None:
    X, y = load_iris(return_X_y=True)
    binned = KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf")
    pipeline = make_pipeline(binned, JunctionTreeDensity())
    grid = {"junctiontreedensity__treewidth": [0, 1, 2]}
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(pipeline, grid, scoring="accuracy", cv=folds, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.85
    densities = GridSearchCV(JunctionTreeDensity(), {"treewidth": [0, 1]}, cv=3, error_score="raise").fit(X)
    assert densities.best_params_ == {"treewidth": 1}


def test_scores_and_backends_are_names_or_values() -> None:
    X = rows()
    named = JunctionTreeDensity(local_score="bdeu", backend="dp", ess=2.0).fit(X)
    values = JunctionTreeDensity(local_score=Bdeu(), backend=REGISTRY["dp"], ess=2.0).fit(X)
    assert named.score(X) == values.score(X)
    assert JunctionTreeDensity(backend="auto").fit(X).score(X) >= named.score(X) - 0.1
    assert clone(values).get_params() == values.get_params()
    with pytest.raises(ChoiceError, match="there is no discrete score 'gini'"):
        JunctionTreeDensity(local_score="gini").fit(X)
    with pytest.raises(ChoiceError, match="no backend 'dq'"):
        JunctionTreeDensity(backend="dq").fit(X)
    with pytest.raises(ValueError, match="ess=0"):
        JunctionTreeDensity(ess=0.0).fit(X)
    with pytest.raises(ValueError, match="'state' or 'sum'"):
        JunctionTreeDensity(missing="mean").fit(X)  # type: ignore[arg-type]


def test_mixtures_have_the_same_interface_and_survive_pickling() -> None:
    X = rows()
    density = JunctionTreeDensity(treewidth=1, components=2, random_state=0).fit(X[:, :3], X[:, 3])
    assert isinstance(density.model_, Mixture)
    copy = pickle.loads(pickle.dumps(density))  # noqa: S301 - made a moment ago
    assert np.array_equal(copy.predict_proba(X[:, :3]), density.predict_proba(X[:, :3]))
    assert density.predict_proba(X[:, :3]).sum(axis=1) == pytest.approx(np.ones(len(X)))
    assert copy.sample(5, random_state=0).shape == (5, 3)


def test_equal_numbers_are_one_state_regardless_of_type() -> None:
    coder = Coder.of("a", np.array([1, 1.0, True, "x", 2.5], dtype=object), 4, 20, gap_state=True)
    assert coder.labels == ("1", "2.5", "x")
    assert Coder.of("c", np.array([0.5, 1.5, 2.0]), None, 20, gap_state=True).labels == ("0.5", "1.5", "2")
    assert Coder.of("c", np.array([0.5, 1.5, 2.0]), 2, 20, gap_state=True).cuts == (1.5,)
    assert coder.codes(np.array(["x", 1.0, None], dtype=object)).tolist() == [2, 0, -1]
    assert Coder.of("b", np.array([True, False]), 4, 20, gap_state=True).labels == ("0", "1")
