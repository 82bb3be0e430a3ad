"""The baselines of `benchmarks/lem_curve.py`: gradients, gains, and the recovery of known features."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

from log_linear import Literals, LogLinear, induced_features, markov_network

from jtsolve.tables.table import DataTable


def table_of(rows: int, seed: int) -> DataTable:
    """Returns rows of four variables, the last the parity of two others, with noise."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, 2, (4, rows))
    codes[2] = generator.integers(0, 3, rows)
    codes[3] = (codes[0] ^ codes[1]) ^ (generator.random(rows) < 0.1)
    return DataTable(tuple("abcd"), (("0", "1"), ("0", "1"), ("0", "1", "2"), ("0", "1")), codes)


def test_slopes_and_gains_are_those_of_the_pseudo_likelihood() -> None:
    rows = Literals.of(table_of(60, 1))
    model = LogLinear(rows, [(0, 3), (1, 4), (0, 2, 7), (1, 5, 8)], 1.5)
    model.weights = np.random.default_rng(2).normal(size=len(model.weights)) / 2
    slope = model.loss(model.weights)[1]
    for k, step in enumerate(np.eye(len(slope)) * 1e-2):
        numeric = (model.loss(model.weights + step)[0] - model.loss(model.weights - step)[0]) / 2e-2
        assert slope[k] == pytest.approx(numeric, abs=2e-2)
    gains, features = model.gains()
    for feature, literal in (((0,), 4), ((0, 3), 5), ((0, 2, 7), 6)):
        larger = LogLinear(rows, [*model.features, tuple(sorted((*feature, literal)))], 1.5)
        weights = model.named()
        larger.weights = np.array([weights.get(one, 0.0) for one in larger.named()])
        at = list(larger.named()).index(tuple(sorted((*feature, literal))))
        own = larger.loss(larger.weights)[1][at]
        step = 0.05 * np.eye(len(larger.weights))[at]
        losses = [larger.loss(larger.weights + sign * step)[0] for sign in (-1, 0, 1)]
        bend = (losses[0] - 2 * losses[1] + losses[2]) / 0.05**2
        expected = own**2 / (2 * bend)
        assert gains[features.index(feature), literal] == pytest.approx(expected, rel=0.02, abs=1e-4)
    assert gains[features.index((0, 3)), 2] == -np.inf  # a variable twice


def test_induced_features_find_a_parity_that_pairs_cannot() -> None:
    train, tuning, test = table_of(600, 1), table_of(200, 2), table_of(500, 3)
    pairs, induced = (learn(train, tuning, 5.0).model for learn in (markov_network, induced_features))
    assert pairs is not None
    assert induced is not None
    entropy = np.log(2) * 2 + np.log(3) - 0.1 * np.log(0.1) - 0.9 * np.log(0.9)
    means = [float(np.mean(model.log_likelihood(test))) for model in (pairs, induced)]
    assert means[0] < -entropy - 0.2
    assert means[1] > -entropy - 0.1
