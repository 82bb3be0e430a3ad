"""The scikit-learn estimators: the interface by scikit-learn's checks, the numbers by the model's queries."""

from __future__ import annotations

import json
import pickle
import sys
import time
import warnings
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import jtsolve as jt
from jtsolve.averaging.drawn_trees import AveragedTrees
from jtsolve.backends.registry import REGISTRY
from jtsolve.cli import run
from jtsolve.errors import ChoiceError, InputError
from jtsolve.estimator import (
    DataWarning,
    DecomposableCovariance,
    JunctionTreeClassifier,
    JunctionTreeDensity,
    JunctionTreeImputer,
    JunctionTreeRegressor,
)
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.mixture import Mixture
from jtsolve.models.model import JunctionTreeModel
from jtsolve.scoring.scores.bdeu import Bdeu

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.core.backend import Estimate, Report
    from jtsolve.core.problem import Problem
    from jtsolve.core.result import Outcome
    from jtsolve.core.run import Limits

pytestmark = pytest.mark.filterwarnings("ignore::jtsolve.estimator.DataWarning")

SKIPPED = {"check_array_api_input"}
"""Needs a setting of scipy's in the environment before it is imported; it passes with it."""


def rows(count: int = 300, seed: int = 0) -> np.ndarray:
    """Four columns of numbers, each but the first a noisy copy of the one before."""
    generator = np.random.default_rng(seed)
    columns = [generator.integers(0, 3, count)]
    for _ in range(3):
        noise = generator.random(count) < 0.2
        columns.append(np.where(noise, generator.integers(0, 3, count), columns[-1]))
    return np.column_stack(columns)


def survey(count: int = 240) -> tuple[pd.DataFrame, pd.Series]:
    """Words, declared categories, booleans, quantities, rare values and gaps; and a class."""
    generator = np.random.default_rng(0)
    smoker = generator.random(count) < 0.4
    frame = pd.DataFrame({
        "age": pd.Categorical(
            np.where(smoker, generator.choice(["young", "old"], count), "old"),
            categories=["young", "old", "ancient"],
        ),
        "smoker": smoker,
        "weight": generator.normal(70, 10, count) - 15 * smoker,
        "children": generator.integers(0, 4, count),
        "town": [f"town {i % 37}" for i in range(count)],
    })  # fmt: skip
    frame.index = pd.Index(range(5, 5 + 2 * count, 2))
    frame.loc[frame.index[::9], "weight"] = np.nan
    frame.loc[frame.index[::11], "town"] = None
    return frame, pd.Series(smoker ^ (generator.random(count) < 0.2), name="cough", index=frame.index)


def tree_of(estimator: Any) -> JunctionTreeModel:
    model = estimator.model_.model
    assert isinstance(model, JunctionTreeModel)
    return model


@pytest.mark.parametrize(
    "estimator",
    [
        JunctionTreeDensity(),
        JunctionTreeClassifier(threads=1),  # without processes for the members of a portfolio
        JunctionTreeClassifier(trees="class-conditional", backend="forward"),
        JunctionTreeImputer(threads=1),
        JunctionTreeRegressor(threads=1),
        DecomposableCovariance(treewidth=1, threads=1),
    ],
    ids=str,
)
def test_it_passes_every_check_of_scikit_learn(estimator: BaseEstimator) -> None:
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    wrong = [
        (result["check_name"], result["exception"])
        for result in results
        if result["status"] != "passed" and result["check_name"] not in SKIPPED
    ]
    assert not wrong
    assert len(results) > 40


def test_defaults_agree_with_the_command_and_learn(tmp_path: Path) -> None:
    frame, y = survey()
    frame = frame.assign(cough=y).reset_index(drop=True).astype({"age": str})
    frame.to_csv(tmp_path / "survey.csv", index=False)
    options = ["--treewidth", "2", "--discretise", "quantile:4", "--missing", "state"]
    files = [str(tmp_path / "survey.csv"), "--output", str(tmp_path / "model.json")]
    assert run(["fit", *files, *options, "--quiet"], time.monotonic()) == 0
    fitted = jt.Model.read(tmp_path / "model.json").model
    learned = jt.fit(frame, treewidth=2, discretise="quantile:4", missing="state", show_progress=False).model
    for own in (
        tree_of(JunctionTreeDensity().fit(frame)),
        JunctionTreeClassifier().fit(frame.drop(columns="cough"), frame["cough"]).model_.model,
    ):
        for other in (fitted, learned):
            assert isinstance(own, JunctionTreeModel)
            assert isinstance(other, JunctionTreeModel)
            assert (own.names, own.tree) == (other.names, other.tree)
            assert [column.states for column in own.columns] == [column.states for column in other.columns]
            assert np.array_equal(own.values, other.values)
        assert isinstance(own, JunctionTreeModel)
        assert (own.provenance["score"], own.provenance["status"]) == ("bic", "optimal")


