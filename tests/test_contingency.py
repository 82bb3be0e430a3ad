"""Tables of counts: goodness of fit, edges, generating classes, crosstabs, mosaics."""

from __future__ import annotations

import json
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_tree
from scipy.stats import chi2_contingency

import jtsolve as jt
from jtsolve.cli import run
from jtsolve.cli.output import json_text
from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members
from jtsolve.models import goodness as module
from jtsolve.models.edges import removals
from jtsolve.models.goodness import Goodness
from jtsolve.models.learning.fit import count
from jtsolve.tables.table import DataTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class Published(NamedTuple):
    variables: dict[str, Sequence[str]]
    counts: str
    generators: list[tuple[str, ...]]
    fit: dict[str, float]


PUBLISHED: Mapping[str, Published] = {
    # P. J. Bickel, E. A. Hammel, J. W. O'Connell, Sex bias in graduate admissions, Science 187, 1975.
    "admissions": Published(
        {"Dept": "ABCDEF", "Sex": ["M", "F"], "Admit": ["yes", "no"]},
        "512 313 89 19 353 207 17 8 120 205 202 391 138 279 131 244 53 138 94 299 22 351 24 317",
        [("Dept", "Admit"), ("Dept", "Sex")],
        {"g2": 21.7355, "x2": 19.9384, "df": 6, "df_nominal": 6, "worst": 4.15307},
    ),
    # Alcohol, cigarettes, marijuana: A. Agresti, Categorical Data Analysis, 3rd edition 2013, table 9.3, 9.6.
    "drugs": Published(
        {"A": ["yes", "no"], "C": ["yes", "no"], "M": ["yes", "no"]},
        "911 538 44 456 3 43 2 279",
        [("A", "C"), ("C", "M")],
        {"g2": 92.0184, "x2": 80.8148, "df": 2, "df_nominal": 2, "worst": 7.71899},
    ),
    # R. D. Snee, Graphical display of two-way contingency tables, The American Statistician 28, 1974.
    "hair": Published(
        {
            "Sex": ["M", "F"],
            "Eye": ["brown", "blue", "hazel", "green"],
            "Hair": ["black", "brown", "red", "fair"],
        },
        "32 53 10 3 11 50 10 30 10 25 7 5 3 15 7 8 36 66 16 4 9 34 7 64 5 29 7 5 2 14 7 8",
        [("Hair", "Eye"), ("Sex",)],
        {"g2": 19.8566, "x2": 19.5671, "df": 15, "df_nominal": 15, "worst": 3.22171},
    ),
    # R. J. M. Dawson, The "unusual episode" data revisited, Journal of Statistics Education 3, 1995. Two
    # margins are empty: no child was of the crew.
    "titanic": Published(
        {"Survived": ["no", "yes"], "Age": ["child", "adult"], "Sex": ["M", "F"], "Class": "123C"},
        "0 0 35 0 0 0 17 0 118 154 387 670 4 13 89 3 5 11 13 0 1 13 14 0 57 14 75 192 140 80 76 20",
        [("Class", "Sex", "Age"), ("Survived",)],
        {"g2": 671.9622, "x2": 650.0932, "df": 13, "df_nominal": 15, "worst": 17.23202},
    ),
    # T. W. Schoener, The Anolis lizards of Bimini, Ecology 49, 1968.
    "lizards": Published(
        {"Species": ["anoli", "distichus"], "Height": ["high", "low"], "Diameter": ["thin", "thick"]},
        "32 11 86 35 61 41 73 70",
        [("Species", "Height"), ("Species", "Diameter")],
        {"g2": 2.0256, "x2": 2.0174, "df": 2, "df_nominal": 2, "worst": 1.35704},
    ),
}
"""Variables and counts, the last variable fastest; a generating class; and its fit.

The figures are those of statsmodels 0.15.0 (GLM, Poisson): "worst" is the largest |resid_studentized|, and
df_nominal is df_resid.
"""


def long(name: str) -> pd.DataFrame:
    variables, counts = PUBLISHED[name][:2]
    return pd.DataFrame(list(product(*variables.values())), columns=list(variables)).assign(
        Freq=list(map(int, counts.split()))
    )


