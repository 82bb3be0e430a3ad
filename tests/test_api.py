"""`import jtsolve`: from a data frame to a tree, its picture and answers, by names."""

from __future__ import annotations

import copy
import logging
import os
import pickle
import pydoc
import re
import subprocess
import sys
from functools import cache
from importlib.util import module_from_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from documents import ROOT

import jtsolve as jt
from jtsolve.backends.registry import REGISTRY
from jtsolve.cli import run
from jtsolve.core.problem import Problem
from jtsolve.draw.text import graph_text
from jtsolve.errors import InputError
from jtsolve.kbest import k_best
from jtsolve.models.features.nodes import TreeLeaf
from jtsolve.models.features.tree import FeatureTree
from jtsolve.models.model import JunctionTreeModel
from jtsolve.scoring.scores.bic import Bic

if TYPE_CHECKING:
    from pathlib import Path

ZOO = ROOT / "instances/uci/zoo.json.gz"


def survey(rows: int = 400) -> pd.DataFrame:
    """A chain Age – Smoker – Cough, and a coin that depends on nothing."""
    generator = np.random.default_rng(0)
    years = generator.integers(18, 80, rows)
    smoker = generator.random(rows) < np.where(years < 40, 0.7, 0.1)
    cough = np.where(generator.random(rows) < np.where(smoker, 0.8, 0.1), "often", "never")
    age = pd.cut(pd.Series(years), [17, 39, 60, 80], labels=["18–39", "40–60", "61+"])
    coin = generator.integers(0, 2, rows)
    return pd.DataFrame({"Age": age, "Smoker": smoker, "Cough": cough, "Coin": coin})


SURVEY = survey()


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = (
        "import sys, jtsolve\n"
        "print(sorted({'numpy', 'numba', 'polars', 'networkx', 'msgspec', 'typing'} & set(sys.modules)))"
    )
    assert python(program) == "[]\n"


def test_pandas_and_arrow_need_not_be_installed() -> None:
    program = (
        "import sys; sys.modules.update(pandas=None, pyarrow=None)\n"
        "import jtsolve as jt\n"
        "print(jt.learn({'a': [0, 1] * 9, 'b': [True, False] * 9}).fit().sample(2).shape)"
    )
    assert python(program) == "(2, 2)\n"