def test_densities_are_those_of_the_model_and_sum_to_one() -> None:
    X = rows()
    density = JunctionTreeDensity(treewidth=2, backend="dp").fit(X)
    assert density.score_samples(X) == pytest.approx(tree_of(density).log_likelihood(X.T))
    assert density.score(X) == pytest.approx(density.score_samples(X).mean())
    every = np.stack(np.meshgrid(*[np.arange(3)] * 4), axis=-1).reshape(-1, 4)
    assert np.exp(density.score_samples(every)).sum() == pytest.approx(1)
    assert density.score(X) > JunctionTreeDensity(treewidth=0).fit(X).score(X) + 0.5
    assert density.model_.query("x1", given={"x0": 2})["probability"].to_list()[2] > 0.7


def switched(rows: int = 600) -> np.ndarray:
    """Returns rows in which the first column chooses which of two others the last one copies."""
    X = np.random.default_rng(0).integers(0, 2, (rows, 4))
    X[:, 3] = np.where(X[:, 0] == 1, X[:, 1], X[:, 2])
    return X


@pytest.mark.parametrize("model", ["features:support=20", "lem"])
def test_feature_trees_are_densities_with_gaps_and_rows_to_draw(model: str) -> None:
    X = switched()
    density = JunctionTreeDensity(treewidth=1, model=model).fit(X)
    assert isinstance(density.model_.model, FeatureTree)
    assert density.score(X) > JunctionTreeDensity(treewidth=1).fit(X).score(X) + 0.1
    rows = np.array(list(product((0, 1), repeat=4)))
    assert np.exp(density.score_samples(rows)).sum() == pytest.approx(1)
    assert np.exp(density.score_samples([[np.nan, np.nan, np.nan, 1]]))[0] == pytest.approx(0.5, abs=0.06)
    assert density.sample(5, random_state=0).shape == (5, 4)
    clone(density).fit(X)


def test_every_kind_of_model_is_a_density_of_the_features() -> None:
    X = pd.DataFrame(switched(200), columns=list("abcd"))
    rows = pd.DataFrame(product((0, 1), repeat=4), columns=list("abcd"))
    for model in ("hidden:states=4", AveragedTrees(draws=4)):
        density = clone(JunctionTreeDensity(treewidth=1, model=model)).fit(X)
        assert np.exp(density.score_samples(rows)).sum() == pytest.approx(1)
        assert list(density.sample(3).columns) == list("abcd")


def test_wrong_models_are_refused() -> None:
    X = switched(50)
    with pytest.raises(ChoiceError, match="no model 'forest'"):
        JunctionTreeDensity(model="forest").fit(X)
    with pytest.raises(ChoiceError, match="does not use backend"):
        JunctionTreeDensity(model="lem", backend="dp").fit(X)
    with pytest.raises(ChoiceError, match="the model 'lem' needs whole weights"):
        JunctionTreeDensity(model="lem").fit(X, sample_weight=np.full(50, 0.5))


@dataclass(frozen=True)
class Timed:
    """The backend `forward`, which records the seconds that are left when it is called."""

    seconds: list[float] = field(default_factory=list)

    name = "forward"
    capabilities = REGISTRY["forward"].capabilities

    def estimate(self, problem: Problem, limits: Limits) -> Estimate:
        return REGISTRY["forward"].estimate(problem, limits)

    def solve(self, problem: Problem, limits: Limits, report: Report) -> Outcome:
        self.seconds.append(limits.left)
        return REGISTRY["forward"].solve(problem, limits, report)


def test_time_limits_the_whole_fit() -> None:
    X, backend = rows(600).astype(float), Timed()
    JunctionTreeClassifier(trees="class-conditional", time=600, backend=backend).fit(
        X[:, 1:], rows(600)[:, 0]
    )
    assert len(backend.seconds) == 3
    assert backend.seconds[0] < 200 < backend.seconds[2] < 600