def fitted(name: str) -> jt.Model:
    graph = nx.Graph()
    for clique in PUBLISHED[name][2]:
        nx.add_path(graph, clique) if len(clique) < 3 else graph.add_edges_from(
            nx.complete_graph(clique).edges
        )
    return jt.fit(long(name), graph=graph, weights="Freq")


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_tables_have_their_published_fit(name: str) -> None:
    found = fitted(name).goodness(long(name), weights="Freq")
    wanted = dict(PUBLISHED[name][3])
    worst = found.residuals(1)["adjusted_residual"]
    assert abs(float(worst.iloc[0])) == pytest.approx(wanted.pop("worst"), abs=5e-6)
    assert {key: getattr(found, key) for key in wanted} == pytest.approx(wanted, abs=5e-5)


def test_two_way_tables_agree_with_scipy() -> None:
    frame = long("hair")[["Hair", "Eye", "Freq"]]
    table = frame.pivot_table(index="Hair", columns="Eye", values="Freq", aggfunc="sum")
    found = jt.learn(frame, treewidth=0, weights="Freq").goodness()
    for statistic, p, which in ((found.g2, found.p, "log-likelihood"), (found.x2, found.p_x2, "pearson")):
        wanted = chi2_contingency(table, correction=False, lambda_=which)
        assert (statistic, p, found.df) == pytest.approx((wanted.statistic, wanted.pvalue, wanted.dof))


def random_table(seed: int, *, rows: int = 40) -> tuple[JunctionTree, DataTable]:
    """A small table of up to four variables, in which most margins have empty cells, and a tree."""
    random = Random(seed)  # noqa: S311 - no secret
    n = random.randint(1, 4)
    arities = [random.randint(1, 3) for _ in range(n)]
    generator = np.random.default_rng(seed)
    codes = np.array([generator.binomial(arity - 1, 0.3, rows) for arity in arities])
    states = tuple(tuple(f"s{k}" for k in range(arity)) for arity in arities)
    names = tuple(f"V{v}" for v in range(n))
    return random_tree(n, 3, random), DataTable(names, states, codes, generator.integers(1, 5, rows))


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_degrees_of_freedom_are_ranks_and_residuals_those_of_the_hat_matrix(seed: int) -> None:
    tree, table = random_table(seed)
    found = Goodness(tree, table)
    codes, observed, logs, leverage = found._listed
    expected = np.exp(logs)
    blocks = []
    for clique in tree.cliques:
        dims = [len(table.states[v]) for v in members(clique)]
        cells = np.ravel_multi_index([codes[v] for v in members(clique)], dims)
        blocks.append(np.eye(int(np.prod(dims)))[cells])
    there = expected > 0
    design = np.hstack(blocks)[there]
    assert found.df == there.sum() - np.linalg.matrix_rank(design)
    # Maximum likelihood: the fitted margins are the observed ones.
    assert np.hstack(blocks).T @ expected == pytest.approx(np.hstack(blocks).T @ observed)
    weighted = np.sqrt(expected[there])[:, None] * design
    hat = np.diag(weighted @ np.linalg.pinv(weighted))
    assert leverage[there] == pytest.approx(hat, abs=1e-8)


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_an_edge_is_removable_if_the_rest_is_chordal_and_costs_the_difference_of_the_fits(seed: int) -> None:
    tree, table = random_table(seed)
    whole = Goodness(tree, table)
    for one in removals(count(tree, table)):
        graph = tree.to_graph()
        graph.remove_edge(*one.edge)
        assert (one.cliques == 1) == nx.is_chordal(graph)
        if one.cliques > 1:
            assert one.g2 is one.df is one.p is one.delta_bic is None
            continue
        rest = Goodness(JunctionTree.from_graph(graph), table)
        assert one.g2 == pytest.approx(rest.g2 - whole.g2, abs=1e-7)
        assert one.delta_bic == pytest.approx(rest.bic - whole.bic, abs=1e-7)
        assert one.df is not None
        if whole.df_nominal == whole.df:
            assert one.df == rest.df - whole.df