def python(program: str, *places: Path) -> str:
    """Returns the output of a program, with further folders to import from."""
    folders = os.pathsep.join(map(str, [*places, ROOT, os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, "PYTHONPATH": folders},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_names_are_few_and_help_explains_each_with_an_example() -> None:
    assert len(jt.__all__) <= 20
    assert set(jt.__all__) <= set(dir(jt))
    text = pydoc.plain(pydoc.render_doc(jt))
    for name in jt.__all__:
        assert re.search(rf"jt\.{name}\b", text), name
    for name in ("learn", "fit", "average", "select", "solve", "read", "triangulate", "Model", "Solution"):
        assert ">>> " in (getattr(jt, name).__doc__ or "")
    with pytest.raises(AttributeError, match="no attribute 'learner'"):
        _ = jt.learner  # type: ignore[attr-defined]


def test_the_stub_has_the_names_of_the_package() -> None:
    stub = (ROOT / "jtsolve/__init__.pyi").read_text(encoding="utf-8")
    assert set(re.findall(r" as (\w+)$|^def (\w+)", stub, re.MULTILINE)) == {
        ("", name) if name in {"average", "backends", "learn", "solve"} else (name, "") for name in jt.__all__
    }
    assert (ROOT / "jtsolve/py.typed").exists()


def test_at_most_four_lines_lead_from_a_frame_to_result_picture_and_query() -> None:
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith(">>> ")]
    start = lines.index(">>> import jtsolve as jt")
    path = lines[start : start + 4]
    for words in ("learn(", ".show(", ".query("):
        assert sum(words in line for line in path) == 1


@pytest.mark.parametrize("kind", ["pandas", "polars", "csv", "arrays"])
def test_the_tree_of_a_survey_is_found_with_names_from_any_table(kind: str, tmp_path: Path) -> None:
    SURVEY.to_csv(tmp_path / "survey.csv")
    data: Any = {
        "pandas": SURVEY,
        "polars": pl.DataFrame({name: SURVEY[name].tolist() for name in SURVEY}),
        "csv": tmp_path / "survey.csv",
        "arrays": {name: SURVEY[name].to_numpy() for name in SURVEY},
    }[kind]
    result = jt.learn(data, treewidth=2, time=60)
    assert result.status == "optimal"
    assert result.gap == 0
    assert result.bound == result.score
    assert result.treewidth == 1
    assert result.cliques == [("Age", "Smoker"), ("Smoker", "Cough"), ("Coin",)]
    assert sorted(result.separators) == [(), ("Smoker",)]
    assert sorted(map(sorted, result.graph().edges)) == [["Age", "Smoker"], ["Cough", "Smoker"]]


def test_pairs_are_forbidden_and_required_by_name() -> None:
    result = jt.learn(SURVEY, forbid=[("Age", "Smoker")], require=[("Coin", "Age")])
    graph = result.graph()
    assert not graph.has_edge("Age", "Smoker")
    assert graph.has_edge("Age", "Coin")
    few = jt.learn(SURVEY, treewidth=3, constraints={"max_cliques": 1})
    assert few.cliques == [("Age", "Smoker", "Cough", "Coin")]
    with pytest.raises(jt.InputError, match="Agee"):
        jt.learn(SURVEY, forbid=[("Agee", "Smoker")])
    with pytest.raises(jt.InputError, match="both required and forbidden"):
        jt.learn(SURVEY, forbid=[("Age", "Coin")], require=[("Age", "Coin")])
    with pytest.raises(jt.ChoiceError, match="no constraint 'max_clique'; did you mean 'max_cliques'"):
        jt.learn(SURVEY, constraints={"max_clique": 1})


def test_an_instance_is_solved_by_name_and_constraints_add_up() -> None:
    problem = jt.read(ZOO)
    assert isinstance(problem, Problem)
    result = jt.solve(problem, backend="dp", treewidth=1)
    assert result.result.backend == "dp"
    assert result.status == "optimal"
    edge = next(iter(result.graph().edges))
    once = jt.solve(problem, treewidth=1, forbid=[edge])
    assert not once.graph().has_edge(*edge)
    other = next(iter(once.graph().edges))
    assert once.problem is not None
    twice = jt.solve(once.problem, treewidth=1, forbid=[edge, other], backend=REGISTRY["dp"])
    assert not {frozenset(edge), frozenset(other)} & set(map(frozenset, twice.graph().edges))
    assert result.score is not None
    assert once.score is not None
    assert twice.score is not None
    assert result.score >= once.score >= twice.score
    with pytest.raises(jt.ChoiceError, match="an instance has no rows"):
        result.fit()
    assert jt.solve(str(ZOO), treewidth=1).score == result.score


def test_backends_are_listed_by_name_even_after_the_package_is_loaded() -> None:
    listed = jt.backends()
    assert set(listed) == set(REGISTRY)
    assert all(sentence.endswith(".") for sentence in listed.values())


def test_a_picture_is_drawn_or_the_tree_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = jt.learn(SURVEY)
    result.show(tmp_path / "tree.svg")
    result.show(tmp_path / "tree.png")
    assert (tmp_path / "tree.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")
    result.show()
    assert "{Smoker, Cough}" in capsys.readouterr().out
    result.show(tmp_path / "graph.svg", graph=True)
    assert (tmp_path / "graph.svg").read_bytes() != (tmp_path / "tree.svg").read_bytes()
    result.show(graph=True)
    assert capsys.readouterr().out == graph_text(result.tree, result.result.names) + "\n"
    with pytest.raises(jt.ChoiceError, match=r"a picture is written as \.svg, \.png, \.html or \.dot"):
        result.show(tmp_path / "tree.pdf")


@cache
def survey_model() -> jt.Model:
    """The model of the survey: not at import, which every test process does."""
    return jt.learn(SURVEY).fit()


def test_a_query_gives_the_fractions_of_the_data() -> None:
    answer = survey_model().query("Smoker", given={"Age": "40–60"})
    assert answer["Smoker"].tolist() == [False, True]
    assert answer["Smoker"].dtype == bool
    share = SURVEY["Smoker"][SURVEY["Age"] == "40–60"].mean()
    assert answer["probability"][1] == pytest.approx(share, abs=0.01)
    joint = survey_model().query(["Cough", "Coin"], given={"Smoker": True, "Age": [1.0, 0.5, 0]})
    assert list(joint) == ["Cough", "Coin", "probability"]
    assert joint["probability"].sum() == pytest.approx(1)
    for given, fault in (
        ({"Smokr": True}, "there is no 'Smokr'"),
        ({"Age": "old"}, "no state 'old'"),
        ({"Age": [1.0]}, "3 finite"),
    ):
        with pytest.raises(jt.InputError, match=fault):
            survey_model().query("Smoker", given=given)


def test_predictions_keep_the_index_and_sum_over_missing_values() -> None:
    rows = pd.DataFrame(
        {"Age": ["18–39", "61+", None], "Cough": ["often", "never", None], "Coin": [0, 1, 1]},
        index=["x", "y", "z"],
    )
    predicted = survey_model().predict(rows, "Smoker")
    assert predicted.to_dict() == {"x": True, "y": False, "z": False}
    shares = survey_model().predict(rows, "Smoker", probabilities=True)
    assert list(shares) == ["False", "True"]
    assert shares.loc["z", "True"] == pytest.approx(SURVEY["Smoker"].mean(), abs=0.01)
    assert np.allclose(shares.sum(axis=1), 1)
    with pytest.raises(jt.InputError, match="there is none called 'Coin'"):
        survey_model().predict(rows.drop(columns="Coin"), "Smoker")


def test_samples_resemble_the_data() -> None:
    drawn = survey_model().sample(1000, seed=1)
    assert drawn.dtypes.equals(SURVEY.dtypes)
    assert drawn.equals(survey_model().sample(1000, seed=1))
    assert drawn["Smoker"].mean() == pytest.approx(SURVEY["Smoker"].mean(), abs=0.06)
    assert set(survey_model().sample(20, given={"Smoker": False})["Smoker"]) == {False}


def test_best_configurations_and_likelihoods_agree() -> None:
    best = survey_model().mpe(k=3)
    assert best["log_probability"].is_monotonic_decreasing
    logs = survey_model().loglik(best[list(SURVEY)])
    assert np.allclose(logs, best["log_probability"])
    given = survey_model().mpe({"Smoker": True})
    assert given["Smoker"].tolist() == [True]
    assert np.allclose(survey_model().loglik(given), given["log_probability"])
    summed = survey_model().loglik(SURVEY[:1].assign(Coin=None))
    both = [survey_model().loglik(SURVEY[:1].assign(Coin=coin))[0] for coin in (0, 1)]
    assert summed[0] == pytest.approx(np.logaddexp(*both))


def test_names_of_variables_may_be_those_of_our_columns() -> None:
    frame = SURVEY.rename(columns={"Age": "probability", "Smoker": "log_probability"})
    model = jt.learn(frame).fit()
    assert list(model.query("probability")) == ["probability", "probability_"]
    assert list(model.mpe())[-1] == "log_probability_"


def test_impossible_rows_are_predicted_missing() -> None:
    frame = pd.DataFrame({"a": [0, 0, 1, 1], "b": [0, 0, 1, 1], "c": [0, 0, 1, 1]})
    model = jt.learn(frame, score="ml").fit(smoothing=0)
    assert model.predict(pd.DataFrame({"a": [0, 0], "b": [1, 0]}), "c").isna().tolist() == [True, False]


def test_a_single_variable_is_a_model_too() -> None:
    frame = pd.DataFrame({"a": [0, 1, 1]})
    assert jt.learn(frame).fit().predict(frame, "a").tolist() == [1, 1, 1]


def test_cut_numbers_are_queried_by_number_and_returned_as_ranges() -> None:
    frame = pl.DataFrame({"x": np.linspace(0, 1, 200), "y": [0] * 100 + [1] * 100})
    model = jt.learn(frame, discretise="quantile:2", treewidth=1).fit()
    assert model.query("y", given={"x": 0.9})["probability"].to_list()[1] > 0.9
    assert model.predict(pl.DataFrame({"x": [0.1, 0.9], "y": [None, None]}), "y").to_list() == [0, 1]
    assert isinstance(model.sample(3)["x"].dtype, pl.Enum)


def test_real_numbers_get_a_gaussian_survey_model() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=500)
    frame = pd.DataFrame(
        {"x": x, "y": 2 * x + generator.normal(scale=0.1, size=500), "z": generator.random(500)}
    )
    result = jt.learn(frame, treewidth=1, score="gaussian-bic")
    assert result.cliques == [("x", "y"), ("z",)]
    model = result.fit()
    answer = model.query("y", given={"x": 1.0})
    assert answer.columns.tolist() == ["variable", "mean", "deviation", "5%", "50%", "95%"]
    assert answer["mean"][0] == pytest.approx(2, abs=0.05)
    assert answer["deviation"][0] == pytest.approx(0.1, abs=0.02)
    assert model.predict(frame[["x", "z"]], "y").corr(frame["y"]) > 0.99
    rows = pd.DataFrame({"x": [1.0, None], "z": [None, None]})
    assert model.predict(rows, "y").tolist() == pytest.approx([2, frame["y"].mean()], abs=0.1)
    assert model.sample(2000, given={"x": 1})["y"].mean() == pytest.approx(2, abs=0.05)
    best = model.mpe()
    assert best["x"][0] == pytest.approx(x.mean())
    assert model.loglik(best)[0] == pytest.approx(best["log_probability"][0])
    assert model.loglik(frame).max() <= best["log_probability"][0]
    with pytest.raises(jt.ChoiceError, match="one highest point; request 1"):
        model.mpe(k=2)
    with pytest.raises(jt.ChoiceError, match="has no states"):
        model.predict(frame, "y", probabilities=True)
    with pytest.raises(jt.InputError, match="is not a number"):
        model.query("y", given={"x": "1"})