def test_missing_cells_of_complete_columns_are_summed_over() -> None:
    X = rows().astype(float)
    density = JunctionTreeDensity(treewidth=2).fit(X)
    queries = np.array([[1.0, np.nan, 2.0, np.nan]])
    every = [[1.0, a, 2.0, b] for a in range(3) for b in range(3)]
    total = np.exp(density.score_samples(np.array(every))).sum()
    assert density.score_samples(queries)[0] == pytest.approx(log(total))


def test_missing_cells_in_training_are_a_state_left_out_or_filled_in() -> None:
    X = rows().astype(float)
    X[::7, 1] = np.nan
    as_state = JunctionTreeDensity().fit(X)
    assert tree_of(as_state).columns[1].states[-1] == "?"
    lone = np.array([[0.0, np.nan, 0.0, 0.0]])
    complete = JunctionTreeDensity(missing="drop-rows").fit(X)
    kept = ~np.isnan(X).any(axis=1)
    again = JunctionTreeDensity().fit(X[kept])
    assert complete.score_samples(lone) == pytest.approx(again.score_samples(lone))
    assert as_state.score_samples(lone)[0] != pytest.approx(complete.score_samples(lone)[0])
    assert np.isnan(as_state.sample(400, random_state=0)[:, 1]).any()
    assert tree_of(JunctionTreeDensity(missing="impute-mode").fit(X)).columns[1].arity == 3
    with pytest.raises(
        InputError, match=r"43 in 'x1'.* \(or drop-rows, impute-mode, em\), .*X.drop\(columns=…\)"
    ):
        JunctionTreeDensity(missing="refuse").fit(X)
    X[:, 2] = np.nan
    with pytest.raises(InputError, match="column 'x2': every value is missing"):
        JunctionTreeDensity().fit(X)


def test_further_values_that_mean_a_missing_one() -> None:
    X = rows().astype(float)
    marked, gaps = X.copy(), X.copy()
    marked[::7, 1], gaps[::7, 1] = -9, np.nan
    for make in (JunctionTreeDensity, JunctionTreeImputer):
        own, other = tree_of(make(missing_values=-9).fit(marked)), tree_of(make().fit(gaps))
        assert own.columns == other.columns
        assert np.array_equal(own.values, other.values)
    numbers = np.where(np.arange(60) % 5, np.arange(60) / 7, -9.0)
    words = pd.DataFrame({"a": ["x", "y", "?"] * 20, "n": numbers})
    filled = JunctionTreeImputer(missing_values=["?", -9]).fit_transform(words)
    assert set(filled["a"]) == {"x", "y"}
    assert filled["n"].min() >= 0
    classifier = JunctionTreeClassifier(missing_values=["?", -9]).fit(words, [0, -9] * 30)
    assert classifier.classes_.tolist() == [-9, 0]
    assert tree_of(classifier).columns[0].states == ("x", "y", "?")


def test_declared_states_and_cuts_are_those_of_the_columns(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": np.arange(60) / 7, "a": ["x", "y"] * 30})
    schema = {"n": [2, 5], "a": ["y", "x", "z"]}
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema))
    model = jt.fit(frame, treewidth=2, schema=path, show_progress=False).model
    assert isinstance(model, JunctionTreeModel)
    expected = model.columns
    assert expected[0].cuts == (2.0, 5.0)
    assert expected[1].states == ("y", "x", "z")
    for estimator in (JunctionTreeDensity(schema=schema), JunctionTreeImputer(schema=path)):
        assert tree_of(estimator.fit(frame)).columns == expected
    joint = JunctionTreeClassifier(schema=schema).fit(frame, frame["a"].rename("c"))
    assert tree_of(joint).columns[:2] == expected
    with pytest.raises(InputError, match=r"the schema: 'n': the cuts do not increase"):
        JunctionTreeDensity(schema={"n": [5, 2]}).fit(frame)