@given(st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_tables_with_too_many_cells_to_list_have_the_same_statistics(seed: int) -> None:
    tree, table = random_table(seed)
    whole, more = Goodness(tree, table), 18
    constants = DataTable(
        (*table.names, *(f"C{i}" for i in range(more))),
        (*table.states, *(("always", "never"),) * more),
        np.vstack([table.codes, np.zeros((more, table.rows), table.codes.dtype)]),
        table.weights,
    )
    apart = tuple(1 << table.n + i for i in range(more))
    edges = (*tree.edges, *((0, len(tree.cliques) + i) for i in range(more)))
    sparse = Goodness(JunctionTree(constants.n, (*tree.cliques, *apart), edges), constants)
    for name in ("g2", "x2", "df", "log_likelihood"):
        assert getattr(sparse, name) == pytest.approx(getattr(whole, name), abs=1e-9), name
    assert sparse.cells == whole.cells << more


@pytest.mark.parametrize("n", [70, 1200])
def test_degrees_of_freedom_of_huge_tables_are_exact_and_can_be_shown(n: int) -> None:
    codes = np.random.default_rng(0).integers(0, 2, (n, 50))
    table = DataTable(tuple(f"V{v}" for v in range(n)), (("a", "b"),) * n, codes)
    found = Goodness(JunctionTree.from_families([(v, 0) for v in range(n)]), table)
    assert found.df == found.df_nominal == 2**n - 1 - n
    assert found.p == 1
    assert "too many" in found.remarks[0]
    assert "too many" in found.text()
    assert json.loads(json_text(found.facts()))["df"] == (None if n > 1000 else float(2**n - 1 - n))


def test_scores_are_those_of_the_fit_and_the_loss_is_that_of_the_graph_without_the_edge() -> None:
    solution = jt.learn(long("drugs"), treewidth=1, weights="Freq")
    assert solution.score is not None
    assert solution.goodness().bic == pytest.approx(-2 * solution.score)
    edges = solution.edges()
    assert edges["delta_bic"].to_numpy() == pytest.approx(2 * edges["score_loss"].to_numpy())
    posterior = jt.average(solution)
    assert solution.edges(posterior)["posterior"].between(0.999, 1).all()
    with pytest.raises(jt.InputError, match="other variables"):
        solution.edges(jt.average(jt.learn(long("hair"), weights="Freq")))


def test_edges_in_several_cliques_are_not_removable_and_instances_have_losses_only() -> None:
    solution = jt.solve(jt.example("zoo"), treewidth=3)
    edges = solution.edges()
    assert edges.columns == ["first", "second", "removable", "score_loss"]
    assert edges["score_loss"].is_nan().to_list() == (~edges["removable"]).to_list()
    assert edges["score_loss"].fill_nan(1.0).min() > 0  # the best graph loses by every removal
    with pytest.raises(jt.ChoiceError, match="no rows"):
        solution.goodness()


def numbers(found: Goodness) -> dict[str, float]:
    return {name: value for name, value in found.facts().items() if isinstance(value, int | float)}


@pytest.mark.parametrize("weights", [1.0, 0.37])
def test_counts_rows_and_crosstabs_say_the_same(weights: float) -> None:
    frame = long("admissions")
    model = fitted("admissions")
    rows = frame.loc[frame.index.repeat(frame.Freq)].drop(columns="Freq")
    wanted = numbers(model.goodness(rows))
    crosstab = pd.crosstab([rows.Dept, rows.Sex], rows.Admit)
    for table in (crosstab, crosstab.T, rows.value_counts(), frame.set_index(["Admit", "Dept", "Sex"]).Freq):
        assert numbers(model.goodness(table)) == pytest.approx(wanted)
        assert jt.learn(table, treewidth=2).goodness().g2 == pytest.approx(wanted["g2"])
    scaled = model.goodness(frame.assign(Freq=frame.Freq * weights), weights="Freq")
    assert (scaled.g2, scaled.rows) == pytest.approx((weights * wanted["g2"], weights * wanted["rows"]))
    assert any("survey" in remark for remark in scaled.remarks) == (weights != 1)


@pytest.mark.parametrize("weights", [1.0, 0.25])
def test_the_column_that_counted_the_data_counts_every_later_table(
    weights: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = long("admissions")
    frame["Freq"] *= weights
    frame.to_csv(tmp_path / "table.csv", index=False)
    found = jt.fit(frame, treewidth=1, weights="Freq")
    found.write(tmp_path / "model.json")
    logs = np.array(found.loglik(frame.drop(columns="Freq")))
    wanted = numbers(found.goodness(frame, weights="Freq"))
    for model in (found, jt.Model.read(tmp_path / "model.json")):
        for table in (frame, pl.from_pandas(frame), dict(frame), tmp_path / "table.csv"):
            assert numbers(model.goodness(table)) == wanted
            assert np.array(model.loglik(table)) == pytest.approx(logs)
        cells = frame.set_index(["Dept", "Sex", "Admit"]).Freq
        for table in (cells, cells.unstack(), cells.unstack([0, 1])):  # noqa: PD010 - of a crosstab
            assert numbers(model.goodness(table)) == pytest.approx(wanted)
            assert sorted(model.loglik(table)) == pytest.approx(sorted(logs))
            assert len(model.predict(table, "Admit")) == len(model.impute(table)) == len(frame)
    files = [str(tmp_path / "model.json"), "--data", str(tmp_path / "table.csv"), "--json"]
    assert run(["show", *files], 0.0) == 0
    assert json.loads(capsys.readouterr().out)["g2"] == pytest.approx(wanted["g2"])
    assert run(["loglik", files[0], files[2], "--json"], 0.0) == 0
    totals = json.loads(capsys.readouterr().out)
    assert totals["rows"] == pytest.approx(wanted["rows"])
    assert totals["total"] == pytest.approx(logs @ frame.Freq)


def test_a_column_of_counts_that_is_not_used_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    frame, path, model = long("drugs"), str(tmp_path / "table.csv"), str(tmp_path / "model.json")
    frame.to_csv(path, index=False)
    rows = frame.loc[frame.index.repeat(frame.Freq)].drop(columns="Freq")
    plain = jt.fit(rows, treewidth=1)
    plain.write(model)
    solution = str(tmp_path / "result.json")
    jt.learn(rows, treewidth=1).write(solution)
    for words in (["show", model, "--data"], ["show", solution, "--data"], ["loglik", model]):
        assert run([*words, path], 0.0) == 0
        advice = "may count how often a row occurs: 'Freq' (8 whole numbers). Fix: give --weights Freq."
        assert advice in capsys.readouterr().err
        assert run([*words, path, "--weights", "Freq"], 0.0) == 0
        assert capsys.readouterr().err == ""
    plain.goodness(frame)
    jt.learn(frame, treewidth=1, columns=["A", "C"])
    assert caplog.text.count('Fix: give weights="Freq".') == 2


def test_values_of_a_crosstab_come_back() -> None:
    years = pd.DataFrame({"Year": [2001, 2002] * 20, "Hit": [True, False, False, False] * 10})
    solution = jt.learn(pd.crosstab(years.Year, years.Hit), treewidth=1)
    assert isinstance(solution.table, DataTable)
    assert solution.table.states == (("2001", "2002"), ("False", "True"))
    answer = solution.fit().query("Hit", given={"Year": 2002})
    assert answer["Hit"].to_list() == [False, True]


def test_named_axes_alone_make_no_table_of_counts() -> None:
    """A survey that was pivoted from a long form has names on both axes, too."""
    generator = np.random.default_rng(0)
    answers = pd.DataFrame(generator.integers(1, 6, (30, 3)), columns=pd.Index(list("ABC"), name="Question"))
    answers.index.name = "Person"
    assert jt.learn(answers, treewidth=1).named.names == ("A", "B", "C")
    assert jt.learn(answers, treewidth=1, crosstab=True).named.names == ("Person", "Question")
    few = answers.iloc[:10]
    assert jt.learn(few, treewidth=0, crosstab=False).named.names == ("A", "B", "C")
    assert jt.learn(few, treewidth=0).named.names == ("Person", "Question")
    assert jt.learn(few / 2, treewidth=0).named.names == ("A", "B", "C")
    gaps = few.astype("Int64").mask(few == 1)
    assert jt.learn(gaps, treewidth=0, missing="state").named.names == ("A", "B", "C")


def test_crosstabs_of_numbered_columns_and_ranges_are_read() -> None:
    generator = np.random.default_rng(0)
    data = pd.DataFrame(generator.normal(size=(200, 2)))
    cut = data.apply(lambda column: pd.cut(column, [-9, 0, 1, 9]))
    solution = jt.learn(pd.crosstab(cut[0], cut[1]), treewidth=1)
    assert solution.named.names == ("0", "1")
    assert solution.goodness().rows == 200
    assert solution.edges()["first"].to_list() in ([], [0])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda table: table.assign(All=table.sum(axis=1)), "'All' is the sum of the others"),
        (
            lambda table: pd.concat([table, table.sum().rename("Total").to_frame().T]).rename_axis("D"),
            "'Total'",
        ),
        (lambda table: table.rename_axis(columns="Dept"), "not distinct"),
        (lambda table: table.rename_axis(columns=None), "not distinct names"),
        (pl.DataFrame, "frames of pandas"),
        (lambda table: table.rename_axis(columns="Freq"), "Freq"),
    ],
)
def test_crosstabs_that_would_be_misread_are_refused(change: Any, complaint: str) -> None:
    frame = long("admissions")
    table = frame.pivot_table(index="Dept", columns=["Admit"], values="Freq", aggfunc="sum").astype(int)
    with pytest.raises(jt.JtsolveError, match=complaint):
        jt.learn(change(table), treewidth=1, crosstab=True)


