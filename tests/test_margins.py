"""Margins: maps between numbers and normal scores, alone and in models."""

from __future__ import annotations

from functools import cache
from math import log
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import jtsolve as jt
from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.answers import Normals
from jtsolve.models.mixed import MixedTreeModel
from jtsolve.tables.margins import Margin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def integral(f: Callable[[NDArray[np.float64]], NDArray[np.float64]], ends: NDArray[np.float64]) -> float:
    """Returns ∫ f by Gauss's rule between consecutive ends."""
    half = np.diff(ends)[:, None] / 2
    values = f((ends[:-1, None] + half * (1 + _POINTS)).ravel())
    return float((half * _WEIGHTS).ravel() @ values)


def columns(seed: int) -> NDArray[np.float64]:
    """Returns a heavy-tailed, a spiked, a rounded or a two-valued column."""
    generator = np.random.default_rng(seed)
    skewed = np.exp(generator.normal(size=400))
    spiked = np.where(generator.random(400) < 0.2, 0.0, skewed)
    close = np.where(generator.random(400) < 0.5, 1.0, 1.0 + 1e-15) + (generator.random(400) < 0.3)
    return np.asarray([skewed, spiked, np.round(skewed), close][seed % 4])


@pytest.mark.parametrize("segments", [2, 5, 32])
@pytest.mark.parametrize("seed", range(8))
def test_margins_are_monotone_maps_with_a_way_back(seed: int, segments: int) -> None:
    column = columns(seed)
    margin = Margin.of(column, segments)
    if margin is None:
        assert len(np.unique(column)) <= 4  # rounding alone separates others
        return
    grid = np.linspace(column.min() - 9, column.max() + 9, 2001)
    scores = margin.to_scores(grid)
    assert (np.diff(scores) > 0).all()
    assert margin.to_values(scores) == pytest.approx(grid, abs=1e-9)
    assert np.isfinite(margin.log_slopes(scores)).all()
    assert margin.to_scores(np.array([np.nan, 1.0]))[0] != margin.to_scores(np.array([np.nan]))[0]
    assert 2 <= len(margin.values) <= segments + 1
    # The share of the rows below a knot is the normal probability of its score.
    for value, score in zip(margin.values[1:-1], margin.scores[1:-1], strict=True):
        assert (column < value).mean() == pytest.approx(NormalDist().cdf(score), abs=2 / column.size)