def test_many_different_numbers_are_cut_and_drawn_from_their_ranges() -> None:
    generator = np.random.default_rng(0)
    first = generator.normal(size=500)
    X = np.column_stack([first, first + 0.1 * generator.normal(size=500)])
    X[::9, 0] = np.nan
    density = JunctionTreeDensity(treewidth=1, discretise="quantile:5").fit(X)
    assert [column.arity for column in tree_of(density).columns] == [6, 5]
    drawn = density.sample(2000, random_state=1)
    present = drawn[~np.isnan(drawn[:, 0])]
    assert np.corrcoef(present.T)[0, 1] > 0.8
    assert drawn[:, 1].min() >= X[:, 1].min()
    assert drawn[:, 1].max() <= X[:, 1].max()
    assert density.score_samples(np.array([[99.0, -99.0]])).shape == (1,)
    assert np.array_equal(drawn, density.sample(2000, random_state=1), equal_nan=True)
    few = JunctionTreeDensity(states="x0", missing="drop-rows").fit(X[:40])
    assert [column.arity for column in tree_of(few).columns] == [35, 4]
    with pytest.raises(InputError, match="numbers with many distinct values are not states"):
        JunctionTreeDensity(discretise=None).fit(X)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_rows_are_drawn_as_the_frame_held_them(library: str) -> None:
    frame, _ = survey()
    given: Any = frame if library == "pandas" else pl.from_pandas(frame)
    density = JunctionTreeDensity().fit(given)
    assert density.feature_names_in_.tolist() == list(frame.columns)
    drawn = density.sample(30, random_state=0)
    assert type(drawn) is type(given)
    assert list(drawn.columns) == list(frame.columns)
    assert [str(kind) for kind in drawn.dtypes] == [str(kind) for kind in given.dtypes]
    assert set(drawn["smoker"].to_list()) == {True, False}
    words = JunctionTreeDensity().fit(np.array([["a", 1], ["b", None], ["a", 2]], dtype=object))
    assert {type(row[0]) for row in words.sample(9, random_state=0)} == {str}


def test_values_that_training_did_not_have_get_the_share_of_the_prior() -> None:
    X = rows()
    density = JunctionTreeDensity(smoothing=2.0).fit(X)
    strange, ignored = np.array([[0, 0, 7, 0]]), np.array([[0, 0, np.nan, 0]])
    share = 2.0 / (4 * (300 + 2))
    assert density.score_samples(strange) == pytest.approx(density.score_samples(ignored) + log(share))
    classifier = JunctionTreeClassifier().fit(X[:, :3], X[:, 3])
    assert np.array_equal(classifier.predict_proba(strange[:, :3]), classifier.predict_proba(ignored[:, :3]))
    cut = JunctionTreeDensity().fit(np.random.default_rng(0).normal(size=(50, 2)))
    assert np.isfinite(cut.score_samples(np.array([["a", 0.5]], dtype=object))).all()
    declared = pd.DataFrame({"a": pd.Categorical(["x", "y"] * 10, categories=["x", "y", "z"])})
    third = declared.assign(a=pd.Categorical(["z"] * 20, categories=["x", "y", "z"]))
    assert JunctionTreeDensity().fit(declared).score_samples(third)[0] == pytest.approx(log(1 / 3 / 21))


@pytest.mark.parametrize("score", ["bic", "bdeu", "qnml"])
def test_whole_weights_count_rows(score: str) -> None:
    X, times = rows(), np.random.default_rng(1).integers(0, 4, 300)
    weighted = tree_of(JunctionTreeDensity(local_score=score).fit(X, sample_weight=times))
    repeated = tree_of(JunctionTreeDensity(local_score=score).fit(np.repeat(X, times, axis=0)))
    assert weighted.tree == repeated.tree
    assert weighted.tables[0] == pytest.approx(repeated.tables[0])


@pytest.mark.parametrize("score", ["bic", "aic", "mdl", "ml"])
def test_fractional_weights_count_parts_of_rows(score: str) -> None:
    X = rows()
    plain = JunctionTreeDensity(local_score=score).fit(X)
    thirds = np.tile([0.125, 0.25, 0.625], 300)
    parts = JunctionTreeDensity(local_score=score).fit(np.repeat(X, 3, axis=0), sample_weight=thirds)
    assert tree_of(parts).tree == tree_of(plain).tree
    assert tree_of(parts).tables[0] == pytest.approx(tree_of(plain).tables[0])
    facts = tree_of(parts).provenance, tree_of(plain).provenance
    assert facts[0]["tree_score"] == pytest.approx(facts[1]["tree_score"])
    assert facts[0]["rows"] == facts[1]["rows"]


