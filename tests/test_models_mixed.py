"""Models of mixed tables: every query agrees with the full mixture of normal distributions."""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from math import log, pi
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl
import pytest
from fitting import fit

import jtsolve as jt
from jtsolve.backends.brute import chordal_trees
from jtsolve.cli import run
from jtsolve.core.marks import is_strongly_decomposable
from jtsolve.errors import ChoiceError, InputError
from jtsolve.estimator import JunctionTreeDensity
from jtsolve.models.files.document import read_model
from jtsolve.models.files.opening import write_model
from jtsolve.models.inference import mixed
from jtsolve.models.learning.mixed_tree import fit_mixed
from jtsolve.models.mixed import MixedTreeModel
from jtsolve.models.mixture import Mixture as Mixed
from jtsolve.scoring.scores.cg import ConditionalGaussian
from jtsolve.tables.table import ContinuousTable, DataTable, MixedTable, rows_at, stacked_columns

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def mixed_table(kinds: str, seed: int = 0, rows: int = 80) -> MixedTable:
    generator = np.random.default_rng(seed)
    names = tuple(f"{kind}{at}" for at, kind in enumerate(kinds))
    codes = generator.integers(2 + seed % 2, size=(kinds.count("d"), rows))
    values = generator.normal(size=(kinds.count("r"), rows)) + codes.sum(axis=0)
    values[1:] += 0.7 * values[:-1]
    labels = (tuple("abc"[: 2 + seed % 2]),) * kinds.count("d")
    discrete = tuple(name for name in names if name[0] == "d")
    return MixedTable(
        names,
        DataTable(discrete, labels, codes) if discrete else None,
        ContinuousTable(tuple(name for name in names if name[0] == "r"), values),
    )


@cache
def random_model(seed: int) -> MixedTreeModel:
    """Returns a model of five variables on a random strongly decomposable graph."""
    generator = np.random.default_rng(seed)
    kinds = "".join(generator.permutation(list(("ddrrr", "dddrr", "ddddr", "drrrr")[seed % 4])))
    table = mixed_table(kinds, seed)
    trees = [
        tree
        for tree in chordal_trees(5)
        if len(tree.graph_edges) >= 5 and is_strongly_decomposable(tree, table.real_variables)
    ]
    return fit_mixed(trees[int(generator.integers(len(trees)))], table)


class Mixture:
    """All configurations of the discrete variables, each with its weight, mean and covariance, densely."""

    def __init__(self, model: MixedTreeModel) -> None:
        self.real = [v for v, column in enumerate(model.columns) if column.states is None]
        self.discrete = [v for v in range(model.n) if v not in self.real]
        arities = [len(model.columns[v].states or ()) for v in self.discrete]
        self.configurations = list(product(*map(range, arities)))
        self.parts = [
            self._part(model, dict(zip(self.discrete, c, strict=True))) for c in self.configurations
        ]

    def _part(
        self, model: MixedTreeModel, state: dict[int, int]
    ) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        m, weight = len(self.real), 1.0
        mean, spread = np.zeros(m), np.zeros((m, m))
        done: list[int] = []
        for clique in model.cliques:
            cell = 0
            for v, states in zip(clique.discrete, clique.dims, strict=True):
                cell = cell * states + state[v]
            weight *= clique.weights[cell]
            own = [self.real.index(v) for v in clique.real[: clique.free]]
            up = [self.real.index(v) for v in clique.real[clique.free :]]
            slopes = clique.slopes[cell]
            mean[own] = clique.intercepts[cell] + slopes @ mean[up]
            spread[np.ix_(own, done)] = slopes @ spread[np.ix_(up, done)]
            spread[np.ix_(done, own)] = spread[np.ix_(own, done)].T
            spread[np.ix_(own, own)] = clique.covariances[cell] + slopes @ spread[np.ix_(up, up)] @ slopes.T
            done += own
        return weight, mean, spread

    def given(
        self, row: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], list[NDArray[np.float64]], list[NDArray[np.float64]]]:
        """Returns ln p(row), the posterior of the configurations, and the moments of the missing numbers."""
        seen = [k for k, v in enumerate(self.real) if not np.isnan(row[v])]
        left = [k for k in range(len(self.real)) if k not in seen]
        y = row[[self.real[k] for k in seen]]
        logs, means, spreads = [], [], []
        for configuration, (weight, mean, spread) in zip(self.configurations, self.parts, strict=True):
            fits = all(
                np.isnan(row[v]) or row[v] == s for v, s in zip(self.discrete, configuration, strict=True)
            )
            inner = spread[np.ix_(seen, seen)]
            step = np.linalg.solve(inner, y - mean[seen]) if seen else np.zeros(0)
            density = -0.5 * ((y - mean[seen]) @ step + len(seen) * log(2 * pi) + np.linalg.slogdet(inner)[1])
            logs.append(np.log(weight) + density if fits and weight > 0 else -np.inf)
            means.append(mean[left] + spread[np.ix_(left, seen)] @ step)
            cross = np.linalg.solve(inner, spread[np.ix_(seen, left)]) if seen else np.zeros((0, len(left)))
            spreads.append(spread[np.ix_(left, left)] - spread[np.ix_(left, seen)] @ cross)
        total = float(np.logaddexp.reduce(logs))
        return total, np.exp(np.array(logs) - total), means, spreads