def test_wide_files_name_the_variable_of_their_counts(tmp_path: Path) -> None:
    frame = long("admissions")
    wide = frame.pivot_table(index=["Dept", "Sex"], columns="Admit", values="Freq").astype(int)
    wide.reset_index().to_csv(path := tmp_path / "wide.csv", index=False)
    wanted = fitted("admissions").goodness(frame, weights="Freq").g2
    for source in (path, pl.read_csv(path)):
        solution = jt.learn(source, treewidth=2, crosstab="Admit=yes,no")
        assert solution.goodness().g2 == pytest.approx(wanted)
    assert fitted("admissions").goodness(path, crosstab="Admit=yes,no").g2 == pytest.approx(wanted)
    for crosstab, complaint in (
        ("Admit", "'F' is no count"),
        ("Admit=yes,maybe", "no column 'maybe'"),
        ("Dept=yes,no", "not distinct"),
        ("X=Dept,Sex,yes,no", "no column is left"),
    ):
        with pytest.raises(jt.InputError, match=complaint):
            jt.learn(path, treewidth=1, crosstab=crosstab)
    with pytest.raises(jt.ChoiceError, match="both name counts"):
        jt.learn(path, treewidth=1, crosstab="Admit=yes,no", weights="yes")
    two_way = frame.groupby(["Dept", "Admit"]).Freq.sum().unstack()  # noqa: PD010 - the name of the operation
    two_way.to_csv(tmp_path / "two.csv")
    assert jt.learn(tmp_path / "two.csv", treewidth=1, crosstab="Admit").cliques == [("Dept", "Admit")]


