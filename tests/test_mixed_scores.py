"""Scores of mixed tables: reductions to one kind of column, laws, and tables as users have them."""

from __future__ import annotations

from itertools import combinations
from math import lgamma, log, pi
from typing import TYPE_CHECKING

import numpy as np
import pytest
from readers import tabulate

import jtsolve as jt
from jtsolve.cli import run as command
from jtsolve.core.run import Limits, Run
from jtsolve.core.varset import VarSet, bounded_subsets, members, subsets
from jtsolve.errors import ChoiceError, InputError
from jtsolve.io.instance import read_problem
from jtsolve.scoring.lazy import DataScores
from jtsolve.scoring.registry import REGISTRY
from jtsolve.scoring.scorers import make_scorer
from jtsolve.tables.margins import normal_scores
from jtsolve.tables.table import ContinuousTable, DataTable, MixedTable

if TYPE_CHECKING:
    from pathlib import Path

    from jtsolve.scoring.score import ScoreFunction

KINDS = ("cg", "cg:penalty=aic", "cg:covariance=common", "niw")
RAW = [f"{kind}{',' if ':' in kind else ':'}columns=raw" for kind in KINDS]


def parsed(text: str) -> ScoreFunction:
    return REGISTRY.parse(text)


def mixed(kinds: str, rows: int = 60, seed: int = 0, states: int = 3) -> MixedTable:
    """Returns a table with a discrete column for every d and a real one for every r, all dependent."""
    generator = np.random.default_rng(seed)
    names = tuple(f"{kind}{at}" for at, kind in enumerate(kinds))
    codes = generator.integers(states, size=(kinds.count("d"), rows))
    values = generator.normal(size=(kinds.count("r"), rows)) + codes.sum(axis=0)
    values[1:] += 0.5 * values[:-1]
    discrete = tuple(name for name in names if name[0] == "d")
    labels = (tuple(map(str, range(states))),) * len(discrete)
    return MixedTable(
        names,
        DataTable(discrete, labels, codes) if discrete else None,
        ContinuousTable(tuple(name for name in names if name[0] == "r"), values),
    )


@pytest.mark.parametrize(
    ("text", "discrete", "gaussian"),
    [("cg", "bic", "gaussian-bic"), ("cg:covariance=common", "bic", "gaussian-bic"), ("niw", "bdeu", "bge")],
)
def test_with_one_kind_of_column_the_scores_are_those_of_that_kind(
    text: str, discrete: str, gaussian: str
) -> None:
    table = mixed("drdrrd")
    assert table.discrete is not None
    found = tabulate(table, parsed(text), 3)
    states = tabulate(table.discrete, REGISTRY[discrete], 3)
    scores = ContinuousTable(table.real.names, normal_scores(table.real.values))
    numbers = tabulate(scores, REGISTRY[gaussian], 3)
    for own, expected in (([0, 2, 5], states), ([1, 3, 4], numbers)):
        for mask in subsets(0b111):
            assert found.score(sum(1 << own[v] for v in members(mask))) == expected.score(mask)


def test_raw_columns_reduce_too_and_aic_counts_parameters() -> None:
    table = mixed("rrr")
    bic, aic = (tabulate(table, parsed(text), 3) for text in ("cg:columns=raw", "cg:penalty=aic,columns=raw"))
    expected = tabulate(table.real, REGISTRY["gaussian-bic"], 3)
    assert (bic.values == expected.values).all()
    assert aic.score(0b111) - bic.score(0b111) == pytest.approx((log(60) / 2 - 1) * 9)
    assert table.real_variables == 0b111


