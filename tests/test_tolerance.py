"""One tolerance for scores, relative to them, wherever scores or bounds are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from problems import dense, named

from jtsolve.backends.brute import Brute
from jtsolve.core.result import optimality_tolerance
from jtsolve.kbest import k_best
from jtsolve.verify.ranking import check_ranking

if TYPE_CHECKING:
    from jtsolve.core.problem import Problem

LARGE = -1e9
TOLERANCE = optimality_tolerance(LARGE)


def pair(gain: float) -> Problem:
    """Returns two variables whose edge gains so much, with scores of minus a thousand million."""
    return named(dense(2, 2, np.array([0.0, LARGE / 2, LARGE / 2, LARGE + gain])))


@pytest.mark.parametrize(("gain", "trees"), [(0.5 * TOLERANCE, 2), (3 * TOLERANCE, 1)])
def test_the_trees_within_a_gap_of_0_are_those_within_the_tolerance(gain: float, trees: int) -> None:
    ranking = k_best(pair(gain), Brute(), within=0.0)
    assert len(ranking.results) == trees
    assert check_ranking(pair(gain), ranking) == ()