def rows_with_gaps(model: MixedTreeModel, count: int, seed: int) -> NDArray[np.float64]:
    rows = model.sample(count, seed)
    rows[np.random.default_rng(seed).random(rows.shape) < 0.4] = np.nan
    return rows


def test_blocks_of_rows_bound_the_memory_of_all_cliques() -> None:
    cliques = random_model(0).cliques * 2000
    first = next(iter(mixed.blocks(cliques, 10**9)))
    assert first.stop * sum(clique.cells * len(clique.real) ** 2 for clique in cliques) <= 1 << 25


@pytest.mark.parametrize("seed", range(16))
def test_densities_with_and_without_gaps_are_those_of_the_mixture(seed: int) -> None:
    model = random_model(seed)
    mixture = Mixture(model)
    rows = np.hstack([model.sample(3, seed), rows_with_gaps(model, 9, seed)])
    expected = np.array([mixture.given(row)[0] for row in rows.T])
    assert model.log_likelihood(rows) == pytest.approx(expected, abs=1e-9)
    times = 1 + 200_000 // np.isnan(rows).any(axis=0).sum()  # so many that kernels sum them
    assert np.allclose(
        model.log_likelihood(np.tile(rows, times)), np.tile(expected, times), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("seed", range(16))
def test_posteriors_and_predictions_are_those_of_the_mixture(seed: int) -> None:
    model = random_model(seed)
    mixture = Mixture(model)
    rows = rows_with_gaps(model, 6, seed)
    for row in rows.T:
        total, weights, means, spreads = mixture.given(row)
        evidence = {
            model.names[v]: float(x) if column.states is None else column.states[int(x)]
            for v, (x, column) in enumerate(zip(row, model.columns, strict=True))
            if not np.isnan(x)
        }
        left = [v for v in mixture.real if np.isnan(row[v])]
        for at, v in enumerate(left):
            found = model.posterior([[model.names[v]]], evidence)
            mean = sum(w * m[at] for w, m in zip(weights, means, strict=True))
            square = sum(
                w * (s[at, at] + m[at] ** 2) for w, m, s in zip(weights, means, spreads, strict=True)
            )
            assert found.log_probability == pytest.approx(total, abs=1e-9)
            assert found.means[0] == pytest.approx(mean, abs=1e-8)
            assert found.covariances[0][0, 0] == pytest.approx(square - mean**2, abs=1e-7)
            assert model.predict(row[:, None], v) == pytest.approx(mean, abs=1e-8)
        if left:
            found = model.posterior([[model.names[v] for v in left]], evidence)
            mean = weights @ np.array(means)
            square = sum(w * (s + np.outer(m, m)) for w, m, s in zip(weights, means, spreads, strict=True))
            assert found.means[0] == pytest.approx(mean, abs=1e-8)
            assert found.covariances[0] == pytest.approx(square - np.outer(mean, mean), abs=1e-7)
            for at, own in enumerate(found.quantiles([1e-6, 0.3, 0.9])[0]):
                shares = [
                    sum(
                        w * NormalDist(m[at], s[at, at] ** 0.5).cdf(x)
                        for w, m, s in zip(weights, means, spreads, strict=True)
                    )
                    for x in own
                ]
                assert shares == pytest.approx([1e-6, 0.3, 0.9], rel=1e-6)
        for at, v in enumerate(mixture.discrete):
            expected = np.zeros(len(model.columns[v].states or ()))
            for weight, configuration in zip(weights, mixture.configurations, strict=True):
                expected[configuration[at]] += weight
            found = model.posterior([[model.names[v]]], evidence)
            assert found.tables[0] == pytest.approx(expected, abs=1e-9)
            if np.isnan(row[v]):
                assert model.predict(row[:, None], v)[0] == expected.argmax()
        everything = model.posterior([[model.names[v] for v in mixture.discrete]], evidence)
        assert everything.tables[0].ravel() == pytest.approx(weights, abs=1e-9)


@pytest.mark.parametrize("seed", range(16))
def test_conditions_are_models_of_the_rest(seed: int) -> None:
    model = random_model(seed)
    row = rows_with_gaps(model, 1, seed)[:, 0]
    row[int(np.random.default_rng(seed).integers(5))] = np.nan
    evidence = {
        model.names[v]: float(x) if column.states is None else column.states[int(x)]
        for v, (x, column) in enumerate(zip(row, model.columns, strict=True))
        if not np.isnan(x)
    }
    known = model.condition(evidence)
    full = model.sample(4, seed, evidence)
    assert (np.isnan(row[:, None]) | (full == row[:, None])).all()
    kept = [model.names.index(name) for name in known.model.names]
    left = known.model.log_likelihood(full[kept]) + known.log_probability
    assert left == pytest.approx(model.log_likelihood(full), abs=1e-8)
    assert known.log_probability == pytest.approx(Mixture(model).given(row)[0], abs=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_explanations_and_completions_have_the_highest_density(seed: int) -> None:
    model = random_model(seed)
    mixture, rows = Mixture(model), rows_with_gaps(model, 4, seed)
    for row, filled in zip(rows.T, model.complete(rows).T, strict=True):
        _, _, means, _ = mixture.given(row)
        best = -np.inf
        for configuration, mean in zip(mixture.configurations, means, strict=True):
            other = row.copy()
            other[mixture.discrete] = configuration
            other[[v for v in mixture.real if np.isnan(row[v])]] = mean
            if all(np.isnan(x) or x == y for x, y in zip(row, other, strict=True)):
                best = max(best, float(model.log_likelihood(other[:, None])[0]))
        assert model.log_likelihood(filled[:, None])[0] == pytest.approx(best, abs=1e-8)


def test_draws_have_the_moments_of_the_posterior() -> None:
    model = random_model(1)
    mixture = Mixture(model)
    evidence = {model.names[v]: 1.0 for v in mixture.real[:1]}
    rows = model.sample(40_000, 3, evidence)
    for v, column in enumerate(model.columns):
        if model.names[v] in evidence:
            continue
        answer = model.posterior([[model.names[v]]], evidence)
        if column.states is None:
            deviation = float(np.sqrt(answer.covariances[0][0, 0]))
            assert rows[v].mean() == pytest.approx(answer.means[0][0], abs=5 * deviation / 200)
            assert rows[v].std() == pytest.approx(deviation, rel=0.03)
        else:
            assert np.bincount(rows[v].astype(int)) / 40_000 == pytest.approx(answer.tables[0], abs=0.015)
    assert (model.sample(5, 3) == model.sample(5, 3)).all()


def test_soft_evidence_weighs_states() -> None:
    model = random_model(0)
    v = Mixture(model).discrete[0]
    name = model.names[v]
    plain = model.posterior([[name]], {}).tables[0]
    likelihood = np.linspace(0.2, 0.9, plain.size)
    soft = model.posterior([[name]], {name: likelihood.tolist()})
    assert soft.tables[0] == pytest.approx(plain * likelihood / (plain @ likelihood))
    assert soft.log_probability == pytest.approx(np.log(plain @ likelihood))


def test_the_entropy_is_the_mean_log_density() -> None:
    model = random_model(2)
    logs = model.log_likelihood(model.sample(50_000, 1))
    assert model.entropy() == pytest.approx(-logs.mean(), abs=5 * logs.std() / 223)


def test_discrete_columns_beside_others_have_the_model_of_states() -> None:
    tree = chordal_trees(3)[-2]
    states = mixed_table("dddr", 3)
    assert states.discrete is not None
    alone = fit(tree, states.discrete)
    joined = fit_mixed(type(tree)(4, (*tree.cliques, 0b1000), (*tree.edges, (0, len(tree.cliques)))), states)
    codes = np.vstack([states.discrete.codes[:, :9].astype(float), np.full(9, np.nan)])
    assert joined.log_likelihood(codes) == pytest.approx(alone.log_likelihood(states.discrete.codes[:, :9]))


def test_a_common_covariance_is_that_of_all_cells() -> None:
    table = mixed_table("dr", 2)
    model = fit_mixed(chordal_trees(2)[1], table, score=ConditionalGaussian(covariance="common"))
    (spreads,) = [clique.covariances for clique in model.cliques if clique.free]
    assert np.ptp(spreads) == 0


def test_files_keep_mixed_models_to_the_bit(tmp_path: Path) -> None:
    model = random_model(5)
    path = tmp_path / "m.json.gz"
    write_model(model, path)
    found = read_model(path)
    assert isinstance(found, MixedTreeModel)
    rows = rows_with_gaps(model, 8, 1)
    assert (found.log_likelihood(rows) == model.log_likelihood(rows)).all()
    assert found.columns == model.columns
    write_model(model, tmp_path / "m.json")
    plain = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    plain["cliques"][0]["shared"] = 7
    (tmp_path / "m.json").write_text(json.dumps(plain), encoding="utf-8")
    with pytest.raises(InputError, match="clique 0"):
        read_model(tmp_path / "m.json")


def test_a_mixed_model_refuses_unsupported_questions() -> None:
    model = random_model(0)
    mixture = Mixture(model)
    real, discrete = (model.names[one[0]] for one in (mixture.real, mixture.discrete))
    for ask, kind in (
        (lambda: model.posterior([[real, discrete]], {}), ChoiceError),
        (lambda: model.posterior([[real, real]], {}), InputError),
        (lambda: model.posterior([[real]], {}).quantiles([1.0]), ChoiceError),
        (lambda: model.explain({}, 2), ChoiceError),
        (lambda: model.junction_tree("bif"), ChoiceError),
        (lambda: model.condition({real: np.inf}), InputError),
        (lambda: model.condition({discrete: "zebra"}), InputError),
        (lambda: model.condition({discrete: [1.0]}), InputError),
        (lambda: model.condition({"zebra": 1.0}), InputError),
        (lambda: model.log_likelihood(np.zeros((2, 3))), InputError),
        (lambda: model.log_likelihood(np.full((5, 1), 9.0)), InputError),
    ):
        with pytest.raises(kind):
            ask()
    table = mixed_table("drd")
    with pytest.raises(ChoiceError, match="not strongly decomposable"):
        fit_mixed(next(t for t in chordal_trees(3) if set(t.graph_edges) == {(0, 1), (1, 2)}), table)


def frame(rows: int = 300) -> dict[str, list[object]]:
    generator = np.random.default_rng(1)
    sex = generator.choice(["f", "m"], rows)
    height = generator.normal(165, 6, rows) + 12 * (sex == "m")
    weight = 0.9 * height - 90 + generator.normal(0, 8, rows)
    return {"sex": sex.tolist(), "height": height.tolist(), "weight": weight.tolist()}


def test_a_frame_of_both_kinds_is_fitted_queried_and_completed(tmp_path: Path) -> None:
    data = frame()
    model = jt.fit(data, treewidth=2)
    again = jt.learn(data).fit()
    assert model.loglik(data).to_list() == pytest.approx(again.loglik(data).to_list())
    tall = model.query("sex", given={"height": 185.0})["probability"].to_list()
    assert tall[1] > 0.9
    women = model.query("height", given={"sex": "f"})
    assert women["mean"].to_list()[0] == pytest.approx(165, abs=1.5)
    assert women["95%"].to_list()[0] == pytest.approx(165 + 1.645 * 6, abs=2)
    assert model.predict({"sex": [None], "height": [155.0], "weight": [50.0]}, "sex").to_list() == ["f"]
    filled = model.impute({"sex": ["m", None], "height": [None, 150.0], "weight": [80.0, None]})
    assert filled["sex"].to_list() == ["m", "f"]
    assert 165 < filled["height"].to_list()[0] < 190
    drawn = model.sample(50, given={"sex": "m"})
    assert set(drawn["sex"].to_list()) == {"m"}
    assert model.mpe(given={"sex": "f"})["height"].to_list()[0] == pytest.approx(165, abs=2)
    every = model.query(given={"weight": 70.0})
    assert every["variable"].to_list() == ["sex", "sex", "height"]
    assert every["probability"].to_list()[:2] == pytest.approx(
        model.query("sex", given={"weight": 70.0})["probability"].to_list()
    )
    assert every["mean"].to_list()[2] == model.query("height", given={"weight": 70.0})["mean"].to_list()[0]
    model.write(tmp_path / "m.json")
    assert jt.Model.read(tmp_path / "m.json").loglik(data).to_list() == model.loglik(data).to_list()
    model.show()
    assert "1 discrete and 2 real" in repr(model)


def parts_of(seed: int) -> Mixed:
    """Returns a mixture of two mixed trees over the same columns."""
    kinds = ("ddrr", "drrr", "rdrd")[seed % 3]
    table = mixed_table(kinds, 0, rows=60)
    trees = [
        tree
        for tree in chordal_trees(4)
        if len(tree.graph_edges) >= 2 and is_strongly_decomposable(tree, table.real_variables)
    ]
    generator = np.random.default_rng(seed)
    chosen = generator.choice(len(trees), 2, replace=False).tolist()
    each = [
        fit_mixed(trees[at], table, weights=generator.uniform(size=60) * (generator.uniform(size=60) < 0.6))
        for at in chosen
    ]
    return Mixed(np.array([0.3, 0.7]), tuple(each))


def test_weights_of_rows_count_as_repetitions() -> None:
    table = mixed_table("drdr", rows=60)
    times = 1 + np.arange(60) % 3
    repeated = rows_at(table, np.repeat(np.arange(60), times))
    tree = next(t for t in chordal_trees(4) if len(t.graph_edges) == 6)
    rows = stacked_columns(table)
    one, other = fit_mixed(tree, table, weights=times.astype(float)), fit_mixed(tree, repeated)
    assert one.log_likelihood(rows) == pytest.approx(other.log_likelihood(rows))


@pytest.mark.parametrize("seed", range(6))
def test_mixtures_of_mixed_trees_answer_as_the_sum_of_their_parts(seed: int, tmp_path: Path) -> None:
    mixture = parts_of(seed)
    real = [v for v, column in enumerate(mixture.columns) if column.states is None]
    states = [v for v in range(4) if v not in real]
    rows = mixture.sample(30, seed)
    rows[np.random.default_rng(seed).uniform(size=rows.shape) < 0.3] = np.nan
    sums = np.logaddexp(
        *(log(w) + c.log_likelihood(rows) for w, c in zip((0.3, 0.7), mixture.components, strict=True))
    )
    assert mixture.log_likelihood(rows) == pytest.approx(sums)
    # Given a real number, each state has the probability of its density, and so do mean and quantiles.
    name, (first, *others) = mixture.names[real[-1]], real
    answer: Any = mixture.posterior([[mixture.names[v]] for v in (*states, *others[:-1], first)], {name: 0.4})
    row = np.full((4, 1), np.nan)
    row[real[-1]] = 0.4
    assert answer.log_probability == pytest.approx(mixture.log_likelihood(row)[0])
    for v, table in zip(states, answer.tables, strict=True):
        each = np.repeat(row, len(table), axis=1)
        each[v] = np.arange(len(table))
        assert table == pytest.approx(np.exp(mixture.log_likelihood(each) - answer.log_probability))
        assert mixture.predict(row, v)[0] == table.argmax()
    grid = np.linspace(-15, 15, 3001)
    along = np.repeat(row, grid.size, axis=1)
    along[first] = grid
    density = np.exp(mixture.log_likelihood(along) - answer.log_probability) * (grid[1] - grid[0])
    mean, variance = density @ grid, density @ grid**2 - (density @ grid) ** 2
    assert density.sum() == pytest.approx(1, abs=1e-6)
    assert answer.means[-1] == pytest.approx([mean], abs=1e-5)
    assert answer.covariances[-1][0] == pytest.approx([variance], abs=1e-4)
    assert mixture.predict(row, first) == pytest.approx([mean], abs=1e-5)
    median = answer.quantiles((0.5,))[-1][0, 0]
    assert density[grid < median].sum() == pytest.approx(0.5, abs=0.01)
    drawn = mixture.sample(4000, 1, {name: 0.4})
    assert (drawn[real[-1]] == 0.4).all()
    assert drawn[first].mean() == pytest.approx(mean, abs=5 * (variance / 4000) ** 0.5)
    path = tmp_path / "mixture.json"
    write_model(mixture, str(path))
    again = read_model(path)
    assert isinstance(again, Mixed)
    assert (again.log_likelihood(rows) == mixture.log_likelihood(rows)).all()
    path.write_text(path.read_text(encoding="utf-8").replace('"parent": -1', '"parent": 3'), encoding="utf-8")
    with pytest.raises(InputError, match=r"components\[0\].cliques"):
        read_model(path)


def test_a_mixture_finds_the_parts_of_a_mixed_table_from_every_door(tmp_path: Path) -> None:
    generator = np.random.default_rng(4)
    part = generator.integers(2, size=400)
    size = generator.normal(size=400) + 6 * part
    table = {
        "kind": np.where(generator.uniform(size=400) < 0.2 + 0.6 * part, "a", "b").tolist(),
        "size": size.tolist(),
        "mass": (np.where(part, -1, 1) * size + generator.normal(size=400)).tolist(),
    }
    model = jt.fit(table, "mixture:components=2", treewidth=1)
    single = jt.fit(table, treewidth=1)
    assert np.asarray(model.loglik(table)).mean() > np.asarray(single.loglik(table)).mean() + 0.2
    weights = cast("Mixed", model.model).weights
    assert sorted(weights) == pytest.approx(sorted([part.mean(), 1 - part.mean()]), abs=0.02)
    data, path = tmp_path / "data.csv", tmp_path / "model.json"
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    data.write_text("\n".join(lines), encoding="utf-8")
    words = ["fit", str(data), "--model", "mixture:components=2", "--treewidth", "1", "--output", str(path)]
    assert run([*words, "--quiet"], 0.0) == 0
    shell = jt.Model.read(path)
    assert np.asarray(shell.loglik(table)) == pytest.approx(np.asarray(model.loglik(table)))
    assert shell.query("size", given={"mass": -6.0})["mean"].to_list()[0] == pytest.approx(6, abs=0.5)
    frame = pl.DataFrame(table)
    density = JunctionTreeDensity(1, local_score="cg", model="mixture:components=2", discretise=None)
    assert density.fit(frame).score_samples(frame) == pytest.approx(np.asarray(model.loglik(table)))
    averaged = jt.fit(table, "average:draws=8", treewidth=2)
    assert np.isfinite(np.asarray(averaged.loglik(table))).all()


@pytest.mark.parametrize("kind", ["tree", "mixture:components=1,2,3"])
def test_validation_rows_choose_prior_and_components_of_mixed_tables_at_each_door(
    kind: str, tmp_path: Path
) -> None:
    generator = np.random.default_rng(4)
    part = generator.integers(2, size=300)
    rows = {
        "kind": np.where(generator.uniform(size=300) < 0.2 + 0.6 * part, "a", "b").tolist(),
        "size": (generator.normal(size=300) + 6 * part).tolist(),
    }
    rows["kind"][0] = "a" if kind == "tree" else "only here"
    few, held = ({k: c[part] for k, c in rows.items()} for part in (slice(40, None), slice(0, 40)))
    held["size"][1] = None
    model = jt.fit(few, kind, treewidth=1, validate=held, score="cg:columns=raw")
    facts, logs = model.model.provenance, np.asarray(model.loglik(held))
    assert facts["validation_log_likelihood"] == pytest.approx(logs.mean())
    if kind == "tree":
        for smoothing in (0.1, 1.0, 1000.0):
            other = jt.fit(few, treewidth=1, smoothing=smoothing, score="cg:columns=raw")
            assert np.asarray(other.loglik(held)).mean() <= logs.mean()
    else:
        assert facts["states_of_validation"] == {"kind": ["only here"]}
        assert [one["components"] for one in facts["sizes_tried"][:2]] == [1, 2]
        assert len(cast("Mixed", model.model).weights) > 1
    paths = [tmp_path / "few.csv", tmp_path / "held.csv"]
    for data, path in zip((few, held), paths, strict=True):
        pl.DataFrame(data).write_csv(path)
    words = ["fit", str(paths[0]), "--model", kind, "--treewidth", "1", "--validate", str(paths[1])]
    words += ["--score", "cg:columns=raw"]
    assert run([*words, "--output", str(tmp_path / "m.json"), "--quiet"], 0.0) == 0
    assert np.asarray(jt.Model.read(tmp_path / "m.json").loglik(held)) == pytest.approx(logs)