@pytest.mark.parametrize("text", RAW)
def test_formulas(text: str) -> None:
    """The score of one discrete and two real columns by its formula, cell by cell."""
    table, score = mixed("drr", rows=40), parsed(text)
    assert table.discrete is not None
    codes, values = table.discrete.codes[0], table.real.values
    found = tabulate(table, score, 3).score(0b111)
    if text.startswith("niw"):
        values = (values - values.mean(axis=1, keepdims=True)) / values.std(axis=1, keepdims=True)
        expected = tabulate(table.discrete, REGISTRY["bdeu"], 1).score(1)
        for i in range(3):
            part = values[:, codes == i]
            n, mean = part.shape[1], part.mean(axis=1)
            matrix = 0.5 * np.eye(2) + np.cov(part, bias=True) * n + n / (n + 1) * np.outer(mean, mean)
            w = 4.0
            expected += log(1 / (n + 1)) - n * log(pi) + w * log(0.5)
            expected += sum(lgamma((n + w - j) / 2) - lgamma((w - j) / 2) for j in range(2))
            expected -= (n + w) / 2 * float(np.linalg.slogdet(matrix)[1])
        assert found == pytest.approx(expected, abs=1e-9)
        return
    n = np.bincount(codes)
    scatter = np.array([np.cov(values[:, codes == i], bias=True) * n[i] for i in range(3)])
    pooled = scatter.sum(axis=0) / 40
    h = np.diag([np.diff(np.unique(column)).min() ** 2 / 12 for column in values])
    common = "common" in text
    matrices = [pooled + h] * 3 if common else [(scatter[i] + 2 * pooled) / (n[i] + 2) + h for i in range(3)]
    logs = sum(n[i] * np.linalg.slogdet(matrices[i])[1] for i in range(3))
    weight = 1.0 if "aic" in text else log(40) / 2
    parameters = 2 + 6 + (1 if common else 3) * 3
    expected = sum(n * np.log(n / 40)) - logs / 2 - 40 * (log(2 * pi) + 1) - weight * parameters
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("text", [*KINDS, *RAW])
def test_tables_and_scores_on_demand_agree_bit_for_bit(text: str) -> None:
    table, score = mixed("rdrdrd"), parsed(text)
    scores = tabulate(table, score, 4, run=Run(Limits(threads=2)))
    lazy = DataScores(table, score, 4)
    for size in range(1, 5):
        sets = np.array(list(combinations(range(6), size)), dtype=np.intp)
        sets = np.random.default_rng(size).permutation(sets)
        assert (lazy.batch(sets) == scores.batch(sets)).all()
    many = mixed("rddrdddd", rows=200)
    whole, alone = tabulate(many, score, 4), DataScores(many, score, 4)
    assert [alone.score(mask) for mask in bounded_subsets(8, 4)] == whole.values.tolist()
    low, high = make_scorer(table, score, 4).extremes(4)
    assert low <= scores.values.min()
    assert scores.values.max() <= high


@pytest.mark.parametrize("text", RAW)
def test_units_change_all_graphs_alike(text: str) -> None:
    table = mixed("drrd")
    scale = np.array([[10.0], [0.01]])
    moved = MixedTable(
        table.names, table.discrete, ContinuousTable(("r1", "r2"), table.real.values * scale + 3)
    )
    one, other = (tabulate(given, parsed(text), 4) for given in (table, moved))
    shift = [other.score(1 << v) - one.score(1 << v) for v in range(4)]
    for mask in bounded_subsets(4, 4):
        assert other.score(mask) - one.score(mask) == pytest.approx(
            sum(shift[v] for v in members(mask)), abs=1e-8
        )


def test_normal_scores_do_not_depend_on_monotone_changes() -> None:
    table = mixed("drrd")
    values = np.array([np.exp(table.real.values[0]), table.real.values[1] ** 3])
    moved = MixedTable(table.names, table.discrete, ContinuousTable(("r1", "r2"), values))
    found = [tabulate(given, parsed("cg"), 4).values for given in (table, moved)]
    assert (found[0] == found[1]).all()


def log_predictive(table: MixedTable, order: list[tuple[int, VarSet]], text: str) -> float:
    """Returns Σ s(P ∪ v) − s(P) along an order."""
    scores = tabulate(table, parsed(text), 3)
    return sum(scores.score(p | 1 << v) - scores.score(p) for v, p in order)


def test_every_strong_root_gives_the_same_score() -> None:
    """d0 – {d0, r1} – {r1, r2}: from d0, or from the other discrete root {d0, d3}."""
    table = mixed("drrd")
    for text in KINDS:
        first = log_predictive(table, [(0, 0), (3, 1), (1, 1), (2, 0b10 | 1)], text)
        other = log_predictive(table, [(3, 0), (0, 0b1000), (1, 1), (2, 0b11)], text)
        assert first == pytest.approx(other, abs=1e-9)


def frame(rows: int = 400) -> dict[str, list[object]]:
    generator = np.random.default_rng(1)
    sex = generator.choice(["f", "m"], rows)
    height = generator.normal(165, 6, rows) + 12 * (sex == "m")
    weight = np.exp(generator.normal(3.6, 0.1, rows) + 0.004 * height)
    gain = np.where(generator.random(rows) < 0.6, 0.0, generator.exponential(100, rows))
    return {
        "sex": sex.tolist(),
        "height": height.tolist(),
        "weight": weight.tolist(),
        "day": generator.integers(28, size=rows).tolist(),
        "gain": gain.tolist(),
        "coin": generator.integers(2, size=rows).tolist(),
    }


def test_a_mixed_frame_is_learned_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    solution = jt.learn(frame())
    assert {("sex", "height"), ("height", "weight")} <= {
        edge for clique in solution.cliques for edge in combinations(clique, 2)
    }
    assert solution.status == "optimal"
    assert solution.table is not None
    assert solution.table.provenance["real"] == ["height", "weight", "day"]
    assert list(solution.table.provenance["cuts"]) == ["gain"]
    assert "real: 'height', 'weight', 'day'" in caplog.text
    assert "'gain', where 0" in caplog.text
    assert solution.study is not None
    assert solution.study.score.name == "cg"