def test_wrong_weights_are_refused() -> None:
    X = rows(20)
    for wrong in ([1.0] * 19, [-1.0] + [1.0] * 19, [0.0] * 20, [float("nan")] * 20):
        with pytest.raises(ValueError, match=r"sample_weight|Sample weights"):
            JunctionTreeDensity().fit(X, sample_weight=wrong)
    half = [0.5] * 20
    with pytest.raises(ChoiceError, match=r"'bdeu' needs whole weights.*local_score=.bic"):
        JunctionTreeDensity(local_score="bdeu").fit(X, sample_weight=half)
    with pytest.raises(ChoiceError, match="the model 'mixture' needs whole weights"):
        JunctionTreeDensity(model="mixture").fit(X, sample_weight=half)
    y = [0] * 10 + [1] * 10
    with pytest.raises(ValueError, match="no row of class '1' counts"):
        JunctionTreeClassifier(trees="class-conditional").fit(X, y, sample_weight=[1] * 10 + [0] * 10)


def test_classes_of_a_joint_tree_are_predicted_by_bayes_rule() -> None:
    X = rows()
    features, y = X[:, :3], np.array(["low", "middle", "high"])[X[:, 3]]
    classifier = JunctionTreeClassifier(treewidth=1).fit(features, y)
    model = tree_of(classifier)
    joint = np.exp([
        model.log_likelihood(np.vstack([features.T, np.full(len(features), code)])) for code in range(3)
    ])  # fmt: skip
    assert classifier.predict_proba(features) == pytest.approx((joint / joint.sum(axis=0)).T)
    assert classifier.classes_.tolist() == ["high", "low", "middle"]
    assert classifier.score(features, y) > 0.8
    assert np.exp(classifier.class_log_prior_).sum() == pytest.approx(1)


def test_class_conditional_trees_are_those_of_the_rows_of_each_class() -> None:
    X = rows()
    features, y = X[:, :3], X[:, 3] > 0
    classifier = JunctionTreeClassifier(trees="class-conditional").fit(features, y)
    logs = []
    for label, model in zip(classifier.classes_, classifier.models_, strict=True):
        alone = JunctionTreeDensity().fit(features[y == label])
        assert isinstance(model.model, JunctionTreeModel)
        assert model.model.tree == tree_of(alone).tree
        assert model.model.provenance["class"] == str(label)
        logs.append(alone.score_samples(features) + log(((y == label).sum() + 0.5) / 301))
    joint = np.exp(logs)
    assert classifier.predict_proba(features) == pytest.approx((joint / joint.sum(axis=0)).T)
    assert classifier.predict(features).dtype == bool


@pytest.mark.parametrize("trees", ["joint", "class-conditional"])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_scores_of_awkward_frames_are_never_nan(trees: Any, library: str) -> None:
    frame, y = survey()
    X: Any = frame if library == "pandas" else pl.from_pandas(frame)
    for scoring, least in (("roc_auc", 0.6), ("neg_log_loss", -1.1), ("accuracy", 0.6)):
        scores = cross_val_score(
            JunctionTreeClassifier(trees=trees, backend="forward"), X, y, scoring=scoring, cv=3
        )
        assert scores.mean() > least
    fitted = JunctionTreeClassifier(trees=trees).fit(X, y)
    assert fitted.predict(X).dtype == bool
    assert fitted.class_name_ == "cough"
    assert np.isfinite(cross_val_score(JunctionTreeDensity(), X, cv=3)).all()


def test_wrong_classes_are_refused() -> None:
    X = rows(20)
    with pytest.raises(ValueError, match="y is None"):
        JunctionTreeClassifier().fit(X, None)
    with pytest.raises(ValueError, match="y has missing values"):
        JunctionTreeClassifier().fit(X, np.array(["a", None] * 10, dtype=object))
    with pytest.raises(ChoiceError, match="trees='both'"):
        JunctionTreeClassifier(trees="both").fit(X, [0, 1] * 10)  # type: ignore[arg-type]
    frame = pd.DataFrame({"class": [0, 1] * 10})
    named = JunctionTreeClassifier().fit(frame, [0, 1] * 10)
    assert named.model_.names == ("class", "class_")