@pytest.mark.parametrize("seed", range(4))
def test_moments_of_values_are_their_integrals(seed: int) -> None:
    margin = Margin.of(columns(2 * seed), 20)
    assert margin is not None
    generator = np.random.default_rng(seed)
    mean, variance = generator.normal(), generator.uniform(0.01, 2)
    ends = np.unique(np.append(mean + np.sqrt(variance) * np.arange(-12, 12.1, 0.5), margin.scores))
    ends = ends[np.abs(ends - mean) <= 12 * np.sqrt(variance)]

    def expected(f: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
        def times(z: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(
                f(z) * np.exp(-0.5 * (z - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)
            )

        return integral(times, ends)

    first, second = margin.moments(np.array([mean]), np.array([variance]))
    known = expected(margin.to_values)
    assert first[0] == pytest.approx(known, rel=1e-9)
    assert second[0] == pytest.approx(expected(lambda z: (margin.to_values(z) - known) ** 2), rel=1e-8)
    scores, weights = Normals(np.ones(1), np.array([mean]), np.array([variance]), margin).nodes()
    assert weights @ margin.to_values(scores) == pytest.approx(known, rel=1e-9)
    assert weights @ margin.log_slopes(scores) == pytest.approx(expected(margin.log_slopes), rel=1e-9)


def test_far_tails_keep_their_digits() -> None:
    margin = Margin((0.0, 1.0, 3.0), (-1.0, 0.0, 1.0))
    for score in (-40.0, 40.0):
        first, second = margin.moments(np.array([score]), np.array([0.25]))
        slope = 1 / margin.slopes[0 if score < 0 else -1]
        assert first[0] == pytest.approx(margin.to_values(np.array([score]))[0], rel=1e-12)
        assert second[0] == pytest.approx(0.25 * slope**2, rel=1e-9)


@pytest.mark.parametrize(
    ("values", "scores"),
    [((1.0,), (0.0,)), ((1.0, 1.0), (0.0, 1.0)), ((0.0, 1.0), (1.0, 0.0)), ((0.0, np.inf), (0.0, 1.0)),
     ((0.0, 1.0), (0.0, 1.0, 2.0)), ((0.0, 5e-324), (0.0, 1.0))],
)  # fmt: skip
def test_knots_that_make_no_margin_are_refused(values: tuple[float, ...], scores: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="knots"):
        Margin(values, scores)


def table(rows: int = 600, seed: int = 0) -> dict[str, list[Any]]:
    """Returns states beside a heavy-tailed column, a dependent one and one with a spike."""
    generator = np.random.default_rng(seed)
    kind = generator.choice(["a", "b", "c"], rows)
    size = generator.normal(size=rows) + (kind == "b")
    wage = np.exp(size + 0.5 * generator.normal(size=rows))
    spare = np.where(generator.random(rows) < 0.15, 0.0, wage * np.exp(0.7 * generator.normal(size=rows)))
    return {"kind": kind.tolist(), "wage": wage.tolist(), "spare": spare.tolist(), "mark": size.tolist()}


@cache
def fitted() -> MixedTreeModel:
    model = jt.fit(table(), treewidth=2).model
    assert isinstance(model, MixedTreeModel)
    return model


def margin_in(model: Any, name: str) -> Margin:
    found = model.columns[model.names.index(name)].margin
    assert isinstance(found, Margin)
    return found


def test_margins_follow_the_score() -> None:
    data = table(300)
    raw = jt.fit(data, treewidth=1, backend="dp", score="cg:columns=raw").model
    assert all(getattr(column, "margin", None) is None for column in raw.columns)
    for score in ("cg", "niw", "cg:covariance=common"):
        margin_in(jt.fit(data, treewidth=1, backend="dp", score=score).model, "wage")
    real = {name: data[name] for name in ("wage", "spare", "mark")}
    for score in ("cg", "gaussian-bic", "bge"):
        model = jt.fit(real, treewidth=1, backend="dp", score=score)
        assert all(column.margin is None for column in model.model.columns)
        assert model.precision().shape == (3, 3)
    assert fitted().parameters > MixedTreeModel(raw.columns, fitted().cliques).parameters
    logs = [np.asarray(m.loglik(data)) for m in (jt.fit(data, treewidth=1, backend="dp"), jt.Model(raw))]
    assert (logs[0] - logs[1]).mean() > 0.5


def test_columns_normal_in_their_cells_have_no_margins() -> None:
    generator = np.random.default_rng(3)
    kind = generator.integers(2, size=300)
    data = {"kind": [*map(str, kind)], "x": (generator.normal(size=300) + 6 * kind).tolist()}
    assert all(getattr(one, "margin", None) is None for one in jt.fit(data, treewidth=1).model.columns)


@pytest.mark.parametrize(
    "given", [{}, {"kind": "b"}, {"wage": 1.2}, {"spare": 1e5, "kind": "a"}, {"mark": -50.0}]
)
def test_density_mean_variance_and_quantiles_agree_with_quadrature(given: dict[str, Any]) -> None:
    model = fitted()
    for name in {"wage", "spare", "mark"} - given.keys():
        answer = model.posterior([[name]], given)
        normals = answer.margins[0][0]
        own = margin_in(model, name)
        spread = np.sqrt(normals.variances)
        scores = (normals.means + np.outer(np.arange(-9, 9.1, 0.5), spread)).ravel()
        ends = np.unique(np.append(own.to_values(scores), own.values))
        row = np.full((4, 1), np.nan)
        for other, value in given.items():
            v = model.names.index(other)
            row[v] = model.columns[v].code(value)

        def density(x: NDArray[np.float64], name: str = name, row: Any = row, answer: Any = answer) -> Any:
            rows = np.repeat(row, x.size, axis=1)
            rows[model.names.index(name)] = x
            return np.exp(model.log_likelihood(rows) - answer.log_probability)

        assert integral(density, ends) == pytest.approx(1, abs=1e-8)
        mean = integral(lambda x, density=density: x * density(x), ends)  # type: ignore[misc]
        assert answer.means[0][0] == pytest.approx(mean, rel=1e-7)
        variance = integral(lambda x, mean=mean: (x - mean) ** 2 * density(x), ends)  # type: ignore[misc]
        assert answer.covariances[0][0, 0] == pytest.approx(variance, rel=1e-6)
        assert model.predict(row, model.names.index(name))[0] == pytest.approx(mean, rel=1e-7)
        (quantiles,) = answer.quantiles((0.05, 0.5, 0.95))
        for level, x in zip((0.05, 0.5, 0.95), quantiles[0], strict=True):
            below = integral(density, np.append(ends[ends < x], x))
            assert below == pytest.approx(level, abs=1e-7)


def test_draws_have_the_moments_and_the_entropy_of_the_model() -> None:
    model = fitted()
    group = ["wage", "spare", "mark"]
    rows = model.sample(40_000, 5, {"kind": "b"})
    answer = model.posterior([group], {"kind": "b"})
    drawn = rows[[model.names.index(name) for name in group]]
    errors = drawn.std(axis=1) / 200
    assert np.abs(answer.means[0] - drawn.mean(axis=1)) == pytest.approx(0, abs=float(5 * errors.max()))
    assert np.cov(np.log1p(np.abs(drawn))).shape == (3, 3)
    deviations = np.sqrt(np.diag(answer.covariances[0]))
    correlation = answer.covariances[0] / np.outer(deviations, deviations)
    assert correlation == pytest.approx(np.corrcoef(drawn), abs=0.1)
    assert np.linalg.eigvalsh(answer.covariances[0]).min() > 0
    free = model.sample(40_000, 6)
    logs = model.log_likelihood(free)
    assert model.entropy() == pytest.approx(-logs.mean(), abs=5 * logs.std() / 200)


def test_covariances_of_pairs_are_their_double_integrals() -> None:
    model = fitted()
    answer = model.posterior([["wage", "spare"]], {"mark": 0.3})
    known = model.condition({"mark": 0.3}).model
    at = [known.names.index(name) for name in ("wage", "spare")]
    # The same by conditioning on one variable at its nodes: E x y = E x E[y | x].
    (normals,) = known.posterior([["spare"]], {}).margins[0]
    scores, weights = normals.nodes()
    rows = np.full((known.n, scores.size), np.nan)
    rows[at[1]] = margin_in(known, "spare").to_values(scores)
    product = weights @ (rows[at[1]] * known.predict(rows, at[0]))
    means = answer.means[0]
    assert answer.covariances[0][0, 1] == pytest.approx(product - means[0] * means[1], rel=1e-6)


def test_files_keep_margins_to_the_bit_and_refuse_broken_ones(tmp_path: Path) -> None:
    data, path = table(), tmp_path / "model.json"
    model = jt.Model(fitted())
    model.write(path)
    again = jt.Model.read(path)
    assert again.model.columns == fitted().columns
    assert list(again.loglik(data)) == list(model.loglik(data))
    drawn = model.sample(20, seed=1)
    assert list(again.loglik(drawn)) == list(model.loglik(drawn))
    knots = path.read_text(encoding="utf-8").split('"knots":')[1].split("]]")[0] + "]]"
    path.write_text(
        path.read_text(encoding="utf-8").replace(knots, "[[1.0, 0.0], [0.0, 1.0]]"), encoding="utf-8"
    )
    with pytest.raises(InputError, match=r"variables\[1\].knots"):
        jt.Model.read(path)


def test_units_do_not_count_and_evidence_may_lie_outside_the_knots() -> None:
    data = table(400, 2)
    other = {**data, "wage": [1000 * value + 7 for value in data["wage"]]}
    one, two = jt.fit(data, treewidth=2), jt.fit(other, treewidth=2)
    assert np.asarray(one.loglik(data)) - np.asarray(two.loglik(other)) == pytest.approx(log(1000), abs=1e-6)
    mean, scaled = (m.query("wage", given={"kind": "b"})["mean"].to_list()[0] for m in (one, two))
    assert scaled == pytest.approx(1000 * mean + 7, rel=1e-9)
    # Rising transforms change margins between knots alone: the same trees, and nearly the same posteriors.
    logs = {**data, "wage": np.log(data["wage"]).tolist()}
    three = jt.learn(logs, treewidth=2)
    assert three.cliques == jt.learn(data, treewidth=2).cliques
    states = [m.query("kind", given={"mark": 1.0})["probability"].to_list() for m in (one, three.fit())]
    assert states[0] == pytest.approx(states[1], abs=0.02)
    for far in (-1e3, 1e6):
        answer = one.query("kind", given={"wage": far})["probability"].to_list()
        assert sum(answer) == pytest.approx(1)
        assert np.isfinite(one.query("spare", given={"wage": far})["mean"].to_list()).all()


def test_gaps_and_imputation_map_back() -> None:
    data = table(500, 4)
    generator = np.random.default_rng(0)
    for name, values in data.items():
        data[name] = [
            None if gone else value for value, gone in zip(values, generator.random(500) < 0.1, strict=True)
        ]
    model = jt.fit(data, treewidth=2, missing="em")
    margin_in(model.model, "wage")
    assert np.isfinite(np.asarray(model.loglik(data))).all()
    filled = model.impute(data)
    for name in data:
        for before, after in zip(data[name], filled[name].to_list(), strict=True):
            assert after == before if before is not None else after is not None
    assert min(x for x in filled["wage"].to_list()) > -1
    best = model.mpe(given={"kind": "a"})
    row = {name: best[name].to_list() for name in data}
    assert best["log_probability"].to_list()[0] == pytest.approx(next(iter(model.loglik(row))))


@pytest.mark.parametrize("kind", ["mixture:components=2", "average:draws=3"])
def test_components_share_their_margins(kind: str) -> None:
    data = table(300, 1)
    model = jt.fit(data, kind, treewidth=1)
    parts = getattr(model.model, "components", (model.model,))
    assert len({part.columns for part in parts}) == 1
    margin_in(parts[0], "wage")
    answer = model.query("wage", given={"kind": "b"})
    drawn = model.sample(4000, given={"kind": "b"}, seed=1)["wage"].to_numpy()
    assert answer["50%"].to_list()[0] == pytest.approx(np.median(drawn), rel=0.15)
    predicted = model.predict({"kind": ["b"], "spare": [1.0], "mark": [0.5]}, "wage").to_list()
    one = model.query("wage", given={"kind": "b", "spare": 1.0, "mark": 0.5})["mean"].to_list()
    assert predicted == pytest.approx(one)


def test_a_precision_is_of_normal_variables() -> None:
    rest = fitted().condition({"kind": "a"}).model
    with pytest.raises(ChoiceError, match="normal"):
        MixedTreeModel(rest.columns, rest.cliques).matrices()
