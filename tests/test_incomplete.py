"""Missing cells: EM agrees with closed forms, never loses likelihood, and has one name at each door."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from fitting import fit
from problems import repeatable
from random_models import random_tree

import jtsolve as jt
import jtsolve.study.data
from jtsolve.cli import run
from jtsolve.core.result import Stop
from jtsolve.core.run import Limits, Run
from jtsolve.core.tree import JunctionTree
from jtsolve.errors import ChoiceError, InputError, LimitError
from jtsolve.estimator import JunctionTreeDensity
from jtsolve.models.learning.cells import estimate_parameters
from jtsolve.models.learning.incomplete import imputed
from jtsolve.models.learning.mixed_tree import fit_mixed
from jtsolve.scoring.scores.bic import Bic
from jtsolve.scoring.scores.cg import ConditionalGaussian
from jtsolve.tables.table import ContinuousTable, DataTable, MixedTable, stacked_columns, with_cells

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from jtsolve.tables.table import Table

PAIR = JunctionTree(2, (0b11,), ())


def incomplete(kinds: str, seed: int, rows: int = 150, share: float = 0.3) -> Table:
    """Returns a table of dependent columns, discrete ("d") and real ("r"), with gaps at random."""
    generator = np.random.default_rng(seed)
    hidden = generator.normal(size=rows)
    noisy = hidden + generator.normal(size=(len(kinds), rows))
    gaps = generator.random(noisy.shape) < share
    states = np.digitize(noisy, [-0.5, 0.8])
    at = {kind: [v for v, own in enumerate(kinds) if own == kind] for kind in "dr"}
    names = tuple(f"{kind}{v}" for v, kind in enumerate(kinds))
    discrete = real = None
    if own := at["d"]:
        labels = (("low", "mid", "top"),) * len(own)
        discrete = DataTable(tuple(names[v] for v in own), labels, states[own], gaps=gaps[own])
    if own := at["r"]:
        real = ContinuousTable(tuple(names[v] for v in own), noisy[own], gaps=gaps[own])
    if real is None:
        assert discrete is not None
        return discrete
    return real if discrete is None else MixedTable(names, discrete, real)


def observed(table: Table) -> NDArray[np.float64]:
    """Returns the cells of a table, NaN where they are missing."""
    assert table.gaps is not None
    return np.where(table.gaps, np.nan, stacked_columns(table))


@pytest.mark.parametrize("kinds", ["dddd", "rrrr", "drrd", "ddrr"])
@pytest.mark.parametrize("seed", range(4))
def test_the_likelihood_of_em_never_falls_and_ends_where_it_is_level(kinds: str, seed: int) -> None:
    table = incomplete(kinds, seed)
    tree = JunctionTree(4, (0b1111,), ()) if "r" in kinds else random_tree(4, 2, repeatable(seed))
    for ess in (0.0, 3.0) if kinds == "dddd" else (0.0,):
        found = estimate_parameters(tree, table, ess=ess)
        assert (np.diff(found.trace) >= 0).all()
        assert found.trace[-1] > found.trace[0]
        assert (found.log_likelihood == found.trace[-1]) == (ess == 0)
        if len(set(kinds)) == 1:
            assert found.trace[-1] - found.trace[-2] < 1e-5 * table.rows


@pytest.mark.parametrize("seed", range(4))
def test_the_likelihood_of_em_is_that_of_its_model(seed: int) -> None:
    numbers, states = incomplete("rrrr", seed), incomplete("dddd", seed)
    assert isinstance(numbers, ContinuousTable)
    assert isinstance(states, DataTable)
    tree = random_tree(4, 2, repeatable(seed))
    model = fit_mixed(tree, numbers, ess=0.0)
    expected = model.provenance["em"]["log_likelihood"]
    assert model.log_likelihood(observed(numbers)).sum() == pytest.approx(expected, abs=1e-4 * numbers.rows)
    coded = np.nan_to_num(observed(states), nan=-1).astype(np.int32)
    other = fit(tree, states, ess=0.0)
    expected = other.provenance["em"]["log_likelihood"]
    assert other.log_likelihood(coded).sum() == pytest.approx(expected, abs=1e-4 * states.rows)


def test_em_is_the_factored_likelihood_where_one_column_has_gaps() -> None:
    """T. W. Anderson, Journal of the American Statistical Association 52, 1957."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=4000)
    y = 2 * x + 1 + generator.normal(size=4000)
    gaps = np.array([np.zeros(4000, dtype=bool), x > 0.3])  # missing at random: it depends on x
    full = ~gaps[1]
    slope, intercept = np.polyfit(x[full], y[full], 1)
    model = fit_mixed(PAIR, ContinuousTable(("x", "y"), np.where(gaps, 0.0, [x, y]), gaps=gaps), ess=0.0)
    found = model.posterior([["x", "y"]], {})
    mean, other = found.means[0]
    assert (mean, found.covariances[0][0, 0]) == pytest.approx((x.mean(), x.var()))
    assert other == pytest.approx(intercept + slope * x.mean(), abs=0.02)
    assert abs(other - 1) < 0.1 < abs(y[full].mean() - 1)
    a = generator.integers(2, size=4000)
    b = np.where(generator.random(4000) < 0.2 + 0.6 * a, 1, 0)
    gaps = np.array([np.zeros(4000, dtype=bool), generator.random(4000) < 0.1 + 0.7 * a])
    table = DataTable(("a", "b"), (("0", "1"),) * 2, np.where(gaps, 0, [a, b]), gaps=gaps)
    tables = fit(PAIR, table, ess=0.0).tables[0]
    full = ~gaps[1]
    expected = [[(a == i).mean() * (b[full & (a == i)] == j).mean() for j in (0, 1)] for i in (0, 1)]
    np.testing.assert_allclose(tables, expected, atol=2e-3)
    weights = generator.integers(1, 4, size=4000)
    weighted = fit(PAIR, DataTable(table.names, table.states, table.codes, weights, gaps=gaps))
    every = np.repeat(np.arange(4000), weights)
    repeated = fit(PAIR, DataTable(table.names, table.states, table.codes[:, every], gaps=gaps[:, every]))
    np.testing.assert_allclose(weighted.tables[0], repeated.tables[0], atol=1e-9)