def test_a_model_is_written_and_read_and_mixtures_are_queried_alike(tmp_path: Path) -> None:
    survey_model().write(tmp_path / "model.json")
    back = jt.Model.read(tmp_path / "model.json")
    assert back.names == survey_model().names
    assert back.query("Coin")["Coin"].to_list() == [0, 1]
    assert back.query("Coin")["probability"].to_list() == survey_model().query("Coin")["probability"].tolist()
    mixture = jt.fit(SURVEY, "mixture:components=2", treewidth=1)
    assert mixture.query("Smoker")["probability"].sum() == pytest.approx(1)
    with pytest.raises(jt.ChoiceError, match="fit one tree"):
        mixture.mpe()
    assert "Mixture(4 variables, 2 components" in mixture._repr_html_()
    gaussian = jt.learn({"x": [0.0, 1.0, 3.0]}, score="gaussian-bic", treewidth=0).fit()
    gaussian.write(tmp_path / "gaussian.json")
    assert jt.Model.read(tmp_path / "gaussian.json").names == ("x",)


def test_the_limits_hold_for_reading_too() -> None:
    with pytest.raises(jt.LimitError, match="ended the reading of the data frame after 0 rows"):
        jt.learn(SURVEY, time=1e-9)
    with pytest.raises(jt.LimitError, match=r"the limit is 0\.001 GB"):
        jt.learn(SURVEY, memory=0.001)


