"""Models of real variables alone agree with dense linear algebra on the assembled precision matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import repeatable
from random_models import precision_matrix, random_tree

from jtsolve.core.tree import JunctionTree
from jtsolve.core.varset import members
from jtsolve.errors import ChoiceError, InputError
from jtsolve.models.learning.mixed_tree import fit_mixed
from jtsolve.tables.table import ContinuousTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jtsolve.models.mixed import MixedTreeModel


def random_data(seed: int, n: int, rows: int = 60) -> ContinuousTable:
    generator = np.random.default_rng(seed)
    values = (
        generator.normal(size=(n, n)) @ generator.normal(size=(n, rows)) + generator.normal(size=(n, 1)) * 3
    )
    return ContinuousTable(tuple(f"x{i}" for i in range(n)), values)


def random_gaussian(seed: int, n: int = 7, treewidth: int = 3) -> MixedTreeModel:
    return fit_mixed(random_tree(n, treewidth, repeatable(seed)), random_data(seed, n), ess=0.0)


def mean_of(model: MixedTreeModel) -> NDArray[np.float64]:
    return np.concatenate(model.posterior([[name] for name in model.names], {}).means)


def covariance_of(model: MixedTreeModel) -> NDArray[np.float64]:
    return model.posterior([model.names], {}).covariances[0]


def density(model: MixedTreeModel, rows: np.ndarray, kept: list[int]) -> np.ndarray:
    """The log density of some variables from the dense covariance."""
    sigma = np.linalg.inv(precision_matrix(model))[np.ix_(kept, kept)]
    centred = rows[kept] - mean_of(model)[kept, None]
    quadratic = np.einsum("ir,ir->r", centred, np.linalg.solve(sigma, centred))
    return np.asarray(-0.5 * (quadratic + len(kept) * np.log(2 * np.pi) + np.linalg.slogdet(sigma)[1]))


@pytest.mark.parametrize("seed", range(30))
def test_log_densities_agree_with_the_assembled_precision_with_gaps_too(seed: int) -> None:
    model = random_gaussian(seed)
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(model.n, 20)) + mean_of(model)[:, None]
    found = model.log_likelihood(rows)
    np.testing.assert_allclose(found, density(model, rows, list(range(model.n))), rtol=1e-9)
    rows[generator.random(rows.shape) < 0.3] = np.nan
    for value, row in zip(model.log_likelihood(rows), rows.T, strict=True):
        kept = [int(v) for v in np.flatnonzero(~np.isnan(row))]
        expected = density(model, row[:, None], kept)[0] if kept else 0.0
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_covariances_within_cliques_are_those_of_the_data_and_across_them_those_of_the_tree(
    seed: int,
) -> None:
    model = random_gaussian(seed)
    table = random_data(seed, model.n)
    dense = np.linalg.inv(precision_matrix(model))
    np.testing.assert_allclose(covariance_of(model), dense, rtol=1e-7, atol=1e-8)
    for clique in model.tree.cliques:
        inside = list(members(clique))
        expected = np.cov(table.values[inside], ddof=0).reshape(len(inside), len(inside))
        np.testing.assert_allclose(dense[np.ix_(inside, inside)], expected, rtol=1e-7, atol=1e-8)


def test_the_precision_is_zero_where_no_clique_holds_both() -> None:
    model = random_gaussian(3, 9, 2)
    edges = set(model.tree.graph_edges)
    matrix = precision_matrix(model)
    apart = [(u, v) for u in range(9) for v in range(u) if (v, u) not in edges]
    assert apart
    assert all(matrix[u, v] == 0 for u, v in apart)


@pytest.mark.parametrize("seed", range(30))
def test_conditionals_agree_with_dense_linear_algebra(seed: int) -> None:
    model = random_gaussian(seed)
    random = repeatable(seed)
    seen = sorted(random.sample(range(model.n), random.randint(0, model.n - 1)))
    left = [v for v in range(model.n) if v not in seen]
    values = np.array([random.gauss(0, 1) for _ in range(model.n)])
    known = model.condition({model.names[v]: values[v] for v in seen})
    given_values, log_density = known.model, known.log_probability
    sigma = np.linalg.inv(precision_matrix(model))
    slope = sigma[np.ix_(left, seen)] @ np.linalg.inv(sigma[np.ix_(seen, seen)])
    mean = mean_of(model)[left] + slope @ (values[seen] - mean_of(model)[seen])
    matrix = sigma[np.ix_(left, left)] - slope @ sigma[np.ix_(seen, left)]
    np.testing.assert_allclose(mean_of(given_values), mean, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(covariance_of(given_values), matrix, rtol=1e-6, atol=1e-7)
    expected = density(model, values[:, None], seen)[0] if seen else 0.0
    assert log_density == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert given_values.names == tuple(model.names[v] for v in left)


@pytest.mark.parametrize("seed", range(20))
def test_the_entropy_agrees_with_dense_linear_algebra(seed: int) -> None:
    model = random_gaussian(seed)
    entropy = 0.5 * (model.n * (1 + np.log(2 * np.pi)) - np.linalg.slogdet(precision_matrix(model))[1])
    assert model.entropy() == pytest.approx(entropy, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_missing_numbers_are_completed_by_their_means(seed: int) -> None:
    model = random_gaussian(seed)
    rows = model.sample(6, seed)
    rows[np.random.default_rng(seed).random(rows.shape) < 0.4] = np.nan
    rows[0] = np.nan
    for row, filled in zip(rows.T, model.complete(rows).T, strict=True):
        seen = {name: value for name, value in zip(model.names, row, strict=True) if not np.isnan(value)}
        (best,), _ = model.explain(seen)
        np.testing.assert_allclose(filled, best.values, rtol=1e-7)


def test_samples_have_the_moments_of_the_model_and_a_seed_repeats_them() -> None:
    model = random_gaussian(1, 4, 2)
    rows = model.sample(200_000, 7)
    sigma = covariance_of(model)
    scale = np.sqrt(np.diag(sigma))
    assert np.abs((rows.mean(axis=1) - mean_of(model)) / scale).max() < 0.012
    assert np.abs((np.cov(rows) - sigma) / np.outer(scale, scale)).max() < 0.02
    assert (model.sample(50, 3) == model.sample(50, 3)).all()
    with pytest.raises(ChoiceError, match="0 or more"):
        model.sample(5, -1)


@given(st.integers(1, 6), st.integers(0, 3), st.integers(0, 10_000))
@settings(deadline=None, max_examples=25)
def test_a_prior_lets_fewer_rows_than_members_do(n: int, treewidth: int, seed: int) -> None:
    table = random_data(seed, n, rows=2)
    model = fit_mixed(random_tree(n, treewidth, repeatable(seed)), table, ess=1.0)
    np.testing.assert_allclose(np.diag(covariance_of(model)), table.values.var(axis=1), rtol=1e-6)


def test_unfittable_data_are_refused() -> None:
    table = random_data(0, 3, rows=2)
    whole = JunctionTree(3, (0b111,), ())
    with pytest.raises(InputError, match="2 rows are too few"):
        fit_mixed(whole, table, ess=0.0)
    with pytest.raises(ChoiceError, match="0 or more"):
        fit_mixed(whole, table, ess=-1)
    with pytest.raises(InputError, match="1 variables, but the table has 3"):
        fit_mixed(JunctionTree(1, (1,), ()), table)


def test_data_that_do_not_match_a_model_are_refused() -> None:
    model = random_gaussian(0, 3, 2)
    with pytest.raises(InputError, match="shape"):
        model.log_likelihood(np.zeros((2, 4)))
    with pytest.raises(InputError, match="shape"):
        model.log_likelihood(np.full((3, 1), np.inf))
    with pytest.raises(InputError, match="there is no 'y'"):
        model.posterior([["y"]], {})
    with pytest.raises(InputError, match="not a finite number"):
        model.condition({"x0": float("nan")})
    with pytest.raises(InputError, match="observes every variable"):
        model.condition({"x0": 0.0, "x1": 0.0, "x2": 0.0})


@pytest.mark.parametrize("seed", range(5))
def test_the_parameters_are_means_variances_and_edges(seed: int) -> None:
    model = random_gaussian(seed)
    assert model.parameters == 2 * model.n + len(model.tree.graph_edges)