def test_the_user_decides_which_columns_are_real() -> None:
    data = frame()
    chosen = jt.learn(data, real=["gain"], states=["day"], schema={"weight": [60.0, 70.0]}).table
    assert chosen is not None
    assert chosen.provenance["real"] == ["height", "gain"]
    cut = jt.learn(data, discretise="quantile:4")
    assert isinstance(cut.table, DataTable)
    assert cut.study is not None
    assert cut.study.score.name == "bic"
    with pytest.raises(ChoiceError, match="both real and of states"):
        jt.learn(data, real=["day"], states=["day"])
    with pytest.raises(InputError, match=r"column 'sex': '[fm]' is not a finite number"):
        jt.learn(data, real=["sex"])
    with pytest.raises(ChoiceError, match="for scores of mixed tables"):
        jt.learn(data, real=["day"], score="bic")
    with pytest.raises(ChoiceError, match="real columns do not support"):
        jt.learn(data, weights="coin")


def test_a_frame_of_states_is_scored_as_ever() -> None:
    data = {name: values for name, values in frame().items() if name in ("sex", "coin")}
    default, named = jt.learn(data), jt.learn(data, score="bic")
    assert default.score == named.score
    assert default.problem is not None
    assert named.problem is not None
    assert default.problem.digest() == named.problem.digest()


def test_gaps_in_real_columns_are_dropped_or_refused() -> None:
    data = frame()
    data["height"][3] = data["sex"][5] = None
    with pytest.raises(InputError, match=r"1 in 'sex', 1 in 'height'.*drop-rows"):
        jt.learn(data)
    with pytest.raises(InputError, match="column 'height': 1 values are missing, and the column is real"):
        jt.learn(data, missing="state")
    dropped = jt.learn(data, missing="drop-rows").table
    assert dropped is not None
    assert dropped.total == 398
    data["height"][3] = 170.0
    stated = jt.learn(data, missing="state").table
    assert isinstance(stated, MixedTable)
    assert stated.states[0] == ("f", "m", "?")


@pytest.mark.parametrize("real", [True, False])
def test_dropping_more_than_half_of_the_rows_is_a_finding(
    real: bool,  # noqa: FBT001 - a parameter of the test
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = frame()
    data["coin"] = [None if at % 3 else at // 3 % 2 for at in range(400)]
    solution = jt.learn(data, missing="drop-rows", discretise=None if real else "quantile:2")
    (warning,) = solution.result.stats["warnings"]
    assert warning["kind"] == "dropped"
    assert "only 33.5 % of the rows have no gap" in warning["sentence"]
    assert 'drop="coin"' in caplog.text
    data["coin"] = [None if at % 3 == 0 else at // 3 % 2 for at in range(400)]
    assert "warnings" not in jt.learn(data, missing="drop-rows").result.stats


def test_columns_that_determine_each_other_are_an_error() -> None:
    data = frame()
    data["inches"] = [x / 2.54 for x in data["height"]]  # type: ignore[operator]
    with pytest.raises(InputError, match="columns height, inches: they are linearly dependent"):
        jt.learn(data)
    table = mixed("drr")
    twice = ContinuousTable(("r1", "r2"), np.array([table.real.values[0], 2 * table.real.values[0]]))
    with pytest.raises(InputError, match="linearly dependent"):
        tabulate(MixedTable(table.names, table.discrete, twice), parsed("cg:columns=raw"), 3)


def test_cells_of_few_rows_and_constant_cells_have_finite_scores() -> None:
    table = mixed("ddr", rows=8, states=5)
    assert np.isfinite(tabulate(table, parsed("cg"), 3).values).all()
    codes = np.repeat([0, 1], 30)
    constant = MixedTable(
        ("d", "r"),
        DataTable(("d",), (("0", "1"),), codes[None]),
        ContinuousTable(("r",), np.where(codes == 1, 5.0, np.arange(60.0))[None]),
    )
    assert np.isfinite(tabulate(constant, parsed("cg:columns=raw"), 2).values).all()


def test_files_of_mixed_tables_are_scored_solved_and_checked(tmp_path: Path) -> None:
    data, instance, answer, proof = (tmp_path / name for name in ("d.csv", "i.json", "r.json", "c.json"))
    columns = frame(200)
    rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    data.write_text("\n".join(rows), encoding="utf-8")
    words = ["--drop", "gain", "--read", "real=day"]
    assert command(["score", str(data), *words, "--max-size", "3", "--output", str(instance)], 0.0) == 0
    problem = read_problem(instance)
    assert list(members(problem.constraints.real_variables)) == [1, 2, 3]
    solve = [
        "solve",
        str(data),
        *words,
        "--treewidth",
        "2",
        "--output",
        str(answer),
        "--certificate",
        str(proof),
    ]
    assert command(solve, 0.0) == 0
    check = ["check", str(instance), str(answer), "--certificate", str(proof)]
    assert command(check, 0.0) == 0