def values() -> dict[str, Any]:
    """What the functions of the package return, by name."""
    result = jt.learn(SURVEY)
    problem = jt.read(ZOO)
    numbers = jt.learn({"x": [0.0, 1.0, 3.0], "y": [1.0, 0.0, 2.0]}, score="gaussian-bic")
    return {
        "solution": result,
        "model": result.fit(),
        "problem": result.problem,
        "instance": problem,
        "tree of an instance": jt.solve(problem, backend="chowliu", treewidth=1),
        "ranking": jt.solve(result.problem, k_best=2),
        "Gaussian solution": numbers,
        "Gaussian model": numbers.fit(),
        "posterior": jt.average(result),
        "selected graph": jt.select({"x": [0.0, 1.0, 3.0], "y": [1.0, 0.0, 2.0]}, method="pc"),
        "mixture": jt.fit(SURVEY, model="mixture", treewidth=1, seed=1),
        "feature tree": result.fit(model="features:support=20"),
        "named tree": jt.triangulate(nx.path_graph(3)),
    }


def test_everything_that_is_returned_can_be_sent_to_a_process_and_copied() -> None:
    for name, value in values().items():
        for back in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):  # noqa: S301
            assert type(back) is type(value), name
            assert repr(back) == repr(value), name
            if isinstance(value, jt.Model):
                assert back.sample(5).equals(value.sample(5)), name


def test_a_tree_is_fitted_to_other_data() -> None:
    result = jt.learn(SURVEY[:200])
    other = result.fit(SURVEY[200:].assign(Extra=1).reset_index(drop=True), smoothing=0)
    assert other.query("Smoker")["probability"][1] == pytest.approx(SURVEY["Smoker"][200:].mean())
    assert jt.fit(SURVEY[200:], tree=result).loglik(SURVEY).equals(result.fit(SURVEY[200:]).loglik(SURVEY))
    with pytest.raises(jt.ChoiceError, match=r"no option .smoothin.; did you mean smoothing=\?"):
        result.fit(smoothin=1)
    for options in ({"missing": "state"}, {"score": "bic"}):
        with pytest.raises(jt.ChoiceError, match="=: for other data only; leave it out"):
            result.fit(**options)
    with pytest.raises(jt.InputError, match="there is none called"):
        result.fit(SURVEY[["Age"]])
    numbers = {"x": [0.0, 1.0, 3.0]}
    gaussian = jt.learn(numbers, score="gaussian-bic", treewidth=0)
    assert gaussian.fit({"x": [1.0, 2.0, 6.0]}).query("x")["mean"].to_list() == [3.0]


def test_a_feature_tree_begins_with_the_tree_and_branches() -> None:
    codes = np.random.default_rng(0).integers(0, 2, (4, 900))
    codes[3] = np.where(codes[0] == 1, codes[1], codes[2])
    frame = pd.DataFrame(codes.T.astype(bool), columns=["switch", "left", "right", "copy"])
    learned = jt.learn(frame[:600], treewidth=1)
    model = learned.fit(model="features:support=20")
    assert isinstance(model.model, FeatureTree)
    assert model.model.splits
    assert model.query("copy", given={"switch": True, "left": True})["probability"].iloc[1] > 0.98
    page = model._repr_html_()
    assert "FeatureTree(" in page
    assert "<pre>switch=" in page
    chosen = learned.fit(model="features:support=20", validate=frame[600:]).model
    assert isinstance(chosen, FeatureTree)
    assert chosen.provenance["penalties_tried"]
    assert model.loglik(frame).mean() > learned.fit().loglik(frame).mean() + 0.1
    assert isinstance(learned.fit(model="lem").model, FeatureTree)
    other = jt.learn(frame[:600], treewidth=1, forbid=[("left", "copy")])
    apart = other.fit(model="features:support=20").model
    assert isinstance(apart, FeatureTree)
    for leaf in apart.leaves:
        assert isinstance(leaf, TreeLeaf)
        joined = [{leaf.model.names[v] for v in pair} for pair in leaf.model.tree.graph_edges]
        assert {"left", "copy"} not in joined


def test_validation_rows_choose_the_prior_of_a_fit() -> None:
    learned = jt.learn(survey(), treewidth=1)
    model = learned.fit(validate=survey()).model
    assert isinstance(model, JunctionTreeModel)
    assert model.provenance["smoothing_ess"] == 0.1
    wrongs: tuple[tuple[dict[str, Any], str], ...] = (
        ({"smoothing": 1.0, "validate": survey()}, "give one of the two"),
        ({"treewidth": 2}, "the tree is given, and none is searched; leave out treewidth="),
        ({"model": "x"}, "there is no model 'x'; there are: tree, mixture"),
    )
    for wrong, message in wrongs:
        with pytest.raises(jt.ChoiceError, match=message):
            learned.fit(**wrong)
    numbers = jt.learn({"a": np.arange(9.0), "b": np.arange(9.0) ** 2}, score="gaussian-bic")
    with pytest.raises(jt.ChoiceError, match="is for real numbers"):
        numbers.fit(model="lem")