def test_a_model_of_a_crosstab_reads_further_crosstabs_and_rows_that_have_the_column(tmp_path: Path) -> None:
    frame = long("admissions")
    wide = frame.pivot_table(index=["Dept", "Sex"], columns="Admit", values="Freq").astype(int)
    wide.reset_index().to_csv(path := tmp_path / "wide.csv", index=False)
    jt.learn(path, treewidth=1, crosstab="Admit=yes,no").fit().write(tmp_path / "model.json")
    model = jt.Model.read(tmp_path / "model.json")
    wanted = model.goodness(frame, weights="Freq").g2
    for source in (path, pl.read_csv(path), wide.reset_index()):
        assert model.goodness(source).g2 == pytest.approx(wanted)
    rows = frame.loc[frame.index.repeat(frame.Freq), ["Dept", "Sex", "Admit"]]
    assert model.goodness(rows).g2 == pytest.approx(wanted)


def test_the_model_says_how_new_counts_are_read() -> None:
    ages = np.tile(np.arange(20, 60), 5)
    data = pd.DataFrame({"Age": ages, "Ill": np.where(ages > 45, "yes", "no")})
    data.loc[::7, "Ill"] = None
    model = jt.fit(data, treewidth=0, missing="state", schema={"Age": [45]})
    assert model.goodness(data).df == 2  # the gap is a state of the model
    complete = jt.fit(data.dropna(), treewidth=0, schema={"Age": [45]})
    with pytest.raises(jt.InputError, match='missing="drop-rows"'):
        complete.goodness(data)
    assert complete.goodness(data, missing="drop-rows").rows == data.Ill.notna().sum()
    for option in ({"discretise": "width:2"}, {"drop": "Age"}, {"missing": "impute-mode"}):
        with pytest.raises(jt.ChoiceError, match=r"leave it out|rows are not changed"):
            model.goodness(data, **option)


