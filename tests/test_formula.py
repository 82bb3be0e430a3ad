"""Formulas: mismatches are refused, and broken conditions are named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jtsolve.encodings.formula import Formula, LinearRow

FORMULA = Formula(
    names=("a", "b", "c"),
    largest=(1, 1, 4),
    clauses=((1, -2),),
    exactly_one=((1, 2),),
    rows=(LinearRow((1, 3), (2, -1), None, 0), LinearRow((3,), (1,), 2, 3)),
    weights=np.array([1.5, -2.0, 0.0]),
    constant=10.0,
)


def test_values_that_meet_all_conditions_have_an_objective() -> None:
    assert FORMULA.broken((1, 0, 2)) is None
    assert FORMULA.objective((1, 0, 2)) == 11.5


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ((1, 0), "2 values for 3 variables"),
        ((1, 0, 5), "c = 5 is not within 0 to 4"),
        ((1, -1, 2), "b = -1 is not within 0 to 1"),
        ((0, 1, 2), "no literal of a, not b holds"),
        ((1, 1, 2), "not exactly one of a, b is 1"),
        ((1, 0, 1), "a sum over a, c is 1, not in None to 0"),
        ((1, 0, 4), "a sum over c is 4, not in 2 to 3"),
    ],
)
def test_a_broken_condition_is_named(values: tuple[int, ...], reason: str) -> None:
    assert reason in (FORMULA.broken(values) or "")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"largest": (1, 1)}, "2 domains"),
        ({"weights": np.zeros(2)}, "3 names"),
        ({"names": ("a", "b", "a")}, "the same name"),
        ({"weights": np.array([0.0, np.inf, 0.0])}, "not finite"),
        ({"clauses": ((4,),)}, "beyond 1 to 3"),
        ({"rows": (LinearRow((0,), (1,), 0, 1),)}, "beyond 1 to 3"),
        ({"clauses": ((1, -3),)}, "not 0 or 1"),
        ({"exactly_one": ((3,),)}, "not 0 or 1"),
    ],
)
def test_mismatches_are_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        replace(FORMULA, **change)