@pytest.mark.parametrize(
    "kind", ["tree", "mixture:components=1,rounds=1", "hidden:states=2", "features", "lem:thresholds=0.01"]
)
def test_weights_of_validation_rows_count_as_repeated_rows(kind: str) -> None:
    learned = jt.learn(survey().assign(Count=1), treewidth=1, weights="Count")
    cells = survey(60).value_counts().reset_index(name="Count").astype({"Count": int})
    cells.loc[0, "Count"] = 400
    repeated = cells.loc[cells.index.repeat(cells.Count)].assign(Count=1)
    counted, plain = (learned.fit(model=kind, validate=rows) for rows in (cells, repeated))
    once = learned.fit(model=kind, validate=cells.drop(columns="Count"))
    means = [np.mean(one.loglik(SURVEY)) for one in (counted, plain, once)]
    assert means[0] == pytest.approx(means[1], rel=1e-6)
    assert means[0] != pytest.approx(means[2], rel=1e-6)


def test_options_for_data_are_those_of_the_command_line() -> None:
    frame = SURVEY.assign(Coin=[None, *SURVEY["Coin"][1:]], Weight=1)
    result = jt.learn(frame, weights="Weight", drop="Cough", missing="drop-rows")
    assert set(result.graph()) == {"Age", "Smoker", "Coin"}
    assert jt.learn(SURVEY, columns=["Coin", "Age"]).result.names == ("Coin", "Age")
    with pytest.raises(jt.ChoiceError, match=r"no option .skip.; .*For data, there are columns, drop"):
        jt.learn(SURVEY, skip="Cough")
    for typed, meant in {"time_limit": "time", "treewidht": "treewidth", "discretize": "discretise"}.items():
        with pytest.raises(jt.ChoiceError, match=f"did you mean {meant}="):
            jt.learn(SURVEY, **{typed: 4})
    with pytest.raises(jt.ChoiceError, match="there is no score 'bdu'"):
        jt.learn(SURVEY, score="bdu")
    with pytest.raises(jt.ChoiceError, match="must be a number above 0"):
        jt.learn(SURVEY, time=-1)
    assert jt.learn(SURVEY, score=Bic(), memory=4, threads=1, backend="forward").result.backend == "forward"
    model = jt.learn(SURVEY, score="bdeu:ess=10").fit().model
    assert isinstance(model, JunctionTreeModel)
    assert model.provenance["smoothing_ess"] == 10


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"treewidth": "2"}, "treewidth='2': give a whole number"),
        ({"treewidth": True}, "treewidth=True: give a whole number"),
        ({"time": "60"}, "time='60': give a number"),
        ({"memory": "4"}, "memory='4': give a number"),
        ({"seed": "x"}, "seed='x': give a whole number"),
        ({"backend": 3}, "3 is not a backend; give one of these"),
        ({"discretise": 4}, "there is no discretisation '4'; did you mean 'quantile:4'"),
        ({"forbid": ("Age", "Coin")}, 'forbid="Age": an edge joins two variables; give pairs of names'),
        ({"require": "Age,Coin"}, 'require="Age,Coin": an edge joins two variables; give pairs'),
        ({"header": 0}, "header=0: give True or False"),
        ({"k_best": "5"}, "k_best='5': give a whole number"),
        ({"within": "1"}, "within='1': give a number"),
        ({"certificate": 1}, "certificate=1: give a path"),
        ({"show_progress": 2}, "show_progress=2: give True or False"),
        ({"strict": "yes"}, "strict='yes': give True or False"),
        ({"max_states": 2.5}, "max_states=2.5: give a whole number"),
        ({"schema": True}, "schema=True: give a path"),
        ({"separator": ";;"}, "there is no separator ';;'; there are comma, semicolon"),
        ({"separator": 5}, "there is no separator '5'"),
    ],
    ids=str,
)
def test_an_option_of_another_type_is_refused_with_the_right_type(
    options: dict[str, Any], fault: str
) -> None:
    with pytest.raises(jt.ChoiceError, match=fault):
        jt.learn(SURVEY, **options)


def test_columns_named_by_numbers_are_named_by_them_everywhere() -> None:
    codes = np.random.default_rng(0).integers(0, 2, (60, 4))
    codes[:, 1] = codes[:, 0]
    frame = pd.DataFrame(codes)
    named: dict[str, Any] = {"treewidth": np.int64(1), "drop": 3, "states": [0, 2], "forbid": [(0, 1)]}
    found = jt.learn(frame, **named)
    assert found.result.names == ("0", "1", "2")
    assert ("0", "1") not in found.graph().edges


def test_a_problem_without_a_tree_says_so_in_words() -> None:
    none = jt.learn(SURVEY, treewidth=0, require=[("Age", "Coin")], backend="dp")
    assert none.status == "infeasible"
    assert none.score is None
    assert "infeasible" in repr(none)
    with pytest.raises(jt.ChoiceError, match="no tree meets the constraints"):
        none.graph()
    assert "<svg" not in none._repr_html_()