def test_it_works_in_a_pipeline_with_columns_of_all_kinds_and_a_grid_search() -> None:
    frame, y = survey()
    columns = make_column_transformer(
        (JunctionTreeImputer(), ["weight", "smoker", "town"]), remainder="passthrough"
    ).set_output(transform="pandas")
    pipeline = make_pipeline(columns, JunctionTreeClassifier(backend="forward"))
    grid = {"junctiontreeclassifier__treewidth": [0, 1], "junctiontreeclassifier__discretise": ["mdlp"]}
    search = GridSearchCV(pipeline, grid, scoring="roc_auc", cv=3, error_score="raise").fit(frame, y)
    assert search.best_params_["junctiontreeclassifier__treewidth"] == 1
    assert search.best_score_ > 0.6
    X, classes = load_iris(return_X_y=True)
    assert cross_val_score(JunctionTreeClassifier(discretise="mdlp"), X, classes).mean() > 0.9
    densities = GridSearchCV(JunctionTreeDensity(), {"treewidth": [0, 1]}, cv=3, error_score="raise").fit(X)
    assert densities.best_params_ == {"treewidth": 1}


def test_gaps_are_filled_better_than_by_the_most_frequent_value() -> None:
    X = rows(600).astype(float)
    gaps = np.random.default_rng(5).random(X.shape) < 0.2
    holed = np.where(gaps, np.nan, X)
    filled = JunctionTreeImputer().fit_transform(holed)
    assert np.array_equal(filled[~gaps], X[~gaps])
    assert (filled == X)[gaps].mean() > 0.65
    assert (SimpleImputer(strategy="most_frequent").fit_transform(holed) == X)[gaps].mean() < 0.5


def test_gaps_become_the_mode_of_their_own_posterior() -> None:
    X = rows().astype(float)
    query = np.array([[0.0, np.nan, np.nan, 2.0]])
    fitted = JunctionTreeImputer().fit(X)
    model = tree_of(fitted)
    cells = list(product(range(3), repeat=2))
    logs = model.log_likelihood(np.array([[0, a, b, 2] for a, b in cells]).T)
    table = np.exp(logs - logs.max()).reshape(3, 3)
    table /= table.sum()
    marginals = table.sum(axis=1), table.sum(axis=0)
    assert fitted.transform(query)[0, 1:3].tolist() == [p.argmax() for p in marginals]


def test_cells_of_cut_columns_become_the_median_of_their_range() -> None:
    X = np.repeat(np.arange(40.0), 5)[:, None] * np.array([[1.0, 10.0]])
    X[3, 1] = np.nan
    imputer = JunctionTreeImputer(smoothing=1e-9).fit(X, sample_weight=1 + (X[:, 0] > 100))
    low = X[X[:, 0] < 10, 1]
    assert np.nanmedian(low) == pytest.approx(45, abs=6)
    assert imputer.transform(X)[3, 1] == pytest.approx(50.0, abs=6)
    wide = JunctionTreeImputer(discretise="width:3").fit(np.append(np.arange(50.0), [999, np.nan])[:, None])
    assert wide.transform([[np.nan]])[0, 0] == 24


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_filled_in_their_own_types(library: str) -> None:
    frame, _ = survey()
    frame["smoker"] = frame["smoker"].astype("boolean")
    frame["children"] = frame["children"].astype("Int64")
    frame.iloc[3, [0, 1, 3]] = None
    X: Any = frame if library == "pandas" else pl.from_pandas(frame)
    filled = JunctionTreeImputer().fit_transform(X)
    assert type(filled) is type(X)
    assert [str(kind) for kind in filled.dtypes] == [str(kind) for kind in X.dtypes]
    missing = filled.isna().sum().sum() if library == "pandas" else sum(filled.null_count().row(0))
    assert missing == 0
    assert filled["smoker"].to_list()[3] in {True, False}
    assert X["town"].to_list()[0] is None or pd.isna(X["town"].to_list()[0])  # not in place
    if library == "pandas":
        assert filled.index.equals(frame.index)
    imputer = JunctionTreeImputer().set_output(transform="pandas").fit(frame)
    assert imputer.get_feature_names_out().tolist() == list(frame.columns)
    assert imputer.transform(frame.assign(town="elsewhere"))["town"].eq("elsewhere").all()


def test_findings_of_the_data_check_are_warnings_where_fit_was_called() -> None:
    frame = pd.DataFrame({"id": [f"no. {i}" for i in range(50)], "a": [0, 1] * 25})
    for estimator in (JunctionTreeDensity(), JunctionTreeImputer()):
        with pytest.warns(DataWarning, match="columns that identify the rows: 'id'") as found:
            estimator.fit(frame)
        assert found[0].filename == __file__
    with pytest.warns(DataWarning, match="'id'"):
        JunctionTreeClassifier().fit(frame[["id"]], frame["a"])
    advice = r'leave out with X\.drop\(columns="id"\)'
    with pytest.warns(DataWarning, match=advice):
        JunctionTreeDensity().fit(frame)
    with pytest.raises(InputError, match=advice):
        JunctionTreeDensity(strict=True).fit(frame)