def test_a_row_that_counts_often_gets_a_draw_each_time_up_to_a_hundred() -> None:
    codes = np.array([[0, 0, 1, 1, 0], [0, 1, 0, 1, 0]])
    gaps = np.array([[False] * 5, [False] * 4 + [True]])
    weights = np.array([300, 100, 100, 300, 450])
    table = DataTable(("a", "b"), (("0", "1"),) * 2, codes, weights, gaps=gaps)
    drawn = imputed(table, Bic(), 1, Run())
    assert isinstance(drawn, DataTable)
    assert drawn.weights is not None
    assert drawn.total == table.total
    assert sorted(drawn.weights[drawn.gaps[1]]) == [4] * 50 + [5] * 50  # type: ignore[index]
    means = []
    for seed in range(4):
        found = imputed(table, Bic(), 1, Run(Limits(seed=seed)))
        assert isinstance(found, DataTable)
        means.append(found.codes[1, found.gaps[1]].mean())  # type: ignore[index]
    assert np.mean(means) == pytest.approx(0.25, abs=0.07)
    heavy = imputed(replace(table, weights=weights * 10**12), Bic(), 1, Run())
    assert (heavy.rows, heavy.total) == (104, table.total * 10**12)
    with pytest.raises(LimitError, match="drawing the missing values needs"):
        imputed(table, Bic(), 1, Run(Limits(memory=1)))


def test_real_numbers_beside_states_have_the_moments_of_their_cells() -> None:
    generator = np.random.default_rng(6)
    d = generator.integers(2, size=3000)
    y = np.where(d == 1, 5.0, -5.0) + generator.normal(size=3000)
    gaps = np.array([np.zeros(3000, dtype=bool), generator.random(3000) < 0.2 + 0.6 * d])
    states = DataTable(("d",), (("0", "1"),), d[None], gaps=gaps[:1])
    table = MixedTable(
        ("d", "y"), states, ContinuousTable(("y",), np.where(gaps[1], 0.0, y)[None], gaps=gaps[1:])
    )
    ((mean,),) = fit_mixed(PAIR, table).posterior([["y"]], {}).means
    assert mean == pytest.approx(y.mean(), abs=0.1)
    assert abs(y[~gaps[1]].mean() - y.mean()) > 1


def frame(rows: int = 400) -> dict[str, list[Any]]:
    """Returns two states and two numbers; smoking, and weight above a height, are often missing."""
    generator = np.random.default_rng(2)
    sex = generator.choice(["f", "m"], rows)
    height = generator.normal(165, 6, rows) + 12 * (sex == "m")
    weight = 0.9 * height - 90 + generator.normal(0, 5, rows)
    smoker = np.where(generator.random(rows) < 0.2 + 0.6 * (sex == "m"), "yes", "no")
    columns: dict[str, list[Any]] = {"sex": sex.tolist(), "height": height.round(2).tolist()}
    columns["weight"] = [
        None if h > 172 else w for h, w in zip(height, weight.round(2).tolist(), strict=True)
    ]
    columns["smoker"] = [None if u < 0.3 else s for u, s in zip(generator.random(rows), smoker, strict=True)]
    return columns