class Nothing:
    """A backend that finds nothing."""

    name = "nothing"

    def __init__(self) -> None:
        self.capabilities = REGISTRY["brute"].capabilities

    def estimate(self, problem: Problem, limits: Any) -> Any:
        return REGISTRY["brute"].estimate(problem, limits)

    def solve(self, _problem: Problem, _limits: Any, _report: Any) -> Any:
        from jtsolve.core.result import Outcome

        return Outcome(None)


def test_a_search_without_a_tree_asks_for_more_time() -> None:
    with pytest.raises(jt.LimitError, match="give a larger time="):
        _ = jt.learn(SURVEY, backend=Nothing()).cliques


def test_values_show_themselves_in_a_line_and_in_notebooks_with_a_picture() -> None:
    result = jt.learn(SURVEY.set_index("Coin"))
    model: Any = result.fit().model
    shown: list[Any] = [result, result.result, result.named, result.fit(), model]
    assert repr(result).startswith("Solution(optimal: score -")
    for value in shown:
        assert len(repr(value)) < 150
        html = value._repr_html_()
        assert html.startswith("<div>")
        assert "<svg" in html
        assert "<?xml" not in html
        assert "<summary>junction tree</summary>" in html
    assert "<tr><th>index</th><td>left out" in result._repr_html_()
    assert " H " in result.fit()._repr_html_()
    assert "sep {" in result._repr_html_()
    selected: Any = jt.select(np.random.default_rng(0).normal(size=(50, 3)))
    assert "<svg" in selected._repr_html_()
    problem: Any = jt.read(ZOO)
    assert repr(problem) == "Problem('zoo': 17 variables, scores of at most 5)"
    assert "feathers" in problem._repr_html_()
    assert result.problem is not None
    ranking: Any = k_best(result.problem, REGISTRY["brute"], k=2)
    assert repr(ranking).startswith("Ranking(2 trees, 2 proved; scores -")
    assert "<svg" in ranking._repr_html_()
    tree: Any = result.tree
    assert "<svg" in tree._repr_html_()
    gaussian: Any = jt.learn({"x": [0.0, 1.0, 3.0]}, score="gaussian-bic", treewidth=0).fit().model
    assert repr(gaussian) == "MixedTreeModel(0 discrete and 1 real variables, 1 cliques, 2 parameters)"
    assert "<svg" in gaussian._repr_html_()


def test_html_needs_a_drawing_which_any_import_of_the_package_injects() -> None:
    from jtsolve.core import notebook

    script = (
        "import sys; from jtsolve.core.tree import JunctionTree; assert 'jtsolve.draw' not in sys.modules; "
        "print(JunctionTree(2, (3,), ())._repr_html_()[:5])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    assert shown.stdout == "<div>\n"
    assert notebook.__spec__ is not None
    alone = module_from_spec(notebook.__spec__)
    assert alone.__spec__ is not None
    assert alone.__spec__.loader is not None
    alone.__spec__.loader.exec_module(alone)
    assert alone.as_html(["a < b"]) is None


def test_a_large_graph_zooms_in_a_notebook() -> None:
    from jtsolve.core.tree import JunctionTree

    path: Any = JunctionTree(200, tuple(3 << v for v in range(199)), tuple(pairwise(range(199))))
    html = path._repr_html_()
    assert "<iframe srcdoc=" in html
    assert "<svg" not in html
    huge: Any = JunctionTree(4000, tuple(3 << v for v in range(3999)), tuple(pairwise(range(3999))))
    assert "4000 variables with edges are too many" in huge._repr_html_()


def test_messages_are_logged_under_the_name_of_the_package(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="jtsolve"):
        jt.learn(SURVEY)
    said = [record.getMessage() for record in caplog.records if record.name == "jtsolve"]
    assert any("400 rows of 4 variables" in text for text in said)
    assert any("auto chose" in text for text in said)
    assert any(text.startswith("Result(optimal") for text in said)
    assert any("bound" in text and " s: score" in text for text in said)


def test_a_run_of_less_than_a_second_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    jt.learn(SURVEY)  # loads all that is needed
    jt.learn(SURVEY, show_progress=True)
    jt.learn(SURVEY)
    assert capsys.readouterr().err == ""


def test_the_best_trees_come_in_order_and_are_written(tmp_path: Path) -> None:
    best = jt.learn(SURVEY, treewidth=1, k_best=3)
    assert len(best) == 3
    assert best.complete
    scores = [solution.score or 0.0 for solution in best]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] >= best.bound - 1e-9
    assert best[0].cliques == jt.learn(SURVEY, treewidth=1).cliques
    assert best[1].fit().query("Smoker")["probability"].sum() == pytest.approx(1)
    assert repr(best).startswith("Solutions(3 trees, 3 proved; scores -")
    assert "<svg" in (best._repr_html_() or "")
    best.write(tmp_path / "best.json")
    assert run(["show", str(tmp_path / "best.json")], 0) == 0
    near = jt.solve(best.problem, within=scores[0] - scores[1] + 1e-6)
    assert len(near) >= 2
    with pytest.raises(jt.ChoiceError, match="k is 0; it must be 1 or more"):
        jt.learn(SURVEY, k_best=0)