def test_advice_names_features_and_never_the_class() -> None:
    x = np.arange(300) % 15
    frame = pd.DataFrame({"x": x, "y": (x > 6).astype(int)})
    advice = r"'y' \(of 'class'\)\. Fix: leave out with X\.drop\(columns=\"y\"\)"
    with pytest.warns(DataWarning, match=advice):
        JunctionTreeClassifier().fit(frame, frame["y"].to_numpy())
    for target in (x // 5, np.zeros(300)):  # a function of a feature, and a constant
        with warnings.catch_warnings():
            warnings.simplefilter("error", DataWarning)
            JunctionTreeClassifier().fit(frame, target)


def test_scores_and_backends_are_names_or_values() -> None:
    X = rows()
    named = JunctionTreeDensity(local_score="bdeu", backend="dp", smoothing=2.0).fit(X)
    values = JunctionTreeDensity(local_score=Bdeu(2.0), backend=REGISTRY["dp"]).fit(X)
    assert tree_of(values).provenance["smoothing_ess"] == 2.0
    assert named.score(X) == pytest.approx(values.score(X), abs=0.01)
    assert clone(values).get_params() == values.get_params()
    generator = np.random.RandomState(1)
    assert JunctionTreeDensity(backend="lns", time=60, memory=4, random_state=generator).fit(X).score(X) > -4
    for wrong, message in (
        ({"local_score": "gini"}, "no score 'gini'"),
        ({"local_score": "bge"}, "of real numbers"),
        ({"backend": "dq"}, "no backend 'dq'"),
        ({"smoothing": 0.0}, "smoothing=0"),
        ({"missing": "mean"}, "missing='mean'"),
        ({"treewidth": -1}, "treewidth is -1"),
    ):
        with pytest.raises(ChoiceError, match=message):
            JunctionTreeDensity(**wrong).fit(X)
    with pytest.raises(ChoiceError, match="components="):
        JunctionTreeDensity(model="mixture:components=0").fit(X)
    with pytest.raises(ValueError, match="two columns of X have the same name"):
        JunctionTreeDensity().fit(pd.DataFrame(X, columns=list("aabc")))


def test_estimators_survive_pickling_and_show_themselves() -> None:
    X = rows()
    mixture = JunctionTreeDensity(treewidth=1, model="mixture:components=2").fit(X)
    assert isinstance(mixture.model_.model, Mixture)
    frame, y = survey()
    for estimator, given in ((mixture, X), (JunctionTreeDensity().fit(frame), frame)):
        copy = pickle.loads(pickle.dumps(estimator))  # noqa: S301 - our own pickle
        assert np.array_equal(copy.score_samples(given), estimator.score_samples(given))
    classifier = JunctionTreeClassifier().fit(frame, y)
    copy = pickle.loads(pickle.dumps(classifier))  # noqa: S301 - our own pickle
    assert np.array_equal(copy.predict_proba(frame), classifier.predict_proba(frame))
    assert "JunctionTreeClassifier" in classifier._repr_html_()
    assert "<svg" in classifier.model_._repr_html_()


def test_without_scikit_learn_the_import_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "jtsolve.estimator")
    with pytest.raises(ImportError, match=r"pip install 'jtsolve\[sklearn\]'$"):
        import_module("jtsolve.estimator")


def test_an_older_scikit_learn_is_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sklearn.__version__", "1.8.0")
    monkeypatch.delitem(sys.modules, "jtsolve.estimator")
    with pytest.raises(ImportError, match=r"1\.9 or later, and 1\.8\.0 is installed: pip install 'jtsolve"):
        import_module("jtsolve.estimator")


def test_decimal_commas_in_columns_of_text_are_numbers_if_one_says_so() -> None:
    values = np.random.default_rng(0).normal(size=60).round(2)
    numbers = pd.DataFrame({"x": values, "sign": values > 0})
    words = numbers.assign(x=[str(value).replace(".", ",") for value in values])
    found = JunctionTreeDensity(decimal="comma").fit(words).score_samples(words)
    assert np.allclose(found, JunctionTreeDensity().fit(numbers).score_samples(numbers))