def test_models_that_are_no_junction_tree_of_states_are_refused() -> None:
    for kind, score in (("mixture:components=2", None), ("tree", "gaussian-bic")):
        data = np.random.default_rng(0).integers(0, 2, (50, 2)) if score is None else np.random.default_rng(0)
        rows = data if isinstance(data, np.ndarray) else data.normal(size=(50, 2))
        with pytest.raises(jt.ChoiceError, match="one discrete junction tree"):
            jt.fit(rows, kind, treewidth=1, score=score).goodness(rows)
    with pytest.raises(jt.ChoiceError, match="cut real columns"):
        jt.learn(np.random.default_rng(0).normal(size=(50, 2)), score="gaussian-bic").goodness()


def test_generating_classes_and_formulas_quote_unusual_names() -> None:
    data = {name: [0, 1] * 10 for name in ("A", ".1", "if", "a b", "x[1]", "b`c", "Größe")}
    solution = jt.learn(data, treewidth=0)
    assert solution.generating_class == '[A][.1][if]["a b"]["x[1]"][b`c][Größe]'
    assert solution.r_formula == "~ A + `.1` + `if` + `a b` + `x[1]` + `b\\`c` + Größe"


def test_the_shell_shows_the_fit_of_results_and_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, result, model, posterior = (tmp_path / one for one in ("d.csv", "r.json", "m.json", "p.json"))
    long("drugs").to_csv(data, index=False)
    counts = ("--weights", "Freq")
    assert command("solve", data, *counts, "--treewidth", 2, "--output", result, "--quiet") == 0
    assert command("fit", data, *counts, "--tree", result, "--output", model, "--quiet") == 0
    assert command("average", data, *counts, "--treewidth", 2, "--output", posterior, "--quiet") == 0
    capsys.readouterr()
    found = []
    for source in (result, model):
        assert command("show", source, "--data", data, *counts, "--posterior", posterior, "--json") == 0
        found.append(json.loads(capsys.readouterr().out))
        assert {"g2", "x2", "df", "p", "aic", "bic", "residuals"} <= set(found[-1])
    assert {**found[0], "name": ""} == {**found[1], "name": ""}
    assert command("show", model, "--data", data, *counts) == 0
    text = capsys.readouterr().out
    for part in ("generating class", "~ A*C*M", "G² (deviance)", "AIC", "delta_bic"):
        assert part in text
    picture = ("--picture", "mosaic:A,C", "--output", tmp_path / "m.svg")
    assert command("show", model, "--data", data, *counts, *picture) == 0
    assert (tmp_path / "m.svg").read_text(encoding="utf-8").startswith("<?xml")
    capsys.readouterr()
    for words, complaint in (
        ((model, *counts), "for --data FILE only"),
        (
            (model, "--data", data, *counts, "--picture", "graph", "--output", tmp_path / "m.svg"),
            "mosaic:A,B",
        ),
        (
            (model, "--data", data, *counts, "--picture", "mosaic:A,X", "--output", tmp_path / "m.svg"),
            "no 'X'",
        ),
        ((posterior, "--data", data, *counts), "is a posterior"),
    ):
        assert command("show", *words) == 2
        assert complaint in capsys.readouterr().err


def command(*words: object) -> int:
    return run(list(map(str, words)), 0.0)


@pytest.mark.parametrize("variables", [["Survived"], ["Sex", "Class"], ["Class", "Sex", "Age", "Survived"]])
def test_mosaics_have_a_tile_for_each_cell_of_its_share(variables: list[str], tmp_path: Path) -> None:
    from jtsolve.draw.mosaic import _tiles

    found = fitted("titanic").goodness(long("titanic"), weights="Freq")
    found.mosaic(tmp_path / "m.svg", variables)
    found.mosaic(tmp_path / "again.svg", variables)
    assert (tmp_path / "m.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    places = [found.table.names.index(name) for name in variables]
    counts = module._tabulated(found.table, places)
    for cell, (_, _, width, height) in _tiles(counts, (0.0, 0.0, 5.0, 5.0)):
        share = counts[cell] / counts.sum()
        assert width * height <= 25 * share + 1e-9  # gaps fill the rest
        assert (width * height == 0) == (share == 0)
    with pytest.raises(jt.ChoiceError, match="unreadable"):
        found.mosaic(tmp_path / "m.svg", [*variables, *variables, *variables, *variables, *variables])
    with pytest.raises(jt.ChoiceError, match="a picture of anything but a graph is written as"):
        found.mosaic(tmp_path / "m.pdf", variables)