def test_a_certificate_is_written_for_the_shell_to_check(tmp_path: Path) -> None:
    solution = jt.solve(ZOO, treewidth=1, backend="dp", certificate=tmp_path / "proof.json")
    assert solution.uncertified is None
    solution.write(tmp_path / "result.json")
    paths = [str(ZOO), str(tmp_path / "result.json"), "--certificate", str(tmp_path / "proof.json")]
    assert run(["check", *paths, "--constraint", "max_treewidth=1"], 0) == 0
    with pytest.raises(jt.ChoiceError, match="'forward' is a heuristic"):
        jt.solve(ZOO, treewidth=1, backend="forward", certificate=tmp_path / "none.json")


def test_a_solution_is_written_and_read(tmp_path: Path) -> None:
    solution = jt.solve(ZOO, treewidth=1)
    solution.write(tmp_path / "result.json")
    again = jt.Solution.read(tmp_path / "result.json")
    assert (again.status, again.score, again.bound) == (solution.status, solution.score, solution.bound)
    assert set(map(frozenset, again.cliques)) == set(map(frozenset, solution.cliques))
    assert again.problem is None
    assert jt.Solution.read(tmp_path / "result.json", solution.problem).tree == solution.tree
    with pytest.raises(jt.InputError, match="digest"):
        jt.Solution.read(tmp_path / "result.json", jt.learn(SURVEY).problem)
    with pytest.raises(jt.ChoiceError, match="a result is written as"):
        solution.write(tmp_path / "result.txt")
    with pytest.raises(jt.ChoiceError, match="has no scores to average; give its problem"):
        jt.average(again)
    with pytest.raises(jt.ChoiceError, match="an instance has no rows"):
        again.fit()
    learned = jt.learn(SURVEY, treewidth=1)
    learned.write(tmp_path / "survey.json")
    fitted = jt.fit(SURVEY, tree=tmp_path / "survey.json")
    assert np.allclose(fitted.loglik(SURVEY), learned.fit().loglik(SURVEY))


def test_a_graph_of_the_user_is_triangulated_and_fitted(tmp_path: Path) -> None:
    square = [("Age", "Smoker"), ("Smoker", "Cough"), ("Cough", "Coin"), ("Coin", "Age")]
    named = jt.triangulate(square)
    assert named.treewidth == 2
    assert len(named.cliques) == 2
    assert set(map(frozenset, square)) <= set(map(frozenset, named.graph().edges))
    named.show(tmp_path / "tree.svg")
    by_graph = jt.fit(SURVEY, graph=square)
    assert by_graph.loglik(SURVEY).equals(jt.fit(SURVEY, tree=named).loglik(SURVEY))
    assert isinstance(by_graph.model, JunctionTreeModel)
    assert by_graph.model.provenance["triangulation"] == "min-fill"
    with pytest.raises(jt.ChoiceError, match="tree= and graph= both give a tree"):
        jt.fit(SURVEY, tree=named, graph=square)
    with pytest.raises(jt.InputError, match="there is none called 'Cats'"):
        jt.fit(SURVEY, graph=[("Age", "Cats")])


def test_an_average_model_is_a_kind_of_model() -> None:
    drawn = jt.fit(SURVEY, "average:draws=4", treewidth=1)
    assert drawn.query("Smoker")["probability"].sum() == pytest.approx(1)
    with pytest.raises(jt.ChoiceError, match="'average' does not use backend="):
        jt.fit(SURVEY, "average:draws=4", treewidth=1, backend="dp")


PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar

from jtsolve.backends.brute import Brute


@dataclass(frozen=True, slots=True)
class Patient(Brute):
    '''A backend of another package.'''

    name: ClassVar[str] = "patient"


class foreign:
    capabilities = "many"