def people(count: int = 400) -> pd.DataFrame:
    """A category and two real numbers, some below 0."""
    generator = np.random.default_rng(0)
    sex = generator.choice(["f", "m"], count)
    height = generator.normal(-4, 6, count) + 12 * (sex == "m")
    return pd.DataFrame({"sex": sex, "height": height, "weight": height + generator.normal(0, 4, count)})


MIXED: dict[str, Any] = {"local_score": "cg", "discretise": None, "backend": "dp"}


def test_real_columns_beside_categories_have_densities_draws_and_classes() -> None:
    frame = people()
    density = JunctionTreeDensity(**MIXED).fit(frame)
    learned = jt.fit(frame, treewidth=2, backend="dp")
    assert density.score_samples(frame) == pytest.approx(learned.loglik(frame).to_numpy())
    odd = pd.DataFrame({"sex": [None, "x"], "height": [-2.0, -2.0], "weight": [-1.0, None]})
    shared = density.score_samples(odd) - learned.loglik(odd.assign(sex=None)).to_numpy()
    assert shared == pytest.approx([0, log(1 / (3 * 401))])
    drawn = density.sample(400, random_state=0)
    assert set(drawn["sex"]) == {"f", "m"}
    assert drawn["weight"].corr(drawn["height"]) == pytest.approx(
        frame["weight"].corr(frame["height"]), abs=0.1
    )
    numbers = frame[["height", "weight"]]
    classifier = JunctionTreeClassifier(**MIXED).fit(numbers, frame["sex"])
    expected = classifier.model_.predict(numbers, "sex", probabilities=True)
    assert classifier.predict_proba(numbers) == pytest.approx(expected.to_numpy())
    assert classifier.score(numbers, frame["sex"]) > 0.8
    with pytest.raises(ChoiceError, match="cut real columns"):
        JunctionTreeClassifier(trees="class-conditional", **MIXED).fit(numbers, frame["sex"])
    with pytest.raises(ChoiceError, match="real columns do not support"):
        JunctionTreeDensity(**MIXED).fit(frame, sample_weight=np.ones(400))


def test_gaps_in_real_columns_become_conditional_means() -> None:
    frame = people()
    holed = frame.mask(np.random.default_rng(1).random(frame.shape) < 0.15)
    imputer = JunctionTreeImputer(**MIXED).fit(holed)
    filled = imputer.transform(holed)
    assert not filled.isna().any(axis=None)
    assert filled.where(holed.notna()).equals(holed)
    gaps = holed["weight"].isna()
    errors = (filled["weight"] - frame["weight"])[gaps]
    assert errors.std() < 0.8 * frame["weight"].std()


def test_an_imputer_needs_no_complete_row() -> None:
    frame = people()
    frame.loc[:4, "sex"], frame.loc[::2, "height"], frame.loc[1::2, "weight"] = "other", None, None
    filled = JunctionTreeImputer(**MIXED).fit_transform(frame)
    assert filled["sex"].equals(frame["sex"])
    assert filled.notna().all(axis=None)


def test_a_regressor_predicts_the_posterior_mean() -> None:
    frame = people()
    features, target = frame[["sex", "height"]], frame["weight"]
    regressor = JunctionTreeRegressor(backend="dp").fit(features, target)
    assert regressor.target_name_ == "weight"
    expected = regressor.model_.predict(features, "weight")
    assert regressor.predict(features) == pytest.approx(expected.to_numpy())
    signal = 1 - 16 / target.var()
    assert regressor.score(features, target) == pytest.approx(signal, abs=0.05)
    assert cross_val_score(regressor, features, target, cv=3).mean() == pytest.approx(signal, abs=0.1)
    unknown = regressor.predict(pd.DataFrame({"sex": [None], "height": [None]}))
    assert unknown == pytest.approx([target.mean()], abs=0.1)
    few = JunctionTreeRegressor(backend="dp").fit(features, (frame["sex"] == "m").astype(int))
    assert few.score(features, frame["sex"] == "m") > 0.9
    with pytest.raises(ChoiceError, match="is of states; choose cg"):
        JunctionTreeRegressor(local_score="bic").fit(features, target)
    with pytest.raises(ValueError, match="y is None"):
        JunctionTreeRegressor().fit(features, None)
