from __future__ import annotations

from itertools import combinations
from math import comb, inf, nan
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jtsolve.core.scores import DenseScores, LocalScores, SparseScores, colex_table
from jtsolve.core.varset import bounded_subsets, count_bounded_subsets, varset
from jtsolve.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def gaussian(n: int, max_size: int, seed: int = 0) -> DenseScores:
    values = np.random.default_rng(seed).normal(size=count_bounded_subsets(n, max_size))
    values[0] = 0
    return DenseScores(n, max_size, values)


@pytest.mark.parametrize("max_size", [1, 2, 3, 5])
def test_one_score_a_batch_and_the_table_agree(max_size: int) -> None:
    dense = gaussian(5, max_size)
    sparse = SparseScores(5, {mask: dense.score(mask) for mask in bounded_subsets(5, max_size)})
    wide = SparseScores(70, {mask << 65: dense.score(mask) for mask in bounded_subsets(5, max_size)})
    for i, mask in enumerate(bounded_subsets(5, max_size)):
        assert dense.score(mask) == sparse.score(mask) == dense.values[i]
    for size in range(6):
        sets = np.array(list(combinations(range(5), size)), dtype=np.intp).reshape(comb(5, size), size)
        expected = [dense.score(varset(row)) for row in sets.tolist()]
        assert dense.batch(sets).tolist() == sparse.batch(sets).tolist() == expected
        assert wide.batch(sets + 65).tolist() == expected
        assert (size > max_size) == (expected == [-inf] * len(expected))


def test_values_are_copied_and_cannot_be_changed() -> None:
    values = np.array([0.0, -1.0])
    scores = DenseScores(1, 1, values)
    values[1] = 7
    assert scores.score(1) == -1
    with pytest.raises(ValueError, match="read-only"):
        scores.values[1] = 7


def test_a_read_only_array_is_not_copied() -> None:
    values = np.array([0.0, -1.0])
    values.setflags(write=False)
    assert DenseScores(1, 1, values).values is values


@pytest.mark.parametrize(
    ("n", "max_size", "values", "place", "reason"),
    [
        (0, 0, [0.0], "n", "0 variables"),
        (2, 0, [0.0], "max_size", "0 is not between 1"),
        (2, 3, [0.0], "max_size", "3 is not between 1"),
        (2, 2, [0.0, 1.0, 2.0], "values", "3 values, but 2 variables have 4 sets"),
        (1, 1, [[0.0, 1.0]], "values", "2 values"),
        (1, 1, [0.0, nan], r"values\[1\]", "nan is not a finite number"),
        (1, 1, [0.0, -inf], r"values\[1\]", "-inf is not a finite number"),
        (1, 1, [0.0, 1.1e100], r"values\[1\]", r"1.1e\+100 is beyond ±1e\+100"),
        (1, 1, [1.0, 1.0], r"values\[0\]", "s\\(∅\\) is 1.0"),
    ],
)
def test_a_wrong_table_is_refused(
    n: int, max_size: int, values: list[float], place: str, reason: str
) -> None:
    with pytest.raises(InputError, match=f"{place}: {reason}"):
        DenseScores(n, max_size, np.array(values))


@pytest.mark.parametrize(
    ("n", "table", "reason"),
    [
        (0, {}, "0 variables"),
        (1, {-2: 1.0}, "set -0b10: there are only 1 variables"),
        (1, {0b1: -1.1e100}, r"set \[0\]: -1.1e\+100 is beyond ±1e\+100"),
        (1, {0b10: 1.0}, "set 0b10: there are only 1 variables"),
        (1, {0b1: nan}, r"set \[0\]: nan is not a finite number"),
        (1, {0: 1.0}, r"s\(∅\) is 1.0"),
    ],
)
def test_a_wrong_sparse_table_is_refused(n: int, table: dict[int, float], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        SparseScores(n, table)


def test_sparse_scores_know_the_empty_set_and_their_size() -> None:
    scores = SparseScores(3, {0b110: -1.0})
    assert scores.score(0) == 0
    assert scores.score(0b001) == -inf
    assert scores.max_size == 2
    assert SparseScores(3, {}).max_size == 1


def test_sparse_scores_do_not_follow_the_table_that_they_were_made_of() -> None:
    table = {1: -1.0}
    scores = SparseScores(1, table)
    table[1] = 5.0
    assert scores.score(1) == -1.0


class Counted:
    """Scores computed on demand: minus the square of the sum of the members."""

    n = 4
    max_size = 3

    def score(self, mask: int) -> float:
        raise NotImplementedError

    def batch(self, sets: NDArray[np.intp]) -> NDArray[np.float64]:
        values: NDArray[np.float64] = -(sets.sum(axis=1).astype(np.float64) ** 2)
        return values

    def extremes(self) -> tuple[float, float]:
        return -36.0, 0.0


def test_the_colex_table_of_any_scores() -> None:
    dense = gaussian(4, 3)
    assert colex_table(dense, 3) is dense.values
    assert colex_table(dense, 2).tolist() == [dense.score(mask) for mask in bounded_subsets(4, 2)]
    assert colex_table(dense, 4)[-1] == -inf
    sparse = SparseScores(2, {0b01: -1.0})
    assert colex_table(sparse, 2).tolist() == [0, -1, -inf, -inf]
    counted: LocalScores = Counted()
    assert colex_table(counted, 2)[:4].tolist() == [0, 0, -1, -1]


def test_ten_thousand_variables_in_pairs_fit_in_memory() -> None:
    n = 10_000
    values = np.zeros(count_bounded_subsets(n, 2), dtype=np.float64)
    values[-1] = -3.0
    values.setflags(write=False)
    scores = DenseScores(n, 2, values)
    assert scores.score(1 << n - 1 | 1 << n - 2) == -3.0
    assert scores.batch(np.array([[0, 1], [n - 2, n - 1]])).tolist() == [0.0, -3.0]


def test_equal_sparse_scores_have_equal_tables() -> None:
    one = SparseScores(2, {2: np.float64(-1), 1: 1})
    other = SparseScores(2, {0: 0.0, 1: 1.0, 2: -1.0})
    assert repr(one.table) == repr(other.table) == "{0: 0.0, 1: 1.0, 2: -1.0}"


def test_the_extremes_are_over_all_scores() -> None:
    assert DenseScores(1, 1, np.array([0.0, -2.0])).extremes() == (-2.0, 0.0)
    assert SparseScores(2, {0b01: 3.0}).extremes() == (0.0, 3.0)