wrong = 3
"""


def install(folder: Path, *entries: str) -> Path:
    """Installs a package with a backend into a folder, as pip does."""
    (folder / "patient_backend.py").write_text(PLUGIN, encoding="utf-8")
    facts = folder / "patient_backend-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: patient-backend\nVersion: 1.0\n", encoding="utf-8"
    )
    lines = "\n".join(["[jtsolve.backends]", *entries])
    (facts / "entry_points.txt").write_text(lines + "\n", encoding="utf-8")
    return folder


def test_a_backend_of_an_installed_package_is_one_like_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "patient = patient_backend:Patient")
    program = (
        "import jtsolve as jt\n"
        "print(jt.backends()['patient'])\n"
        "solution = jt.learn({'a': [0, 1] * 9, 'b': [0, 1] * 9}, backend='patient')\n"
        "print(solution.status, solution.result.backend)\n"
    )
    assert python(program, tmp_path) == "A backend of another package.\noptimal patient\n"
    monkeypatch.syspath_prepend(tmp_path)
    assert set(REGISTRY.everything()) - set(REGISTRY) == {"patient"}
    assert "patient: exact" in python("from jtsolve.cli import run; run(['backends'], 0)", tmp_path)


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("gone = no_such_module:Backend", "No module named 'no_such_module'"),
        ("other = patient_backend:Patient", "it is called 'patient', unlike its entry point"),
        ("wrong = patient_backend:wrong", "no attribute 'capabilities'"),
        ("brute = jtsolve.backends.brute:Brute", "jtsolve has a backend of this name"),
        ("fake = types:SimpleNamespace", "no attribute 'capabilities'"),
        ("foreign = patient_backend:foreign", "its capabilities are not `Capabilities` of jtsolve"),
        ("raises = patient_raises:Backend", r"RuntimeError('two\nlines')"),
        ("ends = patient_ends:Backend", "SystemExit(3)"),
    ],
)
def test_a_backend_of_a_package_that_cannot_be_used_is_left_out_in_one_line(
    entry: str,
    fault: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "patient_raises.py").write_text("raise RuntimeError('two\\nlines')", encoding="utf-8")
    (tmp_path / "patient_ends.py").write_text("raise SystemExit(3)", encoding="utf-8")
    monkeypatch.syspath_prepend(install(tmp_path, entry))
    assert set(REGISTRY.everything()) == set(REGISTRY)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"the backend '{entry.split(maxsplit=1)[0]}' from ")
    assert fault in line


def test_the_words_for_a_missing_value_are_remembered(tmp_path: Path) -> None:
    rows = {"a": ["0", "1", "-9"] * 20, "b": ["0", "1", "0"] * 20}
    asked = pd.DataFrame({"a": ["-9", "0"], "b": ["1", "-9"]})
    model = jt.learn(pd.DataFrame(rows), 1, missing_values=["-9"], missing="drop-rows").fit()
    model.write(tmp_path / "m.json")
    asked.to_csv(tmp_path / "asked.csv", index=False)
    for one in (model, jt.Model.read(tmp_path / "m.json")):
        assert list(map(str, one.predict(asked, "a"))) == ["1", "0"]
        assert np.isfinite(np.array(one.loglik(asked))).all()
    logs = jt.Model.read(tmp_path / "m.json").loglik(tmp_path / "asked.csv")
    filled = tmp_path / "filled.csv"
    paths = [str(tmp_path / "m.json"), str(tmp_path / "asked.csv")]
    assert run(["loglik", *paths], 0) == 0
    assert run(["impute", *paths, "--output", str(filled)], 0) == 0
    assert filled.read_text().split() == ["a,b", "1,1", "0,0"]
    assert len(logs) == 2
    plain = jt.learn(pd.DataFrame(rows), 1).fit()
    with pytest.raises(InputError, match="'NA' is none of its states"):
        plain.loglik(pd.DataFrame({"a": ["NA"], "b": ["0"]}))


def test_a_file_may_have_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("größe,b\n".encode("latin-1") + b"1,0\n0,1\n" * 9)
    with pytest.raises(InputError, match='encoding="cp1252"'):
        jt.learn(path, 1)
    assert jt.learn(path, 1, encoding="cp1252").result.names == ("größe", "b")


def test_a_separator_is_named_or_given_itself(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b;c\n" + "0;1\n1;0\n" * 9)
    for separator in ("semicolon", ";"):
        assert jt.learn(path, 1, separator=separator).result.names == ("a,b", "c")
    path.write_text("a/b\n" + "0/1\n1/0\n" * 9)
    assert jt.learn(path, 1, separator="/").result.names == ("a", "b")
    assert jt.learn(path, 1).result.names == ("a/b",)
    path.write_text("a|b\n" + "0|1\n1|0\n" * 9)
    assert jt.learn(path, 1).result.names == ("a", "b")
    path.write_text("a|b\n" + "01\n10\n" * 9)
    assert jt.learn(path, 1).result.names == ("a|b",)


@pytest.mark.parametrize(
    ("option", "flag"),
    [
        ({"separator": ","}, "separator="),
        ({"header": False}, "header=False"),
        ({"encoding": "cp1252"}, "encoding="),
    ],
)
def test_data_that_are_no_text_take_no_options_of_text(
    option: dict[str, Any], flag: str, tmp_path: Path
) -> None:
    paths = {suffix: tmp_path / f"t.{suffix}" for suffix in ("parquet", "arff", "dat")}
    pl.DataFrame({"a": ["0", "1"] * 9, "b": ["1", "0"] * 9}).write_parquet(paths["parquet"])
    paths["arff"].write_text("@relation t\n@attribute a {0,1}\n@data\n0\n1\n")
    paths["dat"].write_text("a b\n2 2\n0 1\n1 0\n")
    texts = () if "encoding" in option else ("arff", "dat")  # which are text, but always have one form
    for data in (SURVEY, *(paths[suffix] for suffix in ("parquet", *texts))):
        with pytest.raises(jt.ChoiceError, match=f"leave out {flag}$"):
            jt.learn(data, 1, **option)
    for suffix in ("arff", "dat"):
        assert jt.learn(paths[suffix], 1, encoding="cp1252").status == "optimal"


def test_a_table_is_no_problem() -> None:
    with pytest.raises(InputError, match=r"of type DataFrame is no problem.*jt\.learn\(data\)"):
        jt.solve(pd.DataFrame({"a": [1, 2]}))
