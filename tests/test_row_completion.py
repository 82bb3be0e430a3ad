"""The most probable completion of rows: against every completion, and against the single-row algorithm."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from random_models import random_model

from jtsolve.errors import InputError


@pytest.mark.parametrize("seed", range(12))
def test_no_completion_is_more_probable(seed: int) -> None:
    model = random_model(seed)
    generator = np.random.default_rng(seed)
    arities = [column.arity for column in model.columns]
    rows = np.array([generator.integers(-1, arity, 12) for arity in arities])
    filled = model.complete(rows)
    for row, done in zip(rows.T, filled.T, strict=True):
        states = [range(arity) if code < 0 else (code,) for code, arity in zip(row, arities, strict=True)]
        every = np.array(list(product(*states))).T
        logs = model.log_likelihood(every)
        if logs.max() == -np.inf:
            assert np.array_equal(done, row)
        else:
            assert model.log_likelihood(done[:, None])[0] == pytest.approx(logs.max())
            assert ((row < 0) | (done == row)).all()


@pytest.mark.parametrize("seed", range(4))
def test_it_agrees_with_the_most_probable_configuration(seed: int) -> None:
    model = random_model(seed, 6, zeros=False)
    rows = np.full((6, 2), -1)
    rows[0, 1] = 0
    evidence = {"V0": model.columns[0].states[0]}
    for column, given in zip(model.complete(rows).T, ({}, evidence), strict=True):
        best = model.explain(given).best[0].values
        assert tuple(c.states[code] for c, code in zip(model.columns, column, strict=True)) == best


def test_wrong_codes_are_refused_and_complete_rows_stay() -> None:
    model = random_model(3, 4)
    with pytest.raises(InputError, match="codes range from"):
        model.complete(np.full((4, 1), 99))
    rows = np.zeros((4, 3), dtype=np.int64)
    assert np.array_equal(model.complete(rows), rows)