def written(columns: dict[str, list[Any]], path: Path) -> Path:
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join("" if x is None else str(x) for x in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


EVERY = ("sex", "height", "weight", "smoker")


@pytest.mark.parametrize("names", [EVERY, ("height", "weight"), ("sex", "smoker")])
def test_shell_python_and_estimators_take_the_same_word(
    names: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {name: frame()[name] for name in names}
    path, out, tree = written(data, tmp_path / "data.csv"), tmp_path / "m.json", tmp_path / "t.json"
    options = ["--treewidth", "1", "--missing", "em"]
    assert run(["fit", str(path), *options, "--output", str(out)], 0.0) == 0
    model = jt.fit(path, treewidth=1, missing="em")
    rows = {name: column[:20] for name, column in data.items()}
    assert model.model.provenance["em"]["steps"] > 1
    expected = model.loglik(rows).to_list()
    assert jt.Model.read(out).loglik(rows).to_list() == pytest.approx(expected)
    assert jt.learn(path, treewidth=1, missing="em").fit().loglik(rows).to_list() == pytest.approx(expected)
    assert run(["solve", str(path), *options, "--output", str(tree)], 0.0) == 0
    assert run(["fit", str(path), "--tree", str(tree), "--missing", "em", "--output", str(out)], 0.0) == 0
    capsys.readouterr()
    assert run(["loglik", str(out), str(path), "--json"], 0.0) == 0
    assert json.loads(capsys.readouterr().out)["mean"] == pytest.approx(model.loglik(data).mean(), abs=1e-6)
    if names == EVERY:
        values = np.array(list(map(list, zip(*data.values(), strict=True))), dtype=object)
        fitted = JunctionTreeDensity(1, local_score="cg", discretise=None, missing="em").fit(values)
        assert fitted.score_samples(values[:20]) == pytest.approx(expected)


def test_numbers_that_are_missing_where_others_are_high_are_not_underestimated() -> None:
    data = frame()
    height, weight = (np.array(data[name], dtype=float) for name in ("height", "weight"))
    full = ~np.isnan(weight)
    solution = jt.learn(data, treewidth=1, missing="em")
    assert ("height", "weight") in solution.cliques
    mean = solution.fit().query("weight")["mean"].to_list()[0]
    slope, intercept = np.polyfit(height[full], weight[full], 1)
    assert mean == pytest.approx(intercept + slope * height.mean(), abs=0.1)
    assert weight[full].mean() < mean - 3


def test_without_gaps_em_is_the_closed_form() -> None:
    data = {name: frame()[name] for name in ("sex", "height")}
    plain, em = jt.fit(data, treewidth=1), jt.fit(data, treewidth=1, missing="em")
    assert plain.loglik(data).to_list() == em.loglik(data).to_list()


def test_observed_cells_stay_and_a_seed_repeats_the_draws() -> None:
    data = frame()
    one, other, third = (jt.learn(data, treewidth=1, missing="em", seed=seed).table for seed in (1, 1, 2))
    assert isinstance(one, MixedTable)
    assert isinstance(other, MixedTable)
    assert isinstance(third, MixedTable)
    assert one.gaps is not None
    cells = stacked_columns(one)
    assert (cells == stacked_columns(other)).all()
    differ = cells != stacked_columns(third)
    assert differ.any()
    assert not differ[~one.gaps].any()


def test_em_refuses_unsupported_models() -> None:
    table = incomplete("dr", 0)
    with pytest.raises(InputError, match="truth values for each cell"):
        DataTable(("a",), (("0", "1"),), np.zeros((1, 2), dtype=int), gaps=np.zeros((1, 3), dtype=bool))
    with pytest.raises(InputError, match="every value is missing"):
        jt.fit({"a": [None] * 30, "b": list(range(30))}, treewidth=1, missing="em")
    with pytest.raises(ChoiceError, match="missing"):
        jt.fit(frame(), treewidth=1, missing="expectation")
    assert (stacked_columns(with_cells(table, stacked_columns(table))) == stacked_columns(table)).all()


@pytest.mark.parametrize("kinds", ["ddddd", "ddrr"])
@pytest.mark.parametrize("at", [1, 2, 5, 9])
def test_an_interrupted_imputation_keeps_its_last_draw(
    kinds: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, reports = incomplete(kinds, 1), 0
    own = Run.progress

    def progress(self: Run, **news: Any) -> bool:
        nonlocal reports
        reports += 1
        if reports == at:
            self.interrupt()
        return own(self, **news)

    monkeypatch.setattr(Run, "progress", progress)
    run = Run()
    found = imputed(table, ConditionalGaussian() if "r" in kinds else Bic(), 2, run)
    assert run.stop is Stop.INTERRUPTED
    assert np.isfinite(stacked_columns(found)).all()
    known = ~np.isnan(observed(table))
    assert np.array_equal(stacked_columns(found)[known], stacked_columns(table)[known])


def test_a_model_is_fitted_to_an_interrupted_imputation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "x,y,z\n" + "a,b,c\n" * 9 + "b,,d\n" * 9 + ",a,d\n"
    (tmp_path / "data.csv").write_text(rows, encoding="utf-8")

    def interrupted(*arguments: Any) -> Table:
        signal.raise_signal(signal.SIGINT)
        return imputed(*arguments)

    monkeypatch.setattr(jtsolve.study.data, "imputed", interrupted)
    for kind in ("tree", "mixture:components=2", "features"):
        model = jt.fit(tmp_path / "data.csv", kind, treewidth=1, missing="em")
        assert model.query("z", given={"x": "a"})["probability"][0] > 0.5
    assert jt.learn(tmp_path / "data.csv", 1, missing="em").result.stop is Stop.INTERRUPTED
